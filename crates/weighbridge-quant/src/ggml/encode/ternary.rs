//! Quantizers of ternary dtypes: the largest magnitude becomes 1 or -1, and ties round away from 0.

use super::{Batch, Simd, inverse, largest, put_bytes, put_halves, quantizers};

quantizers! {
    TQ1_0: 256 => 54 Ignored, |batch, out| {
        let simd = batch.simd;
        let codes = codes(batch, 52, out);
        let mut bytes = [simd.whole(simd.splat(0.0)); 52];
        for i in 0..32 {
            bytes[i] = five(simd, [0, 32, 64, 96, 128].map(|at| codes[at + i]));
        }
        for i in 0..16 {
            bytes[32 + i] = five(simd, [160, 176, 192, 208, 224].map(|at| codes[at + i]));
        }
        for i in 0..4 {
            let [a, b, c, d] = [240, 244, 248, 252].map(|at| codes[at + i]);
            bytes[48 + i] = five(simd, [a, b, c, d, simd.splat(0.0)]);
        }
        put_bytes(simd, &bytes, 0, out);
    }

    TQ2_0: 256 => 66 Ignored, |batch, out| {
        let simd = batch.simd;
        let codes = codes(batch, 64, out);
        let mut bytes = [simd.whole(simd.splat(0.0)); 64];
        for (i, byte) in bytes.iter_mut().enumerate() {
            let at = i / 32 * 128 + i % 32;
            let two = |plane: usize| simd.cut(simd.whole(codes[at + 32 * plane]), 3);
            let low = simd.join::<2>(two(0), two(1));
            *byte = simd.join::<4>(low, simd.join::<2>(two(2), two(3)));
        }
        put_bytes(simd, &bytes, 0, out);
    }
}

/// Packs five elements into a byte: the base-3 number that they form, as a fraction of 243 in
/// 256ths, rounded up so that multiplication recovers the elements.
#[inline(always)]
fn five<S: Simd>(simd: S, codes: [S::Floats; 5]) -> S::Words {
    let mut value = simd.splat(0.0);
    for code in codes {
        value = simd.add(simd.mul(value, simd.splat(3.0)), code);
    }
    let value = simd.numbers(simd.cut(simd.whole(value), 255));
    let value = simd.add(simd.mul(value, simd.splat(256.0)), simd.splat(242.0));
    simd.cut(simd.whole(simd.div(value, simd.splat(243.0))), 255)
}

/// Writes the scale, and returns the codes: 0, 1 and 2.
#[inline(always)]
fn codes<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 256>,
    at: usize,
    out: &mut [[u8; BYTES]],
) -> [S::Floats; 256] {
    let simd = batch.simd;
    let mut x = [simd.splat(0.0); 256];
    batch.values(0, &mut x);
    let d = largest(simd, &x);
    let inverse = inverse(simd, d);
    put_halves(simd, d, at, out);
    for x in &mut x {
        let code = simd.cut(simd.rounded(simd.mul(*x, inverse)), 0xffff);
        // The number after 65535, which stands for -1, is 0 as a byte; that of NaN is 1.
        *x = simd.numbers(simd.cut(simd.whole(simd.add(simd.numbers(code), simd.splat(1.0))), 255));
    }
    x
}
