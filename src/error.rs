//! The library's single error type: a kind, and a message with what is wrong, where, and what to
//! do.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::Text;

/// `Result` with this library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: the fault, its place (file, tensor, byte offset), and often advice.
///
/// The message abbreviates very long values in the middle; [`path`](Self::path),
/// [`tensor`](Self::tensor) and [`key`](Self::key) return them in full.
///
/// One type serves every operation, because any of them may have a path, container, tensor and
/// offset as context. Programs branch on [`kind`](Self::kind); people read the message:
///
/// ```text
/// models/tiny.gguf: tensor "blk.0.attn_q.weight": 96 bytes end at 4128, but the file has 4100 (at byte 4032)
/// ```
#[derive(Clone)]
pub struct Error(Box<ErrorInner>);

#[derive(Clone)]
struct ErrorInner {
    kind: ErrorKind,
    fault: Cow<'static, str>,
    advice: Option<Cow<'static, str>>,
    /// The option that the advice names, and the advice with `{}` for its name.
    option: Option<(AdvisedOption, Cow<'static, str>)>,
    path: Option<PathBuf>,
    tensor: Option<String>,
    key: Option<String>,
    offset: Option<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// An option that an advice names, by its meaning. The library does not know what its front ends call their
/// options: a front end spells them with [`Error::advice_in`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AdvisedOption {
    /// Open all safetensors files of a directory.
    AllFiles,
    /// Write a model that lacks tensors.
    AllowIncomplete,
    /// Quantize values that are not finite.
    AllowNonfinite,
    /// Quantize tensors that are quantized already.
    AllowRequantize,
    /// Write a model that the reader of its container does not load.
    AllowUnloadable,
    /// Plan what would be written.
    DryRun,
    /// Find all values that are not finite, or quantize them.
    FindNonfinite,
    /// The folder of a download.
    Folder,
    /// The importance matrix of a quantization.
    Importance,
    /// Leave out the tensors that no rule recognizes; a glob for their names follows.
    LeaveOut,
    /// Accept what the most lenient reader accepts.
    Lenient,
    /// Read files without maps.
    NoMap,
    /// Contact no server.
    Offline,
    /// Replace what exists.
    Overwrite,
    /// Quantize tensors that are quantized already to a file, and create a model from it.
    RequantizeFirst,
    /// Write the shares of several ranks.
    Shares,
    /// Apply the strictest reader's rules.
    Strict,
    /// Set the dtype of tensors by name.
    TensorType,
    /// Choose the weights whose importance is used.
    Weights,
}

impl AdvisedOption {
    /// The name in this library.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllFiles => "OpenOptions::all_files",
            Self::AllowIncomplete => "WriteOptions::allow_incomplete",
            Self::AllowNonfinite => "WriteOptions::allow_nonfinite",
            Self::AllowRequantize | Self::RequantizeFirst => "LlamaOptions::allow_requantize",
            Self::AllowUnloadable => "ConvertOptions::allow_unloadable",
            Self::DryRun => "WritePlan::report_at",
            Self::FindNonfinite => {
                "VerifyOptions::deep finds all such values; WriteOptions::allow_nonfinite"
            }
            Self::Folder => "PullOptions::folder",
            Self::Importance => "LlamaOptions::with_importance",
            Self::LeaveOut => "Model::leave_out",
            Self::Lenient => "Strictness::Lenient",
            Self::NoMap => "OpenOptions::read",
            Self::Offline => "Network::offline",
            Self::Overwrite => "WriteOptions::overwrite",
            Self::Shares => "ConvertOptions::shares",
            Self::Strict => "Strictness::Strict",
            Self::TensorType => "LlamaOptions::tensor_types",
            Self::Weights => "ImportanceMatrix::retain",
        }
    }
}

