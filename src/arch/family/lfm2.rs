//! LFM2, dense and with experts: short convolutions in most layers, attention in the others.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("block_width", Step::Config(block_width)),
    ("block_width_for_mlx", Step::Mlx(block_width_for_mlx)),
    ("convolutions", Step::Config(convolutions)),
    ("key_heads", Step::Keys(key_heads)),
];

const CONVOLUTION: &str = "conv";

/// Key heads of each layer: layers with a convolution have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kinds = model.kinds().ok_or_else(|| model.missing_in_config("layer_types"))?;
    let heads = model.config.n_kv_heads.value;
    let each = kinds.iter().map(|kind| if kind.name() == CONVOLUTION { 0 } else { heads });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// The inverse of [`key_heads`].
fn convolutions(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let heads = model.config.n_kv_heads.value;
    let each = model.config.attention.n_kv_heads_per_layer.as_ref();
    if each.is_some_and(|each| each.value.iter().any(|own| ![0, heads].contains(own))) {
        return Err(model.inexpressible("a number of key heads for each layer"));
    }
    out.insert("num_key_value_heads".to_owned(), heads.into());
    let kinds =
        model.kinds().unwrap_or_else(|| vec![&LayerKind::Full; model.own_layers() as usize]);
    out.insert("layer_types".to_owned(), kinds.into_iter().map(Reported::reported).collect());
    out.insert("conv_bias".to_owned(), model.has_in_layers("short_conv.in.bias").into());
    Ok(())
}

/// The published configs and mlx-lm state the width a second time.
fn block_width(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("block_dim".to_owned(), model.config.dim.value.into());
    Ok(())
}

/// Configs as transformers saves them state it once.
fn block_width_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if out.get("block_dim").is_none_or(Json::is_null) {
        block_width(model, out)?;
    }
    Ok(())
}
