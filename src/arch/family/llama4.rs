//! Llama 4, the language model: experts in all layers or in every second one, norms without factors on
//! q and k, and attention within chunks, but for every fourth layer, which has no rotary embeddings.
//! The rows of q and k are in pairs in all containers.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("layers", Step::Config(layers)),
    ("no_chunks", Step::Keys(no_chunks)),
    ("qk_norm", Step::Config(qk_norm)),
];

/// llama.cpp takes a window of 0 to mean that all layers attend to all positions.
fn no_chunks(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(all) = model.layers_of(&LayerKind::Full)?
        && all.iter().all(|full| *full)
    {
        keys.count("attention.sliding_window", 0);
    }
    Ok(())
}

/// The layers with experts.
fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let routed = |layer: &u32| model.has(&format!("layers.{layer}.ffn.router.weight"));
    let routed: Vec<u32> = (0..model.own_layers()).filter(routed).collect();
    out.insert("moe_layers".to_owned(), routed.into());
    Ok(())
}

/// llama.cpp tells the model without norms of q and k by its number of experts.
fn qk_norm(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("use_qk_norm".to_owned(), (model.config.n_experts.value != 128).into());
    Ok(())
}
