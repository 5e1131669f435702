//! Seed-OSS.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("output_bias", Step::Config(output_bias))];

/// The bias of the output matrix has a flag of its own.
fn output_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let biased = model.has_in_layers("attention.output.bias");
    out.insert("attention_out_bias".to_owned(), biased.into());
    Ok(())
}
