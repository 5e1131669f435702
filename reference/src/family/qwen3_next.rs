//! Qwen3-Next and Qwen 3.5: linear attention between layers of attention with a gate.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "qwen3_next", adjust }, Family { name: "qwen3_5", adjust }];

/// Norms are stored as the difference from 1.
fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.added = 1.0;
    Ok(())
}
