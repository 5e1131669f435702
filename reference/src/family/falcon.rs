//! Falcon: attention and network side by side.

use super::Family;
use weighbridge::arch::NormKind;

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "falcon", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.kind = NormKind::Layer;
    plan.set_activation(Activation::Gelu);
    let newer = facts.flag(&["new_decoder_architecture"]).unwrap_or(false);
    if newer || facts.flag(&["parallel_attn"]).unwrap_or(true) {
        plan.arrangement = Arrangement::Parallel;
    }
    if facts.flag(&["alibi"]).unwrap_or(false) {
        return Err(Error::Unsupported("scores that fall with distance (ALiBi)".to_owned()));
    }
    Ok(())
}
