//! Converts floats to bytes, and bytes to bit streams, with AVX2; tables to read these.

use std::arch::x86_64::*;

/// The bits of floats, with the upper halves rounded to nearest, ties to even. Not for NaN, whose low
/// bits may round it to infinity.
#[inline]
#[target_feature(enable = "avx2")]
fn rounded(a: __m256) -> __m256i {
    let bits = _mm256_castps_si256(a);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    _mm256_add_epi32(bits, half)
}

/// Rounds floats to `bf16`, as floats. Not for NaN.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bf16(a: __m256) -> __m256 {
    let upper = _mm256_set1_epi32(0xffff_0000u32.cast_signed());
    _mm256_castsi256_ps(_mm256_and_si256(rounded(a), upper))
}

/// Rounds floats to `bf16`, as the lower halves of words. Not for NaN.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn upper_halves(a: __m256) -> __m256i {
    _mm256_srli_epi32::<16>(rounded(a))
}

/// Like [`upper_halves`], with NaN made quiet.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(super) fn upper_halves_or_nan(a: __m256) -> __m256i {
    let upper = _mm256_srli_epi32::<16>(_mm256_castps_si256(a));
    let quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a);
    _mm256_blendv_epi8(upper_halves(a), quiet, _mm256_castps_si256(nan))
}

/// The entry of a table for each of 32 codes below 16.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn entries(table: &[u16; 16], codes: __m256i) -> [__m256i; 2] {
    // SAFETY: reads 32 bytes, which need not be aligned.
    let table = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
    // The instruction looks up one byte of 16, so the entries' lower bytes are one table, and their
    // upper bytes another.
    let apart = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
    ));
    let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(table, apart));
    let low = _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x00>(bytes, bytes), codes);
    let high = _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x11>(bytes, bytes), codes);
    let (a, b) = (_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high));
    [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]
}

/// Converts floats to unsigned bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn unsigned(a: [[__m256; 2]; 2]) -> __m256i {
    let [a, b] = a.map(|a| _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1])));
    in_order(_mm256_packus_epi16(a, b))
}

/// Converts signed numbers to signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn signed(a: [[__m256i; 2]; 2]) -> __m256i {
    let [a, b] = a.map(|a| _mm256_packs_epi32(a[0], a[1]));
    in_order(_mm256_packs_epi16(a, b))
}

/// Converts floats to E2M1 codes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn e2m1(a: [[__m256; 2]; 2]) -> __m256i {
    // In quarters, rounded up, so that no number is a tie.
    let [low, high] = a.map(|a| {
        let [a, b] = a.map(|a| {
            let magnitude = _mm256_castsi256_ps(magnitudes(a));
            let quarters = _mm256_mul_ps(magnitude, _mm256_set1_ps(4.0));
            // Values outside of `i32` become its minimum.
            _mm256_cvttps_epi32(_mm256_ceil_ps(quarters))
        });
        _mm256_packs_epi32(a, b)
    });
    let quarters = _mm256_packs_epi16(low, high);
    let quarters = _mm256_max_epi8(quarters, _mm256_setzero_si256());
    // The values 0, 1/2, 1, 3/2, 2, 3 and 4 cover up to 20 quarters; from 21 on, the value is 6.
    let codes = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 6)),
        _mm256_min_epu8(quarters, _mm256_set1_epi8(15)),
    );
    let codes = _mm256_sub_epi8(codes, _mm256_cmpgt_epi8(quarters, _mm256_set1_epi8(20)));
    // Negative codes have the highest of four bits and the magnitude; 0 has no sign.
    let codes = _mm256_and_si256(_mm256_sign_epi8(codes, signs(a)), _mm256_set1_epi8(15));
    let codes = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_setr_epi8(
            0, 1, 2, 3, 4, 5, 6, 7, 0, 15, 14, 13, 12, 11, 10, 9,
        )),
        codes,
    );
    in_order(codes)
}

/// Converts floats to E4M3 codes.
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

/// Packs 32 codes of at most six bits as a stream: 2 `bits` bytes at the start of each half, placed
/// there by `first_bytes`. With seven bits, the factor of every other code would not fit a signed
/// byte.
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

/// Shuffle indices for the first bytes of both words of a half, one word after another.
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

/// The bits of floats without their signs.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn magnitudes(a: __m256) -> __m256i {
    _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(i32::MAX))
}

/// The signs of 32 floats as packed bytes; 0 for 0.
#[inline]
#[target_feature(enable = "avx2")]
fn signs(a: [[__m256; 2]; 2]) -> __m256i {
    let [low, high] =
        a.map(|a| _mm256_packs_epi32(_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])));
    _mm256_packs_epi16(low, high)
}

/// Restores the order of bytes that were packed twice, and so by quarters of the vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(a: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Converts the magnitudes of floats to E4M3 codes: to nearest, ties to even, at most 448.
#[inline]
#[target_feature(enable = "avx2")]
fn e4m3_magnitudes(a: __m256) -> __m256i {
    let bits = magnitudes(a);
    // From 2^-6 on, the exponent and three bits of fraction are in the same order.
    let odd = _mm256_and_si256(_mm256_srli_epi32::<20>(bits), _mm256_set1_epi32(1));
    let half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff - (120 << 23)));
    let normal = _mm256_srai_epi32::<20>(_mm256_add_epi32(bits, half));
    // Below, codes are multiples of 2^-9, like the last bit of floats from 2^14 on.
    let step = _mm256_set1_ps(16_384.0);
    let sum = _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(bits), step));
    let subnormal = _mm256_sub_epi32(sum, _mm256_castps_si256(step));
    let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(121 << 23), bits);
    let codes = _mm256_blendv_epi8(normal, subnormal, below);
    _mm256_min_epi32(codes, _mm256_set1_epi32(0x7e))
}

/// For 8 codes from position `first`: the two bytes of the stream that each code touches, as
/// shuffle indices for each half of a vector.
#[expect(clippy::cast_possible_truncation, reason = "at most 16")]
pub(super) const fn touched<const BYTES: usize>(bits: usize, first: usize) -> [u8; BYTES] {
    let mut table = [0x80; BYTES];
    let mut i = 0;
    while i < BYTES / 4 {
        let byte = (first + i) * bits / 8;
        table[4 * i] = byte as u8;
        // The byte after the last belongs to no code: any will do.
        table[4 * i + 1] = if byte < 15 { byte as u8 + 1 } else { 15 };
        i += 1;
    }
    table
}

/// The distance of each of these codes from the first bit of the bytes it touches.
#[expect(clippy::cast_possible_truncation, reason = "less than 8")]
pub(super) const fn offsets<const LEN: usize>(bits: usize, first: usize) -> [u32; LEN] {
    let mut table = [0; LEN];
    let mut i = 0;
    while i < LEN {
        table[i] = ((first + i) * bits % 8) as u32;
        i += 1;
    }
    table
}
