//! Gemma 1 to 4.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::math::{Activation, normal_quantile};
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "gemma", adjust: early },
    Family { name: "gemma2", adjust: early },
    Family { name: "gemma3", adjust: early },
    Family { name: "gemma3n", adjust: gemma3n },
    Family { name: "gemma4", adjust: gemma4 },
];

/// Norms are stored as the difference from 1. Configs of Gemma 1 say `gelu`, and mean that with tanh.
/// EmbeddingGemma attends in both directions.
fn early(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.added = 1.0;
    plan.set_activation(Activation::GeluTanh);
    if facts.named() == "gemma-embedding"
        || facts.flag(&["use_bidirectional_attention"]) == Some(true)
    {
        plan.attentions().for_each(|attention| attention.causal = false);
    }
    Ok(())
}

/// Scores are not scaled, and values are normed.
fn late(plan: &mut Plan) {
    plan.set_activation(Activation::GeluTanh);
    for attention in plan.attentions() {
        (attention.scale, attention.value_norm) = (1.0, true);
    }
}

/// Several residual streams, and gates of which only the largest stay.
fn gemma3n(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    late(plan);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let active = facts.real(&["altup.active_idx", "altup_active_idx"]).unwrap_or(0.0) as usize;
    plan.active_stream = Some(active);
    // The part of gates that is cut, or the deviations above the mean where that is.
    let parts = facts.reals(&["activation_sparsity_pattern"]);
    let deviations = facts.reals(&["activation_sparsity_scale"]);
    let cut = |part: f64| if part > 0.0 { normal_quantile(part) } else { f64::NEG_INFINITY };
    let deviations = deviations.or(parts.map(|parts| parts.into_iter().map(cut).collect()));
    for (layer, deviations) in plan.layers.iter_mut().zip(deviations.unwrap_or_default()) {
        #[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
        let narrow = deviations as f32;
        layer.network.sparsity = Some(narrow).filter(|deviations| deviations.is_finite());
    }
    Ok(())
}

fn gemma4(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    late(plan);
    Ok(())
}
