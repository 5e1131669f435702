//! Fills the buffers of tensors: several threads, in the order of the files.

use std::sync::{Arc, Mutex, PoisonError};

use super::plan::{LoadJob, LoadOptions, PlannedPiece, PlannedRegion};
use super::policy::convert;
use super::{LoadedPart, LoadedTensor, WeightProvider};
use crate::bytes::{AlignedBytes, Scratch};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Tensor, prefetch};
use crate::progress::Watch;
use crate::quant::Narrowing;
use crate::threads::Threads;

impl<D: Device> WeightProvider<D> {
    /// Loads tensors into one buffer.
    pub(super) fn load_fused(&self, views: Vec<Tensor>) -> Result<LoadedTensor<D>> {
        let mut jobs = vec![self.job(views)?];
        self.run(&mut jobs, &LoadOptions::new().threads(Threads::one()))?;
        let job = jobs.pop().ok_or_else(|| Error::not_found("no tensor was loaded"))?;
        Ok(job.loaded)
    }

    /// Reads a loaded tensor back from the device, and compares every byte with the model's files.
    ///
    /// # Errors
    ///
    /// `Device` if a byte differs; `Mismatch` if the tensor was loaded under another policy;
    /// otherwise same as [`load`](Self::load).
    pub fn verify(&self, loaded: &LoadedTensor<D>) -> Result<()> {
        let members = loaded.members.iter().map(|member| self.tensor(&member.name));
        let mut placed = self.placed(members.collect::<Result<_>>()?)?;
        if let (true, [part]) = (loaded.imported, loaded.parts.as_slice()) {
            placed.move_to(part.range.clone());
        }
        let place = |parts: &[LoadedPart]| {
            parts.iter().map(|part| (part.part, part.dtype, part.range.clone())).collect::<Vec<_>>()
        };
        let in_tensor = |error: Error| error.in_tensor(placed.view.name());
        if place(&placed.parts) != place(&loaded.parts) {
            return Err(in_tensor(Error::mismatch("it was loaded with other parts")));
        }
        let (mut scratch, mut stored) = (Scratch::default(), Vec::new());
        for region in placed.plan(self.device.limits().unit)? {
            for piece in &region.pieces {
                let len = usize::try_from(piece.to.end - piece.to.start).unwrap_or(usize::MAX);
                let mut expected = AlignedBytes::zeroed(len as u64)?;
                piece.fill(&placed.view, &mut expected, &mut scratch, &mut stored)?;
                let mut found = crate::bytes::try_zeroed(len)?;
                self.device.read(&loaded.buffer, piece.to.start, &mut found)?;
                let pairs = expected.iter().zip(&found);
                if let Some(at) = pairs.clone().position(|(expected, found)| expected != found) {
                    let at = piece.to.start + at as u64;
                    let fault = format!("byte {at} on {} differs", self.device.name());
                    return Err(in_tensor(Error::new(ErrorKind::Device, fault)));
                }
            }
        }
        Ok(())
    }

    /// Loads many tensors into the cache. Reads are ordered by position in the files, and several
    /// threads share the work. Tensors that are already cached are not read again. Returns the
    /// tensors in the order of their first bytes in the files.
    ///
    /// ```
    /// use weighbridge::load::Fusion;
    /// use weighbridge::{LoadOptions, WeightProvider};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = WeightProvider::open("assets/sample/sample-Q8_0.gguf")?;
    /// let fusions = Fusion::named("qkv").into_iter().collect::<Vec<_>>();
    /// let layer = |name: &str| name.starts_with("layers.0.");
    /// let loaded = model.load_all(layer, &LoadOptions::new().fuse(&fusions))?;
    /// assert!(loaded.iter().any(|tensor| tensor.members.len() == 3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`load`](Self::load); `Cancelled` if the progress callback returns `Break`. After an
    /// error nothing is cached.
    pub fn load_all(
        &self,
        filter: impl Fn(&str) -> bool,
        options: &LoadOptions<'_>,
    ) -> Result<Vec<Arc<LoadedTensor<D>>>> {
        let names: Vec<&str> = self.names()?.into_iter().filter(|name| filter(name)).collect();
        let mut found = Vec::new();
        let mut jobs = Vec::new();
        for group in self.groups(&names, &options.fusions)? {
            if let Ok(loaded) = self.cache.find(&group.join("+")) {
                found.push(loaded);
                continue;
            }
            let views = group.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?;
            jobs.push(self.job(views)?);
        }
        self.run(&mut jobs, options)?;
        found.extend(
            jobs.into_iter().map(|job| self.cache.insert(job.placed.view.name(), job.loaded)),
        );
        Ok(found)
    }

