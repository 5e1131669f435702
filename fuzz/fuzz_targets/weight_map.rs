//! Opens two shards with any bytes as their index and as the `config.json` beside them.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::index_bytes(bytes));
