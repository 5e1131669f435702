//! The kinds of stored arrays that make up a tensor.

/// The role of a stored array in its tensor.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The elements themselves, packed or plain.
    Weight,
    /// A factor for each group or block; for the whole tensor if there is no other factor.
    Scale,
    /// A term that is added for each group. A layer's additive bias is a tensor of its own instead.
    Bias,
    /// A factor for the whole tensor, in addition to the factors of its groups.
    GlobalScale,
    /// The largest magnitude of the whole tensor, from which its factor is computed (MLX).
    GlobalAmax,
    /// A divisor for the whole tensor, in addition to the factors of its groups
    /// (compressed-tensors).
    GlobalDivisor,
    /// The integer that is subtracted from the codes of each group before scaling.
    ZeroPoint,
    /// The bits of the elements that are stored, of matrices that are half zeros.
    Bitmask,
    /// The group number of each input column (GPTQ's `g_idx`).
    GroupIndex,
    /// The largest magnitude of each run of elements, or its code (bitsandbytes).
    Absmax,
    /// The value of each element code (bitsandbytes).
    CodeValues,
    /// The largest magnitude of each run of `Absmax` codes.
    NestedAbsmax,
    /// The value of each `Absmax` code.
    NestedCodeValues,
    /// A description of the packing for the library that made it.
    Description,
    /// A factor for the layer's input. It does not affect the weight's values, and neither do the next four.
    ActivationScale,
    /// The integer that is subtracted from the codes of the layer's input.
    ActivationZeroPoint,
    /// The largest factor for the layer's input.
    ActivationBound,
    /// A factor for the layer's output.
    OutputScale,
    /// The integer that is subtracted from the codes of the layer's output.
    OutputZeroPoint,
    /// A factor for each column, by which the layer multiplies its input before the matrix. It is
    /// multiplied into the weight's values.
    InputFactor,
}

impl Part {
    /// Whether it describes what a layer receives or returns, and not the values of its weight.
    pub(crate) const fn is_of_activations(self) -> bool {
        matches!(
            self,
            Self::ActivationScale
                | Self::ActivationZeroPoint
                | Self::ActivationBound
                | Self::OutputScale
                | Self::OutputZeroPoint
        )
    }

    /// The name in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Scale => "scale",
            Self::Bias => "bias",
            Self::GlobalScale => "global_scale",
            Self::GlobalAmax => "global_amax",
            Self::GlobalDivisor => "global_divisor",
            Self::ZeroPoint => "zero_point",
            Self::Bitmask => "bitmask",
            Self::GroupIndex => "group_index",
            Self::Absmax => "absmax",
            Self::CodeValues => "code_values",
            Self::NestedAbsmax => "nested_absmax",
            Self::NestedCodeValues => "nested_code_values",
            Self::Description => "description",
            Self::ActivationScale => "activation_scale",
            Self::ActivationZeroPoint => "activation_zero_point",
            Self::ActivationBound => "activation_bound",
            Self::OutputScale => "output_scale",
            Self::OutputZeroPoint => "output_zero_point",
            Self::InputFactor => "input_factor",
        }
    }
}
