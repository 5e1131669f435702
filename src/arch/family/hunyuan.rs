//! Hunyuan, dense and with experts: norms of the heads of q and k, which follow the rotation.

use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("equal_widths", Step::Config(equal_widths)),
    ("experts", Step::Keys(experts)),
    ("is_first_version", Step::Is(is_first_version)),
    ("stretched_base", Step::Keys(stretched_base)),
];

/// Whether a `config.json` with the model type of Hunyuan Large is that of Hunyuan A13B.
fn is_first_version(config: &Json) -> bool {
    config["architectures"][0].as_str() == Some("HunYuanMoEV1ForCausalLM")
}

/// Numbers of experts that configs state for each layer, and GGUF for all.
const ALIKE: [&str; 3] = ["moe_intermediate_size", "moe_topk", "num_shared_expert"];

/// Experts, all as wide as the shared one.
fn experts(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    for key in ALIKE {
        let each = model.config_value(key).and_then(Json::as_array);
        if each.is_some_and(|each| each.iter().any(|value| Some(value) != each.first())) {
            return Err(model.inexpressible_in_gguf(&format!("a {key} for each layer")));
        }
    }
    let experts = &model.config.experts;
    let width = model.config.ffn_dim.as_ref().map(|width| width.value);
    let width = width.ok_or_else(|| model.missing_in_config("intermediate_size"))?;
    keys.count("expert_shared_feed_forward_length", width);
    keys.count(
        "expert_feed_forward_length",
        experts.expert_ffn_dim.as_ref().map_or(width, |own| own.value),
    );
    keys.count(
        "expert_shared_count",
        experts.n_shared_experts.as_ref().map_or(1, |shared| shared.value),
    );
    Ok(())
}

/// Transformers' class has one width for all experts.
fn equal_widths(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    let experts = &model.config.experts;
    let dense = model.config.ffn_dim.as_ref().map(|width| width.value);
    for width in [&experts.expert_ffn_dim, &experts.shared_expert_ffn_dim].into_iter().flatten() {
        if Some(width.value) != dense {
            return Err(model.inexpressible(&format!("experts of width {}", width.value)));
        }
    }
    Ok(())
}

/// The length of context that the converter states for a stretched base.
const LONGEST: u32 = 256 * 1024;

/// The base of rotary embeddings, stretched by `alpha`: `base * alpha^(width / (width - 2))`.
fn stretched_base(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(base) = model.config.stretched_rope_theta() else { return Ok(()) };
    keys.real("rope.freq_base", base);
    keys.set("rope.scaling.type", &"none".into());
    keys.set("rope.scaling.factor", &json!(1.0));
    keys.count("rope.scaling.original_context_length", LONGEST);
    keys.count("context_length", LONGEST);
    Ok(())
}
