//! Small float codes: value = q scale. MLX computes these as arrays of the values' own dtype, so
//! each step rounds to that dtype.

use super::super::element::Element;
use super::super::float::E2M1;
use super::super::packed::Grouping;
use super::super::simd::Simd;
use super::quantize::{Each, EncodeMode, TILE};

/// E2M1 codes with E8M0 scales (mxfp4).
pub(super) struct E2m1;

/// E4M3 codes with E8M0 scales (mxfp8).
pub(super) struct E4m3;

/// E2M1 codes with E4M3 scales, optionally with a global scale (nvfp4).
pub(super) struct Nv;

/// Largest magnitudes divided by the largest value of a code, in the values' dtype.
#[inline(always)]
fn ratios<S: Simd, T: Element>(simd: S, highest: &Each, most: f32) -> Each {
    let ratios = simd.div(simd.load(highest), simd.splat(most));
    let mut out = [0.0; TILE];
    simd.put_f32::<false>(T::rounded(simd, ratios), &mut out);
    // Rounding may have turned NaN into anything.
    for (ratio, highest) in out.iter_mut().zip(highest) {
        if !highest.is_finite() {
            *ratio = *highest;
        }
    }
    out
}

/// Scales that are powers of two: the smallest that are at least the ratio.
#[inline(always)]
fn powers<S: Simd, T: Element>(simd: S, highest: &Each, most: f32, scale: &mut [u8]) -> Each {
    let mut powers = ratios::<S, T>(simd, highest, most);
    let mut bytes = [0; TILE];
    for (power, byte) in powers.iter_mut().zip(&mut bytes) {
        (*power, *byte) = power_of_two::<T>(*power);
    }
    write(&bytes, scale);
    powers
}

/// The smallest power of two that is at least the ratio, and its code. There is no code below
/// 2^-127: the number wraps, as in MLX.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "wraps, as MLX's do")]
fn power_of_two<T>(ratio: f32) -> (f32, u8) {
    const FRACTION: u32 = (1 << 23) - 1;
    // Subnormal numbers have no exponent of their own, so they are scaled up first.
    let (lift, lifted) = if ratio < f32::MIN_POSITIVE { (4_294_967_296.0, 32) } else { (1.0, 0) };
    let bits = ((ratio * lift).to_bits() + FRACTION) & !FRACTION;
    let (power, code) = (f32::from_bits(bits) / lift, ((bits >> 23) as u8).wrapping_sub(lifted));
    if ratio == 0.0 {
        (1.0, 127)
    } else if ratio.is_finite() {
        (power, code)
    } else {
        // The exponent is the smallest integer. As an `f32`, plus 127, its low byte is 128; a
        // narrower dtype has no bits for that.
        (0.0, if size_of::<T>() == 4 { 128 } else { 0 })
    }
}

/// Copies as many bytes as fit.
#[inline(always)]
fn write(bytes: &[u8; TILE], out: &mut [u8]) {
    if let Some(out) = out.first_chunk_mut() {
        *out = *bytes;
    } else {
        out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
    }
}

/// Values divided by the scales of their groups. The scales are powers of two: any rounding error
/// is far below the smallest code, and the codes are those of the exact quotient.
#[inline(always)]
fn over<S: Simd>(
    simd: S,
    powers: &Each,
    [a, b]: [S::Floats; 2],
    groups: [usize; 2],
) -> [S::Floats; 2] {
    let [first, second] = groups.map(|group| simd.splat(powers[group]));
    [simd.div(a, first), simd.div(b, second)]
}

impl EncodeMode for E2m1 {
    const BITS: usize = 4;
    const SIZE: Option<usize> = Some(32);

    /// The scales.
    type Scaling = Each;

    #[inline(always)]
    fn scale<S: Simd, T: Element>(
        simd: S,
        [highest, _]: &[Each; 2],
        _: Grouping,
        scale: &mut [u8],
        _: &mut [u8],
    ) -> Each {
        powers::<S, T>(simd, highest, 6.0, scale)
    }

    #[inline(always)]
    fn codes<S: Simd, T: Element>(
        simd: S,
        powers: &Each,
        values: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes {
        simd.to_e2m1(over(simd, powers, values, groups))
    }

    #[inline(always)]
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]) {
        simd.stream::<4>(codes, out);
    }
}

impl EncodeMode for E4m3 {
    const BITS: usize = 8;
    const SIZE: Option<usize> = Some(32);

    /// The scales.
    type Scaling = Each;

