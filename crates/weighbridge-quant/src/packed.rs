//! The inputs and outputs of kernels.

use crate::float::Float;

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
    pub(crate) fn applied(self, scale: f32) -> f32 {
        match self {
            Self::None => scale,
            Self::Factor(factor) => scale * factor,
            Self::Divisor(divisor) => scale / divisor,
        }
    }
}

impl PackedRows<'_> {
    /// The blocks of each row, of which there are that many.
    #[inline(always)]
    pub(crate) fn of<'b, B>(&self, blocks: &'b [B], each: usize) -> impl Iterator<Item = &'b [B]> {
        blocks.chunks_exact(each.max(1)).step_by(self.step.max(1))
    }
}

impl Packed<'_> {
    /// Wraps blocks or plain elements, without other parts.
    pub fn blocks(weight: &[u8]) -> Packed<'_> {
        let formats = (Float::F32, Float::F32);
        Packed { weight, scale: &[], bias: &[], formats, group_size: 1, global: Global::None }
    }
}

/// Rows of blocks or plain elements that are evenly spaced.
#[derive(Clone, Copy, Debug)]
pub struct PackedRows<'a> {
    /// The bytes from the first of these rows to the end of the last.
    pub bytes: &'a [u8],
    /// The distance from one row to the next, in rows: 1 for consecutive rows.
    pub step: usize,
}

/// Rows of numbers, each of whole blocks.
#[derive(Clone, Copy, Debug)]
pub struct QuantizerInput<'a> {
    /// Consecutive rows of values.
    pub values: &'a [f32],
    /// The number of elements of a row.
    pub columns: usize,
    /// One weight for each column.
    pub importance: Option<&'a [f32]>,
}

/// The grouping of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grouping {
    /// The number of elements that share a scale: 32, 64 or 128 for affine dtypes; 16 for
    /// `MLX_NVFP4`, 32 for the other floats.
    pub size: usize,
    /// The largest magnitude of the whole tensor, for `MLX_NVFP4` with a global scale. MLX stores
    /// this number beside the other parts.
    pub amax: Option<f32>,
}

/// Buffers for the parts of whole groups; a buffer is empty if the dtype has no such part.
#[derive(Debug)]
pub struct GroupParts<'a> {
    /// The codes of all elements, as one bit stream.
    pub weight: &'a mut [u8],
    /// A scale for each group: a little-endian `T`, or a byte.
    pub scale: &'a mut [u8],
    /// A bias for each group, in the format of its scale.
    pub bias: &'a mut [u8],
}
