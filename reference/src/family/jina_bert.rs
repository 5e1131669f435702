//! Jina Embeddings 2: an encoder that norms sums, with ALiBi to both sides.

use super::Family;
use crate::error::Result;
use crate::facts::Facts;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "jina-bert-v2", adjust }];

fn adjust(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.arrangement = Arrangement::NormedSum;
    for attention in plan.attentions() {
        (attention.causal, attention.alibi) = (false, Some(1.0));
    }
    Ok(())
}
