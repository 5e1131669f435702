//! Opens a folder with any bytes as its tokenizer, in any of the files that may contain one.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::tokenizer_bytes(bytes));
