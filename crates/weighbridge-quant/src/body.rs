//! Bodies of kernels: traits for what codecs and quantizers compute, generic over the instruction set and
//! the element, and the writers of values.

use zerocopy::{FromBytes, IntoBytes};

use super::element::Element;
use super::inputs::{Inputs, Line};
use super::kernel::{BlockEncoding, GroupEncoding, KernelBody, ValueDecoding};
use super::packed::{GroupParts, Grouping, Packed, PackedRows, QuantizerInput};
use super::runs::InputProducts;
use super::simd::Simd;

/// Computes a dtype's values.
pub(super) trait Decode {
    /// Fills `out` with values, from the first of `packed` on.
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>);
}

/// The output of a decoder, written 16 values at a time.
pub(super) struct Out<'a, S: Simd, T> {
    pub(super) simd: S,
    past: bool,
    pub(super) values: &'a mut [T],
    seen: &'a mut S::Magnitudes,
}

impl<'a, S: Simd, T: Element> Out<'a, S, T> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Splits the output into complete runs of `UNITS` times 16 values, their writer, and the rest.
    #[inline(always)]
    pub(super) fn runs<const UNITS: usize>(
        self,
    ) -> (&'a mut [UnitRun<T, UNITS>], Units<'a, S, T>, Self) {
        let Self { simd, past, values, seen } = self;
        let (values, rest) = values.split_at_mut(values.len() / (16 * UNITS) * (16 * UNITS));
        let (runs, _) = values.as_chunks_mut::<16>().0.as_chunks_mut::<UNITS>();
        // A copy, so that it stays in registers while values are written.
        let units = Units { simd, past, seen: *seen, close: true, nan: false, out: &mut [] };
        (runs, units, Self { simd, past, values: rest, seen })
    }

    /// Merges what the writer saw of its values.
    #[inline(always)]
    pub(super) fn saw(self, units: &Units<'_, S, T>) -> Self {
        *self.seen = units.seen;
        self
    }

    /// Writes fewer than 16 values: the first of `floats`.
    #[inline(always)]
    pub(super) fn rest(self, floats: S::Floats) {
        let mut all = [T::round(0.0); 16];
        // The surplus values may be anything, so they are excluded from the check.
        let mut exact = [0.0; 16];
        self.simd.put_f32::<false>(floats, &mut exact);
        exact.iter_mut().skip(self.values.len()).for_each(|value| *value = 0.0);
        let floats = self.simd.load(&exact);
        T::put::<S, false>(self.simd, floats, &mut all, true);
        self.simd.look(self.seen, floats);
        let len = self.values.len().min(16);
        self.values[..len].copy_from_slice(&all[..len]);
    }
}

/// The output of one run.
type UnitRun<T, const UNITS: usize> = [[T; 16]; UNITS];

/// Writes the values of one block.
pub(super) struct Units<'a, S: Simd, T> {
    simd: S,
    /// Whether streaming stores are used. A branch at each store, which is always predicted, is
    /// cheaper than a second copy of every decoder.
    past: bool,
    seen: S::Magnitudes,
    /// Whether the next values may be so small or so large that they do not survive rounding, so
    /// that they must be checked.
    pub(super) close: bool,
    /// Whether the next values may be NaN even if they are not `close`.
    pub(super) nan: bool,
    /// The output for the next block.
    pub(super) out: &'a mut [[T; 16]],
}

/// A consumer of the values of one block.
pub(super) trait Put<S: Simd> {
    /// Converts a scale in half precision. If it is less than 8, no value becomes infinite as `f16`, and
    /// none is NaN: no codec multiplies the scale by more than 4096, or adds more than 64 times another.
    fn half(&mut self, bytes: [u8; 2]) -> f32;

    /// Like [`half`](Self::half), for values that may be as small as an eighth of the scale.
    fn half_of_eighths(&mut self, bytes: [u8; 2]) -> f32;

    /// Says that values are multiples of 2^(`e` - 128), up to 12 times as large.
    fn steps_of(&mut self, e: u8);

    /// Whether it is faster to look up the values of 16 codes with [`Simd::entries`] and to
    /// [`put`](Self::put) them than to call [`nibbles`](Self::nibbles).
    fn looks_up(&self) -> bool;

    /// Accepts 16 values at position `number` of their block, in units of 16.
    fn put(&mut self, number: usize, floats: S::Floats);

    /// Accepts 32 values at position `number` of their block, in units of 32.
    fn pair(&mut self, number: usize, floats: [S::Floats; 2]);

    /// Like [`pair`](Self::pair), for values of 32 codes, which must be less than 16. `table` has the
    /// value of each code.
    fn nibbles(&mut self, number: usize, codes: S::Bytes, table: S::Floats, values: [S::Floats; 2]);
}

