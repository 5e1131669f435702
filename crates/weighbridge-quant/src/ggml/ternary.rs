//! Elements of -1, 0 and 1.

use super::{Simd, blocks, field, planes, scaled};

blocks! {
    /// 48 bytes of five elements each, 4 bytes of four, `d` f16. Multiplying a byte by 3 moves its
    /// next element above 256. The first 32 bytes hold 5 times 32 elements, the next 16 bytes 5
    /// times 16, the last 4 bytes 4 times 4. Value: (t - 1) d.
    TQ1_0: 54 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 52));
        let mut codes = simd.bytes(field(bytes, 0));
        for number in 0..5 {
            out.pair(number, scaled(simd, elements(simd, codes), d));
            codes = three_times(simd, codes);
        }
        let last: &[u8; 4] = field(bytes, 48);
        let mut powers = [0; 16];
        let mut power = *last;
        for four in powers.as_chunks_mut::<4>().0 {
            *four = power;
            power = power.map(|byte| byte.wrapping_mul(3));
        }
        let mut codes = simd.halves(field(bytes, 32), &powers);
        for number in 0..5 {
            let [first, second] = scaled(simd, elements(simd, codes), d);
            out.put(10 + number, first);
            if number == 0 {
                out.put(15, second);
            }
            codes = three_times(simd, codes);
        }
    }

    /// 64 bytes of four elements each, `d` f16: the lowest bits of 32 bytes are 32 elements, and so
    /// on. Value: (q - 1) d.
    TQ2_0: 66 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 64));
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 32 * half));
            for (plane, codes) in planes(simd, codes).into_iter().enumerate() {
                let codes = simd.minus(simd.and(codes, simd.fill(3)), simd.fill(1));
                out.pair(4 * half + plane, scaled(simd, codes, d));
            }
        }
    }
}

#[inline(always)]
fn three_times<S: Simd>(simd: S, codes: S::Bytes) -> S::Bytes {
    simd.plus(simd.plus(codes, codes), codes)
}

/// The topmost element of each byte: 3 q / 256, minus 1.
#[inline(always)]
fn elements<S: Simd>(simd: S, codes: S::Bytes) -> S::Bytes {
    let (one, two) = (simd.at_least(codes, 86), simd.at_least(codes, 171));
    // Each of the two is 0 or -1.
    simd.minus(simd.minus(simd.fill(255), one), two)
}
