//! Translates metadata, configs and tokenizers between containers: GGUF's metadata from the files
//! of a directory, and the files of a Hugging Face or MLX directory from GGUF's metadata.
//!
//! Nothing is guessed. If there are no rules for the family, or the model lacks a required number,
//! the result is an [`Unsupported`](crate::ErrorKind::Unsupported) error that names it.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

pub(crate) mod card;
#[cfg(feature = "write")]
mod config;
#[cfg(feature = "write")]
mod documents;
pub(crate) mod general;
pub(crate) mod key_types;
#[cfg(feature = "write")]
pub(crate) mod modules;
#[cfg(feature = "write")]
pub(crate) mod pruned;
#[cfg(feature = "write")]
mod tokenizer;

#[cfg(feature = "write")]
pub(crate) use tokenizer::contradicted_flags;

#[cfg(feature = "write")]
pub use documents::{
    ConfigDocument, Documents, gguf_metadata, gguf_metadata_and_notes, gguf_tensors, hf_documents,
    mlx_documents, tokenizer_json, tokenizer_tables,
};
#[cfg(feature = "write")]
pub(crate) use documents::{
    check_pruned, gguf_architecture, kept, kept_generation, projector_metadata,
    quantization_documents, rows_before_positions,
};
