//! DeepSeek 2 and 3, and Kimi K2: multi-head latent attention, shared and routed experts.

use super::step::{Step, Steps};
use crate::arch::Gating;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("choice", Step::Config(choice)),
    ("deepseek_yarn", Step::Config(deepseek_yarn)),
    ("dense_layers", Step::Keys(dense_layers)),
    ("gated_by_sigmoid", Step::Fits(gated_by_sigmoid)),
    ("indexer", Step::Keys(indexer)),
    ("indexed_layers", Step::Keys(indexed_layers)),
    ("indexer_types", Step::Config(indexer_types)),
    ("latent", Step::Keys(latent)),
    ("latent_widths", Step::Config(latent_widths)),
    ("log_multiplier", Step::Keys(log_multiplier)),
    ("neutral_yarn", Step::Mlx(neutral_yarn)),
    ("routing_of_glm", Step::Mlx(routing_of_glm)),
    ("weights_norm", Step::Keys(weights_norm)),
    ("widths_of_heads", Step::Keys(widths_of_heads)),
];

/// Number of dense layers before the first layer with experts, which transformers' classes have a
/// default for.
fn dense_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let dense = model.config.experts.n_leading_dense_layers.as_ref().map_or(0, |n| n.value);
    let has_experts = model.config.n_experts.value > 0;
    keys.count("leading_dense_block_count", if has_experts { dense } else { model.own_layers() });
    // llama.cpp's loader requires a width of experts even then.
    if let Some(width) = model.config.ffn_dim.as_ref().filter(|_| !has_experts) {
        keys.count("expert_feed_forward_length", width.value);
    }
    // llama.cpp's loader requires the rank, unless the model has the size of a published one without.
    let layers = model.config.n_layers.value;
    let rows = model.config.vocab_size.as_ref().map(|rows| rows.value);
    let published = matches!((layers, rows), (26 | 27, _) | (48, Some(128_256)));
    if model.config.attention.q_lora_rank.is_none() && !published {
        keys.count("attention.q_lora_rank", 0);
    }
    Ok(())
}

fn weights_norm(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value) {
        keys.set("expert_weights_norm", &true.into());
    }
    Ok(())
}

/// A number that latent attention requires.
fn need(model: &SourceModel<'_>, name: &str) -> Result<u32> {
    let value = model.derived(name).and_then(|value| value.as_u64());
    let value = value.and_then(|value| u32::try_from(value).ok());
    value.ok_or_else(|| model.missing_in_config(name))
}

/// The place of the width of a head. The converter reads it from the config through transformers'
/// class, which always states one, and replaces the value. Kimi K2 has no class there.
fn widths_of_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.architecture() == "kimi_k2" {
        return Ok(());
    }
    shared_head(model, keys)
}

/// The head of keys and values that all queries share.
fn shared_head(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let (rank, rotated) = (need(model, "kv_lora_rank")?, need(model, "rope_dimension_count")?);
    keys.count("attention.key_length", rank.saturating_add(rotated));
    keys.count("attention.value_length", rank);
    Ok(())
}

/// Latent attention in GGUF: one key head that all queries share.
fn latent(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("attention.head_count_kv", 1);
    keys.count("attention.kv_lora_rank", need(model, "kv_lora_rank")?);
    shared_head(model, keys)?;
    keys.count("attention.key_length_mla", model.config.head_dim.value);
    keys.count("attention.value_length_mla", need(model, "value_head_dim")?);
    Ok(())
}

fn log_multiplier(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(all) = &model.config.rope_scaling.mscale_all_dim {
        // The tenth of the number in `config.json`, rounded once.
        let all = all.value.reported().as_f64().unwrap_or_default();
        keys.real("rope.scaling.yarn_log_multiplier", f32_of(0.1 * all));
    }
    Ok(())
}

/// The indexer of DeepSeek 3.2.
fn indexer(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = [
        ("index_n_heads", "attention.indexer.head_count"),
        ("index_head_dim", "attention.indexer.key_length"),
        ("index_topk", "attention.indexer.top_k"),
    ];
    for (path, key) in rows {
        keys.count(key, model.count(path)?.ok_or_else(|| model.missing_in_config(path))?);
    }
    Ok(())
}

fn is_indexed(model: &SourceModel<'_>, layer: u32) -> bool {
    model.has(&format!("layers.{layer}.attention.indexer.q_b.weight"))
}

