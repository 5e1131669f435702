//! The `create` verb: models in Ollama's store.

use super::convert::{ConvertOptions, QuantizationRules, with_layers};
use super::extract::adapter_in_gguf;
use super::judge::judged;
use super::quantize;
use crate::container::OLLAMA;
use crate::error::{AdvisedOption, Result};
use crate::model::Model;
use crate::ollama::{self, create::CreateOptions};
use crate::recipe::llama_cpp::LlamaOptions;
use crate::write::WritePlan;

/// Plans a model in Ollama's store. Run the plan with the path that
/// [`place`](crate::container::ollama::place) gives for the model's name.
///
/// A GGUF model that is not quantized becomes one blob, a copy of its file, and one that is quantized to a file type the
/// blob of a new file. Another model becomes one blob for each tensor, like a model made with `ollama create --experimental`.
///
/// # Errors
///
/// Same as [`convert`](super::convert); `Unsupported` for a GGUF file that Ollama does not read,
/// and for an adapter or projector of a model of tensor blobs; same as [`adapter_in_gguf`](super::adapter_in_gguf) for an
/// adapter that is not in GGUF.
pub fn create(model: &Model, options: CreateOptions) -> Result<WritePlan> {
    if let Some(file_type) = options.file_type {
        let llama = LlamaOptions::new(file_type);
        let made = quantize::built(model, &llama, None, model.path()).map_err(|error| {
            let advice = "create the model from the original, or with a further loss by {}";
            let (lacking, instead) =
                (AdvisedOption::AllowRequantize, AdvisedOption::RequantizeFirst);
            error.advise_instead(lacking, advice, instead)
        })?;
        let builder = ollama::made_blob(model, made, &options.layers);
        let mut plan = judged(builder.map_err(|error| error.in_file(model.path()))?, model, false)?;
        attach(&mut plan, model, &options.layers)?;
        plan.notes.extend(options.ignored);
        return Ok(plan);
    }
    let mut convert = ConvertOptions::new(&OLLAMA);
    if let Some(quantization) = options.quantization {
        convert = convert.quantize(QuantizationRules::Ollama(quantization));
    }
    let mut plan = with_layers(model, &convert, &options.layers)?;
    attach(&mut plan, model, &options.layers)?;
    plan.notes.extend(options.ignored);
    Ok(plan)
}

/// Adds the adapters that are not in GGUF, converted for the model.
fn attach(plan: &mut WritePlan, model: &Model, layers: &ollama::NewLayers) -> Result<()> {
    for adapter in &layers.adapters {
        plan.attach("adapter", adapter_in_gguf(adapter, model, None)?);
    }
    Ok(())
}
