//! Super-blocks of 256 elements, whose sub-blocks have scales (and minima) of a few bits.

use super::{
    Put, Simd, affine, array, blocks, field, planes, put_nibbles, scaled, scaled_halves, three_bits,
};

blocks! {
    /// 16 bytes of 4-bit scales (low) and minima (high), 64 bytes of 2-bit codes, `d` and `dmin`
    /// f16. Each 32 bytes hold 128 elements: the first 32 in the lowest bits, and so on. Value: (d
    /// sc) q - dmin mn.
    Q2_K: 84 => 256 COARSE, |simd, bytes, out| {
        let [scales, minima] = simd.unsigned(simd.nibbles(field(bytes, 0)));
        let d = simd.splat(out.half(*field(bytes, 80)));
        let dmin = simd.splat(-out.half(*field(bytes, 82)));
        let d = array(simd, simd.mul(d, scales));
        let m = array(simd, simd.mul(dmin, minima));
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
    Q3_K: 110 => 256 COARSE, |simd, bytes, out| {
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
        let d = simd.splat(out.half(*field(bytes, 108)));
        let d = array(simd, simd.mul(d, simd.signed(scales)[0]));
        let mut high = simd.bytes(field(bytes, 0));
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 32 + 32 * half));
            for (plane, codes) in three_bits(simd, codes, high).into_iter().enumerate() {
                let at = 4 * half + plane;
                let codes = simd.minus(codes, simd.fill(4));
                out.pair(at, scaled_halves(simd, codes, [d[2 * at], d[2 * at + 1]]));
            }
            high = simd.right::<4>(high);
        }
    }

    /// `d` and `dmin` f16, 12 bytes of 6-bit scales and minima, 128 bytes of nibbles: the low
    /// nibbles of each 32 bytes are 32 elements, and the high nibbles the next 32. Value: (d sc) q
    /// - dmin mn.
    Q4_K: 144 => 256 COARSE, |simd, bytes, out| {
        let (d, m) = scales_and_minima(simd, field(bytes, 0), out);
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
    Q5_K: 176 => 256 COARSE, |simd, bytes, out| {
        let (d, m) = scales_and_minima(simd, field(bytes, 0), out);
        let mut high = simd.bytes(field(bytes, 16));
        for quarter in 0..4 {
            let codes = simd.bytes(field(bytes, 48 + 32 * quarter));
            let at = 2 * quarter;
            let sixteen = simd.fill(16);
            let first = simd.or(
                simd.and(codes, simd.fill(15)),
                simd.and(simd.left::<4>(high), sixteen),
            );
            let second = simd.or(simd.right::<4>(codes), simd.and(simd.left::<3>(high), sixteen));
            out.pair(at, affine(simd, first, d[at], m[at]));
            out.pair(at + 1, affine(simd, second, d[at + 1], m[at + 1]));
            high = simd.right::<2>(high);
        }
    }

    /// 128 bytes of nibbles, 64 bytes of fifth and sixth bits, 16 signed scales, `d` f16. The low
    /// nibbles of each 64 bytes are 64 elements, and the high nibbles the next 64. Value: (d sc) (q
    /// - 32).
    Q6_K: 210 => 256 COARSE, |simd, bytes, out| {
        let scales: &[u8; 16] = field(bytes, 192);
        let d = simd.splat(out.half(*field(bytes, 208)));
        let d = array(simd, simd.mul(d, simd.signed(simd.halves(scales, scales))[0]));
        for half in 0..2 {
            let a = simd.bytes(field(bytes, 64 * half));
            let b = simd.bytes(field(bytes, 64 * half + 32));
            let high = simd.bytes(field(bytes, 128 + 32 * half));
            let (low, two, zero) = (simd.fill(15), simd.fill(0x30), simd.fill(32));
            let planes = [
                (simd.and(a, low), simd.left::<4>(high)),
                (simd.and(b, low), simd.left::<2>(high)),
                (simd.right::<4>(a), high),
                (simd.right::<4>(b), simd.right::<2>(high)),
            ];
            for (plane, (codes, high)) in planes.into_iter().enumerate() {
                let at = 4 * half + plane;
                let codes = simd.minus(simd.or(codes, simd.and(high, two)), zero);
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

/// `d` times 8 scales, and -`dmin` times 8 minima, from 16 bytes: `d` and `dmin` as f16, then 12
/// bytes with 6 bits for each scale and minimum. The first four scales and minima are the low bits
/// of 8 bytes; the last four combine the two highest bits of these bytes with nibbles of the last 4
/// bytes.
#[inline(always)]
fn scales_and_minima<S: Simd>(
    simd: S,
    bytes: &[u8; 16],
    out: &mut (impl Put<S> + ?Sized),
) -> ([f32; 8], [f32; 8]) {
    let [a, b, c] = [4, 8, 12].map(|at| u32::from_le_bytes(*field(bytes, at)));
    let (six, low, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let scales = join(a & six, c & low | (a >> 6 & two) << 4);
    let minima = join(b & six, c >> 4 & low | (b >> 6 & two) << 4);
    let [both, _] = simd.unsigned(simd.words([scales, minima, 0, 0]));
    let d = simd.splat(out.half(*field(bytes, 0)));
    let dmin = simd.splat(-out.half(*field(bytes, 2)));
    let scales = array(simd, simd.mul(d, both));
    let minima = array(simd, simd.mul(dmin, both));
    (std::array::from_fn(|i| scales[i]), std::array::from_fn(|i| minima[i + 8]))
}
