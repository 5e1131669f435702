//! Quantizers of the dtypes with signs and codebook points, one block at a time.

use std::array::from_fn;

use super::codebook::{self, Codebook};
use super::search::{TINY, positive};
use super::{Batch, Simd, quantizers};

/// The parameters of a dtype's search for points.
struct PointSearch {
    /// The number of mean squares that importance is combined with.
    means: f32,
    /// Whether each 8 elements must have an even number of minus signs, so that 7 bits suffice.
    even: bool,
    /// A run without any number above this is 0.
    tiny: f32,
    /// The highest code plus one.
    top: u8,
    /// The number of steps up and down for which scales are tried.
    steps: i32,
    /// The size of a step: a fraction of a code, doubled.
    step: f32,
    /// Which points are searched again at the end.
    again: Again,
}

/// Which points are searched again, once the scale is known.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    /// All points.
    All,
    /// All points, if one was not in the codebook at first, or none was found.
    AllOfSome,
    /// The points that were not in the codebook at first.
    Some,
}

const TWO: PointSearch = PointSearch {
    means: 1.0,
    even: true,
    tiny: TINY,
    top: 3,
    steps: 9,
    step: 0.1,
    again: Again::Some,
};
const THREE: PointSearch = PointSearch {
    means: 2.0,
    even: true,
    tiny: 1e-8,
    top: 8,
    steps: 15,
    step: 0.2,
    again: Again::Some,
};

/// A run of elements without their signs.
struct PointRun<const N: usize> {
    values: [f32; N],
    weights: [f32; N],
    signs: [u8; 4],
    /// The largest of `values`.
    max: f32,
}

/// The result for a run: at most 8 points.
#[derive(Clone, Copy, Default)]
struct FoundPoints {
    scale: f32,
    points: [u16; 8],
    signs: [u8; 4],
    /// The run is 0 and was not searched.
    nothing: bool,
}

