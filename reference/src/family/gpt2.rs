//! GPT-2: learned positions.

use super::Family;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::plan::Plan;

pub(super) static FAMILIES: &[Family] = &[Family { name: "gpt2", adjust }];

fn adjust(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    if facts.flag(&["scale_attn_by_inverse_layer_idx"]) == Some(true) {
        return Err(Error::Unsupported("scores divided by the layer's number".to_owned()));
    }
    Ok(())
}
