//! The values of a tensor.

use std::ops::Range;

use super::prefetch;
use super::work::reads_all;
use super::{Arithmetic, Changes, RowSource, Tensor, Transposed, spans};
use crate::arch::RowSpan;
use crate::bytes::{AlignedBuffer, CacheState, Scratch, try_vec};
use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::quant::{Element, Narrowing, narrow};
use crate::shape;
use crate::store::Part;
use crate::store::tensor::{ByteWindow, DecodeOptions, DecodePlan, StoredTensor};
use crate::threads::Threads;

/// The largest number of values computed or gathered at a time, unless a row is longer.
const CHUNK: u64 = 1 << 18;

/// Values whose bytes are read at a time in bulk reading when the page cache has them: few enough
/// that they are still in the processor's cache when they are decoded.
const HELD: u64 = 1 << 17;

/// The same when the bytes come from a disk, which is faster with long reads.
const COLD: u64 = 1 << 20;

/// The number of values from which [`Tensor::dequantize`] uses all processors. The system clears new
/// memory as it is first written, which takes longer than decoding.
const SHARED: usize = 1 << 21;

/// The number of threads that write so many values to new memory.
fn shared(elements: usize) -> Threads {
    if elements < SHARED { Threads::one() } else { Threads::default() }
}

/// The number of decoding plans that are kept while a tensor is read.
const PLANS: usize = 4;

impl Tensor {
    /// Checks that the values can be read.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize).
    pub fn check_decodable(&self) -> Result<()> {
        self.stored_tensors().try_for_each(|tensor| tensor.check_decodable())
    }

    /// Checks that the stored numbers are values, or codes with all that their values are computed from.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the scheme and the arrays.
    pub(crate) fn check_known(&self) -> Result<()> {
        self.stored_tensors().try_for_each(|tensor| tensor.check_known())
    }

    /// The dtype that holds the values without loss if they are not served packed: the stored dtype
    /// if it is F32, F16 or BF16 and the values are only reordered or multiplied, else F32. A quantized tensor into
    /// which an adapter is merged has F16, as in llama-export-lora.
    pub fn values_dtype(&self) -> DType {
        let kept =
            |source: &RowSource| matches!(source.change, Arithmetic::None | Arithmetic::Times(_));
        let unchanged = self.sources.iter().all(kept);
        match self.dtype() {
            Ok(dtype @ (DType::F16 | DType::BF16)) if unchanged => dtype,
            Ok(dtype) if dtype.is_quantized() && self.is_adapted() => DType::F16,
            _ => DType::F32,
        }
    }

