//! Rules for experts that most families share.

use super::rule::{NameRule, gguf, hf, rule};
use super::transform::{Rows, SAME, rows};

#[rustfmt::skip]
pub(super) static EXPERTS: &[NameRule] = &[
    rule("layers.{n}.ffn.router.weight",       "blk.{n}.ffn_gate_inp.weight",  "model.layers.{n}.mlp.gate.weight",                  SAME),
    rule("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_exps.weight", "model.layers.{n}.mlp.experts.{e}.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_up_exps.weight",   "model.layers.{n}.mlp.experts.{e}.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.experts.down.weight", "blk.{n}.ffn_down_exps.weight", "model.layers.{n}.mlp.experts.{e}.down_proj.weight", SAME),
    // As `convert_hf_to_gguf.py --fuse-gate-up-exps` writes them.
    gguf("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_up_exps.weight", rows(Rows::Half(0))),
    gguf("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_gate_up_exps.weight", rows(Rows::Half(1))),
    // As transformers 5 holds them, and stores those of Qwen3.5.
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.mlp.experts.gate_up_proj",        rows(Rows::Half(0))),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.mlp.experts.gate_up_proj",        rows(Rows::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.experts.down_proj",           SAME),
    // MLX.
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.mlp.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.mlp.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.switch_mlp.down_proj.weight", SAME),
];

/// Layers behind the others that predict further tokens (MTP; llama.cpp says "nextn").
#[rustfmt::skip]
pub(super) static NEXT_TOKENS: &[NameRule] = &[
    rule("layers.{n}.mtp.embedding_norm.weight",  "blk.{n}.nextn.enorm.weight",            "model.layers.{n}.enorm.weight",            SAME),
    rule("layers.{n}.mtp.hidden_norm.weight",     "blk.{n}.nextn.hnorm.weight",            "model.layers.{n}.hnorm.weight",            SAME),
    rule("layers.{n}.mtp.projection.weight",      "blk.{n}.nextn.eh_proj.weight",          "model.layers.{n}.eh_proj.weight",          SAME),
    rule("layers.{n}.mtp.token_embedding.weight", "blk.{n}.nextn.embed_tokens.weight",     "model.layers.{n}.embed_tokens.weight",     SAME),
    rule("layers.{n}.mtp.output_norm.weight",     "blk.{n}.nextn.shared_head_norm.weight", "model.layers.{n}.shared_head.norm.weight", SAME),
    rule("layers.{n}.mtp.output.weight",          "blk.{n}.nextn.shared_head_head.weight", "model.layers.{n}.shared_head.head.weight", SAME),
];
