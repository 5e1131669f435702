//! A folder as MLX writes it, with any bytes for its config and its weights.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| support::mlx_bytes(bytes));
