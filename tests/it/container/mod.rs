//! Tests of the library's `container`.

mod choice;
mod faults;
mod foreign;
mod gguf;
mod long_headers;
mod mlx;
mod npz;
mod ollama;
mod ollama_models;
mod truncation;
