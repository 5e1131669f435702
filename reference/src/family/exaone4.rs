//! EXAONE 4: of models with windows, the layers without one have no rotary embeddings.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "exaone4", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.attention.sliding_window.is_some() {
        let full = plan.attentions().filter(|attention| attention.window.is_none());
        full.for_each(|attention| attention.rope = None);
    }
    Ok(())
}
