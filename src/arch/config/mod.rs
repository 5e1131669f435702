//! The model config: one struct for every container.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod check;
mod defaults;
mod derive;
pub(crate) mod flags;
mod keys;
mod layout;
pub(crate) mod pooling;
mod read;
mod unused;
mod values;

use std::borrow::Cow;
use std::fmt;

use super::{Architecture, Resolution};
use crate::bytes::Text;
use crate::error::Result;
use crate::json::Json;
use crate::metadata::Value;
use crate::store::Store;
pub(crate) use defaults::{Defaults, FamilyDefault};
pub use keys::{
    AttentionConfig, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig, SsmConfig,
};
pub(crate) use keys::{KEYS, key};
pub(crate) use read::ConfigReader;
pub(crate) use values::Reported;
pub use values::{Gating, LayerKind, LayerLayout, NormKind, RopeScalingKind};

/// A config value, and its source: where it was found or how it was derived.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<T> {
    /// The value.
    pub value: T,
    /// The metadata key, the path in `config.json`, or the rule that derived it.
    pub source: Cow<'static, str>,
}

impl<T> Field<T> {
    fn derived(value: T, source: impl Into<Cow<'static, str>>) -> Self {
        Self { value, source: source.into() }
    }
}

/// The numbers that an engine needs to run a model. Lengths count elements.
///
/// Every field was checked: no divisor and no size is zero, integers fit in 32 bits and floats are
/// finite. A field that the files do not state is `None`, unless a rule derives it; then the source
/// names the rule. [`Model::unused_config`](crate::Model::unused_config) lists the keys that are in
/// no field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The architecture as the file names it: `general.architecture` or `model_type`.
    pub architecture: Field<String>,
    /// The family: the name of the [`Architecture`](super::Architecture) row, which is the same
    /// whatever container the model lies in. `None` if no row describes the model.
    pub family: Option<Field<String>>,
    /// Width of the residual stream (`embedding_length`, `hidden_size`).
    pub dim: Field<u32>,
    /// Number of transformer layers (`block_count`, `num_hidden_layers`); those of the decoder if
    /// the model also has an encoder.
    pub n_layers: Field<u32>,
    /// Number of query heads; the largest number if layers differ.
    pub n_heads: Field<u32>,
    /// Number of key and value heads; the number of query heads if the file does not state it.
    pub n_kv_heads: Field<u32>,
    /// Width of a head: stored, or `dim / n_heads`. If layers with a sliding window have another
    /// width ([`AttentionConfig::local_head_dim`]), this is the width in the other layers.
    pub head_dim: Field<u32>,
    /// `n_heads * head_dim`.
    pub q_dim: Field<u32>,
    /// `n_kv_heads * head_dim`.
    pub kv_dim: Field<u32>,
    /// Inner width of the dense feed-forward network; the largest one if layers differ.
    pub ffn_dim: Option<Field<u32>>,
    /// Inner width of each layer's feed-forward network, if layers differ.
    pub ffn_dim_per_layer: Option<Field<Vec<u32>>>,
    /// Number of tokens: the rows of the stored embedding, otherwise as the file states.
    pub vocab_size: Option<Field<u32>>,
    /// Maximum context length in positions.
    pub max_seq_len: Option<Field<u32>>,
    /// The kind of normalization.
    pub norm_kind: Option<Field<NormKind>>,
    /// Epsilon of the norms.
    pub norm_eps: Option<Field<f32>>,
    /// Activation of the feed-forward network, as the file names it. GGUF does not state it.
    pub activation: Option<Field<String>>,
    /// Base of the rotary embeddings; 10,000 if the file does not state it.
    pub rope_theta: Field<f32>,
    /// Whether the embedding serves as output matrix, which is so if no output tensor is stored.
    pub tie_embeddings: Option<Field<bool>>,
    /// Number of experts of a layer; 0 for a dense model.
    pub n_experts: Field<u32>,
    /// The kind of each layer, if not every layer uses full attention.
    pub layers: Option<Field<LayerLayout>>,
    /// Further fields of attention.
    pub attention: AttentionConfig,
    /// Further fields of rotary embeddings.
    pub rope: RopeConfig,
    /// Scaling of rotary embeddings.
    pub rope_scaling: RopeScaling,
    /// Further fields of experts.
    pub experts: ExpertConfig,
    /// Scale factors, and further widths.
    pub scales: ScaleConfig,
    /// State-space layers and linear attention.
    pub ssm: SsmConfig,
    /// The encoder beside the decoder.
    pub encoder: EncoderConfig,
}

/// A field of a [`ModelConfig`] in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigField<'a> {
    /// The part of the config: `model`, `attention`, `rope`, `experts`, `scales`, `ssm` or
    /// `encoder`.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Json,
    /// Where the value was found or how it was derived.
    pub source: &'a str,
}

/// A config value as the file holds it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ConfigValue<'a> {
    /// A value from GGUF metadata.
    Metadata(Value<'a>),
    /// A value from a JSON document.
    Json(&'a Json),
}

impl fmt::Display for ConfigValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(Value::String(text)) => write!(f, "\"{}\"", text.brief()),
            Self::Metadata(Value::Array(array)) => write!(f, "[{} elements]", array.len()),
            Self::Metadata(value) => match (value.to_f64(), value.to_i128(), value.to_bool()) {
                (_, Some(integer), _) => write!(f, "{integer}"),
                (Some(float), ..) => write!(f, "{float}"),
                (.., Some(flag)) => write!(f, "{flag}"),
                _ => write!(f, "{value:?}"),
            },
            Self::Json(Json::Array(array)) => write!(f, "[{} elements]", array.len()),
            Self::Json(Json::Object(object)) => write!(f, "{{{} keys}}", object.len()),
            Self::Json(json) => write!(f, "{}", Text::new(json.to_string().as_bytes()).brief()),
        }
    }
}

