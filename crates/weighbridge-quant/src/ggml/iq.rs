//! Dtypes whose elements are codebook points, or levels of a table.

use super::grids::{IQ1, IQ2_S as GRID_2S, IQ2_XS as GRID_2XS, IQ2_XXS as GRID_2XXS};
use super::grids::{IQ3_S as GRID_3S, IQ3_XXS as GRID_3XXS};
use super::{Simd, blocks, field, levels, scaled, scaled_halves};

/// The levels of `IQ4_NL`.
pub(super) const LEVELS: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// 8 signs for each 7 bits: the eighth makes the number of minus signs even.
static SIGNS: [u8; 128] = {
    let mut table = [0; 128];
    let mut bits = 0u8;
    while bits < 128 {
        let odd = !bits.count_ones().is_multiple_of(2);
        table[bits as usize] = if odd { bits | 0x80 } else { bits };
        bits += 1;
    }
    table
};

/// The signs of 32 elements from 4 times 7 bits.
#[inline(always)]
fn signs(bits: [usize; 4]) -> u32 {
    u32::from_le_bytes(bits.map(|bits| SIGNS[bits & 127]))
}

/// Negates the codes whose bit is set.
#[inline(always)]
fn signed<S: Simd>(simd: S, codes: S::Bytes, signs: u32) -> S::Bytes {
    let signs = simd.spread(signs);
    simd.minus(simd.xor(codes, signs), signs)
}

#[inline(always)]
fn word<S: Simd>(_: S, bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(*field(bytes, at)))
}

/// The nibble at position `number` of a byte.
#[inline(always)]
fn nibble(byte: u8, number: usize) -> u8 {
    byte >> (4 * (number & 1)) & 15
}

/// 2 s + 1, for 3 bits.
#[inline(always)]
fn odd(bits: u16) -> f32 {
    f32::from(2 * (bits & 7) + 1)
}

/// 8 times +-1/8 for each 8 elements; a bit selects the sign.
#[inline(always)]
fn deltas(negative: [bool; 4]) -> [u64; 4] {
    negative.map(|negative| if negative { u64::MAX } else { 0x0101_0101_0101_0101 })
}

/// d (grid + delta), from eight times grid and eight times delta.
#[inline(always)]
fn eighths<S: Simd>(simd: S, grid: [u64; 4], deltas: [u64; 4], d: [f32; 2]) -> [S::Floats; 2] {
    let codes = simd.plus(simd.words(grid), simd.words(deltas));
    let [first, second] = simd.signed(codes).map(|q| simd.mul(q, simd.splat(0.125)));
    [simd.mul(first, simd.splat(d[0])), simd.mul(second, simd.splat(d[1]))]
}

