//! Kernel tests: every instruction set gives the same results as the portable code.

pub(crate) mod counts;

use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use proptest::prelude::*;

use super::kernel::Isa;
use super::*;
use crate::dtype::{DTYPES, DTypeDescriptor, Packing};

/// The dtypes whose values are decoded in runs.
fn runs() -> impl Iterator<Item = (&'static DTypeDescriptor, &'static Runs)> {
    DTYPES.iter().filter_map(|row| match &row.codec?.0 {
        Decoder::Runs(runs) => Some((row, runs)),
        Decoder::Rows(_) => None,
    })
}

/// The bytes of all parts for some values of a dtype, cut from `bytes`, which is repeated as
/// needed.
struct Input {
    weight: Vec<u8>,
    scale: Vec<u8>,
    bias: Vec<u8>,
    formats: (Float, Float),
    group_size: usize,
    global: Global,
    len: usize,
}

impl Input {
    fn new(row: &DTypeDescriptor, count: usize, bytes: &[u8], choice: usize) -> Self {
        let group = row.packing == Packing::Group;
        let floating = row.name.contains("FP");
        let group_size = match (group, row.name.contains("NVFP4"), floating) {
            (false, ..) => 1,
            (true, true, _) => 16,
            (true, false, true) => 32,
            (true, false, false) => [32, 64, 128][choice % 3],
        };
        let formats = match (group_size, floating) {
            (16, _) => (Float::E4M3, Float::E4M3),
            (_, true) => (Float::E8M0, Float::E8M0),
            _ => {
                let float = [Float::F32, Float::F16, Float::BF16][choice / 3 % 3];
                (float, [float, Float::F32][choice / 9 % 2])
            }
        };
        let global = match (group_size, choice % 3) {
            (16, 1) => Global::Factor(0.37),
            (16, 2) => Global::Divisor(3.1),
            _ => Global::None,
        };
        let unit = if group { group_size } else { row.block_len as usize };
        let len = if row.packing == Packing::Plain { count } else { count * unit };
        let weight = (len * row.block_bytes as usize).div_ceil(row.block_len as usize);
        let mut source = bytes.iter().cycle().copied();
        let mut cut = |len: usize| source.by_ref().take(len).collect::<Vec<u8>>();
        let groups = if group { count } else { 0 };
        // Rows that start with bytes of their own.
        let head = row.row_head as usize;
        Self {
            weight: cut(weight),
            scale: cut(groups * formats.0.bytes() + head),
            bias: cut(groups * formats.1.bytes()),
            formats,
            group_size,
            global,
            len,
        }
    }

    fn packed(&self) -> Packed<'_> {
        Packed {
            weight: &self.weight,
            scale: &self.scale,
            bias: &self.bias,
            formats: self.formats,
            group_size: self.group_size,
            global: self.global,
        }
    }
}

/// Products of three rows of a dtype with inputs are the same on every instruction set, and those of
/// the decoded values but for the order of sums.
#[test]
fn products_agree() {
    let random = |n: usize| (n + 1).wrapping_mul(2_654_435_761) >> 7;
    let mut tested = 0;
    for (row, runs) in runs().filter(|(row, _)| row.row_head == 0) {
        let Some(products) = &runs.products else { continue };
        tested += 1;
        let unit = row.block_len as usize;
        let (rows, columns) = (3, 5 * unit * 16);
        let bytes: Vec<u8> = (0..503).map(|n| random(n).to_le_bytes()[0]).collect();
        let elements = if row.packing == Packing::Plain { 1 } else { unit };
        let count = rows * columns / elements;
        let data = Input::new(row, count, &bytes, 0);
        assert_eq!(data.len, rows * columns, "{}", row.name);
        let input: Vec<f32> =
            (0..columns).map(|n| (random(n) % 2003) as f32 / 1001.0 - 1.0).collect();
        let mut values = vec![0.0; data.len];
        runs.decode(&data.packed(), &mut values, Rounding::F32, Stores::Cached);
        let mut all = Isa::available().map(|isa| {
            let mut out = vec![0.0; rows];
            let rows = PackedRows { bytes: data.packed().weight, step: 1 };
            products.run_on(isa, (rows, &Inputs::new(&input), &mut out));
            out
        });
        let first = all.next().unwrap();
        assert!(all.all(|other| bits(&other) == bits(&first)), "{}", row.name);
        for (found, values) in first.iter().zip(values.chunks(columns)) {
            let each = values.iter().zip(&input).map(|(a, b)| f64::from(*a) * f64::from(*b));
            let (sum, size) = each.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            // Random bytes are also infinite and huge scales.
            let off = (f64::from(*found) - sum).abs();
            assert!(
                !size.is_finite() || size > 1e37 || off <= 1e-6 * size,
                "{}: {found} for {sum}",
                row.name
            );
        }
    }
    assert!(tested > 40, "{tested} dtypes");
}

