#![doc = include_str!("../../../docs/formats/whisper-ggml.md")]

mod header;
mod read;
mod tensors;

pub(super) use read::is_head;

use super::Container;

/// The whisper.cpp container's row in [`CONTAINERS`](super::CONTAINERS).
pub static WHISPER_GGML: Container = Container {
    name: read::NAME,
    summary: "older files of whisper.cpp: whisper, parakeet, silero-vad models",
    detect: read::detect,
    open: read::open,
    #[cfg(feature = "write")]
    write: None,
};