/// The class of an [`Error`]: what would have to change for the call to succeed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system reported an error: permission, device, interrupted transfer.
    Io,
    /// The file, tensor or key does not exist.
    NotFound,
    /// The bytes belong to no container that this library reads.
    UnknownContainer,
    /// The file breaks its format's rules, is truncated, or contradicts itself.
    Malformed,
    /// The file may be valid, but this library does not support the request.
    Unsupported,
    /// The file exceeds the [`Limits`](crate::Limits).
    LimitExceeded,
    /// The caller's request does not fit the model or the destination: a range, a shape, a dtype, a
    /// file that already exists.
    Mismatch,
    /// The caller cancelled the operation.
    Cancelled,
    /// A device has less memory than requested.
    OutOfMemory,
    /// A device failed or was lost.
    Device,
}

impl ErrorKind {
    /// The name in reports: `not_found`, `malformed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::NotFound => "not_found",
            Self::UnknownContainer => "unknown_container",
            Self::Malformed => "malformed",
            Self::Unsupported => "unsupported",
            Self::LimitExceeded => "limit_exceeded",
            Self::Mismatch => "mismatch",
            Self::Cancelled => "cancelled",
            Self::OutOfMemory => "out_of_memory",
            Self::Device => "device",
        }
    }

    /// The exit status of the program `weighbridge` for this kind. The C library returns the same
    /// numbers.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Mismatch => 2,
            Self::Malformed | Self::UnknownContainer | Self::LimitExceeded => 3,
            Self::Unsupported => 4,
            Self::Io | Self::NotFound | Self::OutOfMemory | Self::Device => 5,
            Self::Cancelled => 130,
        }
    }
}

