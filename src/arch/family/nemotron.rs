//! Nemotron 3 and 4, and Minitron: layer norms that multiply by `1 + w`, and a feed-forward network
//! without a gate.

use super::step::{Step, Steps};
use crate::arch::RopeScalingKind;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("unscaled", Step::Keys(unscaled))];

/// The converter states that rotary embeddings are not scaled.
fn unscaled(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kind = model.config.rope_scaling.kind.as_ref().map(|kind| &kind.value);
    if matches!(kind, None | Some(RopeScalingKind::None)) {
        keys.set("rope.scaling.type", &"none".into());
    }
    Ok(())
}
