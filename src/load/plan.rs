//! Loading: chooses a tensor's form, lays out its buffer, and schedules the reads.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{Fusion, LoadedPart, LoadedTensor, Member, WeightProvider};
use crate::bytes::Scratch;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{PIECE, PackedPart, Planned, Tensor, plan_packed, plan_values};
use crate::progress::{self, Watch};
use crate::quant::Narrowing;
use crate::store::Part;
use crate::threads::{self, Threads};

/// The dtype that loaded tensors are stored in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Policy {
    /// Packed as stored. Tensors whose values must be computed use [the dtype that holds
    /// them](Tensor::values_dtype).
    #[default]
    Keep,
    /// All floating-point and quantized tensors as `f32`.
    F32,
    /// All floating-point and quantized tensors as `f16`; values that become infinite or 0 are
    /// counted.
    F16,
    /// All floating-point and quantized tensors as `bf16`; values that become infinite or 0 are
    /// counted.
    BF16,
}

impl Policy {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "stored",
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
        }
    }

    /// The form of a tensor in device memory.
    pub(super) fn form(self, view: &Tensor) -> Result<Kept> {
        let wanted = match self {
            Self::Keep if view.why_computed().is_some() => view.values_dtype(),
            Self::Keep => return view.packed().map(Kept::Packed),
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
        };
        let mut stored = view.stored_tensors().map(|tensor| tensor.dtype());
        let is_kept = stored.try_fold(true, |kept, dtype| {
            dtype.map(|dtype| kept && (dtype == wanted || dtype.is_integer()))
        })?;
        if is_kept && view.why_computed().is_none() {
            return view.packed().map(Kept::Packed);
        }
        Ok(Kept::Values(wanted))
    }
}

/// The form of a tensor in device memory.
#[derive(Debug)]
pub(super) enum Kept {
    /// The packed bytes of these parts.
    Packed(Vec<PackedPart>),
    /// Its values.
    Values(DType),
}

/// Options for loading many tensors at once.
#[derive(Clone)]
#[non_exhaustive]
pub struct LoadOptions<'w> {
    pub(super) fusions: Vec<&'static Fusion>,
    threads: Threads,
    watch: Option<Watch<'w>>,
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fusions.iter().map(|fusion| fusion.name).collect();
        write!(f, "LoadOptions({names:?}, {:?})", self.threads)
    }
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        Self { fusions: Vec::new(), threads: Threads::new(4), watch: None }
    }
}

