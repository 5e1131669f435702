//! Devices: memory that tensors are loaded to.

mod cpu;
pub mod kernel;
mod paper;

use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::ops::Range;
use std::sync::Arc;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::quant::BlockScales;
use crate::store::Part;
pub use cpu::Cpu;
pub use paper::Paper;

/// One part of a tensor in device memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedPart {
    /// The kind of the part.
    pub part: Part,
    /// The dtype of the part's elements.
    pub dtype: DType,
    /// The dimensions, in elements of this dtype, outermost first.
    pub shape: Vec<u64>,
    /// The part's bytes in the buffer, little-endian. The range starts at a multiple of the
    /// device's alignment, unless parts are [tightly
    /// packed](crate::WeightProvider::tightly_packed). The first part need not start at 0.
    pub range: Range<u64>,
    /// The part's bytes for each row; `None` if the tensor has the part only once.
    pub row_bytes: Option<u64>,
}

/// A device that holds weights, such as host memory or the memory of a GPU.
///
/// Loading allocates a buffer, divides it into [regions](Self::regions), fills them from several
/// threads, and calls [`finish`](Self::finish). The loader reads, reorders and decodes straight into
/// the memory that [`fill`](Self::fill) hands out: the buffer itself where the device's memory is
/// host memory, staging memory elsewhere. `examples/device.rs` has a device of its own.
pub trait Device: Debug + Send + Sync + 'static {
    /// Owned memory on the device, freed when it is dropped.
    type Buffer: Debug + Send + Sync + 'static;

    /// A range of a buffer that is about to be filled.
    type Region<'b>: Send;

    /// The name of the device in reports.
    fn name(&self) -> Cow<'_, str>;

    /// The device's requirements on buffers and their parts.
    fn limits(&self) -> DeviceLimits;

    /// Whether the device can compute with a dtype. It is asked for the dtype of every part of a
    /// tensor. The loader stores no other dtype on the device; see
    /// [`WeightProvider::fallback`](crate::WeightProvider::fallback).
    fn supports(&self, dtype: DType) -> bool {
        let _ = dtype;
        true
    }

    /// Whether the device can compute with a tensor whose parts lie so, of dtypes that it
    /// [supports](Self::supports). The loader decodes the values of other tensors.
    fn computes(&self, tensor: &TensorLayout<'_>) -> bool {
        let _ = tensor;
        true
    }

    /// The dtype to which tensors of a dtype are decoded if the device cannot compute with them and the
    /// caller chose [no dtype](crate::WeightProvider::fallback). `None`, the default, makes them an error.
    fn instead(&self, dtype: DType) -> Option<DType> {
        let _ = dtype;
        None
    }

    /// Uses bytes of a file that lie in host memory as a buffer, without a copy. `None`, the default,
    /// where the device cannot. It is only called if [`DeviceLimits::import`] is set, and the bytes
    /// begin and end at multiples of it.
    fn import(&self, memory: HostMemory) -> Option<Self::Buffer> {
        let _ = memory;
        None
    }

    /// Allocates a buffer. Its contents are unspecified: every byte of every part is filled later.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`, see [`Error::out_of_memory`]; `Unsupported` if the device has no buffers of
    /// this size.
    fn allocate(&self, layout: &BufferLayout) -> Result<Self::Buffer>;

    /// Divides a buffer into the given ranges, which are in order and do not overlap. They start and
    /// end at multiples of [`DeviceLimits::unit`].
    ///
    /// # Errors
    ///
    /// `Mismatch` if a range exceeds the buffer.
    fn regions<'b>(
        &self,
        buffer: &'b mut Self::Buffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>>;

    /// Calls `write` once with memory for all bytes of the region, then transfers them. Several
    /// threads fill regions at the same time. The memory may contain anything before. It is aligned
    /// as the region's start is in the buffer, or to 8 bytes if that is less.
    ///
    /// # Errors
    ///
    /// The error of `write`, after which nothing is transferred; `Device` if the transfer fails.
    fn fill(
        &self,
        region: Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()>;

    /// Waits until everything that was filled is in the buffers.
    ///
    /// # Errors
    ///
    /// `Device` if a transfer failed or the device was lost.
    fn finish(&self) -> Result<()> {
        Ok(())
    }

    /// The buffer as host memory, if this program can read it directly.
    fn contents<'b>(&self, buffer: &'b Self::Buffer) -> Option<&'b [u8]> {
        let _ = buffer;
        None
    }

    /// Copies bytes from the buffer, starting at `offset`, to `out`. Any offset and any length are
    /// allowed.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the buffer; `Device` if the transfer fails.
    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()>;
}

