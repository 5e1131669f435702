//! The values of two models' configs that change what they compute.

use std::fmt;

use crate::arch::kept::{self, unlike_values, words};
use crate::arch::{
    ConfigField, ModelConfig, SourceKind, factor, field_of, stated_document, unlike_fields,
};
use crate::json::{Json, Map};
use crate::model::{Model, Tensor};
use crate::store::Encoding;
#[cfg(feature = "write")]
use crate::translate::gguf_tensors;

/// A value of the config that differs between two models. Their containers may state it in other words: values count that
/// mean something else.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ConfigDifference {
    /// The key in `config.json`, the name of keys that state one thing together, or the tensor that has the value in GGUF.
    pub name: String,
    /// The value in the first model.
    pub a: StatedValue,
    /// The value in the second.
    pub b: StatedValue,
}

/// A value of a model's config, with its source.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StatedValue {
    /// The value; null if nothing states it.
    pub value: Json,
    /// The key or file that contains it, or the rule that derived it, if known.
    pub source: Option<String>,
}

impl fmt::Display for ConfigDifference {
    /// `rope_theta: 500000.0 in A (config.json rope_theta), 10000.0 in B (llama.rope.freq_base)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        for (number, (which, side)) in [("A", &self.a), ("B", &self.b)].into_iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{} in {which}", words(&side.value))?;
            if let Some(source) = side.source.as_ref().filter(|_| !side.value.is_null()) {
                write!(f, " ({source})")?;
            }
        }
        Ok(())
    }
}

/// Numbers of rotary embeddings that determine the divisors of frequencies, which GGUF has in tensors.
const IN_TENSORS: &[(&str, &[&str])] = &[
    (
        "rope_freqs.weight",
        &[
            "factor",
            "high_freq_factor",
            "low_freq_factor",
            "original_max_position_embeddings",
            "rope_type",
        ],
    ),
    ("rope_factors_long.weight", &["long_factor", "rope_type"]),
    ("rope_factors_short.weight", &["short_factor", "rope_type"]),
];

/// The values that differ. Empty if the config of a model cannot be derived.
pub(super) fn differing_values(a: &Model, b: &Model) -> Vec<ConfigDifference> {
    let is_swapped = rank(b) > rank(a);
    let (own, other) = if is_swapped { (b, a) } else { (a, b) };
    let (Ok(own_config), Ok(other_config)) = (own.config(), other.config()) else {
        return Vec::new();
    };
    let is_gguf = [own, other].map(|model| model.encoding() == Encoding::Gguf);
    let (mut found, in_tensors) = match is_gguf {
        [false, true] => divisors(own, other),
        [true, _] => {
            let stored = [own, other].into_iter().flat_map(stored_divisors);
            (Vec::new(), stored.map(|(name, _)| name).collect())
        }
        [false, false] => (Vec::new(), Vec::new()),
    };
    let is_in_tensor = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let mut rows =
            IN_TENSORS.iter().filter(|(tensor, _)| in_tensors.iter().any(|t| t == tensor));
        rows.any(|(_, keys)| keys.contains(&last))
    };
    let values = match of_documents((own, own_config), (other, other_config)) {
        Some(values) => values.into_iter().filter(|values| !is_in_tensor(&values.name)).collect(),
        None => of_fields((own, own_config), (other, other_config)),
    };
    found.extend(values);
    if is_swapped {
        found.iter_mut().for_each(|one| std::mem::swap(&mut one.a, &mut one.b));
    }
    found
}

/// How much a model's files say in words of `config.json`.
fn rank(model: &Model) -> u8 {
    match model.encoding() {
        Encoding::Gguf if model.metadata().get(kept::CONFIG).is_some() => 1,
        Encoding::Gguf => 0,
        _ => 2,
    }
}

/// The values that mean something else in the `config.json` of each, or in the one that GGUF keys give; `None` without such
/// documents, and for classes that transformers lacks.
fn of_documents(
    (own, own_config): (&Model, &ModelConfig),
    (other, other_config): (&Model, &ModelConfig),
) -> Option<Vec<ConfigDifference>> {
    let document =
        |model: &Model| stated_document(model.store(), model.resolution().ok()?).ok().flatten();
    let (stated, given) = (document(own)?, document(other)?);
    let layers = own_config.n_layers.value.saturating_sub(own_config.counted_next_layers());
    let mut found = unlike_values(&stated, &given, layers)?;
    let model_type = |document: &Map<String, Json>| document.get("model_type").cloned();
    if rank(own) == rank(other) && model_type(&stated) != model_type(&given) {
        // Of two classes, each has keys that the other one does not know.
        let back = unlike_values(&given, &stated, layers).unwrap_or_default();
        found.retain(|(name, ..)| back.iter().any(|(other, ..)| other == name));
    }
    if rank(own) != rank(other) {
        // The weights in GGUF are multiplied by them.
        let rules = own.resolution().map_or(&[][..], factor::rules);
        let multiplied: Vec<&str> = factor::keys(rules).collect();
        found.retain(|(name, ..)| !multiplied.contains(&name.as_str()));
    }
    let side = |config: &ModelConfig, name: &str, value: Json| {
        let source = field_of(config, name).map(|field| field.source.to_string());
        StatedValue { value, source }
    };
    let difference = |(name, value, given): (String, Json, Json)| ConfigDifference {
        a: side(own_config, &name, value),
        b: side(other_config, &name, given),
        name,
    };
    Some(found.into_iter().map(difference).collect())
}

