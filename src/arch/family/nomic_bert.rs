//! Nomic Embed: a BERT with rotary embeddings and a gated feed-forward network, without biases.
//!
//! The second version has biases, no gates, and experts in every other layer. Its class is in a
//! repository of its own on the hub.

use serde_json::{Map, Value as Json};

use super::decoder::{json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, StoredForm, both, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, RowOrder, SAME, Transform, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Instead, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag, Real, Word};

/// The architecture's row.
pub(super) static NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    summary: "Nomic Embed Text 1 and 1.5",
    gguf: &["nomic-bert"],
    hf: &["nomic_bert"],
    instead: Some(Instead { when: has_experts, architecture: &NOMIC_BERT_MOE }),
    rope: RopeLayout::HalfSplit,
    rules: &[RULES],
    required: REQUIRED,
    encodes: true,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// The row of the model with experts.
pub(super) static NOMIC_BERT_MOE: Architecture = Architecture {
    name: "nomic-bert-moe",
    summary: "Nomic Embed Text 2",
    gguf: &["nomic-bert-moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[MIXTURE_RULES, RULES],
    required: MIXTURE_REQUIRED,
    encodes: true,
    variants: MIXTURE_VARIANTS,
    ..Architecture::EMPTY
};

static MIXTURE_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "token_embedding_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.attention_output_norm.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight",
    "layers.{n}.layer_output_norm.weight",
];

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "token_embedding_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.attention_output_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.layer_output_norm.weight",
];

#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",                  "token_embd.weight",                "embeddings.word_embeddings.weight",       SAME),
    rule("token_type_embedding.weight",             "token_types.weight",               "embeddings.token_type_embeddings.weight", SAME),
    rule("token_embedding_norm.weight",             "token_embd_norm.weight",           "emb_ln.weight",                           SAME),
    rule("token_embedding_norm.bias",               "token_embd_norm.bias",             "emb_ln.bias",                             SAME),
    both("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", "encoder.layers.{n}.attn.Wqkv.weight", rows(RowOrder::Qkv(0))),
    both("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", "encoder.layers.{n}.attn.Wqkv.weight", rows(RowOrder::Qkv(1))),
    both("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", "encoder.layers.{n}.attn.Wqkv.weight", rows(RowOrder::Qkv(2))),
    rule("layers.{n}.attention.output.weight",      "blk.{n}.attn_output.weight",       "encoder.layers.{n}.attn.out_proj.weight", SAME),
    rule("layers.{n}.attention_output_norm.weight", "blk.{n}.attn_output_norm.weight",  "encoder.layers.{n}.norm1.weight",         SAME),
    rule("layers.{n}.attention_output_norm.bias",   "blk.{n}.attn_output_norm.bias",    "encoder.layers.{n}.norm1.bias",           SAME),
    rule("layers.{n}.ffn.up.weight",                "blk.{n}.ffn_up.weight",            "encoder.layers.{n}.mlp.fc11.weight",      SAME),
    rule("layers.{n}.ffn.gate.weight",              "blk.{n}.ffn_gate.weight",          "encoder.layers.{n}.mlp.fc12.weight",      SAME),
    rule("layers.{n}.ffn.down.weight",              "blk.{n}.ffn_down.weight",          "encoder.layers.{n}.mlp.fc2.weight",       SAME),
    rule("layers.{n}.layer_output_norm.weight",     "blk.{n}.layer_output_norm.weight", "encoder.layers.{n}.norm2.weight",         SAME),
    rule("layers.{n}.layer_output_norm.bias",       "blk.{n}.layer_output_norm.bias",   "encoder.layers.{n}.norm2.bias",           SAME),
];

const JOINED: Transform = Transform { axes: Axes::Joined, ..SAME };
const JOINED_TRANSPOSED: Transform = Transform { axes: Axes::JoinedTransposed, ..SAME };

/// Experts that GGUF stores one by one along an axis, and Hugging Face's files one below another.
const fn experts(
    canonical: &'static str,
    gguf: &'static str,
    hf: &'static str,
    transform: Transform,
) -> NameRule {
    let gguf = StoredForm { name: gguf, transform: SAME };
    NameRule { canonical, gguf, hf: StoredForm { name: hf, transform } }
}

