//! EXAONE 4 and K-EXAONE.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("layers_with_experts", Step::Config(layers_with_experts)),
    ("layers_with_experts", Step::Mlx(mlx_layers)),
    ("letters", Step::Mlx(letters)),
];

/// mlx-lm's class reads letters for layers, which it repeats: L if one attends to a window, G if to all positions.
fn letters(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let letter = |kind: &LayerKind| if *kind == LayerKind::Sliding { 'L' } else { 'G' };
    let windows = model.config.attention.sliding_window.is_some();
    let kinds = model.kinds().filter(|_| windows);
    let letters = kinds.as_ref().map(|kinds| kinds.iter().copied().map(letter).collect::<String>());
    let stated = out.get("sliding_window_pattern").and_then(Json::as_str).unwrap_or_default();
    let repeated = |each: &String| stated.chars().cycle().take(each.len()).eq(each.chars());
    if !letters.as_ref().is_some_and(repeated) {
        let pattern = letters.map_or(Json::Null, Json::String);
        out.insert("sliding_window_pattern".to_owned(), pattern);
    }
    if let Some(kinds) = kinds {
        let names = kinds.iter().map(|kind| kind.name());
        out.insert("layer_types".to_owned(), names.collect());
    }
    Ok(())
}

/// Whether each layer has experts.
fn with_experts<'m>(model: &'m SourceModel<'_>) -> impl Iterator<Item = bool> + 'm {
    let has = |layer| model.has(&format!("layers.{layer}.ffn.router.weight"));
    (0..model.own_layers()).map(has)
}

/// The kind of each layer's network.
fn layers_with_experts(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds = with_experts(model).map(|has| if has { "sparse" } else { "dense" });
    out.insert("mlp_layer_types".to_owned(), kinds.collect());
    Ok(())
}

/// mlx-lm's class reads which layers have experts under another name, and requires the width of a head.
fn mlx_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("is_moe_layer".to_owned(), with_experts(model).collect());
    out.insert("head_dim".to_owned(), model.config.head_dim.value.into());
    Ok(())
}
