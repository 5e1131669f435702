//! Lists in `config.json` with an entry for each layer: their lengths, and the layers that they contradict.

use std::collections::BTreeMap;

use crate::arch::config::{TEXT_CONFIGS, key};
use crate::arch::{Field, LayerKind, ModelConfig, Resolution};
use crate::json::{Json, Map};
use crate::store::Store;

/// Lists that no field of the config has.
const OTHER_LISTS: [&str; 1] = ["mlp_layer_types"];

/// The starts of canonical names of which a layer of a kind has one.
const PARTS: &[(&str, &[&str])] = &[
    ("full_attention", ATTENTION),
    ("sliding_attention", ATTENTION),
    ("chunked_attention", ATTENTION),
    ("linear_attention", &["ssm.", "linear_attention."]),
    ("moe", &["ffn.router."]),
    ("mlp", &["ffn.up."]),
];

/// Queries, and latent vectors.
const ATTENTION: &[&str] =
    &["attention.q.", "attention.q_a.", "attention.q_b.", "attention.qkv.", "attention.kv_a."];

/// Faults of the lists of a directory's `config.json`, one sentence each.
pub(in crate::ops) fn faults(
    store: &Store,
    resolution: &Resolution,
    config: &ModelConfig,
) -> Vec<String> {
    let Some(root) = store.document("config.json").and_then(Json::as_object) else {
        return Vec::new();
    };
    let inner = TEXT_CONFIGS.iter().find_map(|name| root.get(name)?.as_object());
    // A model with an encoder has lists of two stacks.
    if let Some(stated) = &config.encoder.enc_n_layers {
        return beyond(resolution, stated).into_iter().collect();
    }
    let mut faults = lengths(inner.unwrap_or(root), config);
    // A list of another length is a fault already.
    if faults.is_empty() {
        faults.extend(contradicted(resolution, config));
    }
    faults
}

/// The first layer of an encoder beyond the number in the config. Those that are missing are missing tensors.
fn beyond(resolution: &Resolution, stated: &Field<u32>) -> Option<String> {
    let number = |name: &str| name.strip_prefix("enc.layers.")?.split('.').next()?.parse().ok();
    let numbers = resolution.mapped.iter().filter_map(|mapping| number(&mapping.canonical));
    let last: u32 = numbers.max().filter(|last| *last >= stated.value)?;
    Some(format!(
        "enc.layers.{last} exists, but enc_n_layers ({}) is {}: transformers ignores the layers beyond",
        stated.source, stated.value
    ))
}

/// The lists with another number of entries than the model has layers. Some also list the layers that predict further
/// tokens.
fn lengths(text: &Map<String, Json>, config: &ModelConfig) -> Vec<String> {
    let layers = &config.n_layers;
    let next = config.experts.n_next_token_layers.as_ref().map_or(0, |next| next.value);
    let keys = key("layer_types").map_or(&[][..], |row| row.json).iter().chain(&OTHER_LISTS);
    let fault = |name: &&str| {
        let (count, more) = match text.get(name)? {
            Json::Array(list) => (list.len(), next),
            Json::String(letters) => (letters.chars().count(), 0),
            _ => return None,
        };
        let allowed = layers.value..=layers.value.saturating_add(more);
        let fits = u32::try_from(count).is_ok_and(|count| allowed.contains(&count));
        (!fits && count > 0).then(|| {
            format!(
                "{name} in config.json has {count} entries, but the model has {} layers ({}): transformers builds other \
                 layers, or refuses the model",
                layers.value, layers.source
            )
        })
    };
    keys.filter_map(fault).collect()
}

/// The first layer that lacks the part that its kind has in other layers.
fn contradicted(resolution: &Resolution, config: &ModelConfig) -> Option<String> {
    let layout = config.layers.as_ref()?;
    layout.source.document_name().filter(|name| *name == "config.json")?;
    let mut stored: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for mapping in &resolution.mapped {
        let rest = mapping.canonical.strip_prefix("layers.");
        let Some((number, rest)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        if let Some(number) = number.parse().ok().filter(|number| *number < config.n_layers.value) {
            stored.entry(number).or_default().push(rest);
        }
    }
    let parts = |kind: &LayerKind| {
        PARTS.iter().find(|(name, _)| *name == kind.name()).map(|(_, parts)| *parts)
    };
    let has = |names: &[&str], parts: &[&str]| {
        names.iter().any(|name| parts.iter().any(|part| name.starts_with(part)))
    };
    stored.iter().find_map(|(layer, names)| {
        let kind = config.layer_kind(*layer)?;
        let parts = parts(kind).filter(|parts| !has(names, parts))?;
        let (other, has_it) = stored.iter().find(|(_, names)| has(names, parts))?;
        let name = has_it.iter().find(|name| has(&[name], parts))?;
        Some(format!(
            "layers.{layer} is {} ({}), but lacks {name}, which layers.{other} has: transformers initializes the \
             layer at random",
            kind.name(),
            layout.source
        ))
    })
}
