//! Jamba.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "jamba", adjust }];

fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.routings().for_each(|routing| routing.normalized = false);
    Ok(())
}
