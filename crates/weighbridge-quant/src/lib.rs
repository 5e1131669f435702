//! Decodes, quantizes and repacks the dtypes in which language models are stored: ggml's blocks, MLX's
//! groups, the plain floats and integers of safetensors, and the schemes of GPTQ, AWQ, compressed-tensors,
//! ModelOpt, bitsandbytes and FP8 checkpoints. This crate works on bytes and knows no files.
//!
//! [`DTYPES`](dtype::DTYPES) has one row for each dtype.
//!
//! ```
//! use weighbridge_quant::DType;
//!
//! # fn main() -> weighbridge_quant::Result<()> {
//! // Two rows of 64 values.
//! let values: Vec<f32> = (0..128).map(|n| n as f32 / 64.0 - 1.0).collect();
//! let mut blocks = vec![0; 2 * 2 * 34];
//! DType::Q8_0.quantize_rows(&values, 64, None, &mut blocks)?;
//!
//! let mut back = vec![0.0f32; 128];
//! DType::Q8_0.dequantize_rows(&blocks, 64, &mut back)?;
//! assert!(values.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.005));
//! # Ok(())
//! # }
//! ```
//!
//! Quantized bytes are bit for bit those of ggml's default build for x86-64, and of MLX. Decoded values
//! are those of gguf-py and MLX. Kernels exist for AVX2, AVX-512 and NEON; the processor is asked at run
//! time, and all of them give the same bits.
//!
//! ```text
//!  Packed ──Decode::decode──▶ 16 floats at a time ──Out──▶ f32, f16 or bf16; cached or streaming
//!  (bytes)  (one body per dtype, written in Simd's operations)
//! ```
#![deny(missing_docs)]

pub mod dtype;
mod element;
mod error;
mod float;
mod ggml;
mod integer;
mod kernel;
mod mlx;
mod product;
mod quantizer;
pub mod repack;
mod repacker;
mod scheme;
pub mod shape;
mod simd;
mod sums;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

pub use half::{bf16, f16};

pub use dtype::DType;
pub use element::{Element, Narrowing};
pub use error::{Error, ErrorKind, Result};
pub use float::Float;
pub(crate) use float::{
    BF16, F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0, F16, F32, F64,
};
pub(crate) use ggml::encode;
pub(crate) use ggml::*;
pub use ggml::{Codebook, codebook_words};
pub(crate) use integer::{BOOL, I8, I16, I32, I64, U8, U16, U32, U64};
use kernel::{Decode, InputProducts, Kernels, Multiply, Out, Product, Put, ValueDecoding};
pub(crate) use mlx::{
    AFFINE1, AFFINE2, AFFINE3, AFFINE4, AFFINE5, AFFINE6, AFFINE8, MXFP4 as MLX_MXFP4,
    MXFP8 as MLX_MXFP8, NVFP4 as MLX_NVFP4,
};
pub use mlx::{GroupParts, GroupQuantizer, Grouping};
pub(crate) use mlx::{
    TO_AFFINE1, TO_AFFINE2, TO_AFFINE3, TO_AFFINE4, TO_AFFINE5, TO_AFFINE6, TO_AFFINE8, TO_MXFP4,
    TO_MXFP8, TO_NVFP4,
};
pub use product::multiply_rows;
pub use product::{ProductRow, add_product};
pub use quantizer::{Importance, Quantizer, QuantizerInput};
pub use repacker::NotExact;
pub use scheme::BlockScales;
pub(crate) use scheme::{
    AWQ4, BNB_FP4, BNB_INT8, BNB_NF4, CT_INT2, CT_INT3, CT_INT4, CT_INT5, CT_INT6, CT_INT7,
    CT_INT8, GPTQ2, GPTQ2_V2, GPTQ3, GPTQ3_V2, GPTQ4, GPTQ4_V2, GPTQ8, GPTQ8_V2, HF_NVFP4_AWQ,
    SCALED_F8_E4M3, SCALED_F8_E4M3FNUZ, SCALED_F8_E5M2, SCALED_F8_E5M2FNUZ, SCALED_I8,
};
pub use scheme::{RowsDecode, SchemeArrays, StoredArray, scale_reach};
use simd::Simd;
pub use sums::{LANES, Sums, sums};

/// Decodes the values of one dtype.
#[derive(Debug)]
pub struct Codec(pub Decoder);

/// The decoding method of a dtype.
#[derive(Debug)]
pub enum Decoder {
    /// Decodes a run of blocks or groups, starting anywhere in a tensor.
    Runs(Runs),
    /// Decodes by rows, with all parts of the tensor: codes are packed across rows, or each row has
    /// to find its own scales.
    Rows(RowsDecode),
}

