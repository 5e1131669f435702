//! Searches for the scale, or the scale and the minimum, that fit a run of numbers best. Each lane
//! searches independently.

use crate::simd::Simd;

/// Magnitudes below this count as 0.
pub(super) const TINY: f32 = 1e-15;

/// A scale, for codes from -top to top - 1.
#[derive(Clone, Copy)]
pub(super) struct Scaled<S: Simd> {
    /// 0 if all numbers are 0.
    pub(super) scale: S::Floats,
    /// The factor that numbers are multiplied by before they are rounded to codes.
    inverse: S::Floats,
    nothing: S::Mask,
}

impl<S: Simd> Scaled<S> {
    /// The initial state, without a scale.
    #[inline(always)]
    pub(super) fn none(simd: S) -> Self {
        let zero = simd.splat(0.0);
        Self { scale: zero, inverse: zero, nothing: simd.same(zero, zero) }
    }

    /// The code of a number, from 0 to 2 top - 1.
    #[inline(always)]
    pub(super) fn code(&self, simd: S, x: S::Floats, top: i32) -> S::Floats {
        let code = simd.nearest(simd.mul(self.inverse, x), -top, top - 1);
        let code = simd.add(code, simd.splat(float(top)));
        simd.choose(self.nothing, simd.splat(0.0), code)
    }
}

/// Converts a small integer to a float.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "they are small")]
pub(super) fn float(number: i32) -> f32 {
    number as f32
}

/// A small position or count as a float.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "they are small")]
pub(super) fn count(number: usize) -> f32 {
    number as f32
}

/// The weighted sums of numbers times their codes, and of squared codes. `ABOVE` promises that no
/// product is so far below -top that it would round to less.
#[inline(always)]
fn sums<S: Simd, const N: usize, const ABOVE: bool>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    weighted: &[S::Floats; N],
    inverse: S::Floats,
    top: i32,
) -> (S::Floats, S::Floats) {
    let (mut sumlx, mut suml2) = (simd.splat(0.0), simd.splat(0.0));
    for i in 0..N {
        // Only NaN exceeds the bounds by more than one here, and it makes all sums NaN.
        let product = simd.mul(inverse, x[i]);
        let code = match ABOVE {
            true => simd.even(simd.least(product, simd.splat(float(top - 1)))),
            false => rounded_within(simd, product, -top, top - 1),
        };
        sumlx = simd.add(sumlx, simd.mul(weighted[i], code));
        suml2 = simd.add(suml2, simd.mul(simd.mul(weights[i], code), code));
    }
    (sumlx, suml2)
}

/// Rounds numbers to integers, ties to even, after limiting them to the bounds. Equals `nearest`,
/// except for NaN and magnitudes from 2^22 on.
#[inline(always)]
fn rounded_within<S: Simd>(simd: S, a: S::Floats, low: i32, high: i32) -> S::Floats {
    let a = simd.least(simd.most(a, simd.splat(float(low))), simd.splat(float(high)));
    simd.even(a)
}

/// The scale with the smallest weighted square error among 19 near the one that makes the largest
/// magnitude the code -top (`make_qx_quants`).
#[inline(always)]
pub(super) fn scaled<S: Simd, const N: usize>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    top: i32,
) -> Scaled<S> {
    let zero = simd.splat(0.0);
    let (largest, max) = super::extreme(simd, x);
    let mut weighted = [zero; N];
    for i in 0..N {
        weighted[i] = simd.mul(weights[i], x[i]);
    }
    let mut best = simd.div(simd.splat(-float(top)), max);
    let (sumlx, suml2) = sums::<S, N, true>(simd, x, weights, &weighted, best, top);
    let mut scale = simd.choose(simd.same(suml2, zero), zero, simd.div(sumlx, suml2));
    let mut score = simd.mul(scale, sumlx);
    for step in (-9..=9).filter(|step| *step != 0) {
        let inverse = simd.div(simd.splat(-(float(top) + 0.1 * float(step))), max);
        // The largest magnitude becomes -(top + step / 10).
        let (sumlx, suml2) = if step < 5 {
            sums::<S, N, true>(simd, x, weights, &weighted, inverse, top)
        } else {
            sums::<S, N, false>(simd, x, weights, &weighted, inverse, top)
        };
        let better = simd.both(
            simd.below(zero, suml2),
            simd.below(simd.mul(score, suml2), simd.mul(sumlx, sumlx)),
        );
        if !simd.any(better) {
            continue;
        }
        let new = simd.div(sumlx, suml2);
        scale = simd.choose(better, new, scale);
        score = simd.choose(better, simd.mul(new, sumlx), score);
        best = simd.choose(better, inverse, best);
    }
    let nothing = simd.below(largest, simd.splat(TINY));
    Scaled { scale: simd.choose(nothing, zero, scale), inverse: best, nothing }
}

