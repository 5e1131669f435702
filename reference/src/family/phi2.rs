//! Phi 1, 1.5 and 2: attention and network side by side behind one norm.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "phi2", adjust }];

fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.arrangement = Arrangement::Parallel;
    Ok(())
}
