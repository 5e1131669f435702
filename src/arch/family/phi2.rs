//! Phi 1, 1.5 and 2: attention and the feed-forward network run in parallel, with biases everywhere.

use super::decoder::{DECODER, PREFIXES, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};

use Constant::Word;

/// The architecture's row.
pub(super) static PHI2: Architecture = Architecture {
    name: "phi2",
    summary: "Phi 1, 1.5 and 2",
    gguf: &["phi2"],
    hf: &["phi"],
    rope: RopeLayout::HalfSplit,
    rules: &[RULES, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
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

#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("output.bias",                        "output.bias",              "lm_head.bias",                           SAME),
    rule("output_norm.weight",                 "output_norm.weight",       "model.final_layernorm.weight",           SAME),
    rule("output_norm.bias",                   "output_norm.bias",         "model.final_layernorm.bias",             SAME),
    rule("layers.{n}.attention_norm.bias",     "blk.{n}.attn_norm.bias",   "model.layers.{n}.input_layernorm.bias",  SAME),
    rule("layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", "model.layers.{n}.self_attn.dense.weight", SAME),
    rule("layers.{n}.attention.output.bias",   "blk.{n}.attn_output.bias", "model.layers.{n}.self_attn.dense.bias",  SAME),
    rule("layers.{n}.ffn.up.weight",           "blk.{n}.ffn_up.weight",    "model.layers.{n}.mlp.fc1.weight",        SAME),
    rule("layers.{n}.ffn.up.bias",             "blk.{n}.ffn_up.bias",      "model.layers.{n}.mlp.fc1.bias",          SAME),
    rule("layers.{n}.ffn.down.weight",         "blk.{n}.ffn_down.weight",  "model.layers.{n}.mlp.fc2.weight",        SAME),
    rule("layers.{n}.ffn.down.bias",           "blk.{n}.ffn_down.bias",    "model.layers.{n}.mlp.fc2.bias",          SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "phi2",
        hf: &["phi"],
        keys: &[&[K::Row("max_seq_len"), K::Row("dim"), K::Derived("ffn_dim"), K::By(keys::block_count), K::Row("n_heads"), K::Derived("n_kv_heads"),
            K::Row("layer_eps"), K::Rotated(0.5), K::FileType, K::By(keys::other_base)]],
        classes: &[
            Class { model_type: "phi", class: "PhiForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, &[C::Field("norm_eps", "layer_norm_eps"), C::By(json::rotary_part), C::Fixed("hidden_act", Word("gelu_new"))]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("gelu_new"),
        ..Variant::EMPTY
    },
];
