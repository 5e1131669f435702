//! Ollama's server: what it adds to a model in its store, how it quantizes, and what it shows.
//!
//! The format of the store is the container [`ollama`](crate::container::ollama). The verbs
//! [`create`](crate::ops::create) and [`show`](crate::ops::show) are in [`ops`](crate::ops).
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod capabilities;
#[cfg(feature = "write")]
pub(crate) mod create;
mod go_template;
#[cfg(feature = "write")]
mod layers;
mod modelfile;
#[cfg(feature = "write")]
mod parameters;
#[cfg(feature = "write")]
mod prompt;
#[cfg(feature = "write")]
mod quantization;
pub(crate) mod runner;
mod served;
pub(crate) mod show;
#[cfg(feature = "write")]
mod tensor_blobs;

pub use crate::container::ollama::types::{QuantType, QuantTypeDescriptor, TYPES};
pub(crate) use capabilities::capabilities;
#[cfg(feature = "write")]
pub(crate) use layers::{NewLayers, gguf_blob, made_blob};
pub use modelfile::{Instruction, Modelfile};
#[cfg(feature = "write")]
pub use quantization::OllamaModel;
#[cfg(feature = "write")]
pub(crate) use tensor_blobs::{BlobModel, TensorRules};
