//! Qwen 2 and 3, dense and with experts.

use super::{Family, as_configured};
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "qwen2", adjust: as_configured },
    Family { name: "qwen2moe", adjust: qwen2moe },
    Family { name: "qwen3", adjust: as_configured },
    Family { name: "qwen3moe", adjust: as_configured },
    Family { name: "qwen3vlmoe", adjust: as_configured },
];

/// The weights of the chosen experts keep their sum unless the config says otherwise.
fn qwen2moe(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let normalized = facts.config.experts.expert_weights_norm.as_ref();
    let normalized = normalized.is_some_and(|norm| norm.value);
    plan.routings().for_each(|routing| routing.normalized = normalized);
    Ok(())
}
