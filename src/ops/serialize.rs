//! Serializers for single fields of reports.

use serde::{Serialize, Serializer};

use crate::error::Error;

pub(super) use crate::metadata::serialize::float;

/// Serializes the message of an error.
pub(super) fn message<S: Serializer>(error: &&Error, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(error)
}

/// Serializes the message of an error, or nothing.
pub(super) fn reason<S: Serializer>(error: &Option<Error>, out: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(Error::to_string).serialize(out)
}

/// Serializes floats; those that JSON cannot hold are strings, as [`float`] writes them.
pub(super) fn floats<S: Serializer>(floats: &[f32], out: S) -> Result<S::Ok, S::Error> {
    struct Float(f32);
    impl Serialize for Float {
        fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
            match self.0.is_finite() {
                true => out.serialize_f32(self.0),
                false => float(&f64::from(self.0), out),
            }
        }
    }
    out.collect_seq(floats.iter().map(|number| Float(*number)))
}