quantizers! {
    IQ2_XXS: 256 => 66 Required, |batch, out| {
        let params = PointSearch { steps: 6, again: Again::All, ..TWO };
        let means: [f32; 16] = from_fn(|lane| mean_square(batch, lane, &params));
        let mut found = [[FoundPoints::default(); 8]; 16];
        for number in 0..8 {
            let runs: [PointRun<32>; 16] = from_fn(|lane| run(batch, lane, number, means[lane], &params));
            // The range over which candidates are spread: three times the scale of codes up to 4.
            let simd = batch.simd;
            let (mut values, mut weights) = ([simd.splat(0.0); 32], [simd.splat(0.0); 32]);
            for i in 0..32 {
                values[i] = simd.load(&from_fn(|lane| runs[lane].values[i]));
                weights[i] = simd.load(&from_fn(|lane| runs[lane].weights[i]));
            }
            let (scales, _) = positive(simd, &values, &weights, 4);
            let (mut first, mut range) = ([0.0; 16], [0.0; 16]);
            simd.put_f32::<false>(scales, &mut first);
            simd.put_f32::<false>(simd.mul(scales, simd.splat(3.0)), &mut range);
            for lane in 0..out.len() {
                let start = [range[lane], first[lane]];
                found[lane][number] = search(&codebook::IQ2_XXS, &runs[lane], start, &params);
            }
        }
        for (out, found) in out.iter_mut().zip(&found) {
            *out = [0; 66];
            let Some((d, scales)) = scales(found) else { continue };
            put_half(out, 0, d);
            for (number, found) in found.iter().enumerate() {
                let at = 2 + 8 * number;
                for k in 0..4 {
                    out[at + k] = low(found.points[k]);
                }
                out[at + 4..at + 8].copy_from_slice(&signs(found, scales[number]));
            }
        }
    }

    IQ2_XS: 256 => 74 Required, |batch, out| {
        for (lane, out) in out.iter_mut().enumerate() {
            let found: [FoundPoints; 16] = all::<_, 16, 16, 8>(batch, lane, &codebook::IQ2_XS, &TWO);
            *out = [0; 74];
            let Some((d, scales)) = scales(&found) else { continue };
            put_half(out, 0, d);
            for (number, found) in found.iter().enumerate() {
                for k in 0..2 {
                    let word = found.points[k] | u16::from(found.signs[k]) << 9;
                    let at = 2 + 4 * number + 2 * k;
                    out[at..at + 2].copy_from_slice(&word.to_le_bytes());
                }
                out[66 + number / 2] |= scales[number] << (4 * (number % 2));
            }
        }
    }

    IQ2_S: 256 => 82 Used, |batch, out| {
        let params = PointSearch { means: 2.0, even: false, tiny: 1e-8, ..TWO };
        for (lane, out) in out.iter_mut().enumerate() {
            let found: [FoundPoints; 16] = all::<_, 16, 16, 8>(batch, lane, &codebook::IQ2_S, &params);
            *out = [0; 82];
            for (number, found) in found.iter().enumerate() {
                for k in 0..2 {
                    let at = 2 * number + k;
                    out[2 + at] = low(found.points[k]);
                    out[34 + at] = found.signs[k];
                    out[66 + at / 4] |= low(found.points[k] >> 8) << (2 * (at % 4));
                }
            }
            let Some((d, scales)) = scales(&found) else { continue };
            put_half(out, 0, d * 0.9875);
            for (number, scale) in scales.iter().enumerate() {
                out[74 + number / 2] |= scale << (4 * (number % 2));
            }
        }
    }

    IQ3_XXS: 256 => 98 Used, |batch, out| {
        for (lane, out) in out.iter_mut().enumerate() {
            let found: [FoundPoints; 8] = all::<_, 8, 32, 4>(batch, lane, &codebook::IQ3_XXS, &THREE);
            *out = [0; 98];
            let Some((d, scales)) = scales(&found) else { continue };
            put_half(out, 0, d * 1.0125);
            for (number, found) in found.iter().enumerate() {
                for k in 0..8 {
                    out[2 + 8 * number + k] = low(found.points[k]);
                }
                let at = 66 + 4 * number;
                out[at..at + 4].copy_from_slice(&signs(found, scales[number]));
            }
        }
    }

    IQ3_S: 256 => 110 Used, |batch, out| {
        let params = PointSearch { even: false, tiny: 0.0, steps: 9, again: Again::AllOfSome, ..THREE };
        for (lane, out) in out.iter_mut().enumerate() {
            let found: [FoundPoints; 8] = all::<_, 8, 32, 4>(batch, lane, &codebook::IQ3_S, &params);
            *out = [0; 110];
            // In ggml, runs of zeros take no space for points and signs: those that follow move up
            // to positions where no reader expects them.
            let some = found.iter().enumerate().filter(|(_, found)| !found.nothing);
            for (place, (number, found)) in some.enumerate() {
                for k in 0..8 {
                    out[2 + 8 * place + k] = low(found.points[k]);
                    out[66 + number] |= low(found.points[k] >> 8) << k;
                }
                out[74 + 4 * place..78 + 4 * place].copy_from_slice(&found.signs);
            }
            let Some((d, scales)) = scales(&found) else { continue };
            put_half(out, 0, d * 1.033);
            for (number, scale) in scales.iter().take(8).enumerate() {
                out[106 + number / 2] |= scale << (4 * (number % 2));
            }
        }
    }
}

#[inline(always)]
fn low(word: u16) -> u8 {
    word.to_le_bytes()[0]
}

/// Packs four times 7 bits of signs, and 4 bits of a scale.
fn signs(found: &FoundPoints, scale: u8) -> [u8; 4] {
    let signs = found.signs.map(u32::from);
    let bits = signs[0] | signs[1] << 7 | signs[2] << 14 | signs[3] << 21;
    (bits | u32::from(scale) << 28).to_le_bytes()
}

