//! Loading: what a tensor becomes, where its bytes lie, and who copies which of them when.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Fusion, LoadedPart, LoadedTensor, Member, WeightProvider};
use crate::bytes::Scratch;
use crate::device::Device;
use crate::dtype::{DType, Packing};
use crate::error::{Error, ErrorKind, Result};
use crate::quant::{Narrowing, bf16, f16};
use crate::tensor::{Decoding, Part, Tensor};
use crate::view::{PackedPart, View};

/// What loaded tensors are kept as.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Policy {
    /// Packed as stored. Tensors whose values have to be computed are kept in
    /// [the dtype that holds them](View::values_dtype).
    #[default]
    Keep,
    /// All floating-point and quantized tensors as `f32`.
    F32,
    /// The same as `f16`; what becomes infinite or 0 is counted.
    F16,
    /// The same as `bf16`.
    BF16,
}

impl Policy {
    /// What becomes of a tensor.
    pub(super) fn form(self, view: &View<'_>) -> Result<Kept> {
        let wanted = match self {
            Self::Keep if view.why_computed().is_some() => view.values_dtype(),
            Self::Keep => return view.packed().map(Kept::Packed),
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
        };
        let mut stored = view.sources().map(|tensor| tensor.dtype());
        let is_kept = stored.try_fold(true, |kept, dtype| {
            dtype.map(|dtype| kept && (dtype == wanted || dtype.is_integer()))
        })?;
        if is_kept && view.why_computed().is_none() {
            return view.packed().map(Kept::Packed);
        }
        Ok(Kept::Values(wanted))
    }
}

/// What a tensor becomes in memory of the device.
#[derive(Debug)]
pub(super) enum Kept {
    /// The packed bytes of these parts.
    Packed(Vec<PackedPart>),
    /// Its values.
    Values(DType),
}

/// How far loading has come.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes that are where they should be.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What is called as loading goes on, from any of its threads; it may end the loading.
type Watch<'w> = &'w (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// How many tensors are loaded at once.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct LoadOptions<'w> {
    pub(super) fusions: Vec<&'static Fusion>,
    threads: usize,
    watch: Option<Watch<'w>>,
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fusions.iter().map(|fusion| fusion.name).collect();
        write!(f, "LoadOptions({names:?}, {} threads)", self.threads)
    }
}

impl<'w> LoadOptions<'w> {
    /// Nothing is fused; four threads. Two would do where the files are in memory, whatever the
    /// number of processors; while one waits for a disk, another can copy.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tensors that are loaded into one buffer, where they can be joined.
    #[must_use]
    pub fn fuse(mut self, fusions: &[&'static Fusion]) -> Self {
        self.fusions = fusions.to_vec();
        self
    }

    /// Threads that share the work; 0 stands for the default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Called with every few megabytes; `Break` ends the loading.
    #[must_use]
    pub fn progress(mut self, watch: Watch<'w>) -> Self {
        self.watch = Some(watch);
        self
    }

    fn workers(&self) -> usize {
        if self.threads == 0 { 4 } else { self.threads }
    }
}

/// A tensor on its way.
pub(super) struct Job<'a, D: Device> {
    /// Under which it is cached.
    pub(super) name: String,
    view: View<'a>,
    form: Kept,
    pub(super) loaded: LoadedTensor<D>,
}

/// What one piece of a buffer is made of.
enum Work<'a> {
    /// Runs of one stored part's bytes within a stretch of it.
    Bytes { tensor: Tensor<'a>, part: Part, within: Range<u64>, runs: Vec<Bytes> },
    /// Values of rows of the view.
    Values { rows: Range<u64>, dtype: DType },
}

/// `count` rows, `stride` apart, from `from` bytes into their part, and what is taken of each.
#[derive(Clone)]
struct Bytes {
    from: u64,
    taken: Arc<[Range<u64>]>,
    stride: u64,
    count: u64,
}

/// A piece of a job: where its bytes go, and what they are made of.
struct Planned<'a> {
    to: Range<u64>,
    /// The file, and where in it the reading begins.
    place: (u32, u64),
    work: Work<'a>,
}

