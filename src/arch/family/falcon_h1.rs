//! Falcon H1: attention and Mamba 2 of the same input.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("gated_first", Step::Keys(gated_first)),
    ("mixers", Step::Config(mixers)),
    ("ungrouped", Step::Mlx(ungrouped)),
];

fn gated_first(model: &SourceModel<'_>, _: &mut KeyWriter<'_>) -> Result<()> {
    let before_gate = model.config_value("mamba_norm_before_gate").and_then(Json::as_bool);
    match before_gate.unwrap_or(true) && model.has_in_layers("ssm.norm.weight") {
        true => Err(model.inexpressible_in_gguf("a norm of the state space before its gate")),
        false => Ok(()),
    }
}

/// mlx-lm's norm of the state space has no groups.
fn ungrouped(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    let groups = model.config.ssm.group_count.as_ref().map_or(1, |groups| groups.value);
    match groups > 1 && model.has_in_layers("ssm.norm.weight") {
        true => {
            let fault = format!("norms of {groups} groups of a state space");
            Err(model.inexpressible_in_mlx_lm(&fault))
        }
        false => Ok(()),
    }
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
