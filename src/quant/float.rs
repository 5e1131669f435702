//! Plain floating-point dtypes.

use super::{Codec, each};

pub(crate) static F32: Codec = Codec::new(|bytes, out| each(bytes, out, f32::from_le_bytes));

pub(crate) static F16: Codec = Codec::new(|bytes, out| {
    each(bytes, out, |bytes| half::f16::from_le_bytes(bytes).to_f32());
});

pub(crate) static BF16: Codec = Codec::new(|bytes, out| {
    // The upper half of an f32. `half::bf16::to_f32` would quieten signalling NaNs; ggml does not.
    each(bytes, out, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16));
});

pub(crate) static F64: Codec = Codec::new(|bytes, out| {
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, ties to even")]
    each(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32);
});
