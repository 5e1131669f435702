//! Falcon H1: attention and Mamba 2 of the same input, and factors in many places. llama.cpp and mlx-lm
//! have no factors: their weights are products with them.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("mixers", Step::Config(mixers)),
    ("neutral", Step::Keys(neutral)),
    ("neutral_for_mlx", Step::Mlx(neutral_for_mlx)),
];

/// Single factors of `config.json`.
const FACTORS: [&str; 7] = [
    "attention_in_multiplier",
    "attention_out_multiplier",
    "embedding_multiplier",
    "key_multiplier",
    "lm_head_multiplier",
    "ssm_in_multiplier",
    "ssm_out_multiplier",
];

/// Lists of factors.
const LISTS: [&str; 2] = ["mlp_multipliers", "ssm_multipliers"];

/// The first factor that is not 1.
fn factor(model: &SourceModel<'_>) -> Result<Option<String>> {
    for name in FACTORS {
        if let Some(factor) = model.real(name)?.filter(|factor| *factor != 1.0) {
            return Ok(Some(format!("{name} is {factor}")));
        }
    }
    for name in LISTS {
        if let Some(factor) = model.reals(name)?.into_iter().find(|factor| *factor != 1.0) {
            return Ok(Some(format!("{name} has {factor}")));
        }
    }
    Ok(None)
}

fn neutral(model: &SourceModel<'_>, _: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(factor) = factor(model)? {
        let advice = "llama.cpp's convert_hf_to_gguf.py multiplies the weights by these factors";
        return Err(model.inexpressible_in_gguf(&factor).advise(advice));
    }
    let before_gate = model.config_value("mamba_norm_before_gate").and_then(Json::as_bool);
    match before_gate.unwrap_or(true) && model.has_in_layers("ssm.norm.weight") {
        true => Err(model.inexpressible_in_gguf("a norm of the state space before its gate")),
        false => Ok(()),
    }
}

/// mlx-lm's defaults are the factors of one published model. Its norm of the state space has no groups.
fn neutral_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(factor) = factor(model)? {
        return Err(model.inexpressible_in_mlx_lm(&factor));
    }
    let groups = model.config.ssm.group_count.as_ref().map_or(1, |groups| groups.value);
    if groups > 1 && model.has_in_layers("ssm.norm.weight") {
        let fault = format!("norms of {groups} groups of a state space");
        return Err(model.inexpressible_in_mlx_lm(&fault));
    }
    for name in FACTORS {
        out.insert(name.to_owned(), 1.0.into());
    }
    out.insert("mlp_multipliers".to_owned(), json!([1.0, 1.0]));
    out.insert("ssm_multipliers".to_owned(), json!([1.0, 1.0, 1.0, 1.0, 1.0]));
    Ok(())
}

/// The heads of the state space, and biases.
fn mixers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let ssm = &model.config.ssm;
    let heads = ssm.time_step_rank.as_ref().map(|heads| heads.value);
    let inner = ssm.inner_size.as_ref().map(|inner| inner.value);
    let width = inner.zip(heads).and_then(|(inner, heads)| inner.checked_div(heads));
    let (Some(heads), Some(inner), Some(width)) = (heads, inner, width) else {
        return Err(model.missing_in_model("ssm.inner_size"));
    };
    out.insert("mamba_n_heads".to_owned(), heads.into());
    out.insert("mamba_d_head".to_owned(), width.into());
    out.insert("mamba_d_ssm".to_owned(), inner.into());
    for (key, tensor) in [
        ("attention_bias", "attention.q.bias"),
        ("mamba_conv_bias", "ssm.conv.bias"),
        ("mamba_proj_bias", "ssm.in.bias"),
        ("mamba_rms_norm", "ssm.norm.weight"),
        ("mlp_bias", "ffn.up.bias"),
    ] {
        out.insert(key.to_owned(), model.has_in_layers(tensor).into());
    }
    // llama.cpp gates before it norms.
    out.insert("mamba_norm_before_gate".to_owned(), false.into());
    Ok(())
}
