//! Phi 3 and 4, and Phi 3.5 with experts.

use super::step::{Step, Steps};
use crate::arch::RopeScalingKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("head_bias", Step::Config(head_bias)),
    ("longrope", Step::Keys(longrope)),
    ("magnitudes", Step::Config(magnitudes)),
    ("trained_length", Step::Mlx(trained_length)),
];

/// The class requires magnitudes of long and short contexts. GGUF has one for both.
fn magnitudes(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let factor = model.config.rope_scaling.attention_factor.as_ref().map(|factor| factor.value);
    if let (Some(factor), Some(Json::Object(rope))) = (factor, out.get_mut("rope_scaling")) {
        for key in ["short_mscale", "long_mscale"] {
            rope.insert(key.to_owned(), factor.reported());
        }
    }
    Ok(())
}

fn head_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("lm_head_bias".to_owned(), model.has("output.bias").into());
    Ok(())
}

/// mlx-lm reads the length of the original training beside the numbers of rotary embeddings.
fn trained_length(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(trained) = &model.config.rope_scaling.original_max_seq_len {
        out.insert("original_max_position_embeddings".to_owned(), trained.value.into());
    }
    Ok(())
}

/// Phi 3's long context: the numbers that the divisors, which are tensors, require.
fn longrope(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let scaling = &model.config.rope_scaling;
    let (Some(longest), trained) = (&model.config.max_seq_len, &scaling.original_max_seq_len)
    else {
        return Err(model.missing_in_config("max_position_embeddings"));
    };
    let trained = trained.as_ref().map_or(longest.value, |trained| trained.value);
    keys.count("rope.scaling.original_context_length", trained);
    if scaling.long_factors.is_none() {
        return Ok(());
    }
    let (scale, trained) = (f64::from(longest.value) / f64::from(trained), f64::from(trained));
    let factor = match scaling.kind.as_ref().map(|kind| &kind.value) {
        _ if scale <= 1.0 => 1.0,
        Some(RopeScalingKind::LongRope) => (1.0 + scale.ln() / trained.ln()).sqrt(),
        Some(RopeScalingKind::Yarn) => 0.1 * scale.ln() + 1.0,
        _ => return Err(model.missing_in_config("a scaling method for long_factor")),
    };
    keys.real("rope.scaling.attn_factor", f32_of(factor));
    Ok(())
}
