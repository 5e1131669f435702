//! Devices: memory that tensors are loaded to.

mod cpu;

use std::borrow::Cow;

use crate::dtype::DType;
use crate::error::Result;
pub use cpu::Cpu;

/// A device that holds weights, such as host memory.
pub trait Device: std::fmt::Debug + Send + Sync {
    /// Owned memory on the device, freed when it is dropped.
    type Buffer: std::fmt::Debug + Send + Sync;

    /// The name of the device in reports.
    fn name(&self) -> Cow<'_, str>;

    /// The alignment, in bytes, of a tensor's parts within its buffer: a power of two.
    fn alignment(&self) -> u64;

    /// Whether the device supports a dtype. Any dtype can be stored; this says nothing about
    /// compute.
    fn supports(&self, dtype: DType) -> bool {
        let _ = dtype;
        true
    }

    /// Allocates `bytes` bytes, all zero.
    ///
    /// # Errors
    ///
    /// `Io` if there is not enough memory.
    fn allocate(&self, bytes: u64) -> Result<Self::Buffer>;

    /// Copies `bytes` into the buffer at `offset`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if they exceed the buffer.
    fn write(&self, buffer: &mut Self::Buffer, offset: u64, bytes: &[u8]) -> Result<()>;

    /// The buffer as host memory, if this program can write to it directly, from several threads.
    /// [`write`](Self::write) is needed only if this returns `None`.
    fn host<'b>(&self, buffer: &'b mut Self::Buffer) -> Option<&'b mut [u8]> {
        let _ = buffer;
        None
    }

    /// Copies bytes from the buffer, starting at `offset`, to `out`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the buffer.
    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()>;
}
