//! Tests of the library's `translate`.

mod architectures;
mod config;
mod documents;
mod encoders;
mod key_types;
pub(crate) mod keys;
mod pruned;
pub(crate) mod replaced;
mod replaced_files;
mod through_gguf;
mod tokenizer;
