//! Quantizers of the dtypes with super-blocks of 256 elements.

use std::array::from_fn;

use super::search::{
    AffineSearch, Fitted, Scaled, TINY, descended, fitted, float, positive, scaled, settled,
};
use super::{
    Batch, Simd, extreme, four, put_bytes, put_halves, put_many, put_nibbles, quantizers, squares,
    total, turned, weigh,
};

quantizers! {
    Q2_K: 256 => 84 Used, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let subs = elements(batch);
        let params = match batch.importance {
            None => AffineSearch { top: 3, first: -0.5, step: 0.1, steps: 15, absolute: true },
            Some(_) => with_importance(3),
        };
        let mean = simd.div(squares(simd, subs.as_flattened()), simd.splat(256.0));
        let (mut scales, mut minima, mut sums) = ([zero; 16], [zero; 16], [zero; 16]);
        let mut found = [Fitted::none(simd); 16];
        for sub in 0..16 {
            let x = &subs[sub];
            let mut weights = [zero; 16];
            if batch.importance(16 * sub, &mut weights) {
                weigh(simd, &mut weights, x, mean);
            } else {
                for i in 0..16 {
                    weights[i] = simd.magnitude(x[i]);
                }
            }
            found[sub] = fitted(simd, x, &weights, &params);
            (scales[sub], minima[sub]) = (found[sub].scale, found[sub].minimum);
            sums[sub] = total(simd, &weights);
        }
        let (d, scales) = few_bits(batch, &scales, &sums, 15, false);
        let (dmin, minima) = few_bits(batch, &minima, &sums, 15, false);
        let d = put_halves(simd, d, 80, out);
        let dmin = put_halves(simd, dmin, 82, out);
        let mut codes = [simd.whole(zero); 256];
        let mut pairs = [simd.whole(zero); 16];
        for (sub, codes) in codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let pair = simd.cut(simd.join::<4>(scales[sub], minima[sub]), 255);
            pairs[sub] = pair;
            let d = simd.mul(d, simd.numbers(simd.cut(pair, 15)));
            let m = simd.mul(dmin, simd.numbers(simd.down::<4>(pair)));
            affine(simd, &subs[sub], [d, m], &found[sub], 3, codes);
        }
        put_bytes(simd, &pairs, 0, out);
        for half in 0..2 {
            put_planes::<S, 84, 0>(simd, &codes[128 * half..], 16 + 32 * half, out);
        }
    }

    Q3_K: 256 => 110 Used, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let subs = elements(batch);
        let (mut scales, mut sums) = ([zero; 16], [zero; 16]);
        let mut found = [Scaled::none(simd); 16];
        let d;
        if batch.importance.is_some() {
            let squares = squares(simd, subs.as_flattened());
            let mean = simd.div(simd.mul(simd.splat(2.0), squares), simd.splat(256.0));
            for (sub, x) in subs.iter().enumerate() {
                let mut weights = [zero; 16];
                batch.importance(16 * sub, &mut weights);
                weigh(simd, &mut weights, x, mean);
                sums[sub] = total(simd, &weights);
                found[sub] = scaled(simd, x, &weights, 4);
                scales[sub] = found[sub].scale;
            }
            let found = scaled(simd, &scales, &sums, 32);
            for scale in &mut scales {
                *scale = found.code(simd, *scale, 32);
            }
            d = found.scale;
        } else {
            scales = threes(batch, &subs);
            let (_, max) = extreme(simd, &scales);
            let whole = simd.div(simd.splat(-32.0), max);
            let nothing = simd.same(max, zero);
            for scale in &mut scales {
                let code = simd.nearest(simd.mul(whole, *scale), -32, 31);
                *scale = simd.choose(nothing, zero, simd.add(code, simd.splat(32.0)));
            }
            d = simd.choose(nothing, zero, simd.div(simd.splat(1.0), whole));
        }
        let d = put_halves(simd, d, 108, out);
        let mut whole = [simd.whole(zero); 256];
        for (sub, whole) in whole.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let d = simd.mul(d, simd.sub(scales[sub], simd.splat(32.0)));
            let nothing = simd.same(d, zero);
            let any = simd.any(nothing);
            let mut old = [zero; 32];
            if any && batch.importance.is_some() {
                for i in 0..16 {
                    old[i] = found[sub].code(simd, subs[sub][i], 4);
                }
            } else if any {
                let runs: [_; 16] = from_fn(|lane| 16 * sub + lane);
                old = descent(batch, &runs).1;
            }
            for i in 0..16 {
                let new = simd.nearest(simd.div(subs[sub][i], d), -4, 3);
                let new = simd.add(new, simd.splat(4.0));
                whole[i] = simd.whole(if any { simd.choose(nothing, old[i], new) } else { new });
            }
        }
        put_bits::<S, 110, 2>(simd, &whole, 0, out);
        for half in 0..2 {
            put_planes::<S, 110, 0>(simd, &whole[128 * half..], 32 + 32 * half, out);
        }
        let mut bits = [simd.whole(zero); 16];
        for sub in 0..16 {
            bits[sub] = simd.whole(scales[sub]);
        }
        put_nibbles(simd, &bits, 96, out);
        let mut high = [simd.whole(zero); 4];
        for i in 0..4 {
            let [a, b, c, d] = [0, 4, 8, 12].map(|at| simd.down::<4>(bits[at + i]));
            high[i] = simd.join::<4>(simd.join::<2>(a, b), simd.join::<2>(c, d));
        }
        put_bytes(simd, &high, 104, out);
    }

    Q4_K: 256 => 144 Used, |batch, out| {
        let params = AffineSearch { top: 15, first: -1.0, step: 0.1, steps: 20, absolute: false };
        let codes = eights(batch, params, out);
        for (number, codes) in codes.as_chunks::<64>().0.iter().enumerate() {
            put_nibbles(batch.simd, codes, 16 + 32 * number, out);
        }
    }

    Q5_K: 256 => 176 Used, |batch, out| {
        let params = AffineSearch { top: 31, first: -0.5, step: 0.1, steps: 15, absolute: false };
        let codes = eights(batch, params, out);
        put_bits::<S, 176, 4>(batch.simd, &codes, 16, out);
        for (number, codes) in codes.as_chunks::<64>().0.iter().enumerate() {
            put_nibbles(batch.simd, codes, 48 + 32 * number, out);
        }
    }

    Q6_K: 256 => 210 Used, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let subs = elements(batch);
        let mut found = [Scaled::none(simd); 16];
        let mut scales = [zero; 16];
        for sub in 0..16 {
            let x = &subs[sub];
            let mut weights = [zero; 16];
            if !batch.importance(16 * sub, &mut weights) {
                for i in 0..16 {
                    weights[i] = simd.mul(x[i], x[i]);
                }
            }
            found[sub] = scaled(simd, x, &weights, 32);
            scales[sub] = found[sub].scale;
        }
        let (largest, max) = extreme(simd, &scales);
        let whole = simd.div(simd.splat(-128.0), max);
        let nothing = simd.below(largest, simd.splat(TINY));
        let d = simd.choose(nothing, zero, simd.div(simd.splat(1.0), whole));
        let d = put_halves(simd, d, 208, out);
        let mut bytes = [simd.whole(zero); 16];
        let mut codes = [simd.whole(zero); 256];
        for (sub, codes) in codes.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = simd.nearest(simd.mul(whole, scales[sub]), i32::MIN, 127);
            let scale = simd.choose(nothing, zero, scale);
            bytes[sub] = simd.cut(simd.whole(scale), 255);
            let d = simd.mul(d, scale);
            let old = simd.same(d, zero);
            let any = simd.any(old);
            for i in 0..16 {
                let x = subs[sub][i];
                let mut code = simd.nearest(simd.div(x, d), -32, 31);
                code = simd.add(code, simd.splat(32.0));
                if any {
                    code = simd.choose(old, found[sub].code(simd, x, 32), code);
                    code = simd.choose(nothing, zero, code);
                }
                codes[i] = simd.whole(code);
            }
        }
        put_bytes(simd, &bytes, 192, out);
        for (half, codes) in codes.as_chunks::<128>().0.iter().enumerate() {
            put_nibbles(simd, codes, 64 * half, out);
            put_planes::<S, 210, 4>(simd, codes, 128 + 32 * half, out);
        }
    }

    /// The largest magnitude becomes -127.
    Q8_K: 256 => 292 Ignored, |batch, out| {
        let simd = batch.simd;
        let zero = simd.splat(0.0);
        let subs = elements(batch);
        let (_, max) = extreme(simd, subs.as_flattened());
        let nothing = simd.same(max, zero);
        let whole = simd.div(simd.splat(-127.0), max);
        let mut d = [0.0; 16];
        simd.put_f32::<false>(simd.choose(nothing, zero, simd.div(simd.splat(1.0), whole)), &mut d);
        for (out, d) in out.iter_mut().zip(d) {
            out[..4].copy_from_slice(&d.to_le_bytes());
        }
        for (number, x) in subs.iter().enumerate() {
            let mut codes = [zero; 16];
            let mut bytes = [simd.whole(zero); 16];
            for i in 0..16 {
                let code = simd.nearest(simd.mul(whole, x[i]), i32::MIN, 127);
                codes[i] = simd.choose(nothing, zero, code);
                bytes[i] = simd.cut(simd.whole(codes[i]), 255);
            }
            put_bytes(simd, &bytes, 4 + 16 * number, out);
            let mut sums = [0; 16];
            simd.put_words(simd.whole(total(simd, &codes)), &mut sums);
            for (out, sum) in out.iter_mut().zip(sums) {
                let [low, high, ..] = sum.to_le_bytes();
                let at = 260 + 2 * number;
                (out[at], out[at + 1]) = (low, high);
            }
        }
    }
}

