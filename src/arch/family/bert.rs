//! BERT and the encoders that share its tensor names.

use serde_json::{Map, Value as Json};

use super::decoder::{json, keys};
use super::jina_bert;
use crate::arch::config::Defaults;
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{
    Architecture, ConditionalName, Dialect, Instead, ModelConfig, Rename, RopeLayout,
};
use crate::error::{Error, Result};
use crate::store::Encoding;

use Constant::{Flag, Word};

/// The architecture's row.
pub(super) static BERT: Architecture = Architecture {
    name: "bert",
    summary: "BERT, RoBERTa, XLM-RoBERTa",
    gguf: &["bert"],
    hf: &["bert", "roberta", "xlm-roberta", "camembert"],
    instead: Some(Instead { when: jina_bert::is_own, architecture: &jina_bert::JINA_BERT_V2 }),
    rope: RopeLayout::None,
    rules: &[RULES],
    prefixes: PREFIXES,
    required: REQUIRED,
    renames: RENAMES,
    conditional_names: &[ConditionalName {
        beside: "classifier.output.weight",
        present: true,
        usual: "pooler.",
        name: "classifier.dense.",
    }],
    auxiliary: &[
        ("cls.predictions.decoder.bias", "a copy of cls.predictions.bias"),
        ("lm_head.decoder.bias", "a copy of lm_head.bias"),
    ],
    rows_before_positions: Some(rows_before_positions),
    mlx_readers: &[("bert", "mlx-embeddings"), ("xlm-roberta", "mlx-embeddings")],
    encodes: true,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// A checkpoint saved with a head prefixes the names with the family.
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

/// llama.cpp's converter drops the pooler and the heads for masked words and next sentences. Of
/// RoBERTa's position embeddings it drops the rows up to that of the padding token.
///
/// The pooler of BERT's classifier is what the first layer of RoBERTa's is: a matrix and tanh, of the
/// first token. Without it the scores are others, so it gets llama.cpp's name for that layer, which
/// llama.cpp applies in the same way (`llm_graph_context::build_pooling`).
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
    // RoBERTa's names of the head for masked words.
    hf("masked_words.dense.weight",               "lm_head.dense.weight",                               SAME),
    hf("masked_words.dense.bias",                 "lm_head.dense.bias",                                 SAME),
    hf("masked_words.norm.weight",                "lm_head.layer_norm.weight",                          SAME),
    hf("masked_words.norm.bias",                  "lm_head.layer_norm.bias",                            SAME),
    hf("masked_words.output.weight",              "lm_head.decoder.weight",                             SAME),
    hf("masked_words.output.bias",                "lm_head.bias",                                       SAME),
    // Classifiers of one layer and of two layers.
    hf("classifier.output.weight",                "classifier.weight",                                  SAME),
    hf("classifier.output.bias",                  "classifier.bias",                                    SAME),
    rule("classifier.output.weight",                "cls.output.weight",                "classifier.out_proj.weight",                          SAME),
    rule("classifier.output.bias",                  "cls.output.bias",                  "classifier.out_proj.bias",                            SAME),
    rule("classifier.dense.weight",                 "cls.weight",                       "classifier.dense.weight",                             SAME),
    rule("classifier.dense.bias",                   "cls.bias",                         "classifier.dense.bias",                               SAME),
    // Names of the first checkpoints, which were converted from TensorFlow.
    hf("token_embedding_norm.weight",             "embeddings.LayerNorm.gamma",                         SAME),
    hf("token_embedding_norm.bias",               "embeddings.LayerNorm.beta",                          SAME),
    hf("layers.{n}.attention_output_norm.weight", "encoder.layer.{n}.attention.output.LayerNorm.gamma", SAME),
    hf("layers.{n}.attention_output_norm.bias",   "encoder.layer.{n}.attention.output.LayerNorm.beta",  SAME),
    hf("layers.{n}.layer_output_norm.weight",     "encoder.layer.{n}.output.LayerNorm.gamma",           SAME),
    hf("layers.{n}.layer_output_norm.bias",       "encoder.layer.{n}.output.LayerNorm.beta",            SAME),
    hf("masked_words.norm.weight",                "cls.predictions.transform.LayerNorm.gamma",          SAME),
    hf("masked_words.norm.bias",                  "cls.predictions.transform.LayerNorm.beta",           SAME),
];

