//! The headline facts of a model: its name, size, context and license.

use crate::adapter::Adapter;
use crate::dtype::DType;
use crate::metadata::Value;
use crate::model::{Model, QuantizationSummary};
use crate::ollama;
use crate::recipe::FileType;
use crate::store::Store;
use crate::tokenizer;
use crate::translate::{card, card::Card, general};

/// The headline facts of a model. A fact that no file states is `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelSummary {
    /// The name that its metadata or its config states.
    pub name: Option<String>,
    /// The number of weights in a few characters, such as `8B` or `8x7B`: as the metadata state it,
    /// else rounded as llama.cpp does.
    pub size_label: Option<String>,
    /// The number of weights that one token needs, of a mixture of experts: all but those of experts that the router does
    /// not choose. `None` for other models.
    pub active_weights: Option<u64>,
    /// The version of the container's format: 1 to 3 for GGUF.
    pub version: Option<u32>,
    /// The file type by its llama-quantize name, such as `Q4_K_M`. `None` if the metadata has none,
    /// as in every other container than GGUF.
    pub file_type: Option<String>,
    /// The quantized dtype of most weights, or the dtype of most if none is quantized. MLX dtypes
    /// are followed by their group size: `MLX_AFFINE4 g64`.
    pub main_dtype: Option<String>,
    /// Bits of an average weight, scales included.
    pub bits_per_weight: Option<f64>,
    /// The most tokens that the model was made for.
    pub context_length: Option<u64>,
    /// The license, by the identifier or the first line of the text that comes with the model.
    pub license: Option<String>,
    /// Whether a chat template comes with the model.
    pub chat_template: bool,
    /// The model's capabilities, as Ollama derives them: `completion`, `tools`, `thinking`, `vision`,
    /// `audio`, `insert`, `embedding`. Empty for what it does not run.
    pub capabilities: Vec<String>,
    /// The models that it was made from, if stated.
    pub base_models: Vec<String>,
}

/// Reports what people look for first in a model. Reads no tensor data.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let summary = ops::summarize(&model);
/// assert_eq!(summary.file_type.as_deref(), Some("Q8_0"));
/// assert_eq!((summary.version, summary.context_length), (Some(3), Some(256)));
/// # Ok(())
/// # }
/// ```
pub fn summarize(model: &Model) -> ModelSummary {
    let store = &**model.store();
    let metadata = model.metadata();
    let quantization = model.quantization();
    let name = metadata.str("general.name").filter(|name| !name.is_empty());
    ModelSummary {
        name: name.or_else(|| general::name_in_config(store)).map(str::to_owned),
        size_label: size_label(model, quantization.elements()),
        active_weights: active_weights(model, quantization.elements()),
        version: store.version(),
        file_type: file_type(model),
        main_dtype: main_dtype(&quantization),
        bits_per_weight: quantization.bits_per_weight(),
        context_length: context_length(model),
        license: license(store),
        chat_template: tokenizer::has_chat_template(store),
        capabilities: ollama::capabilities(model),
        base_models: base_models(model),
    }
}

fn size_label(model: &Model, weights: u64) -> Option<String> {
    let stated = model.metadata().str("general.size_label").filter(|label| !label.is_empty());
    stated.map(str::to_owned).or_else(|| {
        // A label counts thousands.
        if weights < 1000 {
            return None;
        }
        let resolution = model.resolution().ok().filter(|found| found.architecture.is_some());
        general::counted_size(model.store(), resolution, weights)
    })
}

fn active_weights(model: &Model, all: u64) -> Option<u64> {
    let (config, resolution) = (model.config().ok()?, model.resolution().ok()?);
    let (count, used) = (config.n_experts.value, config.experts.n_experts_used.as_ref()?.value);
    let idle = count.checked_sub(used).filter(|idle| *idle > 0)?;
    let experts = resolution.mapped.iter().filter(|of| of.canonical.contains(".ffn.experts."));
    let stored =
        experts.flat_map(|of| &of.stored).filter_map(|name| model.stored_tensor(name).ok());
    let elements = stored.map(|tensor| u128::from(tensor.elements())).sum::<u128>();
    let idle = elements.checked_mul(idle.into())?.checked_div(count.into())?;
    all.checked_sub(u64::try_from(idle).ok()?).filter(|active| *active < all)
}

/// The models that a model was made from: from GGUF's metadata, the configuration of an adapter, or
/// the model card of a directory.
fn base_models(model: &Model) -> Vec<String> {
    let stated = card::base_models(model.metadata());
    if !stated.is_empty() {
        return stated;
    }
    if let Ok(Some(adapter)) = Adapter::of(model) {
        return adapter.base_model().map(str::to_owned).into_iter().collect();
    }
    Card::of(model.store()).base_models().map(str::to_owned).collect()
}

/// The file type by its llama-quantize name, if the metadata state one that the tensors do not contradict.
pub(crate) fn file_type(model: &Model) -> Option<String> {
    let stated = file_type_name(&model.metadata().get("general.file_type")?)?;
    let named = FileType::from_name(&stated).and_then(|found| found.descriptor().base);
    let dtypes = model.quantization().dtypes;
    let is_there = |dtype: DType| dtypes.iter().any(|found| found.label == dtype.name());
    (dtypes.is_empty() || named.is_none_or(is_there)).then_some(stated)
}

/// The quantized dtype of most weights, or the dtype of most if none is quantized.
pub(crate) fn main_dtype(quantization: &QuantizationSummary) -> Option<String> {
    let main = quantization.most().or(quantization.dtypes.first())?;
    Some(match main.group_size {
        Some(size) => format!("{} g{size}", main.label),
        None => main.label.to_string(),
    })
}

/// The name of a file type, which llama.cpp stores as a number.
fn file_type_name(value: &Value<'_>) -> Option<String> {
    /// Set by llama.cpp if it guessed the file type from the tensors (`LLAMA_FTYPE_GUESSED`).
    const GUESSED: u64 = 1024;
    let number = value.to_u64()? & !GUESSED;
    let known = u32::try_from(number).ok().and_then(FileType::from_number);
    Some(known.map_or_else(|| format!("unknown file type {number}"), |known| known.to_string()))
}

/// The context of the config. The config of an unknown family cannot be read, but its key in GGUF
/// follows from the family's name.
fn context_length(model: &Model) -> Option<u64> {
    if let Some(length) = model.config().ok().and_then(|config| config.max_seq_len.as_ref()) {
        return Some(length.value.into());
    }
    let family = model.metadata().str("general.architecture")?;
    model.metadata().get(&format!("{family}.context_length"))?.to_u64()
}

/// The license: from GGUF's metadata, a license layer of Ollama, or the model card of a directory.
fn license(store: &Store) -> Option<String> {
    let metadata = store.metadata();
    let keys = ["general.license", "general.license.name", "ollama.license"];
    let stated = keys.iter().find_map(|key| metadata.str(key).and_then(first_line));
    stated.map(str::to_owned).or_else(|| Card::of(store).license().map(str::to_owned))
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_types_have_names() {
        let rows = [
            (Value::U32(15), Some("Q4_K_M")),
            (Value::U32(1024 + 7), Some("Q8_0")),
            (Value::I32(1), Some("F16")),
            (Value::U32(999), Some("unknown file type 999")),
            (Value::Bool(true), None),
        ];
        for (value, name) in rows {
            assert_eq!(file_type_name(&value).as_deref(), name, "{value:?}");
        }
    }
}
