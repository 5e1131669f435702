//! NEON, which 64-bit ARM processors have.
#![allow(unsafe_code, reason = "loads, stores and single instructions; see `instructions!`")]

mod brain;
mod pack;
mod registers;
mod rows;

use std::arch::aarch64::*;
use std::arch::asm;
use std::array::from_fn;

use brain::{bf16_of_floats, floats_of_bf16, nearly_rounded};
use half::{bf16, f16};
use registers::{Bytes, Floats, WEIGHTS, Words, load, magnitudes};
use rows::{each_of, transposed16};

use super::{Digits, Simd, instructions};

/// NEON; with `BF16` also the instructions that round to `bf16`, which newer processors have.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Neon<const BF16: bool>(());

impl Neon<false> {
    /// # Safety
    ///
    /// The processor must support NEON.
    pub(in super::super) unsafe fn new() -> Self {
        Self(())
    }
}

impl Neon<true> {
    /// # Safety
    ///
    /// The processor must support NEON and BF16.
    pub(in super::super) unsafe fn with_bf16() -> Self {
        Self(())
    }
}

/// The results of an operation on two times two or four registers.
#[inline(always)]
fn both<A: Copy, R, const N: usize>(a: [A; N], b: [A; N], of: impl Fn(A, A) -> R) -> [R; N] {
    from_fn(|i| of(a[i], b[i]))
}

/// Shuffle indices that move 4 bytes, from position `first`, to byte `place` of each word. An index
/// beyond the table gives 0.
const fn words_of(place: usize, first: u8) -> [u8; 16] {
    let mut table = [0x80; 16];
    let mut i = 0;
    while i < 4 {
        table[4 * i as usize + place] = first + i;
        i += 1;
    }
    table
}

/// Shuffle indices that repeat each of two bytes, from position `first`, eight times.
const fn eight_of_each(first: u8) -> [u8; 16] {
    let mut table = [first; 16];
    let mut i = 8;
    while i < 16 {
        table[i] = first + 1;
        i += 1;
    }
    table
}

/// The bytes of a stream that codes from position `first` touch, as shuffle indices: `each` bytes for
/// every code.
#[expect(clippy::cast_possible_truncation, reason = "at most 17")]
const fn touched(bits: usize, first: usize, each: usize) -> [u8; 16] {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        table[i] = ((first + i / each) * bits / 8 + i % each) as u8;
        i += 1;
    }
    table
}

/// The distances of codes from the first bit of the bytes they touch, as shifts to the right.
#[expect(clippy::cast_possible_truncation, reason = "less than 8")]
const fn distances<const LEN: usize>(bits: usize, first: usize) -> [i8; LEN] {
    let mut table = [0; LEN];
    let mut i = 0;
    while i < LEN {
        table[i] = -(((first + i) * bits % 8) as i8);
        i += 1;
    }
    table
}

