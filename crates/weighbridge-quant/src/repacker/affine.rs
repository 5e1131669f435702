//! Integer codes. Each packing is converted to q scale + bias, whose product and sum are exact if
//! the scale is an `f16` number: both then have at most 19 bits.

use std::marker::PhantomData;

use super::{NotExact, RepackInput, RepackKernel, Repacker, block, room};
use crate::float::Float;
use crate::ggml::planes;
use crate::kernel::{KernelBody, Kernels};
use crate::simd::{Portable, Simd};
use crate::{GroupParts, Packed};

pub(crate) static Q4_0_TO_AFFINE4: Repacker = to_groups::<Q4_0, 4>();
pub(crate) static Q4_1_TO_AFFINE4: Repacker = to_groups::<Q4_1, 4>();
pub(crate) static Q5_0_TO_AFFINE5: Repacker = to_groups::<Q5_0, 5>();
pub(crate) static Q5_1_TO_AFFINE5: Repacker = to_groups::<Q5_1, 5>();
pub(crate) static Q8_0_TO_AFFINE8: Repacker = to_groups::<Q8_0, 8>();
pub(crate) static Q4_K_TO_AFFINE4: Repacker = to_groups::<Q4K, 4>();
pub(crate) static Q5_K_TO_AFFINE5: Repacker = to_groups::<Q5K, 5>();
pub(crate) static TQ2_0_TO_AFFINE2: Repacker = to_groups::<TQ2_0, 2>();
pub(crate) static Q1_0_TO_AFFINE1: Repacker = to_groups::<Q1_0, 1>();
pub(crate) static Q2_0_TO_AFFINE2: Repacker = to_groups::<Q2_0, 2>();
pub(crate) static CT_INT4_TO_AFFINE4: Repacker = to_groups::<CtInt4, 4>();
pub(crate) static AFFINE1_TO_Q4_1: Repacker = between::<MlxGroups<1>, Q4_1>();
pub(crate) static AFFINE2_TO_Q4_1: Repacker = between::<MlxGroups<2>, Q4_1>();
pub(crate) static AFFINE3_TO_Q4_1: Repacker = between::<MlxGroups<3>, Q4_1>();
pub(crate) static AFFINE4_TO_Q4_1: Repacker = between::<MlxGroups<4>, Q4_1>();
pub(crate) static AFFINE5_TO_Q5_1: Repacker = between::<MlxGroups<5>, Q5_1>();
pub(crate) static AFFINE4_TO_Q4_0: Repacker = between::<MlxGroups<4>, Q4_0>();
pub(crate) static AFFINE5_TO_Q5_0: Repacker = between::<MlxGroups<5>, Q5_0>();
pub(crate) static AFFINE8_TO_Q8_0: Repacker = between::<MlxGroups<8>, Q8_0>();

const fn to_groups<F: Unpack, const BITS: usize>() -> Repacker {
    between::<F, MlxGroups<BITS>>()
}

const fn between<F: Unpack, T: Pack>() -> Repacker {
    Repacker(Kernels::of::<AffineRepack<F, T>>())
}

/// 32 codes, with the scale and bias that turn them into numbers.
struct CodeRun<S: Simd> {
    codes: S::Bytes,
    scale: f32,
    bias: f32,
}

