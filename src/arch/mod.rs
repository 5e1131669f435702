//! Architectures: what a model's tensors are called, and what its numbers are.

mod config;
mod decoder;
mod generation;
mod llama;
mod qwen;
mod rule;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::store::{Encoding, WeightStore};
pub use config::{
    AttentionConfig, ConfigField, ConfigValue, EncoderConfig, ExpertConfig, Field, Gating,
    LayerKind, LayerLayout, ModelConfig, NormKind, RopeConfig, RopeScaling, RopeScalingKind,
    ScaleConfig, SsmConfig,
};
pub use generation::GenerationConfig;
pub use rule::{NameRule, Transform};

/// A family of models whose tensors have the same names and meanings.
#[derive(Debug)]
#[non_exhaustive]
pub struct Architecture {
    /// The name, as in `weighbridge list architectures`.
    pub name: &'static str,
    /// The models it covers.
    pub summary: &'static str,
    /// Values of `general.architecture` in GGUF.
    pub gguf: &'static [&'static str],
    /// Values of `model_type` in `config.json`.
    pub hf: &'static [&'static str],
    /// The order of rows that rotary embeddings expect in a Hugging Face checkpoint.
    pub rope: RopeLayout,
    /// Tables of names, the first that has a name winning.
    pub rules: &'static [&'static [NameRule]],
    /// Canonical names, and those in the publisher's own checkpoints, where they differ from both.
    pub publisher: &'static [(&'static str, &'static str)],
    /// Canonical names without which a model is not whole.
    pub required: &'static [&'static str],
}

/// Every architecture that is known. A model of another one opens under its stored names.
pub static ARCHITECTURES: &[&Architecture] = &[&llama::LLAMA, &qwen::QWEN2, &qwen::QWEN3];

/// The order of the rows of q and k within a head, which says how rotary embeddings apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RopeLayout {
    /// Row i pairs with row i + half ("NEOX", `rotate_half`).
    HalfSplit,
    /// Row 2i pairs with row 2i + 1 ("NORM").
    Interleaved,
}

impl RopeLayout {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HalfSplit => "half_split",
            Self::Interleaved => "interleaved",
        }
    }
}

/// Whose names a model uses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Dialect {
    /// llama.cpp's.
    Gguf,
    /// Those of Hugging Face's transformers, which MLX keeps.
    HuggingFace,
    /// Those of the publisher's own checkpoints (Mistral's `consolidated.safetensors`).
    Publisher,
}

impl Dialect {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::HuggingFace => "hugging_face",
            Self::Publisher => "publisher",
        }
    }
}

/// A stored tensor and its canonical name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mapping {
    /// The name that engines ask for.
    pub canonical: String,
    /// The name in the file.
    pub stored: String,
    /// How the stored values differ from those of a Hugging Face checkpoint.
    pub transform: Transform,
}

/// How a model's stored names were understood. Nothing is dropped in silence: what has no canonical
/// name stands in [`unknown`](Self::unknown), what should be there and is not in
/// [`missing`](Self::missing).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resolution {
    /// The architecture, or `None` where it is not known.
    pub architecture: Option<&'static Architecture>,
    /// Whose names the model uses.
    pub dialect: Dialect,
    /// Why this architecture was chosen, or none.
    pub reason: String,
    /// Stored tensors with canonical names, in the order of the files.
    pub mapped: Vec<Mapping>,
    /// Stored names without a canonical one, in the order of the files.
    pub unknown: Vec<String>,
    /// Canonical names of tensors that the architecture needs and the model lacks: runs of whole
    /// layers as one entry, `layers.4..8`, and a tensor that several layers lack as another,
    /// `layers.[0-3,7].ffn.up.weight`.
    pub missing: Vec<String>,
}

impl Resolution {
    /// The order of the rows of q and k as they are stored, where the architecture is known.
    pub fn rope_layout(&self) -> Option<RopeLayout> {
        let architecture = self.architecture?;
        let permuted = self.mapped.iter().any(|mapping| mapping.transform == Transform::PermuteQk);
        // Publishers' own checkpoints of these families were trained on pairs.
        let pairs = permuted || self.dialect == Dialect::Publisher;
        Some(if pairs { RopeLayout::Interleaved } else { architecture.rope })
    }
}

