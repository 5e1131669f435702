//! The `verify` verb: checks a model's files, and that its config, tensors, tokenizer and chat
//! templates are consistent.

mod adapters;
mod classes;
mod hub;
pub(super) mod layers;
mod loader;
mod report;
mod shapes;
pub(super) mod towers;
mod vocabulary;

use std::collections::{BTreeMap, BTreeSet};

use crate::arch::{ModelConfig, Resolution, heads, other_models};
use crate::bytes::Text;
use crate::container::Strictness;
use crate::container::safetensors::{
    contradictions, scheme_beside, states_itself, stored_unquantized,
};
use crate::engines::transformers;
use crate::error::{ErrorKind, Result};
use crate::json::Json;
use crate::model::Model;
use crate::ops::dialect::{of_another_framework, of_another_kind};
use crate::store::{Encoding, Store};
use adapters::AdapterCheck;

pub(super) use classes::ignored_in_class;
pub(super) use loader::{MlxReader, narrow_alignment, unknown_architecture};
pub use report::{
    HashChange, HashDifference, TensorFinding, VerifyOptions, VerifyReport, digest_fault, verify,
};
pub(super) use vocabulary::{VOCABULARY_KEYS, tokens_beyond};

/// The result of [`check_consistency`]. Each text is one line, safe to print on a terminal.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Consistency {
    /// Faults that make the model unusable, one sentence each.
    pub faults: Vec<String>,
    /// Notes on what some readers refuse, and on what could not be checked.
    pub notes: Vec<String>,
}

/// Checks that a model's files are consistent: required tensors, the shapes that the config
/// determines, the vocabulary and its special tokens, chat templates.
///
/// If the container's reference reader is known to refuse something, it becomes a note, and with
/// [`Strictness::Strict`] a fault. The reference readers are llama.cpp for GGUF, transformers for
/// Hugging Face directories and mlx-lm for MLX. For the architectures that this library writes, the
/// tensors, shapes and keys of a GGUF file are compared with those that llama.cpp accepts and
/// requires.
///
/// # Errors
///
/// `Io` if a file beside the weights cannot be read.
pub fn check_consistency(model: &Model, strictness: Strictness) -> Result<Consistency> {
    let Examination { mut faults, mut refused, note: unchecked, .. } = Examination::of(model)?;
    faults.extend(of(Area::Config, missing_modules(model.store())?));
    // A family that is given at run time may be written under a name that only its programs know.
    refused.extend(of(Area::Loader, unknown_architecture(model.store())));
    refused.extend(of(Area::Loader, stated_beside(model.store())));
    let (contradicted, differing) = contradictions(model.store());
    faults.extend(of(Area::Values, contradicted));
    refused.extend(of(Area::Loader, differing));
    if let Some(unquantized) = stored_unquantized(model.store()) {
        faults.extend(of(Area::Values, [format!("{}: {TAKEN_FOR_CODES}", unquantized.fault())]));
        // What readers do with the scales follows from it.
        refused.retain(|fault| fault.area != Area::Loader || !fault.text.contains("_scale"));
    }
    faults.extend(of(Area::Shapes, model.attached_projector_fault()));
    let of_towers = towers::missing(model);
    faults.extend(of(Area::Names, of_towers.faults));
    refused.extend(of(Area::Names, of_towers.notes));
    let mut found = Consistency::default();
    for (list, of) in [(&mut found.faults, faults), (&mut found.notes, refused)] {
        // The texts contain names and keys from files, which are shortened and escaped.
        list.extend(of.iter().map(|fault| Text::new(fault.text.as_bytes()).brief()));
    }
    if strictness == Strictness::Strict {
        found.faults.append(&mut found.notes);
    }
    // transformers loads such a model.
    let notes = model.resolution().ok().and_then(Resolution::stored_as_output);
    let head = model.resolution().ok();
    let head = head.and_then(|resolution| heads::remark(model.store(), resolution));
    let notes = notes.into_iter().chain(towers::absent(model)).chain(head).chain(unchecked);
    found.notes.extend(notes.map(|note| Text::new(note.as_bytes()).brief()));
    #[cfg(feature = "write")]
    if model.encoding() == Encoding::Safetensors {
        let flags = crate::translate::contradicted_flags(model.store());
        found.notes.extend(flags.iter().map(|note| Text::new(note.as_bytes()).brief()));
    }
    found.notes.extend(other_models::draft(model.store()).map(str::to_owned));
    found.notes.extend(model.store().broken_links()?);
    Ok(found)
}

