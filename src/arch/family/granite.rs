//! Granite 3 and 4: Llama with scales, dense or with experts, and in Granite 4 with Mamba 2 in most
//! layers. In GGUF, the rows of q and k are reordered into pairs.

use super::mamba;
use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("attends_everywhere", Step::Is(attends_everywhere)),
    ("bases", Step::Config(bases)),
    ("context", Step::Keys(context)),
    ("has_shared_experts", Step::Fits(has_shared_experts)),
    ("in_mlx", Step::Mlx(in_mlx)),
    ("key_heads", Step::Keys(key_heads)),
    ("mixers", Step::Config(mixers)),
    ("rotated_layers", Step::Keys(rotated_layers)),
    ("rotates", Step::Keys(rotates)),
    ("routes", Step::Is(routes)),
    ("scores", Step::Config(scores)),
    ("shared_or_none", Step::Config(shared_or_none)),
    ("shared_width", Step::Keys(shared_width)),
    ("widths", Step::Config(widths)),
];

fn shared_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(width) = model.count("shared_intermediate_size")?.filter(|&width| width > 0) {
        keys.count("expert_shared_feed_forward_length", width);
    }
    Ok(())
}

fn has_shared_experts(model: &SourceModel<'_>) -> bool {
    model.config.experts.shared_expert_ffn_dim.is_some()
}

fn listed(config: &Json, key: &str, is: impl Fn(&Json) -> bool) -> bool {
    config.get(key).and_then(Json::as_array).is_some_and(|all| all.iter().all(is))
}

/// Whether all layers of such a `config.json` have attention.
fn attends_everywhere(config: &Json) -> bool {
    listed(config, "layer_types", |kind| {
        kind.as_str().is_some_and(|kind| LayerKind::named(kind) == LayerKind::Full)
    })
}

/// Whether such a `config.json` states experts.
fn routes(config: &Json) -> bool {
    config.get("num_experts_per_tok").and_then(Json::as_u64).is_some_and(|used| used > 0)
}

/// Without a stated factor of scores, GGUF means that of the width of a head, and transformers' classes mean 1.
fn scores(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if model.config.attention.attention_scale.is_none() {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let scale = (model.config.head_dim.value as f32).sqrt().recip();
        out.insert("attention_multiplier".to_owned(), scale.reported());
    }
    Ok(())
}

fn has_states(model: &SourceModel<'_>) -> bool {
    model.has_in_layers("ssm.in.weight")
}

/// The converter states a length for models whose layers have states.
fn context(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if has_states(model) {
        keys.count("context_length", 1 << 20);
    }
    Ok(())
}

fn attends(model: &SourceModel<'_>, layer: u32) -> bool {
    model.has(&format!("layers.{layer}.attention.q.weight"))
}

/// Key heads of each layer: layers with Mamba have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let heads = model.config.n_kv_heads.value;
    let each = (0..model.own_layers()).map(|layer| if attends(model, layer) { heads } else { 0 });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// llama.cpp takes this key for whether there are rotary embeddings.
fn rotates(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    // It does so for models with states alone.
    if !has_rope(model) && !has_states(model) {
        let what = "position_embedding_type is not rope, and every layer has attention";
        return Err(model.inexpressible_in_gguf(what));
    }
    keys.set("rope.scaling.finetuned", &has_rope(model).into());
    Ok(())
}

/// The layers with rotary embeddings, of a config that states a base for each layer; 0 stands for none.
fn rotated_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(bases) = model.config_value("layer_rope_theta").and_then(Json::as_array) else {
        return Ok(());
    };
    let bases: Vec<f64> = bases.iter().filter_map(Json::as_f64).collect();
    let mut others = bases.iter().filter(|base| **base != 0.0);
    let base = others.next().copied().unwrap_or_default();
    if others.any(|other| *other != base) {
        return Err(model.inexpressible_in_gguf("several bases of rotary embeddings"));
    }
    keys.real("rope.freq_base", f32_of(base));
    if bases.contains(&0.0) {
        let rotates: Vec<bool> = bases.iter().map(|base| *base != 0.0).collect();
        keys.flags("attention.rope_pattern", &rotates);
    }
    Ok(())
}

/// The base of each layer, 0 in layers without rotary embeddings.
fn bases(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (base, rotates) = (model.config.rope_theta.value, &model.config.rope.layers);
    let all = || vec![true; model.own_layers() as usize];
    let rotates = rotates.as_ref().map_or_else(all, |rotates| rotates.value.clone());
    if rotates.contains(&false) {
        let each = rotates.iter().map(|rotates| if *rotates { base } else { 0.0 });
        out.insert("layer_rope_theta".to_owned(), each.map(|base| base.reported()).collect());
    }
    Ok(())
}

/// The width of the shared network. The class takes 0 for none.
fn shared_or_none(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let width = model.config.experts.shared_expert_ffn_dim.as_ref().map_or(0, |width| width.value);
    out.insert("shared_intermediate_size".to_owned(), width.into());
    Ok(())
}

fn has_rope(model: &SourceModel<'_>) -> bool {
    let layers = model.config.rope.layers.as_ref();
    layers.is_none_or(|layers| layers.value.contains(&true))
}

/// The widths of networks and experts. Without experts, the network is the shared one.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let Some(width) = config.ffn_dim.as_ref().map(|width| width.value) else {
        return Err(model.missing_in_model("feed_forward_length"));
    };
    let shared = config.experts.shared_expert_ffn_dim.as_ref().map(|width| width.value);
    let shared = shared.filter(|_| config.n_experts.value > 0);
    let used = config.experts.n_experts_used.as_ref().map_or(0, |used| used.value);
    out.insert("intermediate_size".to_owned(), width.into());
    out.insert("shared_intermediate_size".to_owned(), shared.unwrap_or(width).into());
    out.insert("num_experts_per_tok".to_owned(), used.into());
    Ok(())
}

/// The kind of each layer, the heads of those with states, and rotary embeddings.
fn mixers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    // Bamba, which llama.cpp runs as Granite 4.
    let rotated = model.config.rope.dimension_count.as_ref().map(|count| count.value);
    if has_rope(model) && rotated.is_some_and(|count| count < model.config.head_dim.value) {
        return Err(model.inexpressible("rotary embeddings of a part of each head"));
    }
    let word = |layer| if attends(model, layer) { "attention" } else { "mamba" };
    out.insert("layer_types".to_owned(), (0..model.own_layers()).map(word).collect());
    out.insert("num_key_value_heads".to_owned(), model.config.n_kv_heads.value.into());
    let ssm = &model.config.ssm;
    let heads = ssm.time_step_rank.as_ref().map(|heads| heads.value);
    let inner = ssm.inner_size.as_ref().map(|inner| inner.value);
    let width = inner.zip(heads).and_then(|(inner, heads)| inner.checked_div(heads));
    let expand = inner.and_then(|inner| inner.checked_div(model.config.dim.value));
    let (Some(heads), Some(width), Some(expand)) = (heads, width, expand) else {
        return Err(model.missing_in_model("ssm.inner_size"));
    };
    out.insert("mamba_n_heads".to_owned(), heads.into());
    out.insert("mamba_d_head".to_owned(), width.into());
    out.insert("mamba_expand".to_owned(), expand.into());
    out.insert("mamba_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    out.insert("mamba_proj_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    let position = if has_rope(model) { "rope" } else { "nope" };
    out.insert("position_embedding_type".to_owned(), position.into());
    Ok(())
}

/// mlx-lm knows the older names of kinds of layers, and bounds of time steps as finite numbers.
fn in_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    mixers(model, out)?;
    mamba::finite_limits(out);
    Ok(())
}
