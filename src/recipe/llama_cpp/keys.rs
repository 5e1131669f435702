//! What quantizing changes in the metadata.

use super::{Hparams, Options, Stored};
use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::Value;
use crate::recipe::FileType;
use crate::recipe::ImportanceMatrix;

/// A key and the value that it is to have.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key.
    pub key: String,
    /// The value.
    pub value: SettingValue,
}

/// A value that can be set.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum SettingValue {
    U32(u32),
    F32(f32),
    Bool(bool),
    String(String),
}

impl SettingValue {
    /// As a value of metadata.
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::U32(value) => Value::U32(*value),
            Self::F32(value) => Value::F32(*value),
            Self::Bool(value) => Value::Bool(*value),
            Self::String(value) => Value::String(Text::new(value.as_bytes())),
        }
    }
}

impl Setting {
    /// A key and its value.
    pub fn new(key: impl Into<String>, value: SettingValue) -> Self {
        Self { key: key.into(), value }
    }

    /// Reads `key=type:value`, where the type is `int`, `float`, `bool` or `str`. llama-quantize
    /// stores integers as `u32`, without their sign, and so does this.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it is not written so, or the value does not fit.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |what: String| {
            Error::mismatch(format!("\"{text}\" is no setting: {what}"))
                .advise("write key=type:value, where the type is int, float, bool or str")
        };
        let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, rest) = parts.ok_or_else(|| bad("it has no key".to_owned()))?;
        let parts = rest.split_once(':');
        let (kind, value) = parts.ok_or_else(|| bad("its value has no type".to_owned()))?;
        let wrong = || bad(format!("\"{value}\" is no {kind}"));
        let value = match kind {
            "int" => {
                let number: i64 = value.parse().map_err(|_| wrong())?;
                let number = u32::try_from(number.unsigned_abs()).map_err(|_| wrong())?;
                SettingValue::U32(number)
            }
            // Through `f64`, as upstream rounds it.
            #[expect(clippy::cast_possible_truncation, reason = "the key holds no more")]
            "float" => SettingValue::F32(value.parse::<f64>().map_err(|_| wrong())? as f32),
            "bool" => SettingValue::Bool(value.parse().map_err(|_| wrong())?),
            "str" => SettingValue::String(value.to_owned()),
            _ => return Err(bad(format!("\"{kind}\" is no type"))),
        };
        Ok(Self::new(key, value))
    }
}

/// Bytes of a text that upstream has room for (`llama_model_kv_override`): the rest is cut off.
const TEXT: usize = 127;

/// What is said of the importance matrix that was used, and of the file that it came from.
pub(super) fn importance(matrix: &ImportanceMatrix, file: &str) -> Vec<Setting> {
    let text = |text: &str| {
        let end = (0..=TEXT.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        SettingValue::String(text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned())
    };
    let entries = u32::try_from(matrix.len()).unwrap_or(u32::MAX);
    let mut settings = vec![Setting::new("quantize.imatrix.file", text(file))];
    // Upstream names the first of several, too.
    let dataset = matrix.datasets().first().map(|name| text(name));
    settings.extend(dataset.map(|name| Setting::new("quantize.imatrix.dataset", name)));
    settings.push(Setting::new("quantize.imatrix.entries_count", SettingValue::U32(entries)));
    let chunks = Some(matrix.chunks()).filter(|chunks| *chunks > 0).map(SettingValue::U32);
    settings.extend(chunks.map(|chunks| Setting::new("quantize.imatrix.chunks_count", chunks)));
    settings
}

/// What says how a model is shared out among files.
pub(super) static SPLIT: &[&str] = &["split.no", "split.count", "split.tensors.count"];

/// Marks a file type that was told from the tensors (`LLAMA_FTYPE_GUESSED`).
const GUESSED: u32 = 1024;

/// The keys that a quantized model is given, in llama-quantize's order.
pub(super) fn settings(
    model: &Hparams,
    tensors: &[Stored<'_>],
    options: &Options,
    layers: Option<u64>,
) -> Vec<Setting> {
    let mut all = vec![Setting::new("general.quantization_version", SettingValue::U32(2))];
    let number = options.file_type.descriptor().number;
    let number = number.or(model.file_type).unwrap_or_else(|| guess(tensors));
    all.push(Setting::new("general.file_type", SettingValue::U32(number)));
    all.extend(options.overrides.iter().cloned());
    if let Some(layers) = layers {
        let layers = SettingValue::U32(u32::try_from(layers).unwrap_or(u32::MAX));
        all.push(Setting::new(format!("{}.block_count", model.architecture), layers));
    }
    // Of two with one key the later counts.
    let mut settings: Vec<Setting> = Vec::new();
    for setting in all {
        settings.retain(|earlier| earlier.key != setting.key);
        settings.push(setting);
    }
    settings
}

/// The file type of a model that does not say: that of its most frequent dtype, as
/// src/llama-model-loader.cpp counts, the one that is ahead first where two are even.
fn guess(tensors: &[Stored<'_>]) -> u32 {
    let mut order: Vec<&Stored<'_>> = tensors.iter().collect();
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
    // Q4_K is an alias of Q4_K_M; NVFP4 is the one file type that is read and never made.
    let number = match most.0 {
        DType::NVFP4 => Some(39),
        dtype => FileType::from_name(dtype.name()).and_then(|found| found.descriptor().number),
    };
    number.unwrap_or(0) | GUESSED
}