/// The kernels of a dtype whose values are decoded in runs.
#[derive(Debug)]
pub struct Runs {
    to_f32: Kernels<ValueDecoding<f32>>,
    /// `None` if values are decoded to `f32` first.
    to_f16: Option<Kernels<ValueDecoding<f16>>>,
    /// See `to_f16`.
    to_bf16: Option<Kernels<ValueDecoding<bf16>>>,
    /// Multiplies rows with inputs.
    products: Option<Kernels<InputProducts>>,
    /// Decodes with the rounding of the format's own library, if it differs.
    native: Option<fn(&Packed<'_>, &mut [f32])>,
    /// Counts the values that are lost in the conversion to `f32`.
    lost: Option<fn(&Packed<'_>) -> Narrowing>,
}

/// The bytes of one or more whole blocks or groups.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// Blocks, or packed elements.
    pub weight: &'a [u8],
    /// A scale for each group; for rows that start with bytes of their own, those of the row.
    pub scale: &'a [u8],
    /// A bias for each group, or empty.
    pub bias: &'a [u8],
    /// The number formats of scales and biases.
    pub formats: (Float, Float),
    /// The number of elements of a group.
    pub group_size: usize,
    /// The global scale, by which all scales are multiplied or divided.
    pub global: Global,
}

/// A global scale: a number for a whole tensor, in addition to the scales of its groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Global {
    /// No global scale.
    None,
    /// Scales are multiplied by it (ModelOpt, Ollama); in ggml's blocks, values are.
    Factor(f32),
    /// Scales are divided by it (compressed-tensors).
    Divisor(f32),
}

/// The largest product of a scale and an element: 448 times 6.
const REACH: f32 = 2688.0;

impl Global {
    /// The factor for MLX, which stores the largest magnitude of the tensor instead.
    pub fn of_amax(amax: f32) -> Self {
        Self::Factor(amax / REACH)
    }

    /// The largest magnitude from which MLX computes exactly this factor, if there is one: about
    /// every sixth factor has none.
    pub fn amax(self) -> Option<f32> {
        let Self::Factor(factor) = self else { return None };
        let near = factor * REACH;
        let made = |amax: &f32| (amax / REACH).to_bits() == factor.to_bits();
        [near, near.next_down(), near.next_up()].into_iter().find(made)
    }

    #[inline(always)]
    fn applied(self, scale: f32) -> f32 {
        match self {
            Self::None => scale,
            Self::Factor(factor) => scale * factor,
            Self::Divisor(divisor) => scale / divisor,
        }
    }
}

impl Packed<'_> {
    /// Wraps blocks or plain elements, without other parts.
    pub fn blocks(weight: &[u8]) -> Packed<'_> {
        let formats = (Float::F32, Float::F32);
        Packed { weight, scale: &[], bias: &[], formats, group_size: 1, global: Global::None }
    }
}

/// When decoded values are rounded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Rounding {
    /// Each product and sum is rounded to `f32`; a narrower output is rounded once more.
    #[default]
    F32,
    /// As in the library that made the format. MLX computes in the dtype of the scales, so each
    /// product and sum is rounded to that, or to `bf16` if scales are small floats. The same holds
    /// for the dtypes that share its format, `HF_MXFP4` and `HF_NVFP4`. For other dtypes this
    /// equals [`F32`](Self::F32).
    Native,
}

impl Runs {
    /// Fills `out` with the products of rows with one row of inputs, whose length is a multiple of
    /// 16 and of a block. Sums are `f32`, and their order is the same on every processor. `false` if
    /// there is no kernel for it.
    pub fn multiply(&self, packed: &Packed<'_>, input: &[f32], out: &mut [f32]) -> bool {
        let Some(products) = &self.products else { return false };
        products.run((packed, input, out));
        true
    }

    /// Fills `out` with values, and counts those that did not survive rounding to `T`.
    pub fn decode<T: Element>(
        &self,
        packed: &Packed<'_>,
        out: &mut [T],
        rounding: Rounding,
        past: bool,
    ) -> Narrowing {
        if let (Rounding::Native, Some(native)) = (rounding, self.native) {
            let mut exact = vec![0.0; out.len()];
            native(packed, &mut exact);
            return narrow(&exact, out);
        }
        let mut lost = self.lost.map_or_else(Narrowing::default, |lost| lost(packed));
        let Some(kernels) = T::decoders(self) else {
            let mut exact = vec![0.0; out.len()];
            self.to_f32.run((packed, &mut exact, false));
            lost += narrow(&exact, out);
            return lost;
        };
        let doubtful = kernels.run((packed, out, past));
        if let (true, Some(bounds)) = (doubtful, T::BOUNDS) {
            let mut exact = vec![0.0; out.len()];
            self.to_f32.run((packed, &mut exact, false));
            lost.look(&exact, bounds);
        }
        lost
    }
}

