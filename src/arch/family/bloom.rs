//! BLOOM and MPT: attention scores fall with the distance of two tokens (ALiBi).

use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::rounding::f32_of;

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("attention_config", Step::Config(attention_config)),
    ("scores", Step::Keys(scores)),
    ("trained_length", Step::Keys(trained_length)),
];

/// The default of the class, as a power of 2: the smallest slope is its inverse.
const USUAL_SLOPES: f32 = 8.0;

/// The positions that the model was trained with. The converter takes the width if no file states them.
fn trained_length(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let stated = model.count("seq_length")?;
    keys.count("context_length", stated.unwrap_or(model.config.dim.value));
    Ok(())
}

/// The bound of queries, keys and values, and the slopes of ALiBi. llama.cpp has no key for the factor of
/// scores.
fn scores(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if model.config.attention.attention_scale.is_some() {
        return Err(model.inexpressible_in_gguf("a softmax_scale"));
    }
    if let Some(bound) = model.real("attn_config.clip_qkv")? {
        keys.real("attention.clamp_kqv", bound);
    }
    let has_slopes = model.config_value("attn_config.alibi").and_then(Json::as_bool);
    let slopes = match has_slopes {
        Some(false) => Some(0.0),
        _ => model.real("attn_config.alibi_bias_max")?,
    };
    keys.real("attention.max_alibi_bias", slopes.unwrap_or(USUAL_SLOPES));
    Ok(())
}

/// The inverse of [`scores`].
fn attention_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = |key: &str| {
        let value = model.metadata().get(&format!("{}.{key}", model.architecture()));
        value.and_then(|value| value.to_f64()).map(f32_of)
    };
    let slopes = stated("attention.max_alibi_bias").unwrap_or(0.0);
    if slopes != 0.0 && slopes != USUAL_SLOPES {
        let fault = format!("an attention.max_alibi_bias of {slopes}");
        return Err(model.inexpressible(&fault));
    }
    let clip = stated("attention.clamp_kqv").map_or(Json::Null, |bound| bound.reported());
    let config = [("alibi".to_owned(), (slopes > 0.0).into()), ("clip_qkv".to_owned(), clip)];
    out.insert("attn_config".to_owned(), Json::Object(Map::from_iter(config)));
    Ok(())
}
