//! BERT and the encoders that have its names.

use super::rule::{NameRule, hf, rule};
use super::transform::SAME;
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static BERT: Architecture = Architecture {
    name: "bert",
    summary: "BERT, RoBERTa, XLM-RoBERTa",
    gguf: &["bert"],
    hf: &["bert", "roberta", "xlm-roberta", "camembert"],
    rope: RopeLayout::None,
    rules: &[RULES],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// A model saved with a head has its family before the names.
static PREFIXES: &[(&str, &str)] = &[("bert.", ""), ("roberta.", "")];

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "token_embedding_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.attention_output_norm.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.layer_output_norm.weight",
];

/// llama.cpp's converter leaves the pooler and the heads for masked words and next sentences out,
/// and of RoBERTa's position embeddings the first rows, up to that of the padding token.
#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",                  "token_embd.weight",                "embeddings.word_embeddings.weight",                   SAME),
    rule("position_embedding.weight",               "position_embd.weight",             "embeddings.position_embeddings.weight",               SAME),
    rule("token_type_embedding.weight",             "token_types.weight",               "embeddings.token_type_embeddings.weight",             SAME),
    rule("token_embedding_norm.weight",             "token_embd_norm.weight",           "embeddings.LayerNorm.weight",                         SAME),
    rule("token_embedding_norm.bias",               "token_embd_norm.bias",             "embeddings.LayerNorm.bias",                           SAME),
    rule("layers.{n}.attention.q.weight",           "blk.{n}.attn_q.weight",            "encoder.layer.{n}.attention.self.query.weight",       SAME),
    rule("layers.{n}.attention.q.bias",             "blk.{n}.attn_q.bias",              "encoder.layer.{n}.attention.self.query.bias",         SAME),
    rule("layers.{n}.attention.k.weight",           "blk.{n}.attn_k.weight",            "encoder.layer.{n}.attention.self.key.weight",         SAME),
    rule("layers.{n}.attention.k.bias",             "blk.{n}.attn_k.bias",              "encoder.layer.{n}.attention.self.key.bias",           SAME),
    rule("layers.{n}.attention.v.weight",           "blk.{n}.attn_v.weight",            "encoder.layer.{n}.attention.self.value.weight",       SAME),
    rule("layers.{n}.attention.v.bias",             "blk.{n}.attn_v.bias",              "encoder.layer.{n}.attention.self.value.bias",         SAME),
    rule("layers.{n}.attention.output.weight",      "blk.{n}.attn_output.weight",       "encoder.layer.{n}.attention.output.dense.weight",     SAME),
    rule("layers.{n}.attention.output.bias",        "blk.{n}.attn_output.bias",         "encoder.layer.{n}.attention.output.dense.bias",       SAME),
    rule("layers.{n}.attention_output_norm.weight", "blk.{n}.attn_output_norm.weight",  "encoder.layer.{n}.attention.output.LayerNorm.weight", SAME),
    rule("layers.{n}.attention_output_norm.bias",   "blk.{n}.attn_output_norm.bias",    "encoder.layer.{n}.attention.output.LayerNorm.bias",   SAME),
    rule("layers.{n}.ffn.up.weight",                "blk.{n}.ffn_up.weight",            "encoder.layer.{n}.intermediate.dense.weight",         SAME),
    rule("layers.{n}.ffn.up.bias",                  "blk.{n}.ffn_up.bias",              "encoder.layer.{n}.intermediate.dense.bias",           SAME),
    rule("layers.{n}.ffn.down.weight",              "blk.{n}.ffn_down.weight",          "encoder.layer.{n}.output.dense.weight",               SAME),
    rule("layers.{n}.ffn.down.bias",                "blk.{n}.ffn_down.bias",            "encoder.layer.{n}.output.dense.bias",                 SAME),
    rule("layers.{n}.layer_output_norm.weight",     "blk.{n}.layer_output_norm.weight", "encoder.layer.{n}.output.LayerNorm.weight",           SAME),
    rule("layers.{n}.layer_output_norm.bias",       "blk.{n}.layer_output_norm.bias",   "encoder.layer.{n}.output.LayerNorm.bias",             SAME),
    hf("pooler.weight",                           "pooler.dense.weight",                                SAME),
    hf("pooler.bias",                             "pooler.dense.bias",                                  SAME),
    hf("masked_words.dense.weight",               "cls.predictions.transform.dense.weight",             SAME),
    hf("masked_words.dense.bias",                 "cls.predictions.transform.dense.bias",               SAME),
    hf("masked_words.norm.weight",                "cls.predictions.transform.LayerNorm.weight",         SAME),
    hf("masked_words.norm.bias",                  "cls.predictions.transform.LayerNorm.bias",           SAME),
    hf("masked_words.output.weight",              "cls.predictions.decoder.weight",                     SAME),
    hf("masked_words.output.bias",                "cls.predictions.bias",                               SAME),
    hf("next_sentence.weight",                    "cls.seq_relationship.weight",                        SAME),
    hf("next_sentence.bias",                      "cls.seq_relationship.bias",                          SAME),
    // A classifier of one layer, and of two.
    hf("classifier.output.weight",                "classifier.weight",                                  SAME),
    hf("classifier.output.bias",                  "classifier.bias",                                    SAME),
    rule("classifier.output.weight",                "cls.output.weight",                "classifier.out_proj.weight",                          SAME),
    rule("classifier.output.bias",                  "cls.output.bias",                  "classifier.out_proj.bias",                            SAME),
    rule("classifier.dense.weight",                 "cls.weight",                       "classifier.dense.weight",                             SAME),
    rule("classifier.dense.bias",                   "cls.bias",                         "classifier.dense.bias",                               SAME),
    // Names of the first checkpoints, which came from TensorFlow.
    hf("token_embedding_norm.weight",             "embeddings.LayerNorm.gamma",                         SAME),
    hf("token_embedding_norm.bias",               "embeddings.LayerNorm.beta",                          SAME),
    hf("layers.{n}.attention_output_norm.weight", "encoder.layer.{n}.attention.output.LayerNorm.gamma", SAME),
    hf("layers.{n}.attention_output_norm.bias",   "encoder.layer.{n}.attention.output.LayerNorm.beta",  SAME),
    hf("layers.{n}.layer_output_norm.weight",     "encoder.layer.{n}.output.LayerNorm.gamma",           SAME),
    hf("layers.{n}.layer_output_norm.bias",       "encoder.layer.{n}.output.LayerNorm.beta",            SAME),
    hf("masked_words.norm.weight",                "cls.predictions.transform.LayerNorm.gamma",          SAME),
    hf("masked_words.norm.bias",                  "cls.predictions.transform.LayerNorm.beta",           SAME),
];
