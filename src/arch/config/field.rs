//! A value of the config, as files hold it and as reports show it.

use std::fmt;

use super::origin::FieldSource;
use super::values::Reported;
use crate::bytes::Text;
use crate::json::Json;
use crate::metadata::Value;

/// A config value, and its source: where it was found or how it was derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<T> {
    /// The value.
    pub value: T,
    /// The metadata key, the path in `config.json`, or the rule that derived it.
    pub source: FieldSource,
}

impl<T> Field<T> {
    /// A value with this source: another's, or the words of a rule.
    pub(super) fn derived(value: T, source: impl Into<FieldSource>) -> Self {
        Self { value, source: source.into() }
    }
}

/// A field of a [`ModelConfig`](super::ModelConfig) in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigField<'a> {
    /// The part of the config: `model`, `attention`, `rope`, `experts`, `scales`, `ssm` or
    /// `encoder`.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Json,
    /// The place where the value was found, or the rule by which it was derived.
    pub source: &'a FieldSource,
}

/// A config value as the file holds it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ConfigValue<'a> {
    /// A value from GGUF metadata.
    Metadata(Value<'a>),
    /// A value from a JSON document.
    Json(&'a Json),
}

impl fmt::Display for ConfigValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(Value::String(text)) => write!(f, "\"{}\"", text.brief()),
            Self::Metadata(Value::Array(array)) => write!(f, "[{} elements]", array.len()),
            Self::Metadata(value) => match (value.to_f64(), value.to_i128(), value.to_bool()) {
                (_, Some(integer), _) => write!(f, "{integer}"),
                (Some(float), ..) => write!(f, "{float}"),
                (.., Some(flag)) => write!(f, "{flag}"),
                _ => write!(f, "{value:?}"),
            },
            Self::Json(Json::Array(array)) => write!(f, "[{} elements]", array.len()),
            Self::Json(Json::Object(object)) => write!(f, "{{{} keys}}", object.len()),
            Self::Json(json) => write!(f, "{}", Text::new(json.to_string().as_bytes()).brief()),
        }
    }
}

/// Adds a field that has a value to a report.
pub(super) fn report<'a, T: Reported>(
    out: &mut Vec<ConfigField<'a>>,
    group: &'static str,
    name: &'static str,
    field: Option<&'a Field<T>>,
) {
    out.extend(field.map(|Field { value, source }| {
        let value = value.reported();
        ConfigField { group, name, value, source }
    }));
}

/// Keys under which a config nests the numbers of the language model, outermost first.
pub(crate) const TEXT_CONFIGS: [&str; 4] =
    ["text_config", "llm_config", "language_config", "thinker_config"];

/// Configs within others, at most.
const DEPTH: usize = 4;

/// The class that a config names.
pub(crate) fn class_name(config: &Json) -> Option<&str> {
    config.get("architectures")?.as_array()?.first()?.as_str()
}

/// The config of the language model and those that it is nested in, each with its path: the innermost
/// first, the document last.
pub(crate) fn nested_configs(document: &Json) -> Vec<(String, &Json)> {
    let mut found = vec![(String::new(), document)];
    let mut config = document;
    let inner = |config: &'_ Json| {
        let names = TEXT_CONFIGS.iter().copied();
        names.into_iter().find(|name| config.get(name).is_some_and(Json::is_object))
    };
    while let Some(name) = inner(config).filter(|_| found.len() < DEPTH)
        && let Some(nested) = config.get(name)
    {
        let outer = found.last().map_or("", |(path, _)| path.as_str());
        let dot = if outer.is_empty() { "" } else { "." };
        found.push((format!("{outer}{dot}{name}"), nested));
        config = nested;
    }
    found.reverse();
    found
}
