//! A folder with a tokenizer of any bytes, in any of the files that may hold one.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::tokenizer_bytes(bytes));