/// Writes one `f16`; NaN as 0x7e00.
pub(super) fn put_half(out: &mut [u8], at: usize, value: f32) {
    out[at..at + 2].copy_from_slice(&half_bits(value).to_le_bytes());
}

pub(super) fn half_bits(value: f32) -> u16 {
    if value.is_nan() { 0x7e00 } else { half::f16::from_f32(value).to_bits() }
}

/// Like `Simd::nearest`.
pub(super) fn nearest(value: f32, top: u8) -> u8 {
    let bits = (value + 12_582_912.0).to_bits() & 0x7f_ffff;
    bits.saturating_sub(0x40_0000).min(u32::from(top)).to_le_bytes()[0]
}

/// A 31st of the largest scale, and all scales in units of it: odd numbers of 4 bits. `None` if all
/// are 0.
fn scales(found: &[FoundPoints]) -> Option<(f32, [u8; 16])> {
    let mut max = 0.0f32;
    for found in found {
        max = if max > found.scale { max } else { found.scale };
    }
    if max == 0.0 {
        return None;
    }
    let d = max / 31.0;
    let inverse = 1.0 / d;
    let mut scales = [0; 16];
    for (scale, found) in scales.iter_mut().zip(found) {
        *scale = nearest(0.5 * (inverse * found.scale - 1.0), 15);
    }
    Some((d, scales))
}

/// The mean square of a block times `means`, summed in order, which importance is combined with.
pub(super) fn mean_of(x: &[f32], means: f32) -> f32 {
    means * x.iter().fold(0.0, |sum, x| sum + x * x) / 256.0
}

#[inline(always)]
fn mean_square<S: Simd>(batch: &Batch<'_, S, 256>, lane: usize, params: &PointSearch) -> f32 {
    mean_of(&batch.values[lane], params.means)
}

/// The results of a block's runs, in order.
#[inline(always)]
fn all<S: Simd, const RUNS: usize, const N: usize, const P: usize>(
    batch: &Batch<'_, S, 256>,
    lane: usize,
    book: &Codebook<P>,
    params: &PointSearch,
) -> [FoundPoints; RUNS] {
    let mean = mean_square(batch, lane, params);
    from_fn(|number| {
        let run: PointRun<N> = run(batch, lane, number, mean, params);
        search(book, &run, [run.max, run.max / odd(params.top - 1)], params)
    })
}

#[inline(always)]
fn run<S: Simd, const N: usize>(
    batch: &Batch<'_, S, 256>,
    lane: usize,
    number: usize,
    mean: f32,
    params: &PointSearch,
) -> PointRun<N> {
    let importance =
        batch.importance.map(|importance| importance[lane][N * number..].first_chunk());
    let x = batch.values[lane][N * number..].first_chunk();
    prepare(x.unwrap_or(&[0.0; N]), importance.flatten(), mean, params)
}

/// The weights and signs of a run.
fn prepare<const N: usize>(
    x: &[f32; N],
    importance: Option<&[f32; N]>,
    mean: f32,
    params: &PointSearch,
) -> PointRun<N> {
    let weights: [f32; N] = from_fn(|i| match importance {
        Some(importance) => importance[i] * (mean + x[i] * x[i]).sqrt(),
        None if params.top == 3 => 0.25 * mean + x[i] * x[i],
        None => x[i] * x[i],
    });
    // NaN counts as negative.
    let negative = |x: f32| x < 0.0 || x.is_nan();
    let mut values = x.map(|x| if negative(x) { -x } else { x });
    let mut signs = [0; 4];
    for (k, (x, values)) in x.chunks(8).zip(values.chunks_mut(8)).enumerate() {
        for (i, x) in x.iter().enumerate() {
            signs[k] |= u8::from(negative(*x)) << i;
        }
        if params.even && signs[k].count_ones() % 2 == 1 {
            // The sign with the least effect is changed.
            let cost = |i: usize| weights[8 * k + i] * x[i] * x[i];
            let mut least = (0, cost(0));
            for i in 1..8 {
                if cost(i) < least.1 {
                    least = (i, cost(i));
                }
            }
            values[least.0] = -values[least.0];
            signs[k] ^= 1 << least.0;
        }
        if params.even {
            signs[k] &= 127;
        }
    }
    let max = values.iter().skip(1).fold(values[0], |max, x| if max > *x { max } else { *x });
    PointRun { values, weights, signs, max }
}