/// Bytes of a piece, at most, if one row is not longer: whole huge pages, which two threads should
/// not fill together.
const PIECE: u64 = 8 << 20;

/// Runs shorter than this are read together with what lies between them.
const SHORT: u64 = 64 << 10;

/// As far as they reach together, and the bytes that are wanted of that.
const TOGETHER: u64 = 2 << 20;

impl<D: Device> WeightProvider<D> {
    /// Lays out a tensor, or several to be fused.
    pub(super) fn job<'a>(&self, views: Vec<View<'a>>, policy: Policy) -> Result<Job<'a, D>> {
        let mut members = Vec::new();
        let mut row = 0;
        for view in &views {
            let end = row + view.matrix_rows();
            members.push(Member { name: view.name().to_owned(), rows: row..end });
            row = end;
        }
        let view = match <[View<'a>; 1]>::try_from(views) {
            Ok([alone]) => alone,
            Err(views) => View::fuse(views)?,
        };
        let form = policy.form(&view)?;
        let (dtype, packed) = match &form {
            Kept::Packed(parts) => {
                let part = |part: &PackedPart| (part.part, part.dtype, part.bytes, part.per_row());
                (view.stored_dtype()?, parts.iter().map(part).collect::<Vec<_>>())
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
            let fault = format!("{} does not take {dtype}", self.device.name());
            return Err(in_tensor(Error::unsupported(fault)));
        }
        let too_large = || in_tensor(Error::unsupported("parts of more than 2^64 bytes"));
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
    pub(super) fn run(&self, jobs: &mut [Job<'_, D>], options: &LoadOptions<'_>) -> Result<()> {
        let total = jobs.iter().map(|job| job.loaded.bytes()).sum();
        let state = State { done: Mutex::new(Done::default()), total, watch: options.watch };
        let mut pieces = Vec::new();
        for (number, job) in jobs.iter_mut().enumerate() {
            let planned = job.plan()?;
            let Job { view, loaded, .. } = job;
            if self.device.host(&mut loaded.buffer).is_none() {
                // A device whose memory this program cannot write to gets it piece by piece.
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
                    .ok_or_else(|| Error::mismatch("a buffer shorter than was asked for"))?;
                (rest, at) = (later, to.end);
                pieces.push((place, number, &*view, work, out));
            }
        }
        pieces.sort_by_key(|(place, ..)| *place);
        let workers = options.workers().min(pieces.len());
        let next = Mutex::new(pieces.into_iter());
        let work = || -> Result<()> {
            let mut scratch = Scratch::default();
            loop {
                // The lock is let go at once: one piece each, in the order of the files.
                let piece = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((_, number, view, work, out)) = piece else { return Ok(()) };
                let lost = work.fill(view, out, &mut scratch)?;
                state.finished(number, out.len() as u64, lost)?;
            }
        };
        if workers <= 1 {
            work()?;
        } else {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..workers)
                    .map(|_| {
                        scope.spawn(|| {
                            let done = work();
                            if done.is_err() {
                                // The others have nothing left to do.
                                next.lock()
                                    .unwrap_or_else(PoisonError::into_inner)
                                    .by_ref()
                                    .for_each(drop);
                            }
                            done
                        })
                    })
                    .collect();
                // All of them have ended before the first error is told.
                let ends: Vec<Result<()>> = workers
                    .into_iter()
                    .map(|worker| match worker.join() {
                        Ok(done) => done,
                        Err(panic) => std::panic::resume_unwind(panic),
                    })
                    .collect();
                ends.into_iter().collect::<Result<()>>()
            })?;
        }
        let done = state.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (number, lost) in done.lost {
            if let Some(job) = jobs.get_mut(number) {
                job.loaded.lost += lost;
            }
        }
        Ok(())
    }
}

/// What the threads that load have done together.
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
        let progress = Progress { done: state.bytes, total: self.total };
        drop(state);
        match self.watch.map(|watch| watch(progress)) {
            Some(ControlFlow::Break(())) => {
                Err(Error::new(ErrorKind::Cancelled, "loading was called off"))
            }
            _ => Ok(()),
        }
    }
}

