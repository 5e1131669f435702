//! Translation of the config to another container.

pub(super) mod gguf;
pub(super) mod hf;
pub(super) mod mlx;
