//! AVX-512.
#![allow(unsafe_code, reason = "instructions that not every processor has; see `instructions!`")]

use std::arch::asm;
use std::arch::x86_64::*;

use half::{bf16, f16};

use super::pack::{offsets, touched};
use super::{
    Avx512, Digits, NEARLY_HALF, Simd, e4m3_as_f16, instructions, load128, load256, store256,
};

/// The positions of the upper halves of 32 words in two registers, as shuffle indices.
static UPPER_HALVES: [u16; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i as usize] = 2 * i + 1;
        i += 1;
    }
    table
};

#[inline]
#[target_feature(enable = "avx512f")]
fn upper_halves() -> __m512i {
    // SAFETY: reads 64 bytes behind a reference.
    unsafe { _mm512_loadu_si512((&raw const UPPER_HALVES).cast()) }
}

/// Floats whose upper halves are the nearest `bf16` numbers, ties to even. None of them may be NaN
/// unless `nan` says so. The upper halves can then be moved in one step: shifting and narrowing take
/// three.
#[inline]
#[target_feature(enable = "avx512f")]
fn rounded(a: __m512, nan: bool) -> __m512i {
    let bits = _mm512_castps_si512(a);
    let half = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    let one = _mm512_set1_epi32(1);
    if nan {
        // Without the mask for odd numbers: comparing and shuffling share an execution port.
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), one);
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a);
        let quiet = _mm512_set1_epi32(0x40_0000);
        _mm512_mask_or_epi32(_mm512_add_epi32(half, odd), nan, bits, quiet)
    } else {
        let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
        _mm512_mask_add_epi32(half, odd, half, one)
    }
}

