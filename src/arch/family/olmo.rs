//! OLMo 2 and 3, OLMoE, and OLMo Hybrid.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("has_windows", Step::Fits(has_windows)),
    ("olmo_windows", Step::Keys(olmo_windows)),
    ("whole_convolutions", Step::Mlx(whole_convolutions)),
];

/// OLMo 3 has sliding windows except in each fourth layer; OLMo 2 has none.
fn olmo_windows(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(window) = model.row("sliding_window")? else { return Ok(()) };
    let listed = model.layers_of(&LayerKind::Sliding)?;
    let each =
        listed.unwrap_or_else(|| (0..model.config.n_layers.value).map(|n| n % 4 != 3).collect());
    // llama.cpp aborts on a window that no layer has.
    if !each.contains(&true) {
        return Ok(());
    }
    keys.set("attention.sliding_window", &window);
    keys.flags("attention.sliding_window_pattern", &each);
    Ok(())
}

/// Transformers holds the convolutions of q, k and v as one, and saves equal thirds of it, whatever their widths. mlx-lm's class
/// has three.
fn whole_convolutions(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    let rows = |layer: u32, part: &str| {
        let name = format!("layers.{layer}.linear_attention.{part}.weight");
        model.shape(&name).and_then(|shape| shape.first())
    };
    for (layer, part) in (0..model.own_layers()).flat_map(|n| ["q", "k", "v"].map(|part| (n, part)))
    {
        let (own, convolved) = (rows(layer, part), rows(layer, &format!("{part}_conv")));
        if let (Some(own), Some(convolved)) = (own, convolved)
            && own != convolved
        {
            let fault =
                format!("{convolved} convolutions of {own} channels of {part} in layer {layer}");
            return Err(model.inexpressible_in_mlx_lm(&fault));
        }
    }
    Ok(())
}

fn has_windows(model: &SourceModel<'_>) -> bool {
    model.config.attention.sliding_window.is_some()
}