/// The name that a model gives its architecture, and where it says so.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) source: String,
}

/// What the model calls its architecture, if it says.
///
/// # Errors
///
/// `Malformed` if what should be a name is none.
pub(crate) fn named(store: &WeightStore) -> Result<Option<Named>> {
    let key = "general.architecture";
    if let Some(value) = store.metadata().get(key) {
        let name = value.to_text().and_then(|text| text.to_str()).ok_or_else(|| {
            let name = value.value_type().name();
            Error::malformed(format!("a {name}, but the architecture's name is needed"))
                .in_file(store.path())
                .in_key(key)
        })?;
        return Ok(Some(Named { name: name.to_owned(), source: key.to_owned() }));
    }
    if let Some(config) = store.document("config.json") {
        // The language model's own config says more than that of a model wrapped round it.
        let inner = config::TEXT_CONFIGS.iter().filter_map(|name| Some((*name, config.get(name)?)));
        for (at, config) in inner.chain([("", config)]) {
            if let Some(name) = config.get("model_type").and_then(|name| name.as_str()) {
                let dot = if at.is_empty() { "" } else { "." };
                let source = format!("config.json {at}{dot}model_type");
                return Ok(Some(Named { name: name.to_owned(), source }));
            }
        }
    }
    if store.document("params.json").is_some() && store.tensor("tok_embeddings.weight").is_ok() {
        let source = "params.json beside Mistral's own names".to_owned();
        return Ok(Some(Named { name: "llama".to_owned(), source }));
    }
    Ok(None)
}

/// Finds the architecture and gives every stored tensor its canonical name, where it has one.
///
/// # Errors
///
/// `Malformed` if the architecture's name is no text, or two tensors have one canonical name.
pub fn resolve(store: &WeightStore) -> Result<Resolution> {
    let gguf = store.encoding() == Encoding::Gguf;
    let named = named(store)?;
    let found = named.as_ref().and_then(|named| {
        let is = |names: &[&str]| names.contains(&named.name.as_str());
        ARCHITECTURES.iter().find(|row| is(if gguf { row.gguf } else { row.hf }) || is(&[row.name]))
    });
    let reason = match (&named, found) {
        (Some(Named { name, source }), Some(_)) => format!("{source} is \"{name}\""),
        (Some(Named { name, source }), None) => {
            format!("{source} is \"{name}\", which is not a known architecture")
        }
        (None, _) => "no file says what the architecture is".to_owned(),
    };
    let publisher = !gguf
        && found.is_some_and(|row| !row.publisher.is_empty())
        && store.tensor("tok_embeddings.weight").is_ok();
    let dialect = match (gguf, publisher) {
        (true, _) => Dialect::Gguf,
        (false, true) => Dialect::Publisher,
        (false, false) => Dialect::HuggingFace,
    };
    let mut resolution = Resolution {
        architecture: found.copied(),
        dialect,
        reason,
        mapped: Vec::new(),
        unknown: Vec::new(),
        missing: Vec::new(),
    };
    let Some(architecture) = found else {
        resolution.unknown = store.tensors().map(|t| t.name().spelling().into_owned()).collect();
        return Ok(resolution);
    };
    let names = names_of(architecture, dialect);
    // Which of the required names each layer has, a bit each; the layers are those stored, not
    // those promised.
    let mut layers: BTreeMap<u32, u64> = BTreeMap::new();
    for tensor in store.tensors() {
        let stored = tensor.name().spelling().into_owned();
        let Some((canonical, transform, layer)) = canonical(&stored, dialect, &names) else {
            resolution.unknown.push(stored);
            continue;
        };
        if let Some(layer) = layer {
            let bit = architecture.required.iter().position(|name| *name == canonical);
            *layers.entry(layer).or_default() |= bit.map_or(0, |bit| 1 << bit);
        }
        let canonical = rule::expand(canonical, layer);
        resolution.mapped.push(Mapping { canonical, stored, transform });
    }
    let mut sorted: Vec<&Mapping> = resolution.mapped.iter().collect();
    sorted.sort_by(|a, b| a.canonical.cmp(&b.canonical));
    let twice = sorted.windows(2).find(|pair| matches!(pair, [a, b] if a.canonical == b.canonical));
    if let Some([first, second]) = twice {
        let fault = format!("it and \"{}\" are both \"{}\"", first.stored, first.canonical);
        return Err(Error::malformed(fault).in_file(store.path()).in_tensor(&second.stored));
    }
    let promised = config::layers(store).unwrap_or(0);
    resolution.missing = missing(architecture, &sorted, &layers, promised);
    Ok(resolution)
}