    /// Fills the buffers of jobs.
    pub(super) fn run(&self, jobs: &mut [LoadJob<D>], options: &LoadOptions<'_>) -> Result<()> {
        let total = jobs.iter().map(|job| job.loaded.bytes()).sum();
        let state =
            LoadState { done: Mutex::new(FilledPieces::default()), total, watch: options.progress };
        let limits = self.device.limits();
        let copied = jobs.iter().filter(|job| !job.loaded.imported);
        prefetch(copied.map(|job| &job.placed.view));
        let mut work = Vec::new();
        for (number, job) in jobs.iter_mut().enumerate() {
            if job.loaded.imported {
                state.finished(number, job.loaded.bytes(), Narrowing::default())?;
                continue;
            }
            let planned = job.placed.plan(limits.unit)?;
            let ranges: Vec<_> = planned.iter().map(|region| region.to.clone()).collect();
            let LoadJob { placed, loaded } = job;
            let view = &placed.view;
            let regions = self.device.regions(&mut loaded.buffer, &ranges)?;
            if regions.len() != planned.len() {
                let (found, wanted) = (regions.len(), planned.len());
                let fault = format!("{found} regions, but {wanted} were requested");
                return Err(Error::mismatch(fault));
            }
            for (region, planned) in regions.into_iter().zip(planned) {
                let place = planned.pieces.first().map(|piece| piece.piece.place);
                work.push((place, number, view, planned, region));
            }
        }
        work.sort_by_key(|(place, ..)| *place);
        let start = || (Scratch::default(), Vec::new());
        let threads = options.threads.at_most(limits.threads);
        let filled = threads.in_order(work.into_iter(), start, |own, work| {
            let (_, number, view, planned, region) = work;
            let (scratch, stored) = own;
            let mut lost = Narrowing::default();
            self.device.fill(region, &mut |out| {
                for piece in &planned.pieces {
                    let out = piece.within(&planned, out)?;
                    lost += piece.fill(view, out, scratch, stored)?;
                }
                Ok(())
            })?;
            let bytes = planned.pieces.iter().map(|piece| piece.to.end - piece.to.start).sum();
            state.finished(number, bytes, lost)
        });
        // Transfers of other loads may be among those that are waited for.
        let finished = self.device.finish();
        filled?;
        finished?;
        let done = state.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (number, lost) in done.lost {
            if let Some(job) = jobs.get_mut(number) {
                job.loaded.lost += lost;
            }
        }
        Ok(())
    }
}

impl PlannedPiece {
    /// The piece's memory in that of its region.
    fn within<'m>(&self, region: &PlannedRegion, out: &'m mut [u8]) -> Result<&'m mut [u8]> {
        let (found, wanted) = (out.len(), region.to.end - region.to.start);
        let place = |at: u64| usize::try_from(at.checked_sub(region.to.start)?).ok();
        let range = place(self.to.start).zip(place(self.to.end));
        range.and_then(|(start, end)| out.get_mut(start..end)).ok_or_else(|| {
            Error::mismatch(format!("memory for {found} bytes, but {wanted} were requested"))
        })
    }

    /// Writes the bytes of the piece.
    fn fill(
        &self,
        view: &Tensor,
        out: &mut [u8],
        scratch: &mut Scratch,
        stored: &mut Vec<u8>,
    ) -> Result<Narrowing> {
        let Some((from, to)) = self.convert else {
            return self.piece.work.fill(view, out, scratch);
        };
        let len = self.piece.to.end - self.piece.to.start;
        *stored = crate::bytes::try_zeroed(usize::try_from(len).unwrap_or(usize::MAX))?;
        let lost = self.piece.work.fill(view, stored, scratch)?;
        let mut all = convert(from, stored, to, out);
        all += lost;
        Ok(all)
    }
}

/// State that the loading threads share.
struct LoadState<'w> {
    done: Mutex<FilledPieces>,
    total: u64,
    watch: Watch<'w>,
}

#[derive(Default)]
struct FilledPieces {
    bytes: u64,
    lost: Vec<(usize, Narrowing)>,
}

impl LoadState<'_> {
    fn finished(&self, job: usize, bytes: u64, lost: Narrowing) -> Result<()> {
        let mut state = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        if !lost.is_lossless() {
            state.lost.push((job, lost));
        }
        let done = state.bytes;
        drop(state);
        self.watch.report(done, self.total)
    }
}
