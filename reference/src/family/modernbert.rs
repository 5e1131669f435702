//! ModernBERT: an encoder whose layers norm what they read.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "modernbert", adjust }];

fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.attentions().for_each(|attention| attention.causal = false);
    Ok(())
}
