//! What people look for first in a model: its name, size, context and license.

use crate::metadata::Value;
use crate::model::Model;
use crate::recipe::FileType;
use crate::store::Store;
use crate::tokenizer;
use crate::translate;

/// What people look for first in a model. What no file of the model states is `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModelSummary {
    /// The name that its metadata or its config states.
    pub name: Option<String>,
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
    let main = quantization.most().or(quantization.dtypes.first());
    let name = metadata.str("general.name").filter(|name| !name.is_empty());
    ModelSummary {
        name: name.or_else(|| translate::name_in_config(store)).map(str::to_owned),
        version: store.version(),
        file_type: metadata.get("general.file_type").as_ref().and_then(file_type),
        main_dtype: main.map(|line| match line.group_size {
            Some(size) => format!("{} g{size}", line.label),
            None => line.label.to_string(),
        }),
        bits_per_weight: quantization.bits_per_weight(),
        context_length: context_length(model),
        license: license(store),
        chat_template: tokenizer::has_chat_template(store),
    }
}

/// The name of a file type, which llama.cpp stores as a number.
fn file_type(value: &Value<'_>) -> Option<String> {
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
    stated.map(str::to_owned).or_else(|| {
        let limit = (store.limits().document_bytes, "document_bytes");
        let card = store.read_companion("README.md", limit).ok().flatten()?;
        license_of_card(std::str::from_utf8(&card.bytes).ok()?).map(str::to_owned)
    })
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}

/// The license in the YAML header of a model card: `license`, or `license_name` if that says `other`.
fn license_of_card(card: &str) -> Option<&str> {
    let mut lines = card.lines();
    lines.next().filter(|line| line.trim_end() == "---")?;
    let header = lines.take_while(|line| line.trim_end() != "---");
    let (mut license, mut name) = (None, None);
    for line in header {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().trim_matches(['"', '\'']);
        match key {
            "license" => license = Some(value),
            "license_name" => name = Some(value),
            _ => {}
        }
    }
    let other = license.is_none_or(|license| license == "other");
    name.filter(|_| other).or(license).filter(|license| !license.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licenses_of_model_cards() {
        let rows = [
            ("---\nlicense: apache-2.0\n---\n# Model", Some("apache-2.0")),
            ("---\ntags:\n- x\nlicense: \"mit\"\n---\n", Some("mit")),
            ("---\nlicense: other\nlicense_name: gemma\n---\n", Some("gemma")),
            ("---\nlicense: other\n---\n", Some("other")),
            ("---\nlicense:\n---\n", None),
            ("# Model\nlicense: mit\n", None),
            ("---\ntags: x\n---\nlicense: mit\n", None),
            ("", None),
        ];
        for (card, license) in rows {
            assert_eq!(license_of_card(card), license, "{card:?}");
        }
    }

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
            assert_eq!(file_type(&value).as_deref(), name, "{value:?}");
        }
    }
}
