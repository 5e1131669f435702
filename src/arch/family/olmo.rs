//! OLMo 2 and 3, and OLMoE.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("has_windows", Step::Fits(has_windows)), ("olmo_windows", Step::Keys(olmo_windows))];

/// OLMo 3 has sliding windows except in each fourth layer; OLMo 2 has none.
fn olmo_windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(window) = model.row("sliding_window")? else { return Ok(()) };
    keys.set("attention.sliding_window", &window);
    let listed = model.layers_of(&LayerKind::Sliding)?;
    let each =
        listed.unwrap_or_else(|| (0..model.config.n_layers.value).map(|n| n % 4 != 3).collect());
    keys.flags("attention.sliding_window_pattern", &each);
    Ok(())
}

fn has_windows(model: &SourceModel<'_>) -> bool {
    model.config.attention.sliding_window.is_some()
}