/// The part of a model that a fault concerns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Area {
    Values,
    Names,
    Config,
    Shapes,
    Vocabulary,
    Loader,
}

/// Documents next to the weights that conversions read, and no other check does.
const DOCUMENTS: [&str; 4] = [
    "generation_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "processor_config.json",
];

/// A fault in one sentence.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) area: Area,
    pub(super) text: String,
}

/// All faults of a model, opened or planned.
#[derive(Debug, Default)]
pub(super) struct Examination {
    /// Faults that make the model unusable.
    pub(super) faults: Vec<Fault>,
    /// The faults that the reference readers refuse.
    pub(super) refused: Vec<Fault>,
    /// The reasons why the loader of the reference reader does not load the model, one sentence for
    /// each fault.
    pub(super) loader: Vec<String>,
    /// What could not be checked of an adapter.
    note: Option<String>,
}

/// Tags faults with the area that they concern.
fn of(area: Area, texts: impl IntoIterator<Item = String>) -> impl Iterator<Item = Fault> {
    texts.into_iter().map(move |text| Fault { area, text })
}

/// Why llama.cpp does not load a GGUF file, in the sentences of [`check_consistency`]. Empty for another container.
///
/// # Errors
///
/// Same as [`check_consistency`].
pub(super) fn unloaded(model: &Model) -> Result<Vec<String>> {
    if model.encoding() != Encoding::Gguf {
        return Ok(Vec::new());
    }
    let Examination { refused, loader, .. } = Examination::of(model)?;
    let refused = refused.into_iter().map(|fault| fault.text);
    let mut found: Vec<String> = unknown_architecture(model.store()).into_iter().collect();
    for fault in loader.into_iter().chain(refused) {
        if !found.contains(&fault) {
            found.push(fault);
        }
    }
    Ok(found)
}

