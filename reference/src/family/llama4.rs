//! Llama 4.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Plan, Scoring, Temperature};

pub(super) static FAMILIES: &[Family] = &[Family { name: "llama4", adjust }];

/// Experts, of which the larger model has so many, and no norms of queries and keys.
const MAVERICK: u32 = 128;

/// The usual number of layers of which the last has no rotary embeddings.
const PERIOD: usize = 4;

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    for routing in plan.routings() {
        (routing.scoring, routing.normalized) = (Scoring::Sigmoid, false);
        routing.weighs_inputs = true;
    }
    let rope = &facts.config.rope;
    if rope.layers.is_none() && rope.skip_interval.is_none() {
        let all = plan.attentions().skip(PERIOD - 1).step_by(PERIOD);
        all.for_each(|attention| attention.rope = None);
    }
    let stated = facts.flag(&["use_qk_norm"]);
    let norms = stated.unwrap_or(facts.config.n_experts.value != MAVERICK);
    let grows = facts.flag(&["attn_temperature_tuning"]).unwrap_or(true);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positions")]
    let step = facts.real(&["floor_scale"]).map_or(8192, |step| step as usize);
    let factor = facts.real(&["attn_scale"]).unwrap_or(0.1);
    for attention in plan.attentions() {
        match attention.rope {
            Some(_) => (attention.bare_norms, attention.normed_last) = (norms, true),
            None if grows => {
                attention.temperature = Some(Temperature { factor, step, first: 1 });
            }
            None => {}
        }
    }
    Ok(())
}