/// The scales that `descended` would find, for runs of 16 in which it moves no code; and the mask
/// of lanes for which this is certain, about four of five. In a few more lanes no code moves
/// either.
///
/// Let A be the sum of weights times numbers times codes, and B that of weights times squared
/// codes. Without the terms of a number x and its code c they are A - wxc and B - wcc, and the best
/// code is x (B - wcc) / (A - wxc). As w is xx, c is nearer to that than a half if |x B/A - c| A is
/// less than (A - wxc) / 2. The rounding errors of products and sums are about 2^-24 of at most 5
/// A, a third of the hundred thousandth by which the comparison stays below a half.
#[inline(always)]
pub(super) fn settled<S: Simd>(simd: S, x: &[S::Floats; 16]) -> (S::Floats, S::Mask) {
    let zero = simd.splat(0.0);
    let (mut low, mut high) = (zero, zero);
    for x in x {
        low = simd.least(*x, low);
        high = simd.most(*x, high);
    }
    // Neither, if the largest magnitude occurs with both signs: then the first one counts.
    let depth = simd.sub(zero, low);
    let (negative, positive) = (simd.below(high, depth), simd.below(depth, high));
    let inverse = simd.div(simd.splat(-4.0), simd.choose(negative, low, high));
    let (mut sumlx, mut suml2) = (zero, zero);
    let (mut codes, mut terms) = ([zero; 16], [zero; 16]);
    for i in 0..16 {
        let weight = simd.mul(x[i], x[i]);
        let code = simd.even(simd.least(simd.mul(inverse, x[i]), simd.splat(3.0)));
        let term = simd.mul(simd.mul(weight, x[i]), code);
        sumlx = simd.add(sumlx, term);
        suml2 = simd.add(suml2, simd.mul(simd.mul(weight, code), code));
        (codes[i], terms[i]) = (code, term);
    }
    let (ratio, half) = (simd.div(suml2, sumlx), simd.div(simd.splat(0.5), sumlx));
    let mut most = zero;
    for i in 0..16 {
        // Above the highest code, the highest code is best.
        let best = simd.least(simd.mul(x[i], ratio), simd.splat(3.0));
        let off = simd.magnitude(simd.sub(best, codes[i]));
        most = simd.most(most, simd.add(off, simd.mul(terms[i], half)));
    }
    // Sums that are neither NaN nor so small or so large that their terms lose bits.
    let normal =
        |sum| simd.both(simd.below(simd.splat(1e-30), sum), simd.below(sum, simd.splat(1e30)));
    let still = simd.both(simd.below(most, simd.splat(0.499_99)), normal(sumlx));
    // If the largest magnitude is positive, its code is -4 and all terms of A are negative or 0.
    // Partial sums only decrease: A minus one term is never above 0, and then no code moves.
    let falling = simd.both(positive, normal(simd.sub(zero, sumlx)));
    let settled = simd.both(simd.either(simd.both(negative, still), falling), normal(suml2));
    (simd.div(sumlx, suml2), settled)
}

