//! Nomic Embed: a BERT with rotary embeddings and a gated feed-forward network, without biases.

use super::bert::segments;
use super::decoder::{json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, both, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::Flag;

/// The architecture's row.
pub(super) static NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    summary: "Nomic Embed Text 1 and 1.5",
    gguf: &["nomic-bert"],
    hf: &["nomic_bert"],
    rope: RopeLayout::HalfSplit,
    rules: &[RULES],
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

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

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "nomic-bert",
        hf: &["nomic_bert"],
        keys: &[keys::BASE, keys::FILE_TYPE, &[K::By(trained_length), K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "nomic_bert", class: "NomicBertModel",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::SILU, &[C::Field("norm_eps", "layer_norm_eps"), C::By(json::rope), C::By(segments)]], ..Class::EMPTY },
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