/// The reason why a run cannot be repacked, and the number concerned.
type Fault = (&'static str, f32);

/// A run that was read; `None` after the last.
type Taken<S> = Option<Result<CodeRun<S>, Fault>>;

/// A packing that codes are read from.
trait Unpack {
    /// Reads run `number`.
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S>;
}

/// A packing that codes are written to.
trait Pack {
    /// Writes run `number`, if it fits.
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault>;
}

struct AffineRepack<F, T>(PhantomData<(F, T)>);

impl<F: Unpack, T: Pack> KernelBody<RepackKernel> for AffineRepack<F, T> {
    #[inline(always)]
    fn run<S: Simd>(simd: S, mut given: RepackInput<'_>) -> Option<NotExact> {
        for number in 0..given.elements / 32 {
            let put = F::take(simd, &given.from, number)?
                .and_then(|run| T::put(simd, &run, number, &mut given));
            if let Err((fault, value)) = put {
                return Some(NotExact { fault, value, element: 32 * number });
            }
        }
        None
    }
}

/// A run of codes with the values (q - zero) d, where d is an `f16` number.
#[inline(always)]
fn centred<S: Simd>(codes: S::Bytes, zero: f32, d: f32) -> Result<CodeRun<S>, Fault> {
    if d.is_infinite() {
        return Err(("an infinite scale, from which no bias can be computed", d));
    }
    Ok(CodeRun { codes, scale: d, bias: -zero * d })
}

/// The scale, as `f16`, of codes with the values (q - zero) d. The bias must be exactly -zero times
/// the scale.
#[inline(always)]
fn centre<S: Simd>(run: &CodeRun<S>, zero: f32) -> Result<[u8; 2], Fault> {
    // No multiple of infinity or NaN compares equal.
    if run.bias != -zero * run.scale || run.scale.is_infinite() {
        return Err(("a bias that is not the center of the codes", run.bias));
    }
    let scale = Float::F16.bytes_of(run.scale);
    let [low, high, ..] =
        scale.ok_or(("a scale that the target dtype cannot represent", run.scale))?;
    Ok([low, high])
}

/// The `f16` number at offset `at` of a block.
#[inline(always)]
fn half<S: Simd>(simd: S, bytes: &[u8], at: usize) -> f32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0.0, |b| simd.f16(u16::from_le_bytes(*b)))
}

/// Adds fifth bits to the nibbles of 32 codes.
#[inline(always)]
fn fifths<S: Simd>(simd: S, bits: &[u8; 4], nibbles: &[u8; 16]) -> S::Bytes {
    let fifths = simd.and(simd.spread(u32::from_le_bytes(*bits)), simd.fill(16));
    simd.or(simd.nibbles(nibbles), fifths)
}

/// 32 codes of `BITS` bits, from the start of `stream`.
#[inline(always)]
fn fields<S: Simd, const BITS: usize>(simd: S, stream: &[u8]) -> Option<S::Bytes> {
    Some(match BITS {
        1 => simd.and(simd.spread(u32::from_le_bytes(*stream.first_chunk()?)), simd.fill(1)),
        4 => simd.nibble_pairs(stream.first_chunk()?),
        8 => simd.bytes(stream.first_chunk()?),
        _ => {
            let mut codes = [0; 32];
            let eights = codes.as_chunks_mut::<8>().0.iter_mut();
            for (codes, bytes) in eights.zip(stream.get(..4 * BITS)?.chunks_exact(BITS)) {
                let mut word = [0; 8];
                word[..BITS].copy_from_slice(bytes);
                let word = u64::from_le_bytes(word);
                for (place, code) in codes.iter_mut().enumerate() {
                    *code = (word >> (place * BITS)).to_le_bytes()[0] & (u8::MAX >> (8 - BITS));
                }
            }
            simd.bytes(&codes)
        }
    })
}

struct Q4_0;

impl Unpack for Q4_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let bytes = block::<18>(from.weight, number)?;
        Some(centred(simd.nibbles(bytes.last_chunk()?), 8.0, half(simd, bytes, 0)))
    }
}

impl Pack for Q4_0 {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let scale = centre(run, 8.0)?;
        if let Some([d0, d1, codes @ ..]) = room::<18>(given.to.weight, number) {
            [*d0, *d1] = scale;
            simd.put_nibbles(run.codes, codes);
        }
        Ok(())
    }
}

struct Q4_1;

impl Unpack for Q4_1 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let bytes = block::<20>(from.weight, number)?;
        let (scale, bias) = (half(simd, bytes, 0), half(simd, bytes, 2));
        Some(Ok(CodeRun { codes: simd.nibbles(bytes.last_chunk()?), scale, bias }))
    }
}

impl Pack for Q4_1 {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let [scale, bias] = scaling(run, Float::F16)?;
        if let Some([d0, d1, m0, m1, codes @ ..]) = room::<20>(given.to.weight, number) {
            [*d0, *d1, ..] = scale;
            [*m0, *m1, ..] = bias;
            simd.put_nibbles(run.codes, codes);
        }
        Ok(())
    }
}

struct Q5_0;

impl Unpack for Q5_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let bytes = block::<22>(from.weight, number)?;
        let codes = fifths(simd, bytes[2..].first_chunk()?, bytes.last_chunk()?);
        Some(centred(codes, 16.0, half(simd, bytes, 0)))
    }
}

