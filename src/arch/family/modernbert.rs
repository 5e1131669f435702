//! ModernBERT: an encoder with norms before attention and network, rotary embeddings, and layers that
//! attend to a window on both sides.

use super::step::{Step, Steps};
use crate::arch::LayerKind;
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map, json};

/// The functions that the families' files name.
pub(super) const STEPS: Steps = &[
    ("activation", Step::Keys(activation)),
    ("pattern", Step::Keys(pattern)),
    ("pooled", Step::Config(pooled)),
    ("pooling_of_classifier", Step::Keys(pooling_of_classifier)),
    ("ropes", Step::Config(ropes)),
];

/// The poolings of a classifier, as numbers of llama.cpp.
const POOLINGS: [(&str, u32); 2] = [("mean", 1), ("cls", 2)];

fn pooling_of_classifier(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let stated = model.config_value("classifier_pooling").and_then(Json::as_str);
    let number = POOLINGS.iter().find(|(name, _)| Some(*name) == stated);
    number.into_iter().for_each(|(_, number)| keys.count("classifier.pooling_type", *number));
    Ok(())
}

/// The inverse of [`pooling_of_classifier`]. llama.cpp takes the mean where a file states nothing.
fn pooled(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.metadata().u64(&format!("{}.classifier.pooling_type", model.architecture()));
    let name = POOLINGS.iter().find(|(_, number)| stated.unwrap_or(1) == u64::from(*number));
    out.extend(name.map(|(name, _)| ("classifier_pooling".to_owned(), (*name).into())));
    Ok(())
}

/// The layers that attend to a window: the period if the config states one, or a list.
fn pattern(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let period = model.count("global_attn_every_n_layers")?;
    if let Some(period) = period {
        keys.count("attention.sliding_window_pattern", period);
    } else if let Some(kinds) = model.kinds() {
        let slides: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Sliding).collect();
        let usual = slides.iter().enumerate().all(|(layer, slides)| *slides == (layer % 3 != 0));
        if !usual {
            keys.flags("attention.sliding_window_pattern", &slides);
        }
    }
    Ok(())
}

fn activation(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(activation) = &model.config.activation {
        keys.set("hidden_activation", &activation.value.reported());
    }
    Ok(())
}

/// Rotary embeddings of each kind of layer.
fn ropes(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let full = model.config.rope_theta.value;
    let local = model.config.rope.local_theta.as_ref().map_or(full, |theta| theta.value);
    let of = |theta: f32| json!({ "rope_type": "default", "rope_theta": theta.reported() });
    let both = json!({ "full_attention": of(full), "sliding_attention": of(local) });
    out.insert("rope_parameters".to_owned(), both);
    Ok(())
}
