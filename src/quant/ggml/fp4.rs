//! Block dtypes of four-bit floating-point elements (E2M1).

use super::super::{Codec, blocks};

/// Twice the value of each E2M1 code. In ggml's table of integers code 8 is +0, not -0.
const DOUBLED: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];

/// Half of an E8M0 scale, 2^(e - 128): subnormal for 0 and 1, and 2^127 for 255, which other
/// readers take for NaN.
#[inline(always)]
fn half_e8m0(e: u8) -> f32 {
    f32::from_bits(match e {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        e => (u32::from(e) - 1) << 23,
    })
}

/// One E8M0 byte, then 16 bytes of codes in the order of `Q4_0`. Value: e2m1 2^(e - 127).
pub(crate) static MXFP4: Codec = Codec::new(|bytes, out| {
    blocks::<17, 32>(bytes, out, |[e, codes @ ..], out| {
        let d = half_e8m0(*e);
        let (first, second) = out.split_at_mut(16);
        for ((code, first), second) in codes.iter().zip(first).zip(second) {
            *first = DOUBLED[usize::from(code & 15)] * d;
            *second = DOUBLED[usize::from(code >> 4)] * d;
        }
    });
});
