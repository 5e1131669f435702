//! One config struct, whatever file the numbers stand in.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod check;
mod defaults;
mod derive;
mod keys;
mod read;
mod unused;
mod values;

use std::borrow::Cow;
use std::fmt;

use serde_json::Value as Json;

use super::Resolution;
use crate::bytes::Text;
use crate::error::Result;
use crate::metadata::Value;
use crate::store::Store;
pub(crate) use defaults::{Defaults, GgufDefaults};
pub(crate) use keys::key;
pub use keys::{
    AttentionConfig, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig, SsmConfig,
};
pub(crate) use read::Reader;
pub(crate) use values::Reported;
pub use values::{Gating, LayerKind, LayerLayout, NormKind, RopeScalingKind};

/// A number of the config, and where it was found or how it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<T> {
    /// The value.
    pub value: T,
    /// The metadata key, the path in `config.json`, or the rule that gave it.
    pub source: Cow<'static, str>,
}

impl<T> Field<T> {
    fn made(value: T, source: impl Into<Cow<'static, str>>) -> Self {
        Self { value, source: source.into() }
    }
}

/// The numbers that an engine needs to run a model. Lengths count elements.
///
/// Every field was checked: nothing that an engine divides by or allocates is zero, integers fit in
/// 32 bits and floats are finite. What a file does not say is `None`, unless there is a rule that
/// gives it; then the source is the rule. Keys that no field is made of are in
/// [`Model::unused_config`](crate::Model::unused_config).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The architecture, in the file's word: `general.architecture` or `model_type`.
    pub architecture: Field<String>,
    /// The family: the name of the [`Architecture`](super::Architecture) row, which is the same
    /// whatever container the model lies in. `None` if no row describes the model.
    pub family: Option<Field<String>>,
    /// Width of the residual stream (`embedding_length`, `hidden_size`).
    pub dim: Field<u32>,
    /// Transformer layers (`block_count`, `num_hidden_layers`); those of the decoder, where there
    /// is an encoder too.
    pub n_layers: Field<u32>,
    /// Query heads; the most that a layer has.
    pub n_heads: Field<u32>,
    /// Key and value heads; as many as query heads where the file does not say.
    pub n_kv_heads: Field<u32>,
    /// Width of a head: stored, or `dim / n_heads`. Where layers with a window have another
    /// ([`AttentionConfig::local_head_dim`]), that of the others.
    pub head_dim: Field<u32>,
    /// `n_heads * head_dim`.
    pub q_dim: Field<u32>,
    /// `n_kv_heads * head_dim`.
    pub kv_dim: Field<u32>,
    /// Inner width of the dense feed-forward network; the largest that a layer has.
    pub ffn_dim: Option<Field<u32>>,
    /// Inner width of each layer's feed-forward network, where they differ.
    pub ffn_dim_per_layer: Option<Field<Vec<u32>>>,
    /// Rows of the stored embedding, else as the file says.
    pub vocab_size: Option<Field<u32>>,
    /// Positions that the model was made for.
    pub max_seq_len: Option<Field<u32>>,
    /// The kind of the norms.
    pub norm_kind: Option<Field<NormKind>>,
    /// Epsilon of the norms.
    pub norm_eps: Option<Field<f32>>,
    /// The feed-forward network's activation, by the file's name for it. GGUF does not say.
    pub activation: Option<Field<String>>,
    /// Base of the rotary embeddings; 10,000 where the file does not say.
    pub rope_theta: Field<f32>,
    /// Whether the embedding serves as output matrix: when no output tensor is stored.
    pub tie_embeddings: Option<Field<bool>>,
    /// Experts of a layer; 0 for a dense model.
    pub n_experts: Field<u32>,
    /// Which layers are of which kind, where they are not all plain attention.
    pub layers: Option<Field<LayerLayout>>,
    /// More about attention.
    pub attention: AttentionConfig,
    /// More about rotary embeddings.
    pub rope: RopeConfig,
    /// How rotary embeddings are stretched.
    pub rope_scaling: RopeScaling,
    /// More about experts.
    pub experts: ExpertConfig,
    /// Factors, and further widths.
    pub scales: ScaleConfig,
    /// State-space layers and linear attention.
    pub ssm: SsmConfig,
    /// The encoder beside the decoder.
    pub encoder: EncoderConfig,
}

/// A field of a [`ModelConfig`] as a report shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConfigField<'a> {
    /// The part that it belongs to: `model`, `attention`, `rope`, `experts`, `scales`, `ssm`,
    /// `encoder`.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Json,
    /// Where it was found or how it was made.
    pub source: &'a str,
}

/// A value as a file holds it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ConfigValue<'a> {
    /// GGUF metadata.
    Metadata(Value<'a>),
    /// Of a JSON document.
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

/// Where a config nests the language model's own numbers, outermost first.
pub(crate) const TEXT_CONFIGS: [&str; 3] = ["text_config", "llm_config", "language_config"];

/// Layers that the config promises, for the account of what is missing, and the first that stores no
/// keys and values of its own. Never a number to loop to.
pub(super) fn layers(store: &Store, defaults: &Defaults) -> Option<(u32, Option<u32>)> {
    let (reader, _) = Reader::new(store).ok()?;
    derive::layers(&reader, defaults)
}

impl ModelConfig {
    /// Gathers the config from GGUF metadata, or from the `config.json` or `params.json` beside
    /// the weights, with those defaults where the files do not say.
    ///
    /// # Errors
    ///
    /// `Malformed` if the model does not say what its architecture is, lacks a number that cannot
    /// be done without, or has one that cannot be: zero heads, a width that is no integer.
    pub(super) fn of(store: &Store, resolution: &Resolution, defaults: &Defaults) -> Result<Self> {
        derive::config(store, resolution, defaults)
    }

    /// The fields that are there, part by part.
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

    /// What a layer does to mix positions. `None` beyond what the file lists.
    pub fn layer_kind(&self, layer: u32) -> Option<&LayerKind> {
        match &self.layers {
            Some(layout) => layout.value.kind(layer),
            None => Some(&LayerKind::Full),
        }
    }

    /// Keys of the config that no field is made of, as the files have them: those of
    /// `config.json`, of `params.json`, and in GGUF those of the architecture.
    pub(crate) fn other(store: &Store) -> Vec<(String, ConfigValue<'_>)> {
        unused::other(store)
    }
}
