//! Quantizers of the dtypes with signs and codebook points. Each lane quantizes one block.

use std::array::from_fn;

use super::codebook::{self, Codebook, Points};
use super::nearest::{Steps, Targets};
use super::search::{TINY, count, float, positive};
use super::{Batch, Simd, quantizers, squares, weigh};

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
    /// The size of a step: a fraction of a code, doubled.
    step: f32,
    /// The points that are searched again at the end.
    again: Again,
}

/// The points that are searched again, once the scale is known.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    /// All points.
    All,
    /// All points, if one was not in the codebook at first, or none was found.
    AllOfSome,
    /// The points that were not in the codebook at first.
    Some,
}

const TWO: PointSearch =
    PointSearch { means: 1.0, even: true, tiny: TINY, top: 3, step: 0.1, again: Again::Some };
const THREE: PointSearch =
    PointSearch { means: 2.0, even: true, tiny: 1e-8, top: 8, step: 0.2, again: Again::Some };

/// A run of elements for each lane, without their signs.
struct PointRun<S: Simd, const N: usize> {
    values: [S::Floats; N],
    weights: [S::Floats; N],
    /// For each 8 elements, a bit for each one that is negative.
    signs: [S::Words; 4],
    /// The largest of `values`.
    max: S::Floats,
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
        let params = PointSearch { again: Again::All, ..TWO };
        let simd = batch.simd;
        let mean = mean_square(batch, params.means);
        let mut found = [[FoundPoints::default(); 16]; 8];
        let mut steps = Steps::new();
        for (number, found) in found.iter_mut().enumerate() {
            let run: PointRun<S, 32> = run(batch, number, mean, &params);
            // The range over which candidates are spread: three times the scale of codes up to 4.
            let (scale, _) = positive(simd, &run.values, &run.weights, 4);
            let start = [simd.mul(scale, simd.splat(3.0)), scale];
            *found =
                search::<S, 32, 8, 4, 13>(simd, &codebook::IQ2_XXS, &run, start, &params, &mut steps);
        }
        for (lane, out) in out.iter_mut().enumerate() {
            let found = found.map(|found| found[lane]);
            *out = [0; 66];
            let Some((d, scales)) = scales(&found) else { continue };
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
        let found = all::<S, 16, 16, 8, 2, 19>(batch, &codebook::IQ2_XS, &TWO);
        for (lane, out) in out.iter_mut().enumerate() {
            let found = found.map(|found| found[lane]);
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
        let found = all::<S, 16, 16, 8, 2, 19>(batch, &codebook::IQ2_S, &params);
        for (lane, out) in out.iter_mut().enumerate() {
            let found = found.map(|found| found[lane]);
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
        let found = all::<S, 8, 32, 4, 8, 31>(batch, &codebook::IQ3_XXS, &THREE);
        for (lane, out) in out.iter_mut().enumerate() {
            let found = found.map(|found| found[lane]);
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
        let params = PointSearch { even: false, tiny: 0.0, again: Again::AllOfSome, ..THREE };
        let found = all::<S, 8, 32, 4, 8, 19>(batch, &codebook::IQ3_S, &params);
        for (lane, out) in out.iter_mut().enumerate() {
            let found = found.map(|found| found[lane]);
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

/// The mean squares of blocks times `means`, summed in order, which importance is combined with.
#[inline(always)]
pub(super) fn mean_square<S: Simd>(batch: &Batch<'_, S, 256>, means: f32) -> S::Floats {
    let simd = batch.simd;
    let mut x = [simd.splat(0.0); 256];
    batch.values(0, &mut x);
    let sum = simd.mul(simd.splat(means), squares(simd, &x));
    simd.div(sum, simd.splat(256.0))
}

/// The results of the blocks' runs, in order.
#[inline(always)]
fn all<
    S: Simd,
    const RUNS: usize,
    const N: usize,
    const P: usize,
    const GROUPS: usize,
    const STEPS: usize,
>(
    batch: &Batch<'_, S, 256>,
    book: &Codebook<P>,
    params: &PointSearch,
) -> [[FoundPoints; 16]; RUNS] {
    let simd = batch.simd;
    let mean = mean_square(batch, params.means);
    let mut found = [[FoundPoints::default(); 16]; RUNS];
    let mut steps = Steps::new();
    for (number, found) in found.iter_mut().enumerate() {
        let run: PointRun<S, N> = run(batch, number, mean, params);
        let start = [run.max, simd.div(run.max, simd.splat(odd(params.top - 1)))];
        *found = search::<S, N, P, GROUPS, STEPS>(simd, book, &run, start, params, &mut steps);
    }
    found
}

/// The weights and signs of a run.
#[inline(always)]
fn run<S: Simd, const N: usize>(
    batch: &Batch<'_, S, 256>,
    number: usize,
    mean: S::Floats,
    params: &PointSearch,
) -> PointRun<S, N> {
    let simd = batch.simd;
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    let (mut x, mut weights) = ([zero; N], [zero; N]);
    batch.values(N * number, &mut x);
    if batch.importance(N * number, &mut weights) {
        weigh(simd, &mut weights, &x, mean);
    } else {
        for (weight, x) in weights.iter_mut().zip(x) {
            let square = simd.mul(x, x);
            *weight = match params.top {
                3 => simd.add(simd.mul(simd.splat(0.25), mean), square),
                _ => square,
            };
        }
    }
    let minus = simd.splat(-1.0);
    let (mut values, mut signs) = ([zero; N], [simd.whole(zero); 4]);
    for (k, x) in x.as_chunks::<8>().0.iter().enumerate() {
        // One for each element that is negative; NaN counts as such.
        let (mut negative, mut minus_signs) = ([zero; 8], zero);
        for i in 0..8 {
            let mask = simd.either(simd.below(x[i], zero), simd.differ(x[i], x[i]));
            values[8 * k + i] = simd.choose(mask, simd.mul(x[i], minus), x[i]);
            negative[i] = simd.choose(mask, one, zero);
            minus_signs = simd.add(minus_signs, negative[i]);
        }
        if params.even {
            // The sign with the least effect is changed.
            let (mut least, mut place) = (zero, zero);
            for i in 0..8 {
                let cost = simd.mul(simd.mul(weights[8 * k + i], x[i]), x[i]);
                if i == 0 {
                    least = cost;
                    continue;
                }
                let less = simd.below(cost, least);
                least = simd.choose(less, cost, least);
                place = simd.choose(less, simd.splat(count(i)), place);
            }
            let uneven = simd.same(simd.numbers(simd.cut(simd.whole(minus_signs), 1)), one);
            for i in 0..8 {
                let change = simd.both(uneven, simd.same(place, simd.splat(count(i))));
                let value = &mut values[8 * k + i];
                *value = simd.choose(change, simd.mul(*value, minus), *value);
                negative[i] = simd.choose(change, simd.sub(one, negative[i]), negative[i]);
            }
        }
        let mut bits = zero;
        for i in (0..if params.even { 7 } else { 8 }).rev() {
            bits = simd.add(simd.add(bits, bits), negative[i]);
        }
        signs[k] = simd.whole(bits);
    }
    let mut max = values[0];
    for value in &values[1..] {
        max = simd.most(max, *value);
    }
    PointRun { values, weights, signs, max }
}

/// The scales and the points with the smallest weighted square errors among the candidates: scales
/// that spread `range` over more or fewer codes. If no candidate is good, the scale is `first`.
#[inline(always)]
fn search<S: Simd, const N: usize, const P: usize, const GROUPS: usize, const STEPS: usize>(
    simd: S,
    book: &Codebook<P>,
    run: &PointRun<S, N>,
    [range, first]: [S::Floats; 2],
    params: &PointSearch,
    steps: &mut Steps<GROUPS, STEPS>,
) -> [FoundPoints; 16] {
    let zero = simd.splat(0.0);
    let all = params.again == Again::All;
    let mut roots = run.weights;
    let mut weighted = run.values;
    for i in 0..N {
        roots[i] = simd.sqrt(run.weights[i]);
        weighted[i] = simd.mul(run.weights[i], run.values[i]);
    }
    let full = odd(params.top - 1);
    let top_step = i32::try_from(STEPS / 2).unwrap_or_default();
    let least = full - float(top_step) * params.step;
    let reach = simd.mul(simd.magnitude(range), simd.splat(full / least));
    let targets: Targets<N, GROUPS> = Targets::new(simd, &run.values, &roots, reach);
    try_scales::<S, N, P, GROUPS, STEPS>(simd, book, &run.values, range, params, steps);
    for k in 0..GROUPS {
        targets.snap(simd, book, steps, k);
    }
    let (mut scale, winner) =
        best_scale::<S, N, P, GROUPS, STEPS>(simd, run, &weighted, first, steps);
    let (mut last, on) = winning_points(simd, book, winner, params.again, steps);
    // The lanes whose points are searched again.
    let positive = floats(simd, simd.choose(simd.below(zero, scale), simd.splat(1.0), zero));
    let mut again = [0.0; 16];
    for lane in 0..16 {
        let some = on.iter().any(|on| !on[lane]);
        again[lane] = if all || some { positive[lane] } else { 0.0 };
    }
    let scales = floats(simd, scale);
    let inverse = simd.div(simd.splat(1.0), scale);
    let places = places::<S, N, P, GROUPS>(simd, book, &run.values, inverse, params.top);
    let levels = Codebook::<P>::levels(simd);
    for k in 0..GROUPS {
        let mut place = [0; 16];
        simd.put_words(simd.whole(places[k]), &mut place);
        for lane in 0..16 {
            if again[lane] != 0.0 && (params.again != Again::Some || !on[k][lane]) {
                let list = book.list(place[lane]);
                last[k][lane] = match list.count {
                    0 => book.point(list.first),
                    _ => targets.nearest(simd, book, (k, lane), list, scales[lane], levels).point,
                };
            }
        }
    }
    let (sumqx, sumq2) = sums::<S, N, P, GROUPS>(simd, &last, &run.weights, &weighted);
    let fit = simd.both(simd.below(zero, sumq2), simd.below(zero, simd.load(&again)));
    scale = simd.choose(fit, simd.div(sumqx, sumq2), scale);
    let mut nothing =
        simd.either(simd.below(run.max, simd.splat(params.tiny)), simd.same(run.max, zero));
    if all {
        nothing =
            simd.either(nothing, simd.either(simd.below(range, zero), simd.same(range, zero)));
    }
    found_points(simd, run, scale, &last, nothing, params.even)
}

/// Rounds values with each candidate for the scale: the scales, the places in the codebook, and the steps
/// at which these change.
#[inline(always)]
fn try_scales<S: Simd, const N: usize, const P: usize, const GROUPS: usize, const STEPS: usize>(
    simd: S,
    book: &Codebook<P>,
    values: &[S::Floats; N],
    range: S::Floats,
    params: &PointSearch,
    steps: &mut Steps<GROUPS, STEPS>,
) {
    let zero = simd.splat(0.0);
    let full = odd(params.top - 1);
    let top_step = i32::try_from(STEPS / 2).unwrap_or_default();
    let (mut before, mut changes) = ([simd.splat(-1.0); GROUPS], [simd.whole(zero); GROUPS]);
    for (step, number) in (-top_step..=top_step).enumerate() {
        let inverse = full + float(number) * params.step;
        let inverse = simd.div(simd.splat(inverse), range);
        steps.scales[step] = floats(simd, simd.div(simd.splat(1.0), inverse));
        let places = places::<S, N, P, GROUPS>(simd, book, values, inverse, params.top);
        for k in 0..GROUPS {
            let change = simd.choose(simd.differ(places[k], before[k]), simd.splat(1.0), zero);
            changes[k] = simd.join::<1>(simd.whole(change), changes[k]);
            simd.put_words(simd.whole(places[k]), &mut steps.places[step][k]);
        }
        before = places;
    }
    for k in 0..GROUPS {
        simd.put_words(changes[k], &mut steps.changes[k]);
    }
}

/// The scale with the smallest weighted square error, and the number of its candidate from 1; `first` and
/// 0 if no candidate is good.
#[inline(always)]
fn best_scale<S: Simd, const N: usize, const P: usize, const GROUPS: usize, const STEPS: usize>(
    simd: S,
    run: &PointRun<S, N>,
    weighted: &[S::Floats; N],
    first: S::Floats,
    steps: &Steps<GROUPS, STEPS>,
) -> (S::Floats, S::Floats) {
    let zero = simd.splat(0.0);
    let (mut scale, mut best, mut winner) = (first, zero, zero);
    for (step, points) in steps.points.iter().enumerate() {
        let (sumqx, sumq2) = sums::<S, N, P, GROUPS>(simd, points, &run.weights, weighted);
        let better = simd.both(
            simd.below(zero, sumq2),
            simd.below(simd.mul(best, sumq2), simd.mul(sumqx, sumqx)),
        );
        let new = simd.div(sumqx, sumq2);
        scale = simd.choose(better, new, scale);
        best = simd.choose(better, simd.mul(new, sumqx), best);
        winner = simd.choose(better, simd.splat(count(step + 1)), winner);
    }
    (scale, winner)
}

/// The points of the best candidates, and whether the codebook has their combinations of codes. Until
/// points are found, the codes are 0.
#[inline(always)]
fn winning_points<S: Simd, const P: usize, const GROUPS: usize, const STEPS: usize>(
    simd: S,
    book: &Codebook<P>,
    winner: S::Floats,
    again: Again,
    steps: &Steps<GROUPS, STEPS>,
) -> (Points<GROUPS>, [[bool; 16]; GROUPS]) {
    let mut winners = [0; 16];
    simd.put_words(simd.whole(winner), &mut winners);
    let mut last = [[book.point(book.list(0).first); 16]; GROUPS];
    let mut on = [[again == Again::Some; 16]; GROUPS];
    for lane in 0..16 {
        let Some(winner) = winners[lane].checked_sub(1) else { continue };
        let winner = winner as usize;
        for k in 0..GROUPS {
            last[k][lane] = steps.points[winner][k][lane];
            on[k][lane] = book.has(steps.places[winner][k][lane]);
        }
    }
    (last, on)
}

/// The results of the lanes; `nothing` is true for runs that are 0.
#[inline(always)]
fn found_points<S: Simd, const N: usize, const GROUPS: usize>(
    simd: S,
    run: &PointRun<S, N>,
    scale: S::Floats,
    points: &Points<GROUPS>,
    nothing: S::Mask,
    even: bool,
) -> [FoundPoints; 16] {
    let nothing = floats(simd, simd.choose(nothing, simd.splat(1.0), simd.splat(0.0)));
    let scales = floats(simd, scale);
    let mut signs = [[0; 16]; 4];
    for k in 0..N / 8 {
        simd.put_words(run.signs[k], &mut signs[k]);
    }
    from_fn(|lane| {
        if nothing[lane] != 0.0 {
            return FoundPoints { nothing: true, ..FoundPoints::default() };
        }
        let mut found = FoundPoints { scale: scales[lane], ..FoundPoints::default() };
        for k in 0..GROUPS {
            found.points[k] = codebook::number_of(points[k][lane]);
        }
        for k in 0..N / 8 {
            found.signs[k] = signs[k][lane].to_le_bytes()[0];
        }
        if found.scale < 0.0 {
            found.scale = -found.scale;
            for signs in found.signs.iter_mut().take(N / 8) {
                *signs = if even { !*signs & 127 } else { !*signs };
            }
        }
        found
    })
}

/// The combinations of codes that numbers are rounded to.
#[inline(always)]
fn places<S: Simd, const N: usize, const P: usize, const GROUPS: usize>(
    simd: S,
    book: &Codebook<P>,
    values: &[S::Floats; N],
    inverse: S::Floats,
    top: u8,
) -> [S::Floats; GROUPS] {
    let mut places = [inverse; GROUPS];
    for (values, places) in values.as_chunks::<P>().0.iter().zip(&mut places) {
        let mut codes = *values;
        for code in &mut codes {
            let above = simd.sub(simd.mul(inverse, *code), simd.splat(1.0));
            *code = simd.nearest(simd.mul(simd.splat(0.5), above), 0, i32::from(top) - 1);
        }
        *places = book.place(simd, &codes);
    }
    places
}

/// The weighted sums of numbers times their values in the codebook, and of squares of these.
#[inline(always)]
fn sums<S: Simd, const N: usize, const P: usize, const GROUPS: usize>(
    simd: S,
    points: &Points<GROUPS>,
    weights: &[S::Floats; N],
    weighted: &[S::Floats; N],
) -> (S::Floats, S::Floats) {
    let (mut sumqx, mut sumq2) = (simd.splat(0.0), simd.splat(0.0));
    let levels = [Codebook::<P>::levels(simd); P];
    for (k, points) in points.iter().enumerate() {
        let odds = Codebook::<P>::entries(simd, &levels, simd.load_words(points));
        for (i, q) in odds.into_iter().enumerate() {
            sumqx = simd.add(sumqx, simd.mul(weighted[P * k + i], q));
            sumq2 = simd.add(sumq2, simd.mul(simd.mul(weights[P * k + i], q), q));
        }
    }
    (sumqx, sumq2)
}

#[inline(always)]
pub(super) fn floats<S: Simd>(simd: S, a: S::Floats) -> [f32; 16] {
    let mut floats = [0.0; 16];
    simd.put_f32::<false>(a, &mut floats);
    floats
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
            let simd = crate::simd::Portable;
            let lanes = simd.nearest([value; 16], 0, 7);
            assert_eq!(f32::from(nearest(value, 7)), lanes[0], "{value}");
        }
    }
}
