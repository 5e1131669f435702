//! BERT, RoBERTa and XLM-RoBERTa: encoders that norm sums.

use super::Family;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::plan::{Arrangement, Plan};

pub(super) static FAMILIES: &[Family] = &[Family { name: "bert", adjust }];

/// Names of families that count positions from behind the padding's number.
const BEHIND_PADDING: &[&str] = &["roberta", "xlm-roberta", "camembert"];

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.word(&["position_embedding_type"]).is_some_and(|kind| kind != "absolute") {
        return Err(Error::Unsupported("relative positions".to_owned()));
    }
    plan.arrangement = Arrangement::NormedSum;
    plan.attentions().for_each(|attention| attention.causal = false);
    if BEHIND_PADDING.contains(&facts.named()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a token")]
        let padding = facts.real(&["pad_token_id"]).unwrap_or(1.0) as usize;
        plan.first_position = padding.saturating_add(1);
    }
    Ok(())
}
