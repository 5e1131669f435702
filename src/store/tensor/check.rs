//! Checks a tensor's values: numbers that no weight should have, and weights without information.

use std::fmt;
use std::ops::Range;

use super::{Segment, StoredTensor, sub_scales};
use crate::dtype::{DType, Packing};
use crate::error::{Error, Result};
use crate::quant::{Float, ScaleFormat, Scales};
use crate::store::Part;

/// An anomaly in a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of anomaly.
    pub kind: FindingKind,
    /// The part in which it was found.
    pub part: Part,
    /// The number of occurrences: values, blocks or numbers of the part, depending on the kind.
    pub count: u64,
    /// The number of items that were checked.
    pub of: u64,
    /// The index of the first occurrence, counted from 0.
    pub first: u64,
    /// The file offset of the first occurrence, or of the block that contains it. `None` if a value
    /// is computed from several places.
    pub offset: Option<u64>,
    /// The value of the first occurrence.
    pub value: f64,
}

/// The kinds of findings. The first three are faults: no model can compute with such numbers.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum FindingKind {
    /// Values that are NaN.
    Nan,
    /// Values that are infinite.
    Infinite,
    /// Scales, biases or global scales that are NaN or infinite. In the weight part, `count` is the
    /// number of blocks that contain one; in other parts it is the number of values.
    ///
    /// In the weight part of a llama.cpp type, this is what llama.cpp's own check of a file finds.
    Scale,
    /// Scales of `NVFP4` below its normal range: not 0, but so small that they have lost precision.
    /// `count` is the number of scales.
    LowScale,
    /// All values are 0.
    Zero,
    /// All values are the same number, and it is not 0.
    Constant,
}

impl FindingKind {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nan => "nan",
            Self::Infinite => "infinite",
            Self::Scale => "scale",
            Self::LowScale => "low_scale",
            Self::Zero => "zero",
            Self::Constant => "constant",
        }
    }

    /// Whether the tensor is unusable. Other findings may be intended by the model's maker.
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Nan | Self::Infinite | Self::Scale)
    }
}

/// The finding in one sentence, without a full stop and without the tensor's name.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, of, first, value, .. } = self;
        let part = self.part.name();
        match (self.kind, self.part) {
            (FindingKind::Nan, _) => {
                write!(f, "{count} of {of} values are NaN, the first is element {first}")?;
            }
            (FindingKind::Infinite, _) => {
                write!(f, "{count} of {of} values are infinite, the first is element {first}")?;
            }
            (FindingKind::Scale, Part::Weight) => {
                write!(f, "{count} of {of} blocks have a scale that is NaN or infinite, ")?;
                write!(f, "the first is block {first} with {value}")?;
            }
            (FindingKind::Scale, _) => {
                write!(f, "{count} of {of} numbers of the {part} are NaN or infinite, ")?;
                write!(f, "the first is number {first}, {value}")?;
            }
            (FindingKind::LowScale, _) => {
                write!(f, "{count} of {of} scales are below the normal range, ")?;
                write!(f, "the first is scale {first}, {value}")?;
            }
            (FindingKind::Zero, _) => return write!(f, "all {of} values are 0"),
            (FindingKind::Constant, _) => return write!(f, "all {of} values are {value}"),
        }
        match self.offset {
            Some(offset) => write!(f, " (at byte {offset})"),
            None => Ok(()),
        }
    }
}

/// The first packed block whose scale is NaN or infinite. Not for dtypes whose rows start with bytes of
/// their own.
pub(crate) fn odd_block(dtype: DType, blocks: &[u8]) -> Option<usize> {
    let row = dtype.descriptor();
    let Scales { format, places, .. } = row.scales?;
    let bytes = usize::try_from(row.block_bytes).ok().filter(|_| row.row_head == 0)?;
    let field = |block: &[u8], place: usize| -> bool {
        match (format, block.get(place..)) {
            // The exponent alone tells it, without the value.
            (ScaleFormat::Float(Float::F16), Some([_, high, ..])) => high & 0x7c == 0x7c,
            (_, field) => !format.value(field.unwrap_or_default()).is_finite(),
        }
    };
    let is_odd = |block: &[u8]| places.iter().any(|place| field(block, *place));
    blocks.chunks_exact(bytes.max(1)).position(is_odd)
}

