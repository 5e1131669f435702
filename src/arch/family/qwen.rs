//! Qwen 2 and 3, dense and with experts.

use super::decoder::json;
use super::step::{Step, Steps};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("both_halves", Step::Config(both_halves)),
    ("deepstack", Step::Keys(deepstack)),
    ("interleaved_sections", Step::Config(interleaved_sections)),
    ("is_second_minicpmv", Step::Is(is_second_minicpmv)),
    ("sections", Step::Config(sections)),
];

/// Whether a `config.json` of MiniCPM-V is that of version 2.6, whose text model is Qwen 2. That of 4.5 is Qwen 3.
fn is_second_minicpmv(config: &Json) -> bool {
    let version = &config["version"];
    let number = version.as_f64().or_else(|| version.as_str()?.parse().ok());
    config["model_type"].as_str() == Some("minicpmv") && number.is_some_and(|number| number < 3.0)
}

fn deepstack(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let layers =
        model.config_value("vision_config.deepstack_visual_indexes").and_then(Json::as_array);
    let layers = layers.map_or(0, |layers| u32::try_from(layers.len()).unwrap_or(u32::MAX));
    keys.count("n_deepstack_layers", layers);
    Ok(())
}

/// The width of a network, which Qwen 1 counts twice: for the gates and for what they let through.
fn both_halves(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let half = model.config.ffn_dim.as_ref().map(|width| u64::from(width.value));
    let both = half.and_then(|half| half.checked_mul(2));
    let both = both.ok_or_else(|| model.missing_in_model("the width of the network"))?;
    out.insert("intermediate_size".to_owned(), both.into());
    Ok(())
}

/// Parts of a head that are rotated by time, height and width.
fn sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    put_sections(model, json::sections(model, false), out)
}

/// The same for Qwen3-VL and later, which interleave the parts.
fn interleaved_sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    put_sections(model, json::sections(model, true), out)
}

fn put_sections(
    model: &SourceModel<'_>,
    sections: Vec<(String, Json)>,
    out: &mut Map<String, Json>,
) -> Result<()> {
    if sections.is_empty() {
        return Err(model.missing_in_model("rope.dimension_sections"));
    }
    let rope = out.entry("rope_scaling").or_insert_with(|| json!({"rope_type": "default"}));
    if let Json::Object(rope) = rope {
        rope.extend(sections);
    }
    Ok(())
}
