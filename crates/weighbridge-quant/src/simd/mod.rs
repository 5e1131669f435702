//! The SIMD operations in which decoders and quantizers are written: 32 bytes at a time, or 16
//! floats or words.
//!
//! A codec is one body, generic over [`Simd`], and is compiled once for each instruction set.
//! [`Portable`] defines the meaning of each operation, and runs on processors that are neither
//! 64-bit ARM nor x86-64 with AVX2 and F16C.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use half::{bf16, f16};

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::Neon;
pub(super) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{Avx2, Avx512};

/// Declares methods whose bodies may use an instruction set. They are called through functions
/// compiled for it, which are inlined into kernels compiled for it.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
macro_rules! instructions {
    ($features:literal: $(
        fn $name:ident $(<$(const $generic:ident: $kind:ty),+>)? (self $(, $arg:ident: $type:ty)*) $(-> $result:ty)? $body:block
    )*) => {$(
        #[inline(always)]
        fn $name $(<$(const $generic: $kind),+>)? (self $(, $arg: $type)*) $(-> $result)? {
            #[inline]
            #[target_feature(enable = $features)]
            fn inner $(<$(const $generic: $kind),+>)? ($($arg: $type),*) $(-> $result)? $body
            // SAFETY: a value of this type exists only if the processor has these features.
            unsafe { inner $(::<$($generic),+>)? ($($arg),*) }
        }
    )*};
}

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
use instructions;

/// 64 numbers in three digits of seven bits, from -64 to 64, the highest first.
pub(super) type Digits = [[i8; 64]; 3];

/// The operations of one instruction set. A value of the type proves that the processor supports
/// it.
///
/// Floats are multiplied and added one operation at a time, each rounded. Only
/// [`fused`](Self::fused) and [`add_product`](Self::add_product) round once.
pub(super) trait Simd: Copy {
    /// 32 bytes.
    type Bytes: Copy;
    /// 16 floats.
    type Floats: Copy;
    /// The magnitudes that [`look`](Self::look) has recorded.
    type Magnitudes: Copy;
    /// 16 numbers of 32 bits.
    type Words: Copy;
    /// 16 booleans.
    type Mask: Copy;

    /// Whether it has streaming stores, which bypass the cache.
    const STREAMS: bool;
    /// Whether 16 floats are one register, of which there are at least 32.
    const IS_WIDE: bool;
    /// Whether hardly any processor of this kind has to make do with it, so that its code should be small
    /// before it is fast.
    const IS_FALLBACK: bool = false;

    /// Asks for the memory a little behind some bytes, before it is read: the processor by itself does
    /// not look beyond the end of a page, and looks less far while it writes with streaming stores.
    #[inline(always)]
    fn fetch_behind(self, _bytes: &[u8]) {}

