//! Rules that decoder-only transformers share. An architecture's own rules come before these.

use super::rule::{NameRule, rule};
use super::transform::SAME;

/// Wrappers put a prefix before the language model's names, and a model saved without its head
/// has none.
pub(super) static PREFIXES: &[(&str, &str)] =
    &[("language_model.", ""), ("model.language_model.", "model."), ("", "model.")];

#[rustfmt::skip]
pub(super) static DECODER: &[NameRule] = &[
    //   canonical                               gguf                             hugging face / mlx                                 gguf values differ by
    rule("token_embedding.weight",               "token_embd.weight",             "model.embed_tokens.weight",                       SAME),
    rule("output_norm.weight",                   "output_norm.weight",            "model.norm.weight",                               SAME),
    rule("output.weight",                        "output.weight",                 "lm_head.weight",                                  SAME),
    rule("layers.{n}.attention_norm.weight",     "blk.{n}.attn_norm.weight",      "model.layers.{n}.input_layernorm.weight",         SAME),
    rule("layers.{n}.attention.q.weight",        "blk.{n}.attn_q.weight",         "model.layers.{n}.self_attn.q_proj.weight",        SAME),
    rule("layers.{n}.attention.k.weight",        "blk.{n}.attn_k.weight",         "model.layers.{n}.self_attn.k_proj.weight",        SAME),
    rule("layers.{n}.attention.v.weight",        "blk.{n}.attn_v.weight",         "model.layers.{n}.self_attn.v_proj.weight",        SAME),
    rule("layers.{n}.attention.output.weight",   "blk.{n}.attn_output.weight",    "model.layers.{n}.self_attn.o_proj.weight",        SAME),
    rule("layers.{n}.attention.q.bias",          "blk.{n}.attn_q.bias",           "model.layers.{n}.self_attn.q_proj.bias",          SAME),
    rule("layers.{n}.attention.k.bias",          "blk.{n}.attn_k.bias",           "model.layers.{n}.self_attn.k_proj.bias",          SAME),
    rule("layers.{n}.attention.v.bias",          "blk.{n}.attn_v.bias",           "model.layers.{n}.self_attn.v_proj.bias",          SAME),
    rule("layers.{n}.attention.output.bias",     "blk.{n}.attn_output.bias",      "model.layers.{n}.self_attn.o_proj.bias",          SAME),
    rule("layers.{n}.ffn_norm.weight",           "blk.{n}.ffn_norm.weight",       "model.layers.{n}.post_attention_layernorm.weight", SAME),
    rule("layers.{n}.ffn.gate.weight",           "blk.{n}.ffn_gate.weight",       "model.layers.{n}.mlp.gate_proj.weight",           SAME),
    rule("layers.{n}.ffn.up.weight",             "blk.{n}.ffn_up.weight",         "model.layers.{n}.mlp.up_proj.weight",             SAME),
    rule("layers.{n}.ffn.down.weight",           "blk.{n}.ffn_down.weight",       "model.layers.{n}.mlp.down_proj.weight",           SAME),
    rule("layers.{n}.ffn.gate.bias",             "blk.{n}.ffn_gate.bias",         "model.layers.{n}.mlp.gate_proj.bias",             SAME),
    rule("layers.{n}.ffn.up.bias",               "blk.{n}.ffn_up.bias",           "model.layers.{n}.mlp.up_proj.bias",               SAME),
    rule("layers.{n}.ffn.down.bias",             "blk.{n}.ffn_down.bias",         "model.layers.{n}.mlp.down_proj.bias",             SAME),
];

/// What a dense decoder cannot do without; everything else depends on the model.
pub(super) static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];
