//! Changes of metadata that quantizing makes.

use super::{Hparams, LlamaOptions, SourceTensor};
use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::Value;
use crate::recipe::FileType;
use crate::recipe::ImportanceMatrix;

/// A metadata key and the value to set.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataSetting {
    /// The key.
    pub key: String,
    /// The value.
    pub value: SettingValue,
}

/// A value to set.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SettingValue {
    U32(u32),
    F32(f32),
    Bool(bool),
    String(String),
}

impl SettingValue {
    /// The value in the form of [`Metadata`](crate::metadata::Metadata).
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::U32(value) => Value::U32(*value),
            Self::F32(value) => Value::F32(*value),
            Self::Bool(value) => Value::Bool(*value),
            Self::String(value) => Value::String(Text::new(value.as_bytes())),
        }
    }
}

impl MetadataSetting {
    /// Creates a setting.
    pub fn new(key: impl Into<String>, value: SettingValue) -> Self {
        Self { key: key.into(), value }
    }

    /// Parses `key=type:value`, where the type is `int`, `float`, `bool` or `str`. Like
    /// llama-quantize, this stores integers as `u32`, without their sign.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the text has another form, or the value does not fit the type.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |what: String| {
            Error::mismatch(format!("\"{text}\" is not a setting: {what}"))
                .advise("write key=type:value, where the type is int, float, bool or str")
        };
        let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, rest) = parts.ok_or_else(|| bad("the key is missing".to_owned()))?;
        let parts = rest.split_once(':');
        let (kind, value) =
            parts.ok_or_else(|| bad("the type of the value is missing".to_owned()))?;
        let wrong = || bad(format!("\"{value}\" is not a value of type {kind}"));
        let value = match kind {
            "int" => {
                let number: i64 = value.parse().map_err(|_| wrong())?;
                let number = u32::try_from(number.unsigned_abs()).map_err(|_| wrong())?;
                SettingValue::U32(number)
            }
            // Through `f64`, to round as upstream does.
            #[expect(clippy::cast_possible_truncation, reason = "the key holds no more")]
            "float" => SettingValue::F32(value.parse::<f64>().map_err(|_| wrong())? as f32),
            "bool" => SettingValue::Bool(value.parse().map_err(|_| wrong())?),
            "str" => SettingValue::String(value.to_owned()),
            _ => return Err(bad(format!("unknown type \"{kind}\""))),
        };
        Ok(Self::new(key, value))
    }
}

/// The length in bytes to which upstream truncates strings (`llama_model_kv_override`).
const TEXT: usize = 127;

/// Keys that describe the importance matrix and its file.
pub(super) fn importance(matrix: &ImportanceMatrix, file: &str) -> Vec<MetadataSetting> {
    let text = |text: &str| {
        let end = (0..=TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        SettingValue::String(text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned())
    };
    let entries = u32::try_from(matrix.len()).unwrap_or(u32::MAX);
    let mut settings = vec![MetadataSetting::new("quantize.imatrix.file", text(file))];
    // If there are several texts, upstream names the first one.
    let dataset = matrix.datasets().first().map(|name| text(name));
    settings.extend(dataset.map(|name| MetadataSetting::new("quantize.imatrix.dataset", name)));
    settings
        .push(MetadataSetting::new("quantize.imatrix.entries_count", SettingValue::U32(entries)));
    let chunks = Some(matrix.chunks()).filter(|chunks| *chunks > 0).map(SettingValue::U32);
    settings
        .extend(chunks.map(|chunks| MetadataSetting::new("quantize.imatrix.chunks_count", chunks)));
    settings
}

/// Keys that describe how a model is split into files.
pub(super) static SPLIT: &[&str] = &["split.no", "split.count", "split.tensors.count"];

/// Marks a file type that was derived from the tensors (`LLAMA_FTYPE_GUESSED`).
const GUESSED: u32 = 1024;

/// The keys of a quantized model, in llama-quantize's order.
pub(super) fn settings(
    model: &Hparams,
    tensors: &[SourceTensor<'_>],
    options: &LlamaOptions,
    layers: Option<u64>,
) -> Vec<MetadataSetting> {
    let mut all = vec![MetadataSetting::new("general.quantization_version", SettingValue::U32(2))];
    let number = options.file_type.descriptor().number;
    let number = number.or(model.file_type).unwrap_or_else(|| guess(tensors));
    all.push(MetadataSetting::new("general.file_type", SettingValue::U32(number)));
    all.extend(options.overrides.iter().cloned());
    if let Some(layers) = layers {
        let layers = SettingValue::U32(u32::try_from(layers).unwrap_or(u32::MAX));
        all.push(MetadataSetting::new(format!("{}.block_count", model.architecture), layers));
    }
    // Of two settings with the same key, the later one applies.
    let mut settings: Vec<MetadataSetting> = Vec::new();
    for setting in all {
        settings.retain(|earlier| earlier.key != setting.key);
        settings.push(setting);
    }
    settings
}

/// The file type of a model that does not state it: that of its most frequent dtype, counted as in
/// src/llama-model-loader.cpp. Of two equally frequent dtypes, the one that reached the count first
/// applies.
fn guess(tensors: &[SourceTensor<'_>]) -> u32 {
    let mut order: Vec<&SourceTensor<'_>> = tensors.iter().collect();
    order.sort_by(|a, b| super::by_layer(a.name, b.name));
    let mut counts: Vec<(DType, usize)> = Vec::new();
    let mut most = (DType::F32, 0);
    for tensor in order {
        if !counts.iter().any(|(dtype, _)| *dtype == tensor.dtype) {
            counts.push((tensor.dtype, 0));
        }
        let count = counts.iter_mut().find(|(dtype, _)| *dtype == tensor.dtype);
        let Some((_, count)) = count else { continue };
        *count = count.saturating_add(1);
        if *count > most.1 {
            most = (tensor.dtype, *count);
        }
    }
    // Q4_K is an alias of Q4_K_M; NVFP4 is the only file type that is read and never written.
    let number = match most.0 {
        DType::NVFP4 => Some(39),
        dtype => FileType::from_name(dtype.name()).and_then(|found| found.descriptor().number),
    };
    number.unwrap_or(0) | GUESSED
}
