//! StableLM: where there is no norm before the network, it stands beside attention.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "stablelm", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if !facts.model.has("layers.0.ffn_norm.weight") {
        plan.arrangement = Arrangement::Parallel;
    }
    plan.attentions().for_each(|attention| attention.norms_of_heads = true);
    Ok(())
}
