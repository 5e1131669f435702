//! Number formats: small floats, and the formats that scales are stored in.

use half::f16;

/// The upper half of an `f32`. `half::bf16::to_f32` would quiet signalling NaNs; ggml does not.
#[inline(always)]
pub(super) fn bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

/// The value of an E8M0 code, a power of two, in MLX's interpretation: 255 is infinity.
pub(super) fn e8m0(bits: u8) -> f32 {
    match bits {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::INFINITY,
        bits => f32::from_bits(u32::from(bits) << 23),
    }
}

/// The values of E2M1 codes; code 8 is -0.
pub(super) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The code of the nearest E2M1 value, ties to the smaller magnitude, as in MLX's table search; 0
/// has no sign. From 2^29 on, and for NaN, the code is 0.
pub(super) fn to_e2m1(value: f32) -> u8 {
    const TIES: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    const LIMIT: f32 = 536_870_912.0;
    let magnitude = value.abs();
    let sign = if value < 0.0 { 8 } else { 0 };
    match TIES.map(|tie| u8::from(magnitude > tie)).iter().sum::<u8>() {
        code @ 1.. if magnitude < LIMIT => sign | code,
        _ => 0,
    }
}

/// The code of the nearest E4M3 value, ties to even, at most 448, which NaN becomes too. Signs are
/// kept.
pub(super) fn to_e4m3(value: f32) -> u8 {
    let magnitude = value.abs();
    let bits = magnitude.to_bits();
    let code = if magnitude < 0.015_625 {
        // The result is a multiple of 2^-9, like the last bit of floats from 2^14 on.
        (magnitude + 16_384.0).to_bits() - 16_384.0f32.to_bits()
    } else {
        (bits - (120 << 23) + 0x7ffff + (bits >> 20 & 1)) >> 20
    };
    code.min(0x7e) as u8 | if value.is_sign_negative() { 0x80 } else { 0 }
}

/// The values of all codes of a small float with the given bits of exponent and fraction and the
/// given bias. With `one_nan` the code of minus zero is NaN, and all others are numbers (FNUZ).
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a few bits")]
const fn small<const CODES: usize>(
    exponent: u32,
    fraction: u32,
    bias: i32,
    one_nan: bool,
) -> [f32; CODES] {
    let mut table = [0.0; CODES];
    let mut code = 0;
    while code < CODES {
        let bits = code as u32;
        let low = bits & ((1 << fraction) - 1);
        let high = (bits >> fraction) & ((1 << exponent) - 1);
        let mut value = if high == 0 { low } else { low | 1 << fraction } as f32;
        let mut power =
            (if high == 0 { 1 } else { high.cast_signed() }) - bias - fraction.cast_signed();
        while power > 0 {
            value *= 2.0;
            power -= 1;
        }
        while power < 0 {
            value *= 0.5;
            power += 1;
        }
        let negative = bits >> (exponent + fraction) & 1 == 1;
        table[code] = match (negative, one_nan && bits == 1 << (exponent + fraction)) {
            (_, true) => f32::NAN,
            (true, false) => -value,
            (false, false) => value,
        };
        code += 1;
    }
    table
}

/// The values of E4M3FN, 8-bit floats with 4 bits of exponent: no infinities, NaN in 0x7f and 0xff.
pub(super) static E4M3: [f32; 256] = {
    let mut table = small(4, 3, 7, false);
    (table[0x7f], table[0xff]) = (f32::NAN, f32::NAN);
    table
};
/// The values of E5M2, whose infinities and NaN are those of `f16`.
pub(super) static E5M2: [f32; 256] = {
    let mut table = small(5, 2, 15, false);
    (table[0x7c], table[0xfc]) = (f32::INFINITY, f32::NEG_INFINITY);
    let mut low = 0x7d;
    while low <= 0x7f {
        (table[low], table[low | 0x80]) = (f32::NAN, f32::NAN);
        low += 1;
    }
    table
};
pub(super) static E4M3FNUZ: [f32; 256] = small(4, 3, 8, true);
pub(super) static E5M2FNUZ: [f32; 256] = small(5, 2, 16, true);
pub(super) static E2M3: [f32; 64] = small(2, 3, 1, false);
pub(super) static E3M2: [f32; 64] = small(3, 2, 3, false);

/// A number format of scales and biases.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Float {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an `f32`.
    BF16,
    /// 8 bits: 4 of exponent, 3 of fraction.
    E4M3,
    /// 8 bits: the exponent of a power of two.
    E8M0,
}

impl Float {
    /// The bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::E4M3 | Self::E8M0 => 1,
        }
    }

    /// The bytes of a number that the format represents exactly, followed by zeros; `None` for
    /// others. Any NaN counts as NaN, whatever its bits. Not for one-byte formats.
    #[inline(always)]
    pub(super) fn bytes_of(self, number: f32) -> Option<[u8; 4]> {
        let (bytes, found) = match self {
            Self::F32 => (number.to_le_bytes(), number),
            Self::F16 => {
                let half = f16::from_f32(number);
                let [a, b] = half.to_le_bytes();
                ([a, b, 0, 0], half.to_f32())
            }
            Self::BF16 => {
                let upper = half::bf16::from_f32(number);
                let [a, b] = upper.to_le_bytes();
                ([a, b, 0, 0], upper.to_f32())
            }
            Self::E4M3 | Self::E8M0 => return None,
        };
        (found.to_bits() == number.to_bits() || found.is_nan() && number.is_nan()).then_some(bytes)
    }

    /// The value at the start of `bytes`; 255 of E8M0 is infinity.
    pub fn number(self, bytes: &[u8]) -> f32 {
        self.value(bytes, |bits| f16::from_bits(bits).to_f32())
    }

    /// The value at the start of `bytes`.
    #[inline(always)]
    pub(super) fn value(self, bytes: &[u8], half: impl Fn(u16) -> f32) -> f32 {
        match (self, bytes) {
            (Self::F32, &[a, b, c, d, ..]) => f32::from_le_bytes([a, b, c, d]),
            (Self::F16, &[a, b, ..]) => half(u16::from_le_bytes([a, b])),
            (Self::BF16, &[a, b, ..]) => bf16([a, b]),
            (Self::E4M3, &[a, ..]) => E4M3[usize::from(a)],
            (Self::E8M0, &[a, ..]) => e8m0(a),
            _ => f32::NAN,
        }
    }
}