/// The requirements of a device for buffers and their parts. A GPU's come from its driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// The alignment, in bytes, of a tensor's parts within its buffer: a power of two.
    pub alignment: u64,
    /// The bytes that transfers are multiples of: a power of two, at most `alignment`. Buffers have
    /// a multiple of them.
    pub unit: u64,
    /// The most bytes of a buffer that a kernel can use at once. A larger tensor is used in windows
    /// of whole rows.
    pub binding: u64,
    /// The bytes of the largest buffer.
    pub buffer: u64,
    /// The bytes of the device's memory, if known.
    pub memory: Option<u64>,
    /// Whether regions are the buffer's own memory. Long parts are then placed so that they can be
    /// read directly from the file into place.
    pub in_place: bool,
    /// The alignment, in bytes, of host memory that [`Device::import`] takes: a power of two. `None`
    /// if the device does not import memory.
    pub import: Option<u64>,
    /// The most threads that call [`Device::fill`] at the same time. More than one are no faster where
    /// the driver copies on a processor of the host.
    pub threads: usize,
}

impl DeviceLimits {
    /// The limits of a device that requires only an alignment: transfers in bytes, and buffers and
    /// bindings of any size.
    pub const fn new(alignment: u64) -> Self {
        Self {
            alignment,
            unit: 1,
            binding: u64::MAX,
            buffer: u64::MAX,
            memory: None,
            in_place: false,
            import: None,
            threads: usize::MAX,
        }
    }
}

/// Bytes of a file in host memory, which stay in place as long as this exists. They are read-only.
#[derive(Clone)]
pub struct HostMemory {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl HostMemory {
    /// Some bytes of `owner`, whose bytes must always be the same memory.
    pub(crate) fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Self {
        Self { owner, range }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.owner).as_ref().get(self.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostMemory({:?})", self.range)
    }
}

/// A tensor as it is to be stored on a device.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TensorLayout<'a> {
    /// The dtype in which the elements are stored.
    pub dtype: DType,
    /// The dimensions, outermost first.
    pub shape: &'a [u64],
    /// The number of elements that share a scale, for dtypes whose group size differs between
    /// tensors (MLX).
    pub group_size: Option<u32>,
    /// The elements that share a scale, for dtypes whose files state it apart from the weights
    /// (bitsandbytes).
    pub blocks: Option<BlockScales>,
    /// The location of each part in the buffer, the weight first.
    pub parts: &'a [LoadedPart],
    /// The layout of the buffer.
    pub layout: &'a BufferLayout,
}

/// The layout of a buffer that is to be allocated.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BufferLayout {
    /// The bytes of the buffer, a multiple of [`DeviceLimits::unit`].
    pub bytes: u64,
    /// Its parts, in order. A device that must divide a large buffer does so between rows.
    pub parts: Vec<PartLayout>,
}

/// The place of one part of a tensor in a buffer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartLayout {
    /// The bytes of the part in the buffer.
    pub range: Range<u64>,
    /// The bytes of each row; `None` if the tensor has the part only once.
    pub row_bytes: Option<u64>,
}

