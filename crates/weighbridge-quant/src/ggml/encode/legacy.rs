//! Quantizers of the first block dtypes, and of the simplest of the newest.

use std::array::from_fn;
use std::cmp::Ordering;

use super::search::{AffineSearch, fitted, float, scaled};
use super::{
    Batch, Simd, extreme, inverse, largest, put_bytes, put_halves, put_nibbles, put_words,
    quantizers, weigh,
};

quantizers! {
    /// The largest magnitude becomes -8.
    Q4_0: 32 => 18 Used BY_ROW, |batch, out| {
        if batch.importance.is_some() {
            let codes = symmetric(batch, 8, out);
            return put_nibbles(batch.simd, &codes, 2, out);
        }
        let simd = batch.simd;
        let inverses = extremes(batch, 8, out);
        for (lane, [_, _, out @ ..]) in out.iter_mut().enumerate() {
            put_low(simd, offset(batch, lane, inverses[lane], 8), out);
        }
    }

    /// The minimum becomes 0, and the maximum 15.
    Q4_1: 32 => 20 Used BY_ROW, |batch, out| {
        if batch.importance.is_none() && let Some(range) = ranges(batch, 15, out) {
            for (lane, [_, _, _, _, out @ ..]) in out.iter_mut().enumerate() {
                put_low(batch.simd, within(batch, lane, &range, 15), out);
            }
            return;
        }
        let codes = affine(batch, 15, out);
        put_nibbles(batch.simd, &codes, 4, out);
    }

    /// The largest magnitude becomes -16.
    Q5_0: 32 => 22 Used BY_ROW, |batch, out| {
        let simd = batch.simd;
        if batch.importance.is_some() {
            let codes = symmetric(batch, 16, out);
            put_words(simd, fifth_bits(simd, &codes), 2, out);
            return put_nibbles(simd, &codes, 6, out);
        }
        let inverses = extremes(batch, 16, out);
        for (lane, [_, _, h0, h1, h2, h3, out @ ..]) in out.iter_mut().enumerate() {
            let codes = offset(batch, lane, inverses[lane], 16);
            [*h0, *h1, *h2, *h3] = fifths(simd, codes);
            put_low(simd, codes, out);
        }
    }

    /// The minimum becomes 0, and the maximum 31.
    Q5_1: 32 => 24 Used BY_ROW, |batch, out| {
        if batch.importance.is_none() && let Some(range) = ranges(batch, 31, out) {
            for (lane, [_, _, _, _, h0, h1, h2, h3, out @ ..]) in out.iter_mut().enumerate() {
                let codes = within(batch, lane, &range, 31);
                [*h0, *h1, *h2, *h3] = fifths(batch.simd, codes);
                put_low(batch.simd, codes, out);
            }
            return;
        }
        let codes = affine(batch, 31, out);
        put_words(batch.simd, fifth_bits(batch.simd, &codes), 4, out);
        put_nibbles(batch.simd, &codes, 8, out);
    }

    /// The largest magnitude becomes 127; ties round away from 0.
    Q8_0: 32 => 34 Ignored, |batch, out| {
        let simd = batch.simd;
        let most = simd.highest_of_each(from_fn(|lane| {
            let [a, b] = batch.pair(lane);
            simd.peak(a, b)
        }));
        let d = simd.div(most, simd.splat(127.0));
        let inverse = inverse(simd, d);
        let infinite = simd.splat(f32::INFINITY);
        if !simd.all(simd.both(simd.below(d, infinite), simd.below(inverse, infinite))) {
            // With numbers that are not finite or too small, the codes are not numbers.
            let (_, codes) = bytes(batch, out);
            return put_bytes(simd, &cut(simd, codes), 2, out);
        }
        put_halves(simd, d, 0, out);
        let mut inverses = [0.0; 16];
        simd.put_f32::<false>(inverse, &mut inverses);
        for (lane, [_, _, out @ ..]) in out.iter_mut().enumerate() {
            let inverse = simd.splat(inverses[lane]);
            let [a, b] = batch.pair(lane);
            let code = |x| simd.rounded(simd.mul(x, inverse));
            simd.stream::<8>(simd.to_signed([code(a), code(b)]), out);
        }
    }

    /// Like `Q8_0`, with the sum of all codes times the scale.
    Q8_1: 32 => 36 Ignored, |batch, out| {
        let simd = batch.simd;
        let (d, codes) = bytes(batch, out);
        let mut sum = simd.splat(0.0);
        for code in codes {
            // The byte that the code becomes.
            let byte = simd.numbers(simd.cut(code, 255));
            let negative = simd.below(simd.splat(127.0), byte);
            let minus = simd.choose(negative, simd.splat(256.0), simd.splat(0.0));
            sum = simd.add(sum, simd.sub(byte, minus));
        }
        put_halves(simd, simd.mul(sum, d), 2, out);
        put_bytes(simd, &cut(simd, codes), 4, out);
    }

    /// The scale is the mean magnitude; a bit is set for each element that is not negative.
    Q1_0: 128 => 18 Ignored, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let mut sum = zero;
        for number in 0..4 {
            let mut x = [zero; 32];
            batch.values(32 * number, &mut x);
            let mut bits = simd.whole(zero);
            for x in x.iter().rev() {
                let below = simd.either(simd.below(*x, zero), simd.differ(*x, *x));
                let bit = simd.whole(simd.choose(below, zero, simd.splat(1.0)));
                bits = simd.join::<1>(bit, bits);
            }
            for x in x {
                sum = simd.add(sum, simd.magnitude(x));
            }
            put_words(simd, bits, 2 + 4 * number, out);
        }
        put_halves(simd, simd.div(sum, simd.splat(128.0)), 0, out);
    }

    /// The largest magnitude becomes 1 or -1; code 2 is never used.
    Q2_0: 64 => 18 Ignored, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let mut x = [zero; 64];
        batch.values(0, &mut x);
        let (d, _) = extreme(simd, &x);
        let inverse = inverse(simd, d);
        put_halves(simd, d, 0, out);
        for (number, x) in x.as_chunks::<16>().0.iter().enumerate() {
            let mut word = simd.whole(zero);
            for x in x.iter().rev() {
                let code = simd.numbers(simd.rounded(simd.mul(*x, inverse)));
                let code = simd.add(code, simd.splat(1.0));
                let code = simd.least(simd.most(code, zero), simd.splat(3.0));
                word = simd.join::<2>(simd.whole(code), word);
            }
            put_words(simd, word, 2 + 4 * number, out);
        }
    }
}

