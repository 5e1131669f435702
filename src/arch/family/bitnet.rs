//! BitNet b1.58: norms of what attention mixed and of what the network computed, before the last matrix of
//! each.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("packed_alone", Step::Mlx(packed_alone))];

/// mlx-lm's class reads matrices that are packed with a scale alone.
fn packed_alone(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    Err(model.inexpressible_in_mlx_lm("matrices that are not packed in two bits with a scale"))
}
