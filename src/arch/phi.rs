//! Phi 3 and 4.

use super::decoder::{DECODER, GATE_UP, PREFIXES, REQUIRED};
use super::rule::{NameRule, both};
use super::transform::{Rows, rows};
use super::{Architecture, RopeLayout};

/// The row of the table: q, k and v in one, gate and up in another.
pub(super) static PHI3: Architecture = Architecture {
    name: "phi3",
    summary: "Phi 3 and 4, dense",
    gguf: &["phi3"],
    hf: &["phi3"],
    rope: RopeLayout::HalfSplit,
    rules: &[QKV, GATE_UP, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static QKV: &[NameRule] = &[
    both("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(Rows::Qkv(0))),
    both("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(Rows::Qkv(1))),
    both("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(Rows::Qkv(2))),
];