    fn bytes(self, from: &[u8; 32]) -> Self::Bytes;
    /// Joins two times 16 bytes.
    fn halves(self, low: &[u8; 16], high: &[u8; 16]) -> Self::Bytes;
    fn words(self, words: [u64; 4]) -> Self::Bytes;
    fn fill(self, byte: u8) -> Self::Bytes;
    fn and(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    fn xor(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Sums, modulo 256.
    fn plus(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Differences, modulo 256.
    fn minus(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Shifts each byte to the right.
    fn right<const BITS: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// Shifts each byte to the left.
    fn left<const BITS: i32>(self, a: Self::Bytes) -> Self::Bytes;
    /// 255 where an unsigned byte is at least `least`, 0 elsewhere.
    fn at_least(self, a: Self::Bytes, least: u8) -> Self::Bytes;
    /// The top bit of each byte, the first lowest: the inverse of [`spread`](Self::spread).
    fn tops(self, a: Self::Bytes) -> u32;
    /// The low nibbles, then the high nibbles.
    fn nibbles(self, from: &[u8; 16]) -> Self::Bytes;
    /// The inverse of [`nibbles`](Self::nibbles); all bytes must be less than 16.
    fn put_nibbles(self, a: Self::Bytes, out: &mut [u8; 16]);
    /// The low nibble of each byte, then its high nibble.
    fn nibble_pairs(self, from: &[u8; 16]) -> Self::Bytes;
    /// 255 for each bit that is set, the lowest first, and 0 for the others.
    fn spread(self, bits: u32) -> Self::Bytes;
    /// The table entry for each byte; all bytes must be less than 16.
    fn lookup(self, table: &[i8; 16], index: Self::Bytes) -> Self::Bytes;

    /// Converts signed bytes to floats.
    fn signed(self, a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts unsigned bytes to floats.
    fn unsigned(self, a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts bytes, all less than 16, from E2M1 to floats.
    fn e2m1(self, a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts bytes from E4M3 to floats.
    fn e4m3(self, a: Self::Bytes) -> [Self::Floats; 2];
    /// Converts 16 codes of a bit stream, lowest bits first, from position `FIRST`, to floats.
    fn codes<const BITS: usize, const FIRST: usize>(self, from: &[u8; 16]) -> Self::Floats;
    fn f32s(self, from: &[u8; 64]) -> Self::Floats;
    fn f16s(self, from: &[u8; 32]) -> Self::Floats;
    fn bf16s(self, from: &[u8; 32]) -> Self::Floats;
    /// Converts one number of half precision.
    fn f16(self, bits: u16) -> f32;
    fn load(self, from: &[f32; 16]) -> Self::Floats;
    fn splat(self, value: f32) -> Self::Floats;
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn add(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn sub(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`, rounded once.
    fn fused(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// `a * b + c`, for products that `f32` can represent: it makes no difference whether they are
    /// rounded.
    #[inline(always)]
    fn add_product(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        if Self::IS_FALLBACK { self.add(self.mul(a, b), c) } else { self.fused(a, b, c) }
    }

    /// Writes floats unchanged. With `PAST`, it uses streaming stores if `out` is aligned to the
    /// register size; [`fence`](Self::fence) must follow before another thread may read the values.
    fn put_f32<const PAST: bool>(self, a: Self::Floats, out: &mut [f32; 16]);
    /// Writes floats rounded to nearest, ties to even; see [`put_f32`](Self::put_f32).
    fn put_f16<const PAST: bool>(self, a: Self::Floats, out: &mut [f16; 16]);
    /// Writes floats rounded to nearest, ties to even; see [`put_f32`](Self::put_f32). None of them may
    /// be NaN or subnormal unless `nan` says so.
    fn put_bf16<const PAST: bool>(self, a: Self::Floats, out: &mut [bf16; 16], nan: bool);
    /// Like [`put_bf16`](Self::put_bf16), for twice as many floats.
    #[inline(always)]
    fn pair_bf16<const PAST: bool>(
        self,
        a: [Self::Floats; 2],
        out: &mut [[bf16; 16]; 2],
        nan: bool,
    ) {
        for (a, out) in a.iter().zip(out) {
            self.put_bf16::<PAST>(*a, out, nan);
        }
    }
    /// Writes the entry of a table for each of 32 codes, which must be less than 16; see
    /// [`put_f32`](Self::put_f32).
    fn put_entries<const PAST: bool>(
        self,
        table: &[u16; 16],
        codes: Self::Bytes,
        out: &mut [[u16; 16]; 2],
    );
    /// Makes the values of streaming stores visible to other threads.
    fn fence(self);

    /// The initial state, with nothing seen.
    fn blank(self) -> Self::Magnitudes;
    /// Records magnitudes.
    fn look(self, seen: &mut Self::Magnitudes, a: Self::Floats);
    /// Whether a magnitude had bits of at least `over`, or bits from 1 to `under`.
    fn doubtful(self, seen: Self::Magnitudes, over: u32, under: u32) -> bool;

    fn div(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn sqrt(self, a: Self::Floats) -> Self::Floats;
    fn magnitude(self, a: Self::Floats) -> Self::Floats;
    /// a if it is less than b, else b: b if one of them is NaN.
    fn least(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// a if it is more than b, else b: b if one of them is NaN.
    fn most(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    fn below(self, a: Self::Floats, b: Self::Floats) -> Self::Mask;
    fn same(self, a: Self::Floats, b: Self::Floats) -> Self::Mask;
    /// The opposite of [`same`](Self::same): NaN differs from everything.
    fn differ(self, a: Self::Floats, b: Self::Floats) -> Self::Mask;
    fn both(self, a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn either(self, a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn any(self, a: Self::Mask) -> bool;
    fn all(self, a: Self::Mask) -> bool;
    /// A bit for each boolean, the first lowest.
    fn bits(self, a: Self::Mask) -> u32;
    fn choose(self, mask: Self::Mask, yes: Self::Floats, no: Self::Floats) -> Self::Floats;
    /// Rounds to integers, ties to even, limited to the bounds: 2^23 + 2^22 is added, and the bits
    /// of the fraction are the number. The result for NaN and for magnitudes from 2^22 on is the
    /// same on every processor.
    fn nearest(self, a: Self::Floats, low: i32, high: i32) -> Self::Floats;
    /// Rounds magnitudes below 2^22 to integers, ties to even; 0 may have either sign.
    fn even(self, a: Self::Floats) -> Self::Floats;
    /// Rounds towards 0. Values outside of `i32` become its minimum.
    fn whole(self, a: Self::Floats) -> Self::Words;
    /// Rounds to nearest, ties away from 0; see [`whole`](Self::whole).
    fn rounded(self, a: Self::Floats) -> Self::Words;
    /// Converts signed numbers to floats.
    fn numbers(self, a: Self::Words) -> Self::Floats;
    /// Converts signed numbers to signed bytes, limited to their range.
    fn to_signed(self, a: [Self::Words; 2]) -> Self::Bytes;
    /// Limits signed numbers to `most`.
    fn at_most(self, a: Self::Words, most: i32) -> Self::Words;
    /// Keeps the bits that are set in `mask`.
    fn cut(self, a: Self::Words, mask: u32) -> Self::Words;
    /// The bits of a, joined with those of b shifted to the left.
    fn join<const BITS: u32>(self, a: Self::Words, b: Self::Words) -> Self::Words;
    /// Shifts to the right.
    fn down<const BITS: u32>(self, a: Self::Words) -> Self::Words;
    /// The table entry for the lowest four bits of each word.
    fn entries(self, table: Self::Floats, index: Self::Words) -> Self::Floats;
    /// The sums of each four products of 64 codes, less than 128, with numbers in three digits.
    fn dots(self, codes: [Self::Bytes; 2], digits: &Digits) -> Self::Words;
    /// Extends unsigned bytes to words.
    fn wide(self, from: &[u8; 16]) -> Self::Words {
        self.load_words(&from.map(u32::from))
    }
    /// A boolean for each bit, the lowest first: the inverse of [`bits`](Self::bits).
    fn mask(self, bits: u16) -> Self::Mask {
        let set = std::array::from_fn(|lane| f32::from(bits >> lane & 1));
        self.differ(self.load(&set), self.splat(0.0))
    }
    /// The table entry for the lowest two bits of each word. The table has 4 entries, four times.
    fn fours(self, table: Self::Floats, index: Self::Words) -> Self::Floats;
    /// The table entry for the lowest three bits of each word. The table has 8 entries, twice.
    fn eights(self, table: Self::Floats, index: Self::Words) -> Self::Floats;
    /// Transposes a 16 by 16 matrix.
    fn transposed(self, rows: [Self::Floats; 16]) -> [Self::Floats; 16];
    /// Like [`transposed`](Self::transposed).
    fn transposed_words(self, rows: [Self::Words; 16]) -> [Self::Words; 16];
    fn load_words(self, from: &[u32; 16]) -> Self::Words;
    fn put_words(self, a: Self::Words, out: &mut [u32; 16]);

    fn load_f16(self, from: &[f16; 16]) -> Self::Floats;
    fn load_bf16(self, from: &[bf16; 16]) -> Self::Floats;
    /// The larger magnitude of each two; that of NaN is larger than infinity.
    fn peak(self, a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// The largest of 16 numbers, none of them NaN; of zeros, either.
    fn largest(self, a: Self::Floats) -> f32;
    /// The smallest of 16 numbers, none of them NaN; of zeros, either.
    fn smallest(self, a: Self::Floats) -> f32;
    /// The largest magnitude of 16 numbers; that of NaN is larger than infinity.
    fn highest(self, a: Self::Floats) -> f32;
    /// [`largest`](Self::largest) of each row.
    fn largest_of_each(self, rows: [Self::Floats; 16]) -> Self::Floats;
    /// [`smallest`](Self::smallest) of each row.
    fn smallest_of_each(self, rows: [Self::Floats; 16]) -> Self::Floats;
    /// [`highest`](Self::highest) of each row.
    fn highest_of_each(self, rows: [Self::Floats; 16]) -> Self::Floats;
    /// Rounds to half precision: to nearest, ties to even.
    fn as_f16(self, a: Self::Floats) -> Self::Floats;
    /// Rounds to `bf16`: to nearest, ties to even. None of them may be NaN.
    fn as_bf16(self, a: Self::Floats) -> Self::Floats;
    /// Converts floats to unsigned bytes: to nearest, ties to even, limited to 0 and 255; values
    /// outside of `i32` become 0.
    fn to_unsigned(self, a: [Self::Floats; 2]) -> Self::Bytes;
    /// Converts floats to E2M1 codes; see [`to_e2m1`](super::float::to_e2m1).
    fn to_e2m1(self, a: [Self::Floats; 2]) -> Self::Bytes;
    /// Converts floats to E4M3 codes; see [`to_e4m3`](super::float::to_e4m3).
    fn to_e4m3(self, a: [Self::Floats; 2]) -> Self::Bytes;
    /// Limits bytes to `most`.
    fn capped(self, a: Self::Bytes, most: u8) -> Self::Bytes;
    /// Limits signed bytes to `most`.
    fn signed_capped(self, a: Self::Bytes, most: i8) -> Self::Bytes;
    /// Packs 32 codes into a bit stream, lowest bits first: 4 `BITS` bytes. The bytes after them
    /// may become anything. There are no codes of seven bits.
    fn stream<const BITS: usize>(self, codes: Self::Bytes, out: &mut [u8; 32]);
}
