//! Rounding to plain dtypes: to nearest, ties to even.

use std::marker::PhantomData;

use half::{bf16, f16};
use zerocopy::IntoBytes;

use super::Simd;
use crate::body::Encode;
use crate::packed::QuantizerInput;
use crate::quantizer::{Importance, Quantizer};

pub(crate) static F32: Quantizer = of::<Wide>();
pub(crate) static F16: Quantizer = of::<Narrowed<Half>>();
pub(crate) static BF16: Quantizer = of::<Narrowed<Upper>>();

const fn of<E: Encode>() -> Quantizer {
    Quantizer::of::<E>(Importance::Ignored)
}

struct Wide;

impl Encode for Wide {
    #[inline(always)]
    fn encode<S: Simd>(_: S, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        for (out, value) in out.as_chunks_mut().0.iter_mut().zip(rows.values) {
            *out = value.to_le_bytes();
        }
    }
}

/// Rounds to 2 bytes.
trait Narrow {
    fn sixteen<S: Simd>(simd: S, values: &[f32; 16]) -> [u16; 16];
}

struct Narrowed<N>(PhantomData<N>);

impl<N: Narrow> Encode for Narrowed<N> {
    /// Converts 16 values at a time. What is beyond the last of them is left out.
    #[inline(always)]
    fn encode<S: Simd>(simd: S, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        let (values, rest) = rows.values.as_chunks::<16>();
        let (out, last) = out.as_chunks_mut::<32>();
        for (out, values) in out.iter_mut().zip(values) {
            out.copy_from_slice(N::sixteen(simd, values).map(u16::to_le).as_bytes());
        }
        let mut values = [0.0; 16];
        values[..rest.len()].copy_from_slice(rest);
        let words = N::sixteen(simd, &values).map(u16::to_le);
        last.copy_from_slice(&words.as_bytes()[..last.len()]);
    }
}

struct Half;

impl Narrow for Half {
    #[inline(always)]
    fn sixteen<S: Simd>(simd: S, values: &[f32; 16]) -> [u16; 16] {
        let mut halves = [f16::ZERO; 16];
        let values = simd.load(values);
        simd.put_f16::<false>(values, &mut halves);
        let bits = halves.map(f16::to_bits);
        if !simd.any(simd.differ(values, values)) {
            return bits;
        }
        // ggml keeps only the sign of a NaN.
        let nan = |bits: u16| bits & 0x7fff > 0x7c00;
        bits.map(|bits| if nan(bits) { bits & 0x8000 | 0x7e00 } else { bits })
    }
}

struct Upper;

impl Narrow for Upper {
    #[inline(always)]
    fn sixteen<S: Simd>(simd: S, values: &[f32; 16]) -> [u16; 16] {
        let mut uppers = [bf16::ZERO; 16];
        simd.put_bf16::<false>(simd.load(values), &mut uppers, true);
        uppers.map(bf16::to_bits)
    }
}