/// llama.cpp's converter drops the bias that is added to what the experts give.
#[rustfmt::skip]
static MIXTURE_RULES: &[NameRule] = &[
    both("layers.{n}.attention.q.bias",      "blk.{n}.attn_qkv.bias",      "encoder.layers.{n}.attn.Wqkv.bias",     rows(RowOrder::Qkv(0))),
    both("layers.{n}.attention.k.bias",      "blk.{n}.attn_qkv.bias",      "encoder.layers.{n}.attn.Wqkv.bias",     rows(RowOrder::Qkv(1))),
    both("layers.{n}.attention.v.bias",      "blk.{n}.attn_qkv.bias",      "encoder.layers.{n}.attn.Wqkv.bias",     rows(RowOrder::Qkv(2))),
    rule("layers.{n}.attention.output.bias", "blk.{n}.attn_output.bias",   "encoder.layers.{n}.attn.out_proj.bias", SAME),
    rule("layers.{n}.ffn.up.weight",         "blk.{n}.ffn_up.weight",      "encoder.layers.{n}.mlp.fc1.weight",     SAME),
    rule("layers.{n}.ffn.up.bias",           "blk.{n}.ffn_up.bias",        "encoder.layers.{n}.mlp.fc1.bias",       SAME),
    rule("layers.{n}.ffn.down.bias",         "blk.{n}.ffn_down.bias",      "encoder.layers.{n}.mlp.fc2.bias",       SAME),
    rule("layers.{n}.ffn.router.weight",     "blk.{n}.ffn_gate_inp.weight", "encoder.layers.{n}.mlp.router.layer.weight", SAME),
    experts("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_up_exps.weight",   "encoder.layers.{n}.mlp.experts.mlp.w1", JOINED),
    experts("layers.{n}.ffn.experts.down.weight", "blk.{n}.ffn_down_exps.weight", "encoder.layers.{n}.mlp.experts.mlp.w2", JOINED_TRANSPOSED),
    hf("layers.{n}.ffn.experts.bias", "encoder.layers.{n}.mlp.experts.bias", SAME),
];

/// The form of models with experts in GGUF.
const MIXTURE: Variant = Variant {
    gguf: "nomic-bert-moe",
    keys: &[MIXTURE_KEYS],
    defaults: Defaults::activation("gelu"),
    tokenizer: TokenizerHabits { counts_token_types: true, ..TokenizerHabits::NONE },
    ..Variant::EMPTY
};

#[rustfmt::skip]
const MIXTURE_KEYS: &[K] = &[
    K::By(keys::block_count), K::By(short_length), K::Row("dim"), K::Row("ffn_dim"), K::Row("n_heads"), K::Row("rope_theta"),
    K::Row("layer_eps"), K::Row("n_experts"), K::FileType, K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling),
    K::As("expert_layer_step", "moe_every_n_layers"), K::Row("n_experts_used"),
];

/// The published class reads keys of its own.
#[rustfmt::skip]
static MIXTURE_VARIANTS: &[Variant] = &[Variant {
    classes: &[Class { model_type: "nomic_bert", class: "NomicBertModel", rules: &[&[
        C::Field("dim", "n_embd"), C::Field("n_layers", "n_layer"), C::Field("n_heads", "n_head"), C::Field("ffn_dim", "n_inner"),
        C::Field("vocab_size", "vocab_size"), C::Field("norm_eps", "layer_norm_epsilon"), C::Field("rope_theta", "rotary_emb_base"),
        C::Needed("n_experts", "num_experts"), C::Needed("n_experts_used", "moe_top_k"), C::Needed("expert_layer_step", "moe_every_n_layers"),
        C::Fixed("n_positions", Count(2048)), C::Fixed("max_trained_positions", Count(2048)),
        C::Fixed("activation_function", Word("gelu")), C::Fixed("qkv_proj_bias", Flag(true)), C::Fixed("mlp_fc1_bias", Flag(true)),
        C::Fixed("mlp_fc2_bias", Flag(true)), C::Fixed("causal", Flag(false)), C::Fixed("prenorm", Flag(false)),
        C::Fixed("rotary_emb_fraction", Real(1.0)), C::Fixed("rotary_emb_interleaved", Flag(false)), C::By(json::segments), C::By(code),
    ]], ..Class::EMPTY }],
    ..MIXTURE
}];

/// Whether a `config.json` states experts.
fn has_experts(config: &Json) -> bool {
    config.get("moe_every_n_layers").and_then(Json::as_u64).is_some_and(|period| period > 0)
}

/// The published config states four times the length of training; the converter states the latter.
fn short_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let trained = model.count("max_trained_positions")?.unwrap_or(2048);
    let stated = model.config.max_seq_len.as_ref().map(|length| length.value);
    match stated {
        Some(2048) if trained == 2048 => keys.count("context_length", 512),
        Some(stated) => keys.count("context_length", stated),
        None => {}
    }
    Ok(())
}

/// Where transformers finds the class, and a setting that the class requires to be unset.
fn code(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let of = |file: &str| format!("nomic-ai/nomic-bert-2048--{file}");
    let map = serde_json::json!({
        "AutoConfig": of("configuration_hf_nomic_bert.NomicBertConfig"),
        "AutoModel": of("modeling_hf_nomic_bert.NomicBertModel"),
    });
    out.insert("auto_map".to_owned(), map);
    out.insert("rotary_emb_scale_base".to_owned(), Json::Null);
    Ok(())
}

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant { hf: &["nomic_bert"], when: Some(has_experts), ..MIXTURE },
    Variant {
        gguf: "nomic-bert",
        hf: &["nomic_bert"],
        keys: &[keys::BASE, keys::FILE_TYPE, &[K::By(trained_length), K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "nomic_bert", class: "NomicBertModel",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::SILU, &[C::Field("norm_eps", "layer_norm_eps"), C::By(json::rope), C::By(json::segments)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TokenizerHabits { counts_token_types: true, ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

/// The published configs state four times the length of training; the converter states the latter.
fn trained_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let trained = model.count("max_trained_positions")?.unwrap_or(2048);
    if model.count("n_positions")?.is_some_and(|stated| stated == 8192 && trained == 2048) {
        keys.count("context_length", trained);
    }
    Ok(())
}