/// Values of `model_type` whose positions start after the padding token's number.
const ROBERTA: &[&str] = &["roberta", "xlm-roberta", "camembert"];

/// Classifiers in transformers nest the model, and have two layers; the first one of BERT's is a part
/// of the model. RoBERTa's head for masked words has other names.
#[rustfmt::skip]
static RENAMES: &[Rename] = &[
    of_classifier(&["bert"], "embeddings.", "bert.embeddings."),
    of_classifier(&["bert"], "encoder.", "bert.encoder."),
    of_classifier(&["bert"], "classifier.dense.", "bert.pooler.dense."),
    of_classifier(ROBERTA, "embeddings.", "roberta.embeddings."),
    of_classifier(ROBERTA, "encoder.", "roberta.encoder."),
    of_classifier(ROBERTA, "classifier.weight", "classifier.out_proj.weight"),
    of_classifier(ROBERTA, "classifier.bias", "classifier.out_proj.bias"),
    of_roberta(Dialect::HuggingFace, "cls.predictions.transform.dense.", "lm_head.dense."),
    of_roberta(Dialect::HuggingFace, "cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
    of_roberta(Dialect::HuggingFace, "cls.predictions.", "lm_head."),
    of_roberta(Dialect::Mlx, "cls.predictions.transform.dense.", "lm_head.dense."),
    of_roberta(Dialect::Mlx, "cls.predictions.transform.LayerNorm.", "lm_head.layer_norm."),
    of_roberta(Dialect::Mlx, "cls.predictions.", "lm_head."),
];

const fn of_roberta(dialect: Dialect, prefix: &'static str, replacement: &'static str) -> Rename {
    Rename { dialect, models: ROBERTA, prefix, replacement, ..Rename::EMPTY }
}

const fn of_classifier(
    models: &'static [&'static str],
    prefix: &'static str,
    replacement: &'static str,
) -> Rename {
    Rename {
        dialect: Dialect::HuggingFace,
        requires: "classifier.dense.weight",
        models,
        prefix,
        replacement,
    }
}

const TOKENIZER: TokenizerHabits = TokenizerHabits {
    pre: &["roberta-bpe"],
    default_pre: Some("roberta-bpe"),
    counts_token_types: true,
    ..TokenizerHabits::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "bert",
        hf: &["bert"],
        keys: &[keys::BASE, keys::FILE_TYPE, KEYS],
        classes: &[
            Class { model_type: "bert", class: "BertModel", when: Some(|model| !is_roberta(model) && !is_xlm_roberta(model) && !has_classifier(model)),
                rules: &[json::BODY, json::DENSE, CONFIG], ..Class::EMPTY },
            Class { model_type: "roberta", class: "RobertaModel", when: Some(|model| is_roberta(model) && !has_classifier(model)),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(plus_pad)]], ..Class::EMPTY },
            Class { model_type: "roberta", class: "RobertaForSequenceClassification", when: Some(is_roberta),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(plus_pad), C::By(two_layers)]], ..Class::EMPTY },
            Class { model_type: "xlm-roberta", class: "XLMRobertaModel", when: Some(|model| is_xlm_roberta(model) && !has_classifier(model)),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(plus_pad)]], ..Class::EMPTY },
            Class { model_type: "xlm-roberta", class: "XLMRobertaForSequenceClassification", when: Some(is_xlm_roberta),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(plus_pad), C::By(two_layers)]], ..Class::EMPTY },
            Class { model_type: "bert", class: "BertForSequenceClassification", when: Some(|model| is_bert(model) || !model.has("classifier.dense.weight")),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(with_pooler)]], ..Class::EMPTY },
            Class { model_type: "roberta", class: "RobertaForSequenceClassification",
                rules: &[&[C::By(without_tokenizer)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("gelu"),
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "bert",
        hf: &["roberta", "xlm-roberta", "camembert"],
        keys: &[keys::BASE, keys::FILE_TYPE, &[K::By(minus_pad)], KEYS],
        defaults: Defaults::activation("gelu"),
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
    Variant { hf: &["bert"], when: Some(jina_bert::is_own), ..jina_bert::VARIANT },
];

#[rustfmt::skip]
const KEYS: &[K] = &[K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling), K::By(labels)];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::Field("norm_eps", "layer_norm_eps"), C::Fixed("hidden_act", Word("gelu")), C::Fixed("tie_word_embeddings", Flag(true)),
    C::Fixed("position_embedding_type", Word("absolute")), C::By(json::segments),
];

