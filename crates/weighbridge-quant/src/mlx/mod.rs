//! Codecs of MLX's groups: codes in one array, scales and biases in others.
//!
//! Each row is one bit stream, least significant bit first; each code takes the next `bits` bits.
//! Each product and sum is rounded to `f32` separately. MLX computes the same values if scales and
//! biases are `f32`. If they are `f16` or `bf16`, MLX rounds to that dtype after each operation;
//! [`Rounding::Native`](super::Rounding) does the same.

mod affine;
mod floating;
mod grid;
mod quantize;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::body::{Decode, Out, Put, put_nibbles};
use super::element::Element;
use super::float::{self, E2M1, E4M3, Float, e8m0};
use super::simd::{Portable, Simd};
use super::{Codec, Global, Packed};
pub use grid::{largest_grid_code, pack_grids};
pub use quantize::GroupQuantizer;

pub(crate) static AFFINE1: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<1>>>(native::<AffineCodes<1>>);
pub(crate) static AFFINE2: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<2>>>(native::<AffineCodes<2>>);
pub(crate) static AFFINE3: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<3>>>(native::<AffineCodes<3>>);
pub(crate) static AFFINE4: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<4>>>(native::<AffineCodes<4>>);
pub(crate) static AFFINE5: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<5>>>(native::<AffineCodes<5>>);
pub(crate) static AFFINE6: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<6>>>(native::<AffineCodes<6>>);
pub(crate) static AFFINE8: Codec =
    Codec::groups::<GroupDecoder<AffineCodes<8>>>(native::<AffineCodes<8>>);
pub(crate) static MXFP4: Codec = Codec::groups::<GroupDecoder<E2m1Codes>>(native::<E2m1Codes>);
pub(crate) static MXFP8: Codec = Codec::groups::<GroupDecoder<E4m3Codes>>(native::<E4m3Codes>);
pub(crate) static NVFP4: Codec = Codec::groups::<GroupDecoder<E2m1Codes>>(native::<E2m1Codes>);

pub(crate) static TO_AFFINE1: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<1>>();
pub(crate) static TO_AFFINE2: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<2>>();
pub(crate) static TO_AFFINE3: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<3>>();
pub(crate) static TO_AFFINE4: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<4>>();
pub(crate) static TO_AFFINE5: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<5>>();
pub(crate) static TO_AFFINE6: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<6>>();
pub(crate) static TO_AFFINE8: GroupQuantizer = GroupQuantizer::affine::<affine::Affine<8>>();
pub(crate) static TO_MXFP4: GroupQuantizer = GroupQuantizer::of::<floating::E2m1>(&[32]);
pub(crate) static TO_MXFP8: GroupQuantizer = GroupQuantizer::of::<floating::E4m3>(&[32]);
pub(crate) static TO_NVFP4: GroupQuantizer =
    GroupQuantizer::of::<floating::Nv>(&[16]).with_global();

/// A quantization mode of MLX, with its elements.
trait DecodeMode {
    const BITS: usize;

    /// Whether groups have a bias.
    const BIASED: bool;

    /// The step that all elements are multiples of.
    const STEP: f32;

    /// Whether an element may be NaN.
    const NAN: bool = false;

    /// Whether groups may have 16 elements, half as many as are decoded at once.
    const HALVES: bool = false;

    /// Decodes 32 elements, from a position in a stream.
    fn elements<S: Simd>(simd: S, stream: &CodeReader<'_>, at: usize) -> [S::Floats; 2];

    /// The 32 codes from a position in a stream, if they are integers of four bits.
    #[inline(always)]
    fn nibbles<S: Simd>(_simd: S, _stream: &CodeReader<'_>, _at: usize) -> Option<S::Bytes> {
        None
    }

    /// Decodes one element.
    fn element(code: u8) -> f32;
}

/// Unsigned integers.
struct AffineCodes<const BITS: usize>;

impl<const BITS: usize> DecodeMode for AffineCodes<BITS> {
    const BITS: usize = BITS;
    const BIASED: bool = true;
    const STEP: f32 = 1.0;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, stream: &CodeReader<'_>, at: usize) -> [S::Floats; 2] {
        match BITS {
            8 => simd.unsigned(simd.bytes(stream.from(at))),
            // 32 elements take at most 16 bytes.
            1..=4 => {
                let bytes = stream.from(at);
                [simd.codes::<BITS, 0>(bytes), simd.codes::<BITS, 16>(bytes)]
            }
            _ => [
                simd.codes::<BITS, 0>(stream.from(at)),
                simd.codes::<BITS, 0>(stream.from(at + 2 * BITS)),
            ],
        }
    }

    #[inline(always)]
    fn nibbles<S: Simd>(simd: S, stream: &CodeReader<'_>, at: usize) -> Option<S::Bytes> {
        (BITS == 4).then(|| simd.nibble_pairs(stream.from(at)))
    }

    fn element(code: u8) -> f32 {
        f32::from(code)
    }
}

/// E2M1, floats of four bits.
struct E2m1Codes;

