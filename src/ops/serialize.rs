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
