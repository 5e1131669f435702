//! How single fields of reports are serialized.

use serde::{Serialize, Serializer};

use crate::error::Error;

pub(super) use crate::metadata::serialize::float;

/// The message of an error.
pub(super) fn message<S: Serializer>(error: &&Error, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(error)
}

/// The message of an error, where there is one.
pub(super) fn reason<S: Serializer>(error: &Option<Error>, out: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(Error::to_string).serialize(out)
}
