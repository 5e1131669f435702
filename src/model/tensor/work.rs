//! Splits the reading of a tensor into pieces in file order, for threads that fill memory or write
//! files.

use std::ops::Range;
use std::sync::Arc;

use zerocopy::{FromBytes, IntoBytes};

use super::Tensor;
use super::packed::{PackedPart, RowCopy};
use crate::bytes::Scratch;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::quant::{Narrowing, bf16, f16};
use crate::store::Part;
use crate::store::tensor::{DecodeOptions, StoredTensor};

/// The origin of one piece of a buffer.
#[derive(Clone, Debug)]
pub(crate) enum PieceOrigin {
    /// Byte runs of one part of the stored tensor of a source, all within one range of the part.
    Bytes { source: u32, part: Part, within: Range<u64>, runs: Vec<ByteRuns> },
    /// Decoded rows of the tensor.
    Values { rows: Range<u64>, dtype: DType },
}

/// `count` rows, `stride` bytes apart, of which the first begins `from` bytes into the part, and
/// the ranges taken from each.
#[derive(Clone, Debug)]
pub(crate) struct ByteRuns {
    from: u64,
    taken: Arc<[Range<u64>]>,
    stride: u64,
    count: u64,
}

impl ByteRuns {
    /// The bytes that are taken.
    fn len(&self) -> u64 {
        self.taken.iter().map(|run| run.end - run.start).sum::<u64>().saturating_mul(self.count)
    }

    /// Their ranges in the part, those that touch joined.
    fn each(&self) -> impl Iterator<Item = Range<u64>> {
        let mut ranges = (0..self.count).flat_map(|turn| {
            let row = self.from + turn * self.stride;
            self.taken.iter().map(move |run| row + run.start..row + run.end)
        });
        let mut held = ranges.next();
        std::iter::from_fn(move || {
            let mut now = held.take()?;
            for next in ranges.by_ref() {
                if next.start != now.end {
                    held = Some(next);
                    break;
                }
                now.end = next.end;
            }
            Some(now)
        })
    }
}

/// Whether a rank reads a range at once although it does not use all of it: if that is at most 1 %.
/// All ranks together then read little more than the file.
pub(super) fn reads_all(used: u64, range: u64) -> bool {
    range.saturating_sub(used) <= used / 100
}

/// A piece of a buffer: its destination range and its origin.
#[derive(Clone, Debug)]
pub(crate) struct BufferPiece {
    pub(crate) to: Range<u64>,
    /// The file, and the byte offset in it at which reading begins.
    pub(crate) place: (u32, u64),
    pub(crate) work: PieceOrigin,
}

/// The largest piece in bytes, unless one row is longer. It is a whole number of huge pages, since
/// two threads should not fill the same huge page.
pub(crate) const PIECE: u64 = 8 << 20;

/// Shorter runs are read together with the bytes between them.
const SHORT: u64 = 64 << 10;

/// The largest range, in bytes, that is read at once for several short runs, and the most bytes of
/// it that are used.
const TOGETHER: u64 = 2 << 20;

/// Runs of the stored tensor of a source that are read together.
struct CollectedRuns<'t> {
    source: u32,
    tensor: StoredTensor<'t>,
    /// The range of the part that contains them.
    within: Range<u64>,
    /// Their destination.
    to: Range<u64>,
    runs: Vec<ByteRuns>,
}

/// Splits the values of all rows into pieces of at most `piece` bytes, unless one row is longer.
/// Any dtype other than F16 and BF16 means F32.
pub(crate) fn plan_values(
    tensor: &Tensor,
    dtype: DType,
    start: u64,
    piece: u64,
    planned: &mut Vec<BufferPiece>,
) {
    let width = u64::from(dtype.descriptor().block_bytes);
    let (rows, columns) = tensor.gathered_shape();
    let row = columns.saturating_mul(width);
    let step = match tensor.rows_at_once() {
        Some(together) => together,
        // An even number of rows is a multiple of 4 bytes.
        None => match piece.checked_div(row).unwrap_or(0) {
            rows @ 2.. => rows / 2 * 2,
            _ => 1,
        },
    };
    let mut first = 0;
    while first < rows && row > 0 {
        let end = rows.min(first + step);
        let (to, place) = (start + first * row..start + end * row, tensor.file_position(first));
        planned.push(BufferPiece {
            to,
            place,
            work: PieceOrigin::Values { rows: first..end, dtype },
        });
        first = end;
    }
}

