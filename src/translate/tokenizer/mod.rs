//! Translates the tokenizer of a model to the form of another container.

mod added;
mod ends;
mod files;
pub(super) mod gguf;
pub(super) mod hf;
mod pre;
mod unlike;

pub(crate) use ends::contradicted_flags;
