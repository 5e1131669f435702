//! Jina Embeddings 2: a BERT with ALiBi in place of positions, and a gated feed-forward network. Its
//! classes are in repositories of their own on the hub, and `config.json` calls it BERT.
//!
//! The model for code also has norms of queries and keys, and a second norm after attention.

use serde_json::{Map, Value as Json, json};

use super::decoder::{json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, both, hf, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Rename, RopeLayout};
use crate::error::Result;

use Constant::{Flag, Word};

/// The architecture's row. Models come to it from BERT's row.
pub(super) static JINA_BERT_V2: Architecture = Architecture {
    name: "jina-bert-v2",
    summary: "Jina Embeddings 2",
    gguf: &["jina-bert-v2"],
    rope: RopeLayout::None,
    rules: &[RULES],
    prefixes: &[("bert.", "")],
    required: REQUIRED,
    renames: RENAMES,
    encodes: true,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "token_type_embedding.weight",
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

/// llama.cpp's converter drops the pooler. Names of the network in the model for code come second.
#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",                  "token_embd.weight",                "embeddings.word_embeddings.weight",                   SAME),
    rule("token_type_embedding.weight",             "token_types.weight",               "embeddings.token_type_embeddings.weight",             SAME),
    rule("token_embedding_norm.weight",             "token_embd_norm.weight",           "embeddings.LayerNorm.weight",                         SAME),
    rule("token_embedding_norm.bias",               "token_embd_norm.bias",             "embeddings.LayerNorm.bias",                           SAME),
    rule("layers.{n}.attention.q.weight",           "blk.{n}.attn_q.weight",            "encoder.layer.{n}.attention.self.query.weight",       SAME),
    rule("layers.{n}.attention.q.bias",             "blk.{n}.attn_q.bias",              "encoder.layer.{n}.attention.self.query.bias",         SAME),
    rule("layers.{n}.attention.k.weight",           "blk.{n}.attn_k.weight",            "encoder.layer.{n}.attention.self.key.weight",         SAME),
    rule("layers.{n}.attention.k.bias",             "blk.{n}.attn_k.bias",              "encoder.layer.{n}.attention.self.key.bias",           SAME),
    rule("layers.{n}.attention.v.weight",           "blk.{n}.attn_v.weight",            "encoder.layer.{n}.attention.self.value.weight",       SAME),
    rule("layers.{n}.attention.v.bias",             "blk.{n}.attn_v.bias",              "encoder.layer.{n}.attention.self.value.bias",         SAME),
    rule("layers.{n}.attention.q_norm.weight",      "blk.{n}.attn_q_norm.weight",       "encoder.layer.{n}.attention.self.layer_norm_q.weight", SAME),
    rule("layers.{n}.attention.q_norm.bias",        "blk.{n}.attn_q_norm.bias",         "encoder.layer.{n}.attention.self.layer_norm_q.bias",  SAME),
    rule("layers.{n}.attention.k_norm.weight",      "blk.{n}.attn_k_norm.weight",       "encoder.layer.{n}.attention.self.layer_norm_k.weight", SAME),
    rule("layers.{n}.attention.k_norm.bias",        "blk.{n}.attn_k_norm.bias",         "encoder.layer.{n}.attention.self.layer_norm_k.bias",  SAME),
    rule("layers.{n}.attention.output.weight",      "blk.{n}.attn_output.weight",       "encoder.layer.{n}.attention.output.dense.weight",     SAME),
    rule("layers.{n}.attention.output.bias",        "blk.{n}.attn_output.bias",         "encoder.layer.{n}.attention.output.dense.bias",       SAME),
    rule("layers.{n}.attention_output_norm.weight", "blk.{n}.attn_output_norm.weight",  "encoder.layer.{n}.attention.output.LayerNorm.weight", SAME),
    rule("layers.{n}.attention_output_norm.bias",   "blk.{n}.attn_output_norm.bias",    "encoder.layer.{n}.attention.output.LayerNorm.bias",   SAME),
    rule("layers.{n}.attention_sum_norm.weight",    "blk.{n}.attn_norm_2.weight",       "encoder.layer.{n}.layer_norm_1.weight",               SAME),
    rule("layers.{n}.attention_sum_norm.bias",      "blk.{n}.attn_norm_2.bias",         "encoder.layer.{n}.layer_norm_1.bias",                 SAME),
    both("layers.{n}.ffn.gate.weight",              "blk.{n}.ffn_up.weight",            "encoder.layer.{n}.mlp.gated_layers.weight",           rows(RowOrder::Half(0))),
    both("layers.{n}.ffn.up.weight",                "blk.{n}.ffn_up.weight",            "encoder.layer.{n}.mlp.gated_layers.weight",           rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.gate.weight",                                                    "encoder.layer.{n}.mlp.up_gated_layer.weight",         rows(RowOrder::Half(0))),
    hf("layers.{n}.ffn.up.weight",                                                      "encoder.layer.{n}.mlp.up_gated_layer.weight",         rows(RowOrder::Half(1))),
    rule("layers.{n}.ffn.down.weight",              "blk.{n}.ffn_down.weight",          "encoder.layer.{n}.mlp.wo.weight",                     SAME),
    rule("layers.{n}.ffn.down.bias",                "blk.{n}.ffn_down.bias",            "encoder.layer.{n}.mlp.wo.bias",                       SAME),
    hf("layers.{n}.ffn.down.weight",                                                    "encoder.layer.{n}.mlp.down_layer.weight",             SAME),
    hf("layers.{n}.ffn.down.bias",                                                      "encoder.layer.{n}.mlp.down_layer.bias",               SAME),
    rule("layers.{n}.layer_output_norm.weight",     "blk.{n}.layer_output_norm.weight", "encoder.layer.{n}.mlp.layernorm.weight",              SAME),
    rule("layers.{n}.layer_output_norm.bias",       "blk.{n}.layer_output_norm.bias",   "encoder.layer.{n}.mlp.layernorm.bias",                SAME),
    hf("layers.{n}.layer_output_norm.weight",                                           "encoder.layer.{n}.layer_norm_2.weight",               SAME),
    hf("layers.{n}.layer_output_norm.bias",                                             "encoder.layer.{n}.layer_norm_2.bias",                 SAME),
    hf("pooler.weight",                                                                 "pooler.dense.weight",                                 SAME),
    hf("pooler.bias",                                                                   "pooler.dense.bias",                                   SAME),
];

const SECOND_NORM: &str = "layers.{n}.attention_sum_norm.weight";

#[rustfmt::skip]
static RENAMES: &[Rename] = &[
    for_code("encoder.layer.{n}.mlp.gated_layers.", "encoder.layer.{n}.mlp.up_gated_layer."),
    for_code("encoder.layer.{n}.mlp.wo.", "encoder.layer.{n}.mlp.down_layer."),
    for_code("encoder.layer.{n}.mlp.layernorm.", "encoder.layer.{n}.layer_norm_2."),
];

const fn for_code(prefix: &'static str, replacement: &'static str) -> Rename {
    Rename { requires: SECOND_NORM, prefix, replacement, ..Rename::EMPTY }
}

/// The form that BERT's row refers to.
pub(super) const VARIANT: Variant = Variant {
    gguf: "jina-bert-v2",
    keys: &[
        keys::BASE,
        keys::FILE_TYPE,
        &[K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling)],
    ],
    defaults: Defaults::activation("gelu"),
    tokenizer: TokenizerHabits {
        pre: &["jina-v2-code", "jina-v2-de", "jina-v2-es"],
        counts_token_types: true,
        ..TokenizerHabits::NONE
    },
    ..Variant::EMPTY
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[Variant {
    classes: &[Class {
        model_type: "bert", class: "JinaBertModel",
        rules: &[json::BODY, json::DENSE, &[
            C::Field("norm_eps", "layer_norm_eps"), C::Fixed("hidden_act", Word("gelu")), C::Fixed("tie_word_embeddings", Flag(true)),
            C::Fixed("position_embedding_type", Word("alibi")), C::Fixed("feed_forward_type", Word("geglu")), C::By(json::segments), C::By(code),
        ]],
        ..Class::EMPTY
    }],
    ..VARIANT
}];

/// Whether a `config.json` of BERT is that of Jina's class.
pub(super) fn is_own(config: &Json) -> bool {
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Json::as_str);
    class.is_some_and(|class| class.starts_with("JinaBert"))
}

/// Where transformers finds the classes: in the repository that the published configs name.
fn code(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let repository = match model.has("layers.0.attention_sum_norm.weight") {
        true => "jinaai/jina-bert-v2-qk-post-norm",
        false => "jinaai/jina-bert-implementation",
    };
    let map = json!({
        "AutoConfig": format!("{repository}--configuration_bert.JinaBertConfig"),
        "AutoModel": format!("{repository}--modeling_bert.JinaBertModel"),
    });
    out.insert("auto_map".to_owned(), map);
    Ok(())
}
