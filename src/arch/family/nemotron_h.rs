//! Nemotron H and Nemotron 3: layers of one part each.

use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("epsilons", Step::Keys(epsilons)),
    ("parts", Step::Config(parts)),
    ("parts_for_mlx", Step::Mlx(parts_for_mlx)),
    ("routes", Step::Is(routes)),
    ("widths", Step::Keys(widths)),
];

/// The letter that a config has for experts in its list of layers.
const EXPERTS: char = 'E';

/// Whether any layer of such a `config.json` has experts.
fn routes(config: &Json) -> bool {
    let listed = ["layers_block_type", "layer_types"].map(|key| config.get(key));
    let mut listed = listed.into_iter().flatten().filter_map(Json::as_array).flatten();
    let letters = config.get("hybrid_override_pattern").and_then(Json::as_str);
    listed.any(|kind| kind.as_str() == Some("moe"))
        || letters.is_some_and(|letters| letters.contains(EXPERTS))
}

/// llama.cpp reads both.
fn epsilons(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let eps = model.config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value);
    keys.real("attention.layer_norm_epsilon", eps);
    keys.real("attention.layer_norm_rms_epsilon", eps);
    Ok(())
}

/// The part of a layer.
fn part(model: &SourceModel<'_>, layer: u32) -> &'static str {
    let has = |tensor: &str| model.has(&format!("layers.{layer}.{tensor}.weight"));
    match () {
        () if has("ssm.in") => "linear_attention",
        () if has("attention.q") => "full_attention",
        () if has("ffn.router") => "moe",
        () => "mlp",
    }
}

/// The width of each layer's network; 0 in layers with another part.
fn widths(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    let width = |layer: u32| match part(model, layer) {
        "mlp" => config.ffn_dim.as_ref().map_or(0, |width| width.value),
        "moe" => config.experts.expert_ffn_dim.as_ref().map_or(0, |width| width.value),
        _ => 0,
    };
    let each: Vec<u32> = (0..model.own_layers()).map(width).collect();
    keys.set("feed_forward_length", &each.reported());
    Ok(())
}

/// The kind of each layer, the heads of state spaces, and biases.
fn parts(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    // The class counts the list.
    out.remove("num_hidden_layers");
    let kinds = (0..model.own_layers()).map(|layer| part(model, layer));
    out.insert("layers_block_type".to_owned(), kinds.collect());
    let (heads, width) = super::mamba::state_heads(model)?;
    out.insert("mamba_num_heads".to_owned(), heads.into());
    out.insert("mamba_head_dim".to_owned(), width.into());
    if let Some(width) = &model.config.ffn_dim {
        out.insert("intermediate_size".to_owned(), width.value.into());
    }
    for (key, tensor) in [
        ("attention_bias", "attention.q.bias"),
        ("mlp_bias", "ffn.up.bias"),
        ("use_bias", "ssm.in.bias"),
        ("mamba_proj_bias", "ssm.in.bias"),
        ("use_conv_bias", "ssm.conv.bias"),
    ] {
        out.insert(key.to_owned(), model.has_in_layers(tensor).into());
    }
    Ok(())
}

/// Transformers bounds time steps by the least one, mlx-lm by a pair of numbers.
fn parts_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let least = out.get("time_step_min").and_then(Json::as_f64).unwrap_or(1e-3);
    out.insert("time_step_limit".to_owned(), json!([least, 3.0e38]));
    let count = model.own_layers();
    out.insert("num_hidden_layers".to_owned(), count.into());
    Ok(())
}
