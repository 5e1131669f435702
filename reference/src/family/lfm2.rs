//! LFM2, dense and with experts.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Plan, Scoring};

pub(super) static FAMILIES: &[Family] = &[Family { name: "lfm2", adjust }];

fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.routings().for_each(|routing| routing.scoring = Scoring::Sigmoid);
    Ok(())
}
