#![doc = include_str!("../../../docs/formats/safetensors.md")]

pub(super) mod header;
mod number;
mod read;
mod resolve;
mod scheme;
mod weight_map;
pub(crate) mod write;

use super::Container;
pub(super) use read::{open_directory, open_file};

/// The safetensors container's row in [`CONTAINERS`](super::CONTAINERS).
pub static SAFETENSORS: Container = Container {
    name: "safetensors",
    summary: "safetensors files and Hugging Face directories, whole or in shards",
    detect: read::detect,
    open: read::open,
    write: if cfg!(feature = "write") { Some(&write::WRITER) } else { None },
};
