//! OLMo 2 and 3, and OLMoE.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;
use crate::rope::Rope;

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "olmo2", adjust: olmo }, Family { name: "olmoe", adjust: olmoe }];

/// Layers with a window (OLMo 3) have rotary embeddings without the scaling of the others.
fn olmo(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let plain = Rope::plain(facts, facts.config.rope_theta.value, facts.rotated());
    plan.ropes.iter_mut().skip(1).for_each(|rope| *rope = plain.clone());
    Ok(())
}

fn olmoe(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let normalized = facts.config.experts.expert_weights_norm.as_ref();
    let normalized = normalized.is_some_and(|norm| norm.value);
    plan.routings().for_each(|routing| routing.normalized = normalized);
    let bound = facts.real(&["attention.clamp_kqv", "clip_qkv"]);
    plan.attentions().for_each(|attention| attention.clip = bound);
    Ok(())
}
