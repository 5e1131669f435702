//! A device without memory.

use std::borrow::Cow;
use std::ops::Range;

use super::{BufferLayout, Device, DeviceLimits, TensorLayout, kernel};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// A GPU that does not exist: it has limits and kernels, so that layouts and geometry can be
/// computed, but no memory.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its limits.
    pub limits: DeviceLimits,
}

impl Default for Paper {
    /// The limits that every device of WebGPU has.
    fn default() -> Self {
        let mut limits = DeviceLimits::new(256);
        (limits.unit, limits.binding, limits.buffer) = (4, 128 << 20, 256 << 20);
        Self { limits }
    }
}

impl Device for Paper {
    type Buffer = std::convert::Infallible;
    type Region<'b> = std::convert::Infallible;

    fn name(&self) -> Cow<'_, str> {
        "paper".into()
    }

    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn supports(&self, dtype: DType) -> bool {
        kernel::supports(dtype)
    }

    fn computes(&self, tensor: &TensorLayout<'_>) -> bool {
        kernel::computes(tensor, self.limits)
    }

    fn instead(&self, dtype: DType) -> Option<DType> {
        Some(kernel::instead(dtype))
    }

    fn allocate(&self, _: &BufferLayout) -> Result<Self::Buffer> {
        Err(Error::unsupported("paper has no memory"))
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Self::Buffer,
        _: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        match *buffer {}
    }

    fn fill(
        &self,
        region: Self::Region<'_>,
        _: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        match region {}
    }

    fn read(&self, buffer: &Self::Buffer, _: u64, _: &mut [u8]) -> Result<()> {
        match *buffer {}
    }
}