impl Error {
    /// An error of the caller's own, for a `Device` or a `ReadAt` that this library does not know.
    #[cold]
    pub fn new(kind: ErrorKind, fault: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorInner {
            kind,
            fault: fault.into(),
            advice: None,
            option: None,
            path: None,
            tensor: None,
            key: None,
            offset: None,
            source: None,
        }))
    }

    pub(crate) fn malformed(fault: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Malformed, fault)
    }

    pub(crate) fn unsupported(fault: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, fault)
    }

    pub(crate) fn not_found(fault: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::NotFound, fault)
    }

    pub(crate) fn mismatch(fault: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Mismatch, fault)
    }

    /// `what` is in the plural and carries its unit: "header bytes", "array levels".
    pub(crate) fn limit(what: &str, found: u64, allowed: u64, field: &str) -> Self {
        Self::new(ErrorKind::LimitExceeded, format!("{found} {what}, but the limit is {allowed}"))
            .advise(format!("for a file that you trust, the library can raise Limits::{field}"))
    }

    /// The error of a `Device` that has less memory than requested. `available` is the number of
    /// bytes that it could have provided, if known.
    #[cold]
    pub fn out_of_memory(device: &str, requested: u64, available: Option<u64>) -> Self {
        let fault = match available {
            Some(available) => {
                format!("{device} has no memory for {requested} bytes: {available} are available")
            }
            None => format!("{device} has no memory for {requested} bytes"),
        };
        Self::new(ErrorKind::OutOfMemory, fault)
    }

    /// The error of a `Device` that is asked for bytes that its buffer does not have.
    #[cold]
    pub fn outside_buffer(range: &Range<u64>, len: u64) -> Self {
        let Range { start, end } = range;
        Self::mismatch(format!("bytes {start} to {end} exceed the buffer of {len} bytes"))
    }

    /// Adds the error that caused this one, unless a deeper call already did.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source.get_or_insert_with(|| Arc::from(source.into()));
        self
    }

    /// An error of the operating system. `doing` says what failed: "cannot create the file".
    #[cold]
    pub fn io(doing: &'static str, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        let mut this = Self::new(kind, doing);
        this.0.source = Some(Arc::new(error));
        this
    }

    /// Adds the file, unless a deeper call already did.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_path_buf());
        self
    }

    /// Adds the tensor, unless a deeper call already did.
    #[must_use]
    pub fn in_tensor(mut self, name: impl fmt::Display) -> Self {
        self.0.tensor.get_or_insert_with(|| name.to_string());
        self
    }

    /// Adds the metadata key, unless a deeper call already did.
    #[must_use]
    pub fn in_key(mut self, name: impl fmt::Display) -> Self {
        self.0.key.get_or_insert_with(|| name.to_string());
        self
    }

    /// Adds the byte offset in the file at which the faulty item starts.
    pub(crate) fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The fault, without the place.
    pub(crate) fn fault(&self) -> &str {
        &self.0.fault
    }

    /// Adds advice for the user, unless a deeper call already did.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<Cow<'static, str>>) -> Self {
        let advice = advice.into();
        // The advice may contain names from files; they are escaped for terminals.
        self.0.advice.get_or_insert_with(|| Text::new(advice.as_bytes()).brief().into());
        self
    }

    /// Adds advice that names an option, as `{}`, unless there is advice.
    pub(crate) fn advise_option(
        mut self,
        advice: impl Into<Cow<'static, str>>,
        option: AdvisedOption,
    ) -> Self {
        if self.0.advice.is_none() {
            let advice = advice.into();
            self = self.advise(advice.replace("{}", option.name()));
            self.0.option = Some((option, advice));
        }
        self
    }

    /// The same error with other advice, if its own names an option that the caller does not have.
    pub(crate) fn advise_instead(
        mut self,
        lacking: AdvisedOption,
        advice: &'static str,
        option: AdvisedOption,
    ) -> Self {
        if self.0.option.as_ref().is_some_and(|(named, _)| *named == lacking) {
            (self.0.advice, self.0.option) = (None, None);
            return self.advise_option(advice, option);
        }
        self
    }

    /// The same error, where everything that does not fit comes from the model's own files: a
    /// mismatch between them is a fault of the model, not of the caller's request.
    pub(crate) fn of_model(mut self) -> Self {
        if self.0.kind == ErrorKind::Mismatch {
            self.0.kind = ErrorKind::Malformed;
        }
        self
    }

    /// The message without the path, for notes that state the path themselves.
    pub(crate) fn without_path(mut self) -> Self {
        self.0.path = None;
        self
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory concerned, if any.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The stored name of the tensor concerned, if any.
    pub fn tensor(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    /// The metadata key concerned, if any.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The byte offset in [`path`](Self::path) at which the faulty item starts, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The option that the advice names, if it names one.
    pub fn option(&self) -> Option<AdvisedOption> {
        self.0.option.as_ref().map(|(option, _)| *option)
    }

    /// The advice in the words of a front end, which spells the option that it names.
    pub fn advice_in<S: AsRef<str>>(
        &self,
        spell: impl Fn(AdvisedOption) -> S,
    ) -> Option<Cow<'_, str>> {
        match &self.0.option {
            Some((option, advice)) => {
                let advice = advice.replace("{}", spell(*option).as_ref());
                Some(Text::new(advice.as_bytes()).brief().into())
            }
            None => self.advice().map(Cow::Borrowed),
        }
    }

    /// Advice on what to do, if there is any. Not part of the message.
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if let Some(path) = &inner.path {
            write!(f, "{}: ", Text::from_path(path).brief())?;
        }
        if let Some(tensor) = &inner.tensor {
            write!(f, "tensor \"{}\": ", Text::new(tensor.as_bytes()).brief())?;
        }
        if let Some(key) = &inner.key {
            write!(f, "key \"{}\": ", Text::new(key.as_bytes()).brief())?;
        }
        write!(f, "{}", Text::new(inner.fault.as_bytes()).brief())?;
        if let Some(offset) = inner.offset {
            write!(f, " (at byte {offset})")?;
        }
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl From<weighbridge_quant::Error> for Error {
    fn from(error: weighbridge_quant::Error) -> Self {
        let kind = match error.kind() {
            weighbridge_quant::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Mismatch,
        };
        let this = Self::new(kind, error.to_string());
        match error.advice() {
            Some(advice) => this.advise(advice.to_owned()),
            None => this,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