    /// Whether `f32` holds each value exactly and the change of stored values can be reversed bit
    /// for bit.
    pub(crate) fn is_exact_in_f32(&self) -> Result<bool> {
        let wide = |tensor: StoredTensor<'_>| {
            let dtype = tensor.dtype();
            dtype.is_ok_and(|dtype| {
                let wide = dtype.descriptor().block_bytes > 2 && dtype.is_integer();
                dtype == DType::F64 || wide
            })
        };
        if self.is_adapted() || self.stored_tensors().any(wide) {
            return Ok(false);
        }
        let changed = self.sources.iter().filter(|source| source.change != Arithmetic::None);
        let changed =
            changed.flat_map(|source| source.tensors().map(move |tensor| (source, tensor)));
        for (source, tensor) in changed {
            // Norms and the like are vectors, which are quick to check.
            let mut exact = true;
            tensor.for_each_values(|values: &[f32]| {
                let mut there = values.to_vec();
                source.change.change(&mut there);
                source.change.inverse().change(&mut there);
                exact &= values.iter().zip(&there).all(|(a, b)| a.to_bits() == b.to_bits());
                Ok::<(), Error>(())
            })?;
            if !exact {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether all values are known to be 0.
    pub(crate) fn is_zero(&self) -> Result<bool> {
        let is_known = self.check_decodable().is_ok();
        Ok(is_known && self.dequantize()?.iter().all(|value| *value == 0.0))
    }

    /// Whether another tensor has the same shape and values, bit for bit.
    pub(crate) fn has_values_of(&self, other: &Self) -> Result<bool> {
        if self.shape() != other.shape()
            || self.check_decodable().and(other.check_decodable()).is_err()
        {
            return Ok(false);
        }
        let rows = self.shape().first().copied().unwrap_or(0);
        let mut same = true;
        // Different matrices differ in their first row.
        for rows in [0..rows.min(1), 0..rows] {
            self.for_each_values_with(other, Some(rows), |a, b| {
                same &= a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
                Ok(())
            })?;
            if !same {
                break;
            }
        }
        Ok(same)
    }

    /// Returns all values as `f32`, in row-major order, in new memory.
    ///
    /// New memory costs more than the values, so large tensors are shared by one thread for each
    /// processor. To read many tensors, keep a buffer and use
    /// [`dequantize_into`](Self::dequantize_into).
    ///
    /// # Errors
    ///
    /// Same as [`bytes`](Self::bytes); `Unsupported` for a dtype whose values cannot be read.
    pub fn dequantize(&self) -> Result<AlignedBuffer<f32>> {
        self.check_decodable()?;
        let elements = usize::try_from(self.elements())
            .map_err(|_| Error::unsupported("the values exceed this machine's address space"))?;
        let mut out =
            AlignedBuffer::zeroed(elements).map_err(|error| error.in_tensor(self.name()))?;
        self.dequantize_into(&mut out, &DecodeOptions::new().threads(shared(elements)))?;
        Ok(out)
    }

    /// Returns all values in row-major order: as `f32`, or rounded to the nearest `f16` or `bf16`.
    /// [`dequantize`](Self::dequantize) says what new memory costs.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize); `OutOfMemory` if there is no memory for the values.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_decodable()?;
        let bytes = self.elements().saturating_mul(size_of::<T>() as u64);
        let none = || Error::out_of_memory("the host", bytes, None).in_tensor(self.name());
        let elements = usize::try_from(self.elements()).map_err(|_| none())?;
        let mut out = Vec::new();
        out.try_reserve_exact(elements).map_err(|_| none())?;
        out.resize(elements, T::new_zeroed());
        self.dequantize_into(&mut out, &DecodeOptions::new().threads(shared(elements)))?;
        Ok(out)
    }

    /// Writes all values to `out`, in row-major order: as `f32`, or rounded to the nearest `f16` or
    /// `bf16`. Returns the number of values that rounding turned into infinity or 0.
    ///
    /// ```
    /// use half::f16;
    /// use weighbridge::model::DecodeOptions;
    /// use weighbridge::{Model, bytes::AlignedBuffer};
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let tensor = model.tensor("output_norm.weight")?;
    /// let mut out = AlignedBuffer::<f16>::zeroed(tensor.elements() as usize)?;
    /// let lost = tensor.dequantize_into(&mut out, &DecodeOptions::new())?;
    /// assert!(lost.is_lossless());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Mismatch` if the length of `out` is not the number of values; otherwise same as
    /// [`dequantize`](Self::dequantize).
    pub fn dequantize_into<T: Element>(
        &self,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        self.check_decodable()?;
        if out.len() as u64 != self.elements() {
            let fault = format!(
                "the buffer has room for {} values, but the tensor has {}",
                out.len(),
                self.elements()
            );
            return Err(Error::mismatch(fault).in_tensor(self.name()));
        }
        prefetch([self]);
        self.decode(0..self.rows(), out, decoding)
    }

    /// Writes the values of some rows to `out`. A row is a run of the last dimension; rows are
    /// counted over all other dimensions.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the rows or the length of `out` is not their number of
    /// values; otherwise same as [`dequantize`](Self::dequantize).
    pub fn dequantize_rows<T: Element>(
        &self,
        rows: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        self.row_reader()?.dequantize_rows(rows, out, decoding)
    }

    /// Passes all values to `sink`, in chunks, in row-major order.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize), and any error of `sink`.
    pub fn for_each_values<T: Element, E: From<Error>>(
        &self,
        sink: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<Narrowing, E> {
        let tensor = self.clone().by_elements();
        tensor.each(0..tensor.rows(), sink)
    }

    /// Like [`for_each_values`](Self::for_each_values), for some rows.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize_rows`](Self::dequantize_rows), and any error of `sink`.
    pub fn for_each_values_in<T: Element, E: From<Error>>(
        &self,
        rows: Range<u64>,
        sink: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<Narrowing, E> {
        let tensor = self.clone().by_elements();
        let gathered = tensor.gathered(&rows)?;
        tensor.each(gathered, sink)
    }

    /// An iterator-like reader of all values, for callers that pull chunks.
    pub(crate) fn pieces<T: Element>(&self) -> ValueChunks<'_, T> {
        ValueChunks::new(self, 0..self.rows())
    }

    /// Like [`pieces`](Self::pieces), for some rows.
    pub(crate) fn pieces_in<T: Element>(&self, rows: &Range<u64>) -> Result<ValueChunks<'_, T>> {
        Ok(ValueChunks::new(self, self.gathered(rows)?))
    }

    /// Passes the values of some rows of this tensor and of another of the same shape, or of all rows, to
    /// `sink`, in chunks of equal length.
    pub(crate) fn for_each_values_with(
        &self,
        other: &Self,
        rows: Option<Range<u64>>,
        mut sink: impl FnMut(&[f32], &[f32]) -> Result<()>,
    ) -> Result<()> {
        self.check_decodable()?;
        other.check_decodable()?;
        let (a, b) = (self.clone().by_elements(), other.clone().by_elements());
        let (mut a, mut b) = match rows {
            Some(rows) => (a.pieces_in(&rows)?, b.pieces_in(&rows)?),
            None => (a.pieces(), b.pieces()),
        };
        let (mut rest_a, mut rest_b) = (&[][..], &[][..]);
        loop {
            // The pieces of the two tensors may have different lengths.
            if rest_a.is_empty() {
                let Some(piece) = a.next()? else { break };
                rest_a = piece;
            }
            if rest_b.is_empty() {
                let Some(piece) = b.next()? else { break };
                rest_b = piece;
            }
            let len = rest_a.len().min(rest_b.len());
            let (now_a, later_a) = rest_a.split_at(len);
            let (now_b, later_b) = rest_b.split_at(len);
            sink(now_a, now_b)?;
            (rest_a, rest_b) = (later_a, later_b);
        }
        Ok(())
    }

    fn each<T: Element, E: From<Error>>(
        &self,
        rows: Range<u64>,
        mut sink: impl FnMut(&[T]) -> Result<(), E>,
    ) -> Result<Narrowing, E> {
        self.check_decodable()?;
        let mut pieces = ValueChunks::new(self, rows);
        while let Some(values) = pieces.next()? {
            sink(values)?;
        }
        Ok(pieces.lost)
    }

    /// Converts a range of rows, as the shape counts them, to gathered rows.
    pub(super) fn gathered(&self, rows: &Range<u64>) -> Result<Range<u64>> {
        let columns = shape::columns(self.shape());
        let count = self.elements().checked_div(columns).unwrap_or(0);
        if rows.start > rows.end || rows.end > count {
            let noun = if count == 1 { "row" } else { "rows" };
            let fault = format!("rows {}..{} exceed the {count} {noun}", rows.start, rows.end);
            return Err(self.located(Error::mismatch(fault)));
        }
        // In a vector that was assembled by elements, each element is a gathered row.
        let each = columns.checked_div(self.width()).unwrap_or(0);
        Ok(rows.start * each..rows.end * each)
    }

    /// Decodes some gathered rows.
    pub(crate) fn decode<T: Element>(
        &self,
        rows: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        ValueReader::new(self).decode(rows, out, decoding)
    }

    /// Like [`decode`](Self::decode), for large amounts: bytes that are not in the page cache are
    /// read past it, and pages of a memory map are released afterwards.
    pub(crate) fn decode_bulk<T: Element>(
        &self,
        rows: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
        scratch: &mut Scratch,
    ) -> Result<Narrowing> {
        let mut reader = ValueReader { scratch: Some(scratch), ..ValueReader::new(self) };
        reader.decode(rows, out, decoding)
    }
}

/// Reads the values of some gathered rows in chunks that the caller pulls.
pub(crate) struct ValueChunks<'v, T> {
    reader: ValueReader<'v>,
    rows: Range<u64>,
    values: Vec<T>,
    lost: Narrowing,
}