/// Splits the copying of a part into pieces of at most `piece` bytes. Long runs are split; short
/// runs that lie close together are combined. Long runs are cut at multiples of `unit` if possible,
/// counted from the start of the buffer.
pub(crate) fn plan_packed(
    tensor: &Tensor,
    packed: &PackedPart,
    start: u64,
    piece: u64,
    unit: u64,
    planned: &mut Vec<BufferPiece>,
) {
    let block = u64::from(packed.dtype.descriptor().block_bytes).max(1);
    let part = packed.part;
    let mut planner = PackedPlanner { part, piece, unit, block, planned, collected: None };
    for copy in tensor.copies(packed, 0..tensor.gathered_shape().0) {
        let to = start + copy.to;
        match (&*copy.taken, copy.len()) {
            ([whole], SHORT..) => planner.add_long(&copy, whole, to),
            _ => planner.add_short(&copy, to),
        }
    }
    planner.finish_collected();
}

/// Plans the pieces of a packed part.
struct PackedPlanner<'t, 'p> {
    part: Part,
    piece: u64,
    unit: u64,
    /// The bytes of a block.
    block: u64,
    planned: &'p mut Vec<BufferPiece>,
    /// The short runs collected so far.
    collected: Option<CollectedRuns<'t>>,
}

impl<'t> PackedPlanner<'t, '_> {
    fn push(&mut self, CollectedRuns { source, tensor, within, to, runs }: CollectedRuns<'t>) {
        let (file, offset) = tensor.place(self.part).unwrap_or_default();
        let place = (file, offset.saturating_add(within.start));
        let work = PieceOrigin::Bytes { source, part: self.part, within, runs };
        self.planned.push(BufferPiece { to, place, work });
    }

    fn finish_collected(&mut self) {
        if let Some(collected) = self.collected.take() {
            self.push(collected);
        }
    }

    /// Adds rows with one long run each.
    fn add_long(&mut self, copy: &RowCopy<'t>, whole: &Range<u64>, mut to: u64) {
        self.finish_collected();
        let step = (self.piece / self.block).max(1) * self.block;
        let each = whole.end - whole.start;
        for turn in 0..copy.count {
            let start = copy.from + turn * copy.stride + whole.start;
            let mut at = 0;
            while at < each {
                // Up to the end of a piece of the buffer, at a block boundary.
                let end = (at + self.piece - to % self.piece) / self.block * self.block;
                let mut len = if end > at { end - at } else { step };
                // Four blocks are a multiple of every unit, up to 4 bytes.
                for _ in 0..3 {
                    if !(to + len).is_multiple_of(self.unit) && len > self.block {
                        len -= self.block;
                    }
                }
                let len = len.min(each - at);
                let from = start + at;
                let taken = Arc::from(std::slice::from_ref(&(0..len)));
                self.push(CollectedRuns {
                    source: copy.source,
                    tensor: copy.tensor,
                    within: from..from + len,
                    to: to..to + len,
                    runs: vec![ByteRuns { from, taken, stride: len, count: 1 }],
                });
                (at, to) = (at + len, to + len);
            }
        }
    }

    /// Adds rows with short runs, as many as are read at once.
    fn add_short(&mut self, copy: &RowCopy<'t>, mut to: u64) {
        let reach = copy.taken.iter().map(|run| run.end).max().unwrap_or(0);
        let together = (TOGETHER / copy.stride.max(reach).max(1)).max(1);
        let mut turn = 0;
        while turn < copy.count {
            let count = together.min(copy.count - turn);
            let from = copy.from + turn * copy.stride;
            let (taken, stride) = (Arc::clone(&copy.taken), copy.stride);
            let run = ByteRuns { from, taken, stride, count };
            let within = from..from + (count - 1) * copy.stride + reach;
            let bytes = count * copy.len();
            match &mut self.collected {
                Some(collected) if collected.can_join(copy.tensor, &within, bytes) => {
                    collected.within = collected.joined(&within);
                    collected.to.end += bytes;
                    collected.runs.push(run);
                }
                _ => {
                    self.finish_collected();
                    let (source, tensor) = (copy.source, copy.tensor);
                    let (to, runs) = (to..to + bytes, vec![run]);
                    self.collected = Some(CollectedRuns { source, tensor, within, to, runs });
                }
            }
            (turn, to) = (turn + count, to + bytes);
        }
    }
}

