//! Errors of questions.

use serde_json::{Value, json};
use weighbridge::bytes::Text;
use weighbridge::{Error, ErrorKind};

/// The version of the answers' form: that of the program's JSON.
pub(crate) const SCHEMA: u32 = 1;

/// An error as JSON, in the form that the program gives errors with `--json`.
pub fn problem(error: &Error) -> Value {
    json!({
        "schema": SCHEMA,
        "kind": error.kind().name(),
        "message": error.to_string(),
        "path": error.path().map(|path| Text::from_path(path).spelling()),
        "tensor": error.tensor(),
        "offset": error.offset(),
        "advice": error.advice(),
    })
}

pub(crate) fn not_found(fault: impl Into<String>) -> Error {
    Error::new(ErrorKind::NotFound, fault.into())
}

pub(crate) fn mismatch(fault: impl Into<String>) -> Error {
    Error::new(ErrorKind::Mismatch, fault.into())
}
