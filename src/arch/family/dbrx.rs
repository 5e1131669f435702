//! DBRX: its config holds those of attention and of the experts.

use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[("base_for_mlx", Step::Mlx(base_for_mlx))];

/// mlx-lm reads the base of rotary embeddings in the config of attention alone, and transformers' class never there.
fn base_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(Json::Object(attention)) = out.get_mut("attn_config") {
        let base = model.config.rope_theta.value.reported();
        attention.insert("rope_theta".to_owned(), base);
    }
    Ok(())
}
