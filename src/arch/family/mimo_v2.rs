//! MiMo V2 Flash.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("heads", Step::Keys(heads)),
    ("key_heads", Step::Config(key_heads)),
    ("mlx_names", Step::Mlx(mlx_names)),
];

/// The widths of keys and values, and the key heads of each layer.
fn heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let (config, attention) = (&model.config, &model.config.attention);
    let width = config.head_dim.value;
    let values = attention.value_head_dim.as_ref().map_or(width, |width| width.value);
    keys.count("attention.key_length", width);
    keys.count("attention.value_length", values);
    if let Some(each) = &attention.n_kv_heads_per_layer {
        keys.set("attention.head_count_kv", &each.value.reported());
    }
    Ok(())
}

/// The key heads of layers without a window, of which the others have twice as many.
fn usual_key_heads(model: &SourceModel<'_>) -> Result<u32> {
    let config = &model.config;
    let Some(each) = &config.attention.n_kv_heads_per_layer else {
        return Ok(config.n_kv_heads.value);
    };
    let kinds = model.kinds().unwrap_or_default();
    let usual = each.value.iter().zip(kinds).map(|(heads, kind)| match kind {
        LayerKind::Sliding => heads / 2,
        _ => *heads,
    });
    let mut usual: Vec<u32> = usual.collect();
    usual.dedup();
    match usual.as_slice() {
        &[usual] => Ok(usual),
        _ => Err(model.inexpressible(&format!("layers with {:?} key heads", each.value))),
    }
}

/// The key heads and the width of values in `config.json`.
fn key_heads(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("num_key_value_heads".to_owned(), usual_key_heads(model)?.into());
    out.extend(model.derived("value_head_dim").map(|width| ("v_head_dim".to_owned(), width)));
    Ok(())
}

/// mlx-lm's class reads the keys of the publisher's `config.json`, which transformers' class replaces.
fn mlx_names(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let (all, local) = (&config.rope.dimension_count, &config.rope.local_dimension_count);
    if let (Some(all), Some(local)) = (all, local)
        && all.value != local.value
    {
        let fault = format!("{} and {} rotated elements of a head", all.value, local.value);
        return Err(model.inexpressible_in_mlx_lm(&fault));
    }
    let kinds = model.kinds().unwrap_or_default();
    let layers = 0..model.own_layers();
    let slides = kinds.iter().map(|kind| u32::from(**kind == LayerKind::Sliding));
    let routes =
        layers.map(|layer| u32::from(model.has(&format!("layers.{layer}.ffn.router.weight"))));
    out.insert("hybrid_layer_pattern".to_owned(), slides.map(Json::from).collect());
    out.insert("moe_layer_freq".to_owned(), routes.map(Json::from).collect());
    out.insert("add_swa_attention_sink_bias".to_owned(), true.into());
    out.insert("add_full_attention_sink_bias".to_owned(), false.into());
    let heads = [
        ("swa_num_attention_heads", config.n_heads.value),
        ("swa_num_key_value_heads", usual_key_heads(model)?.saturating_mul(2)),
        ("swa_head_dim", config.head_dim.value),
    ];
    out.extend(heads.map(|(key, number)| (key.to_owned(), number.into())));
    let values = config.attention.value_head_dim.as_ref().map_or(0, |width| width.value);
    out.insert("swa_v_head_dim".to_owned(), values.into());
    let derived = [
        ("sliding_window_size", "sliding_window"),
        ("rope_theta", "rope_theta"),
        ("swa_rope_theta", "rope_local_theta"),
        ("partial_rotary_factor", "rope_partial_factor"),
    ];
    for (key, field) in derived {
        out.extend(model.derived(field).map(|value| (key.to_owned(), value)));
    }
    let eps = config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value);
    out.insert("layernorm_epsilon".to_owned(), eps.reported());
    for (key, word) in [("scoring_func", "sigmoid"), ("topk_method", "noaux_tc")] {
        out.insert(key.to_owned(), word.into());
    }
    Ok(())
}