impl<'v, T: Element> ValueChunks<'v, T> {
    fn new(tensor: &'v Tensor, rows: Range<u64>) -> Self {
        let (values, lost) = (Vec::new(), Narrowing::default());
        Self { reader: ValueReader::new(tensor), rows, values, lost }
    }

    /// The next chunk, in row-major order; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<&[T]>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let width = self.reader.tensor.width();
        let step = CHUNK.checked_div(width).unwrap_or(0).max(1);
        let end = self.rows.end.min(self.rows.start.saturating_add(step));
        let count = (end - self.rows.start).saturating_mul(width);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if self.values.capacity() < count {
            self.values = try_vec(count)?;
        }
        self.values.resize(count, T::new_zeroed());
        self.lost +=
            self.reader.decode(self.rows.start..end, &mut self.values, &DecodeOptions::new())?;
        self.rows.start = end;
        Ok(Some(&self.values))
    }
}

/// State that is reused while a tensor is read from its first row to its last.
pub(super) struct ValueReader<'v> {
    pub(super) tensor: &'v Tensor,
    changes: Option<&'v dyn Changes>,
    /// Plans of the tensors read last: several, because rows of several tensors may alternate.
    pub(super) plans: Vec<(StoredTensor<'v>, DecodePlan<'v>)>,
    /// One array of a source whose rows are the tensor's columns.
    array: Option<(u32, u64, AlignedBuffer<f32>)>,
    /// The stored columns that are used of such a source.
    used: Option<(u32, Range<u64>)>,
    /// Set for bulk reading.
    scratch: Option<&'v mut Scratch>,
}

