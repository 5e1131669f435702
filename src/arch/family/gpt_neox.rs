//! GPT-NeoX: attention and the feed-forward network run in parallel, unless the config says otherwise.

use super::step::{Step, Steps};
use crate::arch::RopeScalingKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("as_mlx_lm_computes", Step::Mlx(as_mlx_lm_computes)),
    ("parallel_residual", Step::Keys(parallel_residual)),
    ("residual_connections", Step::Config(residual_connections)),
    ("rotary_part_of_head", Step::Config(rotary_part_of_head)),
];

/// mlx-lm's class has networks of four times the width with GELU, biases, and no scaling of rotary
/// embeddings, whatever a config says.
fn as_mlx_lm_computes(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let wide = config.ffn_dim.as_ref().map(|width| width.value);
    let activation = config.activation.as_ref().map(|name| name.value.as_str());
    let scaling = config.rope_scaling.kind.as_ref().map(|kind| &kind.value);
    let fault = if wide != config.dim.value.checked_mul(4) {
        "a network of another width than four times that of the model".to_owned()
    } else if let Some(name) = activation.filter(|name| !name.starts_with("gelu")) {
        format!("the activation {name}")
    } else if !model.has_in_layers("attention.q.bias") {
        "attention without biases".to_owned()
    } else if let Some(kind) = scaling.filter(|kind| **kind != RopeScalingKind::None) {
        format!("rope scaling \"{}\"", kind.name())
    } else {
        return Ok(());
    };
    Err(model.inexpressible_in_mlx_lm(&fault))
}

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
        #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
        let part = (f64::from(rotated.value) / width) as f32;
        if let Some(Json::Object(rope)) = out.get_mut("rope_parameters") {
            rope.insert("partial_rotary_factor".to_owned(), part.reported());
        }
    }
    Ok(())
}
