//! Plain Rust for every processor. It defines the meaning of each operation.
//!
//! Operations that take many instructions are calls. On x86-64 and ARM nearly all operations are: only
//! x86-64 processors from before AVX2 run this code there, and compiling loops over 16 elements inside of
//! every kernel took longer than compiling the kernels of all other instruction sets.

use std::array::from_fn;

use half::{bf16, f16};

use super::super::float;
use super::{Digits, Simd};

/// Uses no instructions beyond those that the program was compiled for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Portable;

#[inline(always)]
fn two(value: impl Fn(usize) -> f32) -> [[f32; 16]; 2] {
    [from_fn(&value), from_fn(|i| value(i + 16))]
}

/// Declares operations that are calls on processors that have kernels of their own.
macro_rules! operations {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident $(<$(const $generic:ident: $kind:ty),+>)? ($($arguments:tt)*) $(-> $result:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[cfg_attr(any(target_arch = "aarch64", target_arch = "x86_64"), inline(never))]
        #[cfg_attr(not(any(target_arch = "aarch64", target_arch = "x86_64")), inline(always))]
        fn $name $(<$(const $generic: $kind),+>)? ($($arguments)*) $(-> $result)? $body
    )*};
}

impl Simd for Portable {
    type Bytes = [u8; 32];
    type Floats = [f32; 16];
    /// The largest magnitude, and the smallest nonzero magnitude minus one.
    type Magnitudes = (u32, u32);
    type Words = [u32; 16];
    type Mask = [bool; 16];

    const STREAMS: bool = false;
    const IS_WIDE: bool = false;
    const IS_FALLBACK: bool = cfg!(any(target_arch = "aarch64", target_arch = "x86_64"));

    #[inline(always)]
    fn bytes(self, from: &[u8; 32]) -> [u8; 32] {
        *from
    }

    #[inline(always)]
    fn fill(self, byte: u8) -> [u8; 32] {
        [byte; 32]
    }

