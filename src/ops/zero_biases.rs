//! Leaves out biases of zeros that the reader of a container has no place for. AutoGPTQ stored one for each quantized
//! matrix until 2024-03, whether the model has biases or not.

use std::collections::{BTreeMap, BTreeSet};

use crate::arch::config::TEXT_CONFIGS;
use crate::arch::config::flags::tensor_flags;
use crate::arch::{Architecture, Dialect, Mapping, family};
use crate::engines::{mlx_lm, transformers};
use crate::error::Result;
use crate::json::Json;
use crate::model::Model;
use crate::store::Encoding;

/// Parts of a layer whose biases a class has or lacks together, by a flag of its config.
const PARTS: [&str; 2] = [".attention.", ".ffn."];

/// A model without the biases whose values are all 0 and that the reader of a dialect's files has no place for.
///
/// # Errors
///
/// Errors of reading the biases.
pub(super) fn without(model: &Model, dialect: Dialect) -> Result<Model> {
    let resolution = model.resolution()?;
    let Some(architecture) = resolution.architecture else { return Ok(model.clone()) };
    let is_bias =
        |of: &&Mapping| of.canonical.starts_with("layers.") && of.canonical.ends_with(".bias");
    let mut biases: Vec<&Mapping> = resolution.mapped.iter().filter(is_bias).collect();
    if biases.is_empty() || model.encoding() != Encoding::Safetensors {
        return Ok(model.clone());
    }
    let mut groups: Vec<Vec<&Mapping>> = Vec::new();
    if dialect != Dialect::Gguf {
        for (part, has) in flagged(model) {
            let (those, others) = biases.into_iter().partition(|of| of.canonical.contains(part));
            biases = others;
            if !has {
                groups.push(those);
            }
        }
    }
    let named = crate::arch::architecture_name(model.store())?.map(|named| named.value);
    if dialect == Dialect::Mlx && named.as_deref().is_some_and(mlx_lm::has_no_biases) {
        let is_of_a_matrix = |of: &&Mapping| {
            PARTS.iter().any(|part| of.canonical.contains(part)) && !of.canonical.contains("norm")
        };
        let (those, others) = biases.into_iter().partition(is_of_a_matrix);
        biases = others;
        groups.push(those);
    }
    let mut by_pattern: BTreeMap<String, Vec<&Mapping>> = BTreeMap::new();
    for of in biases {
        by_pattern.entry(pattern(&of.canonical)).or_default().push(of);
    }
    by_pattern.retain(|pattern, _| lacks(architecture, named.as_deref(), pattern));
    groups.extend(by_pattern.into_values());
    let mut left: BTreeSet<&str> = BTreeSet::new();
    for group in groups {
        if are_zero(model, &group)? {
            left.extend(group.iter().map(|of| of.canonical.as_str()));
        }
    }
    if left.is_empty() {
        return Ok(model.clone());
    }
    model.without_biases(|of| left.contains(of.canonical.as_str()))
}

fn are_zero(model: &Model, biases: &[&Mapping]) -> Result<bool> {
    for of in biases {
        if !model.tensor(&of.canonical)?.is_zero()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The parts of a layer for whose biases the class in `config.json` has a flag, and whether it has them.
fn flagged(model: &Model) -> BTreeMap<&'static str, bool> {
    let root = model.document("config.json").and_then(Json::as_object);
    let Some(root) = root else { return BTreeMap::new() };
    let inner = TEXT_CONFIGS.iter().find_map(|name| root.get(name)?.as_object());
    let text = inner.unwrap_or(root);
    let names = model.resolution().map_or(&[][..], |resolution| &resolution.mapped);
    let names = names.iter().map(|of| of.canonical.as_str());
    let flags = tensor_flags(text, names);
    let model_type = text.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let read = transformers::defaults(model_type);
    let is_read = |key: &str| read.is_empty() || read.iter().any(|(name, _)| *name == key);
    let biases = flags.iter().filter(|flag| flag.end.ends_with(".bias") && is_read(flag.key));
    let part = |end: &str| PARTS.into_iter().find(|part| end.starts_with(part));
    let mut found = BTreeMap::new();
    for (part, value) in biases.filter_map(|flag| Some((part(flag.end)?, flag.value))) {
        *found.entry(part).or_insert(value) |= value;
    }
    found
}

/// A canonical name with `{n}` in place of the number of its layer.
fn pattern(canonical: &str) -> String {
    let rest = canonical.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    rest.map_or_else(|| canonical.to_owned(), |(_, rest)| format!("layers.{{n}}.{rest}"))
}

/// Whether llama.cpp has no place for the tensors of a pattern in any of its graphs of a family, which are those of the
/// classes.
fn lacks(architecture: &Architecture, named: Option<&str>, pattern: &str) -> bool {
    let of_class = |hf: &[&str]| named.is_some_and(|named| hf.contains(&named));
    let variants = architecture.variants.iter();
    let some = variants.clone().any(|variant| of_class(variant.hf));
    let variants = variants.filter(|variant| !some || of_class(variant.hf));
    let graphs: Vec<_> = variants.filter_map(|variant| family::graph(variant.gguf)).collect();
    let rules = architecture.rules.iter().copied().flatten();
    let mut names = rules.filter(|rule| rule.canonical == pattern).map(|rule| rule.gguf.name);
    let is_read =
        |name: &str| graphs.iter().any(|graph| graph.tensors.iter().any(|row| row.name == name));
    // A tensor that GGUF has no name for is one of the class.
    let is_named = names.clone().any(|name| !name.is_empty());
    is_named && !graphs.is_empty() && !names.any(is_read)
}
