//! The table of dtypes: one row each, with layout, names and codec.

use std::fmt;

use crate::error::{Error, Result};
use crate::shape;
use crate::{
    Codec, Decoder, Element, GroupQuantizer, Importance, Packed, Quantizer, QuantizerInput,
    Rounding, ScaleFormat, Scales, Stores,
};

/// The arrangement of a dtype's elements in memory.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Packing {
    /// Consecutive elements of a fixed size.
    Plain,
    /// Blocks of elements that contain their own scales (ggml).
    Block,
    /// Packed elements. Scales and biases are separate parts, with one value for each group (MLX).
    Group,
}

/// The facts about one dtype, a row of [`DTYPES`].
#[derive(Debug)]
#[non_exhaustive]
pub struct DTypeDescriptor {
    /// The dtype of this row.
    pub dtype: DType,
    /// The name, in the spelling of ggml, safetensors or MLX.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// The arrangement of elements in memory.
    pub packing: Packing,
    /// The elements of the smallest run that fills whole bytes: a block's elements, or 1 if each
    /// element does.
    pub block_len: u32,
    /// The bytes of such a run.
    pub block_bytes: u32,
    /// The bytes at the start of each row, before its blocks. Only some of ik_llama.cpp's types
    /// have them.
    pub row_head: u32,
    /// The type code in a GGUF tensor entry.
    pub ggml: Option<u32>,
    /// The name in a safetensors header.
    pub safetensors: Option<&'static str>,
    /// The `(width, count)` of the numbers that make up a block, in order; a big-endian file stores
    /// each of them with reversed bytes. Empty if no big-endian form is known.
    pub units: &'static [(u8, u16)],
    /// The numbers that scale a block, or the part of a group's scales that is stored as `U8`.
    pub scales: Option<Scales>,
    /// Computes values; `None` if this library cannot read the dtype's values.
    pub codec: Option<&'static Codec>,
    /// Chooses codes for values; `None` if this library cannot quantize to the dtype.
    pub quantizer: Option<&'static Quantizer>,
    /// Chooses codes for values, for dtypes whose parts are separate.
    pub group_quantizer: Option<&'static GroupQuantizer>,
}

/// Whether quantizers are part of the program.
const QUANTIZE: bool = cfg!(feature = "quantize");

macro_rules! dtypes {
    ($(
        #[doc = $doc:literal]
        $name:ident: $packing:ident, $len:literal => $bytes:literal $(+ $head:literal)?,
        ggml $ggml:expr, safetensors $safetensors:expr, units [$($unit:expr),*], $codec:expr
        $(, rows $quantizer:expr)? $(, groups $group_quantizer:expr)?
        $(, scales $scale:ident [$($place:literal),*])?;
    )*) => {
        /// The form in which a tensor's elements are stored.
        #[allow(non_camel_case_types, reason = "spelled as ggml, safetensors and MLX spell them")]
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = $doc] $name,)*
        }

        /// All dtypes, in the order of the enum.
        pub static DTYPES: &[DTypeDescriptor] = &[$(DTypeDescriptor {
            dtype: DType::$name,
            name: stringify!($name),
            summary: $doc.trim_ascii(),
            packing: Packing::$packing,
            block_len: $len,
            block_bytes: $bytes,
            row_head: 0 $(+ $head)?,
            ggml: $ggml,
            safetensors: $safetensors,
            units: &[$($unit),*],
            codec: $codec,
            scales: [$(Some(Scales { format: ScaleFormat::$scale, places: &[$($place),*] }),)? None][0],
            quantizer: if QUANTIZE { [$(Some(&$quantizer),)? None][0] } else { None },
            group_quantizer: if QUANTIZE { [$(Some(&$group_quantizer),)? None][0] } else { None },
        }),*];
    };
}