/// The scales of two runs of 16 for codes from -4 to 3, and the codes plus 4. The search starts
/// with the scale that makes the largest magnitude -4. Each code in turn is moved to where it fits
/// best, up to five times (`make_q3_quants`).
///
/// Each step depends on the one before; the steps of two runs are independent.
#[inline(always)]
pub(super) fn descended<S: Simd>(
    simd: S,
    x: &[S::Floats],
    codes: &mut [S::Floats; 32],
) -> [S::Floats; 2] {
    let zero = simd.splat(0.0);
    let (mut weights, mut weighted) = ([zero; 32], [zero; 32]);
    let (mut sumlx, mut suml2, mut nothing) = ([zero; 2], [zero; 2], [simd.same(zero, zero); 2]);
    for run in 0..2 {
        let (largest, max) = super::extreme(simd, &x[16 * run..16 * run + 16]);
        nothing[run] = simd.below(largest, simd.splat(TINY));
        let inverse = simd.div(simd.splat(-4.0), max);
        for i in 16 * run..16 * run + 16 {
            weights[i] = simd.mul(x[i], x[i]);
            weighted[i] = simd.mul(weights[i], x[i]);
            codes[i] = simd.nearest(simd.mul(inverse, x[i]), -4, 3);
            sumlx[run] = simd.add(sumlx[run], simd.mul(weighted[i], codes[i]));
            let square = simd.mul(simd.mul(weights[i], codes[i]), codes[i]);
            suml2[run] = simd.add(suml2[run], square);
        }
    }
    for _ in 0..5 {
        let mut changed = simd.below(zero, zero);
        for i in 0..16 {
            for run in 0..2 {
                let i = 16 * run + i;
                let code = codes[i];
                let slx = simd.sub(sumlx[run], simd.mul(weighted[i], code));
                let sl2 = simd.sub(suml2[run], simd.mul(simd.mul(weights[i], code), code));
                let new = simd.nearest(simd.div(simd.mul(x[i], sl2), slx), -4, 3);
                let may = simd.both(simd.below(zero, slx), simd.differ(new, code));
                let slx = simd.add(slx, simd.mul(weighted[i], new));
                let sl2 = simd.add(sl2, simd.mul(simd.mul(weights[i], new), new));
                let better = simd.below(
                    simd.mul(simd.mul(sumlx[run], sumlx[run]), sl2),
                    simd.mul(simd.mul(slx, slx), suml2[run]),
                );
                let take = simd.both(may, simd.both(simd.below(zero, sl2), better));
                codes[i] = simd.choose(take, new, code);
                sumlx[run] = simd.choose(take, slx, sumlx[run]);
                suml2[run] = simd.choose(take, sl2, suml2[run]);
                changed = simd.either(changed, take);
            }
        }
        // A lane that did not change would not change again.
        if !simd.any(changed) {
            break;
        }
    }
    let mut scales = [zero; 2];
    for run in 0..2 {
        for i in 16 * run..16 * run + 16 {
            codes[i] = simd.choose(nothing[run], zero, simd.add(codes[i], simd.splat(4.0)));
        }
        let scale = simd.div(sumlx[run], suml2[run]);
        let scale = simd.choose(simd.below(zero, suml2[run]), scale, zero);
        scales[run] = simd.choose(nothing[run], zero, scale);
    }
    scales
}

