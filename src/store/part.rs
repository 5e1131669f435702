//! What the stored arrays of one tensor are to it.

/// What a stored array is to the tensor that it belongs to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The elements themselves, packed or plain.
    Weight,
    /// A factor for each group or block, or for the whole tensor where there is no other.
    Scale,
    /// A term added for each group: not a layer's own bias, which is a tensor by itself.
    Bias,
    /// A factor for the whole tensor, beside factors for its groups.
    GlobalScale,
    /// The largest magnitude of the whole tensor, from which its factor follows (MLX).
    GlobalAmax,
    /// A divisor for the whole tensor, beside factors for its groups (compressed-tensors).
    GlobalDivisor,
    /// What is subtracted from the elements of each group before they are scaled.
    ZeroPoint,
    /// The number of the group of each input (GPTQ's `g_idx`).
    GroupIndex,
    /// The largest magnitude of each run of elements, or its code (bitsandbytes).
    Absmax,
    /// The values of the codes of the elements (bitsandbytes).
    CodeValues,
    /// The largest magnitude of each run of `Absmax` codes.
    NestedAbsmax,
    /// The values of the codes of `Absmax`.
    NestedCodeValues,
    /// A description of how the tensor was packed, for the library that did it.
    Description,
    /// A factor for the layer's input, which no weight needs.
    ActivationScale,
}

impl Part {
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
            Self::GroupIndex => "group_index",
            Self::Absmax => "absmax",
            Self::CodeValues => "code_values",
            Self::NestedAbsmax => "nested_absmax",
            Self::NestedCodeValues => "nested_code_values",
            Self::Description => "description",
            Self::ActivationScale => "activation_scale",
        }
    }
}