/// The scales of one part: numbers at fixed offsets in runs of bytes.
#[derive(Clone, Copy, Debug)]
struct ScaleLayout {
    number: ScaleFormat,
    places: &'static [usize],
    /// The bytes of a run.
    run: u64,
    /// The blocks of a run: more than one if the blocks of a row share a number.
    blocks: u64,
    /// The bytes of a run before its first block.
    head: u64,
}

impl ScaleLayout {
    /// The positions of the scales. The second number of a block is its minimum.
    fn chosen(&self) -> &'static [usize] {
        match self.number {
            ScaleFormat::Ue4m3 => self.places,
            _ => self.places.get(..1).unwrap_or_default(),
        }
    }
}

/// The scales of some rows of a tensor, row after row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RowScales {
    /// The number of values that share a scale.
    pub width: u64,
    /// The scales.
    pub values: Vec<f32>,
    /// The scales of the sub-blocks, if blocks are divided: those of the blocks times an integer.
    pub sub_blocks: Option<SubScales>,
}

/// The scales of sub-blocks, row after row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SubScales {
    /// The number of values of a sub-block.
    pub width: u64,
    /// The scales.
    pub values: Vec<f32>,
}

/// The number of occurrences, and the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrences {
    count: u64,
    first: u64,
    value: f64,
}

impl Occurrences {
    fn add(&mut self, count: u64, number: u64, value: f64) {
        if self.count == 0 {
            (self.first, self.value) = (number, value);
        }
        self.count = self.count.saturating_add(count);
    }
}

/// The values that a scan observed.
#[derive(Debug, Default)]
struct ValueScan {
    nan: Occurrences,
    infinite: Occurrences,
    /// The first value of all; `differ` is set once another value differs from it.
    first: Option<f64>,
    differ: bool,
    count: u64,
}

impl ValueScan {
    fn look<T: Copy + Into<f64>>(&mut self, values: &[T]) {
        // There are hardly ever any, and counting is much faster than distinguishing NaN from
        // infinity.
        let odd = values.iter().filter(|value| !(**value).into().is_finite()).count();
        if odd > 0 {
            for (value, number) in values.iter().map(|&value| value.into()).zip(self.count..) {
                if value.is_nan() {
                    self.nan.add(1, number, value);
                } else if value.is_infinite() {
                    self.infinite.add(1, number, value);
                }
            }
        }
        if let (false, Some(&first)) = (self.differ, values.first()) {
            let first = *self.first.get_or_insert(first.into());
            self.differ = values.iter().any(|value| (*value).into() != first);
        }
        self.count = self.count.saturating_add(values.len() as u64);
    }
}

/// The largest number of bytes of scales that are checked at a time, unless a run is longer.
const CHUNK: u64 = 1 << 20;

