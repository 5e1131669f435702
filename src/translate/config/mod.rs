//! Translates the config of a model to the form of another container.

pub(super) mod gguf;
pub(super) mod mlx;
