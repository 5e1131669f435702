//! Command R: attention and network side by side behind one norm; in Command R7B and A, rotary
//! embeddings in layers with a window alone.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "command-r", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.arrangement = Arrangement::Parallel;
    plan.logit_scale = facts.config.scales.logit_scale.as_ref().map_or(1.0, |scale| scale.value);
    let windows = facts.config.attention.sliding_window.is_some();
    for attention in plan.attentions() {
        attention.norms_of_heads = true;
        if windows && attention.window.is_none() {
            attention.rope = None;
        }
    }
    Ok(())
}
