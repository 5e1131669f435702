//! Apertus: norms of the heads of q and k, and a feed-forward network without a gate, whose activation
//! (xIELU) has numbers of its own in each layer. They are tensors in Hugging Face's files and mlx-lm's,
//! and keys in GGUF.

use super::decoder::{DECODER, PREFIXES, QK_NORM, UNGATED_REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, KeyedTensor, RopeLayout};

use Constant::{Flag, Word};

/// The architecture's row.
pub(super) static APERTUS: Architecture = Architecture {
    name: "apertus",
    summary: "Apertus",
    gguf: &["apertus"],
    hf: &["apertus"],
    rope: RopeLayout::HalfSplit,
    rules: &[LAYERS, QK_NORM, DECODER],
    prefixes: PREFIXES,
    required: UNGATED_REQUIRED,
    keyed: &[
        KeyedTensor {
            canonical: "layers.{n}.ffn.activation.alpha_n",
            key: "xielu.alpha_n",
            shape: &[1],
        },
        KeyedTensor {
            canonical: "layers.{n}.ffn.activation.alpha_p",
            key: "xielu.alpha_p",
            shape: &[1],
        },
        KeyedTensor { canonical: "layers.{n}.ffn.activation.beta", key: "xielu.beta", shape: &[] },
        KeyedTensor { canonical: "layers.{n}.ffn.activation.eps", key: "xielu.eps", shape: &[] },
    ],
    variants: VARIANTS,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static LAYERS: &[NameRule] = &[
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "model.layers.{n}.attention_layernorm.weight",   SAME),
    rule("layers.{n}.ffn_norm.weight",       "blk.{n}.ffn_norm.weight",  "model.layers.{n}.feedforward_layernorm.weight", SAME),
    hf("layers.{n}.ffn.activation.alpha_n",                              "model.layers.{n}.mlp.act_fn.alpha_n",           SAME),
    hf("layers.{n}.ffn.activation.alpha_p",                              "model.layers.{n}.mlp.act_fn.alpha_p",           SAME),
    hf("layers.{n}.ffn.activation.beta",                                 "model.layers.{n}.mlp.act_fn.beta",              SAME),
    hf("layers.{n}.ffn.activation.eps",                                  "model.layers.{n}.mlp.act_fn.eps",               SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "apertus",
        hf: &["apertus"],
        keys: &[keys::BASE, keys::HEADS, &[K::Derived("vocab_size"), K::Rotated(1.0)]],
        classes: &[
            Class { model_type: "apertus", class: "ApertusForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, &[C::Fixed("hidden_act", Word("xielu")), C::By(json::biased), C::Fixed("mlp_bias", Flag(false)),
                    C::Fixed("post_norm", Flag(false)), C::Fixed("qk_norm", Flag(true))]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("xielu"),
        ..Variant::EMPTY
    },
];