/// Rounds values, and counts those that did not survive it.
pub fn narrow<T: Element>(exact: &[f32], out: &mut [T]) -> Narrowing {
    for (out, exact) in out.iter_mut().zip(exact) {
        *out = T::round(*exact);
    }
    let mut lost = Narrowing::default();
    if let Some(bounds) = T::BOUNDS {
        lost.look(exact, bounds);
    }
    lost
}

impl Codec {
    const fn blocks<B: Block<BYTES>, const BYTES: usize, const UNITS: usize>() -> Self {
        let products = Some(Kernels::of::<BlockDecoder<B, BYTES, UNITS>>());
        Self(Decoder::Runs(Runs { products, ..Runs::of::<BlockDecoder<B, BYTES, UNITS>>() }))
    }

    const fn plain<P: Plain<WIDE>, const WIDE: usize>() -> Self {
        let products = Some(Kernels::of::<Elements<P, WIDE>>());
        Self(Decoder::Runs(Runs { products, ..Runs::of::<Elements<P, WIDE>>() }))
    }

    /// Elements that weights seldom have.
    const fn seldom<P: Plain<WIDE>, const WIDE: usize>() -> Self {
        Self(Decoder::Runs(Runs::seldom::<Elements<P, WIDE>>()))
    }

    const fn groups<D: Decode>(native: fn(&Packed<'_>, &mut [f32])) -> Self {
        Self(Decoder::Runs(Runs { native: Some(native), ..Runs::of::<D>() }))
    }
}

/// Decodes one block of `BYTES` bytes.
trait Block<const BYTES: usize> {
    /// Whether values may lie between 0 and 2^-24, so that rounding could turn them into 0, and be
    /// infinite or NaN, whatever the body says with [`Put::half`] and its like. They cannot lie there if
    /// they are computed only from `f16` numbers and integers: every `f16` number is a multiple of
    /// 2^-24, and so are products, sums and differences, however they round. Nor can they if none but 0
    /// is smaller than the scale.
    const FINE: bool;

    fn block<S: Simd>(simd: S, bytes: &[u8; BYTES], head: &[u8], out: &mut (impl Put<S> + ?Sized));
}

/// Decodes one block: by a copy of the body for this consumer, or by one that all consumers share.
#[inline(always)]
fn block<B: Block<BYTES>, S: Simd, const BYTES: usize>(
    simd: S,
    bytes: &[u8; BYTES],
    head: &[u8],
    out: &mut impl Put<S>,
) {
    #[inline(never)]
    fn shared<B: Block<BYTES>, S: Simd, const BYTES: usize>(
        simd: S,
        bytes: &[u8; BYTES],
        head: &[u8],
        out: &mut dyn Put<S>,
    ) {
        B::block(simd, bytes, head, out);
    }
    if S::IS_FALLBACK {
        shared::<B, S, BYTES>(simd, bytes, head, out);
    } else {
        B::block(simd, bytes, head, out);
    }
}

/// Decodes blocks of `BYTES` bytes and `UNITS` times 16 values.
struct BlockDecoder<B, const BYTES: usize, const UNITS: usize>(PhantomData<B>);

impl<B: Block<BYTES>, const BYTES: usize, const UNITS: usize> Decode
    for BlockDecoder<B, BYTES, UNITS>
{
    #[inline(always)]
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>) {
        let simd = out.simd;
        let (blocks, _) = packed.weight.as_chunks::<BYTES>();
        let (runs, mut units, rest) = out.runs::<UNITS>();
        for (bytes, run) in blocks.iter().zip(runs) {
            (units.close, units.out) = (B::FINE, run);
            units.fetch_behind(bytes);
            block::<B, S, BYTES>(simd, bytes, packed.scale, &mut units);
        }
        rest.saw(&units);
    }
}

impl<B: Block<BYTES>, const BYTES: usize, const UNITS: usize> Multiply
    for BlockDecoder<B, BYTES, UNITS>
{
    #[inline(always)]
    fn multiply<S: Simd>(simd: S, packed: &Packed<'_>, input: &[f32], out: &mut [f32]) {
        let (blocks, _) = packed.weight.as_chunks::<BYTES>();
        let (inputs, _) = input.as_chunks::<16>().0.as_chunks::<UNITS>();
        for (blocks, out) in blocks.chunks_exact(inputs.len().max(1)).zip(out) {
            let mut product = Product::new(simd);
            for (bytes, inputs) in blocks.iter().zip(inputs) {
                simd.fetch_behind(bytes);
                product.inputs = inputs;
                block::<B, S, BYTES>(simd, bytes, packed.scale, &mut product);
            }
            *out = product.total();
        }
    }
}