/// The scale for codes from 0 to top, and the codes, of numbers that are rarely negative: the best
/// of nine scales, refined like `descended` (`make_qp_quants`). Codes are bytes in ggml, and so
/// they are here: -1 is 255.
#[inline(always)]
pub(super) fn positive<S: Simd, const N: usize>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    top: i32,
) -> (S::Floats, [S::Words; N]) {
    let zero = simd.splat(0.0);
    let mut max = zero;
    for x in x {
        max = simd.most(max, *x);
    }
    let mut best = simd.div(simd.splat(float(top)), max);
    let scale = simd.div(simd.splat(1.0), best);
    let mut least = zero;
    for i in 0..N {
        let code = byte(simd, simd.nearest(simd.mul(best, x[i]), i32::MIN, i32::MAX));
        let off = simd.sub(x[i], simd.mul(scale, code));
        least = simd.add(least, simd.mul(simd.mul(weights[i], off), off));
    }
    for step in (-4..=4).filter(|step| *step != 0) {
        let inverse = simd.div(simd.splat(0.1 * float(step) + float(top)), max);
        let scale = simd.div(simd.splat(1.0), inverse);
        let mut error = zero;
        for i in 0..N {
            let code = simd.nearest(simd.mul(inverse, x[i]), i32::MIN, top);
            let off = simd.sub(x[i], simd.mul(scale, code));
            error = simd.add(error, simd.mul(simd.mul(weights[i], off), off));
        }
        let better = simd.below(error, least);
        least = simd.choose(better, error, least);
        best = simd.choose(better, inverse, best);
    }
    let (mut weighted, mut codes) = ([zero; N], [zero; N]);
    let (mut sumlx, mut suml2) = (zero, zero);
    for i in 0..N {
        weighted[i] = simd.mul(weights[i], x[i]);
        let code = simd.nearest(simd.mul(best, x[i]), i32::MIN, top);
        sumlx = simd.add(sumlx, simd.mul(weighted[i], code));
        suml2 = simd.add(suml2, simd.mul(simd.mul(weights[i], code), code));
        codes[i] = byte(simd, code);
    }
    for _ in 0..5 {
        let mut changed = false;
        for i in 0..N {
            let code = codes[i];
            let slx = simd.sub(sumlx, simd.mul(weighted[i], code));
            let sl2 = simd.sub(suml2, simd.mul(simd.mul(weights[i], code), code));
            let may = simd.both(simd.below(zero, slx), simd.below(zero, sl2));
            let new = simd.nearest(simd.div(simd.mul(x[i], sl2), slx), i32::MIN, top);
            let may = simd.both(may, simd.differ(new, code));
            let slx = simd.add(slx, simd.mul(weighted[i], new));
            let sl2 = simd.add(sl2, simd.mul(simd.mul(weights[i], new), new));
            let better = simd
                .below(simd.mul(simd.mul(sumlx, sumlx), sl2), simd.mul(simd.mul(slx, slx), suml2));
            let take = simd.both(may, better);
            codes[i] = simd.choose(take, byte(simd, new), code);
            sumlx = simd.choose(take, slx, sumlx);
            suml2 = simd.choose(take, sl2, suml2);
            changed |= simd.any(take);
        }
        if !changed {
            break;
        }
    }
    let nothing = simd.below(max, simd.splat(TINY));
    let scale = simd.choose(simd.below(zero, suml2), simd.div(sumlx, suml2), zero);
    let mut bytes = [simd.whole(zero); N];
    for i in 0..N {
        bytes[i] = simd.whole(simd.choose(nothing, zero, codes[i]));
    }
    (simd.choose(nothing, zero, scale), bytes)
}

/// The lowest 8 bits of integers.
#[inline(always)]
fn byte<S: Simd>(simd: S, code: S::Floats) -> S::Floats {
    simd.numbers(simd.cut(simd.whole(code), 255))
}

/// The parameters of a search for a scale and a minimum.
pub(super) struct AffineSearch {
    /// The highest code.
    pub(super) top: i32,
    /// The first candidate: the number of codes that the range is spread over, minus `top`.
    pub(super) first: f32,
    /// The distance between candidates.
    pub(super) step: f32,
    /// The number of candidates after the first.
    pub(super) steps: i32,
    /// Whether errors are summed as magnitudes instead of squares.
    pub(super) absolute: bool,
}

/// A scale and a minimum.
#[derive(Clone, Copy)]
pub(super) struct Fitted<S: Simd> {
    /// 0 if all numbers are equal.
    pub(super) scale: S::Floats,
    /// The number that is subtracted from scaled codes.
    pub(super) minimum: S::Floats,
    /// Codes are those of (x - from) inverse.
    inverse: S::Floats,
    from: S::Floats,
    flat: S::Mask,
}

impl<S: Simd> Fitted<S> {
    /// The initial state, without a scale.
    #[inline(always)]
    pub(super) fn none(simd: S) -> Self {
        let zero = simd.splat(0.0);
        let flat = simd.same(zero, zero);
        Self { scale: zero, minimum: zero, inverse: zero, from: zero, flat }
    }