impl Tensor {
    /// The stored columns that are selected, in runs.
    fn stored_columns(&self) -> Result<Vec<Range<usize>>> {
        let at = |column: u64| usize::try_from(column).unwrap_or(usize::MAX);
        let mut runs = try_vec(0)?;
        for RowSpan { start, count, .. } in
            self.order.spans(self.taken.clone()).flat_map(RowSpan::unbroken)
        {
            runs.push(at(start)..at(start.saturating_add(count)));
        }
        Ok(runs)
    }
}

impl Tensor {
    /// The stored columns that a transposed source is read for: all of them if an adapter changes
    /// its rows, or they are elements of a unit.
    fn used_columns(&self, number: u32, stored_columns: u64) -> Range<u64> {
        let mut used: Option<Range<u64>> = None;
        let plain = self.stored_tensors().all(|tensor| {
            tensor.dtype().is_ok_and(|dtype| dtype.descriptor().packing == Packing::Plain)
        });
        let own = self.runs.iter().filter(|run| run.source == number || run.turns > 1);
        for span in own.flat_map(|run| run.run.spans(0..run.run.len())) {
            let last = span.start + span.step * span.count.saturating_sub(1);
            let array = span.start.checked_div(stored_columns).unwrap_or(0);
            if !plain
                || !self.is_share
                || self.is_adapted()
                || last.checked_div(stored_columns) != Some(array)
            {
                return 0..stored_columns;
            }
            let (start, end) = (span.start % stored_columns, last % stored_columns + 1);
            used = Some(match used {
                Some(used) => used.start.min(start)..used.end.max(end),
                None => start..end,
            });
        }
        used.unwrap_or(0..stored_columns)
    }
}

/// Decodes elements in steps.
fn in_steps<T>(
    elements: Range<u64>,
    out: &mut [T],
    step: u64,
    mut decode: impl FnMut(Range<u64>, &mut [T]) -> Result<Narrowing>,
) -> Result<Narrowing> {
    let mut lost = Narrowing::default();
    let (mut at, mut rest) = (elements.start, out);
    while at < elements.end {
        let now = at..elements.end.min(at.saturating_add(step));
        let len = usize::try_from(now.end - now.start).unwrap_or(usize::MAX).min(rest.len());
        let (out, later) = rest.split_at_mut(len);
        lost += decode(now.clone(), out)?;
        (at, rest) = (now.end, later);
    }
    Ok(lost)
}

impl<'v> ValueReader<'v> {
    pub(super) fn new(tensor: &'v Tensor) -> Self {
        let changes = tensor.changes();
        Self { tensor, changes, plans: Vec::new(), array: None, used: None, scratch: None }
    }