    #[inline(always)]
    fn scale<S: Simd, T: Element>(
        simd: S,
        [highest, _]: &[Each; 2],
        _: Grouping,
        scale: &mut [u8],
        _: &mut [u8],
    ) -> Each {
        powers::<S, T>(simd, highest, 448.0, scale)
    }

    #[inline(always)]
    fn codes<S: Simd, T: Element>(
        simd: S,
        powers: &Each,
        values: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes {
        if powers[groups[0]] == 0.0 {
            // Divided by 0, values are infinite, or NaN with a sign that depends on the processor.
            let signs = simd.and(simd.to_e4m3(values), simd.fill(0x80));
            return simd.or(signs, simd.fill(0x7e));
        }
        simd.to_e4m3(over(simd, powers, values, groups))
    }

    #[inline(always)]
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]) {
        simd.stream::<8>(codes, out);
    }
}

/// The scales of a tile in nvfp4.
#[derive(Default)]
pub(super) struct NvScales {
    scales: Each,
    /// The factor applied to values divided by their scale.
    factor: f32,
    /// Groups whose values are so large relative to their scale that differences from codes are
    /// rounded.
    beyond: [bool; TILE],
}

impl EncodeMode for Nv {
    const BITS: usize = 4;
    const SIZE: Option<usize> = Some(16);

    type Scaling = NvScales;

    #[inline(always)]
    fn scale<S: Simd, T: Element>(
        simd: S,
        [highest, _]: &[Each; 2],
        grouping: Grouping,
        scale: &mut [u8],
        _: &mut [u8],
    ) -> NvScales {
        // The largest scale times the largest code.
        let factor = grouping.amax.map_or(1.0, |amax| 448.0 * 6.0 / amax);
        let ratios = ratios::<S, T>(simd, highest, 6.0);
        // `to_e4m3` gives signed codes, but no scale is negative, nor is NaN: 0 times an infinite
        // factor.
        let scaled = simd.mul(simd.load(&ratios), simd.splat(factor));
        let codes = simd.and(simd.to_e4m3([scaled; 2]), simd.fill(0x7f));
        let mut bytes = [0; 32];
        simd.stream::<8>(codes, &mut bytes);
        write(bytes.first_chunk().unwrap_or(&[0; TILE]), scale);
        let [of_codes, _] = simd.e4m3(codes);
        let most = simd.mul(simd.div(simd.load(highest), of_codes), simd.splat(factor));
        let (mut scales, mut mosts) = ([0.0; TILE], [0.0; TILE]);
        simd.put_f32::<false>(of_codes, &mut scales);
        simd.put_f32::<false>(most, &mut mosts);
        let mut beyond = [false; TILE];
        for i in 0..TILE {
            // NaN is not ordinary.
            let ordinary = mosts[i] < ORDINARY;
            beyond[i] = scales[i] != 0.0 && !ordinary;
        }
        NvScales { scales, factor, beyond }
    }

    #[inline(always)]
    fn codes<S: Simd, T: Element>(
        simd: S,
        scaling: &NvScales,
        [a, b]: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes {
        let scaled = |values: S::Floats, group: usize| {
            let over = simd.div(values, simd.splat(scaling.scales[group]));
            simd.mul(T::rounded(simd, over), simd.splat(scaling.factor))
        };
        let scaled = [scaled(a, groups[0]), scaled(b, groups[1])];
        if scaling.beyond[groups[0]] || scaling.beyond[groups[1]] {
            return nearest_of_rounded(simd, scaled);
        }
        simd.to_e2m1(scaled)
    }

    #[inline(always)]
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]) {
        simd.stream::<4>(codes, out);
    }
}

/// Up to this magnitude the differences between a number and all codes are exact.
const ORDINARY: f32 = 1_048_576.0;

/// The codes with the smallest difference after rounding: the first of them, which may not be the
/// nearest.
#[cold]
#[inline(never)]
fn nearest_of_rounded<S: Simd>(simd: S, scaled: [S::Floats; 2]) -> S::Bytes {
    let mut codes = [0; 32];
    for (floats, codes) in scaled.into_iter().zip(codes.as_chunks_mut::<16>().0) {
        let mut values = [0.0; 16];
        simd.put_f32::<false>(floats, &mut values);
        for (value, found) in values.iter().zip(codes) {
            let mut least = f32::INFINITY;
            for (code, of_code) in (0..16).zip(E2M1) {
                let difference = (value - of_code).abs();
                if difference < least {
                    (least, *found) = (difference, code);
                }
            }
        }
    }
    simd.bytes(&codes)
}
