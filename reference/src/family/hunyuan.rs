//! Hunyuan: queries and keys are normed after they are turned.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;
use crate::rope::Rope;

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "hunyuan-dense", adjust }, Family { name: "hunyuan-moe", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.attentions().for_each(|attention| attention.normed_last = true);
    if let Some(base) = facts.config.stretched_rope_theta() {
        plan.ropes.fill(Rope::plain(facts, base, facts.rotated()));
    }
    Ok(())
}