    pub(super) fn decode<T: Element>(
        &mut self,
        rows: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        let mut lost = Narrowing::default();
        let mut rest = out;
        for (number, span) in self.tensor.spans(rows) {
            let Some(source) = self.tensor.sources.get(number as usize) else { break };
            let len = usize::try_from(span.count.saturating_mul(self.tensor.width()));
            let (now, later) =
                rest.split_at_mut_checked(len.unwrap_or(usize::MAX)).ok_or_else(|| {
                    Error::mismatch("the buffer is too short").in_tensor(self.tensor.name())
                })?;
            rest = later;
            lost += self.span(number, source, span, now, decoding)?;
        }
        Ok(lost)
    }

    /// The position of a tensor's plan in `plans`.
    pub(super) fn plan(&mut self, tensor: StoredTensor<'v>) -> Result<usize> {
        if let Some(held) = self.plans.iter().position(|(held, _)| held.is(&tensor)) {
            return Ok(held);
        }
        if self.plans.len() == PLANS {
            self.plans.remove(0);
        }
        self.plans.push((tensor, DecodePlan::new(&tensor)?));
        Ok(self.plans.len() - 1)
    }

    /// The elements from the first of some rows to the end of the last, if the rows are stored as they are.
    pub(super) fn stored_elements(&self, source: &RowSource, span: RowSpan) -> Option<Range<u64>> {
        let is_direct = source.transposed.is_none()
            && source.change == Arithmetic::None
            && self.changes.is_none()
            && self.tensor.whole_rows();
        let start = span.start * self.tensor.columns;
        let rows = span.count.checked_sub(1).map_or(0, |last| last * span.step + 1);
        is_direct.then(|| start..start + rows * self.tensor.columns)
    }

    pub(super) fn span<T: Element>(
        &mut self,
        number: u32,
        source: &'v RowSource,
        span: RowSpan,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        if (span.step == 1 || span.count == 1)
            && let Some(elements) = self.stored_elements(source, span)
        {
            return self.elements(source.tensor(), elements, out, decoding);
        }
        // Rows with gaps, transposed matrices and changed values are decoded in steps, as f32.
        let width = self.tensor.width();
        let step = CHUNK.checked_div(width).unwrap_or(0).max(1);
        let mut lost = Narrowing::default();
        let mut exact =
            try_vec(out.len().min(usize::try_from(CHUNK.max(width)).unwrap_or(usize::MAX)))?;
        let piece = usize::try_from(step.saturating_mul(width)).unwrap_or(usize::MAX).max(1);
        for (turn, out) in (0..).zip(out.chunks_mut(piece)) {
            let done: u64 = turn * step;
            let count = step.min(span.count - done);
            let now = RowSpan { start: span.start + done * span.step, count, ..span };
            exact.clear();
            lost += match &source.transposed {
                Some(stored) => self.columns_as_rows(number, stored, now, &mut exact)?,
                None => self.rows_apart(source.tensor(), now, &mut exact, decoding)?,
            };
            source.change.change(&mut exact);
            lost += narrow(&exact, out);
        }
        Ok(lost)
    }

    /// Decodes consecutive elements of a stored tensor.
    fn elements<T: Element>(
        &mut self,
        tensor: StoredTensor<'v>,
        elements: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        let plan = self.plan(tensor)?;
        let Some((_, plan)) = self.plans.get(plan) else { return Ok(Narrowing::default()) };
        let Some(scratch) = self.scratch.as_deref_mut().filter(|_| plan.takes_windows()) else {
            return plan.decode(elements, out, decoding);
        };
        // If the elements do not start and end at byte boundaries, the plan returns the error.
        let Some(all) = plan.weight_range(&elements) else {
            return plan.decode(elements, out, decoding);
        };
        let held = tensor.cache_state(Part::Weight, &all)?;
        let step = if held == CacheState::No { COLD } else { HELD };
        let step = (step / plan.unit()).max(1) * plan.unit();
        if held == CacheState::Mapped && plan.is_weight_alone() {
            // Decoded in place: copying the bytes first would take half as long again.
            let lost = in_steps(elements, out, step, |now, out| plan.decode(now, out, decoding));
            tensor.release_pages(Part::Weight, all);
            return lost;
        }
        in_steps(elements, out, step, |now, out| {
            let window = match plan.weight_range(&now) {
                Some(range) => {
                    let bytes = tensor.read_range(Part::Weight, range.clone(), scratch)?;
                    Some(ByteWindow { start: range.start, bytes })
                }
                None => None,
            };
            plan.decode_from(now, out, decoding, window)
        })
    }

