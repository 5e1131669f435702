//! Converts floats to bytes, and bytes to bit streams, with NEON.

use std::arch::aarch64::*;

use super::registers::{Bytes, Floats, WEIGHTS, Words, load, magnitudes};

/// Converts words to bytes; all of them must fit.
#[inline]
#[target_feature(enable = "neon")]
fn bytes([a, b, c, d]: Words) -> uint8x16_t {
    let [low, high] = [[a, b], [c, d]]
        .map(|[a, b]| vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
    vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high))
}

/// A bit for each word of ones, the first lowest; all others must be 0.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn bits(a: Words) -> u32 {
    let set = vandq_u8(bytes(a), load(&WEIGHTS));
    let (low, high) = (vaddv_u8(vget_low_u8(set)), vaddv_u8(vget_high_u8(set)));
    u32::from(low) | u32::from(high) << 8
}

/// The four bytes of each entry of a table of floats, as shuffle indices.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn places(index: uint32x4_t) -> uint8x16_t {
    vreinterpretq_u8_u32(vmlaq_n_u32(vdupq_n_u32(0x0302_0100), index, 0x0404_0404))
}

/// Converts signed words to unsigned bytes, limited to their range.
#[inline]
#[target_feature(enable = "neon")]
fn limited(a: Words) -> uint8x16_t {
    let [a, b, c, d] = a.map(|a| vreinterpretq_s32_u32(a));
    let [low, high] = [[a, b], [c, d]].map(|[a, b]| vqmovun_high_s32(vqmovun_s32(a), b));
    vqmovn_high_u16(vqmovn_u16(low), high)
}

/// Converts signed words to signed bytes, limited to their range.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn signed(a: Words) -> uint8x16_t {
    let [a, b, c, d] = a.map(|a| vreinterpretq_s32_u32(a));
    let [low, high] = [[a, b], [c, d]].map(|[a, b]| vqmovn_high_s32(vqmovn_s32(a), b));
    vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(low), high))
}

/// Converts floats to unsigned bytes. Those from 2^31 on become words with the top bit set, which
/// then count as negative, and NaN becomes 0.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn unsigned(a: Floats) -> uint8x16_t {
    limited(a.map(|a| vcvtnq_u32_f32(a)))
}

/// The signs of floats as the top bits of bytes, whose other bits may be anything.
#[inline]
#[target_feature(enable = "neon")]
fn signs([a, b, c, d]: Floats) -> uint8x16_t {
    let [low, high] = [[a, b], [c, d]]
        .map(|[a, b]| vuzp2q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b)));
    vuzp2q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high))
}

/// Converts floats to E2M1 codes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn e2m1(a: Floats) -> uint8x16_t {
    // In quarters, rounded up, so that no number is a tie. From 2^29 on, and for NaN, they become 0
    // as in `unsigned`.
    let quarters = limited(a.map(|a| vcvtpq_u32_f32(vmulq_n_f32(vabsq_f32(a), 4.0))));
    // The values 0, 1/2, 1, 3/2, 2, 3 and 4 cover up to 20 quarters; from 21 on, the value is 6.
    let values = uint8x16x2_t(
        load(&[0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6]),
        load(&[6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
    );
    let codes = vqtbl2q_u8(values, vminq_u8(quarters, vdupq_n_u8(31)));
    // The highest of four bits is the sign; 0 has none.
    let negative = vandq_u8(vshrq_n_u8::<4>(signs(a)), vdupq_n_u8(8));
    vorrq_u8(codes, vandq_u8(negative, vtstq_u8(codes, codes)))
}

/// Converts floats to E4M3 codes.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn e4m3(a: Floats) -> uint8x16_t {
    let codes = bytes(a.map(|a| e4m3_magnitudes(a)));
    vbslq_u8(vdupq_n_u8(0x80), signs(a), codes)
}

