//! The faults for which classes of transformers and mlx-lm refuse a directory, or which they ignore
//! although the model needs it. `xtask/oracles/strict.py` asks both with damaged models.

use std::collections::BTreeSet;
use std::path::Path;

use crate::arch::config::TEXT_CONFIGS;
use crate::arch::config::flags::{TensorFlag, tensor_flags};
use crate::arch::{ModelConfig, Resolution};
use crate::bytes::Text;
use crate::container::{MLX, OLLAMA};
use crate::engines::transformers;
use crate::error::Result;
use crate::json::{Json, Map};
use crate::model::Model;
use crate::ollama::runner;
use crate::ops::dialect::split_experts;
use crate::store::{Encoding, Store};

/// Names of kinds in older files.
const OLDER_ROPES: &[&str] = &["su", "mrope"];

/// The fault of a directory whose weights transformers does not look for: no index lists them, and they have another name.
/// mlx-lm looks for names that begin with `model`.
fn unopened(store: &Store) -> Option<String> {
    const INDEX: &str = "model.safetensors.index.json";
    let name = |file: &Path| Some(Text::from_path(Path::new(file.file_name()?)).brief());
    let names: Vec<String> = store.files().filter_map(name).collect();
    let (first, has_index) = (names.first()?, store.path().join(INDEX).exists());
    let others = store.is_directory() && !has_index && store.encoding() == Encoding::Safetensors;
    // The files of a plan have no names yet.
    let is_other = |name: &String| name.ends_with(".safetensors") && name != "model.safetensors";
    if !others || !names.iter().all(is_other) {
        return None;
    }
    let by_mlx = names.iter().any(|name| name.starts_with("model"));
    let looks = format!(
        "{first} is not opened by transformers, which looks for model.safetensors or the files of {INDEX}"
    );
    match by_mlx {
        false => Some(looks + ", nor by mlx-lm, which looks for model*.safetensors"),
        true if store.container() == MLX.name => None,
        true => Some(looks),
    }
}

/// The fault of a language model within another one, of whose layers some tensors are stored as if it were alone.
fn outside_module(resolution: &Resolution) -> Option<String> {
    const MODULE: &str = "language_model.";
    let stored = || {
        let of_layers = resolution.mapped.iter().filter(|of| of.canonical.starts_with("layers."));
        of_layers.flat_map(|of| &of.stored)
    };
    let layers = |name: &str| Some(name.split_once("layers.")?.0.to_owned());
    let within = layers(stored().find(|name| name.contains(MODULE))?)?;
    let bare = within.replace(MODULE, "");
    let mut outside = stored().filter(|name| layers(name).is_some_and(|before| before == bare));
    let first = outside.next()?;
    let more = match outside.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(format!(
        "{first}{more} are not below {within}, where other tensors of layers are: transformers initializes them at random"
    ))
}

/// Faults of a directory's `config.json` and tensors, one sentence each.
pub(super) fn faults(store: &Store, resolution: &Resolution, config: &ModelConfig) -> Vec<String> {
    let Some(root) = store.document("config.json").and_then(Json::as_object) else {
        return Vec::new();
    };
    let inner = TEXT_CONFIGS.iter().find_map(|name| root.get(name)?.as_object());
    let text = inner.unwrap_or(root);
    let mut faults = Vec::new();
    faults.extend(unopened(store));
    faults.extend(outside_module(resolution));
    if root.get("model_type").and_then(Json::as_str).is_none_or(str::is_empty) {
        let fault =
            "config.json states no model_type, by which transformers and mlx-lm find their classes";
        faults.push(fault.to_owned());
    }
    if store.container() == OLLAMA.name {
        faults.extend(runner::fault(root));
    }
    for key in ["hidden_act", "hidden_activation", "activation_function"] {
        let word = text.get(key).and_then(Json::as_str);
        if let Some(word) = word.filter(|word| !transformers::knows_activation(word)) {
            faults.push(format!("{key} is \"{word}\", which transformers does not know"));
        }
    }
    for key in ["rope_parameters", "rope_scaling"] {
        let Some(stated) = text.get(key).and_then(Json::as_object) else { continue };
        let nested = stated.values().filter_map(Json::as_object);
        for one in nested.chain([stated]) {
            faults.extend(rope(key, one));
        }
    }
    if let Some(wrapped) = resolution.wrapper_in(store.len()) {
        let instead = "which the names that transformers and mlx-lm look for do not have";
        faults.push(format!("{wrapped}, {instead}"));
    }
    if let Some(renamed) = resolution.renamed_in_class() {
        faults.push(format!("{renamed}: it ignores tensors under other names"));
    }
    faults.extend(resolution.ignored_by_class());
    if let Ok(Some((first, count))) = split_experts(store, resolution) {
        faults.push(format!(
            "{first}: transformers' class has the experts of a layer in one tensor, and ignores {count} such tensors"
        ));
    }
    flags(text, resolution, config, &mut faults);
    places(root, resolution, config, &mut faults);
    faults
}

