//! Tests each operation by itself: every instruction set gives the same result as
//! [`Portable`](super::Portable).

#![allow(clippy::cast_possible_truncation, reason = "parts of random numbers")]

use std::array::from_fn;
use std::collections::{BTreeMap, BTreeSet};

use half::{bf16, f16};

use super::super::kernel::{Isa, KernelBody, KernelSignature, Kernels};
use super::Simd;

/// The arguments of operations.
struct Input {
    bytes: [[u8; 32]; 2],
    floats: [[f32; 16]; 16],
    words: [[u32; 16]; 16],
}

/// Calls operations, and records the result of each.
struct Calls;

impl KernelSignature for Calls {
    type Input<'a> = &'a Input;
    type Output = Vec<(&'static str, Vec<u32>)>;
}

struct All;

impl KernelBody<Calls> for All {
    #[inline(always)]
    fn run<S: Simd>(simd: S, input: &Input) -> Vec<(&'static str, Vec<u32>)> {
        let mut found = Found { simd, list: Vec::new() };
        found.loads(input);
        found.bytes_to_bytes(input);
        found.bytes_to_floats(input);
        found.arithmetic(input);
        found.comparisons(input);
        found.words_of(input);
        found.narrowed(input);
        found.summaries(input);
        found.list
    }
}

const CALLS: Kernels<Calls> = Kernels::of::<All>();

/// A buffer that is one number longer than the result.
#[repr(align(64))]
struct Room<T, const LEN: usize>([T; LEN]);

/// The bits of a number, with all NaN equal.
fn bits(value: f32) -> u32 {
    if value.is_nan() { u32::MAX } else { value.to_bits() }
}

fn half_bits(value: f16) -> u32 {
    if value.is_nan() { u32::MAX } else { value.to_bits().into() }
}

fn bf16_bits(value: bf16) -> u32 {
    if value.is_nan() { u32::MAX } else { value.to_bits().into() }
}

struct Found<S> {
    simd: S,
    list: Vec<(&'static str, Vec<u32>)>,
}

#[allow(clippy::inline_always, reason = "as in kernels")]
impl<S: Simd> Found<S> {
    #[inline(always)]
    fn bytes(&mut self, name: &'static str, a: S::Bytes) {
        let mut out = [0; 32];
        self.simd.stream::<8>(a, &mut out);
        self.list.push((name, out.map(u32::from).to_vec()));
    }

    #[inline(always)]
    fn floats(&mut self, name: &'static str, a: S::Floats) {
        let mut out = [0.0; 16];
        self.simd.put_f32::<false>(a, &mut out);
        self.list.push((name, out.map(bits).to_vec()));
    }

    #[inline(always)]
    fn both(&mut self, name: &'static str, a: [S::Floats; 2]) {
        a.into_iter().for_each(|a| self.floats(name, a));
    }

    #[inline(always)]
    fn words(&mut self, name: &'static str, a: S::Words) {
        let mut out = [0; 16];
        self.simd.put_words(a, &mut out);
        self.list.push((name, out.to_vec()));
    }

    #[inline(always)]
    fn mask(&mut self, name: &'static str, a: S::Mask) {
        let [yes, no] = [1.0, 0.0].map(|value| self.simd.splat(value));
        self.floats(name, self.simd.choose(a, yes, no));
    }

    fn number(&mut self, name: &'static str, number: u32) {
        self.list.push((name, vec![number]));
    }

    /// Words with any bits.
    #[inline(always)]
    fn made(&self, words: &[u32; 16]) -> S::Words {
        let simd = self.simd;
        let half = |by| simd.whole(simd.load(&words.map(|word| f32::from((word >> by) as u16))));
        simd.join::<16>(half(0), half(16))
    }

