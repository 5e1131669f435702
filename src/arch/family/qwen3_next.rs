//! Qwen3-Next and Qwen3.5: three layers of linear attention for each layer of gated attention.
//!
//! Norms multiply by `1 + w`; llama.cpp's converter and mlx-lm store the sum. The norm within
//! linear attention is an exception: it multiplies by `w`.

use super::decoder::{json, keys};
use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::{LayerKind, LayerLayout};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("linear_layers", Step::Config(linear_layers)),
    ("no_dense_layers", Step::Config(no_dense_layers)),
    ("recurrent", Step::Keys(recurrent)),
    ("rope_sections", Step::Config(rope_sections)),
    ("sections", Step::Keys(sections)),
];

fn sections(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys::sections_or(Some([11, 11, 10]), model, keys)
}

/// The linear layers, by number. The layers that predict further tokens use attention.
fn recurrent(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let stated = model.layers_of(&LayerKind::Linear)?;
    let derived = || {
        let kinds = model.kinds()?.into_iter();
        Some(kinds.map(|kind| *kind == LayerKind::Linear).collect::<Vec<bool>>())
    };
    if let Some(mut layers) = stated.or_else(derived) {
        layers.extend((0..model.next_layers()).map(|_| false));
        keys.flags("attention.recurrent_layers", &layers);
    }
    Ok(())
}

/// Like `rope_parameters`, with the rotated fraction and its sections.
fn rope_sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    json::rope_parameters(model, out)?;
    if let Some(Json::Object(rope)) = out.get_mut("rope_parameters") {
        json::rotary_part(model, rope)?;
        rope.extend(json::sections(model, true));
    }
    Ok(())
}

/// Linear attention: its layers, which mlx-lm states as a period, and the width of its values.
fn linear_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds: Vec<LayerKind> = model.kinds().into_iter().flatten().cloned().collect();
    if !kinds.contains(&LayerKind::Linear) {
        return Err(model.missing_in_model("a layer of linear attention"));
    }
    out.insert("layer_types".to_owned(), kinds.iter().map(Reported::reported).collect());
    if let LayerLayout::Period(period, LayerKind::Linear) = LayerLayout::of(kinds) {
        out.insert("full_attention_interval".to_owned(), period.get().into());
    }
    let (inner, heads) = (&model.config.ssm.inner_size, &model.config.ssm.time_step_rank);
    let each = inner.as_ref().zip(heads.as_ref());
    let each = each.and_then(|(inner, heads)| inner.value.checked_div(heads.value));
    let each = each.ok_or_else(|| model.missing_in_model("linear_value_head_dim"))?;
    out.insert("linear_value_head_dim".to_owned(), each.into());
    Ok(())
}

/// mlx-lm's class requires the list.
fn no_dense_layers(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("mlp_only_layers".to_owned(), json!([]));
    Ok(())
}
