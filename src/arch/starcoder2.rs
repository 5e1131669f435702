//! StarCoder 2: biases everywhere, and a feed-forward network without a gate.

use super::decoder::{DECODER, PREFIXES, UNGATED_REQUIRED};
use super::rule::{NameRule, rule};
use super::transform::SAME;
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    summary: "StarCoder 2",
    gguf: &["starcoder2"],
    hf: &["starcoder2"],
    rope: RopeLayout::HalfSplit,
    rules: &[BIASED, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: UNGATED_REQUIRED,
};

#[rustfmt::skip]
static BIASED: &[NameRule] = &[
    rule("output_norm.bias",               "output_norm.bias",        "model.norm.bias",                                SAME),
    rule("layers.{n}.attention_norm.bias", "blk.{n}.attn_norm.bias",  "model.layers.{n}.input_layernorm.bias",          SAME),
    rule("layers.{n}.ffn_norm.bias",       "blk.{n}.ffn_norm.bias",   "model.layers.{n}.post_attention_layernorm.bias", SAME),
    rule("layers.{n}.ffn.up.weight",       "blk.{n}.ffn_up.weight",   "model.layers.{n}.mlp.c_fc.weight",               SAME),
    rule("layers.{n}.ffn.up.bias",         "blk.{n}.ffn_up.bias",     "model.layers.{n}.mlp.c_fc.bias",                 SAME),
    rule("layers.{n}.ffn.down.weight",     "blk.{n}.ffn_down.weight", "model.layers.{n}.mlp.c_proj.weight",             SAME),
    rule("layers.{n}.ffn.down.bias",       "blk.{n}.ffn_down.bias",   "model.layers.{n}.mlp.c_proj.bias",               SAME),
];
