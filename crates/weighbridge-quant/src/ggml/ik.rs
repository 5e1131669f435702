//! Some of ik_llama.cpp's dtypes. The layouts are those of `iqk_quantize.cpp` at 8337e4cd of
//! ikawrakow/ik_llama.cpp.

use super::iq::LEVELS;
use super::{Simd, blocks, field, planes, scaled, scaled_halves, three_bits};

/// The levels of `IQ2_K`: four of the first row, four of the second.
const TWO: [i8; 16] = [-31, -13, 1, 17, -26, -8, 6, 22, 0, 0, 0, 0, 0, 0, 0, 0];

/// The levels of `IQ3_K`: eight of the first row, eight of the second.
const THREE: [i8; 16] = [-63, -40, -23, -10, 1, 13, 28, 47, -59, -36, -19, -6, 5, 17, 32, 51];

/// The second row of levels of `IQ4_K`; the first is that of `IQ4_NL`.
const OTHER_LEVELS: [i8; 16] =
    [-123, -100, -79, -61, -45, -31, -18, -6, 5, 17, 29, 42, 57, 73, 93, 117];

/// 255 for the 16 elements of each half whose bit is set.
#[inline(always)]
fn halves<S: Simd>(simd: S, bits: u16) -> S::Bytes {
    simd.spread((u32::from(bits & 1) * 0xffff) | (u32::from(bits >> 1 & 1) * 0xffff_0000))
}

/// The nibbles of a byte.
#[inline(always)]
fn both(byte: u8) -> [i16; 2] {
    [i16::from(byte & 15), i16::from(byte >> 4)]
}

/// The lowest two bits.
#[inline(always)]
fn two(bits: u32) -> i16 {
    [0, 1, 2, 3][bits as usize & 3]
}

blocks! {
    /// `d` f16, 8 bytes of fifth and sixth bits, 16 bytes of nibbles as in `Q4_0`. Each byte of
    /// high bits belongs to elements j, j + 16, j + 8 and j + 24. Value: (q - 32) d.
    Q6_0: 26 => 32 COARSE, |simd, bytes, out| {
        let high = u64::from_le_bytes(*field(bytes, 2));
        let two = 0x3030_3030_3030_3030;
        let high = [high << 4 & two, high & two, high << 2 & two, high >> 2 & two];
        let codes = simd.or(simd.nibbles(field(bytes, 10)), simd.words(high));
        let codes = simd.minus(codes, simd.fill(32));
        let d = out.half(*field(bytes, 0));
        out.pair(0, scaled(simd, codes, d));
    }

    /// `d` f16, 16 bits that select a row of levels for each 16 elements, 16 nibbles of scales, 64
    /// bytes of 2-bit codes as in `Q2_K`. Value: (d (s - 8)) level.
    IQ2_K: 76 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let rows = u16::from_le_bytes(*field(bytes, 2));
        let scales: &[u8; 8] = field(bytes, 4);
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 12 + 32 * half));
            for (plane, codes) in planes(simd, codes).into_iter().enumerate() {
                let number = 4 * half + plane;
                let row = simd.and(halves(simd, rows >> (2 * number)), simd.fill(4));
                let index = simd.or(simd.and(codes, simd.fill(3)), row);
                let s = both(scales[number]).map(|s| d * f32::from(s - 8));
                out.pair(number, scaled_halves(simd, simd.lookup(&TWO, index), s));
            }
        }
    }

    /// `d` f16, 16 bits that select levels as in `IQ2_K`, 16 bits with the signs of scales, 16
    /// nibbles of scales, 64 bytes of 2-bit codes, 32 bytes of third bits: bit g for the g-th 32
    /// elements. Value: (d +-(2 s + 1)) level.
    IQ3_K: 110 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let rows = u16::from_le_bytes(*field(bytes, 2));
        let signs = u16::from_le_bytes(*field(bytes, 4));
        let scales: &[u8; 8] = field(bytes, 6);
        let mut high = simd.bytes(field(bytes, 78));
        for half in 0..2 {
            let codes = simd.bytes(field(bytes, 14 + 32 * half));
            for (plane, codes) in three_bits(simd, codes, high).into_iter().enumerate() {
                let number = 4 * half + plane;
                let row = simd.and(halves(simd, rows >> (2 * number)), simd.fill(8));
                let codes = simd.lookup(&THREE, simd.or(codes, row));
                let signs = [signs >> (2 * number) & 1, signs >> (2 * number + 1) & 1];
                let [a, b] = both(scales[number]).map(|s| f32::from(2 * s + 1));
                let s = [if signs[0] == 1 { -a } else { a }, if signs[1] == 1 { -b } else { b }];
                out.pair(number, scaled_halves(simd, codes, s.map(|s| d * s)));
            }
            high = simd.right::<4>(high);
        }
    }

    /// `d` f16, 16 bits that select levels as in `IQ2_K`, 4 bytes with two high bits of each scale,
    /// 16 nibbles of scales, 128 bytes of nibbles, each 16 as in `IQ4_NL`. Value: (d (s - 32))
    /// level.
    IQ4_K: 144 => 256 COARSE, |simd, bytes, out| {
        let d = out.half(*field(bytes, 0));
        let rows = u16::from_le_bytes(*field(bytes, 2));
        let high = u32::from_le_bytes(*field(bytes, 4));
        let scales: &[u8; 8] = field(bytes, 8);
        for number in 0..8 {
            let codes = simd.nibbles(field(bytes, 16 + 16 * number));
            let (one, other) = (simd.lookup(&LEVELS, codes), simd.lookup(&OTHER_LEVELS, codes));
            let row = halves(simd, rows >> (2 * number));
            let codes = simd.xor(one, simd.and(simd.xor(one, other), row));
            let high = high >> (4 * number);
            let [a, b] = both(scales[number]);
            let s = [a + 16 * two(high), b + 16 * two(high >> 2)];
            out.pair(number, scaled_halves(simd, codes, s.map(|s| d * f32::from(s - 32))));
        }
    }

    /// Each row starts with `d` f32. 8 bytes of scales, whose lowest bit selects a row of levels,
    /// 128 bytes of nibbles, each 16 as in `IQ4_NL`. Value: (d ((s & 254) - 127)) level.
    IQ4_KS: 136 => 256 FINE, |simd, bytes, out, head| {
        let d = head.first_chunk().map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes));
        let scales: &[u8; 8] = field(bytes, 0);
        for number in 0..8 {
            let codes = simd.nibbles(field(bytes, 8 + 16 * number));
            let s = scales[number];
            let codes = simd.lookup(if s & 1 == 0 { &LEVELS } else { &OTHER_LEVELS }, codes);
            out.pair(number, scaled(simd, codes, d * f32::from(i16::from(s & 254) - 127)));
        }
    }
}