blocks! {
    /// `d` f16; for each 32 elements 4 points of 8, then 32 bits: 4 times 7 for signs, 4 for a
    /// scale. Value: d (0.5 + s) 0.25 grid.
    IQ2_XXS: 66 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        for number in 0..8 {
            let points: &[u8; 4] = field(bytes, 2 + 8 * number);
            let bits = u32::from_le_bytes(*field(bytes, 6 + 8 * number));
            let grid = simd.words(points.map(|point| GRID_2XXS[usize::from(point)]));
            let codes = signed(simd, grid, signs([0, 7, 14, 21].map(|at| (bits >> at) as usize)));
            let s = d * (0.5 + (bits >> 28) as f32) * 0.25;
            out.pair(number, scaled(simd, codes, s));
        }
    }

    /// `d` f16; for each 8 elements 9 bits for a point and 7 for signs; 16 nibbles, each the scale
    /// of 16 elements. Value: d (0.5 + s) 0.25 grid.
    IQ2_XS: 74 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let scales: &[u8; 8] = field(bytes, 66);
        for number in 0..8 {
            let words = [0, 2, 4, 6].map(|at| word(simd, bytes, 2 + 8 * number + at));
            let grid = simd.words(words.map(|word| GRID_2XS[word & 511]));
            let codes = signed(simd, grid, signs(words.map(|word| word >> 9)));
            let s = [0, 1].map(|half| {
                d * (0.5 + f32::from(nibble(scales[number], half))) * 0.25
            });
            out.pair(number, scaled_halves(simd, codes, s));
        }
    }

    /// `d` f16; 32 bytes of points' low bits, 32 bytes of signs, 8 bytes of points' two high bits,
    /// 16 nibbles as in `IQ2_XS`. Value: d (0.5 + s) 0.25 grid.
    IQ2_S: 82 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let high: &[u8; 8] = field(bytes, 66);
        let scales: &[u8; 8] = field(bytes, 74);
        for number in 0..8 {
            let low: &[u8; 4] = field(bytes, 2 + 4 * number);
            let high = usize::from(high[number]) << 8;
            let grid = [0, 1, 2, 3].map(|i| GRID_2S[usize::from(low[i]) | high >> (2 * i) & 0x300]);
            let signs = u32::from_le_bytes(*field(bytes, 34 + 4 * number));
            let codes = signed(simd, simd.words(grid), signs);
            let s = [0, 1].map(|half| {
                d * (0.5 + f32::from(nibble(scales[number], half))) * 0.25
            });
            out.pair(number, scaled_halves(simd, codes, s));
        }
    }

    /// `d` f16; 64 points of 4; 8 times 32 bits as in `IQ2_XXS`. Value: d (0.5 + s) 0.5 grid.
    IQ3_XXS: 98 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        for number in 0..8 {
            let points: &[u8; 8] = field(bytes, 2 + 8 * number);
            let bits = u32::from_le_bytes(*field(bytes, 66 + 4 * number));
            let grid = [0, 2, 4, 6].map(|i| {
                let [a, b] = [points[i], points[i + 1]].map(|point| GRID_3XXS[usize::from(point)]);
                u64::from(a) | u64::from(b) << 32
            });
            let signs = signs([0, 7, 14, 21].map(|at| (bits >> at) as usize));
            let s = d * (0.5 + (bits >> 28) as f32) * 0.5;
            out.pair(number, scaled(simd, signed(simd, simd.words(grid), signs), s));
        }
    }

    /// `d` f16; 64 bytes of points' low bits, 8 bytes of their high bit, 32 bytes of signs, 8
    /// nibbles, each the scale of 32 elements. Value: d (1 + 2 s) grid.
    IQ3_S: 110 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let high: &[u8; 8] = field(bytes, 66);
        let scales: &[u8; 4] = field(bytes, 106);
        for number in 0..8 {
            let low: &[u8; 8] = field(bytes, 2 + 8 * number);
            let high = usize::from(high[number]) << 8;
            let point = |i: usize| GRID_3S[usize::from(low[i]) | high >> i & 0x100];
            let grid = [0, 2, 4, 6].map(|i| u64::from(point(i)) | u64::from(point(i + 1)) << 32);
            let signs = u32::from_le_bytes(*field(bytes, 74 + 4 * number));
            let s = d * f32::from(1 + 2 * nibble(scales[number / 2], number));
            out.pair(number, scaled(simd, signed(simd, simd.words(grid), signs), s));
        }
    }

    /// `d` f16; 32 bytes of points' low bits; 16 bits for each 32 elements: 4 times 3 of points'
    /// high bits, 3 for a scale, the sign of delta. Value: d (2 s + 1) (grid + delta), where delta
    /// is 1/8 or -1/8.
    IQ1_S: 50 => 256 COARSE, |simd, bytes, out| {
        let d = out.half_of_eighths(*field(bytes, 0));
        for number in 0..8 {
            let low: &[u8; 4] = field(bytes, 2 + 4 * number);
            let high = u16::from_le_bytes(*field(bytes, 34 + 2 * number));
            let point = |i: usize| usize::from(low[i]) | usize::from(high >> (3 * i) & 7) << 8;
            let grid = [0, 1, 2, 3].map(|i| IQ1[point(i)]);
            let deltas = deltas([high & 0x8000 != 0; 4]);
            let s = d * odd(high >> 12);
            out.pair(number, eighths(simd, grid, deltas, [s, s]));
        }
    }

    /// 32 bytes of points' low bits; a nibble for each 8 elements: 3 high bits and the sign of
    /// delta; 4 words of four 3-bit scales, each for 16 elements, and a nibble of `d`. Value as for
    /// `IQ1_S`.
    IQ1_M: 56 => 256 COARSE, |simd, bytes, out| {
        let words = [0, 1, 2, 3].map(|i| u16::from_le_bytes(*field(bytes, 48 + 2 * i)));
        let d = words[0] >> 12 | words[1] >> 8 & 0x00f0 | words[2] >> 4 & 0x0f00 | words[3] & 0xf000;
        let d = out.half_of_eighths(d.to_le_bytes());
        for number in 0..8 {
            let low: &[u8; 4] = field(bytes, 4 * number);
            let high: &[u8; 2] = field(bytes, 32 + 2 * number);
            let nibbles = [0, 1, 2, 3].map(|i| nibble(high[i / 2], i));
            let grid = [0, 1, 2, 3].map(|i| {
                IQ1[usize::from(low[i]) | usize::from(nibbles[i] & 7) << 8]
            });
            let deltas = deltas(nibbles.map(|nibble| nibble & 8 != 0));
            let scales = words[number / 2] >> (6 * (number & 1));
            out.pair(number, eighths(simd, grid, deltas, [d * odd(scales), d * odd(scales >> 3)]));
        }
    }

    /// `d` f16, then nibbles as in `Q4_0`. Value: d level.
    IQ4_NL: 18 => 32 COARSE, |simd, [d0, d1, codes @ ..], out| {
        let d = out.half([*d0, *d1]);
        levels(simd, out, 0, codes, &LEVELS, d);
    }

    /// `d` f16, 16 bits with two high bits of each scale, 4 bytes with their low nibbles, 128 bytes
    /// of nibbles, each 16 as in `IQ4_NL`. Value: d (s - 32) level.
    IQ4_XS: 136 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let high = u16::from_le_bytes(*field(bytes, 2));
        let low: &[u8; 4] = field(bytes, 4);
        for number in 0..8 {
            let s = u16::from(nibble(low[number / 2], number)) | (high >> (2 * number) & 3) << 4;
            let d = d * (f32::from(s) - 32.0);
            levels(simd, out, number, field(bytes, 8 + 16 * number), &LEVELS, d);
        }
    }
}