/// The scales of runs of 16 for codes from -4 to 3. Runs of different blocks that need `descended`
/// are processed together.
#[inline(always)]
fn threes<S: Simd>(batch: &Batch<'_, S, 256>, subs: &[[S::Floats; 16]; 16]) -> [S::Floats; 16] {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let mut scales = [[0.0; 16]; 16];
    let (mut moving, mut count) = ([0; 256], 0);
    for (sub, (x, scales)) in subs.iter().zip(&mut scales).enumerate() {
        let (scale, settled) = settled(simd, x);
        simd.put_f32::<false>(scale, scales);
        let mut moves = [0.0; 16];
        simd.put_f32::<false>(simd.choose(settled, zero, simd.splat(1.0)), &mut moves);
        for (run, moves) in (16 * sub..).zip(moves) {
            moving[count] = run;
            count += usize::from(moves > 0.0);
        }
    }
    for runs in moving[..count].chunks(32) {
        let mut found = [[0.0; 16]; 2];
        for (found, scale) in found.iter_mut().zip(descent(batch, runs).0) {
            simd.put_f32::<false>(scale, found);
        }
        for (run, scale) in runs.iter().zip(found.as_flattened()) {
            scales.as_flattened_mut()[*run] = *scale;
        }
    }
    from_fn(|sub| simd.load(&scales[sub]))
}