impl StoredTensor<'_> {
    /// Checks every value and every scale, in chunks, and returns the anomalies. Most tensors have
    /// none.
    ///
    /// All values being equal counts as an anomaly only in tensors with at least two dimensions
    /// longer than 1: biases of zeros and norms of ones are common.
    ///
    /// # Errors
    ///
    /// Same as [`dequantize`](Self::dequantize).
    pub(crate) fn check_values(&self) -> Result<Vec<Finding>> {
        self.check_decodable()?;
        let mut findings = Vec::new();
        for segment in self.segments() {
            if let Some(scales) = self.scales(&segment) {
                self.check_scales(&segment, scales, &mut findings)?;
            }
        }
        self.findings_of_values(&self.values()?, &mut findings);
        Ok(findings)
    }

    /// The scales of some rows, in order; `None` if they do not lie row after row.
    pub(crate) fn row_scales(&self, rows: &Range<u64>) -> Result<Option<RowScales>> {
        let columns = crate::shape::columns(self.shape());
        let count = self.elements().checked_div(columns).unwrap_or(0);
        // Parts of other packings than these have their own order.
        let grouped = self.group_size().is_some();
        for segment in self.segments() {
            let own = segment.part == Part::Weight;
            let Some(scales) = self.scales(&segment) else { continue };
            let known = own || grouped && segment.part == Part::Scale;
            if !known || scales.head != 0 {
                continue;
            }
            let (places, run) = (scales.chosen(), scales.run);
            let runs = (segment.range.end - segment.range.start).checked_div(run).unwrap_or(0);
            let each_row = runs.checked_div(count).filter(|_| runs.is_multiple_of(count.max(1)));
            let per_row = each_row.unwrap_or(0).saturating_mul(places.len() as u64);
            let Some(width) =
                columns.checked_div(per_row).filter(|_| columns.is_multiple_of(per_row))
            else {
                continue;
            };
            let place = |row: u64| row.checked_mul(each_row?)?.checked_mul(run);
            let within = place(rows.start).zip(place(rows.end.min(count)));
            let Some((start, end)) = within.filter(|(start, end)| start <= end) else { continue };
            let bytes = self.native_within(segment.part, start..end)?;
            let (mut values, mut inner) = (Vec::new(), Vec::new());
            let dtype = segment.dtype;
            let divided = sub_scales::count(dtype).filter(|_| own);
            for run in bytes.chunks_exact(usize::try_from(run).unwrap_or(usize::MAX)) {
                let value =
                    |place: &usize| scales.number.value(run.get(*place..).unwrap_or_default());
                values.extend(places.iter().map(value));
                if let (Some(count), Some(&scale)) = (divided, values.last()) {
                    let integer = |number| sub_scales::integer(dtype, run, number);
                    inner.extend((0..count).map(|number| scale * integer(number) as f32));
                }
            }
            let sub_blocks = divided
                .and_then(|count| width.checked_div(count as u64))
                .map(|width| SubScales { width, values: inner });
            return Ok(Some(RowScales { width, values, sub_blocks }));
        }
        Ok(None)
    }

    /// Passes the scales of a quantized tensor to `sink`: the first number of each block, every scale
    /// of `NVFP4`, or the values of the scale part.
    pub(crate) fn for_each_scale(&self, mut sink: impl FnMut(f32)) -> Result<()> {
        for segment in self.segments() {
            if !matches!(segment.part, Part::Weight | Part::Scale) {
                continue;
            }
            let Some(scales) = self.scales(&segment) else { continue };
            let (ScaleLayout { number, run, .. }, places) = (scales, scales.chosen());
            let end = segment.range.end.saturating_sub(segment.range.start);
            let step = (CHUNK / run.max(1)).max(1).saturating_mul(run);
            let mut at = 0;
            while at < end {
                let next = at.saturating_add(step).min(end);
                let bytes = self.native_within(segment.part, at..next)?;
                for run in bytes.chunks_exact(usize::try_from(run).unwrap_or(usize::MAX)) {
                    for &place in places {
                        sink(number.value(run.get(place..).unwrap_or_default()));
                    }
                }
                at = next;
            }
        }
        Ok(())
    }

    fn scales(&self, segment: &Segment<'_>) -> Option<ScaleLayout> {
        let row = segment.dtype.descriptor();
        if segment.part == Part::Weight {
            let Scales { format: number, places, .. } = row.scales?;
            let columns = crate::shape::columns(self.shape());
            let (run, blocks) = match row.row_head {
                0 => (row.block_bytes.into(), 1),
                _ => (row.dtype.row_bytes(columns)?, columns / u64::from(row.block_len)),
            };
            let head = row.row_head.into();
            return Some(ScaleLayout { number, places, run, blocks, head });
        }
        // The bytes of other parts are codes or text.
        let bytes = segment.dtype == DType::U8 && segment.part != Part::Scale;
        let float = self.float_format(segment).filter(|_| !bytes)?;
        let run = float.bytes() as u64;
        Some(ScaleLayout {
            number: ScaleFormat::Float(float),
            places: &[0],
            run,
            blocks: 1,
            head: 0,
        })
    }

    fn check_scales(
        &self,
        segment: &Segment<'_>,
        scales: ScaleLayout,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let ScaleLayout { number, places, run, blocks, head } = scales;
        let end = segment.range.end.saturating_sub(segment.range.start);
        let runs = end.checked_div(run).unwrap_or(0);
        let step = (CHUNK / run.max(1)).max(1).saturating_mul(run);
        let (mut bad, mut low) = (Occurrences::default(), Occurrences::default());
        let (mut at, mut block, mut scale) = (0, 0, 0);
        while at < end {
            let next = at.saturating_add(step).min(end);
            let bytes = self.native_within(segment.part, at..next)?;
            for run in bytes.chunks_exact(usize::try_from(run).unwrap_or(usize::MAX)) {
                let mut worst = None;
                for &place in places {
                    let field = run.get(place..).unwrap_or_default();
                    let value = number.value(field);
                    if !value.is_finite() {
                        worst.get_or_insert(value);
                    } else if number.is_low(field) {
                        low.add(1, scale, value.into());
                    }
                    scale += 1;
                }
                if let Some(value) = worst {
                    bad.add(blocks, block, value.into());
                }
                block += blocks;
            }
            at = next;
        }
        let start = segment.range.start;
        let found = |kind, seen: Occurrences, of: u64, offset: u64| Finding {
            kind,
            part: segment.part,
            count: seen.count,
            of,
            first: seen.first,
            offset: start.checked_add(offset),
            value: seen.value,
        };
        if bad.count > 0 {
            let offset = (bad.first / blocks.max(1)).saturating_mul(run).saturating_add(head);
            findings.push(found(FindingKind::Scale, bad, block, offset));
        }
        if low.count > 0 {
            let each = places.len().max(1) as u64;
            let place = usize::try_from(low.first % each).ok().and_then(|place| places.get(place));
            let offset = (low.first / each).saturating_mul(run);
            let offset = offset.saturating_add(place.map_or(0, |&place| place as u64));
            findings.push(found(FindingKind::LowScale, low, runs.saturating_mul(each), offset));
        }
        Ok(())
    }

    fn values(&self) -> Result<ValueScan> {
        let mut values = ValueScan::default();
        if self.dtype()? == DType::F64 {
            // Checked in their own width: a finite double may be infinite as `f32`.
            let big_endian = self.is_big_endian();
            let double = |bytes: &[u8; 8]| match big_endian {
                true => f64::from_be_bytes(*bytes),
                false => f64::from_le_bytes(*bytes),
            };
            let mut doubles = Vec::new();
            self.for_each_piece(Part::Weight, |piece| {
                doubles.clear();
                doubles.extend(piece.as_chunks().0.iter().map(double));
                values.look(&doubles);
                Ok::<_, Error>(())
            })?;
        } else {
            self.for_each_values(|some: &[f32]| {
                values.look(some);
                Ok::<_, Error>(())
            })?;
        }
        Ok(values)
    }

    /// Whether the tensor is a bound of values that is infinite, and so bounds nothing: the layers of Gemma 4's vision and
    /// audio models have such bounds by default.
    fn is_no_bound(&self, kind: FindingKind, value: f64) -> bool {
        const BOUNDS: [(&str, f64); 4] = [
            (".input_max", f64::INFINITY),
            (".input_min", f64::NEG_INFINITY),
            (".output_max", f64::INFINITY),
            (".output_min", f64::NEG_INFINITY),
        ];
        let name = self.name().spelling();
        let is_bound = |&(end, none): &(&str, f64)| name.ends_with(end) && value == none;
        kind == FindingKind::Infinite && self.elements() == 1 && BOUNDS.iter().any(is_bound)
    }

    fn findings_of_values(&self, values: &ValueScan, findings: &mut Vec<Finding>) {
        let of = values.count;
        let mut found = |kind, seen: Occurrences, offset| {
            let Occurrences { count, first, value } = seen;
            findings.push(Finding { kind, part: Part::Weight, count, of, first, offset, value });
        };
        for (kind, seen) in
            [(FindingKind::Nan, values.nan), (FindingKind::Infinite, values.infinite)]
        {
            if seen.count > 0 && !self.is_no_bound(kind, seen.value) {
                found(kind, seen, self.offset_of(seen.first));
            }
        }
        let matrix = self.shape().iter().filter(|&&dim| dim > 1).count() > 1;
        if let (true, false, Some(value)) = (matrix, values.differ, values.first)
            && value.is_finite()
        {
            let kind = if value == 0.0 { FindingKind::Zero } else { FindingKind::Constant };
            found(kind, Occurrences { count: of, first: 0, value }, self.offset_of(0));
        }
    }

    /// The file offset of an element, or of the block that contains it.
    fn offset_of(&self, element: u64) -> Option<u64> {
        let segment = self.segments().find(|segment| segment.part == Part::Weight)?;
        let row = segment.dtype.descriptor();
        if self.dtype().ok()?.descriptor().packing == Packing::Group {
            return None;
        }
        let (block_len, block_bytes) = (u64::from(row.block_len), u64::from(row.block_bytes));
        let blocks = |elements: u64| elements.checked_div(block_len)?.checked_mul(block_bytes);
        let within = match row.row_head {
            0 => blocks(element)?,
            head => {
                let columns = crate::shape::columns(self.shape());
                let rows =
                    element.checked_div(columns)?.checked_mul(row.dtype.row_bytes(columns)?)?;
                rows.checked_add(head.into())?
                    .checked_add(blocks(element.checked_rem(columns)?)?)?
            }
        };
        segment.range.start.checked_add(within)
    }
}
