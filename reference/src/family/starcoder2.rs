//! StarCoder 2.

use super::Family;
use weighbridge::arch::NormKind;

use crate::error::Result;
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "starcoder2", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.kind = NormKind::Layer;
    if facts.config.activation.is_none() {
        plan.set_activation(Activation::GeluTanh);
    }
    Ok(())
}
