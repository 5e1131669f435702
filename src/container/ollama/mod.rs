#![doc = include_str!("../../../docs/formats/ollama.md")]

mod abilities;
mod blobs;
mod config;
mod go_template;
mod list;
mod manifest;
mod modelfile;
mod parameters;
mod prompt;
mod read;
mod served;
pub(crate) mod write;

use super::Container;

pub(crate) use abilities::{Sources, gguf_chat_format};
pub(crate) use config::{ConfigBlob, human};
pub(crate) use go_template::GoTemplate;
pub use list::{StoredModel, models};
#[cfg(feature = "http")]
pub(crate) use manifest::Manifest;
pub(crate) use manifest::{Digest, NewBlob, new_manifest, with_model};
pub use modelfile::{Instruction, Modelfile};
pub(crate) use parameters::Parameters;
pub(crate) use prompt::{PromptFormat, message_layer, stop_words};
pub(super) use read::open_manifest;
pub(crate) use served::{GgufFacts, Template, shown_capabilities};
pub use write::place;
pub(crate) use write::{replaceable_model, store_of_place};

/// The Ollama container's row in [`CONTAINERS`](super::CONTAINERS).
pub static OLLAMA: Container = Container {
    name: "ollama",
    summary: "models in Ollama's store: GGUF and tensor blobs",
    detect: read::detect,
    open: read::open,
    write: if cfg!(feature = "write") { Some(&write::WRITER) } else { None },
};