/// The bits of a number, with all NaN equal.
trait Bits: Element {
    fn bits(self) -> u32;
}

impl Bits for f32 {
    fn bits(self) -> u32 {
        if self.is_nan() { u32::MAX } else { self.to_bits() }
    }
}

impl Bits for f16 {
    fn bits(self) -> u32 {
        if self.is_nan() { u32::MAX } else { self.to_bits().into() }
    }
}

impl Bits for bf16 {
    fn bits(self) -> u32 {
        if self.is_nan() { u32::MAX } else { self.to_bits().into() }
    }
}

fn bits<T: Bits>(values: &[T]) -> Vec<u32> {
    values.iter().map(|value| value.bits()).collect()
}

/// An output buffer whose start is a multiple of 64 bytes, plus `off` elements.
fn room<T: Element>(len: usize, off: usize) -> (Vec<T>, std::ops::Range<usize>) {
    let buffer = vec![T::new_zeroed(); len + off + 64];
    let start = buffer.as_ptr().align_offset(64) + off;
    (buffer, start..start + len)
}

/// Compares all instruction sets, with and without streaming stores, aligned and unaligned, with
/// `exact`.
fn agree<T: Bits>(name: &str, runs: &Runs, input: &Input, exact: &[f32]) {
    let rounded: Vec<T> = exact.iter().map(|value| T::round(*value)).collect();
    let expected = bits(&rounded);
    let mut lost = Narrowing::default();
    if let Some(bounds) = T::BOUNDS {
        lost.look(exact, bounds);
    }
    for isa in Isa::available() {
        for (past, off) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let (mut memory, range) = room::<T>(input.len, off);
            let out = &mut memory[range];
            let Some(kernels) = T::decoders(runs) else { continue };
            let doubtful = kernels.run_on(isa, (&input.packed(), out, past));
            assert_eq!(bits(out), expected, "{name}, {isa:?}, past {past}, off {off}");
            assert!(doubtful || lost.is_lossless(), "{name}, {isa:?}: {lost:?} went unseen");
        }
    }
    let mut out = vec![T::round(0.0); input.len];
    let mut counted = runs.decode(&input.packed(), &mut out, Rounding::F32, Stores::Cached);
    if let Some(already) = runs.lost {
        let already = already(&input.packed());
        counted.overflows -= already.overflows;
        counted.flushes -= already.flushes;
    }
    assert_eq!(counted, lost, "{name}");
}

