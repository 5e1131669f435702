#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod attention;
mod blocks;
mod cache;
mod chat;
mod convolution;
mod decaying;
mod derived;
#[cfg_attr(not(feature = "gpu"), path = "device/absent.rs")]
mod device;
mod disentangled;
mod divergence;
mod dynamic_mask;
mod error;
mod facts;
mod family;
mod gated_lru;
mod head_experts;
mod layer;
mod linear;
mod masked;
mod math;
mod matrix_lstm;
mod memory;
mod model;
mod network;
/// The parts of a plan, which tests change. They are no part of the interface, and any version may change them.
#[doc(hidden)]
pub mod plan;
mod pooling;
mod rope;
mod rows;
mod sound;
mod state_space;
mod streams;
mod tokens;
mod trial;
mod weight;
mod wkv;

pub use chat::{ChatTemplate, Message};
pub use divergence::{Divergence, Likelihood, Prediction};
pub use error::{Error, Result};
pub use memory::{Footprint, Kept, LayerMemory, Memory, MemoryOptions, Placement, Share};
pub use model::{EncodedText, Reference, Session, likeliest, probabilities};
pub use plan::Plan;
pub use pooling::{Embedder, Pooling, normalize};
#[doc(hidden)]
pub use rope::{Frequencies, Rope};
pub use rows::Rows;
pub use tokens::{TextToken, TextTokens};
pub use trial::Trial;
