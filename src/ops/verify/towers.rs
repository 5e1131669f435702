//! Vision and audio models next to a language model: the layers that `config.json` states, and what one layer lacks that all
//! others have.

use std::collections::{BTreeMap, BTreeSet};

use crate::arch::tower::TowerConfig;
use crate::arch::{Auxiliary, Resolution, family, tower_part};
use crate::container::MLX;
use crate::engines::transformers;
use crate::json::Json;
use crate::model::Model;
use crate::store::Encoding;

/// Fewer layers, or fewer tensors of a layer, do not show what a layer has.
const FEW: usize = 4;

/// Keys of `vision_config` and `audio_config` with the number of layers.
const COUNTS: [&str; 4] = ["num_hidden_layers", "depth", "num_layers", "encoder_layers"];

/// Modules with layers of their own beside those of the vision or audio model, with the objects of `config.json` and the
/// key that state the number of these layers (transformers 5.24: Mllama; BLIP-2, InstructBLIP, Granite Speech; Idefics).
const STACKS: &[(&str, &[&str], &str)] = &[
    ("global_transformer", &["vision_config"], "num_global_layers"),
    ("qformer", &["qformer_config", "projector_config"], "num_hidden_layers"),
    ("perceiver_resampler", &["perceiver_config"], "resampler_depth"),
];

/// Layers of a vision or audio model: the numbers of the layers that have a tensor, by the name after the number.
type Layers<'n> = BTreeMap<&'n str, BTreeSet<u32>>;

/// Missing parts of vision and audio models.
#[derive(Debug, Default)]
pub(super) struct MissingOfTowers {
    /// Tensors that transformers' class has.
    pub(super) faults: Vec<String>,
    /// Tensors that it may have.
    pub(super) notes: Vec<String>,
}

/// Compares the layers of vision and audio models with their number in `config.json`, one sentence for each difference.
pub(super) fn missing(model: &Model) -> MissingOfTowers {
    let mut found = MissingOfTowers::default();
    let Ok(resolution) = model.resolution() else { return found };
    found.notes = gaps(resolution);
    found.faults = projector_flags(model);
    // Documents that cannot be read are faults of their own.
    let config = TowerConfig::of(model.store()).ok().flatten();
    let Some(config) = config.filter(|_| resolution.has_towers()) else { return found };
    let tower = family::tower(&config);
    let lists = lists(resolution);
    for (before, tensors) in &lists {
        if let Some(stack) = other_stack(before) {
            let stated = stated_of_stack(&config, stack);
            let lacking = stated.map(|(key, count)| lacking(before, tensors, &key, count));
            found.notes.extend(lacking.into_iter().flatten());
            continue;
        }
        // In GGUF, such names say whether a list is that of the layers.
        let part = |after: &&str| {
            let of_file = tower?.tensors(&format!("{before}0{after}"), &config).ok()??;
            let mut names = of_file.iter().map(|tensor| tensor.name.as_str());
            names.find_map(|name| match name.split('.').collect::<Vec<_>>().as_slice() {
                ["v", "blk", ..] => Some(false),
                ["a", "blk", ..] => Some(true),
                _ => None,
            })
        };
        let known = tensors.keys().find_map(part);
        let mut others = lists.iter().filter(|(before, _)| other_stack(before).is_none());
        let is_largest = others.all(|(_, other)| other.len() <= tensors.len());
        let usual = || {
            let is_audio = tower_part(before)?.contains("audio");
            (tower.is_none() && is_largest && tensors.len() >= FEW).then_some(is_audio)
        };
        let Some(is_audio) = known.or_else(usual) else { continue };
        let Some((key, count)) = stated(&config, is_audio) else { continue };
        let list = if known.is_some() { &mut found.faults } else { &mut found.notes };
        list.extend(lacking(before, tensors, &key, count));
    }
    found
}

/// A note on a model whose config states a vision or audio model, of which no tensor is stored. mlx-lm leaves such tensors
/// out, and keeps the config.
pub(in crate::ops) fn absent(model: &Model) -> Option<String> {
    let store = model.store();
    let root = store.document("config.json").filter(|_| store.container() != MLX.name)?;
    let classes = root.get("architectures").and_then(Json::as_array)?;
    let is_whole = |class: &&str| class.ends_with("ForConditionalGeneration");
    let class = classes.iter().filter_map(Json::as_str).find(is_whole)?;
    let stated = |key: &&&str| root.get(key).is_some_and(Json::is_object);
    let key = ["vision_config", "audio_config"].iter().find(stated)?;
    let lacks = |it: &&Resolution| it.lacks_towers() || it.is_without_encoder();
    model.resolution().ok().filter(lacks)?;
    Some(format!(
        "config.json has {key} and the class {class}, but no tensor of such a model is stored: transformers initializes it \
         at random; the language model is whole"
    ))
}