impl CollectedRuns<'_> {
    /// The range that contains these runs and another range.
    fn joined(&self, within: &Range<u64>) -> Range<u64> {
        self.within.start.min(within.start)..self.within.end.max(within.end)
    }

    /// Whether another run, of which `bytes` are used, is read together with these.
    fn can_join(&self, tensor: StoredTensor<'_>, within: &Range<u64>, bytes: u64) -> bool {
        let all = self.joined(within);
        self.tensor.is(&tensor)
            && all.end - all.start <= TOGETHER
            && self.to.end - self.to.start + bytes <= TOGETHER
    }
}

impl PieceOrigin {
    /// Produces the bytes of a piece.
    pub(crate) fn fill(
        &self,
        tensor: &Tensor,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Narrowing> {
        match self {
            Self::Bytes { source, part, within, runs } => {
                let Some(source) = tensor.sources.get(*source as usize) else {
                    return Err(
                        Error::mismatch("a piece of another tensor").in_tensor(tensor.name())
                    );
                };
                let stored = source.tensor();
                if let [ByteRuns { taken, count: 1, .. }] = runs.as_slice()
                    && let [run] = &**taken
                {
                    stored.fill(*part, within.start + run.start, out, scratch)?;
                    return Ok(Narrowing::default());
                }
                let place = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
                let mut rest = out;
                let used: u64 = runs.iter().map(ByteRuns::len).sum();
                if tensor.is_share && !reads_all(used, within.end - within.start) {
                    for run in runs.iter().flat_map(ByteRuns::each) {
                        let (now, later) = std::mem::take(&mut rest)
                            .split_at_mut_checked(place(run.end - run.start))
                            .ok_or_else(|| Error::mismatch("rows exceed their buffer"))?;
                        stored.fill(*part, run.start, now, scratch)?;
                        rest = later;
                    }
                    return Ok(Narrowing::default());
                }
                let bytes = stored.read_range(*part, within.clone(), scratch)?;
                for ByteRuns { from, taken, stride, count } in runs {
                    for turn in 0..*count {
                        let row = from + turn * stride - within.start;
                        for run in taken.iter() {
                            let bytes = bytes
                                .get(place(row + run.start)..place(row + run.end))
                                .ok_or_else(|| Error::mismatch("rows exceed their part"))?;
                            let (now, later) = std::mem::take(&mut rest)
                                .split_at_mut_checked(place(run.end - run.start))
                                .ok_or_else(|| Error::mismatch("rows exceed their buffer"))?;
                            now.copy_from_slice(bytes);
                            stored.swap(*part, now)?;
                            rest = later;
                        }
                    }
                }
                Ok(Narrowing::default())
            }
            Self::Values { rows, dtype } => {
                let decoding = DecodeOptions::new();
                let rows = rows.clone();
                match dtype {
                    DType::F16 => {
                        tensor.decode_bulk(rows, numbers::<f16>(out)?, &decoding, scratch)
                    }
                    DType::BF16 => {
                        tensor.decode_bulk(rows, numbers::<bf16>(out)?, &decoding, scratch)
                    }
                    _ => tensor.decode_bulk(rows, numbers::<f32>(out)?, &decoding, scratch),
                }
            }
        }
    }
}

/// The numbers of a buffer.
fn numbers<T: FromBytes + IntoBytes>(bytes: &mut [u8]) -> Result<&mut [T]> {
    <[T]>::mut_from_bytes(bytes)
        .map_err(|_| Error::mismatch("the buffer is not aligned for its numbers"))
}