    #[inline(always)]
    fn loads(&mut self, input: &Input) {
        let simd = self.simd;
        let [bytes, others] = &input.bytes;
        let (low, high) = (bytes.first_chunk().unwrap(), bytes.last_chunk().unwrap());
        let eights = others.as_chunks().0;
        self.bytes("bytes", simd.bytes(bytes));
        self.bytes("halves", simd.halves(high, low));
        self.bytes("words", simd.words(from_fn(|i| u64::from_le_bytes(eights[i]))));
        self.bytes("fill", simd.fill(bytes[0]));
        self.bytes("nibbles", simd.nibbles(low));
        self.bytes("nibble_pairs", simd.nibble_pairs(high));
        self.bytes("spread", simd.spread(input.words[0][0]));
        self.floats("f32s", simd.f32s(&from_fn(|i| input.bytes[i / 32][i % 32])));
        self.floats("f16s", simd.f16s(bytes));
        self.floats("bf16s", simd.bf16s(bytes));
        self.floats("load", simd.load(&input.floats[0]));
        self.floats("splat", simd.splat(input.floats[0][0]));
        let halves: &[u16; 16] = &from_fn(|i| input.words[1][i] as u16);
        self.floats("load_f16", simd.load_f16(&halves.map(f16::from_bits)));
        self.floats("load_bf16", simd.load_bf16(&halves.map(bf16::from_bits)));
        halves.iter().for_each(|half| self.number("f16", bits(simd.f16(*half))));
        self.codes_at::<1, 0, 16, 32, 48>(low);
        self.codes_at::<1, 64, 80, 96, 112>(low);
        self.codes_at::<2, 0, 16, 32, 48>(low);
        self.codes_at::<3, 0, 8, 16, 24>(low);
        self.codes_at::<4, 0, 8, 16, 16>(low);
        self.codes_at::<5, 0, 1, 8, 9>(low);
        self.codes_at::<6, 0, 1, 4, 5>(low);
        self.codes_at::<7, 0, 1, 2, 2>(low);
        self.codes_at::<8, 0, 0, 0, 0>(low);
    }

    #[inline(always)]
    fn codes_at<
        const BITS: usize,
        const A: usize,
        const B: usize,
        const C: usize,
        const D: usize,
    >(
        &mut self,
        from: &[u8; 16],
    ) {
        self.floats("codes", self.simd.codes::<BITS, A>(from));
        self.floats("codes", self.simd.codes::<BITS, B>(from));
        self.floats("codes", self.simd.codes::<BITS, C>(from));
        self.floats("codes", self.simd.codes::<BITS, D>(from));
    }

    #[inline(always)]
    fn bytes_to_bytes(&mut self, input: &Input) {
        let simd = self.simd;
        let [a, b] = input.bytes.map(|bytes| simd.bytes(&bytes));
        let [number, ..] = input.bytes[1];
        self.bytes("and", simd.and(a, b));
        self.bytes("or", simd.or(a, b));
        self.bytes("xor", simd.xor(a, b));
        self.bytes("plus", simd.plus(a, b));
        self.bytes("minus", simd.minus(a, b));
        self.bytes("at_least", simd.at_least(a, number));
        self.bytes("capped", simd.capped(a, number));
        self.bytes("signed_capped", simd.signed_capped(a, number.cast_signed()));
        self.number("tops", simd.tops(a));
        self.shifted::<1>(a);
        self.shifted::<2>(a);
        self.shifted::<3>(a);
        self.shifted::<4>(a);
        self.shifted::<5>(a);
        self.shifted::<6>(a);
        self.shifted::<7>(a);
        let nibbles = simd.bytes(&input.bytes[0].map(|byte| byte & 15));
        let table: &[i8; 16] = &from_fn(|i| input.bytes[1][i].cast_signed());
        self.bytes("lookup", simd.lookup(table, nibbles));
        let mut out = [0; 16];
        simd.put_nibbles(nibbles, &mut out);
        self.list.push(("put_nibbles", out.map(u32::from).to_vec()));
        self.streamed::<1>(&input.bytes[0]);
        self.streamed::<2>(&input.bytes[0]);
        self.streamed::<3>(&input.bytes[0]);
        self.streamed::<4>(&input.bytes[0]);
        self.streamed::<5>(&input.bytes[0]);
        self.streamed::<6>(&input.bytes[0]);
        self.streamed::<8>(&input.bytes[0]);
    }