fn all_agree(count: usize, bytes: &[u8], choice: usize) {
    for (row, runs) in runs() {
        let input = Input::new(row, count, bytes, choice);
        let mut exact = vec![f32::NAN; input.len];
        let portable = Isa::available().next().unwrap();
        runs.to_f32.run_on(portable, (&input.packed(), &mut exact, false));
        agree::<f32>(row.name, runs, &input, &exact);
        agree::<f16>(row.name, runs, &input, &exact);
        agree::<bf16>(row.name, runs, &input, &exact);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random bytes, which include NaN and infinite scales.
    #[test]
    fn kernels_agree(
        count in 0usize..40,
        bytes in proptest::collection::vec(any::<u8>(), 509),
        choice in 0usize..18,
    ) {
        all_agree(count, &bytes, choice);
    }
}

#[test]
fn kernels_agree_on_every_length() {
    let bytes: Vec<u8> = (0..997u32).map(|i| (i * i * 31 + i * 7).to_le_bytes()[1]).collect();
    for count in 0..70 {
        all_agree(count, &bytes, count);
    }
}

/// Compares all kernels on units whose bytes are, at random places, those of a number, and anything
/// elsewhere.
fn agree_around(
    row: &DTypeDescriptor,
    runs: &Runs,
    numbers: &[u16],
    seed: usize,
    any: impl Fn(usize) -> u16,
) {
    for choice in [3, 4, 6] {
        let whole = Input::new(row, numbers.len(), &[0], choice);
        let set = |part: &[u8], each: usize| -> Vec<u8> {
            let units = part.chunks(each.max(2)).zip(numbers.iter().cycle());
            let words = units.enumerate().flat_map(|(unit, (part, number))| {
                let place = 1000 * unit + seed;
                (0..part.len().div_ceil(2)).flat_map({
                    let any = &any;
                    move |at| {
                        let own = random(place + at) & 1 == 0;
                        (if own { *number } else { any(place + at) }).to_le_bytes()
                    }
                })
            });
            words.take(part.len()).collect()
        };
        let input = Input {
            weight: set(&whole.weight, row.block_bytes as usize),
            scale: set(&whole.scale, whole.formats.0.bytes()),
            bias: set(&whole.bias, whole.formats.1.bytes()),
            ..whole
        };
        let mut exact = vec![f32::NAN; input.len];
        runs.decode(&input.packed(), &mut exact, Rounding::F32, Stores::Cached);
        agree::<f16>(row.name, runs, &input, &exact);
        agree::<bf16>(row.name, runs, &input, &exact);
        if row.packing != Packing::Group {
            break;
        }
    }
}

fn random(n: usize) -> u16 {
    let seed = u32::try_from(n + 1).unwrap();
    let [.., a, b] = seed.wrapping_mul(0x9e37_79b9).rotate_left(7).to_be_bytes();
    u16::from_le_bytes([a, b])
}

/// NaN and infinite scales give the right numbers, wherever in a block the scale is: every dtype, all
/// `f16` scales that are NaN.
#[test]
fn every_half_that_is_no_number() {
    let halves: Vec<u16> = (0x7c00..0x8000).flat_map(|bits| [bits, bits | 0x8000]).collect();
    for (row, runs) in runs() {
        agree_around(row, runs, &halves, 0, random);
    }
}

/// Scales next to the limits of the kernels' checks, one block at a time, with small and with large
/// codes: no loss goes unseen.
#[test]
fn limits_of_checks() {
    let around = |bits: u16| bits - 2..bits + 3;
    let numbers = (0..20)
        .chain(around(0x0400))
        .chain(around(0x4800))
        .chain([0x4c00, 0x4fff, 0x5000, 0x7bff])
        // As two scales of one byte.
        .chain((101..106).chain(138..143).map(|byte| byte << 8 | byte));
    for number in numbers {
        for (row, runs) in runs() {
            for (seed, fill) in
                [0x0000, 0x1111, 0x7777, 0x7f7f, 0x8080, 0xffff].into_iter().enumerate()
            {
                agree_around(row, runs, &[number], 777 * seed, |_| fill);
                agree_around(row, runs, &[number], 999 * seed, random);
            }
        }
    }
}

/// A kernel leaves values alone for which it has no input bytes.
#[test]
fn short_input_is_no_fault() {
    for (row, runs) in runs() {
        let whole = Input::new(row, 9, &[0x35, 0x2c, 0x91, 7], 4);
        for isa in Isa::available() {
            for cut in [0, 1, whole.weight.len() / 2, whole.weight.len().saturating_sub(1)] {
                let mut out = vec![0.0f32; whole.len];
                let packed = Packed { weight: &whole.weight[..cut], scale: &[], ..whole.packed() };
                runs.to_f32.run_on(isa, (&packed, &mut out, false));
            }
        }
    }
}

/// Values of several kinds, some of them spread over all magnitudes.
fn values(kind: usize, len: usize, bytes: &[u8]) -> Vec<f32> {
    let words = bytes.iter().cycle().scan(0x9e37_79b9u32, |state, byte| {
        *state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f + u32::from(*byte));
        Some(*state)
    });
    let unit = |word: u32| f32::from((word >> 16) as u16) / 32768.0 - 1.0;
    let value = |word: u32| match kind {
        0 => unit(word),
        1 => unit(word) * 1e-3 / (unit(word.rotate_left(7)) + 1.001),
        2 => f32::from((word >> 29) as u16) - 3.0,
        3 if word.is_multiple_of(16) => unit(word),
        3 | 4 => 0.0,
        5 => -0.5,
        6 => unit(word) * 1e-40,
        7 => 1.0 + unit(word) * 1e-6,
        8 => unit(word) * 1e30,
        9 if word >> 8 & 63 == 0 => f32::NAN,
        10 if word >> 8 & 63 == 0 => f32::INFINITY,
        11 if word >> 8 & 63 == 0 => f32::MAX,
        12 => -1e-7 - unit(word).abs() * 1e-20,
        13 => f32::from_bits(word & 0xbfff_ffff),
        _ => unit(word),
    };
    words.take(len).map(value).collect()
}

