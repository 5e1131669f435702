//! The tensors that a family requires and a model lacks.

use std::collections::{BTreeMap, BTreeSet};

use super::config::PromisedLayers;
use super::{Architecture, Mapping, rule};

/// The required names that each layer has, one bit each. Layers are identified by number and by the
/// prefix in canonical names: `layers.`, `enc.layers.`.
pub(super) type LayerNames = BTreeMap<(u32, &'static str), u64>;

/// The prefix before the layer number in a canonical name.
pub(super) fn stack(canonical: &'static str) -> Option<&'static str> {
    canonical.split_once("{n}").map(|(stack, _)| stack)
}

/// The prefix of the layers of an encoder.
const ENCODER: &str = "enc.layers.";

/// Required names that a layer lacks if it reuses the keys and values of another layer.
const KEYS_AND_VALUES: [&str; 2] =
    ["layers.{n}.attention.k.weight", "layers.{n}.attention.v.weight"];

/// The required tensors that the model lacks.
pub(super) fn missing(
    architecture: &Architecture,
    required: &[Vec<&'static str>],
    mapped: &[Mapping],
    (layers, promised): (&LayerNames, PromisedLayers),
) -> Vec<String> {
    let mut missing = Vec::new();
    if mapped.is_empty() {
        return missing;
    }
    let has = |name: &str| mapped.iter().any(|mapping| mapping.canonical == name);
    let stack_of = |names: &Vec<&'static str>| names.first().and_then(|name| stack(name));
    let starts = |start: &str| mapped.iter().any(|mapping| mapping.canonical.starts_with(start));
    let encoder_alone = promised.encoder_alone && starts(ENCODER) && !starts("layers.");
    let is_of_class =
        |names: &&Vec<&str>| !encoder_alone || names.iter().any(|name| name.starts_with("enc."));
    let alone = required.iter().filter(is_of_class).filter(|names| stack_of(names).is_none());
    let lacking = alone.filter(|names| !names.iter().any(|name| has(name)));
    missing.extend(lacking.map(|names| names.join(" | ")));
    // Whole missing layers between the stored ones, and up to the number in the config.
    let stacks: BTreeSet<&str> = required.iter().filter(is_of_class).filter_map(stack_of).collect();
    for stack in stacks {
        let mut expected = 0;
        let stored = layers.keys().filter(|(_, of)| *of == stack).map(|(layer, _)| *layer);
        for layer in stored {
            if layer > expected {
                missing.push(format!("{stack}{expected}..{layer}"));
            }
            expected = expected.max(layer.saturating_add(1));
        }
        let PromisedLayers { own, all, encoder, .. } = promised;
        let stated = match stack {
            "layers." => own,
            // A class of the decoder alone has no encoder.
            ENCODER if expected > 0 => encoder,
            _ => 0,
        };
        if stated > expected {
            missing.push(format!("{stack}{expected}..{stated}"));
            expected = stated;
        }
        if stack == "layers." && all > expected {
            let what = "the layers for multi-token prediction, nextn";
            missing.push(format!("{stack}{expected}..{all} ({what})"));
        }
    }
    for (bit, names) in required.iter().enumerate() {
        let Some(stack) = stack_of(names) else { continue };
        // Transformers 5 does not save the key and value tensors of layers that share them.
        let shared = names.iter().all(|name| KEYS_AND_VALUES.contains(name));
        let name = names.join(" | ");
        let needs = |layer: u32| !(shared && promised.sharing.is_some_and(|first| layer >= first));
        let lacking: Vec<u32> = layers
            .iter()
            .filter(|((layer, of), has)| *of == stack && **has & (1 << bit) == 0 && needs(*layer))
            .map(|((layer, _), _)| *layer)
            .collect();
        missing.extend(in_layers(&name, &lacking));
    }
    missing.extend(missing_in_modules(architecture, mapped));
    for (group, is_promised) in [("experts", true), ("shared_expert", promised.shares_experts)] {
        if is_promised {
            missing.extend(missing_experts(architecture, required, mapped, group));
        }
    }
    missing
}

/// The tensors that layers with other tensors of the same module lack.
fn missing_in_modules(architecture: &Architecture, mapped: &[Mapping]) -> Vec<String> {
    let names = architecture.required_of_modules();
    if names.is_empty() {
        return Vec::new();
    }
    let mut modules: BTreeMap<&str, BTreeMap<u32, BTreeSet<&str>>> = BTreeMap::new();
    for mapping in mapped {
        let Some(rest) = mapping.canonical.strip_prefix("layers.") else { continue };
        let Some((layer, own)) = rest.split_once('.') else { continue };
        if let (Ok(layer), Some((module, tensor))) = (layer.parse(), own.split_once('.')) {
            modules.entry(module).or_default().entry(layer).or_default().insert(tensor);
        }
    }
    let parts = |name: &'static str| name.strip_prefix("layers.{n}.")?.split_once('.');
    let lacking = names.into_iter().filter_map(|(name, others)| {
        let (module, tensor) = parts(name)?;
        let others: Vec<&str> = others.iter().filter_map(|name| Some(parts(name)?.1)).collect();
        let is_there = |has: &BTreeSet<&str>| {
            others.is_empty() || others.iter().any(|other| has.contains(other))
        };
        let layers = modules.get(module)?.iter();
        let layers = layers.filter(|(_, has)| is_there(has) && !has.contains(tensor));
        in_layers(name, &layers.map(|(layer, _)| *layer).collect::<Vec<_>>())
    });
    lacking.collect()
}

/// The name of a tensor in some layers; `None` for no layer.
fn in_layers(name: &str, layers: &[u32]) -> Option<String> {
    Some(name.replace(
        "{n}",
        &match layers {
            [] => return None,
            [layer] => layer.to_string(),
            several => rule::runs(several),
        },
    ))
}

/// The experts of a group, routed or shared, that layers with a router lack, of a family whose layers may have none.
fn missing_experts(
    architecture: &Architecture,
    required: &[Vec<&'static str>],
    mapped: &[Mapping],
    group: &str,
) -> Vec<String> {
    let has_rule = |name: &str| {
        architecture.rules.iter().copied().flatten().any(|rule| rule.canonical == name)
    };
    let layers_of = |rest: &str| -> BTreeSet<u32> {
        let number = |mapping: &Mapping| {
            let (number, own) = mapping.canonical.strip_prefix("layers.")?.split_once('.')?;
            if own == rest { number.parse().ok() } else { None }
        };
        mapped.iter().filter_map(number).collect()
    };
    let routed = layers_of("ffn.router.weight");
    if routed.is_empty() {
        return Vec::new();
    }
    let gated = layers_of("ffn.experts.gate.weight");
    let parts = ["up", "down", "gate"].into_iter().filter_map(|part| {
        let rest = format!("ffn.{group}.{part}.weight");
        let name = format!("layers.{{n}}.{rest}");
        let stored = layers_of(&rest);
        // Those without a gate have it in no layer, and no shared ones have it. What every layer of the family has is
        // told already.
        let is_told = required.iter().flatten().any(|required| *required == name);
        let lacking: Vec<u32> = routed.difference(&stored).copied().collect();
        let is_whole =
            is_told || !has_rule(&name) || part == "gate" && stored.is_empty() && gated.is_empty();
        if is_whole { None } else { in_layers(&name, &lacking) }
    });
    parts.collect()
}
