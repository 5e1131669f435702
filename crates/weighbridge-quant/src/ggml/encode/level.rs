//! Quantizers of the dtypes whose codes are positions in a table of levels.

use super::search::{TINY, float};
use super::{
    Batch, Simd, extreme, inverse, put_halves, put_nibbles, put_words, quantizers, squares, weigh,
};
use crate::ggml::iq::LEVELS;

quantizers! {
    IQ4_NL: 32 => 18 Used, |batch, out| {
        let simd = batch.simd;
        let mut x = [simd.splat(0.0); 32];
        batch.values(0, &mut x);
        let mean = simd.mul(squares(simd, &x), simd.splat(2.0 / 32.0));
        let scale = scale(batch, 0, &x, mean);
        put_halves(simd, scale, 0, out);
        put_codes(simd, &x, inverse(simd, scale), 2, out);
    }

    IQ4_XS: 256 => 136 Used, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let mut x = [zero; 256];
        batch.values(0, &mut x);
        let mean = simd.mul(squares(simd, &x), simd.splat(2.0 / 256.0));
        let (subs, _) = x.as_chunks::<32>();
        let mut scales = [zero; 8];
        for (sub, x) in subs.iter().enumerate() {
            scales[sub] = scale(batch, 32 * sub, x, mean);
        }
        let (_, max) = extreme(simd, &scales);
        let d = simd.div(simd.mul(max, simd.splat(-1.0)), simd.splat(32.0));
        put_halves(simd, d, 0, out);
        let whole = inverse(simd, d);
        let (mut low, mut high) = (simd.whole(zero), simd.whole(zero));
        for (sub, x) in subs.iter().enumerate().rev() {
            let code = simd.nearest(simd.mul(whole, scales[sub]), -32, 31);
            put_codes(simd, x, inverse(simd, simd.mul(d, code)), 8 + 16 * sub, out);
            let code = simd.whole(simd.add(code, simd.splat(32.0)));
            low = simd.join::<4>(simd.cut(code, 15), low);
            high = simd.join::<2>(simd.down::<4>(code), high);
        }
        put_words(simd, low, 4, out);
        let mut words = [0; 16];
        simd.put_words(high, &mut words);
        for (out, word) in out.iter_mut().zip(words) {
            let [first, second, ..] = word.to_le_bytes();
            (out[2], out[3]) = (first, second);
        }
    }
}

/// The levels in ascending order, and twice the midpoint between each level and the one before it;
/// every value is above the first midpoint.
const VALUES: [f32; 16] = {
    let mut values = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        values[i] = LEVELS[i] as f32;
        i += 1;
    }
    values
};
const MIDDLES: [f32; 16] = {
    let mut middles = [f32::NEG_INFINITY; 16];
    let mut i = 1;
    while i < 16 {
        middles[i] = VALUES[i - 1] + VALUES[i];
        i += 1;
    }
    middles
};

/// The code of the nearest level; at a midpoint, the higher one; for NaN, the highest.
#[inline(always)]
fn nearest_level<S: Simd>(simd: S, x: S::Floats) -> S::Words {
    let twice = simd.add(x, x);
    // A binary search; the first two steps compare with few midpoints.
    let low = simd.below(twice, simd.splat(MIDDLES[8]));
    let middle = simd.choose(low, simd.splat(MIDDLES[4]), simd.splat(MIDDLES[12]));
    let code = simd.choose(low, simd.splat(0.0), simd.splat(8.0));
    let next = simd.add(code, simd.splat(4.0));
    let mut code = simd.choose(simd.below(twice, middle), code, next);
    for step in [2.0, 1.0] {
        let next = simd.add(code, simd.splat(step));
        let middle = simd.entries(simd.load(&MIDDLES), simd.whole(next));
        code = simd.choose(simd.below(twice, middle), code, next);
    }
    simd.whole(code)
}

#[inline(always)]
fn put_codes<S: Simd, const BYTES: usize>(
    simd: S,
    x: &[S::Floats; 32],
    inverse: S::Floats,
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let mut codes = [simd.whole(simd.splat(0.0)); 32];
    for i in 0..32 {
        codes[i] = nearest_level(simd, simd.mul(inverse, x[i]));
    }
    put_nibbles(simd, &codes, at, out);
}

/// The scale with the smallest weighted square error among 16 near the one that makes the largest
/// magnitude the first level. `mean` is the mean square added when importance is applied.
#[inline(always)]
fn scale<S: Simd, const LEN: usize>(
    batch: &Batch<'_, S, LEN>,
    at: usize,
    x: &[S::Floats; 32],
    mean: S::Floats,
) -> S::Floats {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let mut weights = [zero; 32];
    if batch.importance(at, &mut weights) {
        weigh(simd, &mut weights, x, mean);
    } else {
        for i in 0..32 {
            weights[i] = simd.mul(x[i], x[i]);
        }
    }
    let (largest, max) = extreme(simd, x);
    let first = simd.div(simd.mul(max, simd.splat(-1.0)), simd.splat(VALUES[0]));
    let (sumqx, sumq2) = sums(simd, x, &weights, simd.div(simd.splat(1.0), first));
    let mut scale = simd.choose(simd.below(zero, sumq2), simd.div(sumqx, sumq2), zero);
    let mut score = simd.mul(scale, sumqx);
    for step in -7..=7 {
        let inverse = simd.div(simd.splat(float(step) + VALUES[0]), max);
        let (sumqx, sumq2) = sums(simd, x, &weights, inverse);
        let better = simd.both(
            simd.below(zero, sumq2),
            simd.below(simd.mul(score, sumq2), simd.mul(sumqx, sumqx)),
        );
        let new = simd.div(sumqx, sumq2);
        scale = simd.choose(better, new, scale);
        score = simd.choose(better, simd.mul(new, sumqx), score);
    }
    simd.choose(simd.below(largest, simd.splat(TINY)), zero, scale)
}

/// The weighted sums of numbers times their levels, and of squared levels.
#[inline(always)]
fn sums<S: Simd>(
    simd: S,
    x: &[S::Floats; 32],
    weights: &[S::Floats; 32],
    inverse: S::Floats,
) -> (S::Floats, S::Floats) {
    let (mut sumqx, mut sumq2) = (simd.splat(0.0), simd.splat(0.0));
    for i in 0..32 {
        let level = simd.entries(simd.load(&VALUES), nearest_level(simd, simd.mul(inverse, x[i])));
        let weighted = simd.mul(weights[i], level);
        sumqx = simd.add(sumqx, simd.mul(weighted, x[i]));
        sumq2 = simd.add(sumq2, simd.mul(weighted, level));
    }
    (sumqx, sumq2)
}
