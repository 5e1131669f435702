//! Decodes a small tensor of any dtype, with any bytes, in every way: all results must be equal.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::codec_bytes(bytes);
});