impl Examination {
    /// Checks a model's names, shapes, keys and documents.
    ///
    /// # Errors
    ///
    /// `Io` if a file next to the weights cannot be read.
    pub(super) fn of(model: &Model) -> Result<Self> {
        let mut found = Self::default();
        let store = &**model.store();
        found.faults.extend(of(Area::Values, unknown_values(store)));
        let adapter = AdapterCheck::of(model);
        found.faults.extend(of(Area::Names, adapter.fault));
        found.note = adapter.note.filter(|_| found.faults.is_empty());
        // The directory of a shard is the whole model, as a note says.
        if adapter.is_separate || store.is_shard() {
            return Ok(found);
        }
        let resolution = match model.resolution() {
            Ok(resolution) => resolution,
            Err(error) => {
                found.faults.extend(of(Area::Names, [error.to_string()]));
                return Ok(found);
            }
        };
        // Names and shapes can be checked only if the arrays are understood.
        let is_known = found.faults.is_empty();
        let framework = of_another_framework(store, resolution).map(|(fault, _)| fault);
        let other = framework.or_else(|| of_another_kind(resolution, None));
        match resolution.unknown.first().zip(other) {
            Some((first, fault)) => {
                found.faults.extend(of(Area::Names, [format!("{first}: {fault}")]));
            }
            None => {
                let lacks = |name: &String| {
                    format!("the model lacks {name}, which its architecture requires")
                };
                found.faults.extend(of(Area::Names, resolution.missing.iter().map(lacks)));
                let part = no_language_model(store, resolution).filter(|_| is_known);
                found.faults.extend(of(Area::Names, part));
            }
        }
        if !store.is_empty() && is_known {
            found.refused.extend(of(Area::Names, architecture(store)));
        }
        let config = match model.config() {
            Ok(config) => Some(config),
            // An adapter or a projector has no config.
            Err(error)
                if resolution.architecture.is_some()
                    && error.kind() != ErrorKind::Unsupported
                    && !store.is_empty() =>
            {
                found.faults.extend(of(Area::Config, [error.to_string()]));
                None
            }
            Err(_) => None,
        };
        if let Some(config) = config.filter(|_| resolution.architecture.is_some() && is_known) {
            found.faults.extend(of(Area::Shapes, tensors(model, resolution, config)));
            found.faults.extend(of(Area::Names, lacking_bias(resolution, config)));
            found.faults.extend(of(Area::Config, numbers(config)));
            found.faults.extend(of(Area::Config, divisors(config)));
            found.faults.extend(of(Area::Config, untied(store, config)));
            found.faults.extend(of(Area::Config, layers::faults(store, resolution, config)));
            found.refused.extend(of(Area::Loader, classes::faults(store, resolution, config)));
        }
        let unread = DOCUMENTS.iter().filter_map(|name| store.read_document(name).err());
        found.faults.extend(of(Area::Config, unread.map(|error| error.to_string())));
        found.loader = loader::faults(store, resolution);
        // Other faults have the same causes.
        if found.faults.is_empty() {
            found.refused.extend(of(Area::Loader, found.loader.iter().cloned()));
        }
        let (mut faults, mut refused) = (Vec::new(), Vec::new());
        vocabulary::check(store, config, &mut faults, &mut refused)?;
        found.faults.extend(of(Area::Vocabulary, faults));
        found.refused.extend(of(Area::Vocabulary, refused));
        Ok(found)
    }
}

/// The modules in `modules.json` that sentence-transformers does not load, since their files are missing.
fn missing_modules(store: &Store) -> Result<Vec<String>> {
    const CONFIGURED: [&str; 2] = ["Pooling", "Dense"];
    let mut faults = Vec::new();
    for module in store.modules()? {
        let (kind, folder) = (module.kind.as_str(), &module.folder);
        let is_here = CONFIGURED.contains(&kind) && store.module_folder(&module).is_some();
        if is_here && matches!(store.module_config(&module), Ok(None)) {
            faults.push(format!(
                "modules.json names {folder}/config.json ({kind}), which is missing"
            ));
        }
    }
    Ok(faults)
}

/// The fault of a model with tensors whose values are not known.
fn unknown_values(store: &Store) -> Option<String> {
    let mut unknown = store.unknown_values();
    // The path would leave little room for the reason.
    let first = unknown.next()?.without_path();
    Some(match unknown.count() {
        0 => first.to_string(),
        1 => format!("{first}; the same holds for 1 more tensor"),
        more => format!("{first}; the same holds for {more} more tensors"),
    })
}

/// The faults that the reference readers refuse in a model that does not name its architecture.
fn architecture(store: &Store) -> Vec<String> {
    let mut refused = Vec::new();
    let named = crate::arch::architecture_name(store).is_ok_and(|named| named.is_some());
    if !named && store.encoding() == Encoding::Gguf {
        refused.push("no general.architecture: llama.cpp does not load the file".to_owned());
    }
    let directory = store.container() != "safetensors" || store.is_directory();
    if !named && store.encoding() == Encoding::Safetensors && directory {
        let lacking = match store.document("config.json") {
            Some(_) => Some("model_type in config.json"),
            None => {
                let limit = (store.limits().document_bytes, "document_bytes");
                let adapter = store.read_companion("adapter_config.json", limit);
                adapter.is_ok_and(|file| file.is_none()).then_some("config.json")
            }
        };
        refused
            .extend(lacking.map(|what| format!("no {what}: transformers does not load the model")));
    }
    refused
}

