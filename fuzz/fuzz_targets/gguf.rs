//! Opens any bytes as a GGUF file.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::gguf_bytes(bytes));
