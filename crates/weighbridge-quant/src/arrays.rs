//! The stored arrays of a tensor of a quantization scheme.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::borrow::Cow;
use std::ops::Range;

use super::float::Float;
use super::simd::{Portable, Simd};

/// One stored array of a tensor.
#[derive(Clone, Debug)]
pub struct StoredArray<'a> {
    /// The elements, in little-endian order.
    pub bytes: Cow<'a, [u8]>,
    /// The dimensions, outermost first.
    pub shape: &'a [u64],
    /// The bytes of an element.
    pub width: usize,
    /// The number format, if elements are floats.
    pub format: Option<Float>,
}

impl StoredArray<'_> {
    /// The float at position `number`.
    pub(crate) fn float(&self, number: usize) -> Option<f32> {
        let format = self.format?;
        let bytes = self.bytes.get(number.checked_mul(format.bytes())?..)?;
        (bytes.len() >= format.bytes()).then(|| format.value(bytes, |bits| Portable.f16(bits)))
    }

    /// The 32-bit word at position `number`.
    pub(crate) fn word(&self, number: usize) -> Option<u32> {
        let bytes = self.bytes.get(number.checked_mul(4)?..).filter(|_| self.width == 4)?;
        bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The rows and the columns of each of its matrices; 1 for a dimension that it does not have.
    pub(crate) fn matrix(&self) -> (usize, usize) {
        let last = self.shape.len();
        let before_last = last.checked_sub(2).map_or(1, |dimension| self.along(dimension));
        (before_last, last.checked_sub(1).map_or(1, |dimension| self.along(dimension)))
    }

    /// The length of a dimension; 1 beyond the last.
    pub(crate) fn along(&self, dimension: usize) -> usize {
        self.shape.get(dimension).map_or(1, |&len| usize::try_from(len).unwrap_or(usize::MAX))
    }
}

/// The elements that share a scale, where the files state their number: bitsandbytes, AWQ's GEMV.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BlockScales {
    /// The elements that share a scale.
    pub block: u32,
    /// The scales that share one of their own; 0 if scales are not coded.
    pub nested_block: u32,
    /// The offset that is added to each decoded scale.
    pub nested_offset: f32,
}

/// All arrays of one tensor. Arrays that a scheme does not use are absent.
#[derive(Debug)]
pub struct SchemeArrays<'a> {
    /// The dimensions of the values, outermost first.
    pub shape: &'a [u64],
    /// The elements of a row.
    pub columns: usize,
    /// The codes.
    pub weight: StoredArray<'a>,
    /// The scales.
    pub scale: Option<StoredArray<'a>>,
    /// The integers that are subtracted from the codes.
    pub zero_point: Option<StoredArray<'a>>,
    /// The bits of the elements that are stored, rows of whole bytes, the lowest bit first (2:4 sparsity).
    pub bitmask: Option<StoredArray<'a>>,
    /// The group of each column (GPTQ's `g_idx`).
    pub group_index: Option<StoredArray<'a>>,
    /// The largest magnitude of each run of elements (bitsandbytes).
    pub absmax: Option<StoredArray<'a>>,
    /// The value of each code (bitsandbytes).
    pub code_values: Option<StoredArray<'a>>,
    /// The scales of `absmax`, if it consists of codes.
    pub nested_absmax: Option<StoredArray<'a>>,
    /// The value of each code of `absmax`.
    pub nested_code_values: Option<StoredArray<'a>>,
    /// The scale of the whole tensor (NVFP4).
    pub global_scale: Option<StoredArray<'a>>,
    /// A factor for each column, by which the module multiplies its input (ModelOpt after AWQ).
    pub input_factor: Option<StoredArray<'a>>,
    /// The runs that share an entry of `absmax`.
    pub blocks: BlockScales,
}

/// Decodes a range of rows; `None` if the arrays are too small for them.
pub type RowsDecode = fn(&SchemeArrays<'_>, Range<usize>, &mut [f32]) -> Option<()>;
