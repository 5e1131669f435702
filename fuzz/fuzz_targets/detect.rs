//! Any bytes as a file of any name, told by content on disk and in memory.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::any_file(bytes));