    #[inline(always)]
    fn f32s(self, from: &[u8; 64]) -> [f32; 16] {
        from_fn(|i| f32::from_le_bytes(from_fn(|j| from[4 * i + j])))
    }

    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> [f32; 16] {
        *from
    }

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 16] {
        [value; 16]
    }

    #[inline(always)]
    fn put_f32<const PAST: bool>(self, a: [f32; 16], out: &mut [f32; 16]) {
        *out = a;
    }

    #[inline(always)]
    fn fence(self) {}

    #[inline(always)]
    fn blank(self) -> (u32, u32) {
        (0, u32::MAX)
    }

    #[inline(always)]
    fn doubtful(self, (largest, smallest): (u32, u32), over: u32, under: u32) -> bool {
        largest >= over || smallest < under
    }

    #[inline(always)]
    fn load_words(self, from: &[u32; 16]) -> [u32; 16] {
        *from
    }

    #[inline(always)]
    fn put_words(self, a: [u32; 16], out: &mut [u32; 16]) {
        *out = a;
    }

    #[inline(never)]
    fn f16s(self, from: &[u8; 32]) -> [f32; 16] {
        from_fn(|i| f16::from_le_bytes([from[2 * i], from[2 * i + 1]]).to_f32())
    }

    #[inline(never)]
    fn put_f16<const PAST: bool>(self, a: [f32; 16], out: &mut [f16; 16]) {
        *out = a.map(f16::from_f32);
    }

    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit is told apart")]
    fn whole(self, a: [f32; 16]) -> [u32; 16] {
        let fits = |a: f32| (-2_147_483_648.0..2_147_483_648.0).contains(&a);
        a.map(|a| if fits(a) { a as i32 } else { i32::MIN }.cast_unsigned())
    }

    #[inline(never)]
    fn rounded(self, a: [f32; 16]) -> [u32; 16] {
        self.whole(a.map(f32::round))
    }

    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "-128 to 127")]
    fn to_signed(self, [a, b]: [[u32; 16]; 2]) -> [u8; 32] {
        from_fn(|i| {
            let number = if i < 16 { a[i] } else { b[i - 16] }.cast_signed();
            (number.clamp(-128, 127) as i8).cast_unsigned()
        })
    }

    #[inline(never)]
    fn transposed(self, rows: [[f32; 16]; 16]) -> [[f32; 16]; 16] {
        from_fn(|column| from_fn(|row| rows[row][column]))
    }

    #[inline(never)]
    fn transposed_words(self, rows: [[u32; 16]; 16]) -> [[u32; 16]; 16] {
        from_fn(|column| from_fn(|row| rows[row][column]))
    }

    #[inline(never)]
    fn load_f16(self, from: &[f16; 16]) -> [f32; 16] {
        from.map(f16::to_f32)
    }

    #[inline(never)]
    fn largest_of_each(self, rows: [[f32; 16]; 16]) -> [f32; 16] {
        rows.map(|row| self.largest(row))
    }

    #[inline(never)]
    fn smallest_of_each(self, rows: [[f32; 16]; 16]) -> [f32; 16] {
        rows.map(|row| self.smallest(row))
    }

    #[inline(never)]
    fn highest_of_each(self, rows: [[f32; 16]; 16]) -> [f32; 16] {
        rows.map(|row| self.highest(row))
    }

    #[inline(never)]
    fn as_f16(self, a: [f32; 16]) -> [f32; 16] {
        a.map(|value| f16::from_f32(value).to_f32())
    }

    #[inline(never)]
    fn as_bf16(self, a: [f32; 16]) -> [f32; 16] {
        a.map(|value| bf16::from_f32(value).to_f32())
    }

    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    fn to_unsigned(self, [a, b]: [[f32; 16]; 2]) -> [u8; 32] {
        from_fn(|i| {
            let value = if i < 16 { a[i] } else { b[i - 16] };
            if value < 2_147_483_648.0 {
                value.round_ties_even().clamp(0.0, 255.0) as u8
            } else {
                0
            }
        })
    }

    #[inline(never)]
    fn to_e2m1(self, [a, b]: [[f32; 16]; 2]) -> [u8; 32] {
        from_fn(|i| float::to_e2m1(if i < 16 { a[i] } else { b[i - 16] }))
    }

    #[inline(never)]
    fn to_e4m3(self, [a, b]: [[f32; 16]; 2]) -> [u8; 32] {
        from_fn(|i| float::to_e4m3(if i < 16 { a[i] } else { b[i - 16] }))
    }

    #[inline(never)]
    fn stream<const BITS: usize>(self, codes: [u8; 32], out: &mut [u8; 32]) {
        for (eight, codes) in codes.as_chunks::<8>().0.iter().enumerate() {
            let bits = codes.iter().rev().fold(0, |bits, code| bits << BITS | u64::from(*code));
            out[eight * BITS..][..BITS].copy_from_slice(&bits.to_le_bytes()[..BITS]);
        }
    }

    operations! {
        fn halves(self, low: &[u8; 16], high: &[u8; 16]) -> [u8; 32] {
            from_fn(|i| if i < 16 { low[i] } else { high[i - 16] })
        }

        fn words(self, words: [u64; 4]) -> [u8; 32] {
            let words = words.map(u64::to_le_bytes);
            from_fn(|i| words[i / 8][i % 8])
        }

        fn and(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
            from_fn(|i| a[i] & b[i])
        }

        fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
            from_fn(|i| a[i] | b[i])
        }

        fn xor(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
            from_fn(|i| a[i] ^ b[i])
        }

        fn plus(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
            from_fn(|i| a[i].wrapping_add(b[i]))
        }

        fn minus(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
            from_fn(|i| a[i].wrapping_sub(b[i]))
        }

        fn right<const BITS: i32>(self, a: [u8; 32]) -> [u8; 32] {
            a.map(|byte| byte >> BITS)
        }

        fn left<const BITS: i32>(self, a: [u8; 32]) -> [u8; 32] {
            a.map(|byte| byte << BITS)
        }

        fn at_least(self, a: [u8; 32], least: u8) -> [u8; 32] {
            a.map(|byte| if byte >= least { 255 } else { 0 })
        }

        fn tops(self, a: [u8; 32]) -> u32 {
            a.iter().rev().fold(0, |bits, byte| bits << 1 | u32::from(byte >> 7))
        }

        fn nibbles(self, from: &[u8; 16]) -> [u8; 32] {
            from_fn(|i| if i < 16 { from[i] & 15 } else { from[i - 16] >> 4 })
        }

        fn put_nibbles(self, a: [u8; 32], out: &mut [u8; 16]) {
            *out = from_fn(|i| a[i] | a[i + 16] << 4);
        }

        fn nibble_pairs(self, from: &[u8; 16]) -> [u8; 32] {
            from_fn(|i| (from[i / 2] >> (i % 2 * 4)) & 15)
        }

        fn spread(self, bits: u32) -> [u8; 32] {
            from_fn(|i| if bits >> i & 1 == 1 { 255 } else { 0 })
        }

        fn lookup(self, table: &[i8; 16], index: [u8; 32]) -> [u8; 32] {
            index.map(|index| table[usize::from(index & 15)].cast_unsigned())
        }

        fn signed(self, a: [u8; 32]) -> [[f32; 16]; 2] {
            two(|i| f32::from(a[i].cast_signed()))
        }

        fn unsigned(self, a: [u8; 32]) -> [[f32; 16]; 2] {
            two(|i| f32::from(a[i]))
        }

        fn e2m1(self, a: [u8; 32]) -> [[f32; 16]; 2] {
            two(|i| float::E2M1[usize::from(a[i] & 15)])
        }

        fn e4m3(self, a: [u8; 32]) -> [[f32; 16]; 2] {
            two(|i| float::E4M3[usize::from(a[i])])
        }

        #[expect(clippy::cast_precision_loss, reason = "at most 8 bits")]
        fn codes<const BITS: usize, const FIRST: usize>(self, from: &[u8; 16]) -> [f32; 16] {
            let stream = u128::from_le_bytes(*from);
            from_fn(|i| (stream >> ((FIRST + i) * BITS) & ((1 << BITS) - 1)) as f32)
        }

        fn bf16s(self, from: &[u8; 32]) -> [f32; 16] {
            from_fn(|i| float::bf16([from[2 * i], from[2 * i + 1]]))
        }

        fn f16(self, bits: u16) -> f32 {
            f16::from_bits(bits).to_f32()
        }

        fn mul(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| a[i] * b[i])
        }

        fn add(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| a[i] + b[i])
        }

        fn fused(self, a: [f32; 16], b: [f32; 16], c: [f32; 16]) -> [f32; 16] {
            from_fn(|i| a[i].mul_add(b[i], c[i]))
        }

        fn sub(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| a[i] - b[i])
        }

        fn put_bf16<const PAST: bool>(self, a: [f32; 16], out: &mut [bf16; 16], _: bool) {
            *out = a.map(bf16::from_f32);
        }

        fn put_entries<const PAST: bool>(self, table: &[u16; 16], codes: [u8; 32], out: &mut [[u16; 16]; 2]) {
            for (out, code) in out.as_flattened_mut().iter_mut().zip(codes) {
                *out = table[usize::from(code & 15)];
            }
        }

        fn look(self, seen: &mut (u32, u32), a: [f32; 16]) {
            for magnitude in a.map(|value| value.abs().to_bits()) {
                *seen = (seen.0.max(magnitude), seen.1.min(magnitude.wrapping_sub(1)));
            }
        }

        fn div(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| a[i] / b[i])
        }

        fn sqrt(self, a: [f32; 16]) -> [f32; 16] {
            a.map(f32::sqrt)
        }

        fn magnitude(self, a: [f32; 16]) -> [f32; 16] {
            a.map(f32::abs)
        }

        fn least(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
        }

        fn most(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
        }

        fn below(self, a: [f32; 16], b: [f32; 16]) -> [bool; 16] {
            from_fn(|i| a[i] < b[i])
        }

        #[expect(clippy::float_cmp, reason = "what it is for")]
        fn same(self, a: [f32; 16], b: [f32; 16]) -> [bool; 16] {
            from_fn(|i| a[i] == b[i])
        }

        #[expect(clippy::float_cmp, reason = "what it is for")]
        fn differ(self, a: [f32; 16], b: [f32; 16]) -> [bool; 16] {
            from_fn(|i| a[i] != b[i])
        }

        fn both(self, a: [bool; 16], b: [bool; 16]) -> [bool; 16] {
            from_fn(|i| a[i] && b[i])
        }

        fn either(self, a: [bool; 16], b: [bool; 16]) -> [bool; 16] {
            from_fn(|i| a[i] || b[i])
        }

        fn any(self, a: [bool; 16]) -> bool {
            a.contains(&true)
        }

        fn all(self, a: [bool; 16]) -> bool {
            a == [true; 16]
        }

        fn bits(self, a: [bool; 16]) -> u32 {
            a.iter().rev().fold(0, |bits, set| bits << 1 | u32::from(*set))
        }

        fn choose(self, mask: [bool; 16], yes: [f32; 16], no: [f32; 16]) -> [f32; 16] {
            from_fn(|i| if mask[i] { yes[i] } else { no[i] })
        }

        fn nearest(self, a: [f32; 16], low: i32, high: i32) -> [f32; 16] {
            let number = |a: f32| ((a + 12_582_912.0).to_bits() & 0x7f_ffff).cast_signed() - 0x40_0000;
            self.numbers(a.map(|a| number(a).max(low).min(high).cast_unsigned()))
        }

        fn even(self, a: [f32; 16]) -> [f32; 16] {
            a.map(|a| (a + 12_582_912.0) - 12_582_912.0)
        }

        #[expect(clippy::cast_precision_loss, reason = "rounds, as instructions do")]
        fn numbers(self, a: [u32; 16]) -> [f32; 16] {
            a.map(|a| a.cast_signed() as f32)
        }

        fn at_most(self, a: [u32; 16], most: i32) -> [u32; 16] {
            a.map(|a| a.cast_signed().min(most).cast_unsigned())
        }

        fn cut(self, a: [u32; 16], mask: u32) -> [u32; 16] {
            a.map(|a| a & mask)
        }

        fn join<const BITS: u32>(self, a: [u32; 16], b: [u32; 16]) -> [u32; 16] {
            from_fn(|i| a[i] | b[i] << BITS)
        }

        fn down<const BITS: u32>(self, a: [u32; 16]) -> [u32; 16] {
            a.map(|a| a >> BITS)
        }

        fn entries(self, table: [f32; 16], index: [u32; 16]) -> [f32; 16] {
            index.map(|index| table[index as usize & 15])
        }

        fn dots(self, codes: [[u8; 32]; 2], digits: &Digits) -> [u32; 16] {
            let codes = codes.as_flattened();
            from_fn(|lane| {
                let four = 4 * lane..4 * lane + 4;
                let sum = |digits: &[i8; 64]| -> i32 {
                    let pairs = codes[four.clone()].iter().zip(&digits[four.clone()]);
                    pairs.map(|(code, digit)| i32::from(*code) * i32::from(*digit)).sum()
                };
                let [high, middle, low] = digits.each_ref().map(sum);
                ((((high << 7) + middle) << 7) + low).cast_unsigned()
            })
        }

        fn fours(self, table: [f32; 16], index: [u32; 16]) -> [f32; 16] {
            index.map(|index| table[index as usize & 3])
        }

        fn eights(self, table: [f32; 16], index: [u32; 16]) -> [f32; 16] {
            index.map(|index| table[index as usize & 7])
        }

        fn load_bf16(self, from: &[bf16; 16]) -> [f32; 16] {
            from.map(|value| f32::from_bits(u32::from(value.to_bits()) << 16))
        }

        fn peak(self, a: [f32; 16], b: [f32; 16]) -> [f32; 16] {
            from_fn(|i| f32::from_bits(a[i].abs().to_bits().max(b[i].abs().to_bits())))
        }

        fn largest(self, a: [f32; 16]) -> f32 {
            a.into_iter().fold(f32::NEG_INFINITY, f32::max)
        }

        fn smallest(self, a: [f32; 16]) -> f32 {
            a.into_iter().fold(f32::INFINITY, f32::min)
        }

        fn highest(self, a: [f32; 16]) -> f32 {
            f32::from_bits(a.into_iter().fold(0, |most, value| most.max(value.abs().to_bits())))
        }

        fn capped(self, a: [u8; 32], most: u8) -> [u8; 32] {
            a.map(|byte| byte.min(most))
        }

        fn signed_capped(self, a: [u8; 32], most: i8) -> [u8; 32] {
            a.map(|byte| byte.cast_signed().min(most).cast_unsigned())
        }
    }
}