    #[inline(always)]
    fn shifted<const BITS: i32>(&mut self, a: S::Bytes) {
        self.bytes("right", self.simd.right::<BITS>(a));
        self.bytes("left", self.simd.left::<BITS>(a));
    }

    #[inline(always)]
    fn streamed<const BITS: usize>(&mut self, bytes: &[u8; 32]) {
        let codes = self.simd.bytes(&bytes.map(|byte| byte >> (8 - BITS)));
        let mut out = [0; 32];
        self.simd.stream::<BITS>(codes, &mut out);
        self.list.push(("stream", out[..4 * BITS].iter().map(|byte| u32::from(*byte)).collect()));
    }

    #[inline(always)]
    fn bytes_to_floats(&mut self, input: &Input) {
        let simd = self.simd;
        let bytes = simd.bytes(&input.bytes[0]);
        let nibbles = simd.bytes(&input.bytes[0].map(|byte| byte & 15));
        self.both("signed", simd.signed(bytes));
        self.both("unsigned", simd.unsigned(bytes));
        self.both("e2m1", simd.e2m1(nibbles));
        self.both("e4m3", simd.e4m3(bytes));
        // None of them is NaN.
        self.both("e4m3", simd.e4m3(simd.bytes(&input.bytes[0].map(|byte| byte & 0xbf))));
    }

    #[inline(always)]
    fn arithmetic(&mut self, input: &Input) {
        let simd = self.simd;
        for pair in input.floats.as_chunks::<2>().0 {
            let [a, b] = pair.map(|floats| simd.load(&floats));
            self.floats("mul", simd.mul(a, b));
            self.floats("add", simd.add(a, b));
            self.floats("fused", simd.fused(a, b, b));
            // Products of 8 and 11 bits.
            let [small, _] = simd.unsigned(simd.bytes(&input.bytes[0]));
            self.floats("add_product", simd.add_product(small, simd.as_f16(a), b));
            self.floats("sub", simd.sub(a, b));
            // Two roundings, not one.
            self.floats("add", simd.add(simd.mul(a, b), a));
            self.floats("sub", simd.sub(a, simd.mul(a, b)));
            self.floats("div", simd.div(a, b));
            self.floats("sqrt", simd.sqrt(a));
            self.floats("magnitude", simd.magnitude(a));
            self.floats("least", simd.least(a, b));
            self.floats("most", simd.most(a, b));
            self.floats("peak", simd.peak(a, b));
            for (low, high) in [(0, 15), (-8, 7), (-127, 127), (i32::MIN, i32::MAX)] {
                self.floats("nearest", simd.nearest(a, low, high));
            }
        }
        let columns = simd.transposed(input.floats.map(|row| simd.load(&row)));
        columns.into_iter().for_each(|column| self.floats("transposed", column));
    }

    #[inline(always)]
    fn comparisons(&mut self, input: &Input) {
        let simd = self.simd;
        let [a, mut b] = [input.floats[0], input.floats[1]];
        // Some are equal, and some only nearly.
        (b[3], b[8], b[11], b[15]) = (a[3], a[8], -a[11], a[15]);
        let [a, b] = [a, b].map(|floats| simd.load(&floats));
        let masks = [simd.below(a, b), simd.same(a, b), simd.differ(a, b)];
        self.mask("below", masks[0]);
        self.mask("same", masks[1]);
        self.mask("differ", masks[2]);
        self.mask("both", simd.both(masks[0], masks[2]));
        self.mask("either", simd.either(masks[0], masks[1]));
        self.floats("choose", simd.choose(masks[0], a, b));
        // From none to all, and all but one.
        for count in 0..=16u8 {
            let zero = simd.splat(0.0);
            let some = from_fn(|i| f32::from(u8::from(i < usize::from(count))));
            let mask = simd.below(zero, simd.load(&some));
            self.number("any", simd.any(mask).into());
            self.number("all", simd.all(mask).into());
            self.number("bits", simd.bits(mask));
            let one = from_fn(|i| f32::from(u8::from(i == usize::from(count))));
            let mask = simd.same(zero, simd.load(&one));
            self.number("all", simd.all(mask).into());
            self.number("any", simd.any(simd.below(zero, simd.load(&one))).into());
        }
    }