impl<'a, D: Device> Job<'a, D> {
    /// The pieces of its buffer, in order.
    fn plan(&self) -> Result<Vec<Planned<'a>>> {
        let mut planned = Vec::new();
        match &self.form {
            Kept::Packed(parts) => {
                for (part, loaded) in parts.iter().zip(&self.loaded.parts) {
                    plan_bytes(&self.view, part, loaded.range.start, &mut planned);
                }
            }
            Kept::Values(dtype) => {
                let width = u64::from(dtype.descriptor().block_bytes);
                let start = self.loaded.parts.first().map_or(0, |part| part.range.start);
                let (rows, columns) = self.view.gathered_shape();
                let row = columns.saturating_mul(width);
                let step = match self.view.rows_at_once() {
                    Some(together) => together,
                    None => PIECE.checked_div(row).unwrap_or(0).max(1),
                };
                let mut first = 0;
                while first < rows && row > 0 {
                    let end = rows.min(first + step);
                    let place = self.view.place_of(first);
                    let work = Work::Values { rows: first..end, dtype: *dtype };
                    planned.push(Planned {
                        to: start + first * row..start + end * row,
                        place,
                        work,
                    });
                    first = end;
                }
            }
        }
        Ok(planned)
    }
}

/// Short runs: their tensor, the stretch of it that they lie in, where they go.
type Collected<'a> = (Tensor<'a>, Range<u64>, Range<u64>, Vec<Bytes>);

/// Bytes to leave free before a long part, so that it lies to a page of memory as it lies to one in
/// the file: then it can be read straight to where it belongs. Only where that keeps it aligned.
fn lead(view: &View<'_>, part: Part, bytes: u64, start: u64, alignment: u64) -> u64 {
    const PAGE: u64 = 4096;
    let mut sources = view.sources();
    let place = sources.next().and_then(|tensor| tensor.place(part)).map(|(_, offset)| offset);
    match place.filter(|offset| offset.is_multiple_of(alignment) && bytes >= 2 << 20) {
        Some(offset) => (offset + PAGE - start % PAGE) % PAGE,
        None => 0,
    }
}

/// Cuts the copying of a part into pieces: long runs into several, short ones that lie close
/// together into one.
fn plan_bytes<'a>(
    view: &View<'a>,
    packed: &PackedPart,
    start: u64,
    planned: &mut Vec<Planned<'a>>,
) {
    let block = u64::from(packed.dtype.descriptor().block_bytes).max(1);
    let step = (PIECE / block).max(1) * block;
    let mut push = |tensor: Tensor<'a>, within: Range<u64>, to: Range<u64>, runs| {
        let place = tensor.place(packed.part).unwrap_or_default();
        let place = (place.0, place.1.saturating_add(within.start));
        let work = Work::Bytes { tensor, part: packed.part, within, runs };
        planned.push(Planned { to, place, work });
    };
    // Short runs that are collected.
    let mut held: Option<Collected<'a>> = None;
    for copy in view.copies(packed) {
        let mut to = start + copy.to;
        let each = copy.len();
        if let ([whole], SHORT..) = (&*copy.taken, each) {
            if let Some((tensor, within, to, runs)) = held.take() {
                push(tensor, within, to, runs);
            }
            for turn in 0..copy.count {
                let from = copy.from + turn * copy.stride + whole.start;
                let mut at = 0;
                while at < each {
                    // To the end of a piece of the buffer, and between blocks.
                    let end = (at + PIECE - to % PIECE) / block * block;
                    let len = if end > at { end - at } else { step }.min(each - at);
                    let from = from + at;
                    let run = Bytes {
                        from,
                        taken: Arc::from(std::slice::from_ref(&(0..len))),
                        stride: len,
                        count: 1,
                    };
                    push(copy.tensor, from..from + len, to..to + len, vec![run]);
                    (at, to) = (at + len, to + len);
                }
            }
            continue;
        }
        // At most so many of its rows at once.
        let reach = copy.taken.iter().map(|run| run.end).max().unwrap_or(0);
        let together = (TOGETHER / copy.stride.max(reach).max(1)).max(1);
        let mut turn = 0;
        while turn < copy.count {
            let count = together.min(copy.count - turn);
            let from = copy.from + turn * copy.stride;
            let (taken, stride) = (Arc::clone(&copy.taken), copy.stride);
            let run = Bytes { from, taken, stride, count };
            let stretch = from..from + (count - 1) * copy.stride + reach;
            let bytes = count * each;
            let joins = held.as_ref().is_some_and(|(tensor, within, to, _)| {
                let all = within.start.min(stretch.start)..within.end.max(stretch.end);
                tensor.is(&copy.tensor)
                    && all.end - all.start <= TOGETHER
                    && to.end - to.start + bytes <= TOGETHER
            });
            match &mut held {
                Some((_, within, to, runs)) if joins => {
                    *within = within.start.min(stretch.start)..within.end.max(stretch.end);
                    to.end += bytes;
                    runs.push(run);
                }
                _ => {
                    if let Some((tensor, within, to, runs)) = held.take() {
                        push(tensor, within, to, runs);
                    }
                    held = Some((copy.tensor, stretch, to..to + bytes, vec![run]));
                }
            }
            (turn, to) = (turn + count, to + bytes);
        }
    }
    if let Some((tensor, within, to, runs)) = held.take() {
        push(tensor, within, to, runs);
    }
}