impl<'w> LoadOptions<'w> {
    /// The defaults: no fusion, four threads. Two threads are enough if the files are in the page
    /// cache, whatever the number of processors; with a disk, one thread can copy while another
    /// waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fuses tensors into one buffer where they can be joined.
    #[must_use]
    pub fn fuse(mut self, fusions: &[&'static Fusion]) -> Self {
        self.fusions = fusions.to_vec();
        self
    }

    /// Sets the threads that share the work.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// The requested fusions.
    pub(crate) fn fusions(&self) -> &[&'static Fusion] {
        &self.fusions
    }

    /// Sets a callback that is called every few megabytes; returning `Break` cancels the loading.
    #[must_use]
    pub fn progress(mut self, watch: Watch<'w>) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// A tensor that is being loaded.
pub(super) struct Job<D: Device> {
    /// The name under which it is cached.
    pub(super) name: String,
    view: Tensor,
    form: Kept,
    pub(super) loaded: LoadedTensor<D>,
}

impl<D: Device> WeightProvider<D> {
    /// Computes the buffer layout of one tensor or of several fused ones.
    pub(super) fn job(&self, views: Vec<Tensor>, policy: Policy) -> Result<Job<D>> {
        let mut members = Vec::new();
        let mut row = 0;
        for view in &views {
            let end = row + view.matrix_rows();
            members.push(Member { name: view.name().to_owned(), rows: row..end });
            row = end;
        }
        let view = match <[Tensor; 1]>::try_from(views) {
            Ok([alone]) => alone,
            Err(views) => Tensor::fuse(views)?,
        };
        let form = policy.form(&view)?;
        let (dtype, packed) = match &form {
            Kept::Packed(parts) => {
                let part = |part: &PackedPart| (part.part, part.dtype, part.bytes, part.per_row());
                (view.dtype()?, parts.iter().map(part).collect::<Vec<_>>())
            }
            Kept::Values(dtype) => {
                let width = u64::from(dtype.descriptor().block_bytes);
                let bytes = view.elements().saturating_mul(width);
                let row = crate::shape::columns(view.shape()).saturating_mul(width);
                (*dtype, vec![(Part::Weight, *dtype, bytes, Some(row))])
            }
        };
        let in_tensor = |error: Error| error.in_tensor(view.name());
        if !self.device.supports(dtype) {
            let fault = format!("{} does not support {dtype}", self.device.name());
            return Err(in_tensor(Error::unsupported(fault)));
        }
        let too_large = || in_tensor(Error::unsupported("the parts exceed 2^64 bytes"));
        let mut parts = Vec::new();
        let mut end = 0u64;
        for (part, dtype, bytes, row_bytes) in packed {
            let start = end.checked_next_multiple_of(self.device.alignment());
            let start = match (&form, start) {
                (Kept::Packed(_), Some(start)) => {
                    let alignment = self.device.alignment();
                    start.checked_add(lead(&view, part, bytes, start, alignment))
                }
                (_, start) => start,
            };
            let start = start.ok_or_else(too_large)?;
            end = start.checked_add(bytes).ok_or_else(too_large)?;
            parts.push(LoadedPart { part, dtype, range: start..end, row_bytes });
        }
        let loaded = LoadedTensor {
            dtype,
            shape: view.shape().to_vec(),
            group_size: if matches!(form, Kept::Packed(_)) { view.group_size() } else { None },
            parts,
            row_axis: view.row_axis(),
            members,
            computed: view.why_computed(),
            lost: Narrowing::default(),
            buffer: self.device.allocate(end).map_err(in_tensor)?,
        };
        Ok(Job { name: view.name().to_owned(), view, form, loaded })
    }

    /// Fills the buffers of jobs.
    pub(super) fn run(&self, jobs: &mut [Job<D>], options: &LoadOptions<'_>) -> Result<()> {
        let total = jobs.iter().map(|job| job.loaded.bytes()).sum();
        let state = State { done: Mutex::new(Done::default()), total, watch: options.watch };
        let mut pieces = Vec::new();
        for (number, job) in jobs.iter_mut().enumerate() {
            let planned = job.plan()?;
            let Job { view, loaded, .. } = job;
            if self.device.host(&mut loaded.buffer).is_none() {
                // This program cannot write to the device's memory, so the bytes are transferred
                // piece by piece.
                let mut scratch = Scratch::default();
                for Planned { to, work, .. } in planned {
                    let len = usize::try_from(to.end - to.start).unwrap_or(usize::MAX);
                    let mut staged = crate::bytes::try_zeroed(len)?;
                    let lost = work.fill(view, &mut staged, &mut scratch)?;
                    self.device.write(&mut loaded.buffer, to.start, &staged)?;
                    state.finished(number, staged.len() as u64, lost)?;
                }
                continue;
            }
            let mut rest = self.device.host(&mut loaded.buffer).unwrap_or_default();
            let mut at = 0;
            for Planned { to, place, work } in planned {
                let skip = usize::try_from(to.start - at).unwrap_or(usize::MAX);
                let len = usize::try_from(to.end - to.start).unwrap_or(usize::MAX);
                let (out, later) = std::mem::take(&mut rest)
                    .split_at_mut_checked(skip)
                    .and_then(|(_, rest)| rest.split_at_mut_checked(len))
                    .ok_or_else(|| {
                        Error::mismatch("the device's buffer is shorter than requested")
                    })?;
                (rest, at) = (later, to.end);
                pieces.push((place, number, &*view, work, out));
            }
        }
        pieces.sort_by_key(|(place, ..)| *place);
        let pieces = pieces.into_iter();
        threads::in_order(options.threads, pieces, Scratch::default, |scratch, piece| {
            let (_, number, view, work, out) = piece;
            let lost = work.fill(view, out, scratch)?;
            state.finished(number, out.len() as u64, lost)
        })?;
        let done = state.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (number, lost) in done.lost {
            if let Some(job) = jobs.get_mut(number) {
                job.loaded.lost += lost;
            }
        }
        Ok(())
    }
}

/// State that the loading threads share.
struct State<'w> {
    done: Mutex<Done>,
    total: u64,
    watch: Option<Watch<'w>>,
}

#[derive(Default)]
struct Done {
    bytes: u64,
    lost: Vec<(usize, Narrowing)>,
}

impl State<'_> {
    fn finished(&self, job: usize, bytes: u64, lost: Narrowing) -> Result<()> {
        let mut state = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        if !lost.is_lossless() {
            state.lost.push((job, lost));
        }
        let done = state.bytes;
        drop(state);
        progress::tell(self.watch, done, self.total)
    }
}

impl<D: Device> Job<D> {
    /// The pieces of the buffer, in order.
    fn plan(&self) -> Result<Vec<Planned>> {
        let mut planned = Vec::new();
        match &self.form {
            Kept::Packed(parts) => {
                for (part, loaded) in parts.iter().zip(&self.loaded.parts) {
                    plan_packed(&self.view, part, loaded.range.start, PIECE, &mut planned);
                }
            }
            Kept::Values(dtype) => {
                let start = self.loaded.parts.first().map_or(0, |part| part.range.start);
                plan_values(&self.view, *dtype, start, PIECE, &mut planned);
            }
        }
        Ok(planned)
    }
}

/// The padding, in bytes, before a long part that gives it the same offset within a memory page as
/// in the file, so that it can be read directly into place. 0 if that would break the alignment.
fn lead(view: &Tensor, part: Part, bytes: u64, start: u64, alignment: u64) -> u64 {
    const PAGE: u64 = 4096;
    let mut sources = view.stored_tensors();
    let place = sources.next().and_then(|tensor| tensor.place(part)).map(|(_, offset)| offset);
    match place.filter(|offset| offset.is_multiple_of(alignment) && bytes >= 2 << 20) {
        Some(offset) => (offset + PAGE - start % PAGE) % PAGE,
        None => 0,
    }
}
