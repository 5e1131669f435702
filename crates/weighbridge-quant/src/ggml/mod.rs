//! Codecs of ggml's block dtypes, and of some of ik_llama.cpp's. Each multiplication and addition
//! rounds to `f32` separately, as in ggml's default build, which has no fused multiply-add; where a
//! product needs no rounding, both give the same.
//! `docs/formats/ggml-blocks.md` has all fields and formulas in one table.
#![allow(clippy::needless_range_loop, reason = "the number of a sub-block is used in many fields")]

pub(crate) mod encode;
mod fp4;
mod grids;
mod ik;
mod iq;
mod k;
mod legacy;
mod ternary;

pub(super) use fp4::{DOUBLED, HALF_UE4M3, half_e8m0};
pub(crate) use fp4::{MXFP4, NVFP4};
pub use grids::{Codebook, codebook_words};
pub(crate) use ik::{IQ2_K, IQ3_K, IQ4_K, IQ4_KS, Q6_0};
pub(crate) use iq::{IQ1_M, IQ1_S, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4_NL, IQ4_XS};
pub(crate) use k::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K};
pub(crate) use legacy::{Q1_0, Q2_0, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1};
pub(crate) use ternary::{TQ1_0, TQ2_0};

use super::body::{NIBBLES, Put, put_halves, put_looked_up, put_nibbles};
use super::codec::{Codes, blocks};
use super::simd::Simd;

/// Converts a vector of a block's numbers to an array, for use one at a time.
#[inline(always)]
fn array<S: Simd>(simd: S, floats: S::Floats) -> [f32; 16] {
    let mut array = [0.0; 16];
    simd.put_f32::<false>(floats, &mut array);
    array
}

/// Four codes of two bits from each of 32 bytes: the lowest bits of all bytes, and so on. Higher
/// bits are not cleared.
#[inline(always)]
pub(super) fn planes<S: Simd>(simd: S, codes: S::Bytes) -> [S::Bytes; 4] {
    [codes, simd.right::<2>(codes), simd.right::<4>(codes), simd.right::<6>(codes)]
}

/// Codes of three bits: `planes` of two bits, and a third from the lowest four bits of `high`.
#[inline(always)]
fn three_bits<S: Simd>(simd: S, codes: S::Bytes, high: S::Bytes) -> [S::Bytes; 4] {
    let [a, b, c, d] = planes(simd, codes).map(|codes| simd.and(codes, simd.fill(3)));
    let third = |high| simd.and(high, simd.fill(4));
    [
        simd.or(a, third(simd.left::<2>(high))),
        simd.or(b, third(simd.left::<1>(high))),
        simd.or(c, third(high)),
        simd.or(d, third(simd.right::<1>(high))),
    ]
}

/// q d, for 32 signed codes.
#[inline(always)]
fn scaled<S: Simd>(simd: S, codes: S::Bytes, d: f32) -> [S::Floats; 2] {
    let d = simd.splat(d);
    simd.signed(codes).map(|q| simd.mul(q, d))
}

/// q d, for 32 signed codes; each half has its own scale.
#[inline(always)]
fn scaled_halves<S: Simd>(simd: S, codes: S::Bytes, d: [f32; 2]) -> [S::Floats; 2] {
    let [first, second] = simd.signed(codes);
    [simd.mul(first, simd.splat(d[0])), simd.mul(second, simd.splat(d[1]))]
}

/// Passes on `d` times the level of each of 32 codes: the low nibbles of 16 bytes, then the high ones.
#[inline(always)]
fn levels<S: Simd>(
    simd: S,
    out: &mut (impl Put<S> + ?Sized),
    number: usize,
    codes: &[u8; 16],
    levels: &[i8; 16],
    d: f32,
) {
    if out.looks_up() {
        let table = simd.mul(simd.load(&levels.map(f32::from)), simd.splat(d));
        let places = [2 * number, 2 * number + 1];
        return put_looked_up(simd, out, places, codes, [table; 2]);
    }
    out.pair(number, scaled(simd, simd.lookup(levels, simd.nibbles(codes)), d));
}

/// q d + m, for 32 unsigned codes of at most 5 bits. `d` has at most 17: 11 of half precision, and 6
/// of a scale.
#[inline(always)]
fn affine<S: Simd>(simd: S, codes: S::Bytes, d: f32, m: f32) -> [S::Floats; 2] {
    let (d, m) = (simd.splat(d), simd.splat(m));
    simd.unsigned(codes).map(|q| simd.add_product(q, d, m))
}

/// `N` bytes of a block's field, from the constant offset `at`.
#[inline(always)]
fn field<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes[at..].first_chunk().expect("blocks are larger than their fields")
}
