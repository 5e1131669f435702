//! Block dtypes with E2M1 elements, floats of four bits.

use super::{blocks, field, levels, scaled_halves};

/// Twice the value of each E2M1 code. In ggml's integer table code 8 is +0, not -0.
pub(in super::super) const DOUBLED: [i8; 16] =
    [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half of an E8M0 scale, 2^(e - 128): subnormal for 0 and 1, and 2^127 for 255, which other
/// readers interpret as NaN.
#[inline(always)]
pub(in super::super) fn half_e8m0(e: u8) -> f32 {
    f32::from_bits(match e {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        e => (u32::from(e) - 1) << 23,
    })
}

/// Half the value of each NVFP4 scale code: unsigned E4M3 in which the top bit only distinguishes
/// 0xff from 0x7f. The codes 0 and 0x7f are 0.
#[expect(clippy::cast_precision_loss, reason = "4 bits")]
pub(in super::super) static HALF_UE4M3: [f32; 256] = {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let (exponent, fraction) = (code >> 3 & 15, code & 7);
        let mut value = if exponent == 0 { fraction } else { fraction + 8 } as f32;
        // In steps of 2^-9, halved.
        let mut power = if exponent == 0 { 1 } else { exponent };
        while power > 1 {
            value *= 2.0;
            power -= 1;
        }
        table[code] = if code == 0x7f { 0.0 } else { value / 1024.0 };
        code += 1;
    }
    table
};

blocks! {
    /// One E8M0 byte, then 16 bytes of codes in the order of `Q4_0`. Value: e2m1 2^(e - 127).
    MXFP4: 17 => 32 COARSE, |simd, [e, codes @ ..], out| {
        out.steps_of(*e);
        levels(simd, out, 0, codes, &DOUBLED, half_e8m0(*e));
    }

    /// 4 scales, each for 16 elements, then 32 bytes of codes: the low nibbles of each 8 bytes are
    /// 8 elements, and the high nibbles the next 8. Value: e2m1 scale.
    NVFP4: 36 => 64 COARSE, |simd, bytes, out| {
        let scales: &[u8; 4] = field(bytes, 0);
        let low = 0x0f0f_0f0f_0f0f_0f0f;
        for half in 0..2 {
            let a = u64::from_le_bytes(*field(bytes, 4 + 16 * half));
            let b = u64::from_le_bytes(*field(bytes, 12 + 16 * half));
            let codes = simd.words([a & low, a >> 4 & low, b & low, b >> 4 & low]);
            let d = [scales[2 * half], scales[2 * half + 1]].map(|code| HALF_UE4M3[usize::from(code)]);
            out.pair(half, scaled_halves(simd, simd.lookup(&DOUBLED, codes), d));
        }
    }
}
