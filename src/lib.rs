//! Opens the weights of a language model whatever file they come in.
#![deny(missing_docs)]

pub mod arch;
pub mod bytes;
pub mod container;
pub mod device;
pub mod dtype;
pub mod metadata;
pub mod shape;

mod error;
mod index;
mod limits;
mod provider;
mod quant;
mod store;
mod tensor;

pub use arch::ModelConfig;
pub use bytes::Text;
pub use container::{OpenOptions, Strictness};
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use limits::Limits;
pub use provider::{LoadedPart, LoadedTensor, WeightProvider};
pub use store::{Document, Note, WeightStore};
pub use tensor::{Part, Segment, Tensor};
