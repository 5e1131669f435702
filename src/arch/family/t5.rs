//! T5, its later versions and its multilingual relatives: an encoder and a decoder without positions,
//! which add a learned bias for the distance of two tokens to the attention scores. T5's encoder alone
//! is an architecture of its own in GGUF.
//!
//! The network of the first version has no gate; that of the later ones has one. Except in UMT5, the
//! first layer of a stack has the bias of all its layers.

use serde_json::{Map, Value as Json};

use super::decoder::keys;
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Instead, NormKind, Rename, RopeLayout};
use crate::error::Result;

use Constant::Flag;

/// The row of models with a decoder.
pub(super) static T5: Architecture = Architecture {
    name: "t5",
    summary: "T5, T5 1.1, Flan-T5, mT5, UMT5",
    gguf: &["t5"],
    hf: &["t5", "mt5", "umt5"],
    instead: Some(Instead { when: is_encoder, architecture: &T5_ENCODER }),
    rope: RopeLayout::None,
    rules: &[EMBEDDINGS, RULES],
    required: REQUIRED,
    renames: RENAMES,
    counts_encoder_layers: true,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// The row of encoders alone.
pub(super) static T5_ENCODER: Architecture = Architecture {
    name: "t5encoder",
    summary: "the encoder of T5 and its relatives",
    gguf: &["t5encoder"],
    rope: RopeLayout::None,
    rules: &[EMBEDDINGS, ENCODER_RULES],
    required: ENCODER_REQUIRED,
    renames: ENCODER_RENAMES,
    encodes: true,
    variants: ENCODER_VARIANTS,
    ..Architecture::EMPTY
};

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "enc.output_norm.weight",
    "enc.layers.{n}.attn_norm.weight",
    "enc.layers.{n}.attn.q.weight",
    "enc.layers.{n}.attn.k.weight",
    "enc.layers.{n}.attn.v.weight",
    "enc.layers.{n}.attn.output.weight",
    "enc.layers.{n}.ffn_norm.weight",
    "enc.layers.{n}.ffn.up.weight",
    "enc.layers.{n}.ffn.down.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.cross_attn_norm.weight",
    "layers.{n}.cross_attn.q.weight",
    "layers.{n}.cross_attn.k.weight",
    "layers.{n}.cross_attn.v.weight",
    "layers.{n}.cross_attn.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

static ENCODER_REQUIRED: &[&str] = &[
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

/// Encoder and decoder share the embedding. Some checkpoints store a copy for each.
#[rustfmt::skip]
static EMBEDDINGS: &[NameRule] = &[
    rule("token_embedding.weight", "token_embd.weight", "shared.weight", SAME),
    hf("token_embedding.weight", "encoder.embed_tokens.weight", SAME),
    hf("token_embedding.weight", "decoder.embed_tokens.weight", SAME),
];

/// A network without a gate has `wi`; [`RENAMES`] has the name of the same matrix beside a gate.
#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("output.weight",                                "output.weight",                   "lm_head.weight",                                                        SAME),
    rule("output_norm.weight",                           "dec.output_norm.weight",          "decoder.final_layer_norm.weight",                                       SAME),
    rule("enc.output_norm.weight",                       "enc.output_norm.weight",          "encoder.final_layer_norm.weight",                                       SAME),
    rule("enc.layers.{n}.attn_norm.weight",              "enc.blk.{n}.attn_norm.weight",    "encoder.block.{n}.layer.0.layer_norm.weight",                           SAME),
    rule("enc.layers.{n}.attn.q.weight",                 "enc.blk.{n}.attn_q.weight",       "encoder.block.{n}.layer.0.SelfAttention.q.weight",                      SAME),
    rule("enc.layers.{n}.attn.k.weight",                 "enc.blk.{n}.attn_k.weight",       "encoder.block.{n}.layer.0.SelfAttention.k.weight",                      SAME),
    rule("enc.layers.{n}.attn.v.weight",                 "enc.blk.{n}.attn_v.weight",       "encoder.block.{n}.layer.0.SelfAttention.v.weight",                      SAME),
    rule("enc.layers.{n}.attn.output.weight",            "enc.blk.{n}.attn_o.weight",       "encoder.block.{n}.layer.0.SelfAttention.o.weight",                      SAME),
    rule("enc.layers.{n}.attn.relative_bias.weight",     "enc.blk.{n}.attn_rel_b.weight",   "encoder.block.{n}.layer.0.SelfAttention.relative_attention_bias.weight", SAME),
    rule("enc.layers.{n}.ffn_norm.weight",               "enc.blk.{n}.ffn_norm.weight",     "encoder.block.{n}.layer.1.layer_norm.weight",                           SAME),
    rule("enc.layers.{n}.ffn.gate.weight",               "enc.blk.{n}.ffn_gate.weight",     "encoder.block.{n}.layer.1.DenseReluDense.wi_0.weight",                  SAME),
    rule("enc.layers.{n}.ffn.up.weight",                 "enc.blk.{n}.ffn_up.weight",       "encoder.block.{n}.layer.1.DenseReluDense.wi.weight",                    SAME),
    hf("enc.layers.{n}.ffn.up.weight",                                                      "encoder.block.{n}.layer.1.DenseReluDense.wi_1.weight",                  SAME),
    rule("enc.layers.{n}.ffn.down.weight",               "enc.blk.{n}.ffn_down.weight",     "encoder.block.{n}.layer.1.DenseReluDense.wo.weight",                    SAME),
    rule("layers.{n}.attention_norm.weight",             "dec.blk.{n}.attn_norm.weight",    "decoder.block.{n}.layer.0.layer_norm.weight",                           SAME),
    rule("layers.{n}.attention.q.weight",                "dec.blk.{n}.attn_q.weight",       "decoder.block.{n}.layer.0.SelfAttention.q.weight",                      SAME),
    rule("layers.{n}.attention.k.weight",                "dec.blk.{n}.attn_k.weight",       "decoder.block.{n}.layer.0.SelfAttention.k.weight",                      SAME),
    rule("layers.{n}.attention.v.weight",                "dec.blk.{n}.attn_v.weight",       "decoder.block.{n}.layer.0.SelfAttention.v.weight",                      SAME),
    rule("layers.{n}.attention.output.weight",           "dec.blk.{n}.attn_o.weight",       "decoder.block.{n}.layer.0.SelfAttention.o.weight",                      SAME),
    rule("layers.{n}.attention.relative_bias.weight",    "dec.blk.{n}.attn_rel_b.weight",   "decoder.block.{n}.layer.0.SelfAttention.relative_attention_bias.weight", SAME),
    rule("layers.{n}.cross_attn_norm.weight",            "dec.blk.{n}.cross_attn_norm.weight", "decoder.block.{n}.layer.1.layer_norm.weight",                        SAME),
    rule("layers.{n}.cross_attn.q.weight",               "dec.blk.{n}.cross_attn_q.weight", "decoder.block.{n}.layer.1.EncDecAttention.q.weight",                    SAME),
    rule("layers.{n}.cross_attn.k.weight",               "dec.blk.{n}.cross_attn_k.weight", "decoder.block.{n}.layer.1.EncDecAttention.k.weight",                    SAME),
    rule("layers.{n}.cross_attn.v.weight",               "dec.blk.{n}.cross_attn_v.weight", "decoder.block.{n}.layer.1.EncDecAttention.v.weight",                    SAME),
    rule("layers.{n}.cross_attn.output.weight",          "dec.blk.{n}.cross_attn_o.weight", "decoder.block.{n}.layer.1.EncDecAttention.o.weight",                    SAME),
    // The first checkpoints have it, and no engine computes with it.
    rule("layers.{n}.cross_attn.relative_bias.weight",   "dec.blk.{n}.cross_attn_rel_b.weight", "decoder.block.{n}.layer.1.EncDecAttention.relative_attention_bias.weight", SAME),
    rule("layers.{n}.ffn_norm.weight",                   "dec.blk.{n}.ffn_norm.weight",     "decoder.block.{n}.layer.2.layer_norm.weight",                           SAME),
    rule("layers.{n}.ffn.gate.weight",                   "dec.blk.{n}.ffn_gate.weight",     "decoder.block.{n}.layer.2.DenseReluDense.wi_0.weight",                  SAME),
    rule("layers.{n}.ffn.up.weight",                     "dec.blk.{n}.ffn_up.weight",       "decoder.block.{n}.layer.2.DenseReluDense.wi.weight",                    SAME),
    hf("layers.{n}.ffn.up.weight",                                                          "decoder.block.{n}.layer.2.DenseReluDense.wi_1.weight",                  SAME),
    rule("layers.{n}.ffn.down.weight",                   "dec.blk.{n}.ffn_down.weight",     "decoder.block.{n}.layer.2.DenseReluDense.wo.weight",                    SAME),
];

#[rustfmt::skip]
static ENCODER_RULES: &[NameRule] = &[
    rule("output_norm.weight",                        "enc.output_norm.weight",        "encoder.final_layer_norm.weight",                                       SAME),
    rule("layers.{n}.attention_norm.weight",          "enc.blk.{n}.attn_norm.weight",  "encoder.block.{n}.layer.0.layer_norm.weight",                           SAME),
    rule("layers.{n}.attention.q.weight",             "enc.blk.{n}.attn_q.weight",     "encoder.block.{n}.layer.0.SelfAttention.q.weight",                      SAME),
    rule("layers.{n}.attention.k.weight",             "enc.blk.{n}.attn_k.weight",     "encoder.block.{n}.layer.0.SelfAttention.k.weight",                      SAME),
    rule("layers.{n}.attention.v.weight",             "enc.blk.{n}.attn_v.weight",     "encoder.block.{n}.layer.0.SelfAttention.v.weight",                      SAME),
    rule("layers.{n}.attention.output.weight",        "enc.blk.{n}.attn_o.weight",     "encoder.block.{n}.layer.0.SelfAttention.o.weight",                      SAME),
    rule("layers.{n}.attention.relative_bias.weight", "enc.blk.{n}.attn_rel_b.weight", "encoder.block.{n}.layer.0.SelfAttention.relative_attention_bias.weight", SAME),
    rule("layers.{n}.ffn_norm.weight",                "enc.blk.{n}.ffn_norm.weight",   "encoder.block.{n}.layer.1.layer_norm.weight",                           SAME),
    rule("layers.{n}.ffn.gate.weight",                "enc.blk.{n}.ffn_gate.weight",   "encoder.block.{n}.layer.1.DenseReluDense.wi_0.weight",                  SAME),
    rule("layers.{n}.ffn.up.weight",                  "enc.blk.{n}.ffn_up.weight",     "encoder.block.{n}.layer.1.DenseReluDense.wi.weight",                    SAME),
    hf("layers.{n}.ffn.up.weight",                                                     "encoder.block.{n}.layer.1.DenseReluDense.wi_1.weight",                  SAME),
    rule("layers.{n}.ffn.down.weight",                "enc.blk.{n}.ffn_down.weight",   "encoder.block.{n}.layer.1.DenseReluDense.wo.weight",                    SAME),
];

#[rustfmt::skip]
static RENAMES: &[Rename] = &[
    beside_gate("enc.layers.{n}.ffn.gate.weight", "encoder.block.{n}.layer.1.DenseReluDense.wi.", "encoder.block.{n}.layer.1.DenseReluDense.wi_1."),
    beside_gate("layers.{n}.ffn.gate.weight", "decoder.block.{n}.layer.2.DenseReluDense.wi.", "decoder.block.{n}.layer.2.DenseReluDense.wi_1."),
];

#[rustfmt::skip]
static ENCODER_RENAMES: &[Rename] = &[
    beside_gate("layers.{n}.ffn.gate.weight", "encoder.block.{n}.layer.1.DenseReluDense.wi.", "encoder.block.{n}.layer.1.DenseReluDense.wi_1."),
];

const fn beside_gate(gate: &'static str, prefix: &'static str, instead: &'static str) -> Rename {
    Rename { requires: gate, prefix, replacement: instead, ..Rename::EMPTY }
}

const DEFAULTS: Defaults = Defaults { norms: Some(NormKind::Rms), ..Defaults::NONE };

const NAMES: &[&str] = &["t5", "mt5", "umt5"];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "t5",
        hf: NAMES,
        keys: &[SIZES, &[K::By(both_counts)], ATTENTION, &[K::By(first_token), K::FileType]],
        classes: &[
            Class { model_type: "umt5", class: "UMT5ForConditionalGeneration", when: Some(|model| model.has("layers.1.attention.relative_bias.weight")),
                rules: &[CONFIG, WITH_DECODER], ..Class::EMPTY },
            Class { model_type: "t5", class: "T5ForConditionalGeneration", rules: &[CONFIG, WITH_DECODER], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
    Variant { gguf: "t5encoder", hf: NAMES, when: Some(is_encoder), ..ENCODER },
];

static ENCODER_VARIANTS: &[Variant] = &[Variant {
    classes: &[
        Class {
            model_type: "umt5",
            class: "UMT5EncoderModel",
            when: Some(|model| model.has("layers.1.attention.relative_bias.weight")),
            rules: &[CONFIG, ENCODER_ALONE],
            ..Class::EMPTY
        },
        Class {
            model_type: "t5",
            class: "T5EncoderModel",
            rules: &[CONFIG, ENCODER_ALONE],
            ..Class::EMPTY
        },
    ],
    ..ENCODER
}];

const ENCODER: Variant = Variant {
    gguf: "t5encoder",
    keys: &[SIZES, &[K::By(one_count)], ATTENTION, &[K::FileType]],
    defaults: DEFAULTS,
    ..Variant::EMPTY
};

const SIZES: &[K] = &[K::By(trained_length), K::Row("dim"), K::Row("ffn_dim")];

#[rustfmt::skip]
const ATTENTION: &[K] = &[
    K::Row("n_heads"), K::By(keys::all_widths_of_heads), K::By(keys::layer_norm_epsilon),
    K::Row("relative_buckets"), K::By(epsilon),
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::Field("dim", "d_model"), C::Field("head_dim", "d_kv"), C::Field("ffn_dim", "d_ff"), C::Field("n_heads", "num_heads"),
    C::Field("vocab_size", "vocab_size"), C::Field("max_seq_len", "n_positions"), C::Field("norm_eps", "layer_norm_epsilon"),
    C::Needed("relative_buckets", "relative_attention_num_buckets"), C::By(network), C::By(layers),
];

#[rustfmt::skip]
const WITH_DECODER: &[C] = &[
    C::Fixed("is_encoder_decoder", Flag(true)), C::Field("tie_embeddings", "tie_word_embeddings"), C::By(start),
];

const ENCODER_ALONE: &[C] = &[C::Fixed("is_encoder_decoder", Flag(false))];

/// Whether a `config.json` is that of an encoder alone.
fn is_encoder(config: &Json) -> bool {
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Json::as_str);
    class.is_some_and(|class| class.ends_with("EncoderModel"))
}

/// The positions that the model was trained with. No class has this key; the converter's default is
/// that of T5's training.
fn trained_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("context_length", model.count("n_positions")?.unwrap_or(512));
    Ok(())
}

