//! Nomic Embed: a BERT with rotary embeddings and a gated feed-forward network, without biases.
//!
//! The second version has biases, no gates, and experts in every other layer. Its class is in a
//! repository of its own on the hub.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("code", Step::Config(code)),
    ("has_experts", Step::Is(has_experts)),
    ("short_length", Step::Keys(short_length)),
    ("trained_length", Step::Keys(trained_length)),
];

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

/// The repository in which transformers finds the class, and a setting that the class requires to
/// be unset.
fn code(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let of = |file: &str| format!("nomic-ai/nomic-bert-2048--{file}");
    let map = crate::json::json!({
        "AutoConfig": of("configuration_hf_nomic_bert.NomicBertConfig"),
        "AutoModel": of("modeling_hf_nomic_bert.NomicBertModel"),
    });
    out.insert("auto_map".to_owned(), map);
    out.insert("rotary_emb_scale_base".to_owned(), Json::Null);
    Ok(())
}

/// The published configs state four times the length of training; the converter states the latter.
fn trained_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let trained = model.count("max_trained_positions")?.unwrap_or(2048);
    if model.count("n_positions")?.is_some_and(|stated| stated == 8192 && trained == 2048) {
        keys.count("context_length", trained);
    }
    Ok(())
}
