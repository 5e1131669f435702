//! Gemma. Factors of norms are `1 + w` up to Gemma 3, and GGUF has the sum; mlx-lm keeps `w`.

use super::decoder::{DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED};
use super::rule::{NameRule, both, gguf, hf, rule};
use super::transform::{PLUS_ONE, Rows, SAME, rows};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static GEMMA: Architecture = Architecture {
    name: "gemma",
    summary: "Gemma 1",
    gguf: &["gemma"],
    hf: &["gemma"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORMS, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: norms before and after.
pub(super) static GEMMA2: Architecture = Architecture {
    name: "gemma2",
    summary: "Gemma 2",
    gguf: &["gemma2"],
    hf: &["gemma2"],
    rope: RopeLayout::HalfSplit,
    rules: &[SANDWICH, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
};

/// The row of the table: norms on q and k.
pub(super) static GEMMA3: Architecture = Architecture {
    name: "gemma3",
    summary: "Gemma 3, with and without images, and EmbeddingGemma",
    gguf: &["gemma3", "gemma-embedding"],
    hf: &["gemma3", "gemma3_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[HEAD_NORMS, SANDWICH, DENSE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
};

/// The row of the table: embeddings for each layer, alternating updates.
pub(super) static GEMMA3N: Architecture = Architecture {
    name: "gemma3n",
    summary: "Gemma 3n",
    gguf: &["gemma3n"],
    hf: &["gemma3n", "gemma3n_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[PLAIN_SANDWICH, QK_NORM, PER_LAYER, ALTUP, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
};

/// The row of the table: experts beside the dense network.
pub(super) static GEMMA4: Architecture = Architecture {
    name: "gemma4",
    summary: "Gemma 4",
    gguf: &["gemma4"],
    hf: &["gemma4", "gemma4_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[GEMMA4_ROWS, PLAIN_SANDWICH, QK_NORM, PER_LAYER, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: SHARED_KV_REQUIRED,
};

#[rustfmt::skip]
static NORMS: &[NameRule] = &[
    rule("output_norm.weight",               "output_norm.weight",       "model.norm.weight",                                PLUS_ONE),
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "model.layers.{n}.input_layernorm.weight",          PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",       "blk.{n}.ffn_norm.weight",  "model.layers.{n}.post_attention_layernorm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static SANDWICH: &[NameRule] = &[
    rule("output_norm.weight",                    "output_norm.weight",                 "model.norm.weight",                                  PLUS_ONE),
    rule("layers.{n}.attention_norm.weight",      "blk.{n}.attn_norm.weight",           "model.layers.{n}.input_layernorm.weight",            PLUS_ONE),
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",            "blk.{n}.ffn_norm.weight",            "model.layers.{n}.pre_feedforward_layernorm.weight",  PLUS_ONE),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static HEAD_NORMS: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.q_norm.weight", PLUS_ONE),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.k_norm.weight", PLUS_ONE),
];

/// The layers behind EmbeddingGemma's pooling, which Hugging Face keeps in folders of their own.
#[rustfmt::skip]
static DENSE: &[NameRule] = &[
    gguf("dense_2.weight", "dense_2.weight", SAME),
    gguf("dense_3.weight", "dense_3.weight", SAME),
];

/// The same norms without the 1.
#[rustfmt::skip]
static PLAIN_SANDWICH: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   SAME),
    rule("layers.{n}.ffn_norm.weight",            "blk.{n}.ffn_norm.weight",            "model.layers.{n}.pre_feedforward_layernorm.weight",  SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", SAME),
];

/// Embeddings that each layer has for itself.
#[rustfmt::skip]
static PER_LAYER: &[NameRule] = &[
    rule("per_layer_embedding.weight",             "per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight",               SAME),
    rule("per_layer_model_projection.weight",      "per_layer_model_proj.weight", "model.per_layer_model_projection.weight",           SAME),
    rule("per_layer_projection_norm.weight",       "per_layer_proj_norm.weight",  "model.per_layer_projection_norm.weight",            SAME),
    rule("layers.{n}.per_layer_gate.weight",       "blk.{n}.inp_gate.weight",     "model.layers.{n}.per_layer_input_gate.weight",      SAME),
    rule("layers.{n}.per_layer_projection.weight", "blk.{n}.proj.weight",         "model.layers.{n}.per_layer_projection.weight",      SAME),
    rule("layers.{n}.per_layer_norm.weight",       "blk.{n}.post_norm.weight",    "model.layers.{n}.post_per_layer_input_norm.weight", SAME),
];

#[rustfmt::skip]
static ALTUP: &[NameRule] = &[
    rule("altup.projections.weight",            "altup_proj.weight",                  "model.altup_projections.{e}.weight",              SAME),
    rule("altup.unembed_projections.weight",    "altup_unembd_proj.weight",           "model.altup_unembed_projections.{e}.weight",      SAME),
    rule("layers.{n}.altup.correction.weight",  "blk.{n}.altup_correct_coef.weight",  "model.layers.{n}.altup.correction_coefs.weight",  SAME),
    rule("layers.{n}.altup.output_scale",       "blk.{n}.altup_correct_scale.weight", "model.layers.{n}.altup.correct_output_scale",     SAME),
    rule("layers.{n}.altup.prediction.weight",  "blk.{n}.altup_predict_coef.weight",  "model.layers.{n}.altup.prediction_coefs.weight",  SAME),
    rule("layers.{n}.altup.router.weight",      "blk.{n}.altup_router.weight",        "model.layers.{n}.altup.modality_router.weight",   SAME),
    rule("layers.{n}.altup.router_norm.weight", "blk.{n}.altup_router_norm.weight",   "model.layers.{n}.altup.router_norm.weight",       SAME),
    rule("layers.{n}.laurel.left.weight",       "blk.{n}.laurel_l.weight",            "model.layers.{n}.laurel.linear_left.weight",      SAME),
    rule("layers.{n}.laurel.right.weight",      "blk.{n}.laurel_r.weight",            "model.layers.{n}.laurel.linear_right.weight",     SAME),
    rule("layers.{n}.laurel.norm.weight",       "blk.{n}.laurel_post_norm.weight",    "model.layers.{n}.laurel.post_laurel_norm.weight", SAME),
];

#[rustfmt::skip]
static GEMMA4_ROWS: &[NameRule] = &[
    rule("layers.{n}.post_ffn_norm_1.weight",   "blk.{n}.post_ffw_norm_1.weight",    "model.layers.{n}.post_feedforward_layernorm_1.weight", SAME),
    rule("layers.{n}.ffn_norm_2.weight",        "blk.{n}.pre_ffw_norm_2.weight",     "model.layers.{n}.pre_feedforward_layernorm_2.weight",  SAME),
    rule("layers.{n}.post_ffn_norm_2.weight",   "blk.{n}.post_ffw_norm_2.weight",    "model.layers.{n}.post_feedforward_layernorm_2.weight", SAME),
    rule("layers.{n}.output_scale",             "blk.{n}.layer_output_scale.weight", "model.layers.{n}.layer_scalar",                        SAME),
    rule("layers.{n}.ffn.router.weight",        "blk.{n}.ffn_gate_inp.weight",       "model.layers.{n}.router.proj.weight",                  SAME),
    rule("layers.{n}.ffn.router.scale",         "blk.{n}.ffn_gate_inp.scale",        "model.layers.{n}.router.scale",                        SAME),
    rule("layers.{n}.ffn.experts.output_scale", "blk.{n}.ffn_down_exps.scale",       "model.layers.{n}.router.per_expert_scale",             SAME),
    both("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.experts.gate_up_proj", rows(Rows::Half(0))),
    both("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.experts.gate_up_proj", rows(Rows::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.experts.down_proj",                   SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.experts.switch_glu.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.experts.switch_glu.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.experts.switch_glu.down_proj.weight", SAME),
];

static SANDWICH_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.post_attention_norm.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.post_ffn_norm.weight",
];

/// Layers may share the keys and values of one before them, or have keys for values.
static SHARED_KV_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.post_attention_norm.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.post_ffn_norm.weight",
];
