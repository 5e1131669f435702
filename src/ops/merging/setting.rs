//! Settings of a merge: numbers that may depend on the layer and on the name of a tensor.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::json::Json;

/// A number that may depend on the tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Setting {
    /// The same for all tensors.
    Number(f64),
    /// Numbers at equal distances from the first layer to the last one, with straight lines between them.
    Gradient(Vec<f64>),
    /// The setting of the first rule whose text is in the name of the tensor. A rule without a text applies
    /// to all.
    Rules(Vec<(Option<String>, Self)>),
}

impl Setting {
    /// The value for a tensor at `t`, from 0 for the first layer to 1 for the last one. `None` if no rule
    /// applies.
    fn value(&self, name: &str, t: f64) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Gradient(values) => {
                let last = values.len().checked_sub(1)?;
                #[expect(clippy::cast_precision_loss, reason = "a short list")]
                let place = t * last as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "within the list"
                )]
                let below = (place.floor() as usize).min(last);
                let (low, high) =
                    (values.get(below)?, values.get(below.saturating_add(1).min(last))?);
                #[expect(clippy::cast_precision_loss, reason = "a short list")]
                let part = place - below as f64;
                Some((1.0 - part) * low + part * high)
            }
            Self::Rules(rules) => {
                let applies = |text: &Option<String>| {
                    text.as_ref().is_none_or(|text| text == "*" || name.contains(&**text))
                };
                rules.iter().find(|(text, _)| applies(text))?.1.value(name, t)
            }
        }
    }

    /// The setting of a value in mergekit's form.
    pub(super) fn parse(key: &str, value: &Json) -> Result<Self> {
        let fault = || {
            let fault = format!(
                "the setting is {value}, not a number, numbers, or rules with filter and value"
            );
            Error::mismatch(fault).in_key(key)
        };
        match value {
            Json::Bool(flag) => Ok(Self::Number(f64::from(u8::from(*flag)))),
            Json::Array(values) => {
                let numbers: Option<Vec<f64>> = values.iter().map(Json::as_f64).collect();
                if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
                    return Ok(Self::Gradient(numbers));
                }
                let rule = |rule: &Json| {
                    let filter = rule.get("filter").and_then(Json::as_str).map(str::to_owned);
                    let value = rule.get("value").ok_or_else(fault)?;
                    Ok((filter, Self::parse(key, value)?))
                };
                Ok(Self::Rules(values.iter().map(rule).collect::<Result<_>>()?))
            }
            Json::Object(_) => Self::parse(key, &Json::Array(vec![value.clone()])),
            other => other.as_f64().map(Self::Number).ok_or_else(fault),
        }
    }
}

/// Settings by name: `weight`, `density`, `t`, `lambda`, `normalize`, `scale`.
#[derive(Clone, Debug, Default)]
pub struct Settings(BTreeMap<String, Setting>);

impl Settings {
    /// Sets one.
    pub fn set(&mut self, key: impl Into<String>, setting: Setting) {
        self.0.insert(key.into(), setting);
    }

    /// The names.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn value(&self, key: &str, name: &str, t: f64) -> Option<f64> {
        self.0.get(key)?.value(name, t)
    }

    /// The settings of an object in mergekit's form.
    pub(super) fn parse(value: Option<&Json>) -> Result<Self> {
        let mut found = Self::default();
        let Some(object) = value.and_then(Json::as_object) else { return Ok(found) };
        for (key, value) in object {
            found.set(key.clone(), Setting::parse(key, value)?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_and_rules() {
        let gradient = Setting::Gradient(vec![0.0, 1.0, 0.5]);
        let at = |t| gradient.value("x", t);
        assert_eq!(
            [at(0.0), at(0.25), at(0.5), at(1.0)],
            [Some(0.0), Some(0.5), Some(1.0), Some(0.5)]
        );
        let rules = Setting::Rules(vec![
            (Some("mlp".to_owned()), gradient.clone()),
            (None, Setting::Number(0.3)),
        ]);
        assert_eq!(rules.value("layers.0.mlp.up", 0.5), Some(1.0));
        assert_eq!(rules.value("norm", 0.5), Some(0.3));
    }
}
