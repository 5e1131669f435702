//! Detects the container of any bytes as a file with any name, on disk and in memory.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::any_file(bytes));
