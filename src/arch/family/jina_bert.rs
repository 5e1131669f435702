//! Jina Embeddings 2: a BERT with ALiBi in place of positions, and a gated feed-forward network. Its
//! classes are in repositories of their own on the hub, and `config.json` calls it BERT.
//!
//! The model for code also has norms of queries and keys, and a second norm after attention.

use super::step::{Step, Steps};
use crate::arch::config::class_name;
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("code", Step::Config(code)), ("is_own", Step::Is(is_own)), ("is_third", Step::Is(is_third))];

/// Whether a `config.json` of BERT is that of Jina's class.
pub(super) fn is_own(config: &Json) -> bool {
    let class = class_name(config);
    class.is_some_and(|class| class.starts_with("JinaBert"))
}

/// Whether a `config.json` of XLM-RoBERTa is that of Jina Embeddings 3, as published.
fn is_third(config: &Json) -> bool {
    config.get("position_embedding_type").and_then(Json::as_str) == Some("rotary")
}

/// The repository in which transformers finds the classes, as the published configs name it.
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