fn rope(key: &str, stated: &Map<String, Json>) -> Option<String> {
    const TRAINED: &str = "original_max_position_embeddings";
    let kind = stated.get("rope_type").or_else(|| stated.get("type"))?.as_str()?;
    // Of LongRoPE under an older name, transformers looks for the length nowhere else.
    if kind == "su" && !stated.contains_key(TRAINED) {
        return Some(format!("{key} of type \"su\" has no {TRAINED}, which transformers requires"));
    }
    if OLDER_ROPES.contains(&kind) || kind == "yarn" && stated.contains_key("long_factor") {
        return None;
    }
    let Some(mut required) = transformers::rope_keys(kind) else {
        return Some(format!("the type of {key} is \"{kind}\", which transformers does not know"));
    };
    // YaRN's class derives a factor that is null from the lengths.
    let is_given =
        |name: &str| stated.get(name).is_some_and(|value| kind == "yarn" || !value.is_null());
    let lacking = required.find(|name| !is_given(name))?;
    Some(format!("{key} of type \"{kind}\" has no {lacking}, which transformers requires"))
}

/// A class builds no tensor whose flag is false, and ignores a stored one.
fn flags(
    text: &Map<String, Json>,
    resolution: &Resolution,
    config: &ModelConfig,
    faults: &mut Vec<String>,
) {
    let names = resolution.mapped.iter().map(|mapping| mapping.canonical.as_str());
    for flag in tensor_flags(text, names).into_iter().filter(TensorFlag::is_wrong) {
        let TensorFlag { key, stated, tensor, end, .. } = flag;
        match tensor {
            Some(name) => {
                let source = if stated { "" } else { ", by default" };
                faults.push(format!("{key} is false{source}, but the model has {name}"));
            }
            // Latent attention has its biases elsewhere.
            None if config.attention.kv_lora_rank.is_none() && stated => {
                let tensor = end.trim_start_matches('.');
                faults.push(format!("{key} is true, but no layer has {tensor}"));
            }
            None => {}
        }
    }
}

/// Notes for GGUF on tensors that the class of a directory ignores, by the flags of its config, but llama.cpp uses.
pub(in crate::ops) fn ignored_in_class(model: &Model) -> Result<Vec<String>> {
    let Some(root) = model.document("config.json").and_then(Json::as_object) else {
        return Ok(Vec::new());
    };
    let inner = TEXT_CONFIGS.iter().find_map(|name| root.get(name)?.as_object());
    let names = model.resolution()?.mapped.iter().map(|mapping| mapping.canonical.as_str());
    let flags = tensor_flags(inner.unwrap_or(root), names).into_iter();
    let note = |flag: TensorFlag<'_>| {
        let (key, tensor) = (flag.key, flag.tensor?);
        Some(format!(
            "{key} is false, but the model has {tensor}: llama.cpp uses it, transformers ignores it"
        ))
    };
    Ok(flags.filter(TensorFlag::is_wrong).filter_map(note).collect())
}

/// The ends of names of classes without a head of their own, or with that of a language model.
const HEADLESS: [&str; 3] = ["ForCausalLM", "ForConditionalGeneration", "Model"];

/// Tensors that the class has no place for: mlx-lm refuses them, transformers ignores them.
fn places(
    root: &Map<String, Json>,
    resolution: &Resolution,
    config: &ModelConfig,
    faults: &mut Vec<String>,
) {
    let class = root.get("architectures").and_then(|list| list[0].as_str());
    // A class for another task than a language model's reads the tensors of its head.
    let of_task =
        |class: &str| class.contains("For") && !HEADLESS.iter().any(|end| class.ends_with(end));
    let model_type = root.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let rest = match (class.is_some_and(of_task), transformers::has_class(model_type)) {
        (true, _) => ", which has a head that only transformers computes",
        (false, true) => ", transformers ignores the tensor",
        // Such a class is code of its publisher.
        (false, false) => "",
    };
    let instead = format!("mlx-lm does not load the model{rest}");
    if let [first, others @ ..] = resolution.unknown.as_slice()
        && !resolution.has_towers()
    {
        let more =
            if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
        faults.push(format!("{first} is not a known tensor{more}: {instead}"));
    }
    let next = config.experts.n_next_token_layers.as_ref().map_or(0, |more| more.value);
    let layers = config.n_layers.value.saturating_add(next);
    let number = |name: &str| name.strip_prefix("layers.")?.split('.').next()?.parse::<u32>().ok();
    // Readers leave out what is stored apart from the other layers.
    let is_numbered = resolution.architecture.is_none_or(|row| row.next_layer.is_empty());
    let apart = if is_numbered { BTreeSet::new() } else { resolution.next_layers() };
    let mut beyond = resolution.mapped.iter().filter_map(|mapping| {
        let number = number(&mapping.canonical)?;
        (number >= layers && !apart.contains(&number)).then_some(&mapping.canonical)
    });
    if let Some(name) = beyond.next() {
        let stated = &config.n_layers;
        faults.push(format!(
            "{name} exists, but n_layers ({}) is {}: {instead}",
            stated.source, stated.value
        ));
    }
}