/// The bits of value 16, one for each element.
#[inline(always)]
fn fifth_bits<S: Simd>(simd: S, codes: &[S::Words; 32]) -> S::Words {
    let mut bits = simd.whole(simd.splat(0.0));
    for code in codes.iter().rev() {
        bits = simd.join::<1>(simd.down::<4>(simd.cut(*code, 16)), bits);
    }
    bits
}

/// Writes the scales that make the largest magnitude of each block -top, and returns their
/// inverses.
#[inline(always)]
fn extremes<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 32>,
    top: i32,
    out: &mut [[u8; BYTES]],
) -> [f32; 16] {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let extremes: [_; 16] = from_fn(|lane| {
        // NaN is ignored.
        let [a, b] = batch.pair(lane);
        [simd.most(a, simd.most(b, zero)), simd.least(a, simd.least(b, zero))]
    });
    let high = simd.largest_of_each(from_fn(|lane| extremes[lane][0]));
    let low = simd.smallest_of_each(from_fn(|lane| extremes[lane][1]));
    let depth = simd.sub(zero, low);
    let mut extreme = simd.choose(simd.below(depth, high), high, low);
    if simd.any(simd.both(simd.same(depth, high), simd.below(zero, high))) {
        extreme = first(batch, high, low);
    }
    let d = simd.div(extreme, simd.splat(-float(top)));
    put_halves(simd, d, 0, out);
    let mut inverses = [0.0; 16];
    simd.put_f32::<false>(inverse(simd, d), &mut inverses);
    inverses
}

/// The extremes of blocks, if some have the same magnitude with both signs: the first of the two
/// counts.
#[cold]
fn first<S: Simd>(batch: &Batch<'_, S, 32>, high: S::Floats, low: S::Floats) -> S::Floats {
    let simd = batch.simd;
    let (mut highs, mut lows) = ([0.0; 16], [0.0; 16]);
    simd.put_f32::<false>(high, &mut highs);
    simd.put_f32::<false>(low, &mut lows);
    simd.load(&from_fn(|lane| {
        let (high, low) = (highs[lane], lows[lane]);
        let extreme = |x: &&f32| **x == high || **x == low;
        match high.partial_cmp(&-low) {
            Some(Ordering::Greater) => high,
            Some(Ordering::Equal) if high > 0.0 => {
                batch.values[lane].iter().find(extreme).copied().unwrap_or(high)
            }
            _ => low,
        }
    }))
}

/// The codes of one block, from 0 to 2 top - 1; -128 for values that are not numbers.
#[inline(always)]
fn offset<S: Simd>(batch: &Batch<'_, S, 32>, lane: usize, inverse: f32, top: i8) -> S::Bytes {
    let simd = batch.simd;
    let (inverse, half) = (simd.splat(inverse), simd.splat(f32::from(top) + 0.5));
    let [a, b] = batch.pair(lane);
    let code = |x| simd.whole(simd.add(simd.mul(x, inverse), half));
    simd.signed_capped(simd.to_signed([code(a), code(b)]), 2 * top - 1)
}

