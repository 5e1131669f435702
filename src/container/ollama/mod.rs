#![doc = include_str!("../../../docs/formats/ollama.md")]

mod abilities;
mod blobs;
mod config;
mod list;
mod manifest;
mod read;
pub(crate) mod types;
#[cfg(feature = "write")]
pub(crate) mod write;

use super::Container;

pub(crate) use abilities::{Sources, offers_tools, thinks};
pub(crate) use config::{ConfigBlob, ConfigSettings, DraftEntry, human};
pub use list::{StoredModel, models, name_of};
#[cfg(feature = "http")]
pub(crate) use manifest::Manifest;
pub(crate) use manifest::quoted;
pub(super) use read::open_manifest;
#[cfg(feature = "write")]
pub use write::place;
#[cfg(feature = "write")]
pub(crate) use write::replaceable_model;

/// The Ollama container's row in [`CONTAINERS`](super::CONTAINERS).
pub static OLLAMA: Container = Container {
    name: blobs::NAME,
    summary: "models in Ollama's store: GGUF and tensor blobs",
    detect: read::detect,
    open: read::open,
    #[cfg(feature = "write")]
    write: Some(&write::WRITER),
};
