//! GGUF's keys in `general.`.

use std::collections::BTreeSet;

use crate::arch::{Axes, Mapping, Resolution};
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::metadata::{KeyValues, Value};
use crate::rounding::f32_of;
use crate::store::Store;

use super::card::{Card, title};

/// The encoding of a setting's value.
enum SettingType {
    Integer,
    Real,
    Word,
}

use SettingType::{Integer, Real, Word};

/// Settings with the prefix `general.sampling.`, and their names in `generation_config.json`; the
/// first name found is used (`gguf-py`, `metadata.py`).
const SAMPLING: [(&str, &[&str], SettingType); 12] = [
    ("sequence", &["sequence"], Word),
    ("top_k", &["top_k"], Integer),
    ("top_p", &["top_p"], Real),
    ("min_p", &["min_p"], Real),
    ("xtc_probability", &["xtc_probability"], Real),
    ("xtc_threshold", &["xtc_threshold"], Real),
    ("temp", &["temperature"], Real),
    ("penalty_last_n", &["penalty_last_n"], Integer),
    ("penalty_repeat", &["penalty_repeat", "repetition_penalty"], Real),
    ("mirostat", &["mirostat"], Integer),
    ("mirostat_tau", &["mirostat_tau"], Real),
    ("mirostat_eta", &["mirostat_eta"], Real),
];

/// The recommended settings for generating text.
pub(super) fn sampling(store: &Store, keys: &mut KeyValues) -> Result<()> {
    let document = "generation_config.json";
    let Some(config) = store.read_document(document)? else { return Ok(()) };
    for (name, names, kind) in SAMPLING {
        let found = names.iter().find_map(|name| Some((*name, config.get(name)?)));
        let Some((found_name, json)) = found.filter(|(_, json)| !json.is_null()) else { continue };
        let key = format!("general.sampling.{name}");
        let integer = json.as_i64().and_then(|number| i32::try_from(number).ok());
        let real = json.as_f64().map(f32_of);
        match (kind, integer, real, json.as_str()) {
            (Integer, Some(number), ..) => keys.set(&key, Value::I32(number)),
            (Real, _, Some(number), _) => keys.set(&key, Value::F32(number)),
            (Word, .., Some(text)) => keys.set_text(&key, text),
            _ => {
                let shown = crate::bytes::Text::new(json.to_string().as_bytes()).brief();
                let fault =
                    format!("{shown}, which GGUF's value type for this setting cannot hold");
                return Err(Error::malformed(fault)
                    .in_file(store.path())
                    .in_key(format!("{document} {found_name}")));
            }
        }
    }
    Ok(())
}

/// Whether a key of `generation_config.json` is a setting that GGUF has, or describes the file.
pub(super) fn is_setting(key: &str) -> bool {
    SAMPLING.iter().any(|(_, names, _)| names.contains(&key))
        || ["transformers_version", "_from_model_config"].contains(&key)
}

/// The recommended settings for generating text, as `generation_config.json`.
pub(super) fn generation(store: &Store) -> Map<String, Json> {
    let metadata = store.metadata();
    let setting = |(name, names, _): &(&str, &[&str], SettingType)| {
        let value = metadata.get(&format!("general.sampling.{name}"))?;
        let json = match (value.to_i128(), value.to_f64(), value.to_text()) {
            (Some(number), ..) => i64::try_from(number).ok()?.into(),
            // With the digits of an f32.
            (_, Some(number), _) => f32_of(number).to_string().parse::<f64>().ok()?.into(),
            (.., Some(text)) => text.to_str()?.into(),
            _ => return None,
        };
        Some(((*names.last()?).to_owned(), json))
    };
    SAMPLING.iter().filter_map(setting).collect()
}

/// The model's name, size label and origin. `generated` is the number of weights that the converter
/// derives from the config.
pub(super) fn names(store: &Store, resolution: &Resolution, generated: u64, keys: &mut KeyValues) {
    described(store, size_label(store, resolution, generated), keys);
}

/// The name, size label and origin of a model's vision model.
pub(super) fn projector_names(store: &Store, weights: u64, keys: &mut KeyValues) {
    described(store, (weights > 0).then(|| rounded(weights)), keys);
}

/// Sets the keys that describe a model, in the converter's order.
fn described(store: &Store, size_label: Option<String>, keys: &mut KeyValues) {
    let card = Card::of(store);
    if let Some(name) = name(store) {
        keys.set_text("general.name", title(&name));
    }
    card.set_names(keys);
    if let Some(label) = size_label {
        keys.set_text("general.size_label", label);
    }
    card.set_sources(keys);
}

/// The model's name in its config.
pub(crate) fn name_in_config(store: &Store) -> Option<&str> {
    let name = store.document("config.json")?.get("_name_or_path")?.as_str()?;
    let name = Some(name).filter(|name| !name.is_empty() && name.matches('/').count() <= 1)?;
    name.rsplit('/').next()
}