impl BufferLayout {
    /// The layout of a buffer without known parts.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, parts: Vec::new() }
    }

    /// Adds a part.
    #[must_use]
    pub fn part(mut self, range: Range<u64>, row_bytes: Option<u64>) -> Self {
        self.parts.push(PartLayout { range, row_bytes });
        self
    }

    /// Divides the buffer into ranges that do not exceed [`DeviceLimits::buffer`]. A part that is
    /// divided starts a range, and is cut between rows, at multiples of the alignment if its rows
    /// allow that.
    pub fn cuts(&self, limits: DeviceLimits) -> Vec<Range<u64>> {
        let most = limits.buffer.max(limits.unit) / limits.unit.max(1) * limits.unit.max(1);
        let mut cuts = Vec::new();
        let mut start = 0;
        while self.bytes - start > most {
            let reach = start + most;
            // The part that does not fit.
            let part = self.parts.iter().find(|part| part.range.end > reach);
            let end = match part {
                Some(part) if part.range.start >= start + limits.unit.max(1) => {
                    part.range.start / limits.unit.max(1) * limits.unit.max(1)
                }
                Some(PartLayout { range, row_bytes: Some(row @ 1..) }) if range.start <= start => {
                    // As many rows as are a multiple of the unit.
                    let mut step = *row;
                    while !step.is_multiple_of(limits.unit.max(1)) {
                        step = step.saturating_mul(2);
                    }
                    let rows = (reach - range.start) / step * step;
                    Some(range.start + rows).filter(|end| *end > start).unwrap_or(reach)
                }
                _ => reach,
            };
            cuts.push(start..end);
            start = end;
        }
        if self.bytes > start {
            cuts.push(start..self.bytes);
        }
        cuts
    }
}

/// Divides host memory into ranges that are in order and do not overlap: [`Device::regions`] of a
/// device whose buffers are host memory.
///
/// # Errors
///
/// `Mismatch` if a range exceeds the memory or overlaps the one before.
pub fn split_at<'b>(memory: &'b mut [u8], ranges: &[Range<u64>]) -> Result<Vec<&'b mut [u8]>> {
    let (len, mut at) = (memory.len(), 0);
    let (mut rest, mut regions) = (memory, Vec::new());
    for range in ranges {
        let place = |from: u64, to: u64| usize::try_from(to.checked_sub(from)?).ok();
        let cut = place(at, range.start).zip(place(range.start, range.end));
        let (region, later) = cut
            .and_then(|(skip, len)| {
                let (_, rest) = std::mem::take(&mut rest).split_at_mut_checked(skip)?;
                rest.split_at_mut_checked(len)
            })
            .ok_or_else(|| Error::outside_buffer(range, len as u64))?;
        regions.push(region);
        (rest, at) = (later, range.end);
    }
    Ok(regions)
}

/// A device that several providers share.
impl<D: Device> Device for Arc<D> {
    type Buffer = D::Buffer;
    type Region<'b> = D::Region<'b>;

    fn name(&self) -> Cow<'_, str> {
        (**self).name()
    }

    fn limits(&self) -> DeviceLimits {
        (**self).limits()
    }

    fn supports(&self, dtype: DType) -> bool {
        (**self).supports(dtype)
    }

    fn computes(&self, tensor: &TensorLayout<'_>) -> bool {
        (**self).computes(tensor)
    }

    fn instead(&self, dtype: DType) -> Option<DType> {
        (**self).instead(dtype)
    }

    fn import(&self, memory: HostMemory) -> Option<Self::Buffer> {
        (**self).import(memory)
    }

    fn allocate(&self, layout: &BufferLayout) -> Result<Self::Buffer> {
        (**self).allocate(layout)
    }

    fn regions<'b>(
        &self,
        buffer: &'b mut Self::Buffer,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Self::Region<'b>>> {
        (**self).regions(buffer, ranges)
    }

    fn fill(
        &self,
        region: Self::Region<'_>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        (**self).fill(region, write)
    }

    fn finish(&self) -> Result<()> {
        (**self).finish()
    }

    fn contents<'b>(&self, buffer: &'b Self::Buffer) -> Option<&'b [u8]> {
        (**self).contents(buffer)
    }

    fn read(&self, buffer: &Self::Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
        (**self).read(buffer, offset, out)
    }
}