impl DecodeMode for E2m1Codes {
    const BITS: usize = 4;
    const BIASED: bool = false;
    const STEP: f32 = 0.5;
    const HALVES: bool = true;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, stream: &CodeReader<'_>, at: usize) -> [S::Floats; 2] {
        simd.e2m1(simd.nibble_pairs(stream.from(at)))
    }

    fn element(code: u8) -> f32 {
        E2M1[usize::from(code & 15)]
    }
}

/// E4M3, floats of eight bits.
struct E4m3Codes;

impl DecodeMode for E4m3Codes {
    const BITS: usize = 8;
    const BIASED: bool = false;
    const STEP: f32 = 1.0 / 512.0;
    const NAN: bool = true;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, stream: &CodeReader<'_>, at: usize) -> [S::Floats; 2] {
        simd.e4m3(simd.bytes(stream.from(at)))
    }

    fn element(code: u8) -> f32 {
        E4M3[usize::from(code)]
    }
}

/// Packed elements. Reading slightly beyond the end gives zeros.
struct CodeReader<'a> {
    bytes: &'a [u8],
    /// The last bytes, followed by zeros.
    tail: [u8; 64],
    /// The offset at which `tail` starts.
    start: usize,
}

impl<'a> CodeReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let start = bytes.len().saturating_sub(32);
        let mut tail = [0; 64];
        for (tail, byte) in tail.iter_mut().zip(bytes.get(start..).unwrap_or_default()) {
            *tail = *byte;
        }
        Self { bytes, tail, start }
    }

    /// One byte, if there is any from a position on.
    #[inline(always)]
    fn after(&self, at: usize) -> &[u8] {
        self.bytes.get(at..=at).unwrap_or_default()
    }

    /// At most 32 bytes, from a position.
    #[inline(always)]
    fn from<const N: usize>(&self, at: usize) -> &[u8; N] {
        let within = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
        within.unwrap_or_else(|| {
            let tail = self.tail.get(at.saturating_sub(self.start)..).unwrap_or_default();
            tail.first_chunk().unwrap_or(&[0; N])
        })
    }
}

/// Decodes groups: q scale + bias, or q (scale global), where the scale is divided if the global
/// scale is a divisor.
struct GroupDecoder<M>(PhantomData<M>);

impl<M: DecodeMode> Decode for GroupDecoder<M> {
    #[inline(always)]
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>) {
        let simd = out.simd;
        let stream = CodeReader::new(packed.weight);
        let mut at = 0;
        let mut scaling = TileScaling::<M>::new(packed);
        if M::HALVES && packed.group_size == 16 {
            // Two groups at a time, and a last one if their number is odd.
            let (runs, mut units, rest) = out.runs::<2>();
            units.nan = M::NAN;
            for runs in runs.chunks_mut(TILE / 2) {
                scaling.next(2 * runs.len());
                units.close = T::BOUNDS.is_some() && scaling.close();
                for (slot, number) in runs.iter_mut().zip(0..TILE / 2) {
                    units.out = slot;
                    units.fetch_behind(stream.after(at));
                    let [a, b] = M::elements(simd, &stream, at);
                    let a = scaling.value(simd, a, 2 * number);
                    let b = scaling.value(simd, b, 2 * number + 1);
                    units.pair(0, [a, b]);
                    at += 4 * M::BITS;
                }
            }
            let (last, mut units, rest) = rest.saw(&units).runs::<1>();
            for slot in last {
                scaling.next(1);
                units.out = slot;
                units.put(0, scaling.value(simd, M::elements(simd, &stream, at)[0], 0));
            }
            rest.saw(&units);
            return;
        }
        // A group has 32 elements or a multiple.
        let runs_per_group = (packed.group_size / 32).max(1);
        let (runs, mut units, rest) = out.runs::<2>();
        units.nan = M::NAN;
        for tile in runs.chunks_mut(TILE * runs_per_group) {
            scaling.next(tile.len() / runs_per_group);
            units.close = T::BOUNDS.is_some() && scaling.close();
            for (group, number) in tile.chunks_mut(runs_per_group).zip(0..TILE) {
                for slot in group {
                    units.out = slot;
                    units.fetch_behind(stream.after(at));
                    let value = |elements| scaling.value(simd, elements, number);
                    match M::nibbles(simd, &stream, at) {
                        Some(codes) => put_nibbles(simd, &mut units, 0, codes, value),
                        None => units.pair(0, M::elements(simd, &stream, at).map(value)),
                    }
                    at += 4 * M::BITS;
                }
            }
        }
        rest.saw(&units);
    }
}

/// The number of groups whose scales are converted to floats at a time.
const TILE: usize = 64;

/// The scales and biases of a tile of groups, as floats.
struct TileScaling<'a, M> {
    packed: &'a Packed<'a>,
    /// The first group after the tile.
    group: usize,
    scales: [f32; TILE],
    biases: [f32; TILE],
    mode: PhantomData<M>,
}

impl<'a, M: DecodeMode> TileScaling<'a, M> {
    #[inline(always)]
    fn new(packed: &'a Packed<'a>) -> Self {
        let (scales, biases) = ([0.0; TILE], [0.0; TILE]);
        Self { packed, group: 0, scales, biases, mode: PhantomData }
    }

