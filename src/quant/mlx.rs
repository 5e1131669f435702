//! Groups of MLX: packed elements in one array, scales and biases in others.
//!
//! Each row is one stream of bits, least significant first; an element takes the next `bits` of it.
//! Each product and sum rounds to `f32` on its own. That is what MLX gives when scales and biases
//! are `f32`; in their own dtype it rounds twice, which [`Rounding::Native`](super::Rounding) does.

use half::{bf16, f16};

use super::element::Element;
use super::float::{E2M1, Float, e4m3};
use super::kernel::{Decode, Out, Put};
use super::simd::{Portable, Simd};
use super::{Codec, Global, Packed};

pub(crate) static AFFINE1: Codec = Codec::groups::<Groups<Affine<1>>>(native::<Affine<1>>);
pub(crate) static AFFINE2: Codec = Codec::groups::<Groups<Affine<2>>>(native::<Affine<2>>);
pub(crate) static AFFINE3: Codec = Codec::groups::<Groups<Affine<3>>>(native::<Affine<3>>);
pub(crate) static AFFINE4: Codec = Codec::groups::<Groups<Affine<4>>>(native::<Affine<4>>);
pub(crate) static AFFINE5: Codec = Codec::groups::<Groups<Affine<5>>>(native::<Affine<5>>);
pub(crate) static AFFINE6: Codec = Codec::groups::<Groups<Affine<6>>>(native::<Affine<6>>);
pub(crate) static AFFINE8: Codec = Codec::groups::<Groups<Affine<8>>>(native::<Affine<8>>);
pub(crate) static MXFP4: Codec = Codec::groups::<Groups<E2m1>>(native::<E2m1>);
pub(crate) static MXFP8: Codec = Codec::groups::<Groups<E4m3>>(native::<E4m3>);
pub(crate) static NVFP4: Codec = Codec::groups::<Groups<E2m1>>(native::<E2m1>);

/// The elements of a mode.
trait Mode {
    const BITS: usize;

    /// Whether a term is added to each group.
    const BIASED: bool;

    /// 32 elements, from the start of `bytes`.
    fn elements<S: Simd>(simd: S, bytes: &[u8]) -> [S::Floats; 2];

    /// One element.
    fn element(code: u8) -> f32;
}

/// Unsigned integers.
struct Affine<const BITS: usize>;

impl<const BITS: usize> Mode for Affine<BITS> {
    const BITS: usize = BITS;
    const BIASED: bool = true;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, bytes: &[u8]) -> [S::Floats; 2] {
        match BITS {
            4 => simd.unsigned(simd.nibble_pairs(&first(bytes))),
            8 => simd.unsigned(simd.bytes(&first(bytes))),
            _ => [0, 2 * BITS]
                .map(|at| simd.codes::<BITS, 0>(&first(bytes.get(at..).unwrap_or_default()))),
        }
    }

    fn element(code: u8) -> f32 {
        f32::from(code)
    }
}

/// Floats of four bits.
struct E2m1;

impl Mode for E2m1 {
    const BITS: usize = 4;
    const BIASED: bool = false;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, bytes: &[u8]) -> [S::Floats; 2] {
        simd.entries(&E2M1, simd.nibble_pairs(&first(bytes)))
    }

    fn element(code: u8) -> f32 {
        E2M1[usize::from(code & 15)]
    }
}

/// Floats of eight bits.
struct E4m3;

impl Mode for E4m3 {
    const BITS: usize = 8;
    const BIASED: bool = false;

    #[inline(always)]
    fn elements<S: Simd>(simd: S, bytes: &[u8]) -> [S::Floats; 2] {
        simd.e4m3(simd.bytes(&first(bytes)))
    }

    fn element(code: u8) -> f32 {
        e4m3(code)
    }
}

/// The first bytes, and zeros where there are no more.
#[inline(always)]
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut padded = [0; N];
        padded[..bytes.len()].copy_from_slice(bytes);
        padded
    })
}

/// Value: q scale + bias, or q (scale global); the scale divided where the global is a divisor.
struct Groups<M>(std::marker::PhantomData<M>);

impl<M: Mode> Decode for Groups<M> {
    #[inline(always)]
    fn decode<S: Simd, T: Element, const PAST: bool>(
        packed: &Packed<'_>,
        out: Out<'_, S, T, PAST>,
    ) {
        let simd = out.simd;
        let (scales, biases) = packed.formats;
        let number = |bytes: &[u8], format: Float, group: usize| {
            let at = group * format.bytes();
            format.value(bytes.get(at..).unwrap_or_default(), |bits| simd.f16(bits))
        };
        // The values of 16 elements, by the number of their group.
        let value = |elements: S::Floats, group: usize| {
            let scale = number(packed.scale, scales, group);
            if M::BIASED {
                let bias = simd.splat(number(packed.bias, biases, group));
                simd.add(simd.mul(elements, simd.splat(scale)), bias)
            } else {
                simd.mul(elements, simd.splat(packed.global.applied(scale)))
            }
        };
        let bytes = |from: usize| packed.weight.get(from..).unwrap_or_default();
        let len = out.len();
        let each = packed.group_size;
        // Groups are as long as 16 elements, or a multiple of 32.
        if each >= 32 {
            let runs = each / 32;
            let starts = (0..len / 32).map(|run| (bytes(run * 4 * M::BITS), run / runs));
            out.blocks::<_, 2>(starts, |simd, (bytes, group), out| {
                out.pair(0, M::elements(simd, bytes).map(|elements| value(elements, group)));
            });
        } else {
            let pairs = (0..len / 32).map(|run| (bytes(run * 4 * M::BITS), 2 * run));
            let rest = out.blocks::<_, 2>(pairs, |simd, (bytes, group), out| {
                let [a, b] = M::elements(simd, bytes);
                out.pair(0, [value(a, group), value(b, group + 1)]);
            });
            let one = len / 32 * 2;
            rest.blocks::<_, 1>([bytes(one * 2 * M::BITS)].into_iter(), |simd, bytes, out| {
                out.put(0, value(M::elements(simd, bytes)[0], one));
            });
        }
    }
}

/// Values as MLX's CPU backend computes them: in the dtype of scales and biases, or in `bf16` where
/// scales are small floats, each operation rounded. A global scale makes it work in `f32`.
fn native<M: Mode>(packed: &Packed<'_>, out: &mut [f32]) {
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
    for (group, out) in out.chunks_mut(packed.group_size).enumerate() {
        let scale = packed.global.applied(number(packed.scale, packed.formats.0, group));
        let bias = if M::BIASED { number(packed.bias, packed.formats.1, group) } else { 0.0 };
        for (place, out) in out.iter_mut().enumerate() {
            let bit = (group * packed.group_size + place) * M::BITS;
            let bytes = first(packed.weight.get(bit / 8..).unwrap_or_default());
            let [code, _] = (u16::from_le_bytes(bytes) >> (bit % 8)).to_le_bytes();
            let product = round(M::element(code & mask) * scale);
            *out = if M::BIASED { round(product + bias) } else { product };
        }
    }
}