impl Pack for Q5_0 {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let scale = centre(run, 16.0)?;
        if let Some([d0, d1, h0, h1, h2, h3, codes @ ..]) = room::<22>(given.to.weight, number) {
            [*d0, *d1] = scale;
            [*h0, *h1, *h2, *h3] = simd.tops(simd.left::<3>(run.codes)).to_le_bytes();
            simd.put_nibbles(simd.and(run.codes, simd.fill(15)), codes);
        }
        Ok(())
    }
}

struct Q5_1;

impl Unpack for Q5_1 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let bytes = block::<24>(from.weight, number)?;
        let codes = fifths(simd, bytes[4..].first_chunk()?, bytes.last_chunk()?);
        Some(Ok(CodeRun { codes, scale: half(simd, bytes, 0), bias: half(simd, bytes, 2) }))
    }
}

impl Pack for Q5_1 {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let [scale, bias] = scaling(run, Float::F16)?;
        if let Some([d0, d1, m0, m1, h0, h1, h2, h3, codes @ ..]) =
            room::<24>(given.to.weight, number)
        {
            [*d0, *d1, ..] = scale;
            [*m0, *m1, ..] = bias;
            [*h0, *h1, *h2, *h3] = simd.tops(simd.left::<3>(run.codes)).to_le_bytes();
            simd.put_nibbles(simd.and(run.codes, simd.fill(15)), codes);
        }
        Ok(())
    }
}

/// Signed bytes become unsigned ones by adding 128.
struct Q8_0;

impl Unpack for Q8_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let bytes = block::<34>(from.weight, number)?;
        let codes = simd.xor(simd.bytes(bytes.last_chunk()?), simd.fill(0x80));
        Some(centred(codes, 128.0, half(simd, bytes, 0)))
    }
}

impl Pack for Q8_0 {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let scale = centre(run, 128.0)?;
        if let Some([d0, d1, codes @ ..]) = room::<34>(given.to.weight, number) {
            [*d0, *d1] = scale;
            simd.stream::<8>(simd.xor(run.codes, simd.fill(0x80)), codes);
        }
        Ok(())
    }
}

/// A 6-bit scale and a 6-bit minimum from 12 bytes, for sub-block `number`.
#[inline(always)]
fn sixes(bytes: &[u8], number: usize) -> Option<[f32; 2]> {
    let byte = |at: usize| bytes.get(at).copied();
    let [scale, minimum] = match number {
        0..4 => [byte(number)? & 63, byte(number + 4)? & 63],
        _ => {
            let low = byte(number + 4)?;
            [low & 15 | byte(number - 4)? >> 6 << 4, low >> 4 | byte(number)? >> 6 << 4]
        }
    };
    Some([scale, minimum].map(f32::from))
}

/// The scale and bias of a sub-block of `Q4_K` or `Q5_K`: `d sc` and `-dmin mn`, each of 17 bits.
#[inline(always)]
fn of_sub_block<S: Simd>(simd: S, bytes: &[u8], number: usize) -> Option<[f32; 2]> {
    let [scale, minimum] = sixes(bytes.get(4..)?, number)?;
    Some([half(simd, bytes, 0) * scale, -(half(simd, bytes, 2) * minimum)])
}

/// The low nibbles of 32 bytes, or the high ones.
#[inline(always)]
fn side<S: Simd>(simd: S, bytes: &[u8], at: usize, number: usize) -> Option<S::Bytes> {
    let codes = simd.bytes(bytes.get(at + number / 2 * 32..)?.first_chunk()?);
    Some(if number.is_multiple_of(2) {
        simd.and(codes, simd.fill(15))
    } else {
        simd.right::<4>(codes)
    })
}

struct Q4K;

impl Unpack for Q4K {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let (bytes, number) = (block::<144>(from.weight, number / 8)?, number % 8);
        let [scale, bias] = of_sub_block(simd, bytes, number)?;
        Some(Ok(CodeRun { codes: side(simd, bytes, 16, number)?, scale, bias }))
    }
}

struct Q5K;

impl Unpack for Q5K {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let (bytes, number) = (block::<176>(from.weight, number / 8)?, number % 8);
        let [scale, bias] = of_sub_block(simd, bytes, number)?;
        let bit = simd.and(simd.bytes(bytes[16..].first_chunk()?), simd.fill(1 << number));
        let fifth = simd.and(simd.at_least(bit, 1), simd.fill(16));
        Some(Ok(CodeRun { codes: simd.or(side(simd, bytes, 48, number)?, fifth), scale, bias }))
    }
}

struct TQ2_0;