/// The layers with an indexer, if some use the positions that an earlier layer's chose.
fn indexed_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let indexed: Vec<bool> =
        (0..model.own_layers()).map(|layer| is_indexed(model, layer)).collect();
    if indexed.contains(&false) {
        keys.flags("attention.indexer.types", &indexed);
    }
    Ok(())
}

/// The same in `config.json`.
fn indexer_types(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kind = |layer| if is_indexed(model, layer) { "full" } else { "shared" };
    let layers = || 0..model.own_layers();
    out.insert("indexer_types".to_owned(), layers().map(kind).collect());
    out.insert("layer_types".to_owned(), layers().map(|_| "indexed_attention").collect());
    Ok(())
}

/// mlx-lm's class of DeepSeek 2 requires YaRN; with a factor of 1 it changes nothing.
fn neutral_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let second = out.get("model_type").and_then(Json::as_str) == Some("deepseek_v2");
    if second && out.get("rope_scaling").is_none_or(Json::is_null) {
        let yarn = json!({
            "type": "yarn",
            "rope_type": "yarn",
            "factor": 1.0,
            "original_max_position_embeddings": model.derived("max_seq_len"),
            "rope_theta": model.config.rope_theta.value.reported(),
        });
        out.insert("rope_scaling".to_owned(), yarn);
    }
    Ok(())
}

fn gated_by_sigmoid(model: &SourceModel<'_>) -> bool {
    let gating = model.config.experts.expert_gating.as_ref();
    gating.is_some_and(|gating| gating.value == Gating::Sigmoid)
}

/// The keys that mlx-lm's class of GLM 5 reads, and that transformers' class computes without.
fn routing_of_glm(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (key, value) in [
        ("moe_layer_freq", Json::from(1)),
        ("scoring_func", "sigmoid".into()),
        ("topk_method", "noaux_tc".into()),
    ] {
        let stated = out.entry(key).or_insert(Json::Null);
        if *stated == Json::Null {
            *stated = value;
        }
    }
    Ok(())
}

/// The choice of experts in DeepSeek 2: among all of them, or among those of the best groups.
fn choice(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let groups = model.config.experts.n_expert_groups.as_ref().map_or(1, |groups| groups.value);
    let method = if groups > 1 { "group_limited_greedy" } else { "greedy" };
    out.insert("topk_method".to_owned(), method.into());
    Ok(())
}

/// DeepSeek's latent attention and experts.
fn latent_widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    for (field, key) in [
        ("q_lora_rank", "q_lora_rank"),
        ("kv_lora_rank", "kv_lora_rank"),
        ("qk_nope_head_dim", "qk_nope_head_dim"),
        ("rope_dimension_count", "qk_rope_head_dim"),
        ("value_head_dim", "v_head_dim"),
        ("n_experts", "n_routed_experts"),
        ("n_experts_used", "num_experts_per_tok"),
        ("n_shared_experts", "n_shared_experts"),
        ("expert_ffn_dim", "moe_intermediate_size"),
        ("n_leading_dense_layers", "first_k_dense_replace"),
        ("n_expert_groups", "n_group"),
        ("n_expert_groups_used", "topk_group"),
        ("expert_weights_scale", "routed_scaling_factor"),
    ] {
        let value = model.derived(field);
        match (value, key) {
            (Some(value), _) => out.insert(key.to_owned(), value),
            // DeepSeek 2 Lite has no `q_lora_rank`, and its config states `null`.
            (None, "q_lora_rank") => out.insert(key.to_owned(), Json::Null),
            (None, "n_group" | "topk_group" | "routed_scaling_factor") => None,
            (None, _) => return Err(model.missing_in_model(key)),
        };
    }
    let norm = model.config.experts.expert_weights_norm.as_ref().is_some_and(|norm| norm.value);
    out.insert("norm_topk_prob".to_owned(), norm.into());
    out.insert("moe_layer_freq".to_owned(), 1.into());
    out.insert("attention_bias".to_owned(), model.has_in_layers("attention.kv_a.bias").into());
    Ok(())
}

/// DeepSeek's YaRN: the converter stores `mscale_all_dim` divided by ten.
fn deepseek_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let Some(multiplier) = &model.config.rope_scaling.log_multiplier else { return Ok(()) };
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        // Ten times the digits of the `f32`, rounded once: 0.0707 is that of 0.707.
        let tenth = multiplier.value.reported().as_f64().unwrap_or_default();
        let all = f32_of(10.0 * tenth).reported();
        rope.insert("mscale".to_owned(), all.clone());
        rope.insert("mscale_all_dim".to_owned(), all);
    }
    Ok(())
}
