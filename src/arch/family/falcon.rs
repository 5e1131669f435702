//! Falcon: attention and the feed-forward network run in parallel. In Falcon RW they follow each
//! other, with biases and ALiBi instead of rotary embeddings.

use serde_json::{Map, Value as Json};

use super::decoder::{json, keys};
use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::habits::LlamaQuantize;
use crate::arch::rule::{NameRule, gguf, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Dialect, Rename, RopeLayout};
use crate::error::Result;

use Constant::{Count, Word};

/// The architecture's row.
pub(super) static FALCON: Architecture = Architecture {
    name: "falcon",
    summary: "Falcon 7B, 40B and 180B, Falcon 2, Falcon RW",
    gguf: &["falcon"],
    hf: &["falcon", "RefinedWeb", "RefinedWebModel"],
    rope: RopeLayout::HalfSplit,
    rules: &[RULES],
    prefixes: &[("", "transformer.")],
    required: REQUIRED,
    renames: RENAMES,
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

/// Falcon RW has one norm before attention and one before the network. llama.cpp has no place for the
/// latter, nor for biases; they have the names that it uses elsewhere.
static RENAMES: &[Rename] = &[
    of_rw(Dialect::HuggingFace, "transformer.h.{n}.ln_attn.", "transformer.h.{n}.input_layernorm."),
    of_rw(
        Dialect::HuggingFace,
        "transformer.h.{n}.ln_mlp.",
        "transformer.h.{n}.post_attention_layernorm.",
    ),
    of_rw(Dialect::Mlx, "transformer.h.{n}.ln_attn.", "transformer.h.{n}.input_layernorm."),
    of_rw(Dialect::Mlx, "transformer.h.{n}.ln_mlp.", "transformer.h.{n}.post_attention_layernorm."),
    of_rw(Dialect::Gguf, "blk.{n}.attn_norm.", "blk.{n}.ffn_norm."),
    of_rw(Dialect::Gguf, "blk.{n}.attn_norm_2.", "blk.{n}.attn_norm."),
];

/// Of all Falcons, those of this kind alone have biases.
const BIASED: &str = "layers.0.ffn.up.bias";

const fn of_rw(dialect: Dialect, prefix: &'static str, replacement: &'static str) -> Rename {
    Rename { dialect, requires: BIASED, prefix, replacement, ..Rename::EMPTY }
}

/// In layers with two norms, llama.cpp's `attn_norm` belongs to the feed-forward network and
/// `attn_norm_2` to attention. In layers with one norm, `attn_norm` serves both.
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
    rule("layers.{n}.ffn_norm.weight",         "blk.{n}.ffn_norm.weight",    "transformer.h.{n}.post_attention_layernorm.weight", SAME),
    rule("layers.{n}.ffn_norm.bias",           "blk.{n}.ffn_norm.bias",      "transformer.h.{n}.post_attention_layernorm.bias", SAME),
    gguf("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::Qkv(0))),
    gguf("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::Qkv(1))),
    gguf("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::Qkv(2))),
    hf("layers.{n}.attention.q.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(RowOrder::GroupedQkv(0))),
    hf("layers.{n}.attention.k.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(RowOrder::GroupedQkv(1))),
    hf("layers.{n}.attention.v.weight", "transformer.h.{n}.self_attention.query_key_value.weight", rows(RowOrder::GroupedQkv(2))),
    gguf("layers.{n}.attention.q.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::Qkv(0))),
    gguf("layers.{n}.attention.k.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::Qkv(1))),
    gguf("layers.{n}.attention.v.bias",   "blk.{n}.attn_qkv.bias",   rows(RowOrder::Qkv(2))),
    hf("layers.{n}.attention.q.bias",   "transformer.h.{n}.self_attention.query_key_value.bias",   rows(RowOrder::GroupedQkv(0))),
    hf("layers.{n}.attention.k.bias",   "transformer.h.{n}.self_attention.query_key_value.bias",   rows(RowOrder::GroupedQkv(1))),
    hf("layers.{n}.attention.v.bias",   "transformer.h.{n}.self_attention.query_key_value.bias",   rows(RowOrder::GroupedQkv(2))),
    rule("layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", "transformer.h.{n}.self_attention.dense.weight", SAME),
    rule("layers.{n}.ffn.up.weight",           "blk.{n}.ffn_up.weight",      "transformer.h.{n}.mlp.dense_h_to_4h.weight",    SAME),
    rule("layers.{n}.ffn.down.weight",         "blk.{n}.ffn_down.weight",    "transformer.h.{n}.mlp.dense_4h_to_h.weight",    SAME),
    rule("layers.{n}.attention.output.bias",   "blk.{n}.attn_output.bias",   "transformer.h.{n}.self_attention.dense.bias",   SAME),
    rule("layers.{n}.ffn.up.bias",             "blk.{n}.ffn_up.bias",        "transformer.h.{n}.mlp.dense_h_to_4h.bias",      SAME),
    rule("layers.{n}.ffn.down.bias",           "blk.{n}.ffn_down.bias",      "transformer.h.{n}.mlp.dense_4h_to_h.bias",      SAME),
];

const DEFAULTS: Defaults = Defaults {
    of_gguf: GgufDefaults { ffn_four_times: true, ..GgufDefaults::NONE },
    ..Defaults::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "falcon",
        hf: &["falcon", "RefinedWeb", "RefinedWebModel"],
        keys: &[&[K::Fixed("context_length", Count(2048)), K::Fixed("tensor_data_layout", Word("jploski")),
            K::Row("dim"), K::Derived("ffn_dim"), K::By(keys::block_count), K::Row("n_heads"), K::Derived("n_kv_heads"),
            K::Row("layer_eps"), K::FileType, K::By(alibi)]],
        classes: &[
            Class { model_type: "falcon", class: "FalconForCausalLM",
                rules: &[json::BODY, json::DENSE, &[C::Field("norm_eps", "layer_norm_epsilon"), C::Field("ffn_dim", "ffn_hidden_size"), C::By(falcon_flags), C::By(json::rope)]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        llama_quantize: LlamaQuantize { falcon: true, ..LlamaQuantize::NONE },
        ..Variant::EMPTY
    },
];

/// The slopes of ALiBi, under the key that llama.cpp reads for other families.
fn alibi(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.config_value("alibi").and_then(Json::as_bool) == Some(true) {
        keys.real("attention.max_alibi_bias", 8.0);
    }
    Ok(())
}

/// Falcon 7B has one key head for all queries; the larger models use the new block order. Falcon RW
/// has as many key heads as queries.
fn falcon_flags(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (heads, rw) = (model.config.n_kv_heads.value, model.has(BIASED));
    out.insert("new_decoder_architecture".to_owned(), (!rw && heads > 1).into());
    out.insert("multi_query".to_owned(), (!rw || heads == 1).into());
    out.insert("num_kv_heads".to_owned(), heads.into());
    for (key, flag) in [("parallel_attn", !rw), ("bias", rw), ("alibi", rw)] {
        out.insert(key.to_owned(), flag.into());
    }
    Ok(())
}
