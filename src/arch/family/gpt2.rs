//! GPT-2, whose matrices are stored as `[inputs, outputs]`.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("plain_width", Step::Config(plain_width))];

fn plain_width(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (dim, width) = (model.config.dim.value, model.config.ffn_dim.as_ref());
    if let Some(width) = width.filter(|width| width.value != dim.saturating_mul(4)) {
        out.insert("n_inner".to_owned(), width.value.into());
    }
    Ok(())
}