    #[inline(always)]
    fn words_of(&mut self, input: &Input) {
        let simd = self.simd;
        let [a, b] = [input.words[0], input.words[1]].map(|words| self.made(&words));
        self.words("put_words", a);
        self.floats("numbers", simd.numbers(a));
        for most in [15, 31, -1, input.words[2][0].cast_signed()] {
            self.words("at_most", simd.at_most(a, most));
        }
        self.words("cut", simd.cut(a, input.words[2][1]));
        self.joined::<1>(a, b);
        self.joined::<2>(a, b);
        self.joined::<4>(a, b);
        self.joined::<6>(a, b);
        self.joined::<8>(a, b);
        self.joined::<16>(a, b);
        self.joined::<31>(a, b);
        let index = self.made(&input.words[3]);
        self.floats("entries", simd.entries(simd.load(&input.floats[2]), index));
        let codes = input.bytes.map(|bytes| simd.and(simd.bytes(&bytes), simd.fill(127)));
        let digit =
            |n: usize| (input.bytes[n % 2][n / 2 % 32] % 129).wrapping_sub(64).cast_signed();
        let digits = from_fn(|place| from_fn(|n| digit(n + 7 * place)));
        self.words("dots", simd.dots(codes, &digits));
        self.words("wide", simd.wide(input.bytes[0].first_chunk().expect("32 bytes")));
        self.mask("mask", simd.mask(input.words[2][2] as u16));
        let words = simd.load_words(&input.words[3]);
        self.words("load_words", words);
        let repeated = |many: usize| simd.load(&from_fn(|i| input.floats[2][i % many]));
        self.floats("fours", simd.fours(repeated(4), words));
        self.floats("eights", simd.eights(repeated(8), words));
        let columns = simd.transposed_words(input.words.map(|row| self.made(&row)));
        columns.into_iter().for_each(|column| self.words("transposed_words", column));
        for floats in input.floats {
            let a = simd.load(&floats);
            self.words("whole", simd.whole(a));
            self.words("rounded", simd.rounded(a));
            let near = simd.load(&floats.map(|x| if x.abs() < 4_194_303.0 { x } else { 0.5 }));
            self.floats("even", simd.add(simd.even(near), simd.splat(0.0)));
        }
        // Most fit, and some do not.
        let near = input.words.map(|words| self.made(&words.map(|word| word % 601)));
        let less = near.map(|a| simd.whole(simd.sub(simd.numbers(a), simd.splat(300.0))));
        self.bytes("to_signed", simd.to_signed([less[0], less[1]]));
        self.bytes("to_signed", simd.to_signed([b, less[2]]));
    }

    #[inline(always)]
    fn joined<const BITS: u32>(&mut self, a: S::Words, b: S::Words) {
        self.words("join", self.simd.join::<BITS>(a, b));
        self.words("down", self.simd.down::<BITS>(a));
    }

    #[inline(always)]
    fn narrowed(&mut self, input: &Input) {
        let simd = self.simd;
        for pair in input.floats.as_chunks::<2>().0 {
            let floats = pair.map(|floats| simd.load(&floats));
            self.bytes("to_unsigned", simd.to_unsigned(floats));
            self.bytes("to_e2m1", simd.to_e2m1(floats));
            self.bytes("to_e4m3", simd.to_e4m3(floats));
            self.floats("as_f16", simd.as_f16(floats[0]));
            let numbers = pair[1].map(|value| if value.is_nan() { 0.5 } else { value });
            self.floats("as_bf16", simd.as_bf16(simd.load(&numbers)));
            self.put::<true>(floats[0]);
            self.put::<false>(floats[1]);
        }
        // None of them is NaN.
        self.put::<true>(simd.splat(1.001));
        for bytes in &input.bytes {
            let codes = simd.and(simd.bytes(bytes), simd.fill(15));
            self.put_entries::<true>(codes);
            self.put_entries::<false>(codes);
        }
    }

