//! Defaults for numbers that the files of a family leave out.

use super::values::{NormKind, Reported};
use crate::engines::Constant;
use crate::json::{Json, json};

/// Values used where a model's files do not state them: defaults of the family's own code, or of
/// llama.cpp's loader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defaults {
    /// The period of attention: the last layer of each period attends to all positions, the others
    /// to a window (`set_swa_pattern` of llama.cpp).
    pub(crate) window_period: Option<u32>,
    /// Whether it is the first layer of each period that attends to all positions.
    pub(crate) full_first: bool,
    /// The kind of norms, where files state their epsilon under the name of the other kind.
    pub(crate) norms: Option<NormKind>,
    /// The kind of layers without attention, in models where only some layers have it.
    pub(crate) without_attention: Option<&'static str>,
    /// Whether a model may have no rotary embeddings at all, which its files state.
    pub(crate) optional_rope: bool,
    /// Whether no layer has attention.
    pub(crate) attention_free: bool,
    /// Base of the rotary embeddings in layers with a sliding window.
    pub(crate) local_rope_theta: Option<f32>,
    /// Number of layers that reuse the keys and values of earlier layers.
    pub(crate) shared_kv_layers: u32,
    /// Whether the embedding is multiplied by the square root of its width.
    pub(crate) scaled_embedding: bool,
    /// Values that transformers' class takes for keys that `config.json` omits.
    pub(crate) of_class: &'static [(&'static str, Constant)],
    /// Further defaults, which apply to GGUF's name of the family only.
    pub(crate) of_gguf: GgufDefaults,
}

/// Defaults that apply to GGUF's name of a family, and to `config.json` only if the names agree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GgufDefaults {
    /// Activation of the feed-forward network, which no GGUF file states.
    pub(crate) activation: Option<&'static str>,
    /// Whether the feed-forward network is four times as wide as the residual stream.
    pub(crate) ffn_four_times: bool,
    /// Epsilon of layer norms, and the source of that value.
    pub(crate) layer_norm_eps: Option<(f32, &'static str)>,
    /// Whether a value head is as wide as `dim / n_heads`, whatever the file says of keys.
    pub(crate) usual_value_width: bool,
    /// The length of a chunk, of a model whose layers attend within chunks, but for every fourth one.
    pub(crate) chunk_size: Option<u32>,
    /// The number of layers of the model that divides attention scores by the square root of `dim /
    /// n_heads` instead of `head_dim`.
    pub(crate) scaled_by_dim_layers: Option<u32>,
}

impl Defaults {
    /// No defaults.
    pub(crate) const NONE: Self = Self {
        window_period: None,
        full_first: false,
        norms: None,
        without_attention: None,
        optional_rope: false,
        attention_free: false,
        local_rope_theta: None,
        shared_kv_layers: 0,
        scaled_embedding: false,
        of_class: &[],
        of_gguf: GgufDefaults::NONE,
    };
}

impl GgufDefaults {
    /// No defaults.
    pub(crate) const NONE: Self = Self {
        activation: None,
        ffn_four_times: false,
        layer_norm_eps: None,
        usual_value_width: false,
        chunk_size: None,
        scaled_by_dim_layers: None,
    };
}

impl From<Constant> for Json {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Count(count) => count.reported(),
            Constant::Real(real) => real.reported(),
            Constant::Flag(flag) => flag.into(),
            Constant::Word(word) => word.into(),
            Constant::Empty => json!([]),
        }
    }
}
