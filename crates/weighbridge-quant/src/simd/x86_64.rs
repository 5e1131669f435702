//! AVX2, and the code it shares with AVX-512.
#![allow(unsafe_code, reason = "instructions that not every processor has; see `instructions!`")]

mod avx512;
mod pack;
mod rows;

use std::arch::x86_64::*;

use half::{bf16, f16};
use pack::{offsets, touched};
use rows::{LaneChoice, of_each, transposed16};

use super::{Digits, Simd, instructions};

/// AVX2, with F16C.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Avx2(());

/// AVX-512: F (foundation) and BW (bytes and words).
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Avx512 {
    /// Whether the processor rounds to `bf16` and adds up products of bytes by itself. A branch at
    /// each is cheaper than a second copy of every kernel.
    recent: bool,
}

impl Avx2 {
    /// # Safety
    ///
    /// The processor must support AVX2, F16C and FMA.
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Avx512 {
    /// # Safety
    ///
    /// The processor must support AVX-512 F and BW, AVX2, F16C and FMA; a `recent` one, also
    /// AVX512_BF16 and AVX512_VNNI.
    pub(in super::super) unsafe fn new(recent: bool) -> Self {
        Self { recent }
    }

    #[inline(always)]
    fn narrow(self) -> Avx2 {
        Avx2(())
    }
}

/// The distance of prefetching, in bytes: a page, since processors do not fetch beyond one by themselves.
const AHEAD: usize = 4096;

#[inline(always)]
fn fetch_behind(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        // SAFETY: SSE is part of x86-64, and a request for any address has no effect that a program sees.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(AHEAD).cast()) };
    }
}

/// The bits of each byte that remain after a shift of 16-bit words.
const fn kept_right(bits: i32) -> i8 {
    (0xffu8 >> bits).cast_signed()
}