fn report<'a, T: Reported>(
    out: &mut Vec<ConfigField<'a>>,
    group: &'static str,
    name: &'static str,
    field: Option<&'a Field<T>>,
) {
    out.extend(field.map(|Field { value, source }| {
        let value = value.reported();
        ConfigField { group, name, value, source }
    }));
}

/// Keys under which a config nests the numbers of the language model, outermost first.
pub(crate) const TEXT_CONFIGS: [&str; 4] =
    ["text_config", "llm_config", "language_config", "thinker_config"];

/// Configs within others, at most.
const DEPTH: usize = 4;

/// The config of the language model and those that it is nested in, each with its path: the innermost
/// first, the document last.
pub(crate) fn nested_configs(document: &Json) -> Vec<(String, &Json)> {
    let mut found = vec![(String::new(), document)];
    let mut config = document;
    let inner = |config: &'_ Json| {
        let names = TEXT_CONFIGS.iter().copied();
        names.into_iter().find(|name| config.get(name).is_some_and(Json::is_object))
    };
    while let Some(name) = inner(config).filter(|_| found.len() < DEPTH)
        && let Some(nested) = config.get(name)
    {
        let outer = found.last().map_or("", |(path, _)| path.as_str());
        let dot = if outer.is_empty() { "" } else { "." };
        found.push((format!("{outer}{dot}{name}"), nested));
        config = nested;
    }
    found.reverse();
    found
}

/// The layers that a config states, used to report missing tensors. The numbers are unchecked: never
/// use them as loop bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PromisedLayers {
    /// The number of layers of the language model.
    pub(super) own: u32,
    /// The same, with the layers that predict further tokens, if the config counts them too.
    pub(super) all: u32,
    /// The first layer that stores no keys and values of its own.
    pub(super) sharing: Option<u32>,
}

/// The layers that the config states.
pub(super) fn promised_layers(
    store: &Store,
    architecture: &Architecture,
    defaults: Defaults,
) -> Option<PromisedLayers> {
    let (reader, _) = ConfigReader::new(store, defaults).ok()?;
    derive::promised_layers(&reader, architecture)
}

impl ModelConfig {
    /// The base of rotary embeddings as [`RopeScaling::alpha`] stretches it, if there is one.
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    pub fn stretched_rope_theta(&self) -> Option<f32> {
        let alpha = self.rope_scaling.alpha.as_ref()?;
        let width = f64::from(self.head_dim.value);
        let power = f64::from(alpha.value).powf(width / (width - 2.0));
        Some((f64::from(self.rope_theta.value) * power) as f32)
    }

    /// Reads the config from GGUF metadata, or from the `config.json` or `params.json` beside the
    /// weights. `defaults` apply where the files state nothing.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model does not state its architecture, or is not a language model;
    /// `Malformed` if it lacks a required number, or has an invalid one: zero heads, or a width that
    /// is not an integer.
    pub(super) fn of(store: &Store, resolution: &Resolution, defaults: Defaults) -> Result<Self> {
        derive::config(store, resolution, defaults)
    }

    /// The fields that have a value, part by part.
    pub fn fields(&self) -> Vec<ConfigField<'_>> {
        let mut all = Vec::new();
        report(&mut all, "model", "architecture", Some(&self.architecture));
        report(&mut all, "model", "family", self.family.as_ref());
        report(&mut all, "model", "dim", Some(&self.dim));
        report(&mut all, "model", "n_layers", Some(&self.n_layers));
        report(&mut all, "model", "n_heads", Some(&self.n_heads));
        report(&mut all, "model", "n_kv_heads", Some(&self.n_kv_heads));
        report(&mut all, "model", "head_dim", Some(&self.head_dim));
        report(&mut all, "model", "q_dim", Some(&self.q_dim));
        report(&mut all, "model", "kv_dim", Some(&self.kv_dim));
        report(&mut all, "model", "ffn_dim", self.ffn_dim.as_ref());
        report(&mut all, "model", "ffn_dim_per_layer", self.ffn_dim_per_layer.as_ref());
        report(&mut all, "model", "vocab_size", self.vocab_size.as_ref());
        report(&mut all, "model", "max_seq_len", self.max_seq_len.as_ref());
        report(&mut all, "model", "norm_kind", self.norm_kind.as_ref());
        report(&mut all, "model", "norm_eps", self.norm_eps.as_ref());
        report(&mut all, "model", "activation", self.activation.as_ref());
        report(&mut all, "model", "rope_theta", Some(&self.rope_theta));
        report(&mut all, "model", "tie_embeddings", self.tie_embeddings.as_ref());
        report(&mut all, "model", "n_experts", Some(&self.n_experts));
        report(&mut all, "model", "layers", self.layers.as_ref());
        self.attention.report(&mut all);
        self.rope.report(&mut all);
        self.rope_scaling.report(&mut all);
        self.experts.report(&mut all);
        self.scales.report(&mut all);
        self.ssm.report(&mut all);
        self.encoder.report(&mut all);
        all
    }

    /// What a layer uses to mix positions. `None` beyond the layers that the file lists.
    pub fn layer_kind(&self, layer: u32) -> Option<&LayerKind> {
        match &self.layers {
            Some(layout) => layout.value.kind(layer),
            None => Some(&LayerKind::Full),
        }
    }

    /// Config keys that are in no field, as the files spell them: those of `config.json`, of
    /// `params.json`, and in GGUF those of the architecture.
    pub(crate) fn other(store: &Store) -> Vec<(String, ConfigValue<'_>)> {
        unused::other(store)
    }
}
