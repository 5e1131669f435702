//! What llama-quantize can be told.

use std::collections::BTreeSet;

use super::keys::Setting;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::recipe::FileType;
use crate::recipe::ImportanceMatrix;

/// What is to be made, and where it differs from the rules.
#[derive(Clone, Debug)]
pub struct Options {
    /// The mix of dtypes.
    pub file_type: FileType,
    /// `--pure`: the base for every tensor, rules or not.
    pub pure: bool,
    /// `--leave-output-tensor`: `output.weight` stays as it is.
    pub leave_output: bool,
    /// `--output-tensor-type`.
    pub output: Option<DType>,
    /// `--token-embedding-type`.
    pub token_embedding: Option<DType>,
    /// `--tensor-type`, the first that matches counts.
    pub tensor_types: Vec<TensorType>,
    /// `--prune-layers`: layers to be taken out.
    pub pruned: BTreeSet<u64>,
    /// `--allow-requantize`.
    pub allow_requantize: bool,
    /// `--keep-split`: tensors stay in their files, in the order that they are given in.
    pub keep_split: bool,
    /// There is an importance matrix. Some rules are for models without, some for models with one.
    pub importance: bool,
    /// `--override-kv`.
    pub overrides: Vec<Setting>,
}

impl Options {
    /// The rules of a file type, and nothing else.
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
        }
    }

    /// Quantizes with an importance matrix, and says so in the metadata: `file` is the path as the
    /// caller knows it. One without entries counts as none.
    pub fn with_importance(mut self, matrix: &ImportanceMatrix, file: &str) -> Self {
        self.importance = !matrix.is_empty();
        if self.importance {
            self.overrides.extend(super::keys::importance(matrix, file));
        }
        self
    }
}

/// A dtype for tensors whose names match a regular expression somewhere.
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
    /// Reads `attn_v=q6_k`. As in llama-quantize, the expression is put in lower case, and an `=`
    /// cannot stand in it.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it is not written so, or names a dtype that nothing is quantized to;
    /// `Unsupported` without the cargo feature `regex`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts = text.split_once('=').filter(|(pattern, _)| !pattern.is_empty());
        let (pattern, dtype) = parts.ok_or_else(|| {
            Error::mismatch(format!("\"{text}\" is no tensor type"))
                .advise("write a part of the name and a dtype: attn_v=q6_k")
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

#[cfg(feature = "regex")]
fn compiled(pattern: &str) -> Result<regex::bytes::Regex> {
    // Bytes, as in std::regex: `\d` is ten digits.
    let mut builder = regex::bytes::RegexBuilder::new(&pattern.to_ascii_lowercase());
    builder.unicode(false).build().map_err(|error| {
        // The library draws the expression with a mark below: too many lines for a message.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::mismatch(format!("\"{pattern}\" is no regular expression: {reason}"))
            .advise("lookaround and back references, which std::regex has, are not known here")
    })
}

#[cfg(not(feature = "regex"))]
fn compiled(_: &str) -> Result<std::convert::Infallible> {
    Err(Error::unsupported("this build of weighbridge cannot match patterns of tensor names")
        .advise("enable the cargo feature `regex`"))
}

/// Whether tensors of a file are quantized or converted to a dtype. ggml's 8 bits for activations
/// are not for files.
pub(super) fn is_target(dtype: DType) -> bool {
    dtype.is_ggml()
        && dtype.descriptor().quantizer.is_some()
        && !matches!(dtype, DType::Q8_1 | DType::Q8_K)
}

/// The dtype of a name, if a tensor of a GGUF file can be quantized or converted to it.
///
/// # Errors
///
/// `Mismatch` if it is none.
pub fn target(name: &str) -> Result<DType> {
    let possible = |dtype: &DType| is_target(*dtype);
    DType::from_name(name).filter(possible).ok_or_else(|| {
        let names = crate::dtype::DTYPES.iter().map(|row| row.dtype).filter(possible);
        let names: Vec<&str> = names.map(DType::name).collect();
        Error::mismatch(format!("\"{name}\" is no dtype that llama.cpp quantizes to"))
            .advise(format!("one of {}", names.join(", ")))
    })
}