impl Unpack for TQ2_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let (bytes, number) = (block::<66>(from.weight, number / 8)?, number % 8);
        let codes = simd.bytes(bytes[number / 4 * 32..].first_chunk()?);
        let codes = simd.and(planes(simd, codes)[number % 4], simd.fill(3));
        Some(centred(codes, 1.0, half(simd, bytes, 64)))
    }
}

/// d or -d: codes 0 and 1 with a step of 2 d.
struct Q1_0;

impl Unpack for Q1_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let (bytes, number) = (block::<18>(from.weight, number / 4)?, number % 4);
        let codes = fields::<S, 1>(simd, &bytes[2 + 4 * number..])?;
        Some(centred(codes, 0.5, 2.0 * half(simd, bytes, 0)))
    }
}

struct Q2_0;

impl Unpack for Q2_0 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let (bytes, number) = (block::<18>(from.weight, number / 2)?, number % 2);
        let codes = fields::<S, 2>(simd, &bytes[2 + 8 * number..])?;
        Some(centred(codes, 1.0, half(simd, bytes, 0)))
    }
}

/// The number of a group, in a part that has one for each group.
#[inline(always)]
fn of_group(bytes: &[u8], format: Float, group: usize) -> Option<f32> {
    let bytes = bytes.get(group * format.bytes()..).filter(|rest| rest.len() >= format.bytes())?;
    Some(format.value(bytes, |bits| Portable.f16(bits)))
}

/// compressed-tensors: words of nibbles with the values (q - 8) s. The scale may be any float, so
/// the products are checked.
struct CtInt4;

impl Unpack for CtInt4 {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let codes = fields::<S, 4>(simd, from.weight.get(16 * number..)?)?;
        let d = of_group(from.scale, from.formats.0, (32 * number).checked_div(from.group_size)?)?;
        let same = |q: u8| {
            let (q, bias) = (f32::from(q), -8.0 * d);
            let (is, was) = (q * d + bias, (q - 8.0) * d);
            is == was || is.is_nan() && was.is_nan()
        };
        let run = CodeRun { codes, scale: d, bias: -8.0 * d };
        Some((0..16).all(same).then_some(run).ok_or(("a scale whose products are rounded", d)))
    }
}

/// MLX: one stream of codes, with separate scales and biases.
struct MlxGroups<const BITS: usize>;

impl<const BITS: usize> Unpack for MlxGroups<BITS> {
    #[inline(always)]
    fn take<S: Simd>(simd: S, from: &Packed<'_>, number: usize) -> Taken<S> {
        let codes = fields::<S, BITS>(simd, from.weight.get(4 * BITS * number..)?)?;
        let group = (32 * number).checked_div(from.group_size)?;
        let scale = of_group(from.scale, from.formats.0, group)?;
        let bias = of_group(from.bias, from.formats.1, group)?;
        Some(Ok(CodeRun { codes, scale, bias }))
    }
}

impl<const BITS: usize> Pack for MlxGroups<BITS> {
    #[inline(always)]
    fn put<S: Simd>(
        simd: S,
        run: &CodeRun<S>,
        number: usize,
        given: &mut RepackInput<'_>,
    ) -> Result<(), Fault> {
        let GroupParts { weight, scale, bias } = &mut given.to;
        if (32 * number).is_multiple_of(given.group_size) {
            let width = given.format.bytes();
            let at = 32 * number / given.group_size * width;
            for (part, bytes) in [scale, bias].into_iter().zip(scaling(run, given.format)?) {
                if let Some(part) = part.get_mut(at..at + width) {
                    part.copy_from_slice(&bytes[..width]);
                }
            }
        }
        let mut bytes = [0; 32];
        simd.stream::<BITS>(run.codes, &mut bytes);
        if let Some(weight) = weight.get_mut(4 * BITS * number..4 * BITS * (number + 1)) {
            weight.copy_from_slice(&bytes[..4 * BITS]);
        }
        Ok(())
    }
}

/// The bytes of scale and bias in a format that represents both exactly.
#[inline(always)]
fn scaling<S: Simd>(run: &CodeRun<S>, format: Float) -> Result<[[u8; 4]; 2], Fault> {
    let scale = format
        .bytes_of(run.scale)
        .ok_or(("a scale that the target dtype cannot represent", run.scale))?;
    let bias = format
        .bytes_of(run.bias)
        .ok_or(("a bias that the target dtype cannot represent", run.bias))?;
    Ok([scale, bias])
}
