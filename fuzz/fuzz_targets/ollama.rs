//! Opens a model of an Ollama store, with any bytes for its manifest and a blob.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::ollama_bytes(bytes));
