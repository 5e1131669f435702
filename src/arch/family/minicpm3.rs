//! MiniCPM 3: DeepSeek's latent attention with rotary embeddings in halves, and the scales of MiniCPM.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("unrotated", Step::Config(unrotated)), ("widths", Step::Keys(widths))];

/// The converter omits the width of values, which in the published model equals that of a usual head.
fn widths(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    keys.count("attention.key_length", config.head_dim.value);
    let values = config.attention.value_head_dim.as_ref().map(|width| width.value);
    let usual = config.dim.value.checked_div(config.n_heads.value);
    if let Some(width) = values.filter(|width| Some(*width) != usual) {
        keys.count("attention.value_length", width);
    }
    Ok(())
}

/// The part of a head that is not rotated.
fn unrotated(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let rotated = config.rope.dimension_count.as_ref().map(|rotated| rotated.value);
    let plain = rotated.and_then(|rotated| config.head_dim.value.checked_sub(rotated));
    let plain = plain.ok_or_else(|| model.missing_in_model("rope.dimension_count"))?;
    out.insert("qk_nope_head_dim".to_owned(), plain.into());
    Ok(())
}
