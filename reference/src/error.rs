//! Errors of running a model.

use std::fmt;

use weighbridge::ErrorKind;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a model cannot be run, or an input cannot be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The model's files cannot be read, or break their format.
    Model(weighbridge::Error),
    /// The model has a part that no operation of this crate computes.
    Unsupported(String),
    /// A tensor does not have the shape that the config says.
    Mismatch(String),
    /// The input does not suit the model: a token beyond the vocabulary, a spectrum of another width.
    Input(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::Unsupported(text) => write!(f, "unsupported: {text}"),
            Self::Mismatch(text) => write!(f, "mismatch: {text}"),
            Self::Input(text) => write!(f, "input: {text}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Model(error) => Some(error),
            _ => None,
        }
    }
}

impl From<weighbridge::Error> for Error {
    fn from(error: weighbridge::Error) -> Self {
        Self::Model(error)
    }
}

impl From<Error> for weighbridge::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Model(error) => error,
            Error::Unsupported(_) => Self::new(ErrorKind::Unsupported, error.to_string()),
            Error::Mismatch(fault) => Self::new(ErrorKind::Malformed, fault),
            Error::Input(fault) => Self::new(ErrorKind::Mismatch, fault),
        }
    }
}