impl Work<'_> {
    /// Makes the bytes of a piece.
    fn fill(&self, view: &View<'_>, out: &mut [u8], scratch: &mut Scratch) -> Result<Narrowing> {
        match self {
            Self::Bytes { tensor, part, within, runs } => {
                if let [Bytes { taken, count: 1, .. }] = runs.as_slice()
                    && let [run] = &**taken
                {
                    tensor.fill(*part, within.start + run.start, out, scratch)?;
                    return Ok(Narrowing::default());
                }
                let bytes = tensor.stretch(*part, within.clone(), scratch)?;
                let place = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
                let mut rest = out;
                for Bytes { from, taken, stride, count } in runs {
                    for turn in 0..*count {
                        let row = from + turn * stride - within.start;
                        for run in taken.iter() {
                            let bytes = bytes
                                .get(place(row + run.start)..place(row + run.end))
                                .ok_or_else(|| Error::mismatch("rows beyond their part"))?;
                            let (now, later) = std::mem::take(&mut rest)
                                .split_at_mut_checked(place(run.end - run.start))
                                .ok_or_else(|| Error::mismatch("rows beyond their room"))?;
                            now.copy_from_slice(bytes);
                            tensor.swap(*part, now)?;
                            rest = later;
                        }
                    }
                }
                Ok(Narrowing::default())
            }
            Self::Values { rows, dtype } => {
                let decoding = Decoding::new();
                let rows = rows.clone();
                let unaligned = |_| Error::mismatch("a buffer that is not aligned for its numbers");
                match dtype {
                    DType::F16 => {
                        let out =
                            bytemuck::try_cast_slice_mut::<u8, f16>(out).map_err(unaligned)?;
                        view.decode_bulk(rows, out, &decoding, scratch)
                    }
                    DType::BF16 => {
                        let out =
                            bytemuck::try_cast_slice_mut::<u8, bf16>(out).map_err(unaligned)?;
                        view.decode_bulk(rows, out, &decoding, scratch)
                    }
                    _ => {
                        let out =
                            bytemuck::try_cast_slice_mut::<u8, f32>(out).map_err(unaligned)?;
                        view.decode_bulk(rows, out, &decoding, scratch)
                    }
                }
            }
        }
    }
}

impl DType {
    /// Whether its values are whole numbers that are no quantized weights: positions, masks.
    fn is_integer(self) -> bool {
        let row = self.descriptor();
        row.packing == Packing::Plain
            && matches!(
                self,
                Self::I8
                    | Self::I16
                    | Self::I32
                    | Self::I64
                    | Self::U8
                    | Self::U16
                    | Self::U32
                    | Self::U64
                    | Self::BOOL
            )
    }
}
