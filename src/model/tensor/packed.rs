//! The packed bytes of a tensor: which bytes of which files, and where they go.

use std::ops::Range;
use std::sync::Arc;

use super::{Arithmetic, RowSource, Tensor};
use crate::arch::RowSpan;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::shape;
use crate::store::tensor::{Segment, StoredTensor};
use crate::store::{MappedFile, Part};

/// The number of bytes passed on at a time.
const CHUNK: u64 = 1 << 20;

/// The derivation of a canonical tensor from stored tensors.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Derivation {
    /// A stored tensor, byte for byte.
    Stored,
    /// The rows of a stored tensor in another order, packed as they are.
    Reordered,
    /// Some of the rows of a stored tensor, packed as they are.
    Part,
    /// The rows of several stored tensors, concatenated, packed as they are.
    Joined,
    /// Only values are available, and no packed bytes, for this reason.
    Computed(String),
}

impl Derivation {
    /// The name in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Reordered => "reordered",
            Self::Part => "part",
            Self::Joined => "joined",
            Self::Computed(_) => "computed",
        }
    }
}

/// One part of a tensor's packed form.
#[derive(Clone, Debug)]
pub(crate) struct PackedPart {
    pub(crate) part: Part,
    pub(crate) dtype: DType,
    /// Bytes of the whole part.
    pub(crate) bytes: u64,
    per: PartLayout,
}

/// The assignment of a part's bytes to rows.
#[derive(Clone, Debug)]
enum PartLayout {
    /// Each row has this many bytes, of which these ranges are taken, in this order.
    Row(u64, Vec<Range<u64>>),
    /// The stored tensor has the part once, and this tensor is that complete stored tensor.
    Tensor,
    /// All sources have equal bytes.
    Same,
    /// Each source has its own bytes and is one array of the tensor.
    Source,
}

/// A copy of one part of one stored tensor: `count` rows that are `stride` bytes apart in the file
/// and adjacent in the destination.
#[derive(Clone, Debug)]
pub(crate) struct RowCopy<'a> {
    /// The number of the source.
    pub(crate) source: u32,
    pub(crate) tensor: StoredTensor<'a>,
    /// The offset of the first row, from the part's first byte.
    pub(crate) from: u64,
    /// The ranges taken from each row, in this order.
    pub(crate) taken: Arc<[Range<u64>]>,
    pub(crate) stride: u64,
    pub(crate) count: u64,
    /// The destination offset in the tensor's part.
    pub(crate) to: u64,
}

impl RowCopy<'_> {
    /// The bytes taken from each row.
    pub(crate) fn len(&self) -> u64 {
        self.taken.iter().map(|run| run.end - run.start).sum()
    }
}

