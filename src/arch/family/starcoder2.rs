//! StarCoder 2: biases everywhere, and a feed-forward network without a gate.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("narrow_window", Step::Config(narrow_window))];

fn narrow_window(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(window) = model.derived("sliding_window") {
        out.insert("sliding_window".to_owned(), window);
    }
    Ok(())
}
