//! Opens the weights of a language model in any file format, gives them the same names and values in every
//! format, and writes them to any format that can be written.
//!
//! A *container* is a file format: GGUF, safetensors, MLX, Ollama's store, whisper.cpp. A tensor has a *stored
//! name*, the one in the file, and a *canonical name*, which is the same in every container. A *dtype* is how
//! its elements are stored, quantized forms such as `Q4_K` included.
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
//! // Loaded into the memory of a device: packed as stored, and cached.
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
//!                        │                ├──▶ Builder ──▶ files
//!                        │                └──▶ ops: convert, quantize, diff, ... ──▶ files, reports
//!                        └──WeightProvider──▶ memory of a device
//! ```
//!
//! # Where to start
//!
//! | to | use |
//! |---|---|
//! | open a model, and list its tensors | [`Model`]; [`OpenOptions`], [`Strictness`] and [`Limits`] say how |
//! | read a tensor's values or packed bytes | [`Tensor`], [`DType`], [`Part`] |
//! | read the config values that an engine needs | [`ModelConfig`] |
//! | read tokens, merges and chat templates | [`Tokenizer`], which does not tokenize text |
//! | load tensors to a device, cached and fused | [`WeightProvider`], [`LoadOptions`], [`Policy`] |
//! | write your own tensors | [`Builder`], which returns a [`WritePlan`]; [`WriteOptions`] |
//! | convert, quantize, verify or compare whole models | [`ops`] |
//! | find the models on this machine | [`inventory`](inventory::inventory) |
//! | limit threads, show progress, cancel | [`Threads`], [`Progress`] |
//! | handle errors | [`Error`], [`ErrorKind`] |
//!
//! # The modules
//!
//! | module | contains |
//! |---|---|
//! | [`bytes`] | sources of bytes, checked access, and [`bytes::Text`], a name in any encoding |
//! | [`shape`] | functions on shapes |
//! | [`quant`] | codecs, which decode the bytes of a dtype to values, and quantizers, which do the reverse |
//! | [`dtype`] | the table of dtypes; [`DType::quantize_rows`] quantizes values |
//! | [`repack`] | lossless conversions between the packings of ggml, MLX and checkpoints |
//! | [`json`](mod@json) | JSON values of documents, in order |
//! | [`metadata`] | typed keys and values, decoded on request |
//! | [`container`] | the table of containers: [`gguf`](container::gguf), [`safetensors`](container::safetensors), [`mlx`](container::mlx), [`ollama`](container::ollama), [`whisper_ggml`](container::whisper_ggml) |
//! | [`arch`] | the table of model families: canonical names, transforms, the config |
//! | [`tokenizer`] | the contents of a tokenizer, decoded on request |
//! | [`model`] | [`Model`] and [`Tensor`], and the types that they return |
//! | [`adapter`] | [`Adapter`](adapter::Adapter): LoRA adapters, merged by [`ops::convert`] |
//! | [`translate`] | config, tokenizer and metadata in the form of another container |
//! | [`device`] | the [`Device`](device::Device) trait and host memory |
//! | [`load`] | [`WeightProvider`] and its options |
//! | [`remote`] | models on servers: how they are reached, and progress of requests |
//! | [`recipe`] | which dtype each tensor gets when a model is quantized, by the rules of llama.cpp or mlx-lm; importance matrices |
//! | [`write`](mod@write) | [`Builder`] and [`WritePlan`], which write files in bounded memory, complete or not at all |
//! | [`ollama`] | [`Modelfile`](ollama::Modelfile) and the types that Ollama quantizes to, for [`ops::create`] |
//! | [`ops`] | functions that inspect, verify, hash, compare, load, convert, quantize, split, join and merge whole models; each returns a report or a plan |
//! | [`inventory`](mod@inventory) | the models on this machine, and which of them are the same |
//!
//! # Guarantees
//!
//! Opening reads the headers and allocates at most a small multiple of their size; [`Limits`] bounds it
//! whatever a file claims. A file that breaks its format gives an [`Error`] that says what is wrong, where,
//! and often what to do. No file makes this library crash, hang or read outside the file, with one exception:
//! [`bytes::Access`] says what a memory map cannot guarantee if another program changes the file.
//!
//! # Cargo features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `npz` | yes | opens `weights.npz`, in which the first MLX models are stored |
//! | `regex` | yes | patterns of tensor names in [`recipe::llama_cpp`] |
//! | `sha256` | yes | verifies digests, hashes tensors and writes to Ollama's store |
//! | `write` | yes | [`mod@write`], [`translate`] and the verbs that write; without it all containers can be read |
//! | `chat-template` | no | [`ops::check_consistency`] and [`ops::verify`] also parse chat templates |
//! | `http` | no | opens and downloads models on servers by their names: [`remote`], `ops::plan_pull` |
//! | `serde` | no | the reports of [`ops`] implement `serde::Serialize`, in the form of the program's JSON |
//!
//! `cargo tree --no-default-features` lists the crates that a program gets without any feature.
//!
//! # What is not supported
//!
//! Complex numbers and most types of ik_llama.cpp have no [codec](dtype::DTypeDescriptor::codec): tensors of
//! these dtypes can be listed and loaded packed, but reading their values is an
//! [`Unsupported`](ErrorKind::Unsupported) error. Files of whisper.cpp can be read, but not written. Models of
//! unknown families have canonical names only for tensors whose stored names are usual ones.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "write"),
    allow(dead_code, unused_imports, reason = "what the writers alone use")
)]
#![deny(missing_docs)]

pub mod adapter;
pub mod arch;
pub mod bytes;
pub mod container;
pub mod device;
pub mod inventory;
pub mod json;
pub mod load;
pub mod metadata;
pub mod model;
pub mod ollama;
pub mod ops;
pub mod recipe;
pub mod remote;
pub mod tokenizer;
pub mod translate;
#[cfg(feature = "write")]
pub mod write;

mod dialect;
mod digest;
mod engines;
mod error;
mod index;
mod limits;
mod place;
mod progress;
mod rounding;
mod setters;
mod store;
mod threads;

/// The documents of this project, whose examples are tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../DESIGN.md")]
    struct Design;
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../VOCABULARY.md")]
    struct Vocabulary;
    #[doc = include_str!("../docs/many-machines.md")]
    struct ManyMachines;
}

pub use arch::ModelConfig;
pub use container::{OpenOptions, Strictness};
pub use weighbridge_quant::{self as quant, dtype, repack, shape};

pub use dtype::DType;
pub use error::{AdvisedOption, Error, ErrorKind, Result};
pub use limits::Limits;
pub use load::{LoadOptions, Policy, WeightProvider};
pub use model::{Model, Tensor};
pub use progress::Progress;
pub use store::Part;
pub use threads::Threads;
pub use tokenizer::Tokenizer;
#[cfg(feature = "write")]
pub use write::{Builder, WriteOptions, WritePlan};
