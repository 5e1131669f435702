//! Opens the weights of a language model from any file format, serves them under one set of names, and
//! writes them into any other format.
//!
//! ```
//! use weighbridge::{Model, WeightProvider, device::Cpu};
//!
//! # fn main() -> weighbridge::Result<()> {
//! let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
//! assert_eq!(model.config()?.dim.value, 256);
//!
//! // The same name, whether the file is GGUF or a Hugging Face directory.
//! let q = model.tensor("layers.1.attention.q.weight")?;
//! assert_eq!(q.shape(), [256, 256]);
//! let values = q.dequantize()?;
//! # assert_eq!(values.len(), 256 * 256);
//!
//! // Packed as stored, in memory of a device, read once.
//! let provider = WeightProvider::new(model, Cpu)?;
//! let loaded = provider.load("layers.1.attention.q.weight")?;
//! assert_eq!(loaded.buffer.len(), 256 / 32 * 34 * 256);
//! # Ok(())
//! # }
//! ```
//!
//! # How data flow
//!
//! ```text
//!  path ──container──▶ Model ──name──▶ Tensor ──▶ bytes, values
//!                        │                └──▶ ops: convert, quantize, diff, ... ──▶ files
//!                        └──WeightProvider──▶ memory of a device
//! ```
//!
//! - [`Model`]: an opened model. It is owned, cheap to clone, and bound to no device.
//!   [`Model::open`] detects the [`container`] from the content: [`container::gguf`],
//!   [`container::safetensors`], [`container::mlx`], [`container::ollama`], [`container::whisper_ggml`].
//! - [`Tensor`]: one tensor of a model, under its canonical or its stored name, with its bytes, its
//!   [parts](Part) and its values. A tensor keeps its model open.
//! - [`dtype`]: the table of dtypes, one row each; [`DType::quantize_rows`] quantizes values.
//! - [`metadata`]: typed values under keys, read when they are asked for.
//! - [`arch`]: the names of each family's tensors, and [`ModelConfig`].
//! - [`tokenizer`]: tokens, merges, special tokens and chat templates, read when they are asked for.
//! - [`translate`]: config, tokenizer and metadata in another container's form.
//! - [`recipe`]: which dtype each tensor gets when a model is quantized, as llama.cpp, mlx-lm and Ollama
//!   choose; [`recipe::ImportanceMatrix`] weighs the columns.
//! - [`ops`]: whole models inspected, verified, hashed, compared, loaded, converted, quantized, split and
//!   merged; each function gives a report.
//! - [`WeightProvider`] and [`device`]: tensors by canonical name, in memory of a device, cached and fused.
//!
//! # What it promises
//!
//! Opening reads the headers and allocates no more than a small multiple of them: [`Limits`] bounds what
//! a file may ask for. A file that breaks its format gives an [`Error`] that says what, where and what to
//! do. It never crashes, hangs or reads outside the file. [`bytes::Access`] says what a memory map cannot
//! promise.
//!
//! # Cargo features
//!
//! - `serde`: the reports of [`ops`] implement `serde::Serialize`, in the form of the program's JSON.
//! - `chat-template`: [`ops::check_consistency`] and [`ops::verify`] parse chat templates, with minijinja.
//!
//! # What is not supported
//!
//! Complex numbers and most types of ik_llama.cpp have no [codec](dtype::DTypeDescriptor::codec): they are
//! listed, sized and loaded packed, and reading their values is [`Unsupported`](ErrorKind::Unsupported).
//! Files of whisper.cpp are read and not written.
#![deny(missing_docs)]

pub mod arch;
pub mod bytes;
pub mod container;
pub mod device;
pub mod dtype;
pub mod load;
pub mod metadata;
pub mod model;
pub mod ops;
pub mod quant;
pub mod recipe;
pub mod repack;
pub mod shape;
pub mod tokenizer;
pub mod translate;
pub mod write;

mod dialect;
mod digest;
mod error;
mod index;
mod limits;
mod progress;
mod store;
mod threads;

pub mod _documentation {
    //! The project's own documents, so that they are read and checked with the code.

    #[doc = include_str!("../DESIGN.md")]
    pub mod design {}
    #[doc = include_str!("../VOCABULARY.md")]
    pub mod vocabulary {}
    #[doc = include_str!("../docs/performance.md")]
    pub mod performance {}
    #[doc = include_str!("../docs/formats/ggml-blocks.md")]
    pub mod ggml_blocks {}
    #[cfg(doctest)]
    #[doc = include_str!("../README.md")]
    pub mod readme {}
}

pub use arch::ModelConfig;
pub use container::{OpenOptions, Strictness};
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use limits::Limits;
pub use load::{LoadOptions, Policy, WeightProvider};
pub use model::{Model, Tensor};
pub use progress::Progress;
pub use store::Part;
pub use threads::Threads;
pub use tokenizer::Tokenizer;
pub use write::{Builder, WriteOptions, WritePlan};
