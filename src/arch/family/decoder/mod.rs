//! Names and config keys that decoder-only transformers share. A family's own rules take precedence
//! over these.

pub(super) mod json;
pub(super) mod keys;

use crate::arch::rule::{NameRule, both, gguf, hf, rule};
use crate::arch::transform::{RowOrder, SAME, rows};

/// Multimodal wrappers prefix the language model's names; a model saved without its head has no
/// prefix.
pub(crate) static PREFIXES: &[(&str, &str)] = &[
    ("language_model.", ""),
    ("model.language_model.", "model."),
    ("model.text_model.", "model."),
    ("", "model."),
];

#[rustfmt::skip]
pub(crate) static DECODER: &[NameRule] = &[
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
    // llama.cpp's converter fuses them on request (--fuse-qkv).
    gguf("layers.{n}.attention.q.weight",        "blk.{n}.attn_qkv.weight",       rows(RowOrder::Qkv(0))),
    gguf("layers.{n}.attention.k.weight",        "blk.{n}.attn_qkv.weight",       rows(RowOrder::Qkv(1))),
    gguf("layers.{n}.attention.v.weight",        "blk.{n}.attn_qkv.weight",       rows(RowOrder::Qkv(2))),
    gguf("layers.{n}.attention.q.bias",          "blk.{n}.attn_qkv.bias",         rows(RowOrder::Qkv(0))),
    gguf("layers.{n}.attention.k.bias",          "blk.{n}.attn_qkv.bias",         rows(RowOrder::Qkv(1))),
    gguf("layers.{n}.attention.v.bias",          "blk.{n}.attn_qkv.bias",         rows(RowOrder::Qkv(2))),
];

/// Norms of the heads of q and k.
#[rustfmt::skip]
pub(crate) static QK_NORM: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.q_norm.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.k_norm.weight", SAME),
];

/// Biases of layer norms.
#[rustfmt::skip]
pub(crate) static NORM_BIASES: &[NameRule] = &[
    rule("output_norm.bias",               "output_norm.bias",       "model.norm.bias",                                SAME),
    rule("layers.{n}.attention_norm.bias", "blk.{n}.attn_norm.bias", "model.layers.{n}.input_layernorm.bias",          SAME),
    rule("layers.{n}.ffn_norm.bias",       "blk.{n}.ffn_norm.bias",  "model.layers.{n}.post_attention_layernorm.bias", SAME),
];

/// Gate and up fused in one matrix, the gate first. GGUF names the matrix up.
#[rustfmt::skip]
pub(crate) static GATE_UP: &[NameRule] = &[
    both("layers.{n}.ffn.gate.weight", "blk.{n}.ffn_up.weight", "model.layers.{n}.mlp.gate_up_proj.weight", rows(RowOrder::Half(0))),
    both("layers.{n}.ffn.up.weight",   "blk.{n}.ffn_up.weight", "model.layers.{n}.mlp.gate_up_proj.weight", rows(RowOrder::Half(1))),
];

/// A router and experts instead of the dense network.
#[rustfmt::skip]
pub(crate) static MIXTURE: &[NameRule] = &[
    rule("layers.{n}.ffn.router.weight",          "blk.{n}.ffn_gate_inp.weight",     "model.layers.{n}.mlp.gate.weight",                  SAME),
    rule("layers.{n}.ffn.router.correction_bias", "blk.{n}.exp_probs_b.bias",        "model.layers.{n}.mlp.gate.e_score_correction_bias", SAME),
    // All experts in one tensor, as llama.cpp's converter and mlx-lm store them.
    rule("layers.{n}.ffn.experts.gate.weight",    "blk.{n}.ffn_gate_exps.weight",    "model.layers.{n}.mlp.switch_mlp.gate_proj.weight",  SAME),
    rule("layers.{n}.ffn.experts.up.weight",      "blk.{n}.ffn_up_exps.weight",      "model.layers.{n}.mlp.switch_mlp.up_proj.weight",    SAME),
    rule("layers.{n}.ffn.experts.down.weight",    "blk.{n}.ffn_down_exps.weight",    "model.layers.{n}.mlp.switch_mlp.down_proj.weight",  SAME),
    // Ollama's name.
    hf("layers.{n}.ffn.experts.gate.weight",  "model.layers.{n}.mlp.experts.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",    "model.layers.{n}.mlp.experts.up_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.down.weight",  "model.layers.{n}.mlp.experts.down_proj.weight", SAME),
    // One tensor per expert: llama.cpp's converter until early 2024, and Hugging Face's files.
    rule("layers.{n}.ffn.experts.gate.weight",    "blk.{n}.ffn_gate.{e}.weight",     "model.layers.{n}.mlp.experts.{e}.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.experts.up.weight",      "blk.{n}.ffn_up.{e}.weight",       "model.layers.{n}.mlp.experts.{e}.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.experts.down.weight",    "blk.{n}.ffn_down.{e}.weight",     "model.layers.{n}.mlp.experts.{e}.down_proj.weight", SAME),
    // Gate and up fused, the gate first: written by llama.cpp's converter on request
    // (--fuse-gate-up-exps), and the in-memory form of transformers 5, which some programs save.
    both("layers.{n}.ffn.experts.gate.weight",    "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.mlp.experts.gate_up_proj",         rows(RowOrder::Half(0))),
    both("layers.{n}.ffn.experts.up.weight",      "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.mlp.experts.gate_up_proj",         rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.experts.down_proj", SAME),
];

/// Experts in Hugging Face's files of Mixtral and its like, and in mlx-lm's.
#[rustfmt::skip]
pub(crate) static BLOCK_SPARSE: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",       "model.layers.{n}.block_sparse_moe.gate.weight",                 SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.block_sparse_moe.experts.{e}.w1.weight",       SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.block_sparse_moe.experts.{e}.w3.weight",       SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.block_sparse_moe.experts.{e}.w2.weight",       SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.block_sparse_moe.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.block_sparse_moe.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.block_sparse_moe.switch_mlp.down_proj.weight", SAME),
];

