//! The types that Ollama quantizes to: x/create and x/quant of Ollama fb307609.

use crate::dtype::DType;

/// The properties of a type that Ollama quantizes to.
#[derive(Debug)]
#[non_exhaustive]
pub struct QuantTypeDescriptor {
    /// The type of this row.
    pub quant_type: QuantType,
    /// The name, as `--quantize` and the metadata of blobs spell it.
    pub name: &'static str,
    /// Aliases for `--quantize`.
    pub aliases: &'static [&'static str],
    /// Elements of a group.
    pub group_size: u32,
    /// Elements of a group in models of Ollama 0.16.0, if the number differs.
    pub(crate) older_group_size: Option<u32>,
    /// The dtype of quantized tensors.
    pub dtype: DType,
}

/// A type that Ollama quantizes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum QuantType {
    Int4,
    Int8,
    Nvfp4,
    Mxfp4,
    Mxfp8,
}

/// Every type (`normalizeQuantType` and `isAligned` in x/create/create.go).
#[rustfmt::skip]
pub static TYPES: &[QuantTypeDescriptor] = &[
    QuantTypeDescriptor { quant_type: QuantType::Int4,  name: "int4",  aliases: &["q4", "fp4"], group_size: 64, older_group_size: Some(32), dtype: DType::MLX_AFFINE4 },
    QuantTypeDescriptor { quant_type: QuantType::Int8,  name: "int8",  aliases: &["q8", "fp8"], group_size: 64, older_group_size: None, dtype: DType::MLX_AFFINE8 },
    QuantTypeDescriptor { quant_type: QuantType::Nvfp4, name: "nvfp4", aliases: &[],            group_size: 16, older_group_size: None, dtype: DType::MLX_NVFP4 },
    QuantTypeDescriptor { quant_type: QuantType::Mxfp4, name: "mxfp4", aliases: &[],            group_size: 32, older_group_size: None, dtype: DType::MLX_MXFP4 },
    QuantTypeDescriptor { quant_type: QuantType::Mxfp8, name: "mxfp8", aliases: &[],            group_size: 32, older_group_size: None, dtype: DType::MLX_MXFP8 },
];

impl QuantType {
    /// The row of the table.
    pub fn descriptor(self) -> &'static QuantTypeDescriptor {
        #[expect(clippy::indexing_slicing, reason = "one row for each variant, in order")]
        &TYPES[self as usize]
    }

    /// Finds a type by name or alias, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        let named = |row: &&QuantTypeDescriptor| {
            row.name.eq_ignore_ascii_case(name)
                || row.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
        };
        TYPES.iter().find(named).map(|row| row.quant_type)
    }
}
