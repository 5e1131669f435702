//! Metadata keys with the values to set.

use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::metadata::Value;
use crate::recipe::ImportanceMatrix;
use crate::rounding::f32_of;

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
            "float" => SettingValue::F32(f32_of(value.parse::<f64>().map_err(|_| wrong())?)),
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
