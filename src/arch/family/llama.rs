//! Llama, Mistral and Mixtral, and families that differ from them in their numbers only. In GGUF,
//! the rows of q and k are reordered into pairs.

use super::decoder::json;
use super::step::{Step, Steps};
use crate::arch::ModelConfig;
use crate::arch::config::Field;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("biased", Step::Config(biased)),
    ("clip_config", Step::Config(clip_config)),
    ("clip_key", Step::Keys(clip_key)),
    ("has_experts", Step::Fits(has_experts)),
    ("has_temperature", Step::Fits(has_temperature)),
    ("has_window", Step::Fits(has_window)),
    ("loops", Step::Keys(loops)),
    ("minicpm_config", Step::Config(minicpm_config)),
    ("minicpm_keys", Step::Keys(minicpm_keys)),
    ("mistral_yarn", Step::Config(mistral_yarn)),
    ("no_window", Step::Config(no_window)),
    ("plain_bias", Step::Config(plain_bias)),
    ("temperature", Step::Keys(temperature)),
];

/// The class of transformers for a `params.json` with Ministral 3's scaling of attention, and the key that says so.
///
/// # Errors
///
/// `Unsupported` for two lengths: the class and llama.cpp have one.
pub(in crate::arch) fn class_in_params(
    params: &Json,
) -> Result<Option<(&'static str, &'static str)>> {
    let (growth, yarn) = (params.get("llama_4_scaling"), params.get("yarn"));
    let grows = growth.is_some_and(Json::is_object);
    let is_flat = yarn.and_then(|yarn| yarn.get("apply_scale")?.as_bool()) == Some(false);
    let key = if grows { "llama_4_scaling" } else { "yarn.apply_scale" };
    let length = |object: Option<&Json>| object?.get("original_max_position_embeddings").cloned();
    match (length(growth), length(yarn)) {
        (Some(own), Some(other)) if own != other => {
            let fault = format!("{own}, but the value in yarn, {other}, is needed");
            let key = "llama_4_scaling.original_max_position_embeddings";
            Err(Error::unsupported(fault).in_key(key))
        }
        _ => Ok((grows || is_flat).then_some(("ministral3", key))),
    }
}

/// Ministral 3's scaling of attention by the logarithm of the position.
fn temperature(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let all = model.config.rope_scaling.mscale_all_dim.as_ref();
    let all = all.ok_or_else(|| model.missing_in_config("rope_parameters.mscale_all_dim"))?;
    keys.real("rope.scaling.yarn_log_multiplier", all.value);
    let path = "rope_parameters.llama_4_scaling_beta";
    let beta = model.real(path)?.or(growth_in_params(model)?);
    keys.real("attention.temperature_scale", beta.ok_or_else(|| model.missing_in_config(path))?);
    Ok(())
}

/// The same number by Mistral's own name, in a `params.json`.
fn growth_in_params(model: &SourceModel<'_>) -> Result<Option<f32>> {
    let is_params = model.config_value("yarn").is_some();
    Ok(is_params.then_some(model.real("llama_4_scaling.beta")?.unwrap_or(0.0)))
}

fn minicpm_keys(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let need = |path| model.real(path)?.ok_or_else(|| model.missing_in_config(path));
    keys.real("embedding_scale", need("scale_emb")?);
    let layers = f64::from(model.config.n_layers.value).sqrt();
    let residual = f32_of(f64::from(need("scale_depth")?) / layers);
    keys.real("residual_scale", residual);
    let logits = f32_of(f64::from(model.config.dim.value) / f64::from(need("dim_model_base")?));
    keys.real("logit_scale", logits);
    Ok(())
}

fn loops(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.count("num_loops", model.count("num_loops")?.unwrap_or(1).max(1));
    let skip = model.config_value("skip_loop_final_norm").and_then(Json::as_bool).unwrap_or(false);
    keys.set("skip_loop_final_norm", &skip.into());
    Ok(())
}

fn clip_key(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(bound) = model.real("clip_qkv")? {
        keys.real("attention.clamp_kqv", bound);
    }
    Ok(())
}

fn has_experts(model: &SourceModel<'_>) -> bool {
    model.config.n_experts.value > 0
}

fn has_window(model: &SourceModel<'_>) -> bool {
    model.config.attention.sliding_window.is_some()
}

fn has_temperature(model: &SourceModel<'_>) -> bool {
    model.gguf_value("attention.temperature_scale").is_ok()
        || growth_in_params(model).is_ok_and(|beta| beta.is_some())
}

/// Biases of attention and of the feed-forward network.
fn biased(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    json::biased(model, out)?;
    out.insert("mlp_bias".to_owned(), model.has("layers.0.ffn.up.bias").into());
    Ok(())
}

fn plain_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("bias".to_owned(), model.has_in_layers("attention.q.bias").into());
    Ok(())
}

/// Mistral's YaRN, and Ministral 3's attention temperature. GGUF has one magnitude factor for two
/// in the config, which are equal in the published models.
fn mistral_yarn(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rope = ["rope_parameters", "rope_scaling"].into_iter().find(|key| out.contains_key(key));
    let Some(Json::Object(rope)) = rope.and_then(|key| out.get_mut(key)) else { return Ok(()) };
    let scaling = &model.config.rope_scaling;
    if let Some(multiplier) = scaling.log_multiplier.as_ref().or(scaling.mscale_all_dim.as_ref()) {
        rope.insert("mscale".to_owned(), multiplier.value.reported());
        rope.insert("mscale_all_dim".to_owned(), multiplier.value.reported());
    }
    let beta = match model.gguf_value("attention.temperature_scale") {
        Ok(beta) => Some(beta),
        Err(_) => growth_in_params(model)?.map(|beta| beta.reported()),
    };
    rope.extend(beta.map(|beta| ("llama_4_scaling_beta".to_owned(), beta)));
    Ok(())
}

/// Mistral's class has a sliding window unless the config says `null`.
fn no_window(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("sliding_window".to_owned(), Json::Null);
    Ok(())
}

/// MiniCPM's factors; the converter stores their products.
fn minicpm_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let ModelConfig { dim, n_layers, scales, .. } = &model.config;
    let need = |field: &Option<Field<f32>>, key: &str| {
        let value = field.as_ref().map(|field| f64::from(field.value));
        value.ok_or_else(|| model.missing_in_model(key))
    };
    let residual = need(&scales.residual_scale, "residual_scale")?;
    let depth = residual * f64::from(n_layers.value).sqrt();
    let base = f64::from(dim.value) / need(&scales.logit_scale, "logit_scale")?;
    let embedding = need(&scales.embedding_scale, "embedding_scale")?;
    for (key, value) in [("scale_depth", depth), ("scale_emb", embedding)] {
        // Six digits, the precision that an f32 keeps through a square root and back.
        let value = (value * 1e6).round() / 1e6;
        out.insert(key.to_owned(), value.into());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width")]
    let base = base.round() as u32;
    out.insert("dim_model_base".to_owned(), base.into());
    Ok(())
}

/// OLMo's clipping of queries, keys and values, in some of its models.
fn clip_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Ok(bound) = model.gguf_value("attention.clamp_kqv") {
        out.insert("clip_qkv".to_owned(), bound);
    }
    Ok(())
}
