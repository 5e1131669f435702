//! DeepSeek 2 and 3, and Kimi K2: attention in a latent space, shared and routed experts.

use super::decoder::{DECODER, MIXTURE, NEXTN, PREFIXES, SHARED_EXPERTS};
use super::rule::{NameRule, both, rule};
use super::transform::{Rows, SAME, rows, transposed};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    summary: "DeepSeek 2, 3 and 3.2, Kimi K2",
    gguf: &["deepseek2", "deepseek32"],
    hf: &["deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"],
    rope: RopeLayout::Interleaved,
    rules: &[LATENT, NEXTN, SHARED_EXPERTS, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// What every layer has; the first layers have no experts, small models no q of low rank.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.kv_a.weight",
    "layers.{n}.attention.kv_a_norm.weight",
    "layers.{n}.attention.k_b.weight",
    "layers.{n}.attention.v_b.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
];

/// `k_b` and `v_b` unfold keys and values from the latent space, a matrix for each head. Hugging
/// Face and llama.cpp's files before April 2025 keep those of a head one below the other; llama.cpp
/// now, and mlx-lm since February 2026, keep them apart, and `k_b` transposed.
#[rustfmt::skip]
static LATENT: &[NameRule] = &[
    rule("layers.{n}.attention.q_a.weight",             "blk.{n}.attn_q_a.weight",         "model.layers.{n}.self_attn.q_a_proj.weight",             SAME),
    rule("layers.{n}.attention.q_a_norm.weight",        "blk.{n}.attn_q_a_norm.weight",    "model.layers.{n}.self_attn.q_a_layernorm.weight",        SAME),
    rule("layers.{n}.attention.q_b.weight",             "blk.{n}.attn_q_b.weight",         "model.layers.{n}.self_attn.q_b_proj.weight",             SAME),
    rule("layers.{n}.attention.kv_a.weight",            "blk.{n}.attn_kv_a_mqa.weight",    "model.layers.{n}.self_attn.kv_a_proj_with_mqa.weight",   SAME),
    rule("layers.{n}.attention.kv_a_norm.weight",       "blk.{n}.attn_kv_a_norm.weight",   "model.layers.{n}.self_attn.kv_a_layernorm.weight",       SAME),
    both("layers.{n}.attention.k_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(Rows::Unfolding(0))),
    both("layers.{n}.attention.v_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(Rows::Unfolding(1))),
    both("layers.{n}.attention.k_b.weight", "blk.{n}.attn_k_b.weight",  "model.layers.{n}.self_attn.embed_q.weight",   transposed(Rows::All)),
    rule("layers.{n}.attention.v_b.weight",             "blk.{n}.attn_v_b.weight",         "model.layers.{n}.self_attn.unembed_out.weight",          SAME),
    // DeepSeek 3.2 chooses the positions that are attended to.
    rule("layers.{n}.attention.indexer.q_b.weight",     "blk.{n}.indexer.attn_q_b.weight", "model.layers.{n}.self_attn.indexer.wq_b.weight",         SAME),
    rule("layers.{n}.attention.indexer.k.weight",       "blk.{n}.indexer.attn_k.weight",   "model.layers.{n}.self_attn.indexer.wk.weight",           SAME),
    rule("layers.{n}.attention.indexer.k_norm.weight",  "blk.{n}.indexer.k_norm.weight",   "model.layers.{n}.self_attn.indexer.k_norm.weight",       SAME),
    rule("layers.{n}.attention.indexer.k_norm.bias",    "blk.{n}.indexer.k_norm.bias",     "model.layers.{n}.self_attn.indexer.k_norm.bias",         SAME),
    rule("layers.{n}.attention.indexer.weights.weight", "blk.{n}.indexer.proj.weight",     "model.layers.{n}.self_attn.indexer.weights_proj.weight", SAME),
];
