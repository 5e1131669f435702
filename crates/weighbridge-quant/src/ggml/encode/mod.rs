//! Quantizers of ggml's block dtypes. Their output equals, bit for bit, that of ggml's default build
//! for x86-64 (0.25.3, `ggml-quants.c`), in which every product and sum rounds separately.
//!
//! ggml sums errors in the order of a block's elements, and floating-point sums depend on their
//! order. So the elements of a block cannot be spread over the lanes of a vector. Instead, 16 blocks
//! are processed at a time: each lane processes one block, with the same steps as ggml. Quantizers
//! that sum nothing process blocks one by one, and compute only the scales of several together.

mod codebook;
mod fp4;
mod iq1;
mod k;
mod legacy;
mod level;
mod nearest;
mod plain;
mod point;
mod search;
mod ternary;

pub(crate) use fp4::{MXFP4, NVFP4};
pub(crate) use iq1::{IQ1_M, IQ1_S};
pub(crate) use k::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K};
pub(crate) use legacy::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1};
pub(crate) use level::{IQ4_NL, IQ4_XS};
pub(crate) use plain::{BF16, F16, F32};
pub(crate) use point::{IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
pub(crate) use ternary::{TQ1_0, TQ2_0};

use std::array::from_fn;
use std::marker::PhantomData;

use half::f16;

use crate::body::Encode;
use crate::packed::QuantizerInput;
use crate::simd::Simd;

/// A quantizer of blocks of `LEN` elements and `BYTES` bytes, 16 at a time.
trait BlockQuantizer<const LEN: usize, const BYTES: usize> {
    /// Whether importance is combined with the mean square of the whole row.
    const BY_ROW: bool = false;

    /// Fills `out`, which may be shorter than 16 blocks.
    fn blocks<S: Simd>(batch: &Batch<'_, S, LEN>, out: &mut [[u8; BYTES]]);
}

/// 16 blocks, one for each lane. If there are fewer, the remaining lanes repeat the last one.
struct Batch<'a, S: Simd, const LEN: usize> {
    simd: S,
    values: &'a [[f32; LEN]; 16],
    importance: Option<[&'a [f32; LEN]; 16]>,
    /// The mean square of each block's row, if `BY_ROW` is set.
    row: S::Floats,
}

impl<S: Simd, const LEN: usize> Batch<'_, S, LEN> {
    /// The elements of each block, from position `at`, as many as fit.
    #[inline(always)]
    fn values(&self, at: usize, out: &mut [S::Floats]) {
        turned(self.simd, |lane| &self.values[lane][at..], out);
    }

    /// The importance of the same elements; false if there is none.
    #[inline(always)]
    fn importance(&self, at: usize, out: &mut [S::Floats]) -> bool {
        if let Some(importance) = &self.importance {
            turned(self.simd, |lane| &importance[lane][at..], out);
        }
        self.importance.is_some()
    }
}

impl<S: Simd> Batch<'_, S, 32> {
    /// The 32 elements of one block.
    #[inline(always)]
    fn pair(&self, lane: usize) -> [S::Floats; 2] {
        match self.values[lane].as_chunks().0 {
            [a, b, ..] => [self.simd.load(a), self.simd.load(b)],
            _ => [self.simd.splat(0.0); 2],
        }
    }
}

/// Transposes 16 runs: elements with the same position are placed together.
#[inline(always)]
fn turned<'a, S: Simd>(simd: S, run: impl Fn(usize) -> &'a [f32], out: &mut [S::Floats]) {
    for (number, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let mut rows = [simd.splat(0.0); 16];
        for lane in 0..16 {
            if let Some(floats) = run(lane)[16 * number..].first_chunk() {
                rows[lane] = simd.load(floats);
            }
        }
        *out = simd.transposed(rows);
    }
}

/// Splits rows into batches of blocks.
struct Batches<B, const LEN: usize, const BYTES: usize>(PhantomData<B>);