/// Rounds to `bf16`, with the instruction for it. A function with its intrinsic is not inlined into
/// kernels, which are compiled for processors without it, too. Not for NaN and subnormal numbers.
#[inline]
#[target_feature(enable = "avx512f")]
fn nearest_bf16([a, b]: [__m512; 2]) -> __m512i {
    let upper: __m512i;
    // SAFETY: computes with registers. Only processors with the instruction get here.
    unsafe {
        asm!(
            "vcvtne2ps2bf16 {upper}, {b}, {a}",
            a = in(zmm_reg) a,
            b = in(zmm_reg) b,
            upper = lateout(zmm_reg) upper,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    upper
}

/// Adds the products of each four unsigned and signed bytes to sums.
#[inline]
#[target_feature(enable = "avx512f")]
fn dots(sums: __m512i, codes: __m512i, digits: __m512i) -> __m512i {
    let mut sums = sums;
    // SAFETY: computes with registers. Only processors with the instruction get here.
    unsafe {
        asm!(
            "vpdpbusd {sums}, {codes}, {digits}",
            sums = inout(zmm_reg) sums,
            codes = in(zmm_reg) codes,
            digits = in(zmm_reg) digits,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sums
}

/// Writes 32 numbers of 2 bytes, with streaming stores if requested and aligned.
#[inline]
#[target_feature(enable = "avx512f")]
fn store512<T, const PAST: bool>(out: &mut [[T; 16]; 2], value: __m512i) {
    const { assert!(size_of::<T>() == 2) };
    let all: *mut __m512i = out.as_mut_ptr().cast();
    if PAST && !all.is_aligned() {
        store256::<_, PAST>(&mut out[0], _mm512_castsi512_si256(value));
        store256::<_, PAST>(&mut out[1], _mm512_extracti64x4_epi64::<1>(value));
        return;
    }
    // SAFETY: writes 64 bytes behind a reference; the streaming store only if aligned.
    unsafe {
        if PAST {
            _mm512_stream_si512(all, value);
        } else {
            _mm512_storeu_si512(all, value);
        }
    }
}

/// Transposes a 16 by 16 matrix.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed16(rows: [__m512; 16]) -> [__m512; 16] {
    // For each four rows: vectors whose quarters are the columns 0, 4, 8 and 12; 1, 5, ...
    let mut fours = rows;
    for four in fours.as_chunks_mut::<4>().0 {
        let [a, b, c, d] = *four;
        let (low, high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        let (other_low, other_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
        *four = [
            _mm512_shuffle_ps::<0b01_00_01_00>(low, other_low),
            _mm512_shuffle_ps::<0b11_10_11_10>(low, other_low),
            _mm512_shuffle_ps::<0b01_00_01_00>(high, other_high),
            _mm512_shuffle_ps::<0b11_10_11_10>(high, other_high),
        ];
    }
    // For each kind of vector: the even quarters of the four, and the odd ones; twice.
    let mut columns = rows;
    for i in 0..4 {
        let [a, b, c, d] = [fours[i], fours[i + 4], fours[i + 8], fours[i + 12]];
        let even = [
            _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b),
            _mm512_shuffle_f32x4::<0b10_00_10_00>(c, d),
        ];
        let odd = [
            _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b),
            _mm512_shuffle_f32x4::<0b11_01_11_01>(c, d),
        ];
        columns[i] = _mm512_shuffle_f32x4::<0b10_00_10_00>(even[0], even[1]);
        columns[i + 4] = _mm512_shuffle_f32x4::<0b10_00_10_00>(odd[0], odd[1]);
        columns[i + 8] = _mm512_shuffle_f32x4::<0b11_01_11_01>(even[0], even[1]);
        columns[i + 12] = _mm512_shuffle_f32x4::<0b11_01_11_01>(odd[0], odd[1]);
    }
    columns
}

/// Declares operations on 32 bytes, which use the AVX2 code.
macro_rules! as_avx2 {
    ($(fn $name:ident $(<const $generic:ident: $kind:ty>)? (self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {$(
        #[inline(always)]
        fn $name $(<const $generic: $kind>)? (self $(, $arg: $type)*) -> $result {
            self.narrow().$name $(::<$generic>)? ($($arg),*)
        }
    )*};
}

impl Avx512 {
    instructions! { "avx512f,avx512bw":
        fn split(self, a: __m512) -> [__m256; 2] {
            let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a));
            [_mm512_castps512_ps256(a), _mm256_castpd_ps(high)]
        }

        fn all_split(self, rows: [__m512; 16]) -> [[__m256; 2]; 16] {
            let mut split = [[_mm256_setzero_ps(); 2]; 16];
            for (split, row) in split.iter_mut().zip(rows) {
                let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(row));
                *split = [_mm512_castps512_ps256(row), _mm256_castpd_ps(high)];
            }
            split
        }

        fn dots_by(self, codes: [__m256i; 2], digits: &Digits, recent: bool) -> __m512i {
            let codes = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(codes[0]), codes[1]);
            let mut sums = _mm512_setzero_si512();
            for digits in digits {
                // SAFETY: reads 64 bytes, which need not be aligned.
                let digits = unsafe { _mm512_loadu_si512(digits.as_ptr().cast()) };
                sums = _mm512_slli_epi32::<7>(sums);
                sums = match recent {
                    true => dots(sums, codes, digits),
                    false => {
                        // Pairs are at most 2 times 127 times 64.
                        let pairs = _mm512_maddubs_epi16(codes, digits);
                        _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
                    }
                };
            }
            sums
        }

        fn put_bf16s<const PAST: bool>(self, a: [__m512; 2], out: &mut [[bf16; 16]; 2], nan: bool, native: bool) {
            // The instruction takes subnormal numbers for 0.
            let upper = if native && !nan {
                nearest_bf16(a)
            } else {
                let [a, b] = a.map(|a| rounded(a, nan));
                _mm512_permutex2var_epi16(a, upper_halves(), b)
            };
            store512::<_, PAST>(out, upper);
        }

        fn joined(self, a: [__m256; 2]) -> __m512 {
            let low = _mm512_castps_pd(_mm512_castps256_ps512(a[0]));
            _mm512_castpd_ps(_mm512_insertf64x4::<1>(low, _mm256_castps_pd(a[1])))
        }
    }
}

impl Simd for Avx512 {
    type Bytes = __m256i;
    type Floats = __m512;
    type Magnitudes = (__m512i, __m512i);
    type Words = __m512i;
    type Mask = __mmask16;

    const STREAMS: bool = true;
    const IS_WIDE: bool = true;

    #[inline(always)]
    fn fetch_behind(self, bytes: &[u8]) {
        super::fetch_behind(bytes);
    }

    as_avx2! {
        fn bytes(self, from: &[u8; 32]) -> __m256i;
        fn halves(self, low: &[u8; 16], high: &[u8; 16]) -> __m256i;
        fn words(self, words: [u64; 4]) -> __m256i;
        fn fill(self, byte: u8) -> __m256i;
        fn and(self, a: __m256i, b: __m256i) -> __m256i;
        fn or(self, a: __m256i, b: __m256i) -> __m256i;
        fn xor(self, a: __m256i, b: __m256i) -> __m256i;
        fn plus(self, a: __m256i, b: __m256i) -> __m256i;
        fn minus(self, a: __m256i, b: __m256i) -> __m256i;
        fn right<const BITS: i32>(self, a: __m256i) -> __m256i;
        fn left<const BITS: i32>(self, a: __m256i) -> __m256i;
        fn at_least(self, a: __m256i, least: u8) -> __m256i;
        fn tops(self, a: __m256i) -> u32;
        fn nibbles(self, from: &[u8; 16]) -> __m256i;
        fn nibble_pairs(self, from: &[u8; 16]) -> __m256i;
        fn spread(self, bits: u32) -> __m256i;
        fn lookup(self, table: &[i8; 16], index: __m256i) -> __m256i;
        fn capped(self, a: __m256i, most: u8) -> __m256i;
        fn signed_capped(self, a: __m256i, most: i8) -> __m256i;
        fn f16(self, bits: u16) -> f32;
    }

    #[inline(always)]
    fn fence(self) {
        self.narrow().fence();
    }

    #[inline(always)]
    fn put_nibbles(self, a: __m256i, out: &mut [u8; 16]) {
        self.narrow().put_nibbles(a, out);
    }

    instructions! { "avx512f,avx512bw":
        fn signed(self, a: __m256i) -> [__m512; 2] {
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)]
                .map(|a| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a)))
        }

        fn unsigned(self, a: __m256i) -> [__m512; 2] {
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)]
                .map(|a| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(a)))
        }

        fn e2m1(self, a: __m256i) -> [__m512; 2] {
            let values = _mm512_setr_ps(
                0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
            );
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)]
                .map(|a| _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(a), values))
        }

        fn e4m3(self, a: __m256i) -> [__m512; 2] {
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)].map(|a| {
                let value = _mm512_mul_ps(_mm512_cvtph_ps(e4m3_as_f16(a)), _mm512_set1_ps(256.0));
                let top = _mm_or_si128(a, _mm_set1_epi8(-0x80));
                let nan = _mm_movemask_epi8(_mm_cmpeq_epi8(top, _mm_set1_epi8(-1)));
                let nan = u16::try_from(nan).unwrap_or_default();
                _mm512_mask_blend_ps(nan, value, _mm512_set1_ps(f32::NAN))
            })
        }

        fn codes<const BITS: usize, const FIRST: usize>(self, from: &[u8; 16]) -> __m512 {
            let all = _mm512_broadcast_i32x4(load128(from));
            let touched: &[u8; 64] = &const { touched(BITS, FIRST) };
            let offsets: &[u32; 16] = &const { offsets(BITS, FIRST) };
            // SAFETY: reads 64 bytes each, which need not be aligned.
            let (touched, offsets) = unsafe {
                (_mm512_loadu_si512(touched.as_ptr().cast()), _mm512_loadu_si512(offsets.as_ptr().cast()))
            };
            let codes = _mm512_srlv_epi32(_mm512_shuffle_epi8(all, touched), offsets);
            _mm512_cvtepi32_ps(_mm512_and_si512(codes, _mm512_set1_epi32((1 << BITS) - 1)))
        }

        fn f32s(self, from: &[u8; 64]) -> __m512 {
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { _mm512_loadu_ps(from.as_ptr().cast()) }
        }

        fn f16s(self, from: &[u8; 32]) -> __m512 {
            _mm512_cvtph_ps(load256(from))
        }

        fn bf16s(self, from: &[u8; 32]) -> __m512 {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(load256(from))))
        }

        fn load(self, from: &[f32; 16]) -> __m512 {
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { _mm512_loadu_ps(from.as_ptr()) }
        }

        fn splat(self, value: f32) -> __m512 {
            _mm512_set1_ps(value)
        }

        fn mul(self, a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }

        fn add(self, a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }

        fn fused(self, a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }

        fn sub(self, a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }

        fn put_f32<const PAST: bool>(self, a: __m512, out: &mut [f32; 16]) {
            let out = out.as_mut_ptr();
            // SAFETY: writes 64 bytes behind a reference; the streaming store only if aligned.
            unsafe {
                if PAST && out.cast::<__m512>().is_aligned() {
                    _mm512_stream_ps(out, a);
                } else {
                    _mm512_storeu_ps(out, a);
                }
            }
        }

        fn put_f16<const PAST: bool>(self, a: __m512, out: &mut [f16; 16]) {
            let halfs = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a);
            store256::<_, PAST>(out, halfs);
        }

        fn put_bf16<const PAST: bool>(self, a: __m512, out: &mut [bf16; 16], nan: bool) {
            let upper = _mm512_permutexvar_epi16(upper_halves(), rounded(a, nan));
            store256::<_, PAST>(out, _mm512_castsi512_si256(upper));
        }

        fn put_entries<const PAST: bool>(self, table: &[u16; 16], codes: __m256i, out: &mut [[u16; 16]; 2]) {
            // SAFETY: reads 32 bytes, which need not be aligned.
            let table = unsafe { _mm256_loadu_si256(table.as_ptr().cast()) };
            let table = _mm512_castsi256_si512(table);
            store512::<_, PAST>(out, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(codes), table));
        }

        fn blank(self) -> (__m512i, __m512i) {
            (_mm512_setzero_si512(), _mm512_set1_epi32(-1))
        }

        fn look(self, seen: &mut (__m512i, __m512i), a: __m512) {
            let a = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(i32::MAX));
            let less = _mm512_sub_epi32(a, _mm512_set1_epi32(1));
            *seen = (_mm512_max_epu32(seen.0, a), _mm512_min_epu32(seen.1, less));
        }

        fn doubtful(self, seen: (__m512i, __m512i), over: u32, under: u32) -> bool {
            let over = _mm512_cmpge_epu32_mask(seen.0, _mm512_set1_epi32(over.cast_signed()));
            let under = _mm512_cmplt_epu32_mask(seen.1, _mm512_set1_epi32(under.cast_signed()));
            over != 0 || under != 0
        }

        fn div(self, a: __m512, b: __m512) -> __m512 {
            _mm512_div_ps(a, b)
        }

        fn sqrt(self, a: __m512) -> __m512 {
            _mm512_sqrt_ps(a)
        }

        fn magnitude(self, a: __m512) -> __m512 {
            _mm512_abs_ps(a)
        }

        fn least(self, a: __m512, b: __m512) -> __m512 {
            _mm512_min_ps(a, b)
        }

        fn most(self, a: __m512, b: __m512) -> __m512 {
            _mm512_max_ps(a, b)
        }

        fn below(self, a: __m512, b: __m512) -> __mmask16 {
            _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b)
        }

        fn same(self, a: __m512, b: __m512) -> __mmask16 {
            _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b)
        }

        fn differ(self, a: __m512, b: __m512) -> __mmask16 {
            _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b)
        }

        fn both(self, a: __mmask16, b: __mmask16) -> __mmask16 {
            a & b
        }

        fn either(self, a: __mmask16, b: __mmask16) -> __mmask16 {
            a | b
        }

        fn any(self, a: __mmask16) -> bool {
            a != 0
        }

        fn all(self, a: __mmask16) -> bool {
            a == 0xffff
        }

        fn bits(self, a: __mmask16) -> u32 {
            u32::from(a)
        }

        fn mask(self, bits: u16) -> __mmask16 {
            bits
        }

        fn choose(self, mask: __mmask16, yes: __m512, no: __m512) -> __m512 {
            _mm512_mask_blend_ps(mask, no, yes)
        }

        fn nearest(self, a: __m512, low: i32, high: i32) -> __m512 {
            let bits = _mm512_castps_si512(_mm512_add_ps(a, _mm512_set1_ps(12_582_912.0)));
            let number = _mm512_and_si512(bits, _mm512_set1_epi32(0x7f_ffff));
            let number = _mm512_sub_epi32(number, _mm512_set1_epi32(0x40_0000));
            let number = _mm512_max_epi32(number, _mm512_set1_epi32(low));
            _mm512_cvtepi32_ps(_mm512_min_epi32(number, _mm512_set1_epi32(high)))
        }

        // A rounding instruction costs as much as two additions.
        fn even(self, a: __m512) -> __m512 {
            let large = _mm512_set1_ps(12_582_912.0);
            _mm512_sub_ps(_mm512_add_ps(a, large), large)
        }

        fn whole(self, a: __m512) -> __m512i {
            _mm512_cvttps_epi32(a)
        }

        fn rounded(self, a: __m512) -> __m512i {
            let sign = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(i32::MIN));
            let half = _mm512_or_si512(sign, _mm512_castps_si512(_mm512_set1_ps(NEARLY_HALF)));
            _mm512_cvttps_epi32(_mm512_add_ps(a, _mm512_castsi512_ps(half)))
        }

        fn numbers(self, a: __m512i) -> __m512 {
            _mm512_cvtepi32_ps(a)
        }

        fn to_signed(self, a: [__m512i; 2]) -> __m256i {
            _mm256_set_m128i(_mm512_cvtsepi32_epi8(a[1]), _mm512_cvtsepi32_epi8(a[0]))
        }

        fn at_most(self, a: __m512i, most: i32) -> __m512i {
            _mm512_min_epi32(a, _mm512_set1_epi32(most))
        }

        fn cut(self, a: __m512i, mask: u32) -> __m512i {
            _mm512_and_si512(a, _mm512_set1_epi32(mask.cast_signed()))
        }

        fn join<const BITS: u32>(self, a: __m512i, b: __m512i) -> __m512i {
            _mm512_or_si512(a, _mm512_slli_epi32::<BITS>(b))
        }

        fn down<const BITS: u32>(self, a: __m512i) -> __m512i {
            _mm512_srli_epi32::<BITS>(a)
        }

        fn entries(self, table: __m512, index: __m512i) -> __m512 {
            _mm512_permutexvar_ps(index, table)
        }

        fn wide(self, from: &[u8; 16]) -> __m512i {
            _mm512_cvtepu8_epi32(load128(from))
        }

        fn fours(self, table: __m512, index: __m512i) -> __m512 {
            _mm512_permutevar_ps(table, index)
        }

        fn eights(self, table: __m512, index: __m512i) -> __m512 {
            // The fourth bit chooses between two equal halves.
            _mm512_permutexvar_ps(index, table)
        }

        fn transposed(self, rows: [__m512; 16]) -> [__m512; 16] {
            transposed16(rows)
        }

        fn transposed_words(self, rows: [__m512i; 16]) -> [__m512i; 16] {
            let mut floats = [_mm512_setzero_ps(); 16];
            for i in 0..16 {
                floats[i] = _mm512_castsi512_ps(rows[i]);
            }
            let floats = transposed16(floats);
            let mut columns = rows;
            for i in 0..16 {
                columns[i] = _mm512_castps_si512(floats[i]);
            }
            columns
        }

        fn load_words(self, from: &[u32; 16]) -> __m512i {
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
        }

        fn put_words(self, a: __m512i, out: &mut [u32; 16]) {
            // SAFETY: writes 64 bytes behind a reference, which need not be aligned.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), a) }
        }

        fn load_f16(self, from: &[f16; 16]) -> __m512 {
            // SAFETY: reads 32 bytes, which need not be aligned.
            _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
        }

        fn load_bf16(self, from: &[bf16; 16]) -> __m512 {
            // SAFETY: reads 32 bytes, which need not be aligned.
            let upper = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(upper)))
        }

        fn peak(self, a: __m512, b: __m512) -> __m512 {
            let [a, b] = [a, b].map(|a| {
                _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(i32::MAX))
            });
            _mm512_castsi512_ps(_mm512_max_epi32(a, b))
        }

        fn as_f16(self, a: __m512) -> __m512 {
            _mm512_cvtph_ps(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a))
        }

        fn as_bf16(self, a: __m512) -> __m512 {
            let bits = _mm512_castps_si512(a);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
            let upper = _mm512_set1_epi32(0xffff_0000u32.cast_signed());
            _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(bits, half), upper))
        }
    }

    #[inline(always)]
    fn pair_bf16<const PAST: bool>(self, a: [__m512; 2], out: &mut [[bf16; 16]; 2], nan: bool) {
        self.put_bf16s::<PAST>(a, out, nan, self.recent);
    }

    #[inline(always)]
    fn dots(self, codes: [__m256i; 2], digits: &Digits) -> __m512i {
        self.dots_by(codes, digits, self.recent)
    }

    #[inline(always)]
    fn largest(self, a: __m512) -> f32 {
        self.narrow().largest(self.split(a))
    }

    #[inline(always)]
    fn smallest(self, a: __m512) -> f32 {
        self.narrow().smallest(self.split(a))
    }

    #[inline(always)]
    fn highest(self, a: __m512) -> f32 {
        self.narrow().highest(self.split(a))
    }

    #[inline(always)]
    fn largest_of_each(self, rows: [__m512; 16]) -> __m512 {
        self.joined(self.narrow().largest_of_each(self.all_split(rows)))
    }

    #[inline(always)]
    fn smallest_of_each(self, rows: [__m512; 16]) -> __m512 {
        self.joined(self.narrow().smallest_of_each(self.all_split(rows)))
    }

    #[inline(always)]
    fn highest_of_each(self, rows: [__m512; 16]) -> __m512 {
        self.joined(self.narrow().highest_of_each(self.all_split(rows)))
    }

    #[inline(always)]
    fn to_unsigned(self, a: [__m512; 2]) -> __m256i {
        self.narrow().to_unsigned(a.map(|a| self.split(a)))
    }

    #[inline(always)]
    fn to_e2m1(self, a: [__m512; 2]) -> __m256i {
        self.narrow().to_e2m1(a.map(|a| self.split(a)))
    }

    #[inline(always)]
    fn to_e4m3(self, a: [__m512; 2]) -> __m256i {
        self.narrow().to_e4m3(a.map(|a| self.split(a)))
    }

    #[inline(always)]
    fn stream<const BITS: usize>(self, codes: __m256i, out: &mut [u8; 32]) {
        self.narrow().stream::<BITS>(codes, out);
    }
}
