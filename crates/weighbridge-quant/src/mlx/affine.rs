//! Integer codes: value = q scale + bias.

use super::super::element::Element;
use super::super::packed::Grouping;
use super::super::simd::Simd;
use super::quantize::{Each, EncodeMode, TILE, store};

/// Codes of `BITS` bits.
pub(super) struct Affine<const BITS: usize>;

/// The smallest scale.
const LEAST: f32 = 1e-7;

/// The scale and the bias of a group, from its largest and its smallest value.
///
/// The bias is the end with the larger magnitude, and the scale is chosen so that 0 has a code. All
/// computation is in `f32`, whatever the type of the values; codes are chosen with scale and bias
/// in `f32`, too.
#[inline(always)]
fn scaling<const BITS: usize>(largest: f32, smallest: f32) -> (f32, f32) {
    let at_least = |scale: f32| if scale < LEAST { LEAST } else { scale };
    if BITS == 1 {
        return (at_least(largest - smallest), smallest);
    }
    let codes = f32::from(u8::MAX >> (8 - BITS));
    let scale = at_least((largest - smallest) / codes);
    let (scale, end) =
        if smallest.abs() > largest.abs() { (scale, smallest) } else { (-scale, largest) };
    let steps = (end / scale).round_ties_even();
    if steps == 0.0 { (scale, 0.0) } else { (end / steps, end) }
}

impl<const BITS: usize> EncodeMode for Affine<BITS> {
    const BITS: usize = BITS;
    const SIZE: Option<usize> = None;

    /// Scales and biases.
    type Scaling = [Each; 2];

    /// The largest and the smallest value; NaN is ignored.
    #[inline(always)]
    fn ends<S: Simd, T: Element>(simd: S, group: &[[T; 16]]) -> [f32; 2] {
        let (mut largest, mut smallest) =
            (simd.splat(f32::NEG_INFINITY), simd.splat(f32::INFINITY));
        for unit in group {
            let values = T::load(simd, unit);
            largest = simd.most(values, largest);
            smallest = simd.least(values, smallest);
        }
        let (largest, smallest) = (simd.largest(largest), simd.smallest(smallest));
        if BITS == 1 && smallest == 0.0 {
            return [largest, first_zero(simd, group)];
        }
        [largest, smallest]
    }

    #[inline(always)]
    fn scale<S: Simd, T: Element>(
        simd: S,
        [largest, smallest]: &[Each; 2],
        _: Grouping,
        scale: &mut [u8],
        bias: &mut [u8],
    ) -> [Each; 2] {
        let mut scales = [0.0; TILE];
        let mut biases = [0.0; TILE];
        for i in 0..TILE {
            (scales[i], biases[i]) = scaling::<BITS>(largest[i], smallest[i]);
        }
        store::<S, T>(simd, &scales, scale);
        store::<S, T>(simd, &biases, bias);
        [scales, biases]
    }

    #[inline(always)]
    fn codes<S: Simd, T: Element>(
        simd: S,
        [scales, biases]: &[Each; 2],
        [a, b]: [S::Floats; 2],
        groups: [usize; 2],
    ) -> S::Bytes {
        let code = |values: S::Floats, group: usize| {
            let above = simd.sub(values, simd.splat(biases[group]));
            simd.div(above, simd.splat(scales[group]))
        };
        let codes = simd.to_unsigned([code(a, groups[0]), code(b, groups[1])]);
        simd.capped(codes, u8::MAX >> (8 - BITS))
    }

    #[inline(always)]
    fn stream<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 32]) {
        simd.stream::<BITS>(codes, out);
    }
}

/// The first zero of a group that has one: of equal values MLX keeps the first, and for one-bit
/// codes that decides the sign of a bias.
#[cold]
#[inline(never)]
fn first_zero<S: Simd, T: Element>(simd: S, group: &[[T; 16]]) -> f32 {
    let values = group.iter().flat_map(|unit| {
        let mut values = [0.0; 16];
        simd.put_f32::<false>(T::load(simd, unit), &mut values);
        values
    });
    values.into_iter().find(|value| *value == 0.0).unwrap_or(0.0)
}
