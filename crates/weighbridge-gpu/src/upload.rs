//! Transfers to the memory of a GPU: threads fill host memory, which the GPU copies.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use zerocopy::IntoBytes;

use crate::import;
use weighbridge::{Error, ErrorKind, Result};

/// The most bytes that are staged at a time for one transfer, and that are read back at a time.
pub(super) const STAGE: u64 = 8 << 20;

/// Transfers that are under way at a time. Together with the memory that threads fill, they bound
/// the host memory that loading takes.
const IN_FLIGHT: usize = 3;

/// Host memory that one thread fills.
enum Stage {
    /// The GPU copies from it.
    Imported(import::Stage),
    /// It is copied to memory of the driver.
    Own(Vec<u64>),
}

impl Stage {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Imported(stage) => stage.bytes(),
            Self::Own(words) => words.as_mut_bytes(),
        }
    }
}

/// A buffer of the driver, the byte in it at which a transfer begins, and the bytes of the range.
pub(super) type Place<'b> = (&'b wgpu::Buffer, u64, Range<u64>);

/// Host memory for transfers, and what is under way.
pub(super) struct Uploads {
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// The alignment of host memory that the GPU can copy from; `None` if the driver cannot import it.
    alignment: Option<u64>,
    /// Transfers that are not known to be finished, the oldest first, and the memory they read.
    flight: Mutex<VecDeque<(wgpu::SubmissionIndex, Option<Stage>)>>,
    free: Mutex<Vec<Stage>>,
}

impl Uploads {
    pub(super) fn new(device: &wgpu::Device, queue: &wgpu::Queue, alignment: Option<u64>) -> Self {
        let (device, queue) = (device.clone(), queue.clone());
        Self { device, queue, alignment, flight: Mutex::default(), free: Mutex::default() }
    }

    /// Memory of at least so many bytes.
    fn take(&self, len: usize) -> Result<Stage> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = free.iter_mut().rposition(|stage| stage.bytes().len() >= len) {
            return Ok(free.swap_remove(found));
        }
        drop(free);
        // To import memory takes milliseconds, in which the driver copies what is small.
        let stage = usize::try_from(STAGE).unwrap_or(len);
        let alignment = self.alignment.filter(|_| len >= stage / 8);
        let imported =
            alignment.and_then(|at| import::Stage::new(&self.device, len.max(stage), at));
        if let Some(stage) = imported {
            return Ok(Stage::Imported(stage));
        }
        let mut words = Vec::new();
        words
            .try_reserve_exact(len.div_ceil(8))
            .map_err(|_| Error::out_of_memory("the host", len as u64, None))?;
        words.resize(len.div_ceil(8), 0);
        Ok(Stage::Own(words))
    }

    /// Keeps memory for the next transfer. A longer piece than usual is not kept.
    fn keep(&self, mut stage: Stage) {
        if stage.bytes().len() as u64 <= 2 * STAGE {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(stage);
        }
    }

    /// Fills a range of places by `write`. `wait` waits for a transfer.
    pub(super) fn fill<'b>(
        &self,
        range: &Range<u64>,
        places: impl Iterator<Item = Place<'b>>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
        wait: &dyn Fn(wgpu::SubmissionIndex) -> Result<()>,
    ) -> Result<()> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut stage = self.take(len)?;
        // Mapped memory of a GPU cannot be read, and reading from it is slow where it can: the
        // loader's decoders do both, so they write to this memory.
        if let Err(error) = write(stage.bytes().get_mut(..len).unwrap_or_default()) {
            self.keep(stage);
            return Err(error);
        }
        if let Stage::Imported(imported) = &stage {
            let new = wgpu::CommandEncoderDescriptor::default();
            let mut commands = self.device.create_command_encoder(&new);
            for (buffer, offset, part) in places {
                let (from, size) = (part.start - range.start, part.end - part.start);
                commands.copy_buffer_to_buffer(imported.buffer(), from, buffer, offset, size);
            }
            return self.sent(self.queue.submit([commands.finish()]), Some(stage), wait);
        }
        for (buffer, offset, part) in places {
            for at in (part.start..part.end).step_by(usize::try_from(STAGE).unwrap_or(usize::MAX)) {
                let end = part.end.min(at + STAGE);
                let place = |at: u64| usize::try_from(at - range.start).unwrap_or(usize::MAX);
                let bytes = stage.bytes().get(place(at)..place(end)).unwrap_or_default();
                let offset = offset + (at - part.start);
                let view = NonZeroU64::new(bytes.len() as u64)
                    .and_then(|size| self.queue.write_buffer_with(buffer, offset, size));
                let fault = "the GPU's driver failed: it has no memory for a transfer";
                let view = view.ok_or_else(|| Error::new(ErrorKind::Device, fault));
                view?.copy_from_slice(bytes);
                self.sent(self.queue.submit([]), None, wait)?;
            }
        }
        self.keep(stage);
        Ok(())
    }

    /// Notes a transfer, and waits for the oldest one if too many are under way.
    fn sent(
        &self,
        submission: wgpu::SubmissionIndex,
        stage: Option<Stage>,
        wait: &dyn Fn(wgpu::SubmissionIndex) -> Result<()>,
    ) -> Result<()> {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        flight.push_back((submission, stage));
        let oldest = if flight.len() > IN_FLIGHT { flight.pop_front() } else { None };
        drop(flight);
        if let Some((oldest, stage)) = oldest {
            wait(oldest)?;
            stage.into_iter().for_each(|stage| self.keep(stage));
        }
        Ok(())
    }

    /// Gives up the memory, when all transfers are finished.
    pub(super) fn clear(&self) {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