    /// Advances to the next `count` groups.
    fn next(&mut self, count: usize) {
        let packed = self.packed;
        numbers(packed.scale, packed.formats.0, self.group, &mut self.scales);
        if M::BIASED {
            numbers(packed.bias, packed.formats.1, self.group, &mut self.biases);
        } else if packed.global != Global::None {
            self.scales.iter_mut().for_each(|scale| *scale = packed.global.applied(*scale));
        }
        self.group += count;
    }

    /// Whether values may be finer than 2^-24, or too large for `f16`.
    ///
    /// From a certain magnitude on, numbers of a format are multiples of 2^-24; the bits of its
    /// fraction determine the magnitude. If the numbers are multiplied by elements with fractional
    /// steps, that magnitude is larger. The same holds for sums.
    fn close(&self) -> bool {
        let bound = |format: Float, step: f32| match format {
            // All `f16` numbers are multiples of 2^-24, including subnormal ones.
            Float::F16 => 0.0,
            Float::BF16 => 0.5f32.powi(24 - 7) / step,
            Float::E8M0 => 0.5f32.powi(24) / step,
            Float::E4M3 if self.packed.global == Global::None => 0.5f32.powi(24 - 3) / step,
            Float::F32 | Float::E4M3 => 0.5f32.powi(24 - 23) / step,
        };
        // Without an early exit, all of them are compared at once.
        let beyond = |numbers: &[f32; TILE], bound: f32, most: f32| {
            let one = |number: &f32| (*number != 0.0) & !(bound..=most).contains(&number.abs());
            numbers.iter().fold(false, |any, number| any | one(number))
        };
        let (scales, biases) = self.packed.formats;
        // The largest element is 448.
        beyond(&self.scales, bound(scales, M::STEP), 64.0)
            || (M::BIASED && beyond(&self.biases, bound(biases, 1.0), 16_384.0))
    }

    /// The values of 16 elements of group `number` of the tile.
    #[inline(always)]
    fn value<S: Simd>(&self, simd: S, elements: S::Floats, number: usize) -> S::Floats {
        let product = simd.mul(elements, simd.splat(self.scales[number]));
        if M::BIASED { simd.add(product, simd.splat(self.biases[number])) } else { product }
    }
}

/// Converts numbers of a format to floats, from position `from`. Not inlined: each result is used
/// for at least 16 elements.
fn numbers(bytes: &[u8], format: Float, from: usize, out: &mut [f32; TILE]) {
    fn each<const N: usize>(bytes: &[u8], out: &mut [f32; TILE], value: impl Fn([u8; N]) -> f32) {
        for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
            *out = value(*bytes);
        }
    }
    let bytes = bytes.get(from * format.bytes()..).unwrap_or_default();
    match format {
        Float::F32 => each(bytes, out, f32::from_le_bytes),
        Float::F16 => {
            let mut halves = [f16::ZERO; TILE];
            for (half, bytes) in halves.iter_mut().zip(bytes.as_chunks().0) {
                *half = f16::from_le_bytes(*bytes);
            }
            halves.convert_to_f32_slice(out);
        }
        Float::BF16 => each(bytes, out, float::bf16),
        Float::E4M3 => each(bytes, out, |[byte]| E4M3[usize::from(byte)]),
        Float::E8M0 => each(bytes, out, |[byte]| e8m0(byte)),
    }
}

/// Values as MLX's CPU backend computes them: in the dtype of scales and biases, or in `bf16` if
/// scales are small floats, with each operation rounded. With a global scale, MLX computes in
/// `f32`.
fn native<M: DecodeMode>(packed: &Packed<'_>, out: &mut [f32]) {
    let round = match packed.formats {
        (Float::F16, Float::F16) => |value| f16::from_f32(value).to_f32(),
        (Float::BF16, Float::BF16) => |value| bf16::from_f32(value).to_f32(),
        (Float::E4M3 | Float::E8M0, _) if packed.global == Global::None => {
            |value| bf16::from_f32(value).to_f32()
        }
        _ => std::convert::identity::<f32>,
    };
    let number = |bytes: &[u8], format: Float, group: usize| {
        format.value(bytes.get(group * format.bytes()..).unwrap_or_default(), |bits| {
            Portable.f16(bits)
        })
    };
    let mask = u8::MAX >> (8 - M::BITS);
    let stream = CodeReader::new(packed.weight);
    for (group, out) in out.chunks_mut(packed.group_size).enumerate() {
        let scale = packed.global.applied(number(packed.scale, packed.formats.0, group));
        let bias = if M::BIASED { number(packed.bias, packed.formats.1, group) } else { 0.0 };
        for (place, out) in out.iter_mut().enumerate() {
            let bit = (group * packed.group_size + place) * M::BITS;
            let [code, _] = (u16::from_le_bytes(*stream.from(bit / 8)) >> (bit % 8)).to_le_bytes();
            let product = round(M::element(code & mask) * scale);
            *out = if M::BIASED { round(product + bias) } else { product };
        }
    }
}