/// The way transformers loads an unquantized matrix of a quantized module.
pub(super) const TAKEN_FOR_CODES: &str =
    "transformers takes its values for codes, or initializes the matrix at random";

/// The quantization of a directory that transformers does not read.
fn stated_beside(store: &Store) -> Option<String> {
    store.document("config.json").filter(|_| store.is_directory())?;
    let rest = "which transformers does not read: without quantization_config in config.json it initializes the quantized \
                matrices at random";
    Some(match scheme_beside(store) {
        Some(document) => format!(
            "the quantization is stated in {document} alone, {rest} (a copy as safetensors has that key)"
        ),
        None if states_itself(store) => {
            format!("the quantization is stated by bitsandbytes' own arrays alone, {rest}")
        }
        None => return None,
    })
}

/// The fault of a model without any tensor of the language model. A GGUF file may hold a vocabulary alone.
fn no_language_model(store: &Store, resolution: &Resolution) -> Option<String> {
    resolution.architecture?;
    let is_empty = store.is_empty() && store.encoding() == Encoding::Safetensors;
    let part = resolution.part_alone();
    part.or_else(|| is_empty.then(|| "the model has no tensor".to_owned()))
}

/// The fault of a layer with a matrix that lacks its bias, although it has one in other layers. The classes
/// of GPT-NeoX Japanese have one in the last layer alone.
fn lacking_bias(resolution: &Resolution, config: &ModelConfig) -> Option<String> {
    let mut layers: BTreeMap<&str, [BTreeSet<u32>; 2]> = BTreeMap::new();
    for mapping in &resolution.mapped {
        let rest = mapping.canonical.strip_prefix("layers.");
        let Some((number, rest)) = rest.and_then(|rest| rest.split_once('.')) else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        for (end, kind) in [(".weight", 0), (".bias", 1)] {
            if let Some(part) = rest.strip_suffix(end).filter(|_| number < config.n_layers.value)
                && let Some(found) = layers.entry(part).or_default().get_mut(kind)
            {
                found.insert(number);
            }
        }
    }
    layers.into_iter().find_map(|(part, [weights, biases])| {
        let (first, lacking) = (biases.first()?, weights.difference(&biases).next()?);
        let is_last = biases.len() == 1 && weights.last() == Some(first);
        let fault =
            format!("layers.{lacking}.{part} has no bias, but layers.{first}.{part} has one");
        (!is_last).then_some(fault)
    })
}

/// Faults of tensors that cannot be derived, or whose shape contradicts the config.
fn tensors(model: &Model, resolution: &Resolution, config: &ModelConfig) -> Vec<String> {
    let shape = |name: &str| match model.tensor(name) {
        Ok(view) => Ok(view.shape().to_vec()),
        Err(error) => Err(error.to_string()),
    };
    let names = resolution.mapped.iter().map(|mapping| mapping.canonical.as_str());
    let shapes: Vec<_> = names.map(|name| (name, shape(name))).collect();
    shapes::faults(config, resolution, &shapes)
}

/// Lists of divisors of rotary frequencies that are not one for each frequency.
fn divisors(config: &ModelConfig) -> Vec<String> {
    let Some(rotated) = &config.rope.dimension_count else { return Vec::new() };
    let frequencies = u64::from(rotated.value / 2);
    let scaling = &config.rope_scaling;
    let lists = [&scaling.long_factors, &scaling.short_factors].into_iter().flatten();
    let unfit = lists.filter(|list| list.value.len() as u64 != frequencies);
    unfit
        .map(|list| {
            format!(
                "{} has {} numbers, but {frequencies} are needed, half of rope_dimension_count ({})",
                list.source,
                list.value.len(),
                rotated.source
            )
        })
        .collect()
}

