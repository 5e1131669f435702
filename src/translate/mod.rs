//! What a model has beside its tensors, in the words of another container: GGUF's metadata from
//! the files of a directory, and the files of a Hugging Face or MLX directory from GGUF's metadata.
//!
//! Nothing is guessed: a family for which there are no rules, or a number that is missing, gives
//! [`Unsupported`](crate::ErrorKind::Unsupported) that says which.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod general;

use crate::arch::{self, Resolution};
use crate::error::Result;
use crate::metadata::KeyValues;
use crate::store::{Encoding, WeightStore};

/// The metadata that a model has in GGUF, as llama.cpp's `convert_hf_to_gguf.py` writes it; of a
/// GGUF file, its own.
///
/// Left to the writer, who alone knows the dtypes: `general.file_type`. Left out, since the
/// converter guesses them from names and from the model card's text: `general.basename` and its
/// kin, the license, tags, base models.
///
/// # Errors
///
/// `Unsupported` if there are no rules for the family, or a number that they need is missing;
/// `Malformed`, `LimitExceeded` and `Io` as reading the files has them.
pub fn gguf_metadata(store: &WeightStore, resolution: &Resolution) -> Result<KeyValues> {
    if store.encoding() == Encoding::Gguf {
        return Ok(KeyValues::of(store.metadata()));
    }
    let mut keys = KeyValues::new();
    keys.set_text("general.architecture", arch::gguf_architecture(store)?);
    keys.set_text("general.type", "model");
    general::sampling(store, &mut keys)?;
    general::names(store, resolution, &mut keys);
    arch::gguf_keys(store, resolution, &mut keys)?;
    keys.set("general.quantization_version", crate::metadata::Value::U32(BLOCKS));
    Ok(keys)
}

/// The version of ggml's block layouts, 2 since June 2023.
const BLOCKS: u32 = 2;

/// Tensors that GGUF has and no other container, which the converter makes of the config: divisors
/// of rotary frequencies. None for a GGUF file, which has its own.
///
/// # Errors
///
/// As [`gguf_metadata`] has them.
pub fn gguf_tensors(
    store: &WeightStore,
    resolution: &Resolution,
) -> Result<Vec<(&'static str, Vec<f32>)>> {
    if store.encoding() == Encoding::Gguf {
        return Ok(Vec::new());
    }
    arch::gguf_tensors(store, resolution)
}
