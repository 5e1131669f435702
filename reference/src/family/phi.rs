//! Phi 3 and 4, and Phi 3.5 with experts.

use super::{Family, as_configured};
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Plan, Scoring};

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "phi3", adjust: as_configured },
    Family { name: "phimoe", adjust: of_experts },
];

fn of_experts(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.routings().for_each(|routing| routing.scoring = Scoring::SoftmaxOfNear);
    Ok(())
}
