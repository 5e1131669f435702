#![doc = include_str!("../../../docs/formats/ollama.md")]

mod blobs;
mod config;
mod list;
mod manifest;
mod name;
mod read;
pub(crate) mod write;

use super::Container;

pub(crate) use config::ConfigBlob;
pub use list::{StoredModel, models};
pub(crate) use manifest::{Digest, NewBlob, new_manifest, with_model};
pub(super) use read::open_name;
pub use write::place;
pub(crate) use write::{replaceable_model, store_of_place};

/// The Ollama container's row in [`CONTAINERS`](super::CONTAINERS).
pub static OLLAMA: Container = Container {
    name: "ollama",
    summary: "models in Ollama's store: GGUF and tensor blobs",
    detect: read::detect,
    open: read::open,
    write: Some(&write::WRITER),
};
