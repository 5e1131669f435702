//! Falcon: attention and network side by side; in Falcon RW one behind the other, with ALiBi.

use super::Family;
use weighbridge::arch::NormKind;

use crate::error::Result;
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "falcon", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.kind = NormKind::Layer;
    plan.set_activation(Activation::Gelu);
    // The models with ALiBi are those whose parts follow each other.
    let slopes = facts.real(&["attention.max_alibi_bias"]).is_some_and(|most| most > 0.0);
    let alibi = facts.flag(&["alibi"]).unwrap_or(slopes);
    let newer = facts.flag(&["new_decoder_architecture"]).unwrap_or(false);
    if newer || facts.flag(&["parallel_attn"]).unwrap_or(!alibi) {
        plan.arrangement = Arrangement::Parallel;
    }
    if alibi {
        for attention in plan.attentions() {
            // It is added before scores are scaled.
            (attention.rope, attention.alibi) = (None, Some(attention.scale));
        }
    }
    Ok(())
}
