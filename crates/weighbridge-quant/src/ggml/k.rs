//! Super-blocks of 256 elements, whose sub-blocks have scales (and minima) of a few bits.

use super::{
    Codes, Simd, affine, array, blocks, field, planes, put_nibbles, scaled, scaled_halves,
    three_bits,
};

blocks! {
    /// 16 bytes of 4-bit scales (low) and minima (high), 64 bytes of 2-bit codes, `d` and `dmin`
    /// f16. Each 32 bytes hold 128 elements: the first 32 in the lowest bits, and so on. Value: (d
    /// sc) q - dmin mn.
    Q2_K: 84 => 256 COARSE by Q2, |simd, bytes, out| {
        let [d, m] = Q2::factors(simd, bytes, |d| out.half(d)).map(|floats| array(simd, floats));
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 16 + 32 * half));
            for (plane, codes) in planes(simd, codes).into_iter().enumerate() {
                let at = 4 * half + plane;
                let [first, second] = simd.unsigned(simd.and(codes, simd.fill(3)));
                // The product has 17 bits.
                let value = |q, sub: usize| {
                    simd.add_product(q, simd.splat(d[sub]), simd.splat(m[sub]))
                };
                out.pair(at, [value(first, 2 * at), value(second, 2 * at + 1)]);
            }
        }
    }

    /// 32 bytes of high bits, 64 bytes of 2-bit codes as in `Q2_K`, 12 bytes of 6-bit scales, `d`
    /// f16. Bit g of a high byte belongs to the g-th 32 elements; if it is clear, 4 is subtracted.
    /// Value: (d (sc - 32)) q.
    Q3_K: 110 => 256 COARSE by Q3, |simd, bytes, out| {
        let [d, _] = Q3::factors(simd, bytes, |d| out.half(d));
        let d = array(simd, d);
        let mut high = simd.bytes(field(bytes, 0));
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 32 + 32 * half));
            for (plane, codes) in three_bits(simd, codes, high).into_iter().enumerate() {
                let (at, codes) = (4 * half + plane, simd.minus(codes, simd.fill(4)));
                out.pair(at, scaled_halves(simd, codes, [d[2 * at], d[2 * at + 1]]));
            }
            high = simd.right::<4>(high);
        }
    }

    /// `d` and `dmin` f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles: the low
    /// nibbles of each 32 bytes are 32 elements, and the high nibbles the next 32. Value: (d sc) q
    /// - dmin mn.
    Q4_K: 144 => 256 COARSE by Q4, |simd, bytes, out| {
        let (d, m) = eight(simd, Q4::factors(simd, bytes, |d| out.half(d)));
        let value = |sub: usize| {
            let (d, m) = (simd.splat(d[sub]), simd.splat(m[sub]));
            move |q| simd.add_product(q, d, m)
        };
        for quarter in 0..4 {
            let codes = simd.bytes(field(bytes, 16 + 32 * quarter));
            let at = 2 * quarter;
            put_nibbles(simd, out, at, simd.and(codes, simd.fill(15)), value(at));
            put_nibbles(simd, out, at + 1, simd.right::<4>(codes), value(at + 1));
        }
    }

    /// Like `Q4_K`, with 32 bytes of fifth bits before the nibbles: their bit g belongs to the g-th
    /// 32 elements.
    Q5_K: 176 => 256 COARSE by Q5, |simd, bytes, out| {
        let (d, m) = eight(simd, Q5::factors(simd, bytes, |d| out.half(d)));
        let mut high = simd.bytes(field(bytes, 16));
        for quarter in 0..4 {
            let [first, second] = Q5::quarter(simd, bytes, quarter, high);
            let at = 2 * quarter;
            out.pair(at, affine(simd, first, d[at], m[at]));
            out.pair(at + 1, affine(simd, second, d[at + 1], m[at + 1]));
            high = simd.right::<2>(high);
        }
    }

    /// 128 bytes of nibbles, 64 bytes of fifth and sixth bits, 16 signed scales, `d` f16. The low
    /// nibbles of each 64 bytes are 64 elements, and the high nibbles the next 64. Value: (d sc) (q
    /// - 32).
    Q6_K: 210 => 256 COARSE by Q6, |simd, bytes, out| {
        let [d, _] = Q6::factors(simd, bytes, |d| out.half(d));
        let d = array(simd, d);
        for half in 0..2 {
            for (plane, codes) in Q6::half(simd, bytes, half).into_iter().enumerate() {
                let (at, codes) = (4 * half + plane, simd.minus(codes, simd.fill(32)));
                out.pair(at, scaled_halves(simd, codes, [d[2 * at], d[2 * at + 1]]));
            }
        }
    }

    /// `d` f32, 256 signed bytes, then the sums of each 16 of them. Value: q d.
    Q8_K: 292 => 256 FINE, |simd, bytes, out| {
        let d = f32::from_le_bytes(*field(bytes, 0));
        for number in 0..8 {
            let codes = simd.bytes(field(bytes, 4 + 32 * number));
            out.pair(number, scaled(simd, codes, d));
        }
    }
}

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

