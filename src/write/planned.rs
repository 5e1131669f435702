//! The methods by which tensors are produced, and what a plan does with each.

use crate::dtype::DType;

/// A tensor of a plan, and how it is produced.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Its name in the output.
    pub name: String,
    /// The rank whose share it is part of. Every rank has tensors with the same names.
    pub rank: Option<u64>,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The names of the source dtypes, with their group size where they have one.
    pub from: String,
    /// The dtype in the output.
    pub dtype: DType,
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    pub group_size: Option<u32>,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// The method that produces it.
    pub method: Method,
    /// The dtype that was chosen, if rows of this length are not whole blocks of it.
    pub unsuited: Option<DType>,
    /// The reason, unless it is obvious.
    pub reason: Option<String>,
}

/// A method of producing an output tensor.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// Copied byte for byte, possibly with its rows in another order.
    Copied,
    /// Repacked with exactly the same values.
    Repacked,
    /// Converted to a dtype that holds every value.
    Exact,
    /// Rounded to a plain dtype, or repacked with a rounded global scale.
    Rounded,
    /// Quantized from plain values.
    Quantized,
    /// Quantized from the values of a quantized tensor.
    Requantized,
    /// Computed: from the config, from the difference of two models, or by the caller.
    Generated,
    /// A LoRA adapter or several models were merged in f32, and the result rounded to a plain dtype.
    Merged,
}

impl Method {
    /// Every method, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Copied,
        Self::Repacked,
        Self::Exact,
        Self::Rounded,
        Self::Quantized,
        Self::Requantized,
        Self::Generated,
        Self::Merged,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Repacked => "repacked",
            Self::Exact => "exact",
            Self::Rounded => "rounded",
            Self::Quantized => "quantized",
            Self::Requantized => "requantized",
            Self::Generated => "generated",
            Self::Merged => "merged",
        }
    }

    /// Whether every value stays unchanged.
    pub const fn is_lossless(self) -> bool {
        matches!(self, Self::Copied | Self::Repacked | Self::Exact | Self::Generated)
    }
}