/// The quantizers of every instruction set give the portable results, for any values and any
/// importance.
#[test]
fn quantizers_agree() {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(row) = DTYPES.get(next.fetch_add(1, Ordering::Relaxed)) {
            quantizer_agrees(row);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
}

fn quantizer_agrees(row: &DTypeDescriptor) {
    let bytes: Vec<u8> = (0..199u32).map(|i| (i * i * 17 + i * 5).to_le_bytes()[0]).collect();
    let Some(quantizer) = row.quantizer else { return };
    for kind in 0..15 {
        let rows = 1 + kind * 5 % 19;
        let columns = 256 * (1 + kind % 3);
        let values = values(kind, rows * columns, &bytes);
        let mut importance = self::values(0, columns, &bytes[kind..]);
        match kind % 5 {
            0 => importance.fill(0.0),
            1 => importance[3] = f32::NAN,
            2 => importance[200] = f32::INFINITY,
            3 => {}
            _ => importance.iter_mut().for_each(|weight| *weight = weight.abs()),
        }
        for importance in [None, Some(&*importance)] {
            if importance.is_none() && quantizer.importance() == Importance::Required {
                continue;
            }
            let given = QuantizerInput { values: &values, columns, importance };
            let len = rows * columns / row.block_len as usize * row.block_bytes as usize;
            let mut all = Isa::available().map(|isa| {
                let mut out = vec![0xa5; len];
                quantizer.run_on(isa, &given, &mut out);
                (isa, out)
            });
            let (_, expected) = all.next().unwrap();
            for (isa, found) in all {
                let with = importance.is_some();
                assert_eq!(found, expected, "{}, {isa:?}, kind {kind}, {with}", row.name);
            }
        }
    }
}

/// The basic quantizers, element by element: blocks are searched in order, and of several equal
/// largest magnitudes the first counts; NaN and numbers that are too large become code 0.
#[test]
#[allow(clippy::cast_possible_truncation, reason = "what does not fit is told apart")]
fn plain_blocks_by_definition() {
    fn whole(value: f32) -> i32 {
        if value.abs() < 2e9 { value as i32 } else { i32::MIN }
    }
    let half = |value: f32| match f16::from_f32(value) {
        half if half.is_nan() => f16::from_bits(0x7e00).to_le_bytes(),
        half => half.to_le_bytes(),
    };
    let inverse = |d: f32| if d == 0.0 { 0.0 } else { 1.0 / d };
    let q4_0 = |block: &[f32]| {
        let (mut largest, mut extreme) = (0.0, 0.0);
        for x in block.iter().filter(|x| x.abs() > 0.0) {
            if x.abs() > largest {
                (largest, extreme) = (x.abs(), *x);
            }
        }
        let d = extreme / -8.0;
        let code = |x: f32| (whole(x * inverse(d) + 8.5).min(15) & 15) as u8;
        let pairs = (0..16).map(|i| code(block[i]) | code(block[i + 16]) << 4);
        half(d).into_iter().chain(pairs).collect::<Vec<u8>>()
    };
    let q8_0 = |block: &[f32]| {
        let most = |most: f32, x: &f32| if most > x.abs() { most } else { x.abs() };
        let d = block.iter().fold(0.0, most) / 127.0;
        let code = |x: &f32| whole((x * inverse(d)).round()) as u8;
        half(d).into_iter().chain(block.iter().map(code)).collect::<Vec<u8>>()
    };
    let bytes: Vec<u8> = (0..199u32).map(|i| (i * i * 13 + i * 3).to_le_bytes()[0]).collect();
    for kind in 0..15 {
        let mut values = values(kind, 4096, &bytes);
        // Ties in both orders.
        values[64..66].copy_from_slice(&[40.0, -40.0]);
        values[160..162].copy_from_slice(&[-40.0, 40.0]);
        for (dtype, expected) in [
            (crate::DType::Q4_0, values.chunks(32).flat_map(q4_0).collect::<Vec<u8>>()),
            (crate::DType::Q8_0, values.chunks(32).flat_map(q8_0).collect()),
        ] {
            let mut found = vec![0xa5; expected.len()];
            dtype.quantize_rows(&values, 256, None, &mut found).unwrap();
            let block = dtype.descriptor().block_bytes as usize;
            for (number, (found, expected)) in
                found.chunks(block).zip(expected.chunks(block)).enumerate()
            {
                assert_eq!(found, expected, "{dtype}, kind {kind}, block {number}");
            }
        }
    }
}