/// BERT itself, with a tokenizer of words.
fn is_bert(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("bert") || is_kept(model, "bert")
}

/// RoBERTa: a BERT with GPT-2's tokenizer.
fn is_roberta(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("gpt2") || is_kept(model, "roberta")
}

/// XLM-RoBERTa: a BERT with SentencePiece's tokenizer.
fn is_xlm_roberta(model: &SourceModel<'_>) -> bool {
    model.metadata().str("tokenizer.ggml.model") == Some("t5") || is_kept(model, "xlm-roberta")
}

/// Whether the file keeps this `model_type`, which files without a tokenizer depend on.
fn is_kept(model: &SourceModel<'_>, model_type: &str) -> bool {
    model.kept("model_type").is_some_and(|kept| kept == model_type)
}

fn has_classifier(model: &SourceModel<'_>) -> bool {
    model.has("classifier.output.weight") || model.has("classifier.dense.weight")
}

/// The number of rows of the position embedding before that of the first position. Only RoBERTa has
/// any: one for each number up to the padding token's. GGUF drops them.
fn rows_before_positions(model: &SourceModel<'_>) -> Result<u64> {
    let pad = match model.encoding() {
        Encoding::Gguf if model.architecture() == "bert" => {
            if !is_roberta(model) && !is_xlm_roberta(model) {
                return Ok(0);
            }
            Some(padding(model)?)
        }
        Encoding::Safetensors if ROBERTA.contains(&model.architecture()) => {
            model.count("pad_token_id")?
        }
        _ => None,
    };
    Ok(pad.map_or(0, |pad| u64::from(pad).saturating_add(1)))
}

/// The number of the padding token in GGUF.
fn padding(model: &SourceModel<'_>) -> Result<u32> {
    let key = "tokenizer.ggml.padding_token_id";
    let kept = || model.kept("pad_token_id").and_then(|pad| pad.as_u64());
    let pad = model.metadata().u64(key).or_else(kept).and_then(|pad| u32::try_from(pad).ok());
    pad.ok_or_else(|| {
        let fault = format!(
            "positions start after the padding token's number, but the key {key} is missing"
        );
        Error::unsupported(fault).in_file(model.path())
    })
}

/// RoBERTa's positions start after the padding token's number: subtracts it from the length.
fn minus_pad(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let longest = model.config.max_seq_len.as_ref().map(|length| length.value);
    if let (Some(longest), Some(pad)) = (longest, model.count("pad_token_id")?) {
        keys.count("context_length", longest.saturating_sub(pad).saturating_sub(1));
    }
    Ok(())
}