#[inline]
#[target_feature(enable = "neon")]
fn load_two(from: &[u8; 32]) -> Bytes {
    // SAFETY: reads 32 bytes, which need not be aligned.
    unsafe { [vld1q_u8(from.as_ptr()), vld1q_u8(from.as_ptr().add(16))] }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(out: &mut [u8; 16], a: uint8x16_t) {
    // SAFETY: writes 16 bytes behind a reference, which need not be aligned.
    unsafe { vst1q_u8(out.as_mut_ptr(), a) }
}

/// Reads 16 numbers of 2 bytes.
#[inline]
#[target_feature(enable = "neon")]
fn load_halves<T>(from: &[T; 16]) -> [uint16x8_t; 2] {
    const { assert!(size_of::<T>() == 2) };
    let from = from.as_ptr().cast::<u16>();
    // SAFETY: reads 32 bytes behind a reference.
    unsafe { [vld1q_u16(from), vld1q_u16(from.add(8))] }
}

/// Writes 16 numbers of 2 bytes.
#[inline]
#[target_feature(enable = "neon")]
fn store_halves<T>(out: &mut [T; 16], [low, high]: [uint16x8_t; 2]) {
    const { assert!(size_of::<T>() == 2) };
    let out = out.as_mut_ptr().cast::<u16>();
    // SAFETY: writes 32 bytes behind a reference.
    unsafe {
        vst1q_u16(out, low);
        vst1q_u16(out.add(8), high);
    }
}

/// Converts numbers of half precision. The oldest compiler that the library supports has no
/// intrinsics for this instruction.
#[inline]
#[target_feature(enable = "neon")]
fn floats_of_f16(a: [uint16x8_t; 2]) -> Floats {
    let [a, b] = a.map(|a| {
        let (low, high): (float32x4_t, float32x4_t);
        // SAFETY: computes with registers.
        unsafe {
            asm!(
                "fcvtl {low:v}.4s, {a:v}.4h",
                a = in(vreg) a,
                low = lateout(vreg) low,
                options(pure, nomem, nostack, preserves_flags)
            );
            asm!(
                "fcvtl2 {high:v}.4s, {a:v}.8h",
                a = in(vreg) a,
                high = lateout(vreg) high,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        [low, high]
    });
    [a[0], a[1], b[0], b[1]]
}

/// Rounds to half precision; see [`floats_of_f16`].
#[inline]
#[target_feature(enable = "neon")]
fn f16_of_floats([a, b, c, d]: Floats) -> [uint16x8_t; 2] {
    [[a, b], [c, d]].map(|[a, b]| {
        let mut halves: uint16x8_t;
        // SAFETY: computes with registers.
        unsafe {
            asm!(
                "fcvtn {halves:v}.4h, {a:v}.4s",
                a = in(vreg) a,
                halves = lateout(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
            asm!(
                "fcvtn2 {halves:v}.8h, {b:v}.4s",
                b = in(vreg) b,
                halves = inlateout(vreg) halves,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        halves
    })
}

#[inline]
#[target_feature(enable = "neon")]
fn put_bf16(a: Floats, out: &mut [bf16; 16], nan: bool) {
    // The largest of numbers is NaN if one of them is.
    if nan && vmaxvq_f32(merged(a, |a, b| vmaxq_f32(a, b))).is_nan() {
        return put_bf16_or_nan(a, out);
    }
    let [a, b, c, d] = a.map(|a| nearly_rounded(a));
    let half = vdupq_n_u32(0x7fff);
    let upper = |a, b| vaddhn_high_u32(vaddhn_u32(a, half), b, half);
    store_halves(out, [upper(a, b), upper(c, d)]);
}

#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
fn put_bf16_or_nan(a: Floats, out: &mut [bf16; 16]) {
    for (a, out) in a.into_iter().zip(out.as_chunks_mut::<4>().0) {
        let mut floats = [0.0; 4];
        // SAFETY: writes 16 bytes behind a reference.
        unsafe { vst1q_f32(floats.as_mut_ptr(), a) };
        *out = floats.map(bf16::from_f32);
    }
}

/// Converts 16 signed bytes to floats: each is moved to the top of a word, which is converted as a
/// number of 24 bits after the binary point. This is cheaper than extending bytes twice.
#[inline]
#[target_feature(enable = "neon")]
fn signed(a: uint8x16_t) -> Floats {
    let tables = const { [words_of(3, 0), words_of(3, 4), words_of(3, 8), words_of(3, 12)] };
    tables.map(|table| {
        let words = vreinterpretq_s32_u8(vqtbl1q_u8(a, load(&table)));
        vcvtq_n_f32_s32::<24>(words)
    })
}

#[inline]
#[target_feature(enable = "neon")]
fn unsigned(a: uint8x16_t) -> Floats {
    let tables = const { [words_of(0, 0), words_of(0, 4), words_of(0, 8), words_of(0, 12)] };
    tables.map(|table| vcvtq_f32_u32(vreinterpretq_u32_u8(vqtbl1q_u8(a, load(&table)))))
}

/// Converts 16 E4M3 codes to `f16` numbers of a 256th of their value: exponent and fraction are in
/// the same order, with a bias that is 8 less. Not for NaN, which would become a number.
#[inline]
#[target_feature(enable = "neon")]
fn e4m3_as_f16(a: uint8x16_t) -> [uint16x8_t; 2] {
    // After sign extension, the sign is where `f16` has it, and once more.
    let a = vreinterpretq_s8_u8(a);
    [vshll_n_s8::<7>(vget_low_s8(a)), vshll_high_n_s8::<7>(a)]
        .map(|a| vandq_u16(vreinterpretq_u16_s16(a), vdupq_n_u16(0xbfff)))
}

/// Like `e4m3_as_f16`, with NaN.
#[cold]
#[inline(never)]
#[target_feature(enable = "neon")]
fn e4m3_or_nan_as_f16(a: uint8x16_t) -> [uint16x8_t; 2] {
    let nan = vreinterpretq_s8_u8(vceqq_u8(vorrq_u8(a, vdupq_n_u8(0x80)), vdupq_n_u8(255)));
    let nan = [vmovl_s8(vget_low_s8(nan)), vmovl_high_s8(nan)];
    both(e4m3_as_f16(a), nan.map(|nan| vreinterpretq_u16_s16(nan)), |a, nan| vorrq_u16(a, nan))
}

/// Makes words of floats that do not fit `i32`, the conversion's limits and 0, its minimum.
#[inline]
#[target_feature(enable = "neon")]
fn or_minimum(a: float32x4_t, converted: int32x4_t) -> uint32x4_t {
    let fits = vcltq_f32(a, vdupq_n_f32(2_147_483_648.0));
    vbslq_u32(fits, vreinterpretq_u32_s32(converted), vdupq_n_u32(0x8000_0000))
}

/// One register that an operation makes of four.
#[inline(always)]
fn merged<A: Copy>([a, b, c, d]: [A; 4], of: impl Fn(A, A) -> A) -> A {
    of(of(a, b), of(c, d))
}

impl<const BF16: bool> Simd for Neon<BF16> {
    type Bytes = Bytes;
    type Floats = Floats;
    /// The largest magnitudes, and the smallest nonzero magnitudes minus one.
    type Magnitudes = (uint32x4_t, uint32x4_t);
    type Words = Words;
    type Mask = Words;

    /// Processors find out by themselves that whole lines are written, and do not read them.
    const STREAMS: bool = false;
    const IS_WIDE: bool = false;

    instructions! { "neon":
        fn bytes(self, from: &[u8; 32]) -> Bytes {
            load_two(from)
        }

        fn halves(self, low: &[u8; 16], high: &[u8; 16]) -> Bytes {
            [load(low), load(high)]
        }

        fn words(self, words: [u64; 4]) -> Bytes {
            let [a, b, c, d] = words.map(|word| vcreate_u8(word));
            [vcombine_u8(a, b), vcombine_u8(c, d)]
        }

        fn fill(self, byte: u8) -> Bytes {
            [vdupq_n_u8(byte); 2]
        }

        fn and(self, a: Bytes, b: Bytes) -> Bytes {
            both(a, b, |a, b| vandq_u8(a, b))
        }

        fn or(self, a: Bytes, b: Bytes) -> Bytes {
            both(a, b, |a, b| vorrq_u8(a, b))
        }

        fn xor(self, a: Bytes, b: Bytes) -> Bytes {
            both(a, b, |a, b| veorq_u8(a, b))
        }

        fn plus(self, a: Bytes, b: Bytes) -> Bytes {
            both(a, b, |a, b| vaddq_u8(a, b))
        }

        fn minus(self, a: Bytes, b: Bytes) -> Bytes {
            both(a, b, |a, b| vsubq_u8(a, b))
        }

        fn right<const BITS: i32>(self, a: Bytes) -> Bytes {
            a.map(|a| vshrq_n_u8::<BITS>(a))
        }

        fn left<const BITS: i32>(self, a: Bytes) -> Bytes {
            a.map(|a| vshlq_n_u8::<BITS>(a))
        }

        fn at_least(self, a: Bytes, least: u8) -> Bytes {
            a.map(|a| vcgeq_u8(a, vdupq_n_u8(least)))
        }

        fn tops(self, a: Bytes) -> u32 {
            let [a, b] = a.map(|a| {
                let ones = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(a)));
                vandq_u8(ones, load(&WEIGHTS))
            });
            let sums = vpaddq_u8(a, b);
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)))
        }

        fn nibbles(self, from: &[u8; 16]) -> Bytes {
            let a = load(from);
            [vandq_u8(a, vdupq_n_u8(15)), vshrq_n_u8::<4>(a)]
        }

        fn put_nibbles(self, a: Bytes, out: &mut [u8; 16]) {
            store(out, vsliq_n_u8::<4>(a[0], a[1]));
        }

        fn nibble_pairs(self, from: &[u8; 16]) -> Bytes {
            let a = load(from);
            let (low, high) = (vandq_u8(a, vdupq_n_u8(15)), vshrq_n_u8::<4>(a));
            [vzip1q_u8(low, high), vzip2q_u8(low, high)]
        }

        fn spread(self, bits: u32) -> Bytes {
            let bits = vreinterpretq_u8_u32(vdupq_n_u32(bits));
            [const { eight_of_each(0) }, const { eight_of_each(2) }]
                .map(|each| vtstq_u8(vqtbl1q_u8(bits, load(&each)), load(&WEIGHTS)))
        }

        fn lookup(self, table: &[i8; 16], index: Bytes) -> Bytes {
            // SAFETY: reads 16 bytes, which need not be aligned.
            let table = unsafe { vreinterpretq_u8_s8(vld1q_s8(table.as_ptr())) };
            index.map(|index| vqtbl1q_u8(table, index))
        }

        fn signed(self, a: Bytes) -> [Floats; 2] {
            a.map(|a| signed(a))
        }

        fn unsigned(self, a: Bytes) -> [Floats; 2] {
            a.map(|a| unsigned(a))
        }

        fn e2m1(self, a: Bytes) -> [Floats; 2] {
            // As `f16` numbers, the values have a lower byte of 0.
            let upper = load(&[
                0, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, 0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2,
                0xc4, 0xc6,
            ]);
            let zero = vdupq_n_u8(0);
            a.map(|a| {
                let upper = vqtbl1q_u8(upper, a);
                floats_of_f16(
                    [vzip1q_u8(zero, upper), vzip2q_u8(zero, upper)].map(|a| vreinterpretq_u16_u8(a)),
                )
            })
        }

        fn e4m3(self, a: Bytes) -> [Floats; 2] {
            let [first, second] =
                a.map(|a| vceqq_u8(vorrq_u8(a, vdupq_n_u8(0x80)), vdupq_n_u8(255)));
            let any = vmaxvq_u8(vorrq_u8(first, second)) != 0;
            a.map(|a| {
                let halves = if any { e4m3_or_nan_as_f16(a) } else { e4m3_as_f16(a) };
                floats_of_f16(halves).map(|a| vmulq_n_f32(a, 256.0))
            })
        }

        fn codes<const BITS: usize, const FIRST: usize>(self, from: &[u8; 16]) -> Floats {
            let all = load(from);
            let codes = if 8 % BITS == 0 {
                let bytes = vqtbl1q_u8(all, load(&const { touched(BITS, FIRST, 1) }));
                let by = &const { distances::<16>(BITS, FIRST) };
                // SAFETY: reads 16 bytes, which need not be aligned.
                vshlq_u8(bytes, unsafe { vld1q_s8(by.as_ptr()) })
            } else {
                let eight = |touched: &[u8; 16], by: &[i8; 8]| {
                    let words = vreinterpretq_u16_u8(vqtbl1q_u8(all, load(touched)));
                    // SAFETY: reads 8 bytes, which need not be aligned.
                    let by = unsafe { vmovl_s8(vld1_s8(by.as_ptr())) };
                    vreinterpretq_u8_u16(vshlq_u16(words, by))
                };
                vuzp1q_u8(
                    eight(&const { touched(BITS, FIRST, 2) }, &const { distances(BITS, FIRST) }),
                    eight(&const { touched(BITS, FIRST + 8, 2) }, &const { distances(BITS, FIRST + 8) }),
                )
            };
            unsigned(vandq_u8(codes, vdupq_n_u8(const { u8::MAX >> (8 - BITS) })))
        }

        fn f32s(self, from: &[u8; 64]) -> Floats {
            // SAFETY: reads 64 bytes, which need not be aligned.
            from_fn(|i| unsafe { vreinterpretq_f32_u8(vld1q_u8(from.as_ptr().add(16 * i))) })
        }

        fn f16s(self, from: &[u8; 32]) -> Floats {
            floats_of_f16(load_two(from).map(|a| vreinterpretq_u16_u8(a)))
        }

        fn bf16s(self, from: &[u8; 32]) -> Floats {
            floats_of_bf16(load_two(from).map(|a| vreinterpretq_u16_u8(a)))
        }

        fn f16(self, bits: u16) -> f32 {
            let half = f32::from_bits(u32::from(bits));
            let value: f32;
            // SAFETY: computes with registers.
            unsafe {
                asm!(
                    "fcvt {value:s}, {half:h}",
                    half = in(vreg) half,
                    value = lateout(vreg) value,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            value
        }

        fn load(self, from: &[f32; 16]) -> Floats {
            // SAFETY: reads 64 bytes behind a reference.
            from_fn(|i| unsafe { vld1q_f32(from.as_ptr().add(4 * i)) })
        }

        fn splat(self, value: f32) -> Floats {
            [vdupq_n_f32(value); 4]
        }

        fn mul(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vmulq_f32(a, b))
        }

        fn add(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vaddq_f32(a, b))
        }

        fn sub(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vsubq_f32(a, b))
        }

        fn fused(self, a: Floats, b: Floats, c: Floats) -> Floats {
            from_fn(|i| vfmaq_f32(c[i], a[i], b[i]))
        }

        fn put_f32<const PAST: bool>(self, a: Floats, out: &mut [f32; 16]) {
            for (i, a) in a.into_iter().enumerate() {
                // SAFETY: writes 64 bytes in total behind a reference.
                unsafe { vst1q_f32(out.as_mut_ptr().add(4 * i), a) }
            }
        }

        fn put_f16<const PAST: bool>(self, a: Floats, out: &mut [f16; 16]) {
            store_halves(out, f16_of_floats(a));
        }

        fn put_entries<const PAST: bool>(self, table: &[u16; 16], codes: Bytes, out: &mut [[u16; 16]; 2]) {
            pack::put_entries(table, codes, out);
        }

        fn look(self, seen: &mut (uint32x4_t, uint32x4_t), a: Floats) {
            let bits = a.map(|a| magnitudes(a));
            let less = bits.map(|bits| vsubq_u32(bits, vdupq_n_u32(1)));
            *seen = (
                vmaxq_u32(seen.0, merged(bits, |a, b| vmaxq_u32(a, b))),
                vminq_u32(seen.1, merged(less, |a, b| vminq_u32(a, b))),
            );
        }

        fn blank(self) -> (uint32x4_t, uint32x4_t) {
            (vdupq_n_u32(0), vdupq_n_u32(u32::MAX))
        }

        fn doubtful(self, seen: (uint32x4_t, uint32x4_t), over: u32, under: u32) -> bool {
            vmaxvq_u32(seen.0) >= over || vminvq_u32(seen.1) < under
        }

        fn div(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vdivq_f32(a, b))
        }

        fn sqrt(self, a: Floats) -> Floats {
            a.map(|a| vsqrtq_f32(a))
        }

        fn magnitude(self, a: Floats) -> Floats {
            a.map(|a| vabsq_f32(a))
        }

        // The instructions for the smaller and the larger number return NaN if one of them is.
        fn least(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vbslq_f32(vcltq_f32(a, b), a, b))
        }

        fn most(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vbslq_f32(vcgtq_f32(a, b), a, b))
        }

        fn below(self, a: Floats, b: Floats) -> Words {
            both(a, b, |a, b| vcltq_f32(a, b))
        }

        fn same(self, a: Floats, b: Floats) -> Words {
            both(a, b, |a, b| vceqq_f32(a, b))
        }

        fn differ(self, a: Floats, b: Floats) -> Words {
            both(a, b, |a, b| vmvnq_u32(vceqq_f32(a, b)))
        }

        fn both(self, a: Words, b: Words) -> Words {
            both(a, b, |a, b| vandq_u32(a, b))
        }

        fn either(self, a: Words, b: Words) -> Words {
            both(a, b, |a, b| vorrq_u32(a, b))
        }

        fn any(self, a: Words) -> bool {
            vmaxvq_u32(merged(a, |a, b| vorrq_u32(a, b))) != 0
        }

        fn all(self, a: Words) -> bool {
            vminvq_u32(merged(a, |a, b| vandq_u32(a, b))) != 0
        }

        fn bits(self, a: Words) -> u32 {
            pack::bits(a)
        }

        fn choose(self, mask: Words, yes: Floats, no: Floats) -> Floats {
            from_fn(|i| vbslq_f32(mask[i], yes[i], no[i]))
        }

        fn nearest(self, a: Floats, low: i32, high: i32) -> Floats {
            a.map(|a| {
                let bits = vreinterpretq_s32_f32(vaddq_f32(a, vdupq_n_f32(12_582_912.0)));
                let number = vandq_s32(bits, vdupq_n_s32(0x7f_ffff));
                let number = vsubq_s32(number, vdupq_n_s32(0x40_0000));
                let number = vminq_s32(vmaxq_s32(number, vdupq_n_s32(low)), vdupq_n_s32(high));
                vcvtq_f32_s32(number)
            })
        }

        fn even(self, a: Floats) -> Floats {
            a.map(|a| vrndnq_f32(a))
        }

        fn whole(self, a: Floats) -> Words {
            a.map(|a| or_minimum(a, vcvtq_s32_f32(a)))
        }

        fn rounded(self, a: Floats) -> Words {
            a.map(|a| or_minimum(a, vcvtaq_s32_f32(a)))
        }

        fn numbers(self, a: Words) -> Floats {
            a.map(|a| vcvtq_f32_s32(vreinterpretq_s32_u32(a)))
        }

        fn to_signed(self, a: [Words; 2]) -> Bytes {
            a.map(|a| pack::signed(a))
        }

        fn at_most(self, a: Words, most: i32) -> Words {
            a.map(|a| {
                let least = vminq_s32(vreinterpretq_s32_u32(a), vdupq_n_s32(most));
                vreinterpretq_u32_s32(least)
            })
        }

        fn cut(self, a: Words, mask: u32) -> Words {
            a.map(|a| vandq_u32(a, vdupq_n_u32(mask)))
        }

        fn join<const BITS: u32>(self, a: Words, b: Words) -> Words {
            let by = vdupq_n_s32(BITS.cast_signed());
            both(a, b, |a, b| vorrq_u32(a, vshlq_u32(b, by)))
        }

        fn down<const BITS: u32>(self, a: Words) -> Words {
            a.map(|a| vshlq_u32(a, vdupq_n_s32(-BITS.cast_signed())))
        }

        fn dots(self, codes: [Bytes; 2], digits: &Digits) -> Words {
            let mut sums = [vdupq_n_s32(0); 4];
            let codes = [codes[0][0], codes[0][1], codes[1][0], codes[1][1]];
            for digits in digits {
                for (quarter, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: reads 16 of 64 bytes.
                    let digits = unsafe { vld1q_s8(digits.as_ptr().add(16 * quarter)) };
                    let codes = vreinterpretq_s8_u8(codes[quarter]);
                    let low = vmull_s8(vget_low_s8(codes), vget_low_s8(digits));
                    // Pairs are at most 2 times 127 times 64.
                    let pairs = vpaddq_s16(low, vmull_high_s8(codes, digits));
                    *sums = vpadalq_s16(vshlq_n_s32::<7>(*sums), pairs);
                }
            }
            sums.map(|sums| vreinterpretq_u32_s32(sums))
        }

        fn entries(self, table: Floats, index: Words) -> Floats {
            let [a, b, c, d] = table.map(|table| vreinterpretq_u8_f32(table));
            let table = uint8x16x4_t(a, b, c, d);
            let index = index.map(|index| vandq_u32(index, vdupq_n_u32(15)));
            index.map(|index| vreinterpretq_f32_u8(vqtbl4q_u8(table, pack::places(index))))
        }

        fn fours(self, table: Floats, index: Words) -> Floats {
            let table = vreinterpretq_u8_f32(table[0]);
            index.map(|index| {
                let index = pack::places(vandq_u32(index, vdupq_n_u32(3)));
                vreinterpretq_f32_u8(vqtbl1q_u8(table, index))
            })
        }

        fn eights(self, table: Floats, index: Words) -> Floats {
            let table = uint8x16x2_t(vreinterpretq_u8_f32(table[0]), vreinterpretq_u8_f32(table[1]));
            index.map(|index| {
                let index = pack::places(vandq_u32(index, vdupq_n_u32(7)));
                vreinterpretq_f32_u8(vqtbl2q_u8(table, index))
            })
        }

        fn transposed(self, rows: [Floats; 16]) -> [Floats; 16] {
            transposed16(rows)
        }

        fn transposed_words(self, rows: [Words; 16]) -> [Words; 16] {
            let rows = rows.map(|row| row.map(|words| vreinterpretq_f32_u32(words)));
            transposed16(rows).map(|row| row.map(|words| vreinterpretq_u32_f32(words)))
        }

        fn load_words(self, from: &[u32; 16]) -> Words {
            // SAFETY: reads 64 bytes in total behind a reference.
            from_fn(|i| unsafe { vld1q_u32(from.as_ptr().add(4 * i)) })
        }

        fn put_words(self, a: Words, out: &mut [u32; 16]) {
            for (i, a) in a.into_iter().enumerate() {
                // SAFETY: writes 64 bytes in total behind a reference.
                unsafe { vst1q_u32(out.as_mut_ptr().add(4 * i), a) }
            }
        }

        fn load_f16(self, from: &[f16; 16]) -> Floats {
            floats_of_f16(load_halves(from))
        }

        fn load_bf16(self, from: &[bf16; 16]) -> Floats {
            floats_of_bf16(load_halves(from))
        }

        fn peak(self, a: Floats, b: Floats) -> Floats {
            both(a, b, |a, b| vreinterpretq_f32_u32(vmaxq_u32(magnitudes(a), magnitudes(b))))
        }

        fn largest(self, a: Floats) -> f32 {
            vmaxvq_f32(merged(a, |a, b| vmaxq_f32(a, b)))
        }

        fn smallest(self, a: Floats) -> f32 {
            vminvq_f32(merged(a, |a, b| vminq_f32(a, b)))
        }

        fn highest(self, a: Floats) -> f32 {
            let bits = a.map(|a| magnitudes(a));
            f32::from_bits(vmaxvq_u32(merged(bits, |a, b| vmaxq_u32(a, b))))
        }

        fn largest_of_each(self, rows: [Floats; 16]) -> Floats {
            let rows = rows.map(|row| merged(row, |a, b| vmaxq_f32(a, b)));
            each_of(rows, |a, b| vpmaxq_f32(a, b))
        }

        fn smallest_of_each(self, rows: [Floats; 16]) -> Floats {
            let rows = rows.map(|row| merged(row, |a, b| vminq_f32(a, b)));
            each_of(rows, |a, b| vpminq_f32(a, b))
        }

        fn highest_of_each(self, rows: [Floats; 16]) -> Floats {
            let rows = rows.map(|row| {
                merged(row.map(|a| magnitudes(a)), |a, b| vmaxq_u32(a, b))
            });
            each_of(rows, |a, b| vpmaxq_u32(a, b)).map(|bits| vreinterpretq_f32_u32(bits))
        }

        fn as_f16(self, a: Floats) -> Floats {
            floats_of_f16(f16_of_floats(a))
        }

        fn as_bf16(self, a: Floats) -> Floats {
            a.map(|a| {
                let rounded = vaddq_u32(nearly_rounded(a), vdupq_n_u32(0x7fff));
                vreinterpretq_f32_u32(vandq_u32(rounded, vdupq_n_u32(0xffff_0000)))
            })
        }

        fn to_unsigned(self, a: [Floats; 2]) -> Bytes {
            a.map(|a| pack::unsigned(a))
        }

        fn to_e2m1(self, a: [Floats; 2]) -> Bytes {
            a.map(|a| pack::e2m1(a))
        }

        fn to_e4m3(self, a: [Floats; 2]) -> Bytes {
            a.map(|a| pack::e4m3(a))
        }

        fn capped(self, a: Bytes, most: u8) -> Bytes {
            a.map(|a| vminq_u8(a, vdupq_n_u8(most)))
        }

        fn signed_capped(self, a: Bytes, most: i8) -> Bytes {
            let least = |a| vminq_s8(vreinterpretq_s8_u8(a), vdupq_n_s8(most));
            a.map(|a| vreinterpretq_u8_s8(least(a)))
        }

        fn stream<const BITS: usize>(self, codes: Bytes, out: &mut [u8; 32]) {
            const { assert!(BITS <= 6 || BITS == 8) };
            let stream = pack::stream::<BITS>(codes);
            let (halves, _) = out.as_chunks_mut::<16>();
            for (out, half) in halves.iter_mut().zip(stream).take(if BITS > 4 { 2 } else { 1 }) {
                store(out, half);
            }
        }
    }

    #[inline(always)]
    fn put_bf16<const PAST: bool>(self, a: Floats, out: &mut [bf16; 16], nan: bool) {
        #[inline]
        #[target_feature(enable = "neon,bf16")]
        fn rounded(a: Floats, out: &mut [bf16; 16]) {
            store_halves(out, bf16_of_floats(a));
        }
        // SAFETY: a value of this type exists only if the processor has NEON, and BF16 if it says
        // so.
        unsafe { if BF16 { rounded(a, out) } else { put_bf16(a, out, nan) } }
    }

    #[inline(always)]
    fn fence(self) {}
}