    /// Adds what an adapter changes to decoded elements of a stored tensor.
    fn adapt(
        &self,
        tensor: StoredTensor<'v>,
        elements: &Range<u64>,
        out: &mut [f32],
    ) -> Result<()> {
        self.changes.map_or(Ok(()), |changes| changes.apply(&tensor, elements, out))
    }

    /// Decodes rows with gaps between them, or some columns of rows.
    fn rows_apart(
        &mut self,
        tensor: StoredTensor<'v>,
        span: RowSpan,
        out: &mut Vec<f32>,
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        let columns = self.tensor.columns;
        let taken = self.tensor.stored_columns()?;
        let columns_each = usize::try_from(columns).unwrap_or(usize::MAX).max(1);
        let between = (span.count.saturating_sub(1)) * span.step + 1;
        let first = span.start * columns;
        let decoding = &DecodeOptions { threads: Threads::one(), ..*decoding };
        let mut take = |row: &[f32]| {
            for taken in &taken {
                out.extend_from_slice(row.get(taken.clone()).unwrap_or_default());
            }
        };
        let plan = self.plan(tensor)?;
        let Some((_, plan)) = self.plans.get(plan) else { return Ok(Narrowing::default()) };
        // Ranges of a row that are decoded: the columns that are taken, in whole units.
        let unit = plan.unit();
        let parts = taken.iter().map(|run| {
            let end = (run.end as u64).checked_next_multiple_of(unit).unwrap_or(columns);
            run.start as u64 / unit * unit..end.min(columns)
        });
        let parts: Vec<Range<u64>> = parts.collect();
        let used: u64 = parts.iter().map(|part| part.end - part.start).sum();
        // A merged adapter changes whole rows.
        let is_part = columns.is_multiple_of(unit) && self.changes.is_none();
        if is_part && self.tensor.is_share && !reads_all(used, columns) {
            return self.parts_of_rows(tensor, span, (&parts, &taken), out, decoding);
        }
        // For short rows or elements of a vector, also decode what lies between.
        if columns < 64 || span.step == 1 {
            let room = usize::try_from(between.saturating_mul(columns)).unwrap_or(usize::MAX);
            let mut rows = try_vec(room)?;
            rows.resize(room, 0.0f32);
            let all = first..first + between * columns;
            let lost = self.elements(tensor, all.clone(), &mut rows, decoding)?;
            self.adapt(tensor, &all, &mut rows)?;
            let step = usize::try_from(span.step).unwrap_or(usize::MAX).max(1);
            rows.chunks(columns_each).step_by(step).for_each(take);
            return Ok(lost);
        }
        // In bulk reading, the bytes between are read as well, but not decoded.
        let plan = self.plan(tensor)?;
        let Some((_, plan)) = self.plans.get(plan) else { return Ok(Narrowing::default()) };
        let hull = plan.weight_range(&(first..first + between * columns));
        let hull = hull.filter(|_| !self.tensor.is_share || reads_all(span.count, between));
        let scratch = self.scratch.as_deref_mut().filter(|_| plan.takes_windows());
        let window = match scratch.zip(hull) {
            Some((scratch, range)) => {
                let bytes = tensor.read_range(Part::Weight, range.clone(), scratch)?;
                Some(ByteWindow { start: range.start, bytes })
            }
            None => None,
        };
        let mut row = try_vec(columns_each)?;
        row.resize(columns_each, 0.0f32);
        let mut lost = Narrowing::default();
        for turn in 0..span.count {
            let start = first + turn * span.step * columns;
            let elements = start..start + columns;
            lost += plan.decode_from(elements.clone(), &mut row, decoding, window)?;
            if let Some(changes) = self.changes {
                changes.apply(&tensor, &elements, &mut row)?;
            }
            take(&row);
        }
        Ok(lost)
    }

