//! Options of llama-quantize.

use std::collections::BTreeSet;

use super::setting::{self, MetadataSetting};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::recipe::FileType;
use crate::recipe::ImportanceMatrix;

/// The requested file type, and exceptions from its rules.
#[derive(Clone, Debug)]
pub struct LlamaOptions {
    /// The file type, a mix of dtypes.
    pub file_type: FileType,
    /// `--pure`: the base dtype for every tensor, without rules.
    pub pure: bool,
    /// `--leave-output-tensor`: `output.weight` is not quantized.
    pub leave_output: bool,
    /// `--output-tensor-type`.
    pub output: Option<DType>,
    /// `--token-embedding-type`.
    pub token_embedding: Option<DType>,
    /// `--tensor-type`; the first match applies.
    pub tensor_types: Vec<TensorType>,
    /// `--prune-layers`: layers to remove.
    pub pruned: BTreeSet<u64>,
    /// `--allow-requantize`.
    pub allow_requantize: bool,
    /// `--keep-split`: tensors stay in their files, in the given order.
    pub keep_split: bool,
    /// Whether there is an importance matrix. Some rules depend on it.
    pub importance: bool,
    /// `--override-kv`.
    pub overrides: Vec<MetadataSetting>,
    /// Whether what `config.json` says and GGUF has no key for is kept under keys of this library's
    /// own. Without them, the file has only the keys that llama.cpp's programs write.
    pub extra_keys: bool,
    /// Whether a model that llama.cpp could not load is written, for other readers.
    pub allow_unloadable: bool,
}

impl LlamaOptions {
    /// Default options for a file type.
    pub fn new(file_type: FileType) -> Self {
        Self {
            file_type,
            pure: false,
            leave_output: false,
            output: None,
            token_embedding: None,
            tensor_types: Vec::new(),
            pruned: BTreeSet::new(),
            allow_requantize: false,
            keep_split: false,
            importance: false,
            overrides: Vec::new(),
            extra_keys: true,
            allow_unloadable: false,
        }
    }

    /// Quantizes with an importance matrix, and states it in the metadata: `file` is the path as
    /// the caller knows it. A matrix without entries is ignored.
    pub fn with_importance(mut self, matrix: &ImportanceMatrix, file: &str) -> Self {
        self.importance = !matrix.is_empty();
        if self.importance {
            self.overrides.extend(setting::importance(matrix, file));
        }
        self
    }
}

/// A dtype for tensors whose names contain a match of a regular expression.
#[derive(Clone, Debug)]
pub struct TensorType {
    #[cfg(feature = "regex")]
    pattern: regex::bytes::Regex,
    /// Without the feature there is no tensor type.
    #[cfg(not(feature = "regex"))]
    pattern: std::convert::Infallible,
    pub(super) dtype: DType,
}

impl TensorType {
    /// Parses `attn_v=q6_k`. As in llama-quantize, the expression is converted to lower case, and
    /// cannot contain `=`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the text has another form, or names a dtype that cannot be quantized to;
    /// `Unsupported` without the cargo feature `regex`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty());
        let (pattern, dtype) = parts.ok_or_else(|| {
            Error::mismatch(format!("\"{text}\" is not a tensor type"))
                .advise("write a regular expression for the name, and a dtype: attn_v=q6_k")
        })?;
        Ok(Self { pattern: compiled(pattern)?, dtype: target(dtype)? })
    }

    /// Whether the expression matches a part of the name.
    #[cfg(feature = "regex")]
    pub fn matches(&self, name: &str) -> bool {
        self.pattern.is_match(name.as_bytes())
    }

    /// Whether the expression matches a part of the name.
    #[cfg(not(feature = "regex"))]
    pub fn matches(&self, _: &str) -> bool {
        match self.pattern {}
    }
}

impl std::fmt::Display for TensorType {
    #[cfg(feature = "regex")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.pattern, self.dtype)
    }

    #[cfg(not(feature = "regex"))]
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pattern {}
    }
}

#[cfg(feature = "regex")]
fn compiled(pattern: &str) -> Result<regex::bytes::Regex> {
    // Bytes, as in std::regex: `\d` is ten digits.
    let mut builder = regex::bytes::RegexBuilder::new(&pattern.to_ascii_lowercase());
    builder.unicode(false).build().map_err(|error| {
        // The library draws the expression with a mark below: too many lines for a message.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::mismatch(format!("\"{pattern}\" is not a valid regular expression: {reason}"))
            .advise("look-around and back references, which std::regex supports, are not supported here")
    })
}

#[cfg(not(feature = "regex"))]
fn compiled(_: &str) -> Result<std::convert::Infallible> {
    Err(Error::unsupported("this build of weighbridge cannot match patterns of tensor names")
        .advise("enable the cargo feature `regex`"))
}

/// Whether tensors of a file can be quantized or converted to a dtype. ggml's 8-bit dtypes for
/// activations do not occur in files.
pub(super) fn is_target(dtype: DType) -> bool {
    dtype.is_ggml()
        && dtype.descriptor().quantizer.is_some()
        && !matches!(dtype, DType::Q8_1 | DType::Q8_K)
}

/// The dtype with this name, if a tensor of a GGUF file can be quantized or converted to it.
///
/// # Errors
///
/// `Mismatch` if there is no such dtype.
pub fn target(name: &str) -> Result<DType> {
    let possible = |dtype: &DType| is_target(*dtype);
    DType::from_name(name).filter(possible).ok_or_else(|| {
        let names = crate::dtype::DTYPES.iter().map(|row| row.dtype).filter(possible);
        let names: Vec<&str> = names.map(DType::name).collect();
        Error::mismatch(format!("\"{name}\" is not a dtype that llama.cpp quantizes to"))
            .advise(format!("one of {}", names.join(", ")))
    })
}
