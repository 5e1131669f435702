//! The kernels of a dtype.

use half::{bf16, f16};

use super::inputs::Inputs;
use super::kernel::{KernelSignature, Kernels, ValueDecoding};
use super::narrowing::Narrowing;
use super::packed::{Packed, PackedRows};

/// The kernels of a dtype whose values are decoded in runs.
#[derive(Debug)]
pub struct Runs {
    pub(crate) to_f32: Kernels<ValueDecoding<f32>>,
    /// `None` if values are decoded to `f32` first.
    pub(crate) to_f16: Option<Kernels<ValueDecoding<f16>>>,
    /// See `to_f16`.
    pub(crate) to_bf16: Option<Kernels<ValueDecoding<bf16>>>,
    /// Multiplies rows with inputs.
    pub(crate) products: Option<Kernels<InputProducts>>,
    /// Decodes with the rounding of the format's own library, if it differs.
    pub(crate) native: Option<fn(&Packed<'_>, &mut [f32])>,
    /// Counts the values that are lost in the conversion to `f32`.
    pub(crate) lost: Option<fn(&Packed<'_>) -> Narrowing>,
}

/// Multiplies packed rows with one row of inputs.
pub(crate) struct InputProducts;

impl KernelSignature for InputProducts {
    type Input<'a> = (PackedRows<'a>, &'a Inputs<'a>, &'a mut [f32]);
    type Output = ();
}
