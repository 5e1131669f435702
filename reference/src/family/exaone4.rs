//! EXAONE 3 and 4. Of EXAONE 4's models with windows, the layers without one have no rotary embeddings.

use super::{Family, as_configured};
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "exaone", adjust: as_configured }, Family { name: "exaone4", adjust }];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.attention.sliding_window.is_some() {
        let full = plan.attentions().filter(|attention| attention.window.is_none());
        full.for_each(|attention| attention.rope = None);
    }
    Ok(())
}
