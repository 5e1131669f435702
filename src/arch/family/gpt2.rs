//! GPT-2, whose matrices are stored as `[inputs, outputs]`.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("multi_query", Step::Config(multi_query)), ("plain_width", Step::Config(plain_width))];

/// StarCoder's class has one key head, or one for each query head.
fn multi_query(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (heads, of_keys) = (model.config.n_heads.value, model.config.n_kv_heads.value);
    if of_keys != 1 && of_keys != heads {
        return Err(model.inexpressible(&format!("{of_keys} key heads for {heads} query heads")));
    }
    out.insert("multi_query".to_owned(), (of_keys == 1).into());
    Ok(())
}

fn plain_width(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (dim, width) = (model.config.dim.value, model.config.ffn_dim.as_ref());
    if let Some(width) = width.filter(|width| width.value != dim.saturating_mul(4)) {
        out.insert("n_inner".to_owned(), width.value.into());
    }
    Ok(())
}
