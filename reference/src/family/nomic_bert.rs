//! Nomic Embed: an encoder that norms sums. The second version has experts in every other layer.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "nomic-bert", adjust },
    Family { name: "nomic-bert-moe", adjust: adjust_mixture },
];

/// The published configs name the activation by what it forms with the gate.
fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.arrangement = Arrangement::NormedSum;
    plan.set_activation(Activation::Silu);
    plan.attentions().for_each(|attention| attention.causal = false);
    Ok(())
}

fn adjust_mixture(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    adjust(facts, plan)?;
    plan.set_activation(Activation::Gelu);
    plan.routings().for_each(|routing| routing.normalized = false);
    Ok(())
}
