//! Command R and its successors: attention and feed-forward network run in parallel after one norm.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("embedding_biases", Step::Config(embedding_biases)),
    ("true_context", Step::Keys(true_context)),
];

/// In Cohere's configs, `max_position_embeddings` is the training length, and `model_max_length` the
/// true context length.
fn true_context(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(length) = model.count("model_max_length")? {
        keys.count("context_length", length);
    }
    Ok(())
}

/// Cohere's larger models have norms on queries and keys.
fn embedding_biases(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("attention_bias".to_owned(), model.has("layers.0.attention.q.bias").into());
    out.insert("use_qk_norm".to_owned(), model.has("layers.0.attention.q_norm.weight").into());
    Ok(())
}
