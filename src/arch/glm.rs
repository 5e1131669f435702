//! GLM 4.

use super::decoder::{
    DECODER, GATE_UP, MIXTURE, NEXTN, PREFIXES, QK_NORM, REQUIRED, SHARED_EXPERTS,
};
use super::rule::{NameRule, rule};
use super::transform::SAME;
use super::{Architecture, RopeLayout};

/// The row of the table: norms before and after.
pub(super) static GLM4: Architecture = Architecture {
    name: "glm4",
    summary: "GLM 4 of April 2025, dense",
    gguf: &["glm4"],
    hf: &["glm4"],
    rope: RopeLayout::Interleaved,
    rules: &[POST_NORMS, GATE_UP, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: experts, and layers that predict further ahead.
pub(super) static GLM4MOE: Architecture = Architecture {
    name: "glm4moe",
    summary: "GLM 4.5 to 4.7",
    gguf: &["glm4moe"],
    hf: &["glm4_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[FFN_NORM, QK_NORM, NEXTN, SHARED_EXPERTS, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static POST_NORMS: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_self_attn_layernorm.weight", SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_mlp_layernorm.weight",       SAME),
];

/// The norm before the experts has GGUF's name for one after attention.
#[rustfmt::skip]
static FFN_NORM: &[NameRule] = &[
    rule("layers.{n}.ffn_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight", SAME),
];
