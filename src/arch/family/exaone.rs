//! EXAONE 3 and 3.5: Llama's network under GPT-2's names. Transformers runs them by code of the
//! model's own.

use super::step::{Step, Steps};
use crate::arch::config::Reported;
use crate::arch::source::{KeyWriter, SourceModel};
use crate::error::Result;
use crate::json::{Json, Map};

/// The functions that the families' files name.
pub(super) const STEPS: Steps =
    &[("epsilon", Step::Keys(epsilon)), ("layers", Step::Config(layers))];

/// The converter takes the epsilon for that of layer norms, by its name. llama.cpp requires it under
/// the name of RMS norms, which these are.
fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let eps = model.config.norm_eps.as_ref().map(|eps| eps.value);
    let eps = eps.ok_or_else(|| model.missing_in_config("layer_norm_epsilon"))?;
    keys.real("attention.layer_norm_epsilon", eps);
    keys.real("attention.layer_norm_rms_epsilon", eps);
    Ok(())
}

fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.remove("num_hidden_layers");
    out.insert("num_layers".to_owned(), model.own_layers().reported());
    Ok(())
}
