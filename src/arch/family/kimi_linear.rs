//! Kimi Linear: linear attention with a rate for each element of keys in most layers, latent attention in
//! the others.

use super::decoder::json::network_kinds;
use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("delta", Step::Config(delta)),
    ("delta_for_mlx", Step::Mlx(delta_for_mlx)),
    ("heads", Step::Keys(heads)),
];

fn is_linear(model: &SourceModel<'_>, layer: u32) -> bool {
    model.has(&format!("layers.{layer}.linear_attention.a_log"))
}

fn routes(model: &SourceModel<'_>, layer: u32) -> bool {
    model.has(&format!("layers.{layer}.ffn.router.weight"))
}

/// The number of layers before the first one with experts.
fn leading(model: &SourceModel<'_>) -> Result<u32> {
    let layers = model.own_layers();
    let first = (0..layers).find(|layer| routes(model, *layer)).unwrap_or(layers);
    match (first..layers).all(|layer| routes(model, layer)) {
        true => Ok(first),
        false => Err(model.inexpressible("dense layers behind layers with experts")),
    }
}

/// A number that both kinds of attention require.
fn need(model: &SourceModel<'_>, name: &str) -> Result<u32> {
    let value = model.derived(name).and_then(|value| value.as_u64());
    let value = value.and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| model.missing_in_config(name))
}

/// Heads of each layer, and the widths of both kinds. Layers with linear attention have no key heads.
fn heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let of_layer = |layer| u32::from(!is_linear(model, layer));
    let each: Vec<u32> = (0..model.own_layers()).map(of_layer).collect();
    keys.set("attention.head_count_kv", &each.reported());
    let (rank, rotated) = (need(model, "kv_lora_rank")?, need(model, "rope_dimension_count")?);
    keys.count("attention.kv_lora_rank", rank);
    keys.count("attention.key_length", rank.saturating_add(rotated));
    keys.count("attention.value_length", rank);
    keys.count("attention.key_length_mla", model.config.head_dim.value);
    keys.count("attention.value_length_mla", need(model, "value_head_dim")?);
    keys.count("rope.dimension_count", rotated);
    let (count, width) = (need(model, "ssm_time_step_rank")?, need(model, "ssm_state_size")?);
    if count != model.config.n_heads.value {
        let fault =
            format!("{count} heads of linear attention next to {}", model.config.n_heads.value);
        return Err(model.inexpressible_in_gguf(&fault));
    }
    keys.count("kda.head_dim", width);
    keys.count("leading_dense_block_count", leading(model)?);
    Ok(())
}

/// The widths of both kinds of attention, and the kinds of layers.
fn delta(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kind = |layer| if is_linear(model, layer) { "linear_attention" } else { "full_attention" };
    out.insert("layer_types".to_owned(), (0..model.own_layers()).map(kind).collect());
    network_kinds(model, out)?;
    for (field, key) in [
        ("kv_lora_rank", "kv_lora_rank"),
        ("qk_nope_head_dim", "qk_nope_head_dim"),
        ("rope_dimension_count", "qk_rope_head_dim"),
        ("value_head_dim", "v_head_dim"),
        ("ssm_time_step_rank", "linear_num_heads"),
        ("ssm_state_size", "linear_head_dim"),
        ("ssm_conv_kernel", "linear_conv_kernel_dim"),
    ] {
        out.insert(key.to_owned(), need(model, field)?.into());
    }
    let rank = model.config.attention.q_lora_rank.as_ref().map(|rank| rank.value);
    out.insert("q_lora_rank".to_owned(), rank.map_or(Json::Null, Json::from));
    out.insert("num_key_value_heads".to_owned(), model.config.n_heads.value.into());
    Ok(())
}

/// mlx-lm reads the published form of the config, which counts layers from 1.
fn delta_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if model.config.attention.q_lora_rank.is_some() && model.has_in_layers("attention.q_a.weight") {
        return Err(model.inexpressible_in_mlx_lm("queries through a narrower space"));
    }
    let places = |linear: bool| -> Vec<u32> {
        let layers = (0..model.own_layers()).filter(|layer| is_linear(model, *layer) == linear);
        layers.map(|layer| layer.saturating_add(1)).collect()
    };
    let linear = json!({
        "kda_layers": places(true).reported(),
        "full_attn_layers": places(false).reported(),
        "num_heads": need(model, "ssm_time_step_rank")?,
        "head_dim": need(model, "ssm_state_size")?,
        "short_conv_kernel_size": need(model, "ssm_conv_kernel")?,
    });
    out.insert("linear_attn_config".to_owned(), linear);
    out.insert("first_k_dense_replace".to_owned(), leading(model)?.into());
    let theta = model.config.rope_theta.value.reported();
    for (key, value) in [("head_dim", need(model, "value_head_dim")?.into()), ("rope_theta", theta)]
    {
        if out.get(key).is_none_or(Json::is_null) {
            out.insert(key.to_owned(), value);
        }
    }
    Ok(())
}