impl Tensor {
    /// The reason why only values, and not packed bytes, are available; `None` if packed bytes are.
    pub fn why_computed(&self) -> Option<&'static str> {
        if self.is_adapted() {
            return Some("a LoRA adapter is merged into it");
        }
        self.sources.iter().find_map(|source| match source.change {
            Arithmetic::AddOne => Some("1 is added to the stored values"),
            Arithmetic::SubtractOne => Some("1 is subtracted from the stored values"),
            Arithmetic::NegExp | Arithmetic::Exp => {
                Some("its values are the exponentials of the stored values")
            }
            Arithmetic::Softplus | Arithmetic::LogExpMinusOne => {
                Some("its values are computed by softplus or its inverse")
            }
            Arithmetic::LogNeg | Arithmetic::Log => {
                Some("its values are the logarithms of the stored values")
            }
            Arithmetic::Times(_) => Some("it is multiplied by a factor of the config"),
            Arithmetic::None if source.transposed.is_some() => {
                Some("its rows are stored as columns")
            }
            Arithmetic::None => None,
        })
    }

    /// Determines how the tensor is derived from stored tensors.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read.
    pub fn derivation(&self) -> Result<Derivation> {
        if self.is_stored() {
            return Ok(Derivation::Stored);
        }
        if let Some(why) = self.why_computed() {
            return Ok(Derivation::Computed(why.to_owned()));
        }
        match self.packed() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => return Ok(Derivation::Computed(error.to_string())),
        }
        let stored: u64 =
            self.stored_tensors().map(|tensor| tensor.elements()).fold(0, u64::saturating_add);
        Ok(match self.sources.len() {
            1 if self.elements() == stored => Derivation::Reordered,
            1 => Derivation::Part,
            _ => Derivation::Joined,
        })
    }

    /// Passes the packed bytes of a part to `sink`, in pieces. The bytes are little-endian, in the
    /// layout of [`load`](crate::WeightProvider::load).
    ///
    /// # Errors
    ///
    /// `Unsupported` or `Mismatch` if the tensor has no packed form, with the reason; `NotFound` if
    /// it has no such part; `Io` if a file cannot be read; and any error of `sink`.
    pub fn for_each_piece<E: From<Error>>(
        &self,
        part: Part,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_piece_in(part, 0..self.part(part)?.bytes, sink)
    }

    /// The mapped file that holds a part's packed bytes without any change, and where they are in it.
    pub(crate) fn file_memory(&self, part: Part) -> Option<(MappedFile, Range<u64>)> {
        let (file, start) = self.as_native()?.place(part)?;
        let end = start.checked_add(self.part(part).ok()?.bytes)?;
        Some((self.sources.first()?.store.map(file)?, start..end))
    }

    /// The stored tensor whose file bytes are the packed form without any change.
    fn as_native(&self) -> Option<StoredTensor<'_>> {
        self.as_stored().ok().filter(|stored| !stored.is_big_endian())
    }

    /// Like [`for_each_piece`](Self::for_each_piece), for a byte range of the part.
    ///
    /// # Errors
    ///
    /// Same as [`for_each_piece`](Self::for_each_piece); `Mismatch` if the range exceeds the part.
    pub fn for_each_piece_in<E: From<Error>>(
        &self,
        part: Part,
        within: Range<u64>,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(stored) = self.as_native() {
            return stored.for_each_piece_in(part, within, sink);
        }
        let packed = self.part(part)?;
        if within.start > within.end || within.end > packed.bytes {
            let Range { start, end } = within;
            let fault = format!(
                "bytes {start}..{end} exceed the {} bytes of the {}",
                packed.bytes,
                part.name()
            );
            return Err(self.located(Error::mismatch(fault)).into());
        }
        self.each_piece(&packed, within, sink)
    }

    pub(super) fn part(&self, part: Part) -> Result<PackedPart> {
        let found = self.packed()?.into_iter().find(|packed| packed.part == part);
        let fault = || Error::not_found(format!("the tensor has no part \"{}\"", part.name()));
        found.ok_or_else(|| self.located(fault()))
    }

    fn each_piece<E: From<Error>>(
        &self,
        packed: &PackedPart,
        within: Range<u64>,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Whole blocks, because the byte order of a big-endian file is reversed block by block.
        let block = u64::from(packed.dtype.descriptor().block_bytes).max(1);
        let piece = (CHUNK / block).max(1).saturating_mul(block);
        let rows = match packed.per_row() {
            Some(each @ 1..) => within.start / each..within.end.div_ceil(each),
            _ => 0..self.rows(),
        };
        for copy in self.copies(packed, rows) {
            let mut to = copy.to;
            for turn in 0..copy.count {
                for run in copy.taken.iter() {
                    let len = run.end - run.start;
                    let (start, end) = (within.start.max(to), within.end.min(to + len));
                    let from = copy.from + turn * copy.stride + run.start;
                    let mut at = start;
                    while at < end {
                        let next = end.min(at.saturating_add(piece));
                        let range = from + (at - to)..from + (next - to);
                        sink(&copy.tensor.native_within(packed.part, range)?)?;
                        at = next;
                    }
                    to += len;
                }
            }
        }
        Ok(())
    }

    /// Whether two tensors are derived in the same way from stored tensors with the same bytes, so
    /// that their values are equal.
    pub(crate) fn is_packed_like(&self, other: &Self) -> Result<bool> {
        let form = |tensor: &Self| {
            (tensor.columns, tensor.order, tensor.taken.clone(), tensor.sources.len())
        };
        let adapted = self.is_adapted() || other.is_adapted();
        if adapted || form(self) != form(other) || self.runs != other.runs {
            return Ok(false);
        }
        for (own, theirs) in self.sources.iter().zip(&other.sources) {
            if !own.is_made_like(theirs) {
                return Ok(false);
            }
            for (own, theirs) in own.tensors().zip(theirs.tensors()) {
                if !own.is_packed_like(&theirs)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The parts of the packed form, the weight first.
    ///
    /// # Errors
    ///
    /// `Unsupported` if values are [computed](Self::why_computed) or the scheme packs across rows;
    /// `Mismatch` if the sources cannot be joined.
    pub(crate) fn packed(&self) -> Result<Vec<PackedPart>> {
        if let Some(why) = self.why_computed() {
            return Err(Error::unsupported(format!("the tensor has no packed form: {why}"))
                .in_tensor(self.name())
                .advise("load the values, or the stored tensor"));
        }
        self.dtype()?;
        let (first, others) = match self.sources.as_slice() {
            [first, others @ ..] => (first.tensor(), others),
            [] => return Ok(Vec::new()),
        };
        let mut parts = Vec::new();
        for segment in first.segments() {
            let part = self.packed_part(first, &segment)?;
            for other in others {
                let theirs = other.tensor().segments().find(|other| other.part == segment.part);
                let same = theirs.filter(|theirs| theirs.dtype == segment.dtype);
                let same = same.is_some_and(|theirs| {
                    self.row_bytes(other.tensor(), &theirs) == self.row_bytes(first, &segment)
                });
                if !same {
                    let (name, what) = (first.name(), segment.part.name());
                    let fault = format!("the layout of the {what} differs from that of {name}");
                    return Err(Error::mismatch(fault).in_tensor(other.tensor().name()));
                }
            }
            parts.push(part);
        }
        if let Some(other) =
            others.iter().find(|other| other.tensor().segments().count() != parts.len())
        {
            let fault = format!("the parts differ from those of {}", first.name());
            return Err(Error::mismatch(fault).in_tensor(other.tensor().name()));
        }
        Ok(parts)
    }

    /// The shape of a part of the packed form, in elements of that part's dtype.
    pub(crate) fn part_shape(&self, part: &PackedPart) -> Vec<u64> {
        let of = |tensor: StoredTensor<'_>| {
            let segment = tensor.segments().find(|segment| segment.part == part.part);
            segment.map(|segment| segment.shape.to_vec()).unwrap_or_default()
        };
        let own = self.stored_tensors().next().map(of).unwrap_or_default();
        let plain = self.stored_tensors().next().is_some_and(|tensor| tensor.shape() == own);
        match (&part.per, self.shape.split_last()) {
            // The bytes are the same, but axes of length 1 may have been added or removed.
            (PartLayout::Tensor, _) if plain => self.shape.clone(),
            (PartLayout::Tensor | PartLayout::Same, _) | (_, None) => own,
            (PartLayout::Source, _) => vec![self.sources.len() as u64],
            // A row of the tensor is a whole number of gathered rows, each with the same number of
            // bytes.
            (PartLayout::Row(..), Some((_, outer))) => {
                let row = part.dtype.descriptor();
                let rows = shape::elements(outer).unwrap_or(0).max(1);
                let elements = (part.bytes / rows) / u64::from(row.block_bytes).max(1);
                let columns = elements.saturating_mul(u64::from(row.block_len));
                outer.iter().copied().chain([columns]).collect()
            }
        }
    }

    fn packed_part(&self, tensor: StoredTensor<'_>, segment: &Segment<'_>) -> Result<PackedPart> {
        let bytes = segment.range.end - segment.range.start;
        let of =
            |bytes, per| Ok(PackedPart { part: segment.part, dtype: segment.dtype, bytes, per });
        if self.is_stored() {
            return of(bytes, PartLayout::Tensor);
        }
        if let Some(row) = self.row_bytes(tensor, segment) {
            if let Some(taken) = self.taken_bytes(row) {
                let each = taken.iter().map(|run| run.end - run.start).sum::<u64>();
                return of(each.saturating_mul(self.rows()), PartLayout::Row(row, taken));
            }
            if !self.order.is_whole(self.columns) {
                let fault =
                    format!("the columns were reordered within blocks of {}", tensor.dtype()?);
                return Err(Error::unsupported(fault)
                    .in_tensor(self.name())
                    .advise("load the values, or use the file's order"));
            }
        }
        let single = shape::elements(segment.shape) == Some(1);
        if single && self.taken == (0..self.order.len()) {
            if self.sources.len() == 1 || self.all_same(segment.part)? {
                return of(bytes, PartLayout::Same);
            }
            // Each source must be exactly one array of the tensor, with its rows in order.
            let (arrays, rows) = self.arrays();
            let whole = self.runs.len() as u64 == arrays
                && (0u32..)
                    .zip(&self.runs)
                    .all(|(n, run)| (run.source, run.turns) == (n, 1) && run.run.is_whole(rows));
            if whole && arrays == self.sources.len() as u64 {
                return of(bytes.saturating_mul(arrays), PartLayout::Source);
            }
            let fault = format!("the {} differs between the stored tensors", segment.part.name());
            return Err(Error::mismatch(fault).in_tensor(self.name()));
        }
        let dtype = tensor.dtype()?;
        let fault = format!("the {} of {dtype} is not stored by rows", segment.part.name());
        Err(Error::unsupported(fault)
            .in_tensor(tensor.name())
            .advise("load the values, which are available for any rows"))
    }

    /// The byte ranges of the selected columns in a row of `row` bytes. `None` if the columns do
    /// not end at byte boundaries.
    fn taken_bytes(&self, row: u64) -> Option<Vec<Range<u64>>> {
        let unit = self.column_unit().ok()?;
        let byte = |column: u64| {
            // Inside a block, no byte belongs to a single column.
            if !column.is_multiple_of(unit) && column != self.columns {
                return None;
            }
            let at = row.checked_mul(column)?;
            at.is_multiple_of(self.columns).then(|| at / self.columns)
        };
        let run = |span: RowSpan| {
            // Columns with gaps between them have no byte ranges of their own.
            let beside = span.step == 1 || span.count == 1;
            let end = span.start.checked_add(span.count).filter(|_| beside)?;
            Some(byte(span.start)?..byte(end)?)
        };
        self.order.spans(self.taken.clone()).map(run).collect()
    }

    /// The bytes of a part for each gathered row of a stored tensor, if the part is stored by rows.
    fn row_bytes(&self, tensor: StoredTensor<'_>, segment: &Segment<'_>) -> Option<u64> {
        // Shapes do not suffice: the words may form a matrix with the same number of rows by
        // coincidence.
        if tensor.dtype().is_ok_and(DType::is_packed_across_rows) {
            return None;
        }
        let elements = tensor.elements();
        let (_, outer) = tensor.shape().split_last()?;
        if segment.shape.len() <= outer.len() || !segment.shape.starts_with(outer) {
            return None;
        }
        // Each element of a vector may be a row.
        let all = (segment.range.end - segment.range.start).checked_mul(self.columns)?;
        let row = all.checked_div(elements)?;
        (row.checked_mul(elements)? == all).then_some(row)
    }

    /// The bytes of a packed part for each gathered row, if the part is stored by rows.
    pub(crate) fn part_row_bytes(&self, part: &PackedPart) -> Option<u64> {
        if !matches!(part.per, PartLayout::Tensor) {
            return part.per_row();
        }
        let tensor = self.sources.first()?.tensor();
        let segment = tensor.segments().find(|segment| segment.part == part.part)?;
        self.row_bytes(tensor, &segment)
    }

    fn all_same(&self, part: Part) -> Result<bool> {
        let mut first = None;
        for source in &self.sources {
            let tensor = source.tensor();
            let Some(segment) = tensor.segments().find(|segment| segment.part == part) else {
                return Ok(false);
            };
            let bytes = tensor.native_bytes(segment.part)?;
            match &first {
                None => first = Some(bytes),
                Some(first) if *first != bytes => return Ok(false),
                Some(_) => {}
            }
        }
        Ok(true)
    }

    /// The copies that produce some rows of a part of the packed form. A part that is not stored by
    /// rows is copied as a whole.
    pub(crate) fn copies(&self, part: &PackedPart, rows: Range<u64>) -> Vec<RowCopy<'_>> {
        fn whole(number: u32, source: &RowSource, len: u64, to: u64) -> RowCopy<'_> {
            let taken = Arc::from(std::slice::from_ref(&(0..len)));
            let tensor = source.tensor();
            RowCopy { source: number, tensor, from: 0, taken, stride: len, count: 1, to }
        }
        match &part.per {
            PartLayout::Tensor | PartLayout::Same => {
                let first = self.sources.first();
                first.map(|source| whole(0, source, part.bytes, 0)).into_iter().collect()
            }
            PartLayout::Source => {
                let each = part.bytes.checked_div(self.sources.len() as u64).unwrap_or(0);
                let copy = |(number, source)| whole(number, source, each, u64::from(number) * each);
                (0..).zip(&self.sources).map(copy).collect()
            }
            PartLayout::Row(row, taken) => {
                let each = part.per_row().unwrap_or(0);
                let taken: Arc<[Range<u64>]> = Arc::from(taken.as_slice());
                let mut to = rows.start.saturating_mul(each);
                let mut copies = Vec::new();
                for (number, span) in self.spans(rows) {
                    let Some(source) = self.sources.get(number as usize) else { continue };
                    let (from, stride) = (span.start * row, span.step * row);
                    let all = each * span.count;
                    let (tensor, count) = (source.tensor(), span.count);
                    copies.push(match &*taken {
                        // Complete, adjacent rows.
                        [run] if stride == each => RowCopy {
                            source: number,
                            tensor,
                            from: from + run.start,
                            taken: Arc::from(std::slice::from_ref(&(0..all))),
                            stride: all,
                            count: 1,
                            to,
                        },
                        _ => {
                            let taken = Arc::clone(&taken);
                            RowCopy { source: number, tensor, from, taken, stride, count, to }
                        }
                    });
                    to += all;
                }
                copies
            }
        }
    }
}

impl PackedPart {
    /// The bytes of a row, if rows are gathered one by one.
    fn per_row(&self) -> Option<u64> {
        match &self.per {
            PartLayout::Row(_, taken) => Some(taken.iter().map(|run| run.end - run.start).sum()),
            _ => None,
        }
    }
}
