//! Errors of the library as Python's exceptions.

use pyo3::prelude::*;
use weighbridge::{AdvisedOption, Error, ErrorKind};

/// The exception of an error: see `weighbridge/_errors.py`.
pub(crate) fn exception(error: &Error) -> PyErr {
    made(error, false)
}

/// The exception of looking up a name in a model, which need not exist there.
pub(crate) fn lookup(error: &Error) -> PyErr {
    made(error, true)
}

/// "File exists", on every system.
const EEXIST: i32 = 17;

/// The number of the operating system's error that caused an error, or that says the same.
fn errno(error: &Error) -> Option<i32> {
    if error.kind() == ErrorKind::Mismatch && error.option() == Some(AdvisedOption::Overwrite) {
        return Some(EEXIST);
    }
    let mut cause = std::error::Error::source(error);
    while let Some(found) = cause {
        if let Some(io) = found.downcast_ref::<std::io::Error>() {
            return io.raw_os_error();
        }
        cause = found.source();
    }
    None
}

/// The name of an option in Python.
fn spelled(option: AdvisedOption) -> &'static str {
    match option {
        AdvisedOption::AllFiles => "all_files=True",
        AdvisedOption::AllowIncomplete | AdvisedOption::AllowUnloadable => "allow_incomplete=True",
        AdvisedOption::AllowNonfinite | AdvisedOption::FindNonfinite => "allow_nonfinite=True",
        AdvisedOption::AllowRequantize => "allow_requantize=True",
        AdvisedOption::Folder => "folder=",
        AdvisedOption::Importance => "`quantize(imatrix=)`",
        AdvisedOption::Lenient => "strictness=\"lenient\"",
        AdvisedOption::NoMap => "no_map=True",
        AdvisedOption::Overwrite => "overwrite=True",
        AdvisedOption::RequantizeFirst => {
            "`quantize(..., allow_requantize=True)`, whose file replaces the source"
        }
        AdvisedOption::Shares => "shards=",
        AdvisedOption::Strict => "strictness=\"strict\"",
        AdvisedOption::TensorType => "tensor_type=",
        AdvisedOption::Weights => "include_weights= or exclude_weights=",
        other => other.name(),
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
                error.advice_in(spelled),
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