/// The model's name: from its config, else its folder's, else its file's.
fn name(store: &Store) -> Option<String> {
    if let Some(name) = name_in_config(store) {
        return Some(name.to_owned());
    }
    let path = store.path();
    let folder = if store.is_directory() { Some(path) } else { path.parent() };
    let parts = folder.into_iter().flat_map(|folder| folder.iter().rev());
    let parts: Vec<&str> = parts.filter_map(|part| part.to_str()).take(3).collect();
    match parts.as_slice() {
        // In huggingface_hub's cache, the path is models--{owner}--{name}/snapshots/{commit}.
        [_, "snapshots", model, ..] => Some(model.rsplit("--").next()?.to_owned()),
        [folder, ..] => Some((*folder).to_owned()),
        [] => None,
    }
}

/// The size label that a model's tensors give; `weights` counts if their names are unknown.
pub(crate) fn counted_size(
    store: &Store,
    resolution: Option<&Resolution>,
    weights: u64,
) -> Option<String> {
    match resolution {
        Some(resolution) => size_label(store, resolution, 0),
        None => (weights > 0).then(|| rounded(weights)),
    }
}

/// The size label: `8B`, or `8x7B` for a model with experts.
fn size_label(store: &Store, resolution: &Resolution, generated: u64) -> Option<String> {
    let (mut total, mut each_expert) = (generated, 0u64);
    let (mut experts, mut stacks) = (0u64, 0u64);
    let mut counted = BTreeSet::new();
    for mapping in resolution.mapped.iter().filter(|mapping| in_gguf(resolution, mapping)) {
        let stored = mapping.stored.iter().filter(|name| counted.insert(name.as_str()));
        let tensors: Vec<_> = stored.filter_map(|name| store.find(name)).collect();
        let elements: u64 = tensors.iter().map(|tensor| tensor.elements()).sum();
        total = total.saturating_add(elements);
        let shape = tensors.first().map_or(&[][..], |tensor| tensor.shape());
        let joined = matches!(mapping.transform.axes, Axes::Joined | Axes::JoinedTransposed);
        let number = match (mapping.stacked, shape) {
            (false, [_, _]) if joined => routed(store, resolution),
            (true, [_, _]) => tensors.len() as u64,
            (false, [number, _, _]) if mapping.canonical.contains(".experts.") => *number,
            _ => continue,
        };
        each_expert = each_expert.saturating_add(elements.checked_div(number).unwrap_or(0));
        experts = experts.saturating_add(number);
        stacks = stacks.saturating_add(1);
    }
    if total == generated {
        return None;
    }
    let Some(experts @ 1..) = experts.checked_div(stacks) else { return Some(rounded(total)) };
    let in_experts = each_expert.saturating_mul(experts);
    let one_path = total.saturating_sub(in_experts).saturating_add(each_expert);
    Some(format!("{experts}x{}", rounded(one_path)))
}

/// The number of experts, by the rows of a router.
fn routed(store: &Store, resolution: &Resolution) -> u64 {
    let routers = resolution.mapped.iter().filter(|m| m.canonical.ends_with(".ffn.router.weight"));
    let mut stored = routers.filter_map(|mapping| store.find(mapping.stored.first()?));
    stored.next().and_then(|router| router.shape().first().copied()).unwrap_or(0)
}

/// Whether GGUF has a name for a tensor. It has none for BERT's pooler.
fn in_gguf(resolution: &Resolution, mapping: &Mapping) -> bool {
    let rules = resolution.architecture.into_iter().flat_map(|row| row.rules).copied().flatten();
    let mut named = rules.filter(|rule| !rule.gguf.name.is_empty());
    // Canonical names have one number at most, that of the layer.
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = mapping.canonical.split('.').map(|part| if is_number(part) { "{n}" } else { part });
    let pattern = parts.collect::<Vec<_>>().join(".");
    named.any(|rule| rule.canonical == pattern)
}

/// A number of parameters with at least two digits: `1.3B`, `70B`, `451K`.
fn rounded(parameters: u64) -> String {
    let (mut scaled, mut unit) = (parameters as f64 / 1e3, "K");
    for (size, name) in [(1e6, "M"), (1e9, "B"), (1e12, "T")] {
        if parameters as f64 > size {
            (scaled, unit) = (parameters as f64 / size, name);
        }
    }
    let places = match scaled.round_ties_even() {
        0.0 => 2,
        whole if whole < 10.0 => 1,
        _ => 0,
    };
    format!("{scaled:.places$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_titles() {
        for (name, expected) in [
            ("v-llama-f16", "V Llama F16"),
            ("Meta-Llama-3-8B", "Meta Llama 3 8B"),
            ("qwen3-4b-v1.5", "Qwen3 4b v1.5"),
        ] {
            assert_eq!(title(name), expected);
        }
    }

    #[test]
    fn sizes_have_two_digits_at_least() {
        let sizes = [(451_000, "451K"), (90_400, "90K"), (1_300_000_000, "1.3B"), (120, "0.12K")];
        for (parameters, expected) in sizes {
            assert_eq!(rounded(parameters), expected);
        }
    }
}
