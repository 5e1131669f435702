//! Falcon: attention and the feed-forward network side by side.

use super::rule::{NameRule, gguf, hf, rule};
use super::transform::{Rows, SAME, rows};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static FALCON: Architecture = Architecture {
    name: "falcon",
    summary: "Falcon 7B, 40B and 180B, Falcon 2",
    gguf: &["falcon"],
    hf: &["falcon", "RefinedWeb", "RefinedWebModel"],
    rope: RopeLayout::HalfSplit,
    rules: &[RULES],
    mlx: &[],
    publisher: &[],
    prefixes: &[("", "transformer.")],
    required: REQUIRED,
};

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

/// With two norms in a layer, llama.cpp's `attn_norm` is that of the feed-forward network, and
/// `attn_norm_2` that of attention; with one, `attn_norm` serves both.
#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",             "token_embd.weight",          "transformer.word_embeddings.weight",            SAME),
    rule("output_norm.weight",                 "output_norm.weight",         "transformer.ln_f.weight",                       SAME),
    rule("output_norm.bias",                   "output_norm.bias",           "transformer.ln_f.bias",                         SAME),
    rule("output.weight",                      "output.weight",              "lm_head.weight",                                SAME),
    rule("layers.{n}.attention_norm.weight",   "blk.{n}.attn_norm_2.weight", "transformer.h.{n}.ln_attn.weight",              SAME),
    rule("layers.{n}.attention_norm.bias",     "blk.{n}.attn_norm_2.bias",   "transformer.h.{n}.ln_attn.bias",                SAME),
    rule("layers.{n}.ffn_norm.weight",         "blk.{n}.attn_norm.weight",   "transformer.h.{n}.ln_mlp.weight",               SAME),
    rule("layers.{n}.ffn_norm.bias",           "blk.{n}.attn_norm.bias",     "transformer.h.{n}.ln_mlp.bias",                 SAME),
    rule("layers.{n}.attention_norm.weight",   "blk.{n}.attn_norm.weight",   "transformer.h.{n}.input_layernorm.weight",      SAME),
    rule("layers.{n}.attention_norm.bias",     "blk.{n}.attn_norm.bias",     "transformer.h.{n}.input_layernorm.bias",        SAME),
    hf("layers.{n}.ffn_norm.weight",    "transformer.h.{n}.input_layernorm.weight",                SAME),
    hf("layers.{n}.ffn_norm.bias",      "transformer.h.{n}.input_layernorm.bias",                  SAME),
    gguf("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", rows(Rows::Qkv(0))),
    gguf("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", rows(Rows::Qkv(1))),
    gguf("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", rows(Rows::Qkv(2))),
    hf("layers.{n}.attention.q.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(Rows::GroupedQkv(0))),
    hf("layers.{n}.attention.k.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(Rows::GroupedQkv(1))),
    hf("layers.{n}.attention.v.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(Rows::GroupedQkv(2))),
    rule("layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", "transformer.h.{n}.self_attention.dense.weight", SAME),
    rule("layers.{n}.ffn.up.weight",           "blk.{n}.ffn_up.weight",      "transformer.h.{n}.mlp.dense_h_to_4h.weight",    SAME),
    rule("layers.{n}.ffn.down.weight",         "blk.{n}.ffn_down.weight",    "transformer.h.{n}.mlp.dense_4h_to_h.weight",    SAME),
];