    /// The code of a number.
    #[inline(always)]
    pub(super) fn code(&self, simd: S, x: S::Floats, top: i32) -> S::Floats {
        let product = simd.mul(self.inverse, simd.sub(x, self.from));
        simd.choose(self.flat, simd.splat(0.0), simd.nearest(product, 0, top))
    }
}

/// The scale and the minimum with the smallest weighted error among candidates that spread the
/// range over more or fewer codes (`make_qkx2_quants`, `make_qkx3_quants`).
///
/// Each candidate starts from the best minimum so far.
#[inline(always)]
pub(super) fn fitted<S: Simd, const N: usize>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    params: &AffineSearch,
) -> Fitted<S> {
    let zero = simd.splat(0.0);
    let (mut lowest, mut high) = (x[0], x[0]);
    let mut sum_w = weights[0];
    let mut sum_x = simd.mul(sum_w, x[0]);
    for i in 1..N {
        lowest = simd.least(x[i], lowest);
        high = simd.most(x[i], high);
        sum_w = simd.add(sum_w, weights[i]);
        sum_x = simd.add(sum_x, simd.mul(weights[i], x[i]));
    }
    let low = simd.choose(simd.below(zero, lowest), zero, lowest);
    let flat = simd.same(high, low);
    let mut codes = [zero; N];
    let inverse = simd.div(simd.splat(float(params.top)), simd.sub(high, low));
    for i in 0..N {
        codes[i] = simd.nearest(simd.mul(inverse, simd.sub(x[i], low)), 0, params.top);
    }
    let scale = simd.div(simd.splat(1.0), inverse);
    let mut least = error(simd, x, weights, &codes, [scale, low], params.absolute);
    let mut best = Fitted { scale, minimum: low, inverse, from: low, flat };
    for step in 0..=params.steps {
        let min = best.minimum;
        let spread = params.first + params.step * float(step) + float(params.top);
        let inverse = simd.div(simd.splat(spread), simd.sub(high, min));
        // If both ends are within the reach of `nearest`, all numbers are, and a cheaper rounding
        // suffices.
        let reach = simd.splat(4_194_303.0);
        let first = simd.magnitude(simd.mul(inverse, simd.sub(lowest, min)));
        let last = simd.magnitude(simd.mul(inverse, simd.sub(high, min)));
        let near = simd.both(simd.below(first, reach), simd.below(last, reach));
        let [sum_l, sum_l2, sum_xl] = if simd.all(simd.either(near, flat)) {
            coded::<S, N, true>(simd, x, weights, [inverse, min], params.top, &mut codes)
        } else {
            coded::<S, N, false>(simd, x, weights, [inverse, min], params.top, &mut codes)
        };
        let determinant = less(simd, [sum_w, sum_l2], [sum_l, sum_l]);
        let mut scale = simd.div(less(simd, [sum_w, sum_xl], [sum_x, sum_l]), determinant);
        let mut minimum = simd.div(less(simd, [sum_l2, sum_x], [sum_l, sum_xl]), determinant);
        let above = simd.below(zero, minimum);
        if simd.any(above) {
            scale = simd.choose(above, simd.div(sum_xl, sum_l2), scale);
            minimum = simd.choose(above, zero, minimum);
        }
        let off = error(simd, x, weights, &codes, [scale, minimum], params.absolute);
        let better = simd.both(simd.below(zero, determinant), simd.below(off, least));
        if !simd.any(better) {
            continue;
        }
        least = simd.choose(better, off, least);
        best.scale = simd.choose(better, scale, best.scale);
        best.minimum = simd.choose(better, minimum, best.minimum);
        best.inverse = simd.choose(better, inverse, best.inverse);
        best.from = simd.choose(better, min, best.from);
    }
    best.scale = simd.choose(flat, zero, best.scale);
    let minimum = simd.choose(flat, low, best.minimum);
    best.minimum = simd.mul(minimum, simd.splat(-1.0));
    best
}

/// The difference of two products.
#[inline(always)]
fn less<S: Simd>(simd: S, a: [S::Floats; 2], b: [S::Floats; 2]) -> S::Floats {
    simd.sub(simd.mul(a[0], a[1]), simd.mul(b[0], b[1]))
}

