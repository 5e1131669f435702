//! Translation of the tokenizer to another container.

pub(super) mod gguf;
pub(super) mod hf;
mod pre;