/// The inverse of [`minus_pad`].
fn plus_pad(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let pad = padding(model)?;
    let ModelConfig { max_seq_len, .. } = &model.config;
    let longest = max_seq_len.as_ref().map(|length| length.value);
    let longest = longest.ok_or_else(|| model.missing_in_model("context_length"))?;
    let all = u64::from(longest).saturating_add(u64::from(pad)).saturating_add(1);
    out.insert("max_position_embeddings".to_owned(), all.into());
    out.insert("pad_token_id".to_owned(), pad.into());
    Ok(())
}

/// Labels of a classifier, as the converter writes them. The two default labels of a config are
/// omitted, unless there is a classifier of two rows: llama.cpp takes their number from the labels.
pub(super) fn labels(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = model.shape("classifier.output.weight").and_then(|shape| shape.first().copied());
    let Some(Json::Object(stated)) = model.config_value("id2label") else {
        // transformers omits the two default labels.
        if rows == Some(2) {
            keys.texts("classifier.output_labels", ["LABEL_0", "LABEL_1"].into_iter());
        }
        return Ok(());
    };
    let mut labels = Vec::new();
    for (number, label) in stated {
        let label = number.parse::<u32>().ok().zip(label.as_str());
        labels.push(label.ok_or_else(|| {
            let fault = format!("\"{number}\", but an object of numbers and labels is needed");
            Error::malformed(fault).in_key("config.json id2label").in_file(model.path())
        })?);
    }
    labels.sort_unstable();
    let usual = labels.len() == 2 && labels.contains(&(0, "LABEL_0"));
    if labels.is_empty() || usual && rows != Some(2) {
        return Ok(());
    }
    keys.texts("classifier.output_labels", labels.into_iter().map(|(_, label)| label));
    Ok(())
}

/// The inverse of [`labels`]: a label for each row of the classifier.
pub(super) fn labelled(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rows = model.shape("classifier.output.weight").and_then(|shape| shape.first().copied());
    let rows = rows.ok_or_else(|| model.inexpressible("a classifier without cls.output.weight"))?;
    let key = format!("{}.classifier.output_labels", model.architecture());
    let stated = model.metadata().array(&key);
    let stated = stated.and_then(|labels| labels.texts());
    let stated: Vec<String> =
        stated.into_iter().flatten().map(|label| label.spelling().into_owned()).collect();
    if !stated.is_empty() && stated.len() as u64 != rows {
        let fault = format!("{} labels, but the classifier has {rows} rows", stated.len());
        return Err(Error::malformed(fault).in_key(&key).in_file(model.path()));
    }
    // Bounded by the number of rows of a stored tensor.
    let usual = (stated.len() as u64..rows).map(|number| format!("LABEL_{number}"));
    let labels: Vec<String> = stated.iter().cloned().chain(usual).collect();
    let numbered = || (0u64..).zip(&labels);
    let names: Map<String, Json> =
        numbered().map(|(number, label)| (number.to_string(), label.clone().into())).collect();
    let numbers = numbered().map(|(number, label)| (label.clone(), number.into())).collect();
    out.insert("id2label".to_owned(), Json::Object(names));
    out.insert("label2id".to_owned(), Json::Object(numbers));
    Ok(())
}

/// transformers' class for RoBERTa's classifier requires two layers.
fn two_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    match model.has("classifier.dense.weight") && model.has("classifier.output.weight") {
        true => labelled(model, out),
        false => Err(model.inexpressible("a classifier of one layer")),
    }
}

/// transformers' class for BERT's classifier requires a pooler, which files of llama.cpp's converter
/// do not have.
fn with_pooler(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if model.has("classifier.dense.weight") && model.has("classifier.output.weight") {
        return labelled(model, out);
    }
    let fault = "transformers' class for this classifier reads a pooler, which the file lacks";
    Err(Error::unsupported(fault).in_file(model.path()))
}

/// Rejects a classifier of two layers that may be BERT's or RoBERTa's: only the tokenizer tells.
fn without_tokenizer(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    Err(model.inexpressible("a classifier of two layers without a tokenizer"))
}
