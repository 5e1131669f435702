//! The integration tests, in one program: it is linked once, and shares what builds test files.
#![allow(
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    reason = "the files and their sizes are the tests' own"
)]

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/ollama.rs"]
mod ollama_store;

#[cfg(feature = "http")]
#[path = "../support/server.rs"]
mod server;

#[cfg(feature = "http")]
#[path = "../support/hub.rs"]
mod hub;

#[path = "../support/left_out.rs"]
mod left_out;

#[path = "../names/models.rs"]
mod models;

mod adapter;
mod arch;
mod bytes;
mod container;
mod corpus;
mod device;
mod engines;
mod examples;
mod fixtures;
mod inventory;
mod limits;
mod load;
mod model;
mod ollama;
mod ops;
mod public_reports;
mod quant;
mod recipe;
#[cfg(feature = "http")]
mod remote;
mod same_weights;
mod situations;
mod store;
mod tokenizer;
mod translate;
mod write;
