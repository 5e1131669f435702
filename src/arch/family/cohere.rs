//! Command R and its successors: attention and feed-forward network run in parallel after one norm.

use super::step::{Step, Steps};
use crate::arch::Gating;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("embedding_biases", Step::Config(embedding_biases)),
    ("expert_numbers", Step::Config(expert_numbers)),
    ("experts", Step::Keys(experts)),
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

/// Experts, which are as wide as the config's network. The layers before them have a width of their own.
fn experts(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let experts = &model.config.experts;
    let width = model.config.ffn_dim.as_ref().map(|width| width.value);
    let width = width.ok_or_else(|| model.missing_in_config("intermediate_size"))?;
    let shared = experts.n_shared_experts.as_ref().map_or(0, |shared| shared.value);
    let leading = experts.n_leading_dense_layers.as_ref().map_or(0, |leading| leading.value);
    let own = model.config_value("prefix_dense_intermediate_size").filter(|own| !own.is_null());
    if own.is_some() && leading > 0 {
        let own = model.count("prefix_dense_intermediate_size")?;
        keys.count("feed_forward_length", own.unwrap_or(width));
    }
    keys.count("leading_dense_block_count", leading);
    keys.count("expert_feed_forward_length", width);
    keys.count("expert_shared_count", shared);
    keys.count("expert_shared_feed_forward_length", width.saturating_mul(shared));
    let chosen_by = model.config_value("expert_selection_fn").and_then(Json::as_str);
    let gating = Gating::named(chosen_by.unwrap_or("softmax"));
    let number = gating.number().ok_or_else(|| {
        model.inexpressible_in_gguf(&format!("experts chosen by {}", gating.name()))
    })?;
    keys.count("expert_gating_func", number);
    // The class takes the softmax over the chosen experts, so that their weights have the sum 1 whatever the key says.
    let normalized = experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value);
    keys.set("expert_weights_norm", &(normalized || gating == Gating::Softmax).into());
    Ok(())
}

/// The same numbers under the names of transformers' class.
fn expert_numbers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let experts = &model.config.experts;
    let gating = experts.expert_gating.as_ref().map(|gating| &gating.value);
    let chosen_by = if gating == Some(&Gating::Softmax) { "softmax" } else { "sigmoid" };
    out.insert("expert_selection_fn".to_owned(), chosen_by.into());
    let shared = experts.n_shared_experts.as_ref().map_or(0, |shared| shared.value);
    out.insert("num_shared_experts".to_owned(), shared.into());
    let width = |field| model.derived(field).ok_or_else(|| model.missing_in_model(field));
    out.insert("intermediate_size".to_owned(), width("expert_ffn_dim")?);
    if !model.has("layers.0.ffn.router.weight") {
        out.insert("prefix_dense_intermediate_size".to_owned(), width("ffn_dim")?);
    }
    Ok(())
}
