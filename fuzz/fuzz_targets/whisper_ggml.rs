//! Opens any bytes as a file of whisper.cpp.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::whisper_ggml_bytes(bytes));
