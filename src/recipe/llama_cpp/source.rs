//! The model that is quantized: the numbers and tensors that dtypes depend on.

use super::setting::MetadataSetting;
use crate::arch::other_models;
use crate::bytes::Text;
use crate::dtype::DType;
use crate::engines::llama_cpp;
use crate::error::{Error, Result};
use crate::metadata::{KeyValues, Value};
use crate::model::Model;
use crate::store::tensor::StoredTensor;

/// The architecture of vision and audio models in files of their own (mmproj), as GGUF names it.
const PROJECTOR: &str = "clip";

/// The numbers of a model that the dtypes of its tensors depend on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Hparams {
    /// The architecture, as GGUF names it.
    pub architecture: String,
    /// Number of layers, including those that predict further tokens: `block_count`. llama.cpp reads no
    /// numbers of a projector, and counts no layers in it.
    pub layers: u64,
    /// Number of layers that predict further tokens.
    pub nextn_layers: u64,
    /// Query heads of the first layer; 0 if it has no attention.
    pub heads: u64,
    /// Key heads of the first layer.
    pub kv_heads: u64,
    /// Experts of a layer; 0 in a dense model.
    pub experts: u64,
    /// `general.file_type`, if the model has the key.
    pub file_type: Option<u32>,
}

impl Hparams {
    /// Reads the numbers from GGUF's metadata, as llama-quantize does. `overrides` take precedence
    /// over the metadata.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the architecture or, unless the file is a projector, the number of layers is
    /// missing.
    pub fn of(metadata: &KeyValues, overrides: &[MetadataSetting]) -> Result<Self> {
        let missing = |key: &str| {
            Error::unsupported("the key is missing, but quantizing requires it").in_key(key)
        };
        let architecture = overridden(metadata, overrides, "general.architecture")
            .and_then(|value| value.to_text()?.to_str())
            .ok_or_else(|| missing("general.architecture"))?;
        let number = |key: &str| {
            let key = format!("{architecture}.{key}");
            overridden(metadata, overrides, &key).and_then(first)
        };
        let heads = number("attention.head_count").unwrap_or(0);
        let layers = number("block_count").or((architecture == PROJECTOR).then_some(0));
        Ok(Self {
            architecture: architecture.to_owned(),
            layers: layers.ok_or_else(|| match foreign(architecture) {
                Some(fault) => fault.in_key("general.architecture"),
                None => missing(&format!("{architecture}.block_count")),
            })?,
            nextn_layers: number("nextn_predict_layers").unwrap_or(0),
            heads,
            kv_heads: number("attention.head_count_kv").unwrap_or(heads),
            experts: number("expert_count").unwrap_or(0),
            file_type: overridden(metadata, overrides, "general.file_type")
                .and_then(|value| u32::try_from(value.to_u64()?).ok()),
        })
    }
}

/// The fault of a file whose architecture llama.cpp does not run, so that it has no keys of llama.cpp's.
fn foreign(architecture: &str) -> Option<Error> {
    if let Some(kind) = other_models::named(architecture) {
        return Some(other_models::refused(format!("\"{architecture}\": {kind}")));
    }
    let fault = format!(
        "llama.cpp runs no models of the architecture {architecture}, and has no rules for their dtypes"
    );
    let usual = "the program that runs such models may quantize them";
    let advice = llama_cpp::elsewhere(architecture).unwrap_or(usual);
    (!llama_cpp::knows_architecture(architecture)).then(|| Error::unsupported(fault).advise(advice))
}

fn overridden<'a>(
    metadata: &'a KeyValues,
    overrides: &'a [MetadataSetting],
    key: &str,
) -> Option<Value<'a>> {
    let over = overrides.iter().rfind(|setting| setting.key == key);
    over.map(|setting| setting.value.value()).or_else(|| metadata.get(key))
}

/// A number, or the first of a list with one number for each layer.
fn first(value: Value<'_>) -> Option<u64> {
    match value.to_array() {
        Some(array) => u64::try_from(array.integers()?.next()?).ok(),
        None => value.to_u64(),
    }
}

/// A tensor before it is quantized.
#[derive(Clone, Copy, Debug)]
pub struct SourceTensor<'a> {
    /// Its name in GGUF.
    pub name: &'a str,
    /// Its shape, outermost first.
    pub shape: &'a [u64],
    /// Its dtype.
    pub dtype: DType,
}

impl<'a> SourceTensor<'a> {
    /// All tensors of a model that has GGUF's names.
    ///
    /// # Errors
    ///
    /// `Unsupported` for an unknown dtype, or a name that is not UTF-8.
    pub fn all(model: &'a Model) -> Result<Vec<Self>> {
        let store = model.store();
        let tensor = |tensor: StoredTensor<'a>| {
            let name: Text<'a> = tensor.name();
            let name = name.to_str().ok_or_else(|| {
                Error::unsupported("a name that is not UTF-8 cannot be written")
                    .in_file(store.path())
                    .in_tensor(name)
            })?;
            Ok(Self { name, shape: tensor.shape(), dtype: tensor.dtype()? })
        };
        store.tensors().map(tensor).collect()
    }

    /// Number of elements of a row.
    pub(super) fn columns(&self) -> u64 {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Number of dimensions, without outer dimensions of length 1 (`ggml_n_dims`).
    pub(super) fn dims(&self) -> usize {
        self.shape.iter().skip_while(|dim| **dim == 1).count()
    }

    /// Number of stacked matrices: the experts of a layer.
    pub(super) fn matrices(&self) -> u64 {
        self.shape.iter().rev().nth(2).copied().unwrap_or(1)
    }
}

/// Splits a name at the first `blk.{n}.`: the text before the number, the number, the text after
/// it.
pub(super) fn block(name: &str) -> Option<(&str, &str, &str)> {
    name.match_indices("blk.").find_map(|(at, piece)| {
        let (before, rest) = name.split_at_checked(at.checked_add(piece.len())?)?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (digits, after) = rest.split_at_checked(end)?;
        (!digits.is_empty() && after.starts_with('.')).then_some((before, digits, after))
    })
}

/// The layer of `blk.{n}`, parsed as `sscanf` does: text after the digits is ignored.
pub(super) fn layer(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("blk.")?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits.get(..end)?.parse().ok()
}

/// The tensor order of llama.cpp (`weight_name_comparer`): tensors outside of layers first, then
/// layer by layer, each sorted by the bytes of the names. Sorting would contain a dozen copies of it.
#[inline(never)]
pub(super) fn by_layer(a: &str, b: &str) -> std::cmp::Ordering {
    layer(a).cmp(&layer(b)).then_with(|| a.cmp(b))
}