/// Passes on what `value` makes of 32 codes, which must be less than 16.
#[inline(always)]
pub(super) fn put_nibbles<S: Simd>(
    simd: S,
    out: &mut (impl Put<S> + ?Sized),
    number: usize,
    codes: S::Bytes,
    value: impl Fn(S::Floats) -> S::Floats,
) {
    // Of table and values, the compiler removes what is not used.
    let table = value(simd.load(&NIBBLES));
    out.nibbles(number, codes, table, simd.unsigned(codes).map(value));
}

/// Passes on the entries of two tables: of the first for the low nibbles of 16 bytes, of the second for
/// the high ones, at these positions in units of 16.
#[inline(always)]
pub(super) fn put_looked_up<S: Simd>(
    simd: S,
    out: &mut (impl Put<S> + ?Sized),
    [low, high]: [usize; 2],
    codes: &[u8; 16],
    tables: [S::Floats; 2],
) {
    let index = simd.wide(codes);
    out.put(low, simd.entries(tables[0], index));
    out.put(high, simd.entries(tables[1], simd.down::<4>(index)));
}

/// Passes on what `value` makes of the low nibbles of 16 bytes, and then of the high ones.
#[inline(always)]
pub(super) fn put_halves<S: Simd>(
    simd: S,
    out: &mut (impl Put<S> + ?Sized),
    number: usize,
    codes: &[u8; 16],
    value: impl Fn(S::Floats) -> S::Floats,
) {
    if !out.looks_up() {
        return put_nibbles(simd, out, number, simd.nibbles(codes), value);
    }
    let table = value(simd.load(&NIBBLES));
    put_looked_up(simd, out, [2 * number, 2 * number + 1], codes, [table; 2]);
}

/// All codes of four bits.
pub(super) const NIBBLES: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

impl<S: Simd, T: Element> Put<S> for Units<'_, S, T> {
    #[inline(always)]
    fn half(&mut self, bytes: [u8; 2]) -> f32 {
        const EIGHT: u16 = 0x4800;
        let bits = u16::from_le_bytes(bytes);
        self.close |= bits & 0x7fff >= EIGHT;
        self.simd.f16(bits)
    }

    #[inline(always)]
    fn half_of_eighths(&mut self, bytes: [u8; 2]) -> f32 {
        // An eighth of all others is a multiple of 2^-24.
        self.close |= u16::from_le_bytes(bytes) & 0x7fff < 8;
        self.half(bytes)
    }

    #[inline(always)]
    fn steps_of(&mut self, e: u8) {
        self.close |= !(104..=140).contains(&e);
    }

    #[inline(always)]
    fn looks_up(&self) -> bool {
        false
    }

    #[inline(always)]
    fn put(&mut self, number: usize, floats: S::Floats) {
        let nan = self.look([floats]);
        let out = &mut self.out[number];
        match S::STREAMS && self.past {
            true => T::put::<S, true>(self.simd, floats, out, nan),
            false => T::put::<S, false>(self.simd, floats, out, nan),
        }
    }

    #[inline(always)]
    fn pair(&mut self, number: usize, floats: [S::Floats; 2]) {
        let nan = self.look(floats);
        let out = &mut self.out.as_chunks_mut::<2>().0[number];
        // Decided once for both.
        match S::STREAMS && self.past {
            true => T::pair::<S, true>(self.simd, floats, out, nan),
            false => T::pair::<S, false>(self.simd, floats, out, nan),
        }
    }

    #[inline(always)]
    fn nibbles(
        &mut self,
        number: usize,
        codes: S::Bytes,
        table: S::Floats,
        values: [S::Floats; 2],
    ) {
        if S::IS_FALLBACK || size_of::<T>() != 2 {
            return self.pair(number, values);
        }
        // Rounding all values takes longer than rounding the sixteen that there can be and looking
        // them up. Values that do not occur may be recorded; then all are checked.
        let nan = self.look([table]);
        let mut entries = [T::new_zeroed(); 16];
        T::put::<S, false>(self.simd, table, &mut entries, nan);
        let out = self.out.as_chunks_mut::<2>().0[number].as_mut_bytes();
        let (Ok(entries), Ok(out)) = (
            <[u16; 16]>::ref_from_bytes(entries.as_bytes()),
            <[[u16; 16]; 2]>::mut_from_bytes(out),
        ) else {
            unreachable!("an element has two bytes")
        };
        match S::STREAMS && self.past {
            true => self.simd.put_entries::<true>(entries, codes, out),
            false => self.simd.put_entries::<false>(entries, codes, out),
        }
    }
}

impl<S: Simd, T: Element> Units<'_, S, T> {
    /// Asks for what is read some time after these bytes, if the output is large.
    #[inline(always)]
    pub(super) fn fetch_behind(&self, bytes: &[u8]) {
        if S::STREAMS && self.past {
            self.simd.fetch_behind(bytes);
        }
    }

    /// Records magnitudes, if they may be out of range. Returns whether values may be NaN or subnormal;
    /// known to be false for elements to which that makes no difference.
    #[inline(always)]
    fn look<const N: usize>(&mut self, floats: [S::Floats; N]) -> bool {
        if T::BOUNDS.is_some() && self.close {
            for floats in &floats {
                self.simd.look(&mut self.seen, *floats);
            }
        }
        T::TELLS_NAN && (self.close || self.nan)
    }
}