/// Layers of the encoder and of the decoder.
fn both_counts(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let encoder = model.config.encoder.enc_n_layers.as_ref();
    let encoder = encoder.ok_or_else(|| model.missing_in_config("num_layers"))?;
    keys.count("block_count", encoder.value);
    keys.count("decoder_block_count", model.config.n_layers.value);
    Ok(())
}

fn one_count(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("block_count", model.config.n_layers.value);
    Ok(())
}

/// The norms are RMS norms. The converter states their epsilon under both keys.
fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(eps) = &model.config.norm_eps {
        keys.real("attention.layer_norm_rms_epsilon", eps.value);
    }
    Ok(())
}

/// The token that the decoder starts with.
fn first_token(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(token) = model.count("decoder_start_token_id")? {
        keys.count("decoder_start_token_id", token);
    }
    Ok(())
}

/// The inverse of [`first_token`].
fn start(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.metadata().u64(&format!("{}.decoder_start_token_id", model.architecture()));
    out.extend(stated.map(|token| ("decoder_start_token_id".to_owned(), token.into())));
    Ok(())
}

/// llama.cpp takes GELU for networks with a gate, and ReLU for those without.
fn network(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let gated = ["layers.0.ffn.gate.weight", "enc.layers.0.ffn.gate.weight"];
    let gated = gated.iter().any(|name| model.has(name));
    let name = if gated { "gated-gelu" } else { "relu" };
    out.insert("feed_forward_proj".to_owned(), name.into());
    Ok(())
}

fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let own = model.config.n_layers.value;
    let encoder = model.config.encoder.enc_n_layers.as_ref().map(|layers| layers.value);
    out.insert("num_layers".to_owned(), encoder.unwrap_or(own).into());
    out.extend(encoder.map(|_| ("num_decoder_layers".to_owned(), own.into())));
    Ok(())
}