struct Q2;

impl Codes<84> for Q2 {
    const SHARED: u32 = 16;

    #[inline(always)]
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; 84],
        mut half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2] {
        let [scales, minima] = simd.unsigned(simd.nibbles(field(bytes, 0)));
        let (d, dmin) = (half(*field(bytes, 80)), half(*field(bytes, 82)));
        [simd.mul(simd.splat(d), scales), simd.mul(simd.splat(-dmin), minima)]
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, bytes: &[u8; 84]) -> [[S::Bytes; 2]; 4] {
        let (a, b) = (simd.bytes(field(bytes, 16)), simd.bytes(field(bytes, 48)));
        let mut halves = [planes(simd, a), planes(simd, b)];
        for codes in halves.as_flattened_mut() {
            *codes = simd.and(*codes, simd.fill(3));
        }
        parts(halves)
    }
}

struct Q3;

impl Codes<110> for Q3 {
    const SHARED: u32 = 16;

    #[inline(always)]
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; 110],
        mut half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2] {
        let [a, b, high] = [96, 100, 104].map(|at| u32::from_le_bytes(*field(bytes, at)));
        let low = 0x0f0f_0f0f;
        let two = |shift: u32| (high >> shift & 0x0303_0303) << 4;
        let words = [
            join(a & low | two(0), b & low | two(2)),
            join(a >> 4 & low | two(4), b >> 4 & low | two(6)),
            0,
            0,
        ];
        let scales = simd.minus(simd.words(words), simd.fill(32));
        let d = simd.splat(half(*field(bytes, 108)));
        centred(simd, simd.mul(d, simd.signed(scales)[0]), 4.0)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, bytes: &[u8; 110]) -> [[S::Bytes; 2]; 4] {
        let high = simd.bytes(field(bytes, 0));
        let (a, b) = (simd.bytes(field(bytes, 32)), simd.bytes(field(bytes, 64)));
        parts([three_bits(simd, a, high), three_bits(simd, b, simd.right::<4>(high))])
    }
}

struct Q4;

impl Codes<144> for Q4 {
    const SHARED: u32 = 32;

    #[inline(always)]
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; 144],
        half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2] {
        scales_and_minima(simd, field(bytes, 0), half)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, bytes: &[u8; 144]) -> [[S::Bytes; 2]; 4] {
        let mut parts = [[simd.fill(0); 2]; 4];
        for part in 0..4 {
            let codes = simd.bytes(field(bytes, 16 + 32 * part));
            parts[part] = [simd.and(codes, simd.fill(15)), simd.right::<4>(codes)];
        }
        parts
    }
}

struct Q5;

impl Q5 {
    /// The codes of a quarter, whose fifth bits are the lowest two of `high`.
    #[inline(always)]
    fn quarter<S: Simd>(
        simd: S,
        bytes: &[u8; 176],
        quarter: usize,
        high: S::Bytes,
    ) -> [S::Bytes; 2] {
        let codes = simd.bytes(field(bytes, 48 + 32 * quarter));
        let fifth = |high| simd.and(high, simd.fill(16));
        let first = simd.or(simd.and(codes, simd.fill(15)), fifth(simd.left::<4>(high)));
        [first, simd.or(simd.right::<4>(codes), fifth(simd.left::<3>(high)))]
    }
}

impl Codes<176> for Q5 {
    const SHARED: u32 = 32;

