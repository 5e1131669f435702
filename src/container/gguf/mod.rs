#![doc = include_str!("../../../docs/formats/gguf.md")]

mod header;
mod projector;
mod read;
mod split;
#[cfg(feature = "write")]
pub(crate) mod write;

use super::Container;
pub(crate) use header::ALIGNMENT_KEY;
pub(super) use read::{attach, open_source_as};

/// The GGUF container's row in [`CONTAINERS`](super::CONTAINERS).
pub static GGUF: Container = Container {
    name: read::NAME,
    summary: "GGUF files of llama.cpp: versions 1 to 3, both byte orders, split",
    detect: read::detect,
    open: read::open,
    #[cfg(feature = "write")]
    write: Some(&write::WRITER),
};
