//! Qwen 2 and 3, dense.

use super::decoder::{DECODER, PREFIXES, REQUIRED};
use super::rule::{NameRule, rule};
use super::transform::SAME;
use super::{Architecture, RopeLayout};

/// The row of the table: biases on q, k and v.
pub(super) static QWEN2: Architecture = Architecture {
    name: "qwen2",
    summary: "Qwen 1.5, 2 and 2.5, dense",
    gguf: &["qwen2"],
    hf: &["qwen2"],
    rope: RopeLayout::HalfSplit,
    rules: &[DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: norms on q and k.
pub(super) static QWEN3: Architecture = Architecture {
    name: "qwen3",
    summary: "Qwen 3, dense",
    gguf: &["qwen3"],
    hf: &["qwen3"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static QK_NORM: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.q_norm.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.k_norm.weight", SAME),
];
