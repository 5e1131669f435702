//! Mamba 1 and 2: state spaces in all layers, and neither attention nor a feed-forward network.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("epsilon", Step::Keys(epsilon)),
    ("heads", Step::Config(heads)),
    ("limits", Step::Mlx(limits)),
    ("norms_mixers", Step::Fits(norms_mixers)),
    ("widths", Step::Config(widths)),
];

fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.real(
        "attention.layer_norm_rms_epsilon",
        model.config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value),
    );
    Ok(())
}

/// Whether a GGUF file is Falcon Mamba's.
fn norms_mixers(model: &SourceModel<'_>) -> bool {
    let flag = model.metadata().get("mamba.ssm.dt_b_c_rms").and_then(|value| value.to_bool());
    flag == Some(true)
}

/// The inner width and biases, and what a model without attention does not state.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let inner = model.config.ssm.inner_size.as_ref().map(|inner| inner.value);
    let expand = inner.and_then(|inner| inner.checked_div(model.config.dim.value));
    let (Some(inner), Some(expand)) = (inner, expand) else {
        return Err(model.missing_in_model("ssm.inner_size"));
    };
    for key in ["num_attention_heads", "max_position_embeddings"] {
        out.remove(key);
    }
    out.insert("intermediate_size".to_owned(), inner.into());
    out.insert("expand".to_owned(), expand.into());
    out.insert("use_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    out.insert("use_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    Ok(())
}

/// The heads of Mamba 2. GGUF keeps their number as the rank of time steps.
fn heads(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let (heads, width) = state_heads(model)?;
    out.insert("num_heads".to_owned(), heads.into());
    out.insert("head_dim".to_owned(), width.into());
    Ok(())
}

/// The number of heads of a state space, and the width of each.
pub(super) fn state_heads(model: &SourceModel<'_>) -> Result<(u32, u32)> {
    let ssm = &model.config.ssm;
    let heads = ssm.time_step_rank.as_ref().map(|heads| heads.value);
    let width = ssm.inner_size.as_ref().zip(heads);
    let width = width.and_then(|(inner, heads)| inner.value.checked_div(heads));
    heads.zip(width).ok_or_else(|| model.missing_in_model("ssm.time_step_rank"))
}

/// mlx-lm requires bounds of time steps, and the inner width. Transformers' defaults are 0 and infinity,
/// which JSON cannot express.
fn limits(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    finite_limits(out);
    widths(model, out)
}

pub(super) fn finite_limits(out: &mut Map<String, Json>) {
    let key = "time_step_limit";
    let stated = out.get(key).and_then(Json::as_array);
    if !stated.is_some_and(|bounds| bounds.iter().all(Json::is_number)) {
        out.insert(key.to_owned(), json!([0.0, 3.0e38]));
    }
}