/// An expert that every token passes through.
#[rustfmt::skip]
pub(crate) static SHARED_EXPERT: &[NameRule] = &[
    rule("layers.{n}.ffn.shared_expert.gate.weight",   "blk.{n}.ffn_gate_shexp.weight",     "model.layers.{n}.mlp.shared_expert.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.shared_expert.up.weight",     "blk.{n}.ffn_up_shexp.weight",       "model.layers.{n}.mlp.shared_expert.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.shared_expert.down.weight",   "blk.{n}.ffn_down_shexp.weight",     "model.layers.{n}.mlp.shared_expert.down_proj.weight", SAME),
    rule("layers.{n}.ffn.shared_expert.router.weight", "blk.{n}.ffn_gate_inp_shexp.weight", "model.layers.{n}.mlp.shared_expert_gate.weight",      SAME),
];

/// The same under the name that DeepSeek and GLM use.
#[rustfmt::skip]
pub(crate) static SHARED_EXPERTS: &[NameRule] = &[
    rule("layers.{n}.ffn.shared_expert.gate.weight",   "blk.{n}.ffn_gate_shexp.weight",     "model.layers.{n}.mlp.shared_experts.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.shared_expert.up.weight",     "blk.{n}.ffn_up_shexp.weight",       "model.layers.{n}.mlp.shared_experts.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.shared_expert.down.weight",   "blk.{n}.ffn_down_shexp.weight",     "model.layers.{n}.mlp.shared_experts.down_proj.weight", SAME),
];

/// An extra layer at the end that predicts a further token.
#[rustfmt::skip]
pub(crate) static NEXTN: &[NameRule] = &[
    rule("layers.{n}.nextn.embedding.weight",      "blk.{n}.nextn.embed_tokens.weight",     "model.layers.{n}.embed_tokens.weight",     SAME),
    rule("layers.{n}.nextn.embedding_norm.weight", "blk.{n}.nextn.enorm.weight",            "model.layers.{n}.enorm.weight",            SAME),
    rule("layers.{n}.nextn.hidden_norm.weight",    "blk.{n}.nextn.hnorm.weight",            "model.layers.{n}.hnorm.weight",            SAME),
    rule("layers.{n}.nextn.projection.weight",     "blk.{n}.nextn.eh_proj.weight",          "model.layers.{n}.eh_proj.weight",          SAME),
    rule("layers.{n}.nextn.output_norm.weight",    "blk.{n}.nextn.shared_head_norm.weight", "model.layers.{n}.shared_head.norm.weight", SAME),
    rule("layers.{n}.nextn.output.weight",         "blk.{n}.nextn.shared_head_head.weight", "model.layers.{n}.shared_head.head.weight", SAME),
];

/// Tensors that every decoder requires; all others depend on the model.
pub(crate) static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight | layers.{n}.ffn.experts.gate.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight",
];

/// Required tensors of a decoder whose feed-forward network has no gate.
pub(crate) static UNGATED_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

/// Required tensors of a decoder without norms and gates.
pub(crate) static BARE: &[&str] = &[
    "token_embedding.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight",
];