/// Converts the magnitudes of floats to E4M3 codes: to nearest, ties to even, at most 448.
#[inline]
#[target_feature(enable = "neon")]
fn e4m3_magnitudes(a: float32x4_t) -> uint32x4_t {
    let bits = magnitudes(a);
    // From 2^-6 on, the exponent and three bits of fraction are in the same order.
    let odd = vandq_u32(vshrq_n_u32::<20>(bits), vdupq_n_u32(1));
    let half = vdupq_n_u32(0x7ffffu32.wrapping_sub(120 << 23));
    let normal = vshrq_n_u32::<20>(vaddq_u32(vaddq_u32(bits, odd), half));
    // Below, codes are multiples of 2^-9, like the last bit of floats from 2^14 on.
    let step = vdupq_n_f32(16_384.0);
    let sum = vreinterpretq_u32_f32(vaddq_f32(vreinterpretq_f32_u32(bits), step));
    let subnormal = vsubq_u32(sum, vreinterpretq_u32_f32(step));
    let below = vcltq_u32(bits, vdupq_n_u32(121 << 23));
    vminq_u32(vbslq_u32(below, subnormal, normal), vdupq_n_u32(0x7e))
}

/// Shuffle indices, into two registers, of the bytes of a stream from position `first` on. The first
/// `count` bytes of each eight are part of it.
#[expect(clippy::cast_possible_truncation, reason = "less than 32, or beyond the table")]
const fn stream_bytes(count: usize, first: usize) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let byte = first + i;
        table[i] = (byte / count * 8 + byte % count) as u8;
        i += 1;
    }
    table
}

/// Packs 32 codes as a stream of 4 `BITS` bytes. What follows them may be anything.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn stream<const BITS: usize>(codes: Bytes) -> Bytes {
    match BITS {
        1 => {
            let two = pairs::<1>(codes);
            let four = pairs::<2>([two, two]);
            [pairs::<4>([four, four]); 2]
        }
        2 => {
            let two = pairs::<2>(codes);
            [pairs::<4>([two, two]); 2]
        }
        4 => [pairs::<4>(codes); 2],
        8 => codes,
        3 => {
            // Two codes in a byte, four in 16 bits, eight in 32.
            let two = vreinterpretq_u16_u8(pairs::<3>(codes));
            let four = vsliq_n_u16::<6>(two, vshrq_n_u16::<8>(two));
            let four = vreinterpretq_u32_u16(four);
            let eight = vsliq_n_u32::<12>(four, vshrq_n_u32::<16>(four));
            let bytes = load(&[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 16, 16, 16]);
            [vqtbl1q_u8(vreinterpretq_u8_u32(eight), bytes); 2]
        }
        _ => {
            // Two codes in 16 bits, four in 32, eight in 64.
            let [a, b] = codes.map(|codes| {
                let one = vreinterpretq_u16_u8(codes);
                let upper = vshrq_n_u16::<8>(one);
                let two = if BITS == 5 {
                    vsliq_n_u16::<5>(one, upper)
                } else {
                    vsliq_n_u16::<6>(one, upper)
                };
                let two = vreinterpretq_u32_u16(two);
                let upper = vshrq_n_u32::<16>(two);
                let four = if BITS == 5 {
                    vsliq_n_u32::<10>(two, upper)
                } else {
                    vsliq_n_u32::<12>(two, upper)
                };
                let four = vreinterpretq_u64_u32(four);
                let upper = vshrq_n_u64::<32>(four);
                vreinterpretq_u8_u64(if BITS == 5 {
                    vsliq_n_u64::<20>(four, upper)
                } else {
                    vsliq_n_u64::<24>(four, upper)
                })
            });
            [const { stream_bytes(BITS, 0) }, const { stream_bytes(BITS, 16) }]
                .map(|bytes| vqtbl2q_u8(uint8x16x2_t(a, b), load(&bytes)))
        }
    }
}

/// Joins two neighbours in one byte: the second is shifted by `BITS`, above the bits of the first.
#[inline]
#[target_feature(enable = "neon")]
fn pairs<const BITS: i32>([a, b]: Bytes) -> uint8x16_t {
    vsliq_n_u8::<BITS>(vuzp1q_u8(a, b), vuzp2q_u8(a, b))
}

/// Writes the entry of a table for each of 32 codes below 16.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn put_entries(table: &[u16; 16], codes: Bytes, out: &mut [[u16; 16]; 2]) {
    // SAFETY: reads 32 bytes.
    let uint8x16x2_t(low, high) = unsafe { vld2q_u8(table.as_ptr().cast()) };
    for (out, codes) in out.iter_mut().zip(codes) {
        let entries = uint8x16x2_t(vqtbl1q_u8(low, codes), vqtbl1q_u8(high, codes));
        // SAFETY: writes 32 bytes behind a reference.
        unsafe { vst2q_u8(out.as_mut_ptr().cast(), entries) };
    }
}