    /// To destinations that suit stores of 64 bytes, of 32, and of none.
    #[inline(always)]
    fn put_entries<const PAST: bool>(&mut self, codes: S::Bytes) {
        let table = std::array::from_fn(|i| 0x0bcd * (i as u16 + 1));
        for place in [0, 16, 1] {
            let mut room = Room([7u16; 49]);
            let (out, _) = room.0[place..].as_chunks_mut();
            self.simd.put_entries::<PAST>(&table, codes, out.first_chunk_mut().unwrap());
            self.simd.fence();
            self.list.push(("put_entries", room.0.map(u32::from).to_vec()));
        }
    }

    /// To an aligned destination, where streaming stores work, and to an unaligned one.
    #[inline(always)]
    fn put<const PAST: bool>(&mut self, a: S::Floats) {
        let numbers = self.simd.choose(self.simd.same(a, a), a, self.simd.splat(0.5));
        let smallest = self.simd.splat(f32::MIN_POSITIVE);
        let subnormal = self.simd.below(self.simd.magnitude(numbers), smallest);
        let zero = self.simd.mul(numbers, self.simd.splat(0.0));
        let numbers = self.simd.choose(subnormal, zero, numbers);
        for off in 0..2 {
            let mut room = Room([0.25f32; 17]);
            let out = room.0[off..].first_chunk_mut().unwrap();
            self.simd.put_f32::<PAST>(a, out);
            self.simd.fence();
            self.list.push(("put_f32", room.0.map(bits).to_vec()));
            let mut room = Room([f16::ONE; 17]);
            let out = room.0[off..].first_chunk_mut().unwrap();
            self.simd.put_f16::<PAST>(a, out);
            self.simd.fence();
            self.list.push(("put_f16", room.0.map(half_bits).to_vec()));
            let mut room = Room([bf16::ONE; 17]);
            let out = room.0[off..].first_chunk_mut().unwrap();
            self.simd.put_bf16::<PAST>(a, out, true);
            self.simd.fence();
            self.list.push(("put_bf16", room.0.map(bf16_bits).to_vec()));
            let mut room = Room([bf16::ONE; 17]);
            let out = room.0[off..].first_chunk_mut().unwrap();
            self.simd.put_bf16::<PAST>(numbers, out, false);
            self.simd.fence();
            self.list.push(("put_bf16", room.0.map(bf16_bits).to_vec()));
            // The second place suits a store of half as many.
            for place in [off, 16 * (off + 1)] {
                for (a, nan) in [([a, numbers], true), ([numbers, numbers], false)] {
                    let mut room = Room([bf16::ONE; 65]);
                    let (out, _) = room.0[place..].as_chunks_mut();
                    self.simd.pair_bf16::<PAST>(a, out.first_chunk_mut().unwrap(), nan);
                    self.simd.fence();
                    self.list.push(("pair_bf16", room.0.map(bf16_bits).to_vec()));
                }
            }
        }
    }

    #[inline(always)]
    fn summaries(&mut self, input: &Input) {
        let simd = self.simd;
        for floats in input.floats {
            self.number("highest", bits(simd.highest(simd.load(&floats))));
            let numbers = floats.map(|value| if value.is_nan() { 0.5 } else { value });
            // Of zeros, either.
            let positive = |value: f32| (value + 0.0).to_bits();
            self.number("largest", positive(simd.largest(simd.load(&numbers))));
            self.number("smallest", positive(simd.smallest(simd.load(&numbers))));
        }
        let rows = input.floats.map(|row| simd.load(&row));
        self.floats("highest_of_each", simd.highest_of_each(rows));
        let zero = simd.splat(0.0);
        let numbers = input.floats.map(|row| row.map(|x| if x.is_nan() { 0.5 } else { x }));
        let numbers = numbers.map(|row| simd.load(&row));
        self.floats("largest_of_each", simd.add(simd.largest_of_each(numbers), zero));
        self.floats("smallest_of_each", simd.add(simd.smallest_of_each(numbers), zero));
        for count in 0..=4 {
            let mut seen = simd.blank();
            for floats in &input.floats[..count] {
                simd.look(&mut seen, simd.load(floats));
            }
            for bound in input.floats[..2].as_flattened() {
                // At a magnitude that was seen, and next to it.
                let bound = bound.abs().to_bits();
                for bound in [bound.saturating_sub(1), bound, bound + 1] {
                    self.number("look", simd.doubtful(seen, bound, 0).into());
                    self.number("doubtful", simd.doubtful(seen, u32::MAX, bound).into());
                }
            }
        }
    }
}

/// A pseudo-random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // The low bits have a short period.
        (self.0 >> 32) as u32
    }