impl<B: BlockQuantizer<LEN, BYTES>, const LEN: usize, const BYTES: usize> Encode
    for Batches<B, LEN, BYTES>
{
    #[inline(always)]
    fn encode<S: Simd>(simd: S, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        let across = rows.columns / LEN;
        // 16 rows at a time, so that their mean squares fill the lanes.
        let runs = rows.values.chunks(16 * rows.columns.max(1));
        let (out, _) = out.as_chunks_mut::<BYTES>();
        for (run, out) in runs.zip(out.chunks_mut(16 * across.max(1))) {
            let by_row = B::BY_ROW && rows.importance.is_some();
            let means = if by_row { mean_squares(simd, run, rows.columns) } else { [0.0; 16] };
            let (blocks, _) = run.as_chunks::<LEN>();
            let columns = rows.importance.map(|importance| importance.as_chunks::<LEN>().0);
            for (number, (blocks, out)) in blocks.chunks(16).zip(out.chunks_mut(16)).enumerate() {
                let last = blocks.len() - 1;
                let block = |lane: usize| 16 * number + lane.min(last);
                let repeated;
                let batch = Batch {
                    simd,
                    values: match blocks.try_into() {
                        Ok(blocks) => blocks,
                        Err(_) => {
                            repeated = from_fn(|lane: usize| blocks[lane.min(last)]);
                            &repeated
                        }
                    },
                    importance: columns
                        .map(|columns| from_fn(|lane| &columns[block(lane) % across])),
                    // A division costs as much as some dtypes need for an element.
                    row: match by_row {
                        true => simd.load(&from_fn(|lane| means[block(lane) / across])),
                        false => simd.splat(0.0),
                    },
                };
                B::blocks(&batch, out);
            }
        }
    }
}

/// The mean squares of up to 16 rows.
#[inline(always)]
fn mean_squares<S: Simd>(simd: S, values: &[f32], columns: usize) -> [f32; 16] {
    let last = values.len() / columns - 1;
    let rows: [_; 16] = from_fn(|lane| &values[columns * lane.min(last)..][..columns]);
    let mut sum = simd.splat(0.0);
    for at in (0..columns).step_by(16) {
        let mut x = [sum; 16];
        turned(simd, |lane| &rows[lane][at..], &mut x);
        for x in x {
            sum = simd.add(sum, simd.mul(x, x));
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "as ggml does")]
    let count = columns as f32;
    let mut means = [0.0; 16];
    simd.put_f32::<false>(simd.div(sum, simd.splat(count)), &mut means);
    means
}

/// The sum of squares, added in order.
#[inline(always)]
fn squares<S: Simd>(simd: S, x: &[S::Floats]) -> S::Floats {
    let mut sum = simd.splat(0.0);
    for x in x {
        sum = simd.add(sum, simd.mul(*x, *x));
    }
    sum
}

/// The sum, added in order.
#[inline(always)]
fn total<S: Simd>(simd: S, x: &[S::Floats]) -> S::Floats {
    let mut sum = simd.splat(0.0);
    for x in x {
        sum = simd.add(sum, *x);
    }
    sum
}

/// The largest magnitude; a NaN restarts the search after it.
#[inline(always)]
fn largest<S: Simd>(simd: S, x: &[S::Floats]) -> S::Floats {
    let mut largest = simd.splat(0.0);
    for x in x {
        largest = simd.most(largest, simd.magnitude(*x));
    }
    largest
}

/// Computes the weight of each element from its importance; larger elements weigh more.
#[inline(always)]
fn weigh<S: Simd>(simd: S, importance: &mut [S::Floats], x: &[S::Floats], mean: S::Floats) {
    for (weight, x) in importance.iter_mut().zip(x) {
        *weight = simd.mul(*weight, simd.sqrt(simd.add(mean, simd.mul(*x, *x))));
    }
}

/// Writes the lanes' numbers as `f16` to their blocks, and returns the rounded numbers.
#[inline(always)]
fn put_halves<S: Simd, const BYTES: usize>(
    simd: S,
    a: S::Floats,
    at: usize,
    out: &mut [[u8; BYTES]],
) -> S::Floats {
    let mut halves = [f16::ZERO; 16];
    simd.put_f16::<false>(a, &mut halves);
    if simd.any(simd.differ(a, a)) {
        // Not even the sign of NaN is kept, because it depends on the compiler.
        halves = halves.map(|half| if half.is_nan() { f16::from_bits(0x7e00) } else { half });
    }
    let mut bytes = [0; 32];
    for (pair, half) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(halves) {
        *pair = half.to_le_bytes();
    }
    for (out, pair) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
        out[at..at + 2].copy_from_slice(pair);
    }
    simd.f16s(&bytes)
}