#[rustfmt::skip]
dtypes! {
    /// IEEE single precision.
    F32:          Plain,   1 =>   4    , ggml Some(0),   safetensors Some("F32"),         units [(4, 1)], Some(&crate::F32), rows crate::encode::F32;
    /// IEEE half precision.
    F16:          Plain,   1 =>   2    , ggml Some(1),   safetensors Some("F16"),         units [(2, 1)], Some(&crate::F16), rows crate::encode::F16;
    /// The upper half of an `F32`: 8 bits of exponent, 7 of fraction.
    BF16:         Plain,   1 =>   2    , ggml Some(30),  safetensors Some("BF16"),        units [(2, 1)], Some(&crate::BF16), rows crate::encode::BF16;
    /// IEEE double precision.
    F64:          Plain,   1 =>   8    , ggml Some(28),  safetensors Some("F64"),         units [(8, 1)], Some(&crate::F64);
    /// Signed 8-bit integer.
    I8:           Plain,   1 =>   1    , ggml Some(24),  safetensors Some("I8"),          units [(1, 1)], Some(&crate::I8);
    /// Signed 16-bit integer.
    I16:          Plain,   1 =>   2    , ggml Some(25),  safetensors Some("I16"),         units [(2, 1)], Some(&crate::I16);
    /// Signed 32-bit integer.
    I32:          Plain,   1 =>   4    , ggml Some(26),  safetensors Some("I32"),         units [(4, 1)], Some(&crate::I32);
    /// Signed 64-bit integer.
    I64:          Plain,   1 =>   8    , ggml Some(27),  safetensors Some("I64"),         units [(8, 1)], Some(&crate::I64);
    /// Unsigned 8-bit integer.
    U8:           Plain,   1 =>   1    , ggml None,      safetensors Some("U8"),          units [(1, 1)], Some(&crate::U8);
    /// Unsigned 16-bit integer.
    U16:          Plain,   1 =>   2    , ggml None,      safetensors Some("U16"),         units [(2, 1)], Some(&crate::U16);
    /// Unsigned 32-bit integer.
    U32:          Plain,   1 =>   4    , ggml None,      safetensors Some("U32"),         units [(4, 1)], Some(&crate::U32);
    /// Unsigned 64-bit integer.
    U64:          Plain,   1 =>   8    , ggml None,      safetensors Some("U64"),         units [(8, 1)], Some(&crate::U64);
    /// One byte each; 0 is false.
    BOOL:         Plain,   1 =>   1    , ggml None,      safetensors Some("BOOL"),        units [(1, 1)], Some(&crate::BOOL);
    /// Complex number of two `F32`.
    C64:          Plain,   1 =>   8    , ggml None,      safetensors Some("C64"),         units [(4, 2)], None;
    /// 8-bit float, 4 bits of exponent, no infinities.
    F8_E4M3:      Plain,   1 =>   1    , ggml None,      safetensors Some("F8_E4M3"),     units [(1, 1)], Some(&crate::F8_E4M3);
    /// 8-bit float, 5 bits of exponent, with infinities.
    F8_E5M2:      Plain,   1 =>   1    , ggml None,      safetensors Some("F8_E5M2"),     units [(1, 1)], Some(&crate::F8_E5M2);
    /// A power of two: 8 bits of exponent only.
    F8_E8M0:      Plain,   1 =>   1    , ggml None,      safetensors Some("F8_E8M0"),     units [(1, 1)], Some(&crate::F8_E8M0);
    /// 8-bit float, 4 bits of exponent, bias 8, one NaN and no negative zero.
    F8_E4M3FNUZ:  Plain,   1 =>   1    , ggml None,      safetensors Some("F8_E4M3FNUZ"), units [(1, 1)], Some(&crate::F8_E4M3FNUZ);
    /// 8-bit float, 5 bits of exponent, bias 16, one NaN and no negative zero.
    F8_E5M2FNUZ:  Plain,   1 =>   1    , ggml None,      safetensors Some("F8_E5M2FNUZ"), units [(1, 1)], Some(&crate::F8_E5M2FNUZ);
    /// 6-bit float, 2 bits of exponent.
    F6_E2M3:      Plain,   4 =>   3    , ggml None,      safetensors Some("F6_E2M3"),     units [(1, 3)], Some(&crate::F6_E2M3);
    /// 6-bit float, 3 bits of exponent.
    F6_E3M2:      Plain,   4 =>   3    , ggml None,      safetensors Some("F6_E3M2"),     units [(1, 3)], Some(&crate::F6_E3M2);
    /// 4-bit float (E2M1), two in a byte.
    F4:           Plain,   2 =>   1    , ggml None,      safetensors Some("F4"),          units [(1, 1)], Some(&crate::F4);
    /// 32 elements, 4 bits: one scale.
    Q4_0:         Block,  32 =>  18    , ggml Some(2),   safetensors None,                units [(2, 1), (1, 16)], Some(&crate::Q4_0), rows crate::encode::Q4_0, scales F16 [0];
    /// 32 elements, 4 bits: a scale and a minimum.
    Q4_1:         Block,  32 =>  20    , ggml Some(3),   safetensors None,                units [(2, 2), (1, 16)], Some(&crate::Q4_1), rows crate::encode::Q4_1, scales F16 [0, 2];
    /// 32 elements, 5 bits: one scale.
    Q5_0:         Block,  32 =>  22    , ggml Some(6),   safetensors None,                units [(2, 1), (4, 1), (1, 16)], Some(&crate::Q5_0), rows crate::encode::Q5_0, scales F16 [0];
    /// 32 elements, 5 bits: a scale and a minimum.
    Q5_1:         Block,  32 =>  24    , ggml Some(7),   safetensors None,                units [(2, 2), (4, 1), (1, 16)], Some(&crate::Q5_1), rows crate::encode::Q5_1, scales F16 [0, 2];
    /// 32 elements, 8 bits: one scale.
    Q8_0:         Block,  32 =>  34    , ggml Some(8),   safetensors None,                units [(2, 1), (1, 32)], Some(&crate::Q8_0), rows crate::encode::Q8_0, scales F16 [0];
    /// 32 elements, 8 bits: a scale and the scaled sum; for activations.
    Q8_1:         Block,  32 =>  36    , ggml Some(9),   safetensors None,                units [(2, 2), (1, 32)], Some(&crate::Q8_1), rows crate::encode::Q8_1, scales F16 [0, 2];
    /// 256 elements, 2 bits: 16 sub-blocks with 4-bit scales and minima.
    Q2_K:         Block, 256 =>  84    , ggml Some(10),  safetensors None,                units [(1, 80), (2, 2)], Some(&crate::Q2_K), rows crate::encode::Q2_K, scales F16 [80, 82];
    /// 256 elements, 3 bits: 16 sub-blocks with 6-bit scales.
    Q3_K:         Block, 256 => 110    , ggml Some(11),  safetensors None,                units [(1, 108), (2, 1)], Some(&crate::Q3_K), rows crate::encode::Q3_K, scales F16 [108];
    /// 256 elements, 4 bits: 8 sub-blocks with 6-bit scales and minima.
    Q4_K:         Block, 256 => 144    , ggml Some(12),  safetensors None,                units [(2, 2), (1, 140)], Some(&crate::Q4_K), rows crate::encode::Q4_K, scales F16 [0, 2];
    /// 256 elements, 5 bits: 8 sub-blocks with 6-bit scales and minima.
    Q5_K:         Block, 256 => 176    , ggml Some(13),  safetensors None,                units [(2, 2), (1, 172)], Some(&crate::Q5_K), rows crate::encode::Q5_K, scales F16 [0, 2];
    /// 256 elements, 6 bits: 16 sub-blocks with 8-bit scales.
    Q6_K:         Block, 256 => 210    , ggml Some(14),  safetensors None,                units [(1, 208), (2, 1)], Some(&crate::Q6_K), rows crate::encode::Q6_K, scales F16 [208];
    /// 256 elements, 8 bits: an `F32` scale and sums of 16; for activations.
    Q8_K:         Block, 256 => 292    , ggml Some(15),  safetensors None,                units [(4, 1), (1, 256), (2, 16)], Some(&crate::Q8_K), rows crate::encode::Q8_K, scales F32 [0];
    /// 256 elements, 2.06 bits: a codebook of 256 points and signs.
    IQ2_XXS:      Block, 256 =>  66    , ggml Some(16),  safetensors None,                units [(2, 33)], Some(&crate::IQ2_XXS), rows crate::encode::IQ2_XXS, scales F16 [0];
    /// 256 elements, 2.31 bits: a codebook of 512 points and signs.
    IQ2_XS:       Block, 256 =>  74    , ggml Some(17),  safetensors None,                units [(2, 33), (1, 8)], Some(&crate::IQ2_XS), rows crate::encode::IQ2_XS, scales F16 [0];
    /// 256 elements, 3.06 bits: a codebook of 256 points and signs.
    IQ3_XXS:      Block, 256 =>  98    , ggml Some(18),  safetensors None,                units [(2, 1), (1, 64), (4, 8)], Some(&crate::IQ3_XXS), rows crate::encode::IQ3_XXS, scales F16 [0];
    /// 256 elements, 1.56 bits: a codebook of 2048 ternary points.
    IQ1_S:        Block, 256 =>  50    , ggml Some(19),  safetensors None,                units [(2, 1), (1, 32), (2, 8)], Some(&crate::IQ1_S), rows crate::encode::IQ1_S, scales F16 [0];
    /// 32 elements, 4 bits: a non-linear table of 16 levels.
    IQ4_NL:       Block,  32 =>  18    , ggml Some(20),  safetensors None,                units [(2, 1), (1, 16)], Some(&crate::IQ4_NL), rows crate::encode::IQ4_NL, scales F16 [0];
    /// 256 elements, 3.44 bits: a codebook of 512 points and signs.
    IQ3_S:        Block, 256 => 110    , ggml Some(21),  safetensors None,                units [(2, 1), (1, 108)], Some(&crate::IQ3_S), rows crate::encode::IQ3_S, scales F16 [0];
    /// 256 elements, 2.56 bits: a codebook of 1024 points and signs.
    IQ2_S:        Block, 256 =>  82    , ggml Some(22),  safetensors None,                units [(2, 1), (1, 80)], Some(&crate::IQ2_S), rows crate::encode::IQ2_S, scales F16 [0];
    /// 256 elements, 4.25 bits: the levels of `IQ4_NL`, 6-bit scales.
    IQ4_XS:       Block, 256 => 136    , ggml Some(23),  safetensors None,                units [(2, 2), (1, 132)], Some(&crate::IQ4_XS), rows crate::encode::IQ4_XS, scales F16 [0];
    /// 256 elements, 1.75 bits: a codebook of 2048 ternary points, no separate scale field.
    IQ1_M:        Block, 256 =>  56    , ggml Some(29),  safetensors None,                units [(1, 48), (2, 4)], Some(&crate::IQ1_M), rows crate::encode::IQ1_M, scales Nibbles [48];
    /// 256 ternary elements, five to a byte.
    TQ1_0:        Block, 256 =>  54    , ggml Some(34),  safetensors None,                units [(1, 52), (2, 1)], Some(&crate::TQ1_0), rows crate::encode::TQ1_0, scales F16 [52];
    /// 256 ternary elements, four to a byte.
    TQ2_0:        Block, 256 =>  66    , ggml Some(35),  safetensors None,                units [(1, 64), (2, 1)], Some(&crate::TQ2_0), rows crate::encode::TQ2_0, scales F16 [64];
    /// 32 E2M1 elements and one E8M0 scale.
    MXFP4:        Block,  32 =>  17    , ggml Some(39),  safetensors None,                units [(1, 17)], Some(&crate::MXFP4), rows crate::encode::MXFP4, scales E8M0 [0];
    /// 64 E2M1 elements and four E4M3 scales; a scale for the whole tensor may be stored next to it.
    NVFP4:        Block,  64 =>  36    , ggml Some(40),  safetensors None,                units [(1, 36)], Some(&crate::NVFP4), rows crate::encode::NVFP4, scales Ue4m3 [0, 1, 2, 3];
    /// 128 signs and one scale.
    Q1_0:         Block, 128 =>  18    , ggml Some(41),  safetensors None,                units [(2, 1), (1, 16)], Some(&crate::Q1_0), rows crate::encode::Q1_0, scales F16 [0];
    /// 64 elements of -1, 0, 1 or 2 and one scale.
    Q2_0:         Block,  64 =>  18    , ggml Some(42),  safetensors None,                units [(2, 1), (1, 16)], Some(&crate::Q2_0), rows crate::encode::Q2_0, scales F16 [0];
    /// ik_llama.cpp's `Q6_0`.
    Q6_0:         Block,  32 =>  26    , ggml Some(133), safetensors None,                units [], Some(&crate::Q6_0), scales F16 [0];
    /// ik_llama.cpp's `IQ1_BN`.
    IQ1_BN:       Block,  64 =>  13 + 2, ggml Some(134), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_BN`.
    IQ2_BN:       Block,  64 =>  16 + 4, ggml Some(135), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_K`.
    IQ2_K:        Block, 256 =>  76    , ggml Some(137), safetensors None,                units [], Some(&crate::IQ2_K), scales F16 [0];
    /// ik_llama.cpp's `IQ3_K`.
    IQ3_K:        Block, 256 => 110    , ggml Some(138), safetensors None,                units [], Some(&crate::IQ3_K), scales F16 [0];
    /// ik_llama.cpp's `IQ4_K`.
    IQ4_K:        Block, 256 => 144    , ggml Some(139), safetensors None,                units [], Some(&crate::IQ4_K), scales F16 [0];
    /// ik_llama.cpp's `IQ5_K`.
    IQ5_K:        Block, 256 => 176    , ggml Some(140), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ6_K`.
    IQ6_K:        Block, 256 => 212    , ggml Some(141), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_KS`.
    IQ4_KS:       Block, 256 => 136 + 4, ggml Some(144), safetensors None,                units [], Some(&crate::IQ4_KS), scales F32 [0];
    /// ik_llama.cpp's `IQ2_KS`.
    IQ2_KS:       Block, 256 =>  70 + 2, ggml Some(145), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_KSS`.
    IQ4_KSS:      Block, 256 => 128 + 4, ggml Some(146), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q8_KV`.
    Q8_KV:        Block,  32 =>  32 + 8, ggml Some(151), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ5_KS`.
    IQ5_KS:       Block, 256 => 168 + 4, ggml Some(152), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_KT`.
    IQ2_KT:       Block, 256 =>  68 + 4, ggml Some(153), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ3_KT`.
    IQ3_KT:       Block, 256 => 100 + 4, ggml Some(154), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_KT`.
    IQ4_KT:       Block, 256 => 128 + 4, ggml Some(155), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ3_KS`.
    IQ3_KS:       Block, 256 => 102 + 2, ggml Some(156), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_KL`.
    IQ2_KL:       Block, 256 =>  86 + 2, ggml Some(157), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ1_KT`.
    IQ1_KT:       Block, 256 =>  56 + 4, ggml Some(158), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q4_0_R8` (rows interleaved).
    Q4_0_R8:      Block,  32 =>  18    , ggml Some(202), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q5_0_R4` (rows interleaved).
    Q5_0_R4:      Block,  32 =>  22    , ggml Some(206), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q8_0_R8` (rows interleaved).
    Q8_0_R8:      Block,  32 =>  34    , ggml Some(208), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q2_K_R4` (rows interleaved).
    Q2_K_R4:      Block, 256 =>  84    , ggml Some(210), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q3_K_R4` (rows interleaved).
    Q3_K_R4:      Block, 256 => 110    , ggml Some(211), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q4_K_R4` (rows interleaved).
    Q4_K_R4:      Block, 256 => 144    , ggml Some(212), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q5_K_R4` (rows interleaved).
    Q5_K_R4:      Block, 256 => 176    , ggml Some(213), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q6_K_R4` (rows interleaved).
    Q6_K_R4:      Block, 256 => 210    , ggml Some(214), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_XXS_R4` (rows interleaved).
    IQ2_XXS_R4:   Block, 256 =>  66    , ggml Some(216), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_XS_R4` (rows interleaved).
    IQ2_XS_R4:    Block, 256 =>  74    , ggml Some(217), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ3_XXS_R4` (rows interleaved).
    IQ3_XXS_R4:   Block, 256 =>  98    , ggml Some(218), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ1_S_R4` (rows interleaved).
    IQ1_S_R4:     Block,  32 =>   6 + 2, ggml Some(219), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_NL_R4` (rows interleaved).
    IQ4_NL_R4:    Block,  32 =>  18    , ggml Some(220), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ3_S_R4` (rows interleaved).
    IQ3_S_R4:     Block, 256 => 110    , ggml Some(221), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_S_R4` (rows interleaved).
    IQ2_S_R4:     Block, 256 =>  82    , ggml Some(222), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_XS_R8` (rows interleaved).
    IQ4_XS_R8:    Block, 256 => 136    , ggml Some(223), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ1_M_R4` (rows interleaved).
    IQ1_M_R4:     Block,  32 =>   7 + 2, ggml Some(229), safetensors None,                units [], None;
    /// ik_llama.cpp's `BF16_R16` (rows interleaved).
    BF16_R16:     Block,   1 =>   2    , ggml Some(230), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q6_0_R4` (rows interleaved).
    Q6_0_R4:      Block,  32 =>  26    , ggml Some(233), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_BN_R4` (rows interleaved).
    IQ2_BN_R4:    Block,  64 =>  16 + 4, ggml Some(335), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ2_K_R4` (rows interleaved).
    IQ2_K_R4:     Block, 256 =>  76    , ggml Some(337), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ3_K_R4` (rows interleaved).
    IQ3_K_R4:     Block, 256 => 110    , ggml Some(338), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_K_R4` (rows interleaved).
    IQ4_K_R4:     Block, 256 => 144    , ggml Some(339), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ5_K_R4` (rows interleaved).
    IQ5_K_R4:     Block, 256 => 176    , ggml Some(340), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ4_KS_R4` (rows interleaved).
    IQ4_KS_R4:    Block, 256 => 136 + 4, ggml Some(344), safetensors None,                units [], None;
    /// ik_llama.cpp's `IQ5_KS_R4` (rows interleaved).
    IQ5_KS_R4:    Block, 256 => 168 + 4, ggml Some(352), safetensors None,                units [], None;
    /// ik_llama.cpp's `MXFP4_R8` (rows interleaved).
    MXFP4_R8:     Block,  32 =>  17    , ggml Some(353), safetensors None,                units [], None;
    /// ik_llama.cpp's `Q8_KV_R8` (rows interleaved).
    Q8_KV_R8:     Block,  32 =>  32 + 8, ggml Some(398), safetensors None,                units [], None;
    /// MLX affine groups: 1-bit elements, a scale and a bias for each group.
    MLX_AFFINE1:  Group,   8 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE1), groups crate::TO_AFFINE1;
    /// MLX affine groups: 2-bit elements, a scale and a bias for each group.
    MLX_AFFINE2:  Group,   4 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE2), groups crate::TO_AFFINE2;
    /// MLX affine groups: 3-bit elements, a scale and a bias for each group.
    MLX_AFFINE3:  Group,   8 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE3), groups crate::TO_AFFINE3;
    /// MLX affine groups: 4-bit elements, a scale and a bias for each group.
    MLX_AFFINE4:  Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE4), groups crate::TO_AFFINE4;
    /// MLX affine groups: 5-bit elements, a scale and a bias for each group.
    MLX_AFFINE5:  Group,   8 =>   5    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE5), groups crate::TO_AFFINE5;
    /// MLX affine groups: 6-bit elements, a scale and a bias for each group.
    MLX_AFFINE6:  Group,   4 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE6), groups crate::TO_AFFINE6;
    /// MLX affine groups: 8-bit elements, a scale and a bias for each group.
    MLX_AFFINE8:  Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AFFINE8), groups crate::TO_AFFINE8;
    /// MLX groups: E2M1 elements in groups of 32, E8M0 scales.
    MLX_MXFP4:    Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::MLX_MXFP4), groups crate::TO_MXFP4, scales E8M0 [];
    /// MLX groups: E4M3 elements in groups of 32, E8M0 scales.
    MLX_MXFP8:    Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::MLX_MXFP8), groups crate::TO_MXFP8, scales E8M0 [];
    /// MLX groups: E2M1 elements in groups of 16, E4M3 scales, perhaps a scale for the whole tensor.
    MLX_NVFP4:    Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::MLX_NVFP4), groups crate::TO_NVFP4, scales E4M3 [];
    /// GPTQ: 2-bit elements packed along the input, zero points less one, perhaps a group for each input.
    GPTQ2:        Group,   4 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ2);
    /// GPTQ's second format: 2-bit elements, zero points stored as they are.
    GPTQ2_V2:     Group,   4 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ2_V2);
    /// GPTQ: 3-bit elements packed along the input, zero points less one, perhaps a group for each input.
    GPTQ3:        Group,   8 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ3);
    /// GPTQ's second format: 3-bit elements, zero points stored as they are.
    GPTQ3_V2:     Group,   8 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ3_V2);
    /// GPTQ: 4-bit elements packed along the input, zero points less one, perhaps a group for each input.
    GPTQ4:        Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ4);
    /// GPTQ's second format: 4-bit elements, zero points stored as they are.
    GPTQ4_V2:     Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ4_V2);
    /// GPTQ: 8-bit elements packed along the input, zero points less one, perhaps a group for each input.
    GPTQ8:        Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ8);
    /// GPTQ's second format: 8-bit elements, zero points stored as they are.
    GPTQ8_V2:     Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::GPTQ8_V2);
    /// AWQ: 4-bit elements packed along the output, zero points.
    AWQ4:         Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AWQ4);
    /// AWQ's GEMV layout: 4-bit elements packed along the input, zero points.
    AWQ4_GEMV:    Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::AWQ4_GEMV);
    /// compressed-tensors: two stored 8-bit elements of four, `F8_E4M3` or `I8`, perhaps with a scale for each row.
    SPARSE24_8:   Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SPARSE24);
    /// compressed-tensors: two stored elements of four, `F16` or `BF16`.
    SPARSE24_16:  Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SPARSE24);
    /// compressed-tensors: 2-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT2:      Group,   4 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT2);
    /// compressed-tensors: 3-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT3:      Group,   8 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT3);
    /// compressed-tensors: 4-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT4:      Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT4);
    /// compressed-tensors: 5-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT5:      Group,   8 =>   5    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT5);
    /// compressed-tensors: 6-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT6:      Group,   4 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT6);
    /// compressed-tensors: 7-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT7:      Group,   8 =>   7    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT7);
    /// compressed-tensors: 8-bit elements in words, a scale and perhaps a zero point for each group.
    CT_INT8:      Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::CT_INT8);
    /// compressed-tensors: E2M3 elements in groups of 32, four in three bytes, E8M0 scales.
    CT_MXFP6:     Group,   4 =>   3    , ggml None,      safetensors None,                units [], Some(&crate::CT_MXFP6), scales E8M0 [];
    /// 8-bit integers with a scale for each row or for the tensor.
    SCALED_I8:    Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SCALED_I8);
    /// `F8_E4M3` with a scale for the tensor, each row, each square block or each group of a row.
    SCALED_F8_E4M3: Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SCALED_F8_E4M3);
    /// `F8_E5M2` with a scale for the tensor, each row or each square block.
    SCALED_F8_E5M2: Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SCALED_F8_E5M2);
    /// `F8_E4M3FNUZ` with a scale for the tensor, each row or each square block.
    SCALED_F8_E4M3FNUZ: Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SCALED_F8_E4M3FNUZ);
    /// `F8_E5M2FNUZ` with a scale for the tensor, each row or each square block.
    SCALED_F8_E5M2FNUZ: Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::SCALED_F8_E5M2FNUZ);
    /// compressed-tensors and ModelOpt: E2M1 elements in groups of 16, E4M3 scales, a scale for the tensor.
    HF_NVFP4:     Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::MLX_NVFP4), scales E4M3 [];
    /// ModelOpt after AWQ: `HF_NVFP4`, and a factor for each column, by which the module multiplies its input.
    HF_NVFP4_AWQ: Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::HF_NVFP4_AWQ);
    /// gpt-oss and compressed-tensors: E2M1 elements in groups of 32, E8M0 scales.
    HF_MXFP4:     Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::MLX_MXFP4), scales E8M0 [];
    /// bitsandbytes: 4-bit codes of a stored table of normal quantiles, a scale for each run of elements.
    BNB_NF4:      Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::BNB_NF4);
    /// bitsandbytes: 4-bit codes of a stored table of floats, a scale for each run of elements.
    BNB_FP4:      Group,   2 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::BNB_FP4);
    /// bitsandbytes: 8-bit integers with a scale for each row.
    BNB_INT8:     Group,   1 =>   1    , ggml None,      safetensors None,                units [], Some(&crate::BNB_INT8);
}

/// Type codes that have a name but no reliable size: types removed from ggml, whose codes others
/// reuse, and ik_llama.cpp's types for activations.
static NAMED_CODES: &[(u32, &str)] = &[
    (4, "Q4_2, removed from ggml"),
    (5, "Q4_3, removed from ggml"),
    (31, "Q4_0_4_4, removed from ggml"),
    (32, "Q4_0_4_8, removed from ggml"),
    (33, "Q4_0_8_8, removed from ggml"),
    (36, "IQ4_NL_4_4, removed from ggml, or ik_llama.cpp's I2_S"),
    (37, "IQ4_NL_4_8, removed from ggml"),
    (38, "IQ4_NL_8_8, removed from ggml"),
    (97, "ik_llama.cpp's Q8_0_X4"),
    (98, "ik_llama.cpp's Q8_1_X4"),
    (99, "ik_llama.cpp's Q8_2_X4"),
    (136, "ik_llama.cpp's Q8_K64"),
    (147, "ik_llama.cpp's Q8_K16"),
    (148, "ik_llama.cpp's Q8_K32"),
    (149, "ik_llama.cpp's Q8_KR8"),
    (150, "ik_llama.cpp's Q8_K128"),
    (397, "ik_llama.cpp's Q8_K_R16"),
    (399, "ik_llama.cpp's Q8_K_R8"),
];

/// One more than the highest type code in the table.
const GGML_CODES: usize = 399;

/// Row numbers by ggml type code; 255 for a code without a row.
static BY_GGML: [u8; GGML_CODES] = {
    assert!(DTYPES.len() < 255);
    let mut table = [255; GGML_CODES];
    let mut row = 0;
    while row < DTYPES.len() {
        if let Some(code) = DTYPES[row].ggml {
            assert!(table[code as usize] == 255);
            table[code as usize] = DTYPES[row].dtype as u8;
        }
        row += 1;
    }
    table
};

impl DType {
    /// Whether words hold codes of several rows, so that no single row is a byte range.
    pub const fn is_packed_across_rows(self) -> bool {
        matches!(
            self,
            Self::GPTQ2
                | Self::GPTQ3
                | Self::GPTQ4
                | Self::GPTQ8
                | Self::GPTQ2_V2
                | Self::GPTQ3_V2
                | Self::GPTQ4_V2
                | Self::GPTQ8_V2
                | Self::AWQ4
        )
    }

    /// Whether elements are floats of 8 bits with scales, as many checkpoints are published.
    pub const fn is_scaled_f8(self) -> bool {
        matches!(
            self,
            Self::SCALED_F8_E4M3
                | Self::SCALED_F8_E5M2
                | Self::SCALED_F8_E4M3FNUZ
                | Self::SCALED_F8_E5M2FNUZ
        )
    }

    /// The dtype's row in the table.
    #[inline]
    pub fn descriptor(self) -> &'static DTypeDescriptor {
        &DTYPES[self as usize]
    }

    /// The name, in the spelling of ggml, safetensors or MLX.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// The dtype with this ggml type code, including the codes of ik_llama.cpp.
    #[inline]
    pub fn from_ggml(code: u32) -> Option<Self> {
        let row = *BY_GGML.get(usize::try_from(code).ok()?)?;
        DTYPES.get(usize::from(row)).map(|row| row.dtype)
    }

    /// The dtype with this name in a safetensors header.
    pub fn from_safetensors(name: &[u8]) -> Option<Self> {
        let named = |row: &&DTypeDescriptor| row.safetensors.is_some_and(|n| n.as_bytes() == name);
        DTYPES.iter().find(named).map(|row| row.dtype)
    }

    /// The dtype with this [`name`](Self::name), in upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        DTYPES.iter().find(|row| row.name.eq_ignore_ascii_case(name)).map(|row| row.dtype)
    }

    /// Whether elements are codes that become numbers by means of scales.
    pub fn is_quantized(self) -> bool {
        self.descriptor().packing != Packing::Plain && self.bits() < 16
    }

    /// Bits of an element or of its code, without scales. For a block, the number in its name.
    #[inline]
    pub fn bits(self) -> u32 {
        let row = self.descriptor();
        if row.packing == Packing::Block {
            let digits = row.name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if let Some(bits) = digits.get(..end).and_then(|digits| digits.parse().ok()) {
                return bits;
            }
        }
        row.block_bytes * 8 / row.block_len
    }

    /// The quantizer of an MLX dtype.
    pub fn group_quantizer(self) -> Option<&'static GroupQuantizer> {
        self.descriptor().group_quantizer
    }

    /// Whether values are integers that are not quantized weights: positions, masks.
    pub fn is_integer(self) -> bool {
        let row = self.descriptor();
        row.packing == Packing::Plain
            && matches!(
                self,
                Self::I8
                    | Self::I16
                    | Self::I32
                    | Self::I64
                    | Self::U8
                    | Self::U16
                    | Self::U32
                    | Self::U64
                    | Self::BOOL
            )
    }

    /// Whether llama.cpp supports the type: codes 0 to 42, except those removed.
    #[inline]
    pub fn is_ggml(self) -> bool {
        self.descriptor().ggml.is_some_and(|code| code <= 42)
    }

    /// Bytes of `columns` elements of one row, or `None` if they are not a whole number of blocks
    /// or overflow.
    #[inline]
    pub fn row_bytes(self, columns: u64) -> Option<u64> {
        let row = self.descriptor();
        // Most dtypes in large headers are plain, and a division would cost as much as everything
        // else here.
        let blocks = match u64::from(row.block_len) {
            1 => columns,
            len if columns.is_multiple_of(len) => columns / len,
            _ => return None,
        };
        blocks.checked_mul(u64::from(row.block_bytes))?.checked_add(u64::from(row.row_head))
    }

    /// Bytes of a tensor's weight part, or `None` if they are not a whole number or overflow.
    ///
    /// Plain elements have to fill whole bytes only in total, as in safetensors; blocks and groups
    /// have to fill each row.
    #[inline]
    pub fn tensor_bytes(self, shape: &[u64]) -> Option<u64> {
        let elements = shape::elements(shape)?;
        if self.descriptor().packing == Packing::Plain {
            return self.row_bytes(elements);
        }
        let columns = shape::columns(shape);
        let rows = elements.checked_div(columns).unwrap_or(0);
        rows.checked_mul(self.row_bytes(columns)?)
    }
}

impl DType {
    /// Quantizes whole rows of values: the bytes are bit for bit those of ggml's default build for
    /// x86-64.
    ///
    /// `values` holds consecutive rows of `columns` elements, and `out` has room for
    /// [`row_bytes`](Self::row_bytes) of each. `importance` has a weight for each column, the same
    /// for every row: the mean square of the activations that the column is multiplied with. Some
    /// dtypes require it, see [`Quantizer::importance`].
    ///
    /// NaN and infinities are accepted, but the blocks that contain them are meaningless.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if there is no quantizer, and
    /// [`Mismatch`](crate::ErrorKind::Mismatch) if rows are not a whole number of blocks, the
    /// slices' lengths do not fit each other, or importance is missing.
    pub fn quantize_rows(
        self,
        values: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        let quantizer = self
            .descriptor()
            .quantizer
            .ok_or_else(|| Error::unsupported(format!("{self} has no quantizer")))?;
        if importance.is_none() && quantizer.importance() == Importance::Required {
            let fault = format!("{self} requires the importance of the columns");
            return Err(Error::mismatch(fault).advise("give it an importance matrix"));
        }
        let row_bytes = self.row_len(columns)?;
        let rows = values.len().checked_div(columns).unwrap_or(0);
        if rows * columns != values.len() {
            let found = values.len();
            return Err(Error::mismatch(format!(
                "{found} values do not divide into rows of {columns}"
            )));
        }
        if rows.checked_mul(row_bytes) != Some(out.len()) {
            let found = out.len();
            let fault =
                format!("{rows} rows take {row_bytes} bytes each, but there is room for {found}");
            return Err(Error::mismatch(fault));
        }
        if let Some(found) = importance.map(<[f32]>::len).filter(|len| *len != columns) {
            let fault = format!("importance of {found} columns, but rows have {columns} elements");
            return Err(Error::mismatch(fault));
        }
        quantizer.run(&QuantizerInput { values, columns, importance }, out);
        Ok(())
    }
}

impl DType {
    /// Decodes whole rows of a dtype whose scales are inside its blocks, or of a plain one.
    ///
    /// `bytes` holds consecutive rows of `out.len() / rows` elements, each as long as
    /// [`row_bytes`](Self::row_bytes) says. Values are rounded once, to `T`.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for a dtype without a codec, or whose scales are
    /// separate arrays, and [`Mismatch`](crate::ErrorKind::Mismatch) if the lengths do not fit each other.
    pub fn dequantize_rows<T: Element>(
        self,
        bytes: &[u8],
        columns: usize,
        out: &mut [T],
    ) -> Result<()> {
        let row = self.descriptor();
        let Some(Codec(Decoder::Runs(runs))) = row.codec else {
            return Err(Error::unsupported(format!("{self} has no codec that decodes rows alone")));
        };
        if row.packing == Packing::Group {
            return Err(Error::unsupported(format!("{self} keeps its scales in other arrays")));
        }
        let row_bytes = self.row_len(columns)?;
        let rows = out.len().checked_div(columns).unwrap_or(0);
        if rows * columns != out.len() || rows.checked_mul(row_bytes) != Some(bytes.len()) {
            return Err(Error::mismatch(format!(
                "{} bytes and room for {} values, but rows of {columns} values take {row_bytes} bytes",
                bytes.len(),
                out.len()
            )));
        }
        let head = row.row_head as usize;
        for (bytes, out) in
            bytes.chunks_exact(row_bytes.max(1)).zip(out.chunks_exact_mut(columns.max(1)))
        {
            let (scale, weight) = bytes.split_at_checked(head).unwrap_or((&[], bytes));
            let packed = Packed { scale, ..Packed::blocks(weight) };
            let _ = runs.decode(&packed, out, Rounding::F32, Stores::Cached);
        }
        Ok(())
    }

    /// The bytes of a row of `columns` elements.
    fn row_len(self, columns: usize) -> Result<usize> {
        let bytes = u64::try_from(columns).ok().and_then(|columns| self.row_bytes(columns));
        bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| {
            let len = self.descriptor().block_len;
            Error::mismatch(format!(
                "rows of {columns} elements do not divide into blocks of {len}"
            ))
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Describes a ggml type code that has no row in the table: "removed", "unknown".
pub fn describe_ggml(code: u32) -> String {
    match NAMED_CODES.iter().find(|(named, _)| *named == code) {
        Some((_, name)) => format!("ggml type {code} ({name})"),
        None => format!("ggml type {code} (unknown)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_units_fill_blocks() {
        for (number, row) in DTYPES.iter().enumerate() {
            assert_eq!(row.dtype as usize, number, "{}", row.name);
            let bytes: u32 = row.units.iter().map(|&(w, n)| u32::from(w) * u32::from(n)).sum();
            assert!(bytes == row.block_bytes || row.units.is_empty(), "{}: {bytes}", row.name);
        }
    }

    #[test]
    fn every_live_ggml_code_and_every_safetensors_name_has_a_row() {
        let removed = [4, 5, 31, 32, 33, 36, 37, 38];
        for code in 0..=42 {
            assert_eq!(DType::from_ggml(code).is_some(), !removed.contains(&code), "{code}");
        }
        assert_eq!(DType::from_ggml(43), None);
        assert_eq!(DType::from_ggml(u32::MAX), None);
        assert_eq!(DTYPES.iter().filter(|row| row.safetensors.is_some()).count(), 22);
    }

    #[test]
    fn codes_are_narrower_than_what_they_take() {
        for row in DTYPES {
            let (bits, bytes) = (row.dtype.bits(), row.block_bytes * 8);
            // Five ternary elements take a byte, so these types round their bits down.
            assert!(bits * row.block_len <= bytes && bits > 0, "{}: {bits}", row.name);
            assert!((bits + 2) * row.block_len > bytes, "{}: {bits}", row.name);
        }
        use DType as D;
        let bits =
            [D::F32, D::Q4_1, D::IQ2_XXS, D::MXFP4, D::BF16_R16, D::MLX_AFFINE3, D::GPTQ4_V2];
        assert_eq!(bits.map(DType::bits), [32, 4, 2, 4, 16, 3, 4]);
        let quantized = bits.map(DType::is_quantized);
        assert_eq!(quantized, [false, true, true, true, false, true, true]);
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(DType::Q4_K.tensor_bytes(&[3, 512]), Some(3 * 288));
        assert_eq!(DType::Q4_K.tensor_bytes(&[512, 3]), None);
        assert_eq!(DType::F4.tensor_bytes(&[2, 3]), Some(3));
        assert_eq!(DType::F4.tensor_bytes(&[3]), None);
        assert_eq!(DType::F32.tensor_bytes(&[]), Some(4));
        assert_eq!(DType::F32.tensor_bytes(&[0, 7]), Some(0));
        assert_eq!(DType::Q8_0.tensor_bytes(&[7, 0]), Some(0));
        assert_eq!(DType::F32.tensor_bytes(&[1 << 32, 1 << 32]), None);
        assert_eq!(DType::F64.tensor_bytes(&[1 << 61]), None);
        // Each row starts with four bytes of its own.
        assert_eq!(DType::IQ4_KS.tensor_bytes(&[2, 256]), Some(280));
    }
}
