//! Recipes: which dtype each tensor gets when a model is quantized. Recipes are pure functions of
//! names, shapes and a few numbers of the model. Importance matrices are read here too.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

pub mod llama_cpp;
pub mod mlx_lm;

mod imatrix;

use std::fmt;

pub use imatrix::{ColumnWeights, ImportanceMatrix};

use crate::dtype::DType;

/// The properties of a file type. [`FILE_TYPES`] holds all of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct FileTypeDescriptor {
    /// The file type of this row.
    pub file_type: FileType,
    /// Its name, as llama-quantize spells it.
    pub name: &'static str,
    /// A description in one line.
    pub summary: &'static str,
    /// The value of `general.file_type`; `None` for `COPY`, which keeps the model's value.
    pub number: Option<u32>,
    /// The dtype of tensors that no rule applies to; `None` for `COPY`.
    pub base: Option<DType>,
}

macro_rules! file_types {
    ($(#[doc = $doc:literal] $name:ident: $number:expr, $base:expr;)*) => {
        /// A mix of dtypes for a model, as llama.cpp names it.
        #[allow(non_camel_case_types, reason = "spelled as llama.cpp spells them")]
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum FileType {
            $(#[doc = $doc] $name,)*
        }

        /// Every file type that llama-quantize writes, in the order of its help text.
        pub static FILE_TYPES: &[FileTypeDescriptor] = &[$(FileTypeDescriptor {
            file_type: FileType::$name,
            name: stringify!($name),
            summary: $doc.trim_ascii(),
            number: $number,
            base: $base,
        }),*];
    };
}

// Names from tools/quantize/quantize.cpp, numbers from include/llama.h, bases from
// `llama_ftype_get_default_type` of src/llama-quant.cpp: llama.cpp as of ggml 0.25.3.
#[rustfmt::skip]
file_types! {
    /// 1.125 bits: signs only.
    Q1_0:      Some(40), Some(DType::Q1_0);
    /// 2.25 bits in groups of 64.
    Q2_0:      Some(41), Some(DType::Q2_0);
    /// 4.5 bits, a scale for each block.
    Q4_0:      Some(2),  Some(DType::Q4_0);
    /// 5 bits, a scale and a minimum for each block.
    Q4_1:      Some(3),  Some(DType::Q4_1);
    /// Experts in MXFP4, everything else in `Q8_0`.
    MXFP4_MOE: Some(38), Some(DType::MXFP4);
    /// 5.5 bits, a scale for each block.
    Q5_0:      Some(8),  Some(DType::Q5_0);
    /// 6 bits, a scale and a minimum for each block.
    Q5_1:      Some(9),  Some(DType::Q5_1);
    /// About 2.1 bits; needs an importance matrix.
    IQ2_XXS:   Some(19), Some(DType::IQ2_XXS);
    /// About 2.3 bits; needs an importance matrix.
    IQ2_XS:    Some(20), Some(DType::IQ2_XS);
    /// About 2.5 bits; needs an importance matrix.
    IQ2_S:     Some(28), Some(DType::IQ2_XS);
    /// About 2.7 bits; needs an importance matrix.
    IQ2_M:     Some(29), Some(DType::IQ2_S);
    /// About 1.6 bits; needs an importance matrix.
    IQ1_S:     Some(24), Some(DType::IQ1_S);
    /// About 1.8 bits; needs an importance matrix.
    IQ1_M:     Some(31), Some(DType::IQ1_M);
    /// 1.69 bits, for models trained with ternary weights.
    TQ1_0:     Some(36), Some(DType::TQ1_0);
    /// 2.06 bits, for models trained with ternary weights.
    TQ2_0:     Some(37), Some(DType::TQ2_0);
    /// Mostly `Q2_K`, more bits where they matter.
    Q2_K:      Some(10), Some(DType::Q2_K);
    /// Mostly `Q2_K`; needs an importance matrix.
    Q2_K_S:    Some(21), Some(DType::Q2_K);
    /// About 3.1 bits; needs an importance matrix.
    IQ3_XXS:   Some(23), Some(DType::IQ3_XXS);
    /// Mostly `IQ3_S`.
    IQ3_S:     Some(26), Some(DType::IQ3_S);
    /// Mostly `IQ3_S`, more bits where they matter.
    IQ3_M:     Some(27), Some(DType::IQ3_S);
    /// `IQ3_S` and, in the middle layers, `IQ3_XXS`; needs an importance matrix.
    IQ3_XS:    Some(22), Some(DType::IQ3_S);
    /// Mostly `Q3_K`.
    Q3_K_S:    Some(11), Some(DType::Q3_K);
    /// Mostly `Q3_K`, more bits where they matter.
    Q3_K_M:    Some(12), Some(DType::Q3_K);
    /// Mostly `Q3_K`, more bits in more places.
    Q3_K_L:    Some(13), Some(DType::Q3_K);
    /// 4.5 bits, a table of values for all blocks.
    IQ4_NL:    Some(25), Some(DType::IQ4_NL);
    /// 4.25 bits, the same table in super-blocks.
    IQ4_XS:    Some(30), Some(DType::IQ4_XS);
    /// Mostly `Q4_K`.
    Q4_K_S:    Some(14), Some(DType::Q4_K);
    /// Mostly `Q4_K`, more bits where they matter.
    Q4_K_M:    Some(15), Some(DType::Q4_K);
    /// Mostly `Q5_K`.
    Q5_K_S:    Some(16), Some(DType::Q5_K);
    /// Mostly `Q5_K`, more bits where they matter.
    Q5_K_M:    Some(17), Some(DType::Q5_K);
    /// 6.56 bits.
    Q6_K:      Some(18), Some(DType::Q6_K);
    /// 8.5 bits, almost identical to the original.
    Q8_0:      Some(7),  Some(DType::Q8_0);
    /// Half precision.
    F16:       Some(1),  Some(DType::F16);
    /// Brain floating point, the upper 16 bits of single precision.
    BF16:      Some(32), Some(DType::BF16);
    /// Single precision.
    F32:       Some(0),  Some(DType::F32);
    /// Every tensor in its present dtype.
    COPY:      None,     None;
}

/// Aliases of file types.
pub static ALIASES: &[(&str, FileType)] =
    &[("Q3_K", FileType::Q3_K_M), ("Q4_K", FileType::Q4_K_M), ("Q5_K", FileType::Q5_K_M)];

/// The dtypes of models that were trained with weights of two, three or four values.
const TRAINED_FOR: [DType; 4] = [DType::Q1_0, DType::Q2_0, DType::TQ1_0, DType::TQ2_0];

impl FileType {
    /// llama.cpp's number for a model whose matrices have this dtype: that of the file type with the
    /// dtype's name.
    pub(crate) fn number_of(dtype: DType) -> u32 {
        match dtype {
            // File types that are read, but that no name selects.
            DType::NVFP4 => 39,
            DType::MXFP4 => 38,
            dtype => {
                let named = Self::from_name(dtype.name());
                named.and_then(|found| found.descriptor().number).unwrap_or(0)
            }
        }
    }

    /// The row of the table.
    pub fn descriptor(self) -> &'static FileTypeDescriptor {
        #[expect(clippy::indexing_slicing, reason = "one row for each variant, in order")]
        &FILE_TYPES[self as usize]
    }

    /// The name, as llama-quantize spells it.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// Whether only models that were trained for this type work in it. It has one bit or two for
    /// most weights and uses no importance matrix; other models give noise.
    pub fn needs_training(self) -> bool {
        let base = self.descriptor().base;
        base.is_some_and(|base| TRAINED_FOR.contains(&base))
    }

    /// Finds a file type by name or alias, ignoring case, or by number: `q4_k_m`, `Q4_K`, `15`.
    pub fn from_name(name: &str) -> Option<Self> {
        let named = |row: &&FileTypeDescriptor| row.name.eq_ignore_ascii_case(name);
        let alias = |(alias, _): &&(&str, Self)| alias.eq_ignore_ascii_case(name);
        let row = FILE_TYPES.iter().find(named).map(|row| row.file_type);
        row.or_else(|| ALIASES.iter().find(alias).map(|(_, file_type)| *file_type))
            .or_else(|| Self::from_number(name.parse().ok()?))
    }

    /// The file type with this value of `general.file_type`, if llama-quantize writes it.
    pub fn from_number(number: u32) -> Option<Self> {
        FILE_TYPES.iter().find(|row| row.number == Some(number)).map(|row| row.file_type)
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Whether a layer gets more bits in every recipe: the first and the last eighth of the layers, and
/// every third layer between them. This is llama.cpp's rule (`use_more_bits`), which mlx-lm and
/// Ollama adopted.
pub(crate) const fn more_bits(layer: u64, layers: u64) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= layers.saturating_mul(7) / 8 || (layer - eighth) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_of_more_bits() {
        let of = |layers| (0..layers).filter(|n| more_bits(*n, layers)).collect::<Vec<u64>>();
        assert_eq!(of(1), [0]);
        assert_eq!(of(4), [2, 3]);
        assert_eq!(of(30), [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 26, 27, 28, 29]);
    }

    #[test]
    fn names_and_numbers() {
        for (place, row) in FILE_TYPES.iter().enumerate() {
            assert_eq!(row.file_type as usize, place, "{}", row.name);
            assert_eq!(FileType::from_name(&row.name.to_lowercase()), Some(row.file_type));
            assert_eq!(row.number.is_some(), row.base.is_some());
            if let Some(number) = row.number {
                assert_eq!(FileType::from_number(number), Some(row.file_type));
            }
        }
        assert_eq!(FileType::from_name("q4_k"), Some(FileType::Q4_K_M));
        assert_eq!(FileType::from_name("15"), Some(FileType::Q4_K_M));
        assert_eq!(FileType::from_name("NVFP4"), None, "a file type that llama-quantize refuses");
        assert_eq!(FileType::from_number(33), None);
        assert_eq!(FileType::Q4_K_M.to_string(), "Q4_K_M");
    }
}