/// Writes 4 bytes of each lane to its block.
#[inline(always)]
fn put_words<S: Simd, const BYTES: usize>(
    simd: S,
    a: S::Words,
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let mut words = [0; 16];
    simd.put_words(a, &mut words);
    for (out, word) in out.iter_mut().zip(words) {
        out[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
}

/// Writes 4 bytes for each of the first `count` words.
#[inline(always)]
fn put_many<S: Simd, const BYTES: usize>(
    simd: S,
    words: [S::Words; 16],
    count: usize,
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let lanes = simd.transposed_words(words);
    for (out, lane) in out.iter_mut().zip(lanes) {
        let mut words = [0; 16];
        simd.put_words(lane, &mut words);
        let (fours, _) = out[at..at + 4 * count].as_chunks_mut::<4>();
        for (four, word) in fours.iter_mut().zip(words) {
            *four = word.to_le_bytes();
        }
    }
}

/// Joins four numbers of up to 8 bits, the first in the lowest byte.
#[inline(always)]
fn four<S: Simd>(simd: S, codes: &[S::Words], at: usize) -> S::Words {
    let [a, b, c, d] = [codes[at], codes[at + 1], codes[at + 2], codes[at + 3]];
    simd.join::<16>(simd.join::<8>(a, b), simd.join::<8>(c, d))
}

/// Writes numbers of up to 8 bits as bytes, at most 64.
#[inline(always)]
fn put_bytes<S: Simd, const BYTES: usize>(
    simd: S,
    numbers: &[S::Words],
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let mut words = [simd.whole(simd.splat(0.0)); 16];
    for i in 0..numbers.len() / 4 {
        words[i] = four(simd, numbers, 4 * i);
    }
    put_many(simd, words, numbers.len() / 4, at, out);
}

/// Writes half as many bytes as there are codes, at most 64: the lowest 4 bits of the first half of
/// the codes in low nibbles, of the second half in high nibbles.
#[inline(always)]
fn put_nibbles<S: Simd, const BYTES: usize>(
    simd: S,
    codes: &[S::Words],
    at: usize,
    out: &mut [[u8; BYTES]],
) {
    let count = codes.len() / 8;
    let mut words = [simd.whole(simd.splat(0.0)); 16];
    for i in 0..count {
        let low = simd.cut(four(simd, codes, 4 * i), 0x0f0f_0f0f);
        let high = simd.cut(four(simd, codes, 4 * (count + i)), 0x0f0f_0f0f);
        words[i] = simd.join::<4>(low, high);
    }
    put_many(simd, words, count, at, out);
}

/// 1 / d, or 0 if d is 0.
#[inline(always)]
fn inverse<S: Simd>(simd: S, d: S::Floats) -> S::Floats {
    let zero = simd.splat(0.0);
    simd.choose(simd.same(d, zero), zero, simd.div(simd.splat(1.0), d))
}

/// The largest magnitude, and the number that has it: the first if there are several.
#[inline(always)]
fn extreme<S: Simd>(simd: S, x: &[S::Floats]) -> (S::Floats, S::Floats) {
    let mut largest = (simd.splat(0.0), simd.splat(0.0));
    for x in x {
        let magnitude = simd.magnitude(*x);
        let more = simd.below(largest.0, magnitude);
        largest = (simd.choose(more, magnitude, largest.0), simd.choose(more, *x, largest.1));
    }
    largest
}

/// Declares quantizers of block dtypes: the elements and the bytes of a block, the use of
/// importance, and a body that fills up to 16 blocks.
macro_rules! quantizers {
    ($(
        $(#[$doc:meta])*
        $name:ident: $len:literal => $bytes:literal $importance:ident $($by_row:ident)?, |$batch:ident, $out:ident| $body:block
    )*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Quantizer = {
            struct Body;
            impl $crate::ggml::encode::BlockQuantizer<$len, $bytes> for Body {
                $(const $by_row: bool = true;)?

                #[inline(always)]
                fn blocks<S: $crate::simd::Simd>(
                    $batch: &$crate::ggml::encode::Batch<'_, S, $len>,
                    $out: &mut [[u8; $bytes]],
                ) $body
            }
            $crate::Quantizer::of::<$crate::ggml::encode::Batches<Body, $len, $bytes>>(
                $crate::Importance::$importance,
            )
        };
    )*};
}
use quantizers;