    #[inline(always)]
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; 176],
        half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2] {
        scales_and_minima(simd, field(bytes, 0), half)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, bytes: &[u8; 176]) -> [[S::Bytes; 2]; 4] {
        let mut high = simd.bytes(field(bytes, 16));
        let mut parts = [[simd.fill(0); 2]; 4];
        for part in 0..4 {
            parts[part] = Self::quarter(simd, bytes, part, high);
            high = simd.right::<2>(high);
        }
        parts
    }
}

struct Q6;

impl Q6 {
    #[inline(always)]
    fn half<S: Simd>(simd: S, bytes: &[u8; 210], half: usize) -> [S::Bytes; 4] {
        let a = simd.bytes(field(bytes, 64 * half));
        let b = simd.bytes(field(bytes, 64 * half + 32));
        let high = simd.bytes(field(bytes, 128 + 32 * half));
        let low = |codes| simd.and(codes, simd.fill(15));
        let two = |high| simd.and(high, simd.fill(0x30));
        [
            simd.or(low(a), two(simd.left::<4>(high))),
            simd.or(low(b), two(simd.left::<2>(high))),
            simd.or(simd.right::<4>(a), two(high)),
            simd.or(simd.right::<4>(b), two(simd.right::<2>(high))),
        ]
    }
}

impl Codes<210> for Q6 {
    const SHARED: u32 = 16;

    #[inline(always)]
    fn factors<S: Simd>(
        simd: S,
        bytes: &[u8; 210],
        mut half: impl FnMut([u8; 2]) -> f32,
    ) -> [S::Floats; 2] {
        let scales: &[u8; 16] = field(bytes, 192);
        let d = simd.splat(half(*field(bytes, 208)));
        centred(simd, simd.mul(d, simd.signed(simd.halves(scales, scales))[0]), 32.0)
    }

    #[inline(always)]
    fn codes<S: Simd>(simd: S, bytes: &[u8; 210]) -> [[S::Bytes; 2]; 4] {
        parts([Self::half(simd, bytes, 0), Self::half(simd, bytes, 1)])
    }
}

/// Eight scales and eight minima, for use one at a time.
#[inline(always)]
fn eight<S: Simd>(simd: S, [scales, minima]: [S::Floats; 2]) -> ([f32; 8], [f32; 8]) {
    let (scales, minima) = (array(simd, scales), array(simd, minima));
    (std::array::from_fn(|i| scales[i]), std::array::from_fn(|i| minima[i + 8]))
}

/// Two halves of four planes as four parts.
#[inline(always)]
fn parts<B: Copy>([[a, b, c, d], [e, f, g, h]]: [[B; 4]; 2]) -> [[B; 2]; 4] {
    [[a, b], [c, d], [e, f], [g, h]]
}

/// Scales, and the minima of codes that count from `zero`.
#[inline(always)]
fn centred<S: Simd>(simd: S, scales: S::Floats, zero: f32) -> [S::Floats; 2] {
    [scales, simd.mul(scales, simd.splat(-zero))]
}

/// `d` times 8 scales, and -`dmin` times 8 minima as the last eight, from 16 bytes: `d` and `dmin` as
/// f16, then 12 bytes with 6 bits for each scale and minimum. The first four scales and minima are the
/// low bits of 8 bytes; the last four combine the two highest bits of these bytes with nibbles of the
/// last 4 bytes.
#[inline(always)]
fn scales_and_minima<S: Simd>(
    simd: S,
    bytes: &[u8; 16],
    mut half: impl FnMut([u8; 2]) -> f32,
) -> [S::Floats; 2] {
    let [a, b, c] = [4, 8, 12].map(|at| u32::from_le_bytes(*field(bytes, at)));
    let (six, low, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let scales = join(a & six, c & low | (a >> 6 & two) << 4);
    let minima = join(b & six, c >> 4 & low | (b >> 6 & two) << 4);
    let [both, _] = simd.unsigned(simd.words([scales, minima, 0, 0]));
    let (d, dmin) = (half(*field(bytes, 0)), half(*field(bytes, 2)));
    [simd.mul(simd.splat(d), both), simd.mul(simd.splat(-dmin), both)]
}
