//! gpt-oss: sinks, and experts of bounded gates.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Plan, Scoring};
use crate::rope::Rope;

pub(super) static FAMILIES: &[Family] = &[Family { name: "gpt-oss", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let alpha = facts.real(&["swiglu_alpha"]).unwrap_or(1.702);
    let limit = facts.real(&["swiglu_limit"]).unwrap_or(7.0);
    plan.set_activation(Activation::ClampedSwiglu { alpha, limit });
    plan.routings().for_each(|routing| routing.scoring = Scoring::SoftmaxOfChosen);
    // The borders of YaRN's ramp are not rounded, which GGUF does not say.
    if facts.config.rope_scaling.truncate.is_none() {
        let rope = Rope::untruncated(facts)?;
        plan.ropes.fill(rope);
    }
    Ok(())
}
