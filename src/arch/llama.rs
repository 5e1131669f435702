//! Llama, and Mistral, which differs in its numbers alone.

use super::decoder::{DECODER, PREFIXES, REQUIRED};
use super::rule::{NameRule, hf, rule};
use super::transform::{PERMUTE_K, PERMUTE_Q, SAME};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static LLAMA: Architecture = Architecture {
    name: "llama",
    summary: "Llama 1 to 3, Mistral",
    gguf: &["llama"],
    hf: &["llama", "mistral"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, DECODER],
    mlx: &[],
    publisher: MISTRAL,
    prefixes: PREFIXES,
    required: REQUIRED,
};

#[rustfmt::skip]
static PERMUTED: &[NameRule] = &[
    rule("layers.{n}.attention.q.weight", "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight", PERMUTE_Q),
    rule("layers.{n}.attention.k.weight", "blk.{n}.attn_k.weight", "model.layers.{n}.self_attn.k_proj.weight", PERMUTE_K),
    rule("layers.{n}.attention.q.bias",   "blk.{n}.attn_q.bias",   "model.layers.{n}.self_attn.q_proj.bias",   PERMUTE_Q),
    rule("layers.{n}.attention.k.bias",   "blk.{n}.attn_k.bias",   "model.layers.{n}.self_attn.k_proj.bias",   PERMUTE_K),
];

/// Names in the `consolidated.safetensors` of Mistral and Meta, beside `params.json`. The rows of
/// their q and k lie in pairs, as in GGUF.
#[rustfmt::skip]
static MISTRAL: &[NameRule] = &[
    hf("token_embedding.weight",             "tok_embeddings.weight",                     SAME),
    hf("output_norm.weight",                 "norm.weight",                               SAME),
    hf("output.weight",                      "output.weight",                             SAME),
    hf("layers.{n}.attention_norm.weight",   "layers.{n}.attention_norm.weight",          SAME),
    hf("layers.{n}.attention.q.weight",      "layers.{n}.attention.wq.weight",            PERMUTE_Q),
    hf("layers.{n}.attention.k.weight",      "layers.{n}.attention.wk.weight",            PERMUTE_K),
    hf("layers.{n}.attention.v.weight",      "layers.{n}.attention.wv.weight",            SAME),
    hf("layers.{n}.attention.output.weight", "layers.{n}.attention.wo.weight",            SAME),
    hf("layers.{n}.ffn_norm.weight",         "layers.{n}.ffn_norm.weight",                SAME),
    hf("layers.{n}.ffn.gate.weight",         "layers.{n}.feed_forward.w1.weight",         SAME),
    hf("layers.{n}.ffn.down.weight",         "layers.{n}.feed_forward.w2.weight",         SAME),
    hf("layers.{n}.ffn.up.weight",           "layers.{n}.feed_forward.w3.weight",         SAME),
];
