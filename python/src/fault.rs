//! Errors of the library as Python's exceptions.

use pyo3::prelude::*;
use weighbridge::write::Advice;
use weighbridge::{Error, ErrorKind};

/// The exception of an error: see `weighbridge/_errors.py`.
pub(crate) fn exception(error: &Error) -> PyErr {
    made(error, false)
}

/// The exception of looking up a name in a model, which need not exist there.
pub(crate) fn lookup(error: &Error) -> PyErr {
    made(error, true)
}

/// The number of the operating system's error that caused an error.
fn errno(error: &Error) -> Option<i32> {
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            return io.raw_os_error();
        }
        cause = found.source();
    }
    None
}

/// The advice of an error, with the names of Python's arguments.
fn advice(error: &Error) -> Option<&str> {
    match error.option() {
        Some(Advice::AllowIncomplete) => Some(
            "fetch the missing files, or write the incomplete model with allow_incomplete=True",
        ),
        Some(Advice::AllowUnloadable) => Some("allow_incomplete=True writes it for other readers"),
        _ => error.advice(),
    }
}

fn made(error: &Error, in_model: bool) -> PyErr {
    Python::attach(|py| {
        let made = py.import("weighbridge._errors").and_then(|module| {
            let path = error.path().map(|path| path.to_path_buf());
            let fields = (
                error.kind().name(),
                error.to_string(),
                path,
                error.tensor(),
                error.key(),
                error.offset(),
                advice(error),
                in_model,
                errno(error),
            );
            module.getattr("exception")?.call1(fields)
        });
        match made {
            Ok(exception) => PyErr::from_value(exception),
            Err(error) => error,
        }
    })
}

/// The error of an argument.
pub(crate) fn usage(fault: String) -> PyErr {
    exception(&Error::new(ErrorKind::Mismatch, fault))
}

/// Results of the library as Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception of the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for weighbridge::Result<T> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}
