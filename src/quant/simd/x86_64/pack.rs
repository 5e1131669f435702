//! Floats to bytes, and bytes to streams of bits, with AVX2.

use std::arch::x86_64::*;

/// Floats rounded to `bf16`, as floats. Not for NaN.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bf16(a: __m256) -> __m256 {
    let bits = _mm256_castps_si256(a);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    let upper = _mm256_set1_epi32(0xffff_0000u32.cast_signed());
    _mm256_castsi256_ps(_mm256_and_si256(_mm256_add_epi32(bits, half), upper))
}

/// Floats as unsigned bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn unsigned(a: [[__m256; 2]; 2]) -> __m256i {
    let [a, b] = a.map(|a| _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1])));
    in_order(_mm256_packus_epi16(a, b))
}

/// Signed numbers as signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn signed(a: [[__m256i; 2]; 2]) -> __m256i {
    let [a, b] = a.map(|a| _mm256_packs_epi32(a[0], a[1]));
    in_order(_mm256_packs_epi16(a, b))
}

/// Floats as codes of E2M1.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn e2m1(a: [[__m256; 2]; 2]) -> __m256i {
    // In quarters, rounded up: then no number is a tie.
    let [low, high] = a.map(|a| {
        let [a, b] = a.map(|a| {
            let magnitude = _mm256_castsi256_ps(magnitudes(a));
            let quarters = _mm256_mul_ps(magnitude, _mm256_set1_ps(4.0));
            // What is no `i32` becomes the least of them.
            _mm256_cvttps_epi32(_mm256_ceil_ps(quarters))
        });
        _mm256_packs_epi32(a, b)
    });
    let quarters = _mm256_packs_epi16(low, high);
    let quarters = _mm256_max_epi8(quarters, _mm256_setzero_si256());
    // 0, 1/2, 1, 3/2, 2, 3 and 4 take up to 15 quarters and more; from 21 on, 6.
    let codes = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6)),
        _mm256_min_epu8(quarters, _mm256_set1_epi8(15)),
    );
    let codes = _mm256_sub_epi8(codes, _mm256_cmpgt_epi8(quarters, _mm256_set1_epi8(20)));
    // Negative codes have the top bit of four and the magnitude; 0 has no sign.
    let codes = _mm256_and_si256(_mm256_sign_epi8(codes, signs(a)), _mm256_set1_epi8(15));
    let codes = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(
            0, 1, 2, 3, 4, 5, 6, 7, 0, 15, 14, 13, 12, 11, 10, 9,
        )),
        codes,
    );
    in_order(codes)
}

/// Floats as codes of E4M3.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn e4m3(a: [[__m256; 2]; 2]) -> __m256i {
    let [low, high] = a.map(|a| {
        let [a, b] = a.map(|a| e4m3_magnitudes(a));
        _mm256_packs_epi32(a, b)
    });
    let sign = _mm256_and_si256(signs(a), _mm256_set1_epi8(-0x80));
    in_order(_mm256_or_si256(_mm256_packs_epi16(low, high), sign))
}

/// 32 codes of at most six bits as a stream: 2 `bits` bytes at the start of each half, which
/// `first_bytes` puts there. With seven, the factor of every other code would be no signed byte.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn stream(codes: __m256i, bits: usize, first_bytes: __m128i) -> __m256i {
    // Two codes in 16 bits, four in 32, eight in 64: as many bytes as a code has bits.
    let two = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(1 | 0x100 << bits));
    let four = _mm256_madd_epi16(two, _mm256_set1_epi32(1 | 0x1_0000 << (2 * bits)));
    let first = _mm256_and_si256(four, _mm256_set1_epi64x(0xffff_ffff));
    let second = _mm256_srli_epi64::<32>(four);
    let second = _mm256_sll_epi64(second, _mm_set_epi64x(0, 4 * bits.cast_signed() as i64));
    let eight = _mm256_or_si256(first, second);
    _mm256_shuffle_epi8(eight, _mm256_broadcastsi128_si256(first_bytes))
}

/// The first bytes of both words of a half, one after another.
#[expect(clippy::cast_possible_truncation, reason = "less than 16")]
pub(super) const fn first_bytes(count: usize) -> [u8; 16] {
    let mut table = [0x80; 16];
    let mut i = 0;
    while i < count {
        table[i] = i as u8;
        table[count + i] = 8 + i as u8;
        i += 1;
    }
    table
}

/// Floats without their signs, as bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn magnitudes(a: __m256) -> __m256i {
    _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(i32::MAX))
}

/// Bytes of the signs of 32 floats, packed; 0 for 0.
#[inline]
#[target_feature(enable = "avx2")]
fn signs(a: [[__m256; 2]; 2]) -> __m256i {
    let [low, high] =
        a.map(|a| _mm256_packs_epi32(_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])));
    _mm256_packs_epi16(low, high)
}

/// Bytes that were packed twice, and so by quarters of the vectors, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(a: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// The magnitudes of floats as codes of E4M3: to the nearest, ties to even, at most 448.
#[inline]
#[target_feature(enable = "avx2")]
fn e4m3_magnitudes(a: __m256) -> __m256i {
    let bits = magnitudes(a);
    // From 2^-6 on, exponent and three bits of fraction stand in the same order.
    let odd = _mm256_and_si256(_mm256_srli_epi32::<20>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff - (120 << 23)));
    let normal = _mm256_srai_epi32::<20>(_mm256_add_epi32(bits, half));
    // Below, codes are multiples of 2^-9: as are the last bits of floats from 2^14 on.
    let step = _mm256_set1_ps(16_384.0);
    let sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(bits), step));
    let subnormal = _mm256_sub_epi32(sum, _mm256_castps_si256(step));
    let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(121 << 23), bits);
    let codes = _mm256_blendv_epi8(normal, subnormal, below);
    _mm256_min_epi32(codes, _mm256_set1_epi32(0x7e))
}
