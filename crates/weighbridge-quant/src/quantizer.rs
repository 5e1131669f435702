//! Quantizers: convert numbers to the bytes of a dtype.

use super::body::Encode;
use super::kernel::{BlockEncoding, Kernels};
use super::packed::QuantizerInput;

/// Quantizes values to one dtype; see [`DType::quantize_rows`](crate::DType::quantize_rows).
#[derive(Debug)]
pub struct Quantizer {
    kernels: Kernels<BlockEncoding>,
    importance: Importance,
}

/// The use that a dtype's quantizer makes of the importance of columns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Importance {
    /// Importance makes no difference.
    Ignored,
    /// With importance, codes are chosen for the least weighted error.
    Used,
    /// Importance is required: with so few bits, a guess at what matters would make the result
    /// worthless.
    Required,
}

impl Quantizer {
    pub(super) const fn of<E: Encode>(importance: Importance) -> Self {
        Self { kernels: Kernels::of::<E>(), importance }
    }

    /// The use that the quantizer makes of the importance of columns.
    pub fn importance(&self) -> Importance {
        self.importance
    }

    /// Writes the bytes of all rows to `out`.
    pub fn run(&self, rows: &QuantizerInput<'_>, out: &mut [u8]) {
        self.kernels.run((rows, out));
    }

    #[cfg(test)]
    pub(super) fn run_on(
        &self,
        isa: super::kernel::Isa,
        rows: &QuantizerInput<'_>,
        out: &mut [u8],
    ) {
        self.kernels.run_on(isa, (rows, out));
    }
}
