//! The config of a model.

use super::field::{ConfigField, Field, report};
use super::keys::{
    AttentionConfig, EncoderConfig, ExpertConfig, RopeConfig, RopeScaling, ScaleConfig, SsmConfig,
};
use super::origin::SourceKind;
use super::values::{LayerKind, LayerLayout, NormKind};
use crate::rounding::f32_of;

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
    /// The family: the name of the [`Architecture`](crate::arch::Architecture) row, which is the same
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

impl ModelConfig {
    /// The base of rotary embeddings as [`RopeScaling::alpha`] stretches it, if there is one.
    pub fn stretched_rope_theta(&self) -> Option<f32> {
        let alpha = self.rope_scaling.alpha.as_ref()?;
        let width = f64::from(self.head_dim.value);
        let power = f64::from(alpha.value).powf(width / (width - 2.0));
        Some(f32_of(f64::from(self.rope_theta.value) * power))
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

    /// The kind of a layer. `None` beyond the layers that the file lists.
    pub fn layer_kind(&self, layer: u32) -> Option<&LayerKind> {
        match &self.layers {
            Some(layout) => layout.value.kind(layer),
            None => Some(&LayerKind::Full),
        }
    }

    /// The layers that predict further tokens and that the number of layers includes: GGUF counts them, and `config.json`
    /// does not.
    pub(crate) fn counted_next_layers(&self) -> u32 {
        let next = self.experts.n_next_token_layers.as_ref();
        let counted = next.filter(|next| next.source.kind() == SourceKind::Key);
        counted.map_or(0, |next| next.value)
    }

    /// Whether any layer attends to a sliding window.
    pub(crate) fn has_windows(&self) -> bool {
        (0..self.n_layers.value).any(|layer| self.layer_kind(layer) == Some(&LayerKind::Sliding))
    }
}

/// The numbers of scaled rotary embeddings that transformers takes where a config states none.
impl RopeScaling {
    /// The factor of Llama 3's scaling, and the low and the high bound of its ramp.
    pub fn llama3(&self) -> [f32; 3] {
        [or(&self.factor, 8.0), or(&self.low_freq_factor, 1.0), or(&self.high_freq_factor, 4.0)]
    }

    /// The fast and the slow bound of YaRN's ramp.
    pub fn betas(&self) -> [f32; 2] {
        [or(&self.beta_fast, 32.0), or(&self.beta_slow, 1.0)]
    }

    /// The length of texts before scaling: `longest`, that of the model, if no other is stated.
    pub fn trained<'f>(&'f self, longest: Option<&'f Field<u32>>) -> Option<&'f Field<u32>> {
        self.original_max_seq_len.as_ref().or(longest)
    }
}

fn or(field: &Option<Field<f32>>, usual: f32) -> f32 {
    field.as_ref().map_or(usual, |field| field.value)
}
