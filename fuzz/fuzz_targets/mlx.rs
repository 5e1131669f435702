//! Opens a folder of quantized weights, with any bytes for its config, its header and its data.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::mlx_bytes(bytes));