/// Declares codecs of block dtypes: the bytes and the elements of a block, COARSE or FINE values
/// (see [`Block::FINE`]), and the body.
macro_rules! blocks {
    ($(
        $(#[$doc:meta])*
        $name:ident: $bytes:literal => $elements:literal $grain:ident, |$simd:ident, $block:pat_param, $out:ident $(, $head:ident)?| $body:block
    )*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Codec = {
            struct Body;
            impl $crate::Block<$bytes> for Body {
                const FINE: bool = $crate::$grain;

                #[inline(always)]
                #[allow(unused_variables, reason = "few dtypes start rows with a number")]
                fn block<S: $crate::simd::Simd>(
                    $simd: S,
                    $block: &[u8; $bytes],
                    head: &[u8],
                    $out: &mut (impl $crate::kernel::Put<S> + ?Sized),
                ) {
                    $(let $head = head;)?
                    $body
                }
            }
            $crate::Codec::blocks::<Body, $bytes, { $elements / 16 }>()
        };
    )*};
}
use blocks;

/// Values without fine steps, for `blocks!` and `plain!`: see [`Block::FINE`].
const COARSE: bool = false;
const FINE: bool = true;

/// Converts 16 elements of `WIDE` bytes in total.
trait Plain<const WIDE: usize> {
    /// Whether values may not survive rounding to `f16` or `bf16`.
    const FINE: bool;

    fn sixteen<S: Simd>(simd: S, bytes: &[u8; WIDE]) -> S::Floats;
}

/// Decodes consecutive elements, 16 of which fill `WIDE` bytes.
struct Elements<P, const WIDE: usize>(PhantomData<P>);

impl<P: Plain<WIDE>, const WIDE: usize> Decode for Elements<P, WIDE> {
    #[inline(always)]
    fn decode<S: Simd, T: Element>(packed: &Packed<'_>, out: Out<'_, S, T>) {
        let simd = out.simd;
        let (sixteens, last) = packed.weight.as_chunks::<WIDE>();
        let (runs, mut units, rest) = out.runs::<2>();
        let (pairs, odd) = sixteens.split_at(sixteens.len().min(2 * runs.len()));
        (units.close, units.nan) = (P::FINE, true);
        for (pair, run) in pairs.as_chunks::<2>().0.iter().zip(runs) {
            units.out = run;
            units.fetch_behind(pair.as_flattened());
            units.pair(0, [P::sixteen(simd, &pair[0]), P::sixteen(simd, &pair[1])]);
        }
        // At most one.
        let (runs, mut units, rest) = rest.saw(&units).runs::<1>();
        for (bytes, run) in odd.iter().zip(runs) {
            units.out = run;
            units.put(0, P::sixteen(simd, bytes));
        }
        let rest = rest.saw(&units);
        if rest.len() > 0 {
            let mut bytes = [0; WIDE];
            let len = last.len().min(WIDE);
            bytes[..len].copy_from_slice(&last[..len]);
            rest.rest(P::sixteen(simd, &bytes));
        }
    }
}

impl<P: Plain<WIDE>, const WIDE: usize> Multiply for Elements<P, WIDE> {
    #[inline(always)]
    fn multiply<S: Simd>(simd: S, packed: &Packed<'_>, input: &[f32], out: &mut [f32]) {
        let (sixteens, _) = packed.weight.as_chunks::<WIDE>();
        let (inputs, _) = input.as_chunks::<16>();
        for (row, out) in sixteens.chunks_exact(inputs.len().max(1)).zip(out) {
            let mut product = Product::new(simd);
            // As many at a time as there are sums.
            for (row, inputs) in row.chunks(4).zip(inputs.chunks(4)) {
                product.inputs = inputs;
                for (number, bytes) in row.iter().enumerate() {
                    simd.fetch_behind(bytes);
                    product.put(number, P::sixteen(simd, bytes));
                }
            }
            *out = product.total();
        }
    }
}

/// Declares codecs of plain dtypes: the constructor, the bytes of 16 elements, COARSE or FINE values
/// (see [`Plain::FINE`]), and their conversion to floats.
macro_rules! plain {
    ($codec:ident: $($(#[$doc:meta])* $name:ident: $wide:literal $grain:ident, |$simd:ident, $bytes:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) static $name: $crate::Codec = {
            struct Body;
            impl $crate::Plain<$wide> for Body {
                const FINE: bool = $crate::$grain;

                #[inline(always)]
                fn sixteen<S: $crate::simd::Simd>(
                    $simd: S,
                    $bytes: &[u8; $wide],
                ) -> S::Floats {
                    $body
                }
            }
            $crate::Codec::$codec::<Body, $wide>()
        };
    )*};
}
use plain;
