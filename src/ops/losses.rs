//! Differences in llama.cpp's computation, for which GGUF has no keys.

use crate::arch::kept::Kept;
use crate::arch::{family, graph, kept_config};
use crate::error::Result;
use crate::metadata::Metadata;
use crate::model::Model;

/// The differences in llama.cpp's computation because it does not read what is kept, one statement
/// each.
pub(super) fn losses(kept: &Kept, metadata: &Metadata) -> Vec<String> {
    let name = metadata.str("general.architecture").unwrap_or_default();
    let Some(graph) = family::graph(name) else { return Vec::new() };
    let ignored = graph::ignored(graph, name, metadata, &kept.stated);
    kept.losses.iter().cloned().chain(ignored).collect()
}

/// A note on these differences.
pub(super) fn computed_differently(losses: &[String]) -> String {
    format!("llama.cpp will compute this model differently: {}", losses.join("; "))
}

/// A note on what llama.cpp computes differently because it does not read the config that a GGUF file
/// keeps.
///
/// # Errors
///
/// Same as [`Model::config`].
pub(super) fn unread(model: &Model) -> Result<Option<String>> {
    let kept = kept_config(model.store(), model.resolution()?)?;
    let losses = kept.map(|kept| losses(&kept, model.metadata())).unwrap_or_default();
    Ok((!losses.is_empty()).then(|| computed_differently(&losses)))
}