/// Writes the scales and minima that spread the codes of each block from 0 to `top`, and returns
/// the minima and the scales' inverses. Returns `None` if a minimum is 0, because its sign is that
/// of the first zero.
#[inline(always)]
fn ranges<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 32>,
    top: i8,
    out: &mut [[u8; BYTES]],
) -> Option<[[f32; 16]; 2]> {
    let simd = batch.simd;
    let (least, most) = (simd.splat(f32::MIN), simd.splat(f32::MAX));
    let low = simd.smallest_of_each(from_fn(|lane| {
        let [a, b] = batch.pair(lane);
        simd.least(a, simd.least(b, most))
    }));
    if simd.any(simd.same(low, simd.splat(0.0))) {
        return None;
    }
    let high = simd.largest_of_each(from_fn(|lane| {
        let [a, b] = batch.pair(lane);
        simd.most(a, simd.most(b, least))
    }));
    let d = simd.div(simd.sub(high, low), simd.splat(f32::from(top)));
    put_halves(simd, d, 0, out);
    put_halves(simd, low, 2, out);
    let mut found = [[0.0; 16]; 2];
    simd.put_f32::<false>(low, &mut found[0]);
    simd.put_f32::<false>(inverse(simd, d), &mut found[1]);
    Some(found)
}

/// The codes of one block, from 0 to `top`; -128 for values that are not numbers.
#[inline(always)]
fn within<S: Simd>(
    batch: &Batch<'_, S, 32>,
    lane: usize,
    range: &[[f32; 16]; 2],
    top: i8,
) -> S::Bytes {
    let simd = batch.simd;
    let [low, inverse] = range.map(|numbers| simd.splat(numbers[lane]));
    let [a, b] = batch.pair(lane);
    let code = |x| {
        let code = simd.mul(simd.sub(x, low), inverse);
        simd.whole(simd.add(code, simd.splat(0.5)))
    };
    simd.signed_capped(simd.to_signed([code(a), code(b)]), top)
}

/// Writes the lowest 4 bits of 32 codes.
#[inline(always)]
fn put_low<S: Simd>(simd: S, codes: S::Bytes, out: &mut [u8; 16]) {
    simd.put_nibbles(simd.and(codes, simd.fill(15)), out);
}

/// The bits of value 16 of 32 codes.
#[inline(always)]
fn fifths<S: Simd>(simd: S, codes: S::Bytes) -> [u8; 4] {
    simd.tops(simd.left::<3>(codes)).to_le_bytes()
}

/// The lowest 8 bits.
#[inline(always)]
fn cut<S: Simd>(simd: S, mut codes: [S::Words; 32]) -> [S::Words; 32] {
    for code in &mut codes {
        *code = simd.cut(*code, 255);
    }
    codes
}

/// Writes a scale. Returns the scale before rounding, and the signed codes.
#[inline(always)]
fn bytes<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 32>,
    out: &mut [[u8; BYTES]],
) -> (S::Floats, [S::Words; 32]) {
    let simd = batch.simd;
    let mut x = [simd.splat(0.0); 32];
    batch.values(0, &mut x);
    let d = simd.div(largest(simd, &x), simd.splat(127.0));
    let inverse = inverse(simd, d);
    put_halves(simd, d, 0, out);
    let mut codes = [simd.whole(inverse); 32];
    for i in 0..32 {
        codes[i] = simd.rounded(simd.mul(x[i], inverse));
    }
    (d, codes)
}

/// Writes a scale chosen with the importance of columns, and returns codes from 0 to 2 top - 1.
#[inline(always)]
fn symmetric<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 32>,
    top: i32,
    out: &mut [[u8; BYTES]],
) -> [S::Words; 32] {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let (mut x, mut weights, mut codes) = ([zero; 32], [zero; 32], [simd.whole(zero); 32]);
    batch.values(0, &mut x);
    batch.importance(0, &mut weights);
    weigh(simd, &mut weights, &x, batch.row);
    let found = scaled(simd, &x, &weights, top);
    put_halves(simd, found.scale, 0, out);
    for i in 0..32 {
        codes[i] = simd.whole(found.code(simd, x[i], top));
    }
    codes
}

/// Writes a scale and a minimum, and returns codes from 0 to `top`.
#[inline(always)]
fn affine<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 32>,
    top: i32,
    out: &mut [[u8; BYTES]],
) -> [S::Words; 32] {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let (mut x, mut weights, mut codes) = ([zero; 32], [zero; 32], [simd.whole(zero); 32]);
    batch.values(0, &mut x);
    if batch.importance(0, &mut weights) {
        weigh(simd, &mut weights, &x, batch.row);
        let params = AffineSearch { top, first: -0.9, step: 0.05, steps: 36, absolute: false };
        let found = fitted(simd, &x, &weights, &params);
        put_halves(simd, found.scale, 0, out);
        put_halves(simd, simd.mul(found.minimum, simd.splat(-1.0)), 2, out);
        for i in 0..32 {
            codes[i] = simd.whole(found.code(simd, x[i], top));
        }
        return codes;
    }
    let (mut low, mut high) = (simd.splat(f32::MAX), simd.splat(f32::MIN));
    for x in x {
        low = simd.least(x, low);
        high = simd.most(x, high);
    }
    let d = simd.div(simd.sub(high, low), simd.splat(float(top)));
    let inverse = inverse(simd, d);
    put_halves(simd, d, 0, out);
    put_halves(simd, low, 2, out);
    for i in 0..32 {
        let code = simd.mul(simd.sub(x[i], low), inverse);
        let code = simd.add(code, simd.splat(0.5));
        codes[i] = simd.cut(simd.at_most(simd.whole(code), top), 255);
    }
    codes
}