/// The fields of the configs that differ, for models that have no `config.json` in common words.
fn of_fields(
    (own, own_config): (&Model, &ModelConfig),
    (other, other_config): (&Model, &ModelConfig),
) -> Vec<ConfigDifference> {
    let has_network = other.resolution().is_ok_and(|resolution| resolution.has_network());
    let side = |field: &ConfigField<'_>| StatedValue {
        value: field.value.clone(),
        source: Some(field.source.to_string()),
    };
    let nothing = || StatedValue { value: Json::Null, source: None };
    let is_stated = |field: &ConfigField<'_>| {
        matches!(field.source.kind(), SourceKind::Key | SourceKind::Document)
    };
    let mut found = Vec::new();
    for (field, others) in unlike_fields(own_config, other_config, has_network) {
        if others.is_some() || is_stated(&field) {
            let (a, b) = (side(&field), others.as_ref().map_or_else(nothing, side));
            found.push(ConfigDifference { name: field.name.to_owned(), a, b });
        }
    }
    if rank(own) == rank(other) {
        for (field, others) in unlike_fields(other_config, own_config, has_network) {
            if others.is_none() && is_stated(&field) {
                let (a, b) = (nothing(), side(&field));
                found.push(ConfigDifference { name: field.name.to_owned(), a, b });
            }
        }
    }
    found
}

/// Whether divisors of frequencies change nothing.
pub(super) fn are_ones(tensor: &Tensor) -> bool {
    tensor.dequantize().is_ok_and(|values| values.iter().all(|value| *value == 1.0))
}

/// The tensors of a GGUF file with divisors of rotary frequencies, with their values.
fn stored_divisors(model: &Model) -> Vec<(String, Vec<f32>)> {
    let Ok(resolution) = model.resolution() else { return Vec::new() };
    let rotary = resolution.auxiliary.iter().filter(|tensor| tensor.is_rotary());
    let values = rotary.filter_map(|tensor| {
        let values = model.stored_tensor(&tensor.stored).ok()?.dequantize().ok()?;
        Some((tensor.stored.clone(), values.to_vec()))
    });
    values.collect()
}

/// The tensors of divisors that differ between a GGUF file and the config of a directory, and the names of all.
#[cfg(feature = "write")]
fn divisors(directory: &Model, gguf: &Model) -> (Vec<ConfigDifference>, Vec<String>) {
    let Ok(derived) = gguf_tensors(directory) else { return (Vec::new(), Vec::new()) };
    let stored = stored_divisors(gguf);
    let mut names: Vec<&str> = derived.iter().map(|(name, _)| *name).collect();
    names.extend(stored.iter().map(|(name, _)| name.as_str()));
    names.retain(|name| IN_TENSORS.iter().any(|(tensor, _)| tensor == name));
    names.sort_unstable();
    names.dedup();
    let mut found = Vec::new();
    for name in &names {
        let a = derived.iter().find(|(other, _)| other == name).map(|(_, values)| values);
        let b = stored.iter().find(|(other, _)| other == name).map(|(_, values)| values);
        if !are_alike(a, b) {
            let kind = directory.config().ok().and_then(|config| config.rope_scaling.kind.as_ref());
            let source = kind.map(|kind| format!("derived from {}", kind.source));
            let a = StatedValue { value: list(a), source: source.filter(|_| a.is_some()) };
            let b = StatedValue { value: list(b), source: None };
            found.push(ConfigDifference { name: (*name).to_owned(), a, b });
        }
    }
    (found, names.into_iter().map(str::to_owned).collect())
}

#[cfg(not(feature = "write"))]
fn divisors(_: &Model, _: &Model) -> (Vec<ConfigDifference>, Vec<String>) {
    (Vec::new(), Vec::new())
}

/// Whether two lists of divisors are the same up to the rounding of the programs that compute them. Missing ones are all 1.
#[cfg(feature = "write")]
fn are_alike(a: Option<&Vec<f32>>, b: Option<&Vec<f32>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs();
            a.len() == b.len() && a.iter().zip(b).all(close)
        }
        (Some(one), None) | (None, Some(one)) => one.iter().all(|value| *value == 1.0),
        (None, None) => true,
    }
}

#[cfg(feature = "write")]
fn list(values: Option<&Vec<f32>>) -> Json {
    let shortest = |value: &f32| value.to_string().parse::<f64>().unwrap_or((*value).into());
    values.map_or(Json::Null, |values| {
        values.iter().map(|value| Json::from(shortest(value))).collect()
    })
}