    /// Decodes parts of rows: of each row these ranges, in whole units, of which `taken` is used.
    fn parts_of_rows(
        &mut self,
        tensor: StoredTensor<'v>,
        span: RowSpan,
        (parts, taken): (&[Range<u64>], &[Range<usize>]),
        out: &mut Vec<f32>,
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        let columns = self.tensor.columns;
        let longest = parts.iter().map(|part| part.end - part.start).max().unwrap_or(0);
        let room = usize::try_from(longest).unwrap_or(usize::MAX);
        let mut values = try_vec(room)?;
        let plan = self.plan(tensor)?;
        let Some((_, plan)) = self.plans.get(plan) else { return Ok(Narrowing::default()) };
        let mut lost = Narrowing::default();
        for turn in 0..span.count {
            let first = (span.start + turn * span.step) * columns;
            for (part, taken) in parts.iter().zip(taken) {
                let start = usize::try_from(part.start).unwrap_or(usize::MAX);
                values.clear();
                values.resize(usize::try_from(part.end - part.start).unwrap_or(room), 0.0f32);
                let elements = first + part.start..first + part.end;
                lost += plan.decode_from(elements, &mut values, decoding, None)?;
                let own = taken.start.saturating_sub(start)..taken.end.saturating_sub(start);
                out.extend_from_slice(values.get(own).unwrap_or_default());
            }
        }
        Ok(lost)
    }

    /// Decodes rows that are columns of a stored matrix.
    fn columns_as_rows(
        &mut self,
        number: u32,
        Transposed { rows, sources }: &'v Transposed,
        span: RowSpan,
        out: &mut Vec<f32>,
    ) -> Result<Narrowing> {
        // A stored matrix has one row for each column of the tensor.
        let stored_rows = self.tensor.columns;
        let stored_columns =
            sources.first().map_or(0, |source| shape::columns(source.tensor().shape()));
        let taken = self.tensor.stored_columns()?;
        // What is used of each array: these stored rows, and a range of each.
        let used = self.used.take().filter(|(of, _)| *of == number);
        let (_, width) =
            used.unwrap_or_else(|| (number, self.tensor.used_columns(number, stored_columns)));
        self.used = Some((number, width.clone()));
        let each = (width.end - width.start)
            .saturating_mul(taken.iter().map(|run| (run.end - run.start) as u64).sum());
        let row = usize::try_from(width.end - width.start).unwrap_or(usize::MAX);
        let mut lost = Narrowing::default();
        for turn in 0..span.count {
            let at = span.start + turn * span.step;
            let (array, column) = (at / stored_columns, at % stored_columns);
            let held = self.array.as_ref().is_some_and(|(n, a, _)| (*n, *a) == (number, array));
            if !held {
                let room = usize::try_from(each).unwrap_or(usize::MAX);
                let mut values = AlignedBuffer::zeroed(room)?;
                let mut rest = &mut values[..];
                // When single rows alternate, the neighbouring bytes are needed next, so they are
                // left to the page cache.
                let in_turn = rows.iter().any(|run| run.turns > 1);
                let scratch = if in_turn { self.scratch.take() } else { None };
                for run in &taken {
                    let first = array * stored_rows;
                    let all = first + run.start as u64..first + run.end as u64;
                    let spans = spans(rows, all)
                        .flat_map(|(source, span)| span.unbroken().map(move |span| (source, span)));
                    for (source, span) in spans {
                        let Some(source) = sources.get(source as usize) else { break };
                        let tensor = source.tensor();
                        // Whole rows at once, or a range of each.
                        let whole = width == (0..stored_columns);
                        let (times, count) = if whole { (1, span.count) } else { (span.count, 1) };
                        for row in (0..times).map(|turn| span.start + turn) {
                            let first = row * stored_columns;
                            let range = match whole {
                                true => first..first + count * stored_columns,
                                false => first + width.start..first + width.end,
                            };
                            let len =
                                usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
                            let (now, later) = rest.split_at_mut(len.min(rest.len()));
                            let decoding = DecodeOptions::new();
                            lost += self.elements(tensor, range.clone(), now, &decoding)?;
                            self.adapt(tensor, &range, now)?;
                            rest = later;
                        }
                    }
                }
                self.scratch = scratch.or(self.scratch.take());
                self.array = Some((number, array, values));
            }
            let Some((.., values)) = &self.array else { break };
            let within = usize::try_from(column - width.start).unwrap_or(usize::MAX);
            out.extend(values.iter().skip(within).step_by(row.max(1)));
        }
        Ok(lost)
    }
}
