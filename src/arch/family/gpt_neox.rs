//! GPT-NeoX: attention and the feed-forward network run in parallel, unless the config says otherwise.

use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("parallel_residual", Step::Keys(parallel_residual)),
    ("residual_connections", Step::Config(residual_connections)),
    ("rotary_part_of_head", Step::Config(rotary_part_of_head)),
];

/// llama.cpp requires this key. It rotates pairs; the class also has waves for half a pair.
fn parallel_residual(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rotated = model.config.rope.dimension_count.as_ref().map(|rotated| rotated.value);
    if let Some(rotated) = rotated.filter(|rotated| !rotated.is_multiple_of(2)) {
        let what = format!("{rotated} rotated elements of each head");
        return Err(model.inexpressible_in_gguf(&what));
    }
    let stated = model.config_value("use_parallel_residual").and_then(Json::as_bool);
    keys.set("use_parallel_residual", &stated.unwrap_or(true).into());
    Ok(())
}

/// The inverse of [`parallel_residual`].
fn residual_connections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let key = format!("{}.use_parallel_residual", model.architecture());
    let stated = model.metadata().get(&key).and_then(|value| value.to_bool());
    out.insert("use_parallel_residual".to_owned(), stated.unwrap_or(true).into());
    Ok(())
}

/// The part of a head that is rotated, among the numbers of rotary embeddings.
fn rotary_part_of_head(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let width = f64::from(model.config.head_dim.value);
    if let Some(rotated) = &model.config.rope.dimension_count {
        let part = f32_of(f64::from(rotated.value) / width);
        if let Some(Json::Object(rope)) = out.get_mut("rope_parameters") {
            rope.insert("partial_rotary_factor".to_owned(), part.reported());
        }
    }
    Ok(())
}
