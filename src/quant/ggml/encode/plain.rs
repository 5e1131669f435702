//! Rounding to plain dtypes: to nearest, ties to even.

use half::{bf16, f16};

use super::Simd;
use crate::quant::kernel::Encode;
use crate::quant::quantizer::{Importance, Quantizer, QuantizerInput};

pub(crate) static F32: Quantizer = of::<Wide>();
pub(crate) static F16: Quantizer = of::<Half>();
pub(crate) static BF16: Quantizer = of::<Upper>();

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

/// Converts 16 values at a time, and the last ones with `one`.
#[inline(always)]
fn narrow<S: Simd>(
    rows: &QuantizerInput<'_>,
    out: &mut [u8],
    sixteen: impl Fn(&[f32; 16]) -> [u16; 16],
) {
    let (values, rest) = rows.values.as_chunks::<16>();
    let (out, last) = out.as_chunks_mut::<32>();
    for (out, values) in out.iter_mut().zip(values) {
        for (out, bits) in out.as_chunks_mut().0.iter_mut().zip(sixteen(values)) {
            *out = bits.to_le_bytes();
        }
    }
    let mut values = [0.0; 16];
    values[..rest.len()].copy_from_slice(rest);
    for (out, bits) in last.as_chunks_mut().0.iter_mut().zip(sixteen(&values)) {
        *out = bits.to_le_bytes();
    }
}

struct Half;

impl Encode for Half {
    #[inline(always)]
    fn encode<S: Simd>(simd: S, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        narrow::<S>(rows, out, |values| {
            let mut halves = [f16::ZERO; 16];
            let values = simd.load(values);
            simd.put_f16::<false>(values, &mut halves);
            let mut bits = halves.map(f16::to_bits);
            if simd.any(simd.differ(values, values)) {
                // ggml keeps only the sign of a NaN.
                let nan = |bits: u16| bits & 0x7fff > 0x7c00;
                bits = bits.map(|bits| if nan(bits) { bits & 0x8000 | 0x7e00 } else { bits });
            }
            bits
        });
    }
}

struct Upper;

impl Encode for Upper {
    #[inline(always)]
    fn encode<S: Simd>(simd: S, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        narrow::<S>(rows, out, |values| {
            let mut uppers = [bf16::ZERO; 16];
            simd.put_bf16::<false>(simd.load(values), &mut uppers, true);
            uppers.map(bf16::to_bits)
        });
    }
}
