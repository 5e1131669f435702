//! OLMo 2 and 3, and OLMoE.

use super::decoder::{BARE, DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED};
use super::rule::{NameRule, rule};
use super::transform::SAME;
use super::{Architecture, RopeLayout};

/// The row of the table: norms after attention and network alone.
pub(super) static OLMO2: Architecture = Architecture {
    name: "olmo2",
    summary: "OLMo 2 and 3",
    gguf: &["olmo2"],
    hf: &["olmo2", "olmo3"],
    rope: RopeLayout::HalfSplit,
    rules: &[POST_NORMS, QK_NORM, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: BARE,
};

/// The row of the table.
pub(super) static OLMOE: Architecture = Architecture {
    name: "olmoe",
    summary: "OLMoE",
    gguf: &["olmoe"],
    hf: &["olmoe"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static POST_NORMS: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", SAME),
];
