//! Nomic Embed: an encoder that norms sums.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "nomic-bert", adjust }];

/// The published configs name the activation by what it forms with the gate.
fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.arrangement = Arrangement::NormedSum;
    plan.set_activation(Activation::Silu);
    plan.attentions().for_each(|attention| attention.causal = false);
    Ok(())
}