/// Faults of config numbers that contradict each other.
fn numbers(config: &ModelConfig) -> Vec<String> {
    let mut faults = Vec::new();
    let (heads, kv_heads) = (&config.n_heads, &config.n_kv_heads);
    let attention = &config.attention;
    let uneven = attention.n_heads_per_layer.is_some() || attention.n_kv_heads_per_layer.is_some();
    if !uneven && !heads.value.is_multiple_of(kv_heads.value.max(1)) {
        faults.push(format!(
            "n_heads ({}) is {}, which is not a multiple of n_kv_heads ({}), {}",
            heads.source, heads.value, kv_heads.source, kv_heads.value
        ));
    }
    if let Some(used) = &config.experts.n_experts_used
        && config.n_experts.value > 0
        && used.value > config.n_experts.value
    {
        faults.push(format!(
            "n_experts_used ({}) is {}, but there are {} experts ({})",
            used.source, used.value, config.n_experts.value, config.n_experts.source
        ));
    }
    if let Some(rotated) = &config.rope.dimension_count
        && attention.kv_lora_rank.is_none()
        && rotated.value > config.head_dim.value
    {
        faults.push(format!(
            "rope_dimension_count ({}) is {}, but a head has {} elements ({})",
            rotated.source, rotated.value, config.head_dim.value, config.head_dim.source
        ));
    }
    let layers = config.n_layers.value as usize;
    let next = config.experts.n_next_token_layers.as_ref().map_or(0, |more| more.value as usize);
    let lists = [
        ("n_heads_per_layer", attention.n_heads_per_layer.as_ref()),
        ("n_kv_heads_per_layer", attention.n_kv_heads_per_layer.as_ref()),
        ("ffn_dim_per_layer", config.ffn_dim_per_layer.as_ref()),
    ];
    for (name, list) in lists {
        // A list may have the layers for further tokens, and the number of layers in GGUF has them.
        let allowed = [layers, layers.saturating_add(next), layers.saturating_sub(next)];
        if let Some(list) = list.filter(|list| !allowed.contains(&list.value.len())) {
            faults.push(format!(
                "{name} ({}) has {} entries, but there are {layers} layers ({})",
                list.source,
                list.value.len(),
                config.n_layers.source
            ));
        }
    }
    faults
}

/// A note on a model that lacks its output matrix, although its config says that one is stored, or its embedding: logits
/// are computed with the other one.
pub fn missing_head(model: &Model) -> Option<String> {
    let fault = untied(model.store(), model.config().ok()?);
    fault
        .map(|fault| format!("{fault}: logits are computed with the embedding"))
        .or_else(|| model.resolution().ok()?.stored_as_output())
}

/// The fault of a model without an output matrix although its config, or the class that reads it, says that one is stored.
pub(super) fn untied(store: &Store, config: &ModelConfig) -> Option<String> {
    let json = store.document("config.json")?;
    let classes = json.get("architectures").and_then(Json::as_array)?;
    let stated = json.get("tie_word_embeddings").and_then(Json::as_bool);
    let has_head = |class: &Json| {
        class.as_str().is_some_and(|name| {
            // A class around that of a text model has defaults of its own.
            name.ends_with("ForCausalLM")
                || name.ends_with("ForConditionalGeneration") && stated.is_some()
        })
    };
    let tied = config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
    if !tied || !classes.iter().any(has_head) {
        return None;
    }
    let model_type = json.get("model_type").and_then(Json::as_str).unwrap_or_default();
    // mlx-lm's classes have other defaults.
    let usual = || transformers::ties_by_default(model_type).filter(|_| store.container() != "mlx");
    let (why, is_tied) = match stated {
        Some(stated) => ("although tie_word_embeddings in config.json is false".to_owned(), stated),
        None => (
            format!(
                "and config.json has no tie_word_embeddings: transformers' class of {model_type} takes it as false, and initializes the matrix at random"
            ),
            usual().unwrap_or(true),
        ),
    };
    (!is_tied).then(|| format!("the model lacks output.weight, {why}"))
}
