//! EXAONE 4: norms after attention and feed-forward network only. In the larger models most layers
//! attend to a window, and the others have no rotary embeddings.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("letters", Step::Mlx(letters)), ("windows", Step::Keys(windows))];

/// mlx-lm's class reads a letter for each layer: L if it attends to a window, G if to all positions.
fn letters(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let key = "sliding_window_pattern";
    if out.get(key).is_some_and(Json::is_string) {
        return Ok(());
    }
    let letter = |kind: &&LayerKind| if **kind == LayerKind::Sliding { 'L' } else { 'G' };
    let windows = model.config.attention.sliding_window.is_some();
    let each = model.kinds().filter(|_| windows);
    let letters = each.map(|kinds| kinds.iter().map(letter).collect::<String>());
    out.insert(key.to_owned(), letters.map_or(Json::Null, Json::String));
    Ok(())
}

/// Which layers attend to a window, as a list.
fn windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(window) = model.row("sliding_window")? else { return Ok(()) };
    keys.set("attention.sliding_window", &window);
    if let Some(kinds) = model.kinds() {
        let slides: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Sliding).collect();
        keys.flags("attention.sliding_window_pattern", &slides);
    }
    Ok(())
}
