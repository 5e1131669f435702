//! ModernBERT: an encoder with norms before attention and network, rotary embeddings, and layers that
//! attend to a window on both sides.

use serde_json::{Map, Value as Json, json};

use super::bert::{labelled, labels};
use super::decoder::{json, keys};
use crate::arch::config::{Defaults, GgufDefaults, Reported};
use crate::arch::habits::TokenizerHabits;
use crate::arch::rule::{NameRule, both, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, LayerKind, NormKind, RopeLayout};
use crate::error::Result;

use Constant::{Flag, Word};

/// The architecture's row.
pub(super) static MODERNBERT: Architecture = Architecture {
    name: "modernbert",
    summary: "ModernBERT",
    gguf: &["modern-bert"],
    hf: &["modernbert"],
    rope: RopeLayout::HalfSplit,
    rules: &[RULES],
    prefixes: &[("", "model.")],
    required: REQUIRED,
    mlx_readers: &[("modernbert", "mlx-embeddings")],
    encodes: true,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// The first layer has no norm before its attention.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "token_embedding_norm.weight",
    "output_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

/// The head serves masked words and classifiers alike. llama.cpp has no place for the bias of the
/// former's output.
#[rustfmt::skip]
static RULES: &[NameRule] = &[
    rule("token_embedding.weight",             "token_embd.weight",        "model.embeddings.tok_embeddings.weight", SAME),
    rule("token_embedding_norm.weight",        "token_embd_norm.weight",   "model.embeddings.norm.weight",           SAME),
    rule("output_norm.weight",                 "output_norm.weight",       "model.final_norm.weight",                SAME),
    rule("layers.{n}.attention_norm.weight",   "blk.{n}.attn_norm.weight", "model.layers.{n}.attn_norm.weight",      SAME),
    both("layers.{n}.attention.q.weight",      "blk.{n}.attn_qkv.weight",  "model.layers.{n}.attn.Wqkv.weight",      rows(RowOrder::Qkv(0))),
    both("layers.{n}.attention.k.weight",      "blk.{n}.attn_qkv.weight",  "model.layers.{n}.attn.Wqkv.weight",      rows(RowOrder::Qkv(1))),
    both("layers.{n}.attention.v.weight",      "blk.{n}.attn_qkv.weight",  "model.layers.{n}.attn.Wqkv.weight",      rows(RowOrder::Qkv(2))),
    rule("layers.{n}.attention.output.weight", "blk.{n}.attn_output.weight", "model.layers.{n}.attn.Wo.weight",      SAME),
    rule("layers.{n}.ffn_norm.weight",         "blk.{n}.ffn_norm.weight",  "model.layers.{n}.mlp_norm.weight",       SAME),
    both("layers.{n}.ffn.gate.weight",         "blk.{n}.ffn_up.weight",    "model.layers.{n}.mlp.Wi.weight",         rows(RowOrder::Half(0))),
    both("layers.{n}.ffn.up.weight",           "blk.{n}.ffn_up.weight",    "model.layers.{n}.mlp.Wi.weight",         rows(RowOrder::Half(1))),
    rule("layers.{n}.ffn.down.weight",         "blk.{n}.ffn_down.weight",  "model.layers.{n}.mlp.Wo.weight",         SAME),
    rule("masked_words.dense.weight",          "cls.weight",               "head.dense.weight",                      SAME),
    rule("masked_words.norm.weight",           "cls.norm.weight",          "head.norm.weight",                       SAME),
    rule("classifier.output.weight",           "cls.output.weight",        "classifier.weight",                      SAME),
    rule("classifier.output.bias",             "cls.output.bias",          "classifier.bias",                        SAME),
    hf("masked_words.output.weight",           "decoder.weight",                                                     SAME),
    hf("masked_words.output.bias",             "decoder.bias",                                                       SAME),
];

const DEFAULTS: Defaults = Defaults {
    window_period: Some(3),
    full_first: true,
    norms: Some(NormKind::Layer),
    of_gguf: GgufDefaults { activation: Some("gelu"), ..GgufDefaults::NONE },
    ..Defaults::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "modern-bert",
        hf: &["modernbert"],
        keys: &[keys::BASE, keys::FILE_TYPE, &[K::By(keys::layer_norm_epsilon), K::Fixed("attention.causal", Flag(false)), K::By(keys::pooling), K::By(pooling_of_classifier), K::By(labels),
            K::Row("sliding_window"), K::By(pattern), K::Fixed("rope.scaling.type", Word("none")), K::Derived("vocab_size"), K::By(activation)]],
        classes: &[
            Class { model_type: "modernbert", class: "ModernBertForSequenceClassification", when: Some(|model| model.has("classifier.output.weight")),
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::By(labelled)]], ..Class::EMPTY },
            Class { model_type: "modernbert", class: "ModernBertModel",
                rules: &[json::BODY, json::DENSE, CONFIG], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        tokenizer: TokenizerHabits { default_pre: Some("modern-bert"), ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::Field("norm_eps", "norm_eps"), C::Field("activation", "hidden_activation"), C::Field("sliding_window", "local_attention"),
    C::By(json::layer_types), C::By(ropes), C::By(pooled),
];

/// How a classifier pools, as numbers of llama.cpp.
const POOLINGS: [(&str, u32); 2] = [("mean", 1), ("cls", 2)];

fn pooling_of_classifier(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let stated = model.config_value("classifier_pooling").and_then(Json::as_str);
    let number = POOLINGS.iter().find(|(name, _)| Some(*name) == stated);
    number.into_iter().for_each(|(_, number)| keys.count("classifier.pooling_type", *number));
    Ok(())
}

/// The inverse of [`pooling_of_classifier`]. llama.cpp takes the mean where a file states nothing.
fn pooled(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.metadata().u64(&format!("{}.classifier.pooling_type", model.architecture()));
    let name = POOLINGS.iter().find(|(_, number)| stated.unwrap_or(1) == u64::from(*number));
    out.extend(name.map(|(name, _)| ("classifier_pooling".to_owned(), (*name).into())));
    Ok(())
}

/// Which layers attend to a window: the period if the config states one, or a list.
fn pattern(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let period = model.count("global_attn_every_n_layers")?;
    if let Some(period) = period {
        keys.count("attention.sliding_window_pattern", period);
    } else if let Some(kinds) = model.kinds() {
        let slides: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Sliding).collect();
        let usual = slides.iter().enumerate().all(|(layer, slides)| *slides == (layer % 3 != 0));
        if !usual {
            keys.flags("attention.sliding_window_pattern", &slides);
        }
    }
    Ok(())
}

fn activation(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(activation) = &model.config.activation {
        keys.set("hidden_activation", &activation.value.reported());
    }
    Ok(())
}

/// Rotary embeddings of each kind of layer.
fn ropes(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let full = model.config.rope_theta.value;
    let local = model.config.rope.local_theta.as_ref().map_or(full, |theta| theta.value);
    let of = |theta: f32| json!({ "rope_type": "default", "rope_theta": theta.reported() });
    let both = json!({ "full_attention": of(full), "sliding_attention": of(local) });
    out.insert("rope_parameters".to_owned(), both);
    Ok(())
}
