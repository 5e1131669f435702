//! Moves codes from one packing to another without decoding values.
//!
//! Codes are processed 32 at a time, together with their scales and biases. A scale or bias that the
//! target packing cannot represent exactly is not rounded: repacking fails and reports it.

mod affine;
mod small;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use affine::{
    AFFINE1_TO_Q4_1, AFFINE2_TO_Q4_1, AFFINE3_TO_Q4_1, AFFINE4_TO_Q4_0, AFFINE4_TO_Q4_1,
    AFFINE5_TO_Q5_0, AFFINE5_TO_Q5_1, AFFINE8_TO_Q8_0, CT_INT4_TO_AFFINE4, Q1_0_TO_AFFINE1,
    Q2_0_TO_AFFINE2, Q4_0_TO_AFFINE4, Q4_1_TO_AFFINE4, Q4_K_TO_AFFINE4, Q5_0_TO_AFFINE5,
    Q5_1_TO_AFFINE5, Q5_K_TO_AFFINE5, Q8_0_TO_AFFINE8, TQ2_0_TO_AFFINE2,
};
pub(crate) use small::{
    BLOCKS_TO_MX, BLOCKS_TO_NV, MX_TO_BLOCKS, MX_TO_MX, NV_TO_BLOCKS, NV_TO_NV,
};

use super::float::Float;
use super::kernel::{KernelSignature, Kernels};
use super::{Global, GroupParts, Packed};

/// The reason why the target packing cannot represent the source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct NotExact {
    /// The reason, in words.
    pub fault: &'static str,
    /// The scale or bias concerned.
    pub value: f32,
    /// The first of the 32 elements concerned, counted from the first given element.
    pub element: usize,
}

impl fmt::Display for NotExact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} from element {} on", self.fault, self.value, self.element)
    }
}

/// The source and the destination of codes.
pub(crate) struct RepackInput<'a> {
    pub(crate) from: Packed<'a>,
    pub(crate) to: GroupParts<'a>,
    /// The group size of the destination parts, and the format of their scales and biases.
    pub(crate) group_size: usize,
    pub(crate) format: Float,
    /// The global scale of the destination.
    pub(crate) global: Global,
    pub(crate) elements: usize,
}

/// Repacks all elements, up to the first that cannot be repacked exactly.
pub(crate) struct RepackKernel;

impl KernelSignature for RepackKernel {
    type Input<'a> = RepackInput<'a>;
    type Output = Option<NotExact>;
}

/// The kernels of one repacking.
#[derive(Debug)]
pub(crate) struct Repacker(Kernels<RepackKernel>);

impl Repacker {
    pub(crate) fn run(&self, given: RepackInput<'_>) -> Option<NotExact> {
        self.0.run(given)
    }

    #[cfg(test)]
    pub(super) fn run_on(
        &self,
        isa: super::kernel::Isa,
        given: RepackInput<'_>,
    ) -> Option<NotExact> {
        self.0.run_on(isa, given)
    }
}

/// The bytes of block `number`.
#[inline(always)]
fn block<const BYTES: usize>(bytes: &[u8], number: usize) -> Option<&[u8; BYTES]> {
    bytes.get(number * BYTES..)?.first_chunk()
}

/// The output bytes of block `number`.
#[inline(always)]
fn room<const BYTES: usize>(bytes: &mut [u8], number: usize) -> Option<&mut [u8; BYTES]> {
    bytes.get_mut(number * BYTES..)?.first_chunk_mut()
}
