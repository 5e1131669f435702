//! Jamba: Mamba in most layers and attention without positions in the others, a dense network in some
//! layers and experts in the others.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("experts", Step::Config(experts)),
    ("key_heads", Step::Keys(key_heads)),
    ("mixers", Step::Config(mixers)),
];

/// Key heads of each layer: layers with Mamba have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kinds = model.kinds().ok_or_else(|| model.missing_in_config("attn_layer_period"))?;
    let heads = model.config.n_kv_heads.value;
    let each = kinds.iter().map(|kind| if **kind == LayerKind::Full { heads } else { 0 });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// The layers with attention, the expansion of the others, and biases.
fn mixers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds = model.kinds().unwrap_or_default();
    let attends: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Full).collect();
    put_period(model, out, "attn_layer", &attends)?;
    let config = &model.config;
    let inner = config.ssm.inner_size.as_ref().map(|inner| inner.value);
    let expand = inner.and_then(|inner| inner.checked_div(config.dim.value));
    let expand = expand.ok_or_else(|| model.missing_in_model("ssm.inner_size"))?;
    out.insert("num_key_value_heads".to_owned(), config.n_kv_heads.value.into());
    out.insert("mamba_expand".to_owned(), expand.into());
    out.insert("mamba_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    out.insert("mamba_proj_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    Ok(())
}

/// The layers with experts.
fn experts(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let routed = |layer: u32| model.has(&format!("layers.{layer}.ffn.router.weight"));
    let routed: Vec<bool> = (0..model.own_layers()).map(routed).collect();
    put_period(model, out, "expert_layer", &routed)
}

/// States layers as a period and the number of the first one.
fn put_period(
    model: &SourceModel<'_>,
    out: &mut Map<String, Json>,
    name: &str,
    layers: &[bool],
) -> Result<()> {
    let mut places = (0u32..).zip(layers).filter(|(_, is)| **is).map(|(layer, _)| layer);
    let all = model.own_layers();
    // No layer has a number that is a multiple of the period more than this one.
    let first = places.next().unwrap_or(all);
    let usual = all.max(first.saturating_add(1));
    let period = places.next().map_or(usual, |second| second.saturating_sub(first));
    let is = |layer: u32| layer.checked_rem(period) == Some(first);
    if first >= period || !(0u32..).zip(layers).all(|(layer, found)| is(layer) == *found) {
        return Err(model.inexpressible("layers whose kinds do not repeat"));
    }
    out.insert(format!("{name}_period"), period.into());
    out.insert(format!("{name}_offset"), first.into());
    Ok(())
}