/// Runs `descended` on up to 32 runs, each given as 16 times its sub-block number plus its lane.
#[inline(always)]
fn descent<S: Simd>(
    batch: &Batch<'_, S, 256>,
    runs: &[usize],
) -> ([S::Floats; 2], [S::Floats; 32]) {
    let simd = batch.simd;
    let mut x = [[simd.splat(0.0); 16]; 2];
    for (half, x) in x.iter_mut().enumerate() {
        let run = |number: usize| {
            let run = runs[(16 * half + number).min(runs.len() - 1)];
            &batch.values[run % 16][run / 16 * 16..]
        };
        turned(simd, run, x);
    }
    let mut codes = [simd.splat(0.0); 32];
    (descended(simd, x.as_flattened(), &mut codes), codes)
}

/// The search parameters for minima with importance.
const fn with_importance(top: i32) -> AffineSearch {
    AffineSearch { top, first: -0.9, step: 0.05, steps: 36, absolute: false }
}

/// The elements of 16 runs of 16.
#[inline(always)]
fn elements<S: Simd>(batch: &Batch<'_, S, 256>) -> [[S::Floats; 16]; 16] {
    let mut x = [[batch.simd.splat(0.0); 16]; 16];
    batch.values(0, x.as_flattened_mut());
    x
}

