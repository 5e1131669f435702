//! Nemotron 3 and 4.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "nemotron", adjust }];

/// Norms are stored as the difference from 1.
fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.norm.added = 1.0;
    Ok(())
}
