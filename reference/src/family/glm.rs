//! GLM 4 and 4.5.

use super::{Family, as_configured};
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Plan, Scoring};

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "glm4", adjust: as_configured }, Family { name: "glm4moe", adjust: experts }];

fn experts(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.routings().for_each(|routing| routing.scoring = Scoring::Sigmoid);
    Ok(())
}