/// The weighted error of codes.
#[inline(always)]
fn error<S: Simd, const N: usize>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    codes: &[S::Floats; N],
    [scale, minimum]: [S::Floats; 2],
    absolute: bool,
) -> S::Floats {
    let mut sum = simd.splat(0.0);
    for i in 0..N {
        let off = simd.sub(simd.add(simd.mul(scale, codes[i]), minimum), x[i]);
        let off = if absolute { simd.magnitude(off) } else { simd.mul(off, off) };
        sum = simd.add(sum, simd.mul(weights[i], off));
    }
    sum
}

/// Computes codes, and the weighted sums of codes, of squared codes, and of codes times numbers.
#[inline(always)]
fn coded<S: Simd, const N: usize, const NEAR: bool>(
    simd: S,
    x: &[S::Floats; N],
    weights: &[S::Floats; N],
    [inverse, minimum]: [S::Floats; 2],
    top: i32,
    codes: &mut [S::Floats; N],
) -> [S::Floats; 3] {
    let zero = simd.splat(0.0);
    let [mut sum_l, mut sum_l2, mut sum_xl] = [zero; 3];
    for i in 0..N {
        let product = simd.mul(inverse, simd.sub(x[i], minimum));
        let code = match NEAR {
            true => rounded_within(simd, product, 0, top),
            false => simd.nearest(product, 0, top),
        };
        codes[i] = code;
        let weighted = simd.mul(weights[i], code);
        sum_l = simd.add(sum_l, weighted);
        sum_l2 = simd.add(sum_l2, simd.mul(weighted, code));
        sum_xl = simd.add(sum_xl, simd.mul(weighted, x[i]));
    }
    [sum_l, sum_l2, sum_xl]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;

    /// Numbers like weights; sparse; integers; of one magnitude; with outliers; and so small or so
    /// large that sums of their cubes lose bits or are infinite.
    fn run(kind: usize, mut random: impl FnMut() -> u32) -> [f32; 16] {
        std::array::from_fn(|_| {
            let number = (random() >> 8) as f32 / 8_388_608.0 - 1.0;
            match kind {
                0 => number * number * number,
                1 if random() & 3 > 0 => 0.0,
                2 => (number * 5.0).trunc(),
                3 => number.signum(),
                4 if random() & 7 == 0 => 100.0 * number,
                5 => 1e-11 * number,
                6 => 1e-16 * number,
                7 => 1e9 * number,
                8 => 1e14 * number,
                9 if random() & 63 == 0 => f32::NAN,
                _ => number,
            }
        })
    }

    #[test]
    fn what_is_settled_does_not_move() {
        let mut state = 0x9e37_79b9u32;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let simd = Portable;
        let (mut still, mut moved) = (0, 0);
        for round in 0..6000 {
            let mut x = [simd.splat(0.0); 32];
            for lane in 0..16 {
                let numbers = run(round % 10, &mut random);
                for (x, number) in x.iter_mut().zip(numbers) {
                    let mut lanes = [0.0; 16];
                    simd.put_f32::<false>(*x, &mut lanes);
                    lanes[lane] = number;
                    *x = simd.load(&lanes);
                }
            }
            let (scale, settled) = settled(simd, x.first_chunk().expect("half of them"));
            let [expected, _] = descended(simd, &x, &mut [simd.splat(0.0); 32]);
            let [mut found, mut right, mut marks] = [[0.0; 16]; 3];
            simd.put_f32::<false>(scale, &mut found);
            simd.put_f32::<false>(expected, &mut right);
            let marked = simd.choose(settled, simd.splat(1.0), simd.splat(0.0));
            simd.put_f32::<false>(marked, &mut marks);
            for lane in 0..16 {
                let same = found[lane].to_bits() == right[lane].to_bits();
                assert!(same || marks[lane] < 1.0, "{} {}", found[lane], right[lane]);
                still += usize::from(marks[lane] > 0.0);
                moved += usize::from(!same);
            }
        }
        assert!(still > 10_000 && moved > 10_000, "{still} settled, {moved} moved");
    }
}