/// Quantizes scales or minima to a common scale and codes of a few bits. ggml stores the codes in
/// bytes, so -1 is 255. If `kept`, codes are limited to `top` at the end.
#[inline(always)]
fn few_bits<S: Simd, const N: usize>(
    batch: &Batch<'_, S, 256>,
    of: &[S::Floats; N],
    weights: &[S::Floats; N],
    top: i32,
    kept: bool,
) -> (S::Floats, [S::Words; N]) {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let mut codes = [simd.whole(zero); N];
    let mut d = zero;
    if batch.importance.is_some() {
        (d, codes) = positive(simd, of, weights, top);
    } else {
        for of in of {
            d = simd.most(*of, d);
        }
        let top = simd.splat(float(top));
        let whole = simd.choose(simd.below(zero, d), simd.div(top, d), zero);
        for i in 0..N {
            let code = simd.nearest(simd.mul(whole, of[i]), i32::MIN, i32::MAX);
            codes[i] = simd.cut(simd.whole(code), 255);
        }
        d = simd.div(d, top);
    }
    if kept {
        for code in &mut codes {
            *code = simd.at_most(*code, top);
        }
    }
    (d, codes)
}

/// The codes of a sub-block for its stored scale and minimum: those of (x + m) / d; if d is 0,
/// those found before.
#[inline(always)]
fn affine<S: Simd, const N: usize>(
    simd: S,
    x: &[S::Floats; N],
    [d, m]: [S::Floats; 2],
    found: &Fitted<S>,
    top: i32,
    codes: &mut [S::Words; N],
) {
    let nothing = simd.same(d, simd.splat(0.0));
    let any = simd.any(nothing);
    for i in 0..N {
        let mut code = simd.nearest(simd.div(simd.add(x[i], m), d), 0, top);
        if any {
            code = simd.choose(nothing, found.code(simd, x[i], top), code);
        }
        codes[i] = simd.whole(code);
    }
}

