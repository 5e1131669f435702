//! GPT-2, whose matrices are stored as `[inputs, outputs]`.

use super::step::{Step, Steps};
use crate::arch::source::SourceModel;
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("as_mlx_lm_computes", Step::Mlx(as_mlx_lm_computes)),
    ("multi_query", Step::Config(multi_query)),
    ("plain_width", Step::Config(plain_width)),
];

/// mlx-lm's class of StarCoder scales scores and computes GELU, whatever a config says.
fn as_mlx_lm_computes(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    if model.config_value("scale_attn_weights").and_then(Json::as_bool) == Some(false) {
        return Err(model.inexpressible_in_mlx_lm("scores that are not scaled"));
    }
    let activation = model.config.activation.as_ref().map(|name| name.value.as_str());
    match activation.filter(|name| !name.starts_with("gelu")) {
        Some(name) => Err(model.inexpressible_in_mlx_lm(&format!("the activation {name}"))),
        None => Ok(()),
    }
}

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
