//! gpt-oss: attention sinks, biases everywhere, and experts in MXFP4.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("untruncated", Step::Config(untruncated))];

/// gpt-oss does not round the bounds of YaRN's ramp. No GGUF file states it; it is the same in all
/// models of the family.
fn untruncated(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        rope.insert("truncate".to_owned(), false.into());
    }
    Ok(())
}