/// Writes scales and minima of 8 sub-blocks of 32 elements, and returns the codes.
#[inline(always)]
fn eights<S: Simd, const BYTES: usize>(
    batch: &Batch<'_, S, 256>,
    params: AffineSearch,
    out: &mut [[u8; BYTES]],
) -> [S::Words; 256] {
    let simd = batch.simd;
    let zero = simd.splat(0.0);
    let x = elements(batch);
    let x = x.as_flattened();
    let (subs, _) = x.as_chunks::<32>();
    let params = if batch.importance.is_some() { with_importance(params.top) } else { params };
    let mean = simd.div(simd.mul(simd.splat(2.0), squares(simd, x)), simd.splat(256.0));
    let (mut scales, mut minima, mut sums) = ([zero; 8], [zero; 8], [zero; 8]);
    let mut found = [Fitted::none(simd); 8];
    for sub in 0..8 {
        let x = &subs[sub];
        let mut weights = [zero; 32];
        if batch.importance(32 * sub, &mut weights) {
            weigh(simd, &mut weights, x, mean);
        } else {
            let mean = simd.sqrt(simd.div(squares(simd, x), simd.splat(32.0)));
            for i in 0..32 {
                weights[i] = simd.add(mean, simd.magnitude(x[i]));
            }
        }
        found[sub] = fitted(simd, x, &weights, &params);
        (scales[sub], minima[sub]) = (found[sub].scale, found[sub].minimum);
        sums[sub] = total(simd, &weights);
    }
    // ggml does not limit them for `Q4_K` with importance.
    let kept = params.top > 15 || batch.importance.is_none();
    let (d, scales) = few_bits(batch, &scales, &sums, 63, kept);
    let (dmin, minima) = few_bits(batch, &minima, &sums, 63, kept);
    let d = put_halves(simd, d, 0, out);
    let dmin = put_halves(simd, dmin, 2, out);
    let scales = sixes(simd, scales, 4, out);
    let minima = sixes(simd, minima, 8, out);
    let mut nibbles = [simd.whole(zero); 4];
    for i in 0..4 {
        nibbles[i] = simd.join::<4>(simd.cut(scales[i + 4], 15), simd.cut(minima[i + 4], 15));
    }
    put_bytes(simd, &nibbles, 12, out);
    let mut codes = [simd.whole(zero); 256];
    for (sub, codes) in codes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let d = simd.mul(d, simd.numbers(scales[sub]));
        let m = simd.mul(dmin, simd.numbers(minima[sub]));
        affine(simd, &subs[sub], [d, m], &found[sub], params.top, codes);
    }
    codes
}

/// Writes the first four of eight 6-bit codes, each with the upper bits of one of the last four on
/// top. Returns the codes that a reader will see, which differ if codes have more bits.
#[inline(always)]
fn sixes<S: Simd, const BYTES: usize>(
    simd: S,
    mut codes: [S::Words; 8],
    at: usize,
    out: &mut [[u8; BYTES]],
) -> [S::Words; 8] {
    let mut bytes = [codes[0]; 4];
    for i in 0..4 {
        let upper = simd.down::<4>(codes[i + 4]);
        bytes[i] = simd.cut(simd.join::<6>(codes[i], upper), 255);
        codes[i] = simd.cut(bytes[i], 63);
        codes[i + 4] = simd.join::<4>(simd.cut(codes[i + 4], 15), simd.down::<6>(bytes[i]));
    }
    put_bytes(simd, &bytes, at, out);
    codes
}

/// Writes 32 bytes with two bits of each of 128 codes, above the lowest `BITS`. The first 32 codes
/// take the lowest bits of the bytes, and so on.
#[inline(always)]
fn put_planes<S: Simd, const BYTES: usize, const BITS: u32>(
    simd: S,
    codes: &[S::Words],
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let mut words = [simd.whole(simd.splat(0.0)); 16];
    for i in 0..8 {
        let mut planes = [words[i]; 4];
        for plane in 0..4 {
            let codes = four(simd, codes, 32 * plane + 4 * i);
            planes[plane] = simd.cut(simd.down::<BITS>(codes), 0x0303_0303);
        }
        let [a, b, c, d] = planes;
        words[i] = simd.join::<4>(simd.join::<2>(a, b), simd.join::<2>(c, d));
    }
    put_many(simd, words, 8, at, out);
}

/// Writes 32 bytes with one bit of each of 256 codes, above the lowest `BITS`. The first 32 codes
/// take the lowest bits of the bytes, and so on.
#[inline(always)]
fn put_bits<S: Simd, const BYTES: usize, const BITS: u32>(
    simd: S,
    codes: &[S::Words; 256],
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let mut words = [simd.whole(simd.splat(0.0)); 16];
    for i in 0..8 {
        for group in (0..8).rev() {
            let codes = four(simd, codes, 32 * group + 4 * i);
            let high = simd.cut(simd.down::<BITS>(codes), 0x0101_0101);
            words[i] = simd.join::<1>(high, words[i]);
        }
    }
    put_many(simd, words, 8, at, out);
}
