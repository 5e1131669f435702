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

/// The value of an 8-bit float with 4 bits of exponent (E4M3FN): no infinities, NaN in 0x7f.
pub(super) fn e4m3(bits: u8) -> f32 {
    let magnitude = match bits & 0x7f {
        0x7f => f32::NAN,
        // Exponent and fraction stand where a half has them, with a bias that is 8 less.
        low => half::f16::from_bits(u16::from(low) << 7).to_f32() * 256.0,
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

/// The value of a power of two with 8 bits of exponent, as MLX reads it: 255 is infinity.
pub(super) fn e8m0(bits: u8) -> f32 {
    match bits {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::INFINITY,
        bits => f32::from_bits(u32::from(bits) << 23),
    }
}

pub(crate) static F64: Codec = Codec::new(|bytes, out| {
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest, ties to even")]
    each(bytes, out, |bytes| f64::from_le_bytes(bytes) as f32);
});