impl<D: Decode, T: Element> KernelBody<ValueDecoding<T>> for D {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (packed, values, past): (&Packed<'_>, &mut [T], bool)) -> bool {
        let mut seen = simd.blank();
        D::decode(packed, Out { simd, past, values, seen: &mut seen });
        if past && S::STREAMS {
            simd.fence();
        }
        T::BOUNDS.is_some_and(|bounds| simd.doubtful(seen, bounds.over, bounds.under))
    }
}

/// Computes products of packed rows, without a copy of their values.
pub(super) trait Multiply {
    /// Fills `out` with the products of its number of rows with one row of inputs, whose length is a
    /// multiple of 16 and of a block.
    fn multiply<S: Simd>(simd: S, rows: PackedRows<'_>, inputs: &Inputs<'_>, out: &mut [f32]);
}

impl<M: Multiply> KernelBody<InputProducts> for M {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (rows, inputs, out): (PackedRows<'_>, &Inputs<'_>, &mut [f32])) {
        M::multiply(simd, rows, inputs, out);
    }
}

/// Sums that are kept side by side. Their number is part of the result.
const SUMS: usize = 4;

/// The product of a row's values, as they are computed, with inputs.
pub(super) struct Product<'a, S: Simd> {
    simd: S,
    sums: [S::Floats; SUMS],
    /// The inputs of the next block.
    pub(super) inputs: &'a [Line],
}

impl<S: Simd> Product<'_, S> {
    #[inline(always)]
    pub(super) fn new(simd: S) -> Self {
        Self { simd, sums: [simd.splat(0.0); SUMS], inputs: &[] }
    }

    #[inline(always)]
    pub(super) fn total(self) -> f32 {
        let [a, b, c, d] = self.sums;
        total(self.simd, self.simd.add(self.simd.add(a, b), self.simd.add(c, d)))
    }
}

/// The sum of 16 numbers: halves are added until one is left.
#[inline(always)]
pub(super) fn total<S: Simd>(simd: S, sums: S::Floats) -> f32 {
    let mut lanes = [0.0f32; 16];
    simd.put_f32::<false>(sums, &mut lanes);
    let eight: [f32; 8] = std::array::from_fn(|at| lanes[at] + lanes[at + 8]);
    let four: [f32; 4] = std::array::from_fn(|at| eight[at] + eight[at + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

impl<S: Simd> Put<S> for Product<'_, S> {
    #[inline(always)]
    fn half(&mut self, bytes: [u8; 2]) -> f32 {
        self.simd.f16(u16::from_le_bytes(bytes))
    }

    #[inline(always)]
    fn half_of_eighths(&mut self, bytes: [u8; 2]) -> f32 {
        self.half(bytes)
    }

    #[inline(always)]
    fn steps_of(&mut self, _: u8) {}

    #[inline(always)]
    fn looks_up(&self) -> bool {
        S::IS_WIDE
    }

    #[inline(always)]
    fn put(&mut self, number: usize, floats: S::Floats) {
        let inputs = self.simd.load(&self.inputs[number].0);
        let sum = &mut self.sums[number % SUMS];
        *sum = self.simd.fused(floats, inputs, *sum);
    }

    #[inline(always)]
    fn pair(&mut self, number: usize, floats: [S::Floats; 2]) {
        self.put(2 * number, floats[0]);
        self.put(2 * number + 1, floats[1]);
    }

    #[inline(always)]
    fn nibbles(&mut self, number: usize, _: S::Bytes, _: S::Floats, values: [S::Floats; 2]) {
        self.pair(number, values);
    }
}

/// Computes the bytes of a block dtype from values.
pub(super) trait Encode {
    /// Fills `out` with the bytes of all rows.
    fn encode<S: Simd>(simd: S, rows: &QuantizerInput<'_>, out: &mut [u8]);
}

impl<E: Encode> KernelBody<BlockEncoding> for E {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (rows, out): (&QuantizerInput<'_>, &mut [u8])) {
        E::encode(simd, rows, out);
    }
}

/// Computes the parts of a group dtype, codes, scales and biases, from values.
pub(super) trait GroupEncode {
    fn encode<S: Simd, T: Element>(simd: S, values: &[T], grouping: Grouping, out: GroupParts<'_>);
}

impl<E: GroupEncode, T: Element> KernelBody<GroupEncoding<T>> for E {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (values, grouping, out): (&[T], Grouping, GroupParts<'_>)) {
        E::encode(simd, values, grouping, out);
    }
}
