//! Opens the weights of a language model whatever file they come in, and serves them under one set
//! of names.
//!
//! ```
//! use weighbridge::WeightProvider;
//!
//! # fn main() -> weighbridge::Result<()> {
//! let model = WeightProvider::open("assets/sample/sample-Q8_0.gguf")?;
//! assert_eq!(model.config()?.dim.value, 256);
//!
//! // The same name, whether the file is GGUF or a Hugging Face directory.
//! let q = model.tensor("layers.1.attention.q.weight")?;
//! assert_eq!(q.shape(), [256, 256]);
//! let values = q.dequantize()?;
//! # assert_eq!(values.len(), 256 * 256);
//!
//! // Packed as stored, in memory of its own, read once.
//! let loaded = model.load("layers.1.attention.q.weight")?;
//! assert_eq!(loaded.buffer.len(), 256 / 32 * 34 * 256);
//! # Ok(())
//! # }
//! ```
//!
//! # How data flow
//!
//! ```text
//!  path ──detect──▶ Container ──open──▶ WeightStore ──resolve──▶ Resolution ──▶ WeightProvider ──load──▶ Buffer
//!                   (files → headers)   (stored names,           (canonical     (cache, device)
//!                                        parts, metadata)         names, config)
//! ```
//!
//! - [`container`]: the ways in which weights lie on disk; [`WeightStore::open`] tells which by
//!   content. One page each: [`container::gguf`], [`container::safetensors`], [`container::mlx`],
//!   [`container::ollama`], [`container::whisper_ggml`].
//! - [`WeightStore`]: an opened model under the names of its files; [`Tensor`] is a view of one
//!   tensor with its bytes, its [parts](Part) and its values.
//! - [`dtype`]: the table of dtypes, one row each; [`DType::quantize_rows`] chooses codes for values.
//! - [`metadata`]: typed values under keys, read when they are asked for.
//! - [`recipe`]: which dtype each tensor gets when a model is quantized, as llama.cpp, mlx-lm and
//!   Ollama choose; [`ImportanceMatrix`] says which columns matter.
//! - [`arch`]: what a family's tensors are called, and [`ModelConfig`].
//! - [`tokenizer`]: tokens, merges, special tokens and chat templates, read when they are asked for.
//! - [`translate`]: all that a model has beside its tensors, in the words of another container.
//! - [`WeightProvider`] and [`device`]: tensors by canonical name, in memory of a device.
//!
//! # What it promises
//!
//! Opening costs the headers, and never more than a small multiple of them: [`Limits`] bounds what
//! a file may ask for. A file that breaks its format gives an [`Error`] that says what, where and
//! what to do. It never crashes, hangs or reads outside the file. What a memory map cannot promise
//! is said at [`bytes::Access`].
//!
//! # What it does not do yet
//!
//! Complex numbers and most types of ik_llama.cpp have no [codec](dtype::DTypeDescriptor::codec):
//! they are listed, sized and loaded packed, and reading their values is
//! [`Unsupported`](ErrorKind::Unsupported). Nothing is written.
#![deny(missing_docs)]

pub mod arch;
pub mod bytes;
pub mod container;
pub mod device;
pub mod dtype;
pub mod metadata;
pub mod ops;
pub mod recipe;
pub mod shape;
pub mod tokenizer;
pub mod translate;

mod digest;
mod error;
mod imatrix;
mod index;
mod limits;
mod progress;
mod provider;
mod quant;
mod repack;
mod store;
mod tensor;
mod view;
mod write;

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
pub use bytes::Text;
pub use container::{OpenOptions, Strictness};
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use imatrix::ImportanceMatrix;
pub use limits::Limits;
pub use progress::Progress;
pub use provider::{
    FUSIONS, Fusion, LoadOptions, LoadedPart, LoadedTensor, Member, Policy, WeightProvider,
};
pub use quant::{
    Codec, Element, Global, GroupParts, GroupQuantizer, Grouping, Importance, Narrowing, NotExact,
    Quantizer, Rounding,
};
pub use repack::{PackedRows, REPACKS, Repack, Repacked};
pub use store::{
    Attachment, DTypeSummary, Document, Encoding, Note, QuantizationSummary, WeightStore,
};
pub use tensor::{Decoding, Finding, FindingKind, Part, Segment, Tensor};
pub use tokenizer::Tokenizer;
pub use view::{Axis, Convention, Form, View};
pub use write::{Fate, How, Loss, WriteOptions, WritePlan, Written};
