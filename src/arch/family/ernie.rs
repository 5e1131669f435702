//! ERNIE 4.5, dense and with experts. The rows of q and k are in pairs in all containers.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("shared_width", Step::Keys(shared_width))];

/// The width of the shared experts together.
fn shared_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let experts = &model.config.experts;
    let (Some(width), Some(shared)) = (&experts.expert_ffn_dim, &experts.n_shared_experts) else {
        return Ok(());
    };
    if shared.value > 0 {
        let all = width.value.saturating_mul(shared.value);
        keys.count("expert_shared_feed_forward_length", all);
    }
    Ok(())
}