    /// Any bits, or values near the limits of operations.
    fn float(&mut self) -> f32 {
        const ODD: [f32; 16] = [
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            f32::MAX,
            f32::MIN_POSITIVE,
            448.0,
            -2_147_483_648.0,
            2_147_483_648.0,
            2_147_483_520.0,
            4_194_304.0,
            65_504.0,
            65_520.0,
            0.499_999_97,
            536_870_912.0,
        ];
        let word = self.word();
        let whole = f32::from((word >> 16) as i16);
        match self.word() >> 20 & 15 {
            0 => ODD[word as usize >> 7 & 15],
            1 => f32::from_bits(word),
            // NaN whose payload is dropped by `bf16`, and other patterns of few ones.
            2 => f32::from_bits(word | 0x7f80_0000),
            3 => f32::from_bits(word & 0x807f_ffff),
            // Numbers that are exact in fewer bits, ties between them, and their neighbours.
            4 => {
                f32::from_bits(word & 0xffff_0000 | [0, 0x7fff, 0x8000, 0x8001][word as usize & 3])
            }
            5 => f32::from_bits(
                f16::from_bits((word >> 16) as u16).to_f32().to_bits() ^ word & 0x1001,
            ),
            6 => f32::from_bits(word & 0x8000_7000 | 0x3300_0000 | word & 0x0fff_0000),
            7 => {
                f32::from_bits(0x3c00_0000 + (word & 0x07f8_0000))
                    + f32::from_bits(word & 0x8fff_0000)
            }
            8 => whole / 2.0,
            9 => whole / 16384.0,
            10 => f32::from((word >> 24) as i8) / 4.0,
            11 => whole * 128.5,
            12 => whole * 65_536.0 + f32::from(word as u8),
            _ => f32::from((word >> 8) as u16) / 32_768.0 - 1.0,
        }
    }

    fn input(&mut self) -> Input {
        Input {
            bytes: from_fn(|_| from_fn(|_| self.word() as u8)),
            floats: from_fn(|_| from_fn(|_| self.float())),
            words: from_fn(|_| from_fn(|_| self.word())),
        }
    }
}

/// Runs all operations on random input. Each operation that differs is reported with its first
/// differing input.
#[test]
fn operations_agree() {
    let [portable, others @ ..] = &*Isa::available().collect::<Vec<_>>() else { unreachable!() };
    let mut random = Random(1);
    let mut wrong = BTreeMap::new();
    for round in 0..600 {
        let input = random.input();
        let expected = CALLS.run_on(*portable, &input);
        for isa in others {
            let found = CALLS.run_on(*isa, &input);
            assert_eq!(found.len(), expected.len());
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                if found != expected {
                    let first =
                        || format!("round {round}, call {number}: {found:x?}, not {expected:x?}");
                    wrong.entry(format!("{isa:?}, {}", found.0)).or_insert_with(first);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Some have no result to compare: `blank` is covered by `look`, and `fence` by streaming stores.
#[test]
fn every_operation_is_called() {
    let portable = Isa::available().next().unwrap();
    let called: BTreeSet<_> =
        CALLS.run_on(portable, &Random(1).input()).into_iter().map(|(name, _)| name).collect();
    let operations = include_str!("mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("    fn ")?.split(['(', '<']).next());
    let silent = ["blank", "fence", "fetch_behind"];
    let all: BTreeSet<_> = operations.filter(|name| !silent.contains(name)).collect();
    assert_eq!(called, all);
}
