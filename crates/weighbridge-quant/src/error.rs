//! The error type of this crate.

use std::borrow::Cow;
use std::fmt;

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A request that was refused. The message has the value found and the value allowed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    fault: String,
    advice: Option<Cow<'static, str>>,
}

/// The class of an [`Error`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The dtype has no codec, quantizer or repacking of the requested kind.
    Unsupported,
    /// The lengths, shapes or dtypes of the arguments do not fit each other.
    Mismatch,
}

impl Error {
    pub(crate) fn unsupported(fault: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Unsupported, fault: fault.into(), advice: None }
    }

    pub(crate) fn mismatch(fault: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Mismatch, fault: fault.into(), advice: None }
    }

    pub(crate) fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Advice on what to do about the error, if there is any. Not part of the message.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault)
    }
}

impl std::error::Error for Error {}
