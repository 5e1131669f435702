//! StableLM: layer norms, and rotary embeddings of a quarter of each head. In StableLM 2 12B attention
//! and the feed-forward network run in parallel, and each head of q and k has a norm of its own.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, NORM_BIASES, PREFIXES, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static STABLELM: Architecture = Architecture {
    name: "stablelm",
    summary: "StableLM",
    gguf: &["stablelm"],
    hf: &["stablelm"],
    rope: RopeLayout::HalfSplit,
    rules: &[HEAD_NORMS, NORM_BIASES, DECODER],
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
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

/// A tensor for each head.
#[rustfmt::skip]
static HEAD_NORMS: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.q_layernorm.norms.{e}.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.k_layernorm.norms.{e}.weight", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "stablelm",
        hf: &["stablelm"],
        keys: &[&[K::Row("max_seq_len"), K::Row("dim"), K::By(keys::block_count), K::Row("ffn_dim"), K::Rotated(0.25), K::Row("n_heads"), K::Derived("n_kv_heads"),
            K::By(parallel), K::Row("layer_eps"), K::FileType, K::By(keys::other_base)]],
        classes: &[
            Class { model_type: "stablelm", class: "StableLmForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::SILU, &[C::Field("norm_eps", "layer_norm_eps"), C::By(json::rotary_part), C::By(flags)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

/// Whether attention and network run in parallel: then there is no norm before the network.
fn is_parallel(model: &SourceModel<'_>) -> bool {
    !model.has_in_layers("ffn_norm.weight")
}

fn parallel(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("use_parallel_residual", &is_parallel(model).into());
    Ok(())
}

fn flags(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (key, flag) in [
        ("use_parallel_residual", is_parallel(model)),
        ("use_qkv_bias", model.has_in_layers("attention.q.bias")),
        ("qk_layernorm", model.has_in_layers("attention.q_norm.weight")),
    ] {
        out.insert(key.to_owned(), flag.into());
    }
    Ok(())
}
