#![doc = include_str!("../../../docs/formats/safetensors.md")]

mod comfy;
pub(super) mod header;
mod layouts;
mod number;
mod read;
mod resolve;
mod scheme;
mod stated;
mod tied;
mod tools;
mod unjoined;
mod weight_map;
#[cfg(feature = "write")]
pub(crate) mod write;

use std::path::Path;

use super::{Container, OpenOptions};
use crate::error::Result;
#[cfg(feature = "write")]
pub(crate) use comfy::KEY as STATED_FORMATS;
pub(super) use read::{open_directory, open_file};
#[cfg(feature = "write")]
pub(crate) use stated::left_over;
pub(crate) use stated::{states_itself, stored_unquantized};
#[cfg(feature = "write")]
pub(crate) use tools::{CorrectedScheme, corrected_document, corrected_scheme};
pub(crate) use tools::{contradictions, scheme_beside};
use weight_map::WeightMap;

/// The safetensors container's row in [`CONTAINERS`](super::CONTAINERS).
pub static SAFETENSORS: Container = Container {
    name: read::NAME,
    summary: "safetensors files and Hugging Face directories, whole or in shards",
    detect: read::detect,
    open: read::open,
    #[cfg(feature = "write")]
    write: Some(&write::WRITER),
};

/// The files that an index of weights names.
///
/// # Errors
///
/// `Malformed` for another file; `LimitExceeded`; `Io` if it cannot be read.
pub(crate) fn indexed_files(index: &Path) -> Result<Vec<String>> {
    Ok(WeightMap::read(index, &OpenOptions::new())?.files)
}