type Names = HashMap<&'static str, (&'static str, Transform)>;

/// From stored patterns of a dialect to canonical ones.
fn names_of(architecture: &'static Architecture, dialect: Dialect) -> Names {
    let mut names = Names::new();
    if dialect == Dialect::Publisher {
        names.extend(
            architecture
                .publisher
                .iter()
                .map(|&(canonical, stored)| (stored, (canonical, Transform::None))),
        );
        return names;
    }
    for rule in architecture.rules.iter().copied().flatten() {
        let (stored, transform) = match dialect {
            Dialect::Gguf => (rule.gguf, rule.gguf_transform),
            _ => (rule.hf, Transform::None),
        };
        if !stored.is_empty() {
            names.entry(stored).or_insert((rule.canonical, transform));
        }
    }
    names
}

/// The canonical pattern of a stored name, and its layer.
fn canonical(
    stored: &str,
    dialect: Dialect,
    names: &Names,
) -> Option<(&'static str, Transform, Option<u32>)> {
    let (pattern, layer) = rule::pattern(stored);
    let found = |pattern: &str| names.get(pattern).map(|&(name, how)| (name, how, layer));
    if dialect != Dialect::HuggingFace {
        return found(&pattern);
    }
    // Wrappers put a prefix before the language model's names, and a model saved without its head
    // has none.
    let rest = pattern.strip_prefix("language_model.").unwrap_or(&pattern);
    found(rest).or_else(|| match rest.strip_prefix("model.language_model.") {
        Some(rest) => found(&format!("model.{rest}")),
        None => found(&format!("model.{rest}")),
    })
}

/// What an architecture needs and the model lacks. `sorted` are its tensors by canonical name.
fn missing(
    architecture: &Architecture,
    sorted: &[&Mapping],
    layers: &BTreeMap<u32, u64>,
    promised: u32,
) -> Vec<String> {
    let mut missing = Vec::new();
    if sorted.is_empty() {
        return missing;
    }
    let has = |name: &str| sorted.binary_search_by(|m| m.canonical.as_str().cmp(name)).is_ok();
    let alone = architecture.required.iter().filter(|name| !name.contains("{n}"));
    missing.extend(alone.filter(|name| !has(name)).map(|&name| name.to_owned()));
    // Whole layers between those that are there, and up to those promised.
    let mut expected = 0;
    for layer in layers.keys().copied().chain([promised]) {
        if layer > expected {
            missing.push(format!("layers.{expected}..{layer}"));
        }
        expected = expected.max(layer.saturating_add(1));
    }
    for (bit, name) in architecture.required.iter().enumerate() {
        if !name.contains("{n}") {
            continue;
        }
        let lacking: Vec<u32> = layers
            .iter()
            .filter(|(_, has)| **has & (1 << bit) == 0)
            .map(|(layer, _)| *layer)
            .collect();
        match lacking.as_slice() {
            [] => {}
            [layer] => missing.push(rule::expand(name, Some(*layer))),
            several => missing.push(name.replace("{n}", &rule::runs(several))),
        }
    }
    missing
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.architecture {
            Some(architecture) => write!(
                f,
                "{} ({}): {} tensors mapped, {} unknown, {} missing",
                architecture.name,
                Text::new(self.reason.as_bytes()).brief(),
                self.mapped.len(),
                self.unknown.len(),
                self.missing.len()
            ),
            None => {
                let reason = Text::new(self.reason.as_bytes()).brief();
                write!(f, "{reason}: {} tensors under stored names", self.unknown.len())
            }
        }
    }
}
