//! MiniCPM 3: latent attention, and scales of the embedding, of what layers add, and of logits.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "minicpm3", adjust }];

/// GGUF has no keys for the scales: those of the published model are llama.cpp's own numbers.
#[expect(clippy::cast_precision_loss, reason = "widths")]
fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.scales.embedding_scale.is_none() {
        plan.embedding_scale = 12.0;
    }
    let depth = facts.real(&["scale_depth"]).unwrap_or(1.4);
    plan.residual_scale = depth / (plan.layers.len() as f32).sqrt();
    plan.logit_scale = facts.real(&["dim_model_base"]).unwrap_or(256.0) / plan.dim as f32;
    Ok(())
}