/// The flags of `config.json` that contradict the tensors of the projector, one sentence for each.
pub(in crate::ops) fn projector_flags(model: &Model) -> Vec<String> {
    let store = model.store();
    let Some(root) = store.document("config.json").filter(|_| store.encoding() != Encoding::Gguf)
    else {
        return Vec::new();
    };
    let model_type = root.get("model_type").and_then(Json::as_str).unwrap_or_default();
    // Older versions of transformers store a model without the first part of the names of its class.
    let bare = |name: &str| name.strip_prefix("model.").unwrap_or(name).to_owned();
    let stored: BTreeSet<String> =
        store.tensors().map(|tensor| bare(&tensor.name().spelling())).collect();
    let (mut faults, mut told) = (Vec::new(), BTreeSet::new());
    for flag in transformers::projector_flags(model_type) {
        let tensor = bare(flag.tensor);
        let module = tensor.split('.').next().unwrap_or_default();
        let has_module = stored.iter().any(|name| name.split('.').next() == Some(module));
        let stated = root.get(flag.key).and_then(Json::as_bool);
        let (value, is_stored) = (stated.unwrap_or(flag.default), stored.contains(&tensor));
        if !has_module || value == is_stored || !told.insert(flag.key) {
            continue;
        }
        let source = if stated.is_some() { "" } else { ", by default" };
        faults.push(match is_stored {
            true => format!(
                "{} in config.json is false{source}, but the model has {tensor}, which transformers ignores",
                flag.key
            ),
            false => format!(
                "{} in config.json is true{source}, but the model lacks {tensor}, which transformers initializes at random",
                flag.key
            ),
        });
    }
    faults
}

/// The number of layers that the config of the vision or audio model states, and its key.
fn stated(config: &TowerConfig<'_>, is_audio: bool) -> Option<(String, u32)> {
    let of = |key: &str| match is_audio && config.part() != "audio" {
        true => config.audio(key).and_then(Json::as_u64),
        false if is_audio == (config.part() == "audio") => config.value(key)?.as_u64(),
        false => None,
    };
    let section = if is_audio { "audio_config" } else { "vision_config" };
    COUNTS.iter().find_map(|key| Some((format!("{section}.{key}"), u32::try_from(of(key)?).ok()?)))
}

/// The row of [`STACKS`] for the layers with names that begin so.
fn other_stack(
    before: &str,
) -> Option<&'static (&'static str, &'static [&'static str], &'static str)> {
    let module_of = |name: &str| before.split('.').any(|part| part == name);
    STACKS.iter().find(|(module, ..)| module_of(module))
}

/// The number of layers that the config states for a module of [`STACKS`], and its key.
fn stated_of_stack(
    config: &TowerConfig<'_>,
    (_, objects, key): &(&str, &[&str], &str),
) -> Option<(String, u32)> {
    let count = |object: &&str| {
        let count = config.outer(object)?.get(key)?.as_u64()?;
        Some((format!("{object}.{key}"), u32::try_from(count).ok()?))
    };
    objects.iter().find_map(count)
}

/// The layers of `count` that are missing, in ranges.
fn lacking(before: &str, tensors: &Layers<'_>, key: &str, count: u32) -> Vec<String> {
    let present: BTreeSet<u32> = tensors.values().flatten().copied().collect();
    let mut out = Vec::new();
    let mut absent = (0..count).filter(|layer| !present.contains(layer)).peekable();
    while let Some(first) = absent.next() {
        let mut last = first;
        while let Some(next) = absent.next_if(|next| last.checked_add(1) == Some(*next)) {
            last = next;
        }
        let names = match first == last {
            true => format!("{before}{first}.*"),
            false => format!("{before}[{first}-{last}].*"),
        };
        let each = tensors.len();
        out.push(format!(
            "{names}: {each} tensors of each layer are missing, for config.json says {count} layers ({key})"
        ));
    }
    out
}

/// The tensors of vision and audio models whose names have one number, by the name before the number.
fn lists(resolution: &Resolution) -> BTreeMap<&str, Layers<'_>> {
    let mut lists: BTreeMap<&str, Layers<'_>> = BTreeMap::new();
    for tensor in resolution.auxiliary.iter().filter(|tensor| tensor.is_of_a_tower()) {
        if let Some((before, number, after)) = around_number(tensor) {
            lists.entry(before).or_default().entry(after).or_default().insert(number);
        }
    }
    lists
}

/// The tensors that one layer of a vision or audio model lacks although all others have them, one sentence each.
fn gaps(resolution: &Resolution) -> Vec<String> {
    let mut out = Vec::new();
    for (before, tensors) in lists(resolution) {
        let layers: BTreeSet<u32> = tensors.values().flatten().copied().collect();
        let whole = tensors.values().filter(|has| **has == layers).count();
        if layers.len() < FEW || tensors.len() < FEW || whole < tensors.len().div_ceil(2) {
            continue;
        }
        for (after, has) in &tensors {
            let lacking: Vec<u32> = layers.difference(has).copied().collect();
            if let [layer] = lacking.as_slice() {
                let others = has.len();
                out.push(format!(
                    "{before}{layer}{after} is missing: the other {others} layers of the vision or audio model have it"
                ));
            }
        }
    }
    out
}

/// The parts of a name before and after its only number.
fn around_number(tensor: &Auxiliary) -> Option<(&str, u32, &str)> {
    let name = tensor.stored.as_str();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers = name.split('.').filter(is_number);
    let number = numbers.next().filter(|_| numbers.next().is_none())?;
    let (before, after) = name.split_once(&format!(".{number}."))?;
    let end = before.len().checked_add(1)?;
    let start = name.len().checked_sub(after.len().checked_add(1)?)?;
    Some((name.get(..end)?, number.parse().ok()?, name.get(start..)?))
}
