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

#[path = "../names/models.rs"]
mod models;

mod account;
mod adapters;
mod agreement;
mod arrived;
mod beside;
mod brought;
mod builder;
mod check;
mod choices;
mod config;
mod configs;
mod content_addressed;
mod convert;
mod convert_bert;
mod convert_names;
mod corpus;
mod create;
mod cuts;
mod decoders;
mod derived;
mod devices;
mod dialects;
mod diff;
mod directories;
#[cfg(feature = "http")]
mod downloads;
mod encoders_and_decoders;
mod engines;
mod examples;
mod factors;
mod families;
mod fixtures;
mod formulas;
mod gguf_files;
mod golden;
mod golden_quantize;
mod golden_quantize_mlx;
mod imatrix;
mod imports;
mod incomplete;
mod inventory;
mod kernels;
mod key_types;
mod keys;
mod left_out;
mod limits;
mod linear_attention;
mod long_headers;
mod lora;
mod meaning;
mod measures;
mod merging;
mod misfits;
mod misuse;
mod mlx;
mod mmproj;
mod names;
mod nonfinite;
mod npz;
mod ollama;
mod ollama_create;
mod products;
mod provider;
mod pruned;
mod public_reports;
#[cfg(feature = "http")]
mod pull;
mod rank_files;
mod rearranged;
mod recipe;
mod refused;
mod rejects;
#[cfg(feature = "http")]
mod remote;
#[cfg(feature = "http")]
mod remote_answers;
mod repack;
mod replaced;
mod replaced_files;
mod reports;
mod rewrite;
mod round_trip;
mod same_weights;
mod scheme_values;
mod schemes;
mod sharding;
mod shrink;
mod slices;
mod stored_models;
mod structure;
mod through_gguf;
mod tied;
mod tokenizer;
mod tokenizer_keys;
mod torchao;
mod translate;
mod truncation;
