//! Quantizers of block dtypes with E2M1 elements.

use super::{Simd, put_nibbles, quantizers};

/// Twice the magnitudes of E2M1 codes.
const DOUBLED: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];

/// The codes themselves.
const CODES: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];

quantizers! {
    /// The scale is a power of two, two exponents below the largest magnitude.
    MXFP4: 32 => 17 Ignored, |batch, out| {
        let simd = batch.simd;
        let mut x = [simd.splat(0.0); 32];
        batch.values(0, &mut x);
        let mut largest = [0.0; 16];
        simd.put_f32::<false>(super::extreme(simd, &x).0, &mut largest);
        let e = largest.map(e8m0);
        let half = simd.load(&e.map(super::super::fp4::half_e8m0));
        put_nibbles(simd, &codes(simd, &x, half), 1, out);
        for (out, e) in out.iter_mut().zip(e) {
            out[0] = e;
        }
    }

    /// The scale of each 16 elements makes the largest magnitude 6.
    NVFP4: 64 => 36 Ignored, |batch, out| {
        let simd = batch.simd;
        for sub in 0..4 {
            let mut x = [simd.splat(0.0); 16];
            batch.values(16 * sub, &mut x);
            let mut largest = [0.0; 16];
            let (most, _) = super::extreme(simd, &x);
            simd.put_f32::<false>(simd.div(most, simd.splat(6.0)), &mut largest);
            let scales = largest.map(ue4m3);
            let halves = scales.map(|code| super::super::fp4::HALF_UE4M3[usize::from(code)]);
            let codes = codes(simd, &x, simd.load(&halves));
            put_nibbles(simd, &codes, 4 + 8 * sub, out);
            for (out, scale) in out.iter_mut().zip(scales) {
                out[sub] = scale;
            }
        }
    }
}

/// The codes whose values, times twice the scale, are nearest; of two, the one with the smaller
/// magnitude.
#[inline(always)]
fn codes<S: Simd, const N: usize>(simd: S, x: &[S::Floats; N], half: S::Floats) -> [S::Words; N] {
    let zero = simd.splat(0.0);
    let mut levels = [zero; 8];
    for i in 0..8 {
        levels[i] = simd.mul(simd.splat(DOUBLED[i]), half);
    }
    let mut codes = [simd.whole(zero); N];
    for i in 0..N {
        let magnitude = simd.magnitude(x[i]);
        let mut least = simd.magnitude(simd.sub(levels[0], magnitude));
        let mut code = zero;
        for number in 1..8 {
            let off = simd.magnitude(simd.sub(levels[number], magnitude));
            let nearer = simd.below(off, least);
            code = simd.choose(nearer, simd.splat(CODES[number]), code);
            least = simd.choose(nearer, off, least);
        }
        let negative = simd.both(simd.below(x[i], zero), simd.below(zero, code));
        let minus = simd.choose(negative, simd.splat(8.0), zero);
        codes[i] = simd.whole(simd.add(code, minus));
    }
    codes
}

/// 125 plus the integer part of the binary logarithm, which is rounded to `f32` first: just below a
/// power of two it is that of the power.
fn e8m0(largest: f32) -> u8 {
    if !(largest > 0.0 && largest.is_finite()) {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
    let logarithm = f64::from(largest).log2() as f32;
    #[expect(clippy::cast_possible_truncation, reason = "between -149 and 128")]
    let exponent = logarithm.floor() as i32;
    (exponent + 125).to_le_bytes()[0]
}

/// Unsigned E4M3 of a magnitude, rounded to nearest, ties up: the first bit that is cut off decides.
fn ue4m3(value: f32) -> u8 {
    let bits = value.min(448.0).to_bits();
    let exponent = (bits >> 23).cast_signed() - 120;
    if exponent <= 0 {
        // Multiples of 2^-9.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 8")]
        return ((value * 512.0 + 0.5) as u8).min(7);
    }
    // A fraction that rounds up to 8 carries into the exponent. ggml makes everything from 256 on
    // 448.
    let code = ((bits - (120 << 23)) >> 20) + (bits >> 19 & 1);
    if code < 0x78 { code.to_le_bytes()[0] } else { 0x7e }
}
