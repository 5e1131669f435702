//! The `create` verb: models in Ollama's store.

use super::convert::{ConvertOptions, QuantizationRules, with_layers};
use crate::container::OLLAMA;
use crate::error::Result;
use crate::model::Model;
use crate::ollama::create::CreateOptions;
use crate::write::WritePlan;

/// Plans a model in Ollama's store. Run the plan with the path that
/// [`place`](crate::container::ollama::place) gives for the model's name.
///
/// A GGUF model that is not quantized becomes one blob, a copy of its file. Another model becomes
/// one blob for each tensor, like a model made with `ollama create --experimental`.
///
/// # Errors
///
/// Same as [`convert`](super::convert); `Unsupported` for a GGUF file that Ollama does not read,
/// and for an adapter or projector of a model of tensor blobs.
pub fn create(model: &Model, options: CreateOptions) -> Result<WritePlan> {
    let mut convert = ConvertOptions::new(&OLLAMA);
    if let Some(quantization) = options.quantization {
        convert = convert.quantize(QuantizationRules::Ollama(quantization));
    }
    let mut plan = with_layers(model, &convert, &options.layers)?;
    plan.notes.extend(options.ignored);
    Ok(plan)
}
