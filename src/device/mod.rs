//! Devices: where loaded weights live.

mod cpu;

use std::borrow::Cow;

use crate::dtype::DType;
use crate::error::Result;
pub use cpu::Cpu;

/// A place for weights: host memory, later a GPU.
pub trait Device: std::fmt::Debug + Send + Sync {
    /// Owned memory on the device, freed when it is dropped.
    type Buffer: std::fmt::Debug + Send + Sync;

    /// The name in reports.
    fn name(&self) -> Cow<'_, str>;

    /// Bytes to which the parts of a tensor are aligned within its buffer: a power of two.
    fn alignment(&self) -> u64;

    /// Whether it can keep tensors of a dtype. Everything can be kept that need not be computed with.
    fn supports(&self, dtype: DType) -> bool {
        let _ = dtype;
        true
    }

    /// Memory for `bytes` bytes, all zero.
    ///
    /// # Errors
    ///
    /// `Io` if there is not that much memory.
    fn allocate(&self, bytes: u64) -> Result<Self::Buffer>;

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if they do not fit there.
    fn write(&self, buffer: &mut Self::Buffer, offset: u64, bytes: &[u8]) -> Result<()>;

    /// The bytes of a buffer that this program can write to itself, from several threads: whoever
    /// has them needs no [`write`](Self::write).
    fn host<'b>(&self, buffer: &'b mut Self::Buffer) -> Option<&'b mut [u8]> {
        let _ = buffer;
        None
    }

    /// Copies the bytes from `offset` to `out`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the buffer does not reach so far.
    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()>;
}