/// The scale and the points with the smallest weighted square error among the candidates: scales
/// that spread `range` over more or fewer codes. If no candidate is good, the scale is `first`.
fn search<const N: usize, const P: usize>(
    book: &Codebook<P>,
    run: &PointRun<N>,
    [range, first]: [f32; 2],
    params: &PointSearch,
) -> FoundPoints {
    let PointRun { values, weights, max, .. } = run;
    if *max < params.tiny || *max == 0.0 || (params.again == Again::All && range <= 0.0) {
        return FoundPoints { nothing: true, ..FoundPoints::default() };
    }
    let roots = weights.map(f32::sqrt);
    let snap = |k: usize, scale: f32, inverse: f32| {
        let mut codes: [u8; P] =
            from_fn(|i| nearest(0.5 * (inverse * values[P * k + i] - 1.0), params.top - 1));
        book.snap(&mut codes, |point| {
            let mut sum = 0.0;
            for i in 0..P {
                let off = scale * odd(point[i]) - values[P * k + i];
                sum += roots[P * k + i] * off * off;
            }
            sum
        })
    };
    let sums = |points: &[u16; 8]| {
        let (mut sumqx, mut sumq2) = (0.0, 0.0);
        for i in 0..N {
            let q = odd(book.point(points[i / P])[i % P]);
            sumqx += weights[i] * values[i] * q;
            sumq2 += weights[i] * q * q;
        }
        (sumqx, sumq2)
    };
    let full = odd(params.top - 1);
    // Until points are found, the codes are 0.
    let zeros = book.snap(&mut [0; P], |_| 0.0).0;
    let mut points = [zeros; 8];
    let mut on = [params.again == Again::Some; 8];
    let mut scale = first;
    let mut best = 0.0;
    for step in -params.steps..=params.steps {
        let inverse = (full + super::search::float(step) * params.step) / range;
        let mut candidate = [0; 8];
        let mut candidate_on = [true; 8];
        for k in 0..N / P {
            (candidate[k], candidate_on[k]) = snap(k, 1.0 / inverse, inverse);
        }
        let (sumqx, sumq2) = sums(&candidate);
        if sumq2 > 0.0 && sumqx * sumqx > best * sumq2 {
            scale = sumqx / sumq2;
            best = scale * sumqx;
            (points, on) = (candidate, candidate_on);
        }
    }
    let some = on[..N / P].contains(&false);
    if scale > 0.0 && (some || params.again == Again::All) {
        for k in 0..N / P {
            if params.again != Again::Some || !on[k] {
                (points[k], _) = snap(k, scale, 1.0 / scale);
            }
        }
        let (sumqx, sumq2) = sums(&points);
        if sumq2 > 0.0 {
            scale = sumqx / sumq2;
        }
    }
    let mut signs = run.signs;
    if scale < 0.0 {
        scale = -scale;
        for signs in signs.iter_mut().take(N / 8) {
            *signs = if params.even { !*signs & 127 } else { !*signs };
        }
    }
    FoundPoints { scale, points, signs, nothing: false }
}

/// The value of a code.
#[inline(always)]
fn odd(code: u8) -> f32 {
    f32::from(2 * code + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_that_of_lanes() {
        for value in [0.5f32, 1.5, 2.5, -0.5, -3.0, 1e9, -1e9, f32::NAN, f32::INFINITY] {
            let simd = crate::quant::simd::Portable;
            let lanes = simd.nearest([value; 16], 0, 7);
            assert_eq!(f32::from(nearest(value, 7)), lanes[0], "{value}");
        }
    }
}