const fn kept_left(bits: i32) -> i8 {
    (0xffu8 << bits).cast_signed()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load128(from: &[u8; 16]) -> __m128i {
    // SAFETY: reads 16 bytes, which need not be aligned.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load256(from: &[u8; 32]) -> __m256i {
    // SAFETY: reads 32 bytes, which need not be aligned.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn words256(from: &[u32; 8]) -> __m256i {
    // SAFETY: reads 32 bytes, which need not be aligned.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Writes 16 numbers of 2 bytes, with a streaming store if requested and aligned. The alignment
/// test costs little because it always has the same result.
#[inline]
#[target_feature(enable = "avx2")]
fn store256<T, const PAST: bool>(out: &mut [T; 16], value: __m256i) {
    const { assert!(size_of::<T>() == 2) };
    let out: *mut __m256i = out.as_mut_ptr().cast();
    // SAFETY: writes 32 bytes behind a reference; the streaming store only if aligned.
    unsafe {
        if PAST && out.is_aligned() {
            _mm256_stream_si256(out, value);
        } else {
            _mm256_storeu_si256(out, value);
        }
    }
}

/// Both halves of 32 bytes, each of them twice.
#[inline]
#[target_feature(enable = "avx2")]
fn doubled(a: __m256i) -> [__m256i; 2] {
    let (low, high): (__m256i, __m256i);
    // SAFETY: moves between registers. Without the assembly, the compiler turns this and the
    // shuffles that follow into instructions that extend bytes across halves, which take two steps
    // each instead of one.
    unsafe {
        std::arch::asm!(
            "vperm2i128 {low}, {a}, {a}, 0x00",
            "vperm2i128 {high}, {a}, {a}, 0x11",
            a = in(ymm_reg) a,
            low = out(ymm_reg) low,
            high = lateout(ymm_reg) high,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// Shuffle indices that move 8 bytes, from position `first`, to byte `place` of each word. An index
/// with the top bit set gives 0.
const fn words_of(place: usize, first: u8) -> [u8; 32] {
    let mut table = [0x80; 32];
    let mut i = 0;
    while i < 8 {
        table[4 * i as usize + place] = first + i;
        i += 1;
    }
    table
}

/// Converts 16 bytes, which both halves contain, to words: each in byte `PLACE` of its word, the
/// others 0. This is cheaper than the instructions that extend bytes, which work across halves.
#[inline]
#[target_feature(enable = "avx2")]
fn widened<const PLACE: usize>(a: __m256i) -> [__m256i; 2] {
    [
        _mm256_shuffle_epi8(a, load256(&const { words_of(PLACE, 0) })),
        _mm256_shuffle_epi8(a, load256(&const { words_of(PLACE, 8) })),
    ]
}

/// The largest number below a half, with the sign of `a`. Adding it and rounding towards 0 rounds
/// ties away from 0.
#[inline]
#[target_feature(enable = "avx2")]
fn nearly_half(a: __m256) -> __m256 {
    let sign = _mm256_and_ps(a, _mm256_set1_ps(-0.0));
    _mm256_or_ps(sign, _mm256_set1_ps(NEARLY_HALF))
}

const NEARLY_HALF: f32 = 0.499_999_97;

impl Simd for Avx2 {
    type Bytes = __m256i;
    type Floats = [__m256; 2];
    /// The largest magnitudes, and the smallest nonzero magnitudes minus one.
    type Magnitudes = (__m256i, __m256i);
    type Words = [__m256i; 2];
    type Mask = [__m256; 2];

    const STREAMS: bool = true;
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn fetch_behind(self, bytes: &[u8]) {
        fetch_behind(bytes);
    }

    instructions! { "avx2,f16c,fma":
        fn bytes(self, from: &[u8; 32]) -> __m256i {
            load256(from)
        }

        fn halves(self, low: &[u8; 16], high: &[u8; 16]) -> __m256i {
            _mm256_set_m128i(load128(high), load128(low))
        }

        fn words(self, words: [u64; 4]) -> __m256i {
            let [a, b, c, d] = words.map(u64::cast_signed);
            _mm256_set_epi64x(d, c, b, a)
        }

        fn fill(self, byte: u8) -> __m256i {
            _mm256_set1_epi8(byte.cast_signed())
        }

        fn and(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_and_si256(a, b)
        }

        fn or(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_or_si256(a, b)
        }

        fn xor(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_xor_si256(a, b)
        }

        fn plus(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_add_epi8(a, b)
        }

        fn minus(self, a: __m256i, b: __m256i) -> __m256i {
            _mm256_sub_epi8(a, b)
        }

        fn right<const BITS: i32>(self, a: __m256i) -> __m256i {
            _mm256_and_si256(_mm256_srli_epi16::<BITS>(a), _mm256_set1_epi8(kept_right(BITS)))
        }

        fn left<const BITS: i32>(self, a: __m256i) -> __m256i {
            _mm256_and_si256(_mm256_slli_epi16::<BITS>(a), _mm256_set1_epi8(kept_left(BITS)))
        }

        fn at_least(self, a: __m256i, least: u8) -> __m256i {
            _mm256_cmpeq_epi8(_mm256_max_epu8(a, _mm256_set1_epi8(least.cast_signed())), a)
        }

        fn tops(self, a: __m256i) -> u32 {
            _mm256_movemask_epi8(a).cast_unsigned()
        }

        fn put_nibbles(self, a: __m256i, out: &mut [u8; 16]) {
            let high = _mm_slli_epi16::<4>(_mm256_extracti128_si256::<1>(a));
            let both = _mm_or_si128(_mm256_castsi256_si128(a), high);
            // SAFETY: writes 16 bytes behind a reference, which need not be aligned.
            unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), both) }
        }

        fn nibbles(self, from: &[u8; 16]) -> __m256i {
            let low = load128(from);
            let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
            _mm256_and_si256(both, _mm256_set1_epi8(15))
        }

        fn nibble_pairs(self, from: &[u8; 16]) -> __m256i {
            let wide = _mm256_cvtepu8_epi16(load128(from));
            let both = _mm256_or_si256(wide, _mm256_slli_epi16::<4>(wide));
            _mm256_and_si256(both, _mm256_set1_epi8(15))
        }

        fn spread(self, bits: u32) -> __m256i {
            let all = _mm256_set1_epi32(bits.cast_signed());
            let each = _mm256_setr_epi64x(
                0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303,
            );
            let one = _mm256_set1_epi64x(0x8040_2010_0804_0201u64.cast_signed());
            _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(all, each), one), one)
        }

        fn lookup(self, table: &[i8; 16], index: __m256i) -> __m256i {
            // SAFETY: reads 16 bytes, which need not be aligned.
            let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index)
        }

        fn signed(self, a: __m256i) -> [[__m256; 2]; 2] {
            doubled(a).map(|a| {
                widened::<3>(a).map(|a| _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(a)))
            })
        }

        fn unsigned(self, a: __m256i) -> [[__m256; 2]; 2] {
            doubled(a).map(|a| {
                widened::<0>(a).map(|a| _mm256_cvtepi32_ps(a))
            })
        }

        fn e2m1(self, a: __m256i) -> [[__m256; 2]; 2] {
            // As `f16` numbers, the values have a lower byte of 0.
            let upper = _mm256_shuffle_epi8(
                _mm256_setr_epi8(
                    0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44, -0x42, -0x40, -0x3e,
                    -0x3c, -0x3a, 0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44, -0x42,
                    -0x40, -0x3e, -0x3c, -0x3a,
                ),
                a,
            );
            let zero = _mm256_setzero_si256();
            let [first, second] =
                [_mm256_unpacklo_epi8(zero, upper), _mm256_unpackhi_epi8(zero, upper)];
            [
                [_mm256_castsi256_si128(first), _mm256_castsi256_si128(second)],
                [_mm256_extracti128_si256::<1>(first), _mm256_extracti128_si256::<1>(second)],
            ]
            .map(|halves| halves.map(|halves| _mm256_cvtph_ps(halves)))
        }

        fn e4m3(self, a: __m256i) -> [[__m256; 2]; 2] {
            let all = _mm256_set1_epi8(-1);
            let nan = _mm256_cmpeq_epi8(_mm256_or_si256(a, _mm256_set1_epi8(-0x80)), all);
            let any = _mm256_movemask_epi8(nan) != 0;
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)].map(|a| {
                let halves = if any { e4m3_or_nan_as_f16(a) } else { e4m3_as_f16(a) };
                [_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves)].map(|halves| {
                    _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0))
                })
            })
        }

        fn codes<const BITS: usize, const FIRST: usize>(self, from: &[u8; 16]) -> [__m256; 2] {
            let all = _mm256_broadcastsi128_si256(load128(from));
            let mask = _mm256_set1_epi32((1 << BITS) - 1);
            let first = _mm256_shuffle_epi8(all, load256(&const { touched(BITS, FIRST) }));
            let second = _mm256_shuffle_epi8(all, load256(&const { touched(BITS, FIRST + 8) }));
            let first = _mm256_srlv_epi32(first, words256(&const { offsets(BITS, FIRST) }));
            let second = _mm256_srlv_epi32(second, words256(&const { offsets(BITS, FIRST + 8) }));
            [first, second].map(|a| _mm256_cvtepi32_ps(_mm256_and_si256(a, mask)))
        }

        fn f32s(self, from: &[u8; 64]) -> [__m256; 2] {
            let pointer = from.as_ptr().cast::<f32>();
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { [_mm256_loadu_ps(pointer), _mm256_loadu_ps(pointer.add(8))] }
        }

        fn f16s(self, from: &[u8; 32]) -> [__m256; 2] {
            let a = load256(from);
            [
                _mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(a)),
            ]
        }

        fn bf16s(self, from: &[u8; 32]) -> [__m256; 2] {
            let a = load256(from);
            [_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)].map(|a| {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(a)))
            })
        }

        fn f16(self, bits: u16) -> f32 {
            let half: __m128i;
            // SAFETY: one move between registers. The compiler's code for `_mm_cvtsi32_si128`
            // inserts the lane from memory and keeps the other lanes of a register. It therefore
            // waits for the previous use of that register, which takes four times as long as a
            // block of Q8_0.
            unsafe {
                std::arch::asm!(
                    "vmovd {half}, {bits:e}",
                    half = lateout(xmm_reg) half,
                    bits = in(reg) u32::from(bits),
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            _mm_cvtss_f32(_mm_cvtph_ps(half))
        }

        fn load(self, from: &[f32; 16]) -> [__m256; 2] {
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))] }
        }

        fn splat(self, value: f32) -> [__m256; 2] {
            [_mm256_set1_ps(value); 2]
        }

        fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])]
        }

        fn add(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])]
        }

        fn fused(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])]
        }

        fn sub(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])]
        }

        fn put_f32<const PAST: bool>(self, a: [__m256; 2], out: &mut [f32; 16]) {
            let out = out.as_mut_ptr();
            // SAFETY: writes 64 bytes behind a reference; the streaming stores only if aligned.
            unsafe {
                if PAST && out.cast::<__m256>().is_aligned() {
                    _mm256_stream_ps(out, a[0]);
                    _mm256_stream_ps(out.add(8), a[1]);
                } else {
                    _mm256_storeu_ps(out, a[0]);
                    _mm256_storeu_ps(out.add(8), a[1]);
                }
            }
        }

        fn put_f16<const PAST: bool>(self, a: [__m256; 2], out: &mut [f16; 16]) {
            let [low, high] = a.map(|a| _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a));
            let out = out.as_mut_ptr().cast::<__m128i>();
            // SAFETY: writes 32 bytes behind a reference; the streaming stores only if aligned.
            // Joining both halves in one register first would cost as much as the second store.
            unsafe {
                if PAST && out.is_aligned() {
                    _mm_stream_si128(out, low);
                    _mm_stream_si128(out.add(1), high);
                } else {
                    _mm_storeu_si128(out, low);
                    _mm_storeu_si128(out.add(1), high);
                }
            }
        }

        fn put_bf16<const PAST: bool>(self, a: [__m256; 2], out: &mut [bf16; 16], nan: bool) {
            let found = _mm256_cmp_ps::<_CMP_UNORD_Q>(a[0], a[1]);
            let [low, high] = if nan && _mm256_movemask_ps(found) != 0 {
                a.map(|a| pack::upper_halves_or_nan(a))
            } else {
                a.map(|a| pack::upper_halves(a))
            };
            // The instruction packs each half of the vectors separately, so the quarters are
            // reordered.
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
            store256::<_, PAST>(out, packed);
        }

        fn put_entries<const PAST: bool>(self, table: &[u16; 16], codes: __m256i, out: &mut [[u16; 16]; 2]) {
            for (out, entries) in out.iter_mut().zip(pack::entries(table, codes)) {
                store256::<_, PAST>(out, entries);
            }
        }

        fn fence(self) {
            #[allow(unused_unsafe, reason = "compilers after 1.89 count it as safe")]
            // SAFETY: it only orders stores; every x86-64 processor has it.
            unsafe { _mm_sfence() }
        }

        fn blank(self) -> (__m256i, __m256i) {
            (_mm256_setzero_si256(), _mm256_set1_epi32(-1))
        }

        fn look(self, seen: &mut (__m256i, __m256i), a: [__m256; 2]) {
            let magnitude = _mm256_set1_epi32(i32::MAX);
            let [a, b] = a.map(|a| _mm256_and_si256(_mm256_castps_si256(a), magnitude));
            let one = _mm256_set1_epi32(1);
            let less = _mm256_min_epu32(_mm256_sub_epi32(a, one), _mm256_sub_epi32(b, one));
            *seen = (_mm256_max_epu32(seen.0, _mm256_max_epu32(a, b)), _mm256_min_epu32(seen.1, less));
        }

        fn doubtful(self, seen: (__m256i, __m256i), over: u32, under: u32) -> bool {
            let over = _mm256_set1_epi32(over.cast_signed());
            let over = _mm256_cmpeq_epi32(_mm256_max_epu32(seen.0, over), seen.0);
            // A value is below the bound if it is not at least the bound.
            let under = _mm256_set1_epi32(under.cast_signed());
            let fine = _mm256_cmpeq_epi32(_mm256_max_epu32(seen.1, under), seen.1);
            _mm256_movemask_epi8(over) != 0 || _mm256_movemask_epi8(fine) != -1
        }

        fn div(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])]
        }

        fn sqrt(self, a: [__m256; 2]) -> [__m256; 2] {
            a.map(|a| _mm256_sqrt_ps(a))
        }

        fn magnitude(self, a: [__m256; 2]) -> [__m256; 2] {
            a.map(|a| _mm256_andnot_ps(_mm256_set1_ps(-0.0), a))
        }

        fn least(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])]
        }

        fn most(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])]
        }

        fn below(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_cmp_ps::<_CMP_LT_OQ>(a[0], b[0]), _mm256_cmp_ps::<_CMP_LT_OQ>(a[1], b[1])]
        }

        fn same(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_cmp_ps::<_CMP_EQ_OQ>(a[0], b[0]), _mm256_cmp_ps::<_CMP_EQ_OQ>(a[1], b[1])]
        }

        fn differ(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_cmp_ps::<_CMP_NEQ_UQ>(a[0], b[0]), _mm256_cmp_ps::<_CMP_NEQ_UQ>(a[1], b[1])]
        }

        fn both(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_and_ps(a[0], b[0]), _mm256_and_ps(a[1], b[1])]
        }

        fn either(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            [_mm256_or_ps(a[0], b[0]), _mm256_or_ps(a[1], b[1])]
        }

        fn any(self, a: [__m256; 2]) -> bool {
            _mm256_movemask_ps(_mm256_or_ps(a[0], a[1])) != 0
        }

        fn all(self, a: [__m256; 2]) -> bool {
            _mm256_movemask_ps(_mm256_and_ps(a[0], a[1])) == 0xff
        }

        fn bits(self, a: [__m256; 2]) -> u32 {
            let [low, high]: [u32; 2] = a.map(|a| {
                let bits;
                // SAFETY: moves bits between registers. The compiler's code for two
                // `_mm256_movemask_ps` joins the registers first, which takes six steps more.
                unsafe {
                    std::arch::asm!(
                        "vmovmskps {bits:e}, {a}",
                        a = in(ymm_reg) a,
                        bits = lateout(reg) bits,
                        options(pure, nomem, nostack, preserves_flags),
                    );
                }
                bits
            });
            low | high << 8
        }

        fn choose(self, mask: [__m256; 2], yes: [__m256; 2], no: [__m256; 2]) -> [__m256; 2] {
            [
                _mm256_blendv_ps(no[0], yes[0], mask[0]),
                _mm256_blendv_ps(no[1], yes[1], mask[1]),
            ]
        }

        fn nearest(self, a: [__m256; 2], low: i32, high: i32) -> [__m256; 2] {
            let (low, high) = (_mm256_set1_epi32(low), _mm256_set1_epi32(high));
            a.map(|a| {
                let bits = _mm256_castps_si256(_mm256_add_ps(a, _mm256_set1_ps(12_582_912.0)));
                let number = _mm256_and_si256(bits, _mm256_set1_epi32(0x7f_ffff));
                let number = _mm256_sub_epi32(number, _mm256_set1_epi32(0x40_0000));
                _mm256_cvtepi32_ps(_mm256_min_epi32(_mm256_max_epi32(number, low), high))
            })
        }

        fn even(self, a: [__m256; 2]) -> [__m256; 2] {
            a.map(|a| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
        }

        fn whole(self, a: [__m256; 2]) -> [__m256i; 2] {
            a.map(|a| _mm256_cvttps_epi32(a))
        }

        fn rounded(self, a: [__m256; 2]) -> [__m256i; 2] {
            a.map(|a| _mm256_cvttps_epi32(_mm256_add_ps(a, nearly_half(a))))
        }

        fn numbers(self, a: [__m256i; 2]) -> [__m256; 2] {
            a.map(|a| _mm256_cvtepi32_ps(a))
        }

        fn to_signed(self, a: [[__m256i; 2]; 2]) -> __m256i {
            pack::signed(a)
        }

        fn at_most(self, a: [__m256i; 2], most: i32) -> [__m256i; 2] {
            a.map(|a| _mm256_min_epi32(a, _mm256_set1_epi32(most)))
        }

        fn cut(self, a: [__m256i; 2], mask: u32) -> [__m256i; 2] {
            a.map(|a| _mm256_and_si256(a, _mm256_set1_epi32(mask.cast_signed())))
        }

        fn join<const BITS: u32>(self, a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            let by = _mm256_set1_epi32(BITS.cast_signed());
            [
                _mm256_or_si256(a[0], _mm256_sllv_epi32(b[0], by)),
                _mm256_or_si256(a[1], _mm256_sllv_epi32(b[1], by)),
            ]
        }

        fn down<const BITS: u32>(self, a: [__m256i; 2]) -> [__m256i; 2] {
            a.map(|a| _mm256_srlv_epi32(a, _mm256_set1_epi32(BITS.cast_signed())))
        }

        fn dots(self, codes: [__m256i; 2], digits: &Digits) -> [__m256i; 2] {
            let mut sums = [_mm256_setzero_si256(); 2];
            for digits in digits {
                for (half, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: reads 32 of 64 bytes, which need not be aligned.
                    let digits = unsafe { _mm256_loadu_si256(digits.as_ptr().cast::<__m256i>().add(half)) };
                    // Pairs are at most 2 times 127 times 64.
                    let pairs = _mm256_maddubs_epi16(codes[half], digits);
                    let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                    *sums = _mm256_add_epi32(_mm256_slli_epi32::<7>(*sums), fours);
                }
            }
            sums
        }

        fn entries(self, table: [__m256; 2], index: [__m256i; 2]) -> [__m256; 2] {
            let [low, high] = table;
            index.map(|index| {
                let (a, b) = (_mm256_permutevar8x32_ps(low, index), _mm256_permutevar8x32_ps(high, index));
                // The fourth bit becomes the sign.
                let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(index));
                _mm256_blendv_ps(a, b, upper)
            })
        }

        fn fours(self, table: [__m256; 2], index: [__m256i; 2]) -> [__m256; 2] {
            index.map(|index| _mm256_permutevar_ps(table[0], index))
        }

        fn eights(self, table: [__m256; 2], index: [__m256i; 2]) -> [__m256; 2] {
            index.map(|index| _mm256_permutevar8x32_ps(table[0], index))
        }

        fn transposed(self, rows: [[__m256; 2]; 16]) -> [[__m256; 2]; 16] {
            transposed16(rows)
        }

        fn transposed_words(self, rows: [[__m256i; 2]; 16]) -> [[__m256i; 2]; 16] {
            let mut floats = [[_mm256_setzero_ps(); 2]; 16];
            for i in 0..16 {
                floats[i] = rows[i].map(|a| _mm256_castsi256_ps(a));
            }
            let floats = transposed16(floats);
            let mut columns = rows;
            for i in 0..16 {
                columns[i] = floats[i].map(|a| _mm256_castps_si256(a));
            }
            columns
        }

        fn load_words(self, from: &[u32; 16]) -> [__m256i; 2] {
            let from = from.as_ptr();
            // SAFETY: reads 64 bytes, which need not be aligned.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
        }

        fn put_words(self, a: [__m256i; 2], out: &mut [u32; 16]) {
            let out = out.as_mut_ptr();
            // SAFETY: writes 64 bytes behind a reference, which need not be aligned.
            unsafe {
                _mm256_storeu_si256(out.cast(), a[0]);
                _mm256_storeu_si256(out.add(8).cast(), a[1]);
            }
        }

        fn load_f16(self, from: &[f16; 16]) -> [__m256; 2] {
            let from = from.as_ptr().cast::<__m128i>();
            // SAFETY: reads 32 bytes, which need not be aligned.
            unsafe { [_mm_loadu_si128(from), _mm_loadu_si128(from.add(1))] }
                .map(|halves| _mm256_cvtph_ps(halves))
        }

        fn load_bf16(self, from: &[bf16; 16]) -> [__m256; 2] {
            let from = from.as_ptr().cast::<__m128i>();
            // SAFETY: reads 32 bytes, which need not be aligned.
            unsafe { [_mm_loadu_si128(from), _mm_loadu_si128(from.add(1))] }.map(|upper| {
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(upper)))
            })
        }

        fn peak(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            let larger = |a, b| _mm256_max_epi32(pack::magnitudes(a), pack::magnitudes(b));
            [larger(a[0], b[0]), larger(a[1], b[1])].map(|bits| _mm256_castsi256_ps(bits))
        }

        fn largest(self, a: [__m256; 2]) -> f32 {
            let a = _mm256_max_ps(a[0], a[1]);
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }

        fn smallest(self, a: [__m256; 2]) -> f32 {
            let a = _mm256_min_ps(a[0], a[1]);
            let a = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_min_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_min_ss(a, _mm_movehdup_ps(a)))
        }

        fn highest(self, a: [__m256; 2]) -> f32 {
            let a = _mm256_max_epi32(pack::magnitudes(a[0]), pack::magnitudes(a[1]));
            let a = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            let a = _mm_max_epi32(a, _mm_shuffle_epi32::<0b01_00_11_10>(a));
            let a = _mm_max_epi32(a, _mm_shuffle_epi32::<0b10_11_00_01>(a));
            _mm_cvtss_f32(_mm_castsi128_ps(a))
        }

        fn largest_of_each(self, rows: [[__m256; 2]; 16]) -> [__m256; 2] {
            of_each(LaneChoice::Most, rows)
        }

        fn smallest_of_each(self, rows: [[__m256; 2]; 16]) -> [__m256; 2] {
            of_each(LaneChoice::Least, rows)
        }

        fn highest_of_each(self, rows: [[__m256; 2]; 16]) -> [__m256; 2] {
            let mut magnitudes = rows;
            for halves in &mut magnitudes {
                for half in halves {
                    *half = _mm256_castsi256_ps(pack::magnitudes(*half));
                }
            }
            of_each(LaneChoice::Bits, magnitudes)
        }

        fn as_f16(self, a: [__m256; 2]) -> [__m256; 2] {
            a.map(|a| _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(a)))
        }

        fn as_bf16(self, a: [__m256; 2]) -> [__m256; 2] {
            a.map(|a| pack::bf16(a))
        }

        fn to_unsigned(self, a: [[__m256; 2]; 2]) -> __m256i {
            pack::unsigned(a)
        }

        fn to_e2m1(self, a: [[__m256; 2]; 2]) -> __m256i {
            pack::e2m1(a)
        }

        fn to_e4m3(self, a: [[__m256; 2]; 2]) -> __m256i {
            pack::e4m3(a)
        }

        fn capped(self, a: __m256i, most: u8) -> __m256i {
            _mm256_min_epu8(a, _mm256_set1_epi8(most.cast_signed()))
        }

        fn signed_capped(self, a: __m256i, most: i8) -> __m256i {
            _mm256_min_epi8(a, _mm256_set1_epi8(most))
        }

        fn stream<const BITS: usize>(self, codes: __m256i, out: &mut [u8; 32]) {
            const { assert!(BITS <= 6 || BITS == 8) };
            let out = out.as_mut_ptr();
            if BITS == 8 {
                // SAFETY: writes 32 bytes behind a reference, which need not be aligned.
                return unsafe { _mm256_storeu_si256(out.cast(), codes) };
            }
            let halves = pack::stream(codes, BITS, load128(&const { pack::first_bytes(BITS) }));
            // SAFETY: writes 16 bytes, and 16 from at most the 14th on, of 32 behind a reference.
            unsafe {
                _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(halves));
                let high = _mm256_extracti128_si256::<1>(halves);
                _mm_storeu_si128(out.add(2 * BITS).cast(), high);
            }
        }
    }
}

/// Converts 16 E4M3 codes to `f16` numbers of a 256th of their value: exponent and fraction are in
/// the same order, with a bias that is 8 less. Not for NaN, which would become a number.
#[inline]
#[target_feature(enable = "avx2")]
fn e4m3_as_f16(a: __m128i) -> __m256i {
    // After sign extension, the sign is where `f16` has it, and once more.
    let shifted = _mm256_slli_epi16::<7>(_mm256_cvtepi8_epi16(a));
    _mm256_and_si256(shifted, _mm256_set1_epi16(0xbfffu16.cast_signed()))
}

/// Like `e4m3_as_f16`, with NaN.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn e4m3_or_nan_as_f16(a: __m128i) -> __m256i {
    let magnitude = _mm256_and_si256(_mm256_cvtepu8_epi16(a), _mm256_set1_epi16(0x7f));
    let nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    _mm256_or_si256(e4m3_as_f16(a), nan)
}
