//! The config in the words of another container.

pub(super) mod gguf;
pub(super) mod hf;
