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

mod arrays;
mod body;
mod codec;
pub mod dtype;
mod element;
mod error;
mod float;
mod ggml;
mod inputs;
mod kernel;
mod mlx;
mod narrowing;
mod packed;
mod panel;
mod plain;
mod product;
mod quantizer;
pub mod repack;
mod repacker;
mod runs;
mod scales;
mod scheme;
pub mod shape;
mod simd;
mod sums;
#[cfg(test)]
mod tests;

pub use half::{bf16, f16};

pub use arrays::{BlockScales, RowsDecode, SchemeArrays, StoredArray};
use codec::{Block, COARSE, FINE, Plain};
pub use codec::{Codec, Decoder, Rounding, Stores, narrow};
pub use dtype::DType;
pub use element::Element;
pub use error::{Error, ErrorKind, Result};
pub use float::Float;
pub(crate) use ggml::encode;
pub(crate) use ggml::*;
pub use ggml::{Codebook, codebook_words};
pub use inputs::Inputs;
pub(crate) use mlx::{
    AFFINE1, AFFINE2, AFFINE3, AFFINE4, AFFINE5, AFFINE6, AFFINE8, MXFP4 as MLX_MXFP4,
    MXFP8 as MLX_MXFP8, NVFP4 as MLX_NVFP4,
};
pub use mlx::{GroupQuantizer, largest_grid_code, pack_grids};
pub(crate) use mlx::{
    TO_AFFINE1, TO_AFFINE2, TO_AFFINE3, TO_AFFINE4, TO_AFFINE5, TO_AFFINE6, TO_AFFINE8, TO_MXFP4,
    TO_MXFP8, TO_NVFP4,
};
pub use narrowing::Narrowing;
pub use packed::{Global, GroupParts, Grouping, Packed, PackedRows, QuantizerInput};
pub use panel::InputPanels;
pub(crate) use plain::{
    BF16, BOOL, F4, F6_E2M3, F6_E3M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0, F16,
    F32, F64, I8, I16, I32, I64, U8, U16, U32, U64,
};
pub use product::{ProductRow, StridedRows, add_product, multiply_rows};
pub use quantizer::{Importance, Quantizer};
pub use repacker::NotExact;
pub use runs::Runs;
pub use scales::{ScaleFormat, Scales};
pub use scheme::scale_reach;
pub(crate) use scheme::{
    AWQ4, AWQ4_GEMV, BNB_FP4, BNB_INT8, BNB_NF4, CT_INT2, CT_INT3, CT_INT4, CT_INT5, CT_INT6,
    CT_INT7, CT_INT8, CT_MXFP6, GPTQ2, GPTQ2_V2, GPTQ3, GPTQ3_V2, GPTQ4, GPTQ4_V2, GPTQ8, GPTQ8_V2,
    HF_NVFP4_AWQ, SCALED_F8_E4M3, SCALED_F8_E4M3FNUZ, SCALED_F8_E5M2, SCALED_F8_E5M2FNUZ,
    SCALED_I8, SPARSE24,
};
pub use sums::{LANES, PAIR_LANES, PairSums, Sums, pair_sums, sums};
