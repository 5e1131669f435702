//! Transfers to the memory of a GPU: threads fill host memory, which the GPU copies.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use zerocopy::IntoBytes;

use super::{Gpu, GpuBuffer, STAGE, import};
use crate::error::{Error, Result};

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

/// Host memory for transfers, and what is under way.
pub(super) struct Uploads {
    /// The alignment of host memory that the GPU can copy from; `None` if the driver cannot import it.
    alignment: Option<u64>,
    /// Transfers that are not known to be finished, the oldest first, and the memory they read.
    flight: Mutex<VecDeque<(wgpu::SubmissionIndex, Option<Stage>)>>,
    free: Mutex<Vec<Stage>>,
}

impl Uploads {
    pub(super) fn new(alignment: Option<u64>) -> Self {
        Self { alignment, flight: Mutex::default(), free: Mutex::default() }
    }

    /// Memory of at least so many bytes.
    fn take(&self, device: &wgpu::Device, len: usize) -> Result<Stage> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = free.iter_mut().rposition(|stage| stage.bytes().len() >= len) {
            return Ok(free.swap_remove(found));
        }
        drop(free);
        // To import memory takes milliseconds, in which the driver copies what is small.
        let stage = usize::try_from(STAGE).unwrap_or(len);
        let alignment = self.alignment.filter(|_| len >= stage / 8);
        let imported = alignment.and_then(|at| import::Stage::new(device, len.max(stage), at));
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

    /// Notes a transfer; the oldest one, if too many are under way.
    fn sent(
        &self,
        submission: wgpu::SubmissionIndex,
        stage: Option<Stage>,
    ) -> Option<(wgpu::SubmissionIndex, Option<Stage>)> {
        let mut flight = self.flight.lock().unwrap_or_else(PoisonError::into_inner);
        flight.push_back((submission, stage));
        (flight.len() > IN_FLIGHT).then(|| flight.pop_front()).flatten()
    }
}

impl Gpu {
    /// Fills a range of a buffer by `write`.
    pub(super) fn upload(
        &self,
        buffer: &GpuBuffer,
        range: Range<u64>,
        write: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.check()?;
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut stage = self.uploads.take(&self.device, len)?;
        // Mapped memory of a GPU cannot be read, and reading from it is slow where it can: the
        // loader's decoders do both, so they write to this memory.
        let written = write(stage.bytes().get_mut(..len).unwrap_or_default());
        if let Err(error) = written {
            self.uploads.keep(stage);
            return Err(error);
        }
        if let Stage::Imported(imported) = &stage {
            let mut commands =
                self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (chunk, part) in buffer.within(&range) {
                let (from, to) = (part.start - range.start, part.start - chunk.range.start);
                let size = part.end - part.start;
                commands.copy_buffer_to_buffer(imported.buffer(), from, &chunk.buffer, to, size);
            }
            let submission = self.queue.submit([commands.finish()]);
            return self.sent(submission, Some(stage));
        }
        for (chunk, part) in buffer.within(&range) {
            let mut at = part.start;
            while at < part.end {
                let end = part.end.min(at + STAGE);
                let place = |at: u64| usize::try_from(at - range.start).unwrap_or(usize::MAX);
                let bytes = stage.bytes().get(place(at)..place(end)).unwrap_or_default();
                let mut view = NonZeroU64::new(bytes.len() as u64)
                    .and_then(|size| {
                        let offset = at - chunk.range.start;
                        self.queue.write_buffer_with(&chunk.buffer, offset, size)
                    })
                    .ok_or_else(|| self.fault("no staging memory"))?;
                view.copy_from_slice(bytes);
                drop(view);
                self.sent(self.queue.submit([]), None)?;
                at = end;
            }
        }
        self.uploads.keep(stage);
        Ok(())
    }

    fn sent(&self, submission: wgpu::SubmissionIndex, stage: Option<Stage>) -> Result<()> {
        if let Some((oldest, stage)) = self.uploads.sent(submission, stage) {
            self.wait(Some(oldest))?;
            stage.into_iter().for_each(|stage| self.uploads.keep(stage));
        }
        Ok(())
    }

    /// Waits for all transfers, and gives up their memory.
    pub(super) fn land(&self) -> Result<()> {
        let waited = self.wait(None);
        self.uploads.flight.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.uploads.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
        waited
    }
}
