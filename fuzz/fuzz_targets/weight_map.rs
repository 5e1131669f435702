//! Any bytes as the index of two shards, and as the `config.json` beside them.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::index_bytes(bytes));
