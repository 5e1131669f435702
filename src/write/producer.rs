//! Produces the bytes of an output tensor, piece by piece.

use std::ops::Range;
use std::sync::Arc;

use super::finite::QuantizedRows;
use super::grid::GridRepack;
use super::groups::{GroupQuantization, PartSizes, TensorRepack, is_quantized};
use super::{Loss, WriteOptions};
use crate::bytes::{AlignedBuffer, AlignedBytes, Scratch, Source};
use crate::container::writer::NewPart;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{BufferPiece, PackedPart, PieceOrigin, Tensor, plan_packed, plan_values};
use crate::quant::Packed;
use crate::shape;
use crate::store::Part;
use crate::store::tensor::DecodeOptions;

/// Produces the bytes of an output tensor.
#[derive(Clone, Debug)]
pub(crate) enum Producer {
    /// The packed bytes of a tensor.
    Packed(Tensor),
    /// Its values in another dtype: a plain one, or one with ggml blocks. The importance has one
    /// number for each column of each of the tensor's matrices, in order.
    Encoded { view: Tensor, dtype: DType, importance: Option<Arc<[f32]>> },
    /// Its codes, repacked.
    Repacked(TensorRepack),
    /// Its values, in groups that hold them exactly.
    Gridded(GridRepack),
    /// Its values, quantized in groups.
    Grouped(GroupQuantization),
    /// Computed bytes.
    Bytes { bytes: Arc<[u8]>, dtype: DType, shape: Vec<u64> },
    /// A copy of a file.
    File(Arc<Source>),
}

/// A piece of an output tensor: some rows of each of its parts.
#[derive(Debug)]
pub(super) struct OutputPiece {
    /// The byte ranges of the file that it fills: one, or one in each of three parts.
    pub(super) to: Vec<Range<u64>>,
    task: PieceTask,
}

impl OutputPiece {
    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.to.iter().map(|range| range.end - range.start).sum()
    }
}

#[derive(Debug)]
enum PieceTask {
    /// A range of a tensor, read as bytes or as values.
    Read(PieceOrigin),
    /// Rows to quantize, with the importance of their columns.
    Quantize { rows: Range<u64>, columns: usize, dtype: DType, importance: Option<Range<usize>> },
    /// Rows whose parts are produced together.
    Rows(Range<u64>),
    /// A range of computed bytes.
    Bytes(Vec<u8>),
    /// A range of a file.
    Copy(Range<u64>),
}

/// The state that a thread keeps from piece to piece: buffers, and the values that it accepts.
#[derive(Default)]
pub(super) struct ProducerBuffers {
    /// Whether values that no block holds are quantized.
    allow_nonfinite: bool,
    scratch: Scratch,
    values: Option<AlignedBuffer<f32>>,
}

impl Producer {
    /// The arrays that the tensor consists of, the weight first.
    pub(crate) fn parts(&self) -> Result<Vec<NewPart>> {
        match self {
            Self::Packed(view) => {
                let part = |packed: PackedPart| NewPart {
                    part: packed.part,
                    dtype: packed.dtype,
                    shape: view.part_shape(&packed),
                    bytes: packed.bytes,
                    stored_name: None,
                };
                Ok(view.packed()?.into_iter().map(part).collect())
            }
            Self::Encoded { view, dtype, .. } => {
                let shape = view.shape().to_vec();
                let bytes = bytes(*dtype, &shape)?;
                Ok(vec![NewPart {
                    part: Part::Weight,
                    dtype: *dtype,
                    shape,
                    bytes,
                    stored_name: None,
                }])
            }
            Self::Repacked(repacking) => repacking.parts(),
            Self::Gridded(repacking) => repacking.parts(),
            Self::Grouped(quantizing) => quantizing.parts(),
            Self::Bytes { bytes, dtype, shape } => {
                let (dtype, shape, bytes) = (*dtype, shape.clone(), bytes.len() as u64);
                Ok(vec![NewPart { part: Part::Weight, dtype, shape, bytes, stored_name: None }])
            }
            Self::File(source) => {
                let (dtype, bytes) = (DType::U8, source.len());
                let (part, shape) = (Part::Weight, vec![bytes]);
                Ok(vec![NewPart { part, dtype, shape, bytes, stored_name: None }])
            }
        }
    }

    /// The tensor that it is produced from; `None` for computed bytes.
    pub(crate) fn view(&self) -> Option<&Tensor> {
        match self {
            Self::Packed(view)
            | Self::Encoded { view, .. }
            | Self::Grouped(GroupQuantization { view, .. }) => Some(view),
            Self::Repacked(repacking) => Some(repacking.view()),
            Self::Gridded(repacking) => Some(repacking.view()),
            Self::Bytes { .. } | Self::File(_) => None,
        }
    }

    /// Dimensions, outermost first.
    pub(crate) fn shape(&self) -> &[u64] {
        match self {
            Self::Bytes { shape, .. } => shape,
            making => making.view().map_or(&[], Tensor::shape),
        }
    }

    /// The names of the source dtypes.
    pub(crate) fn from(&self) -> String {
        self.view().map(Tensor::dtype_label).unwrap_or_default()
    }

    /// The dtype of the output.
    pub(crate) fn dtype(&self) -> Result<DType> {
        match self {
            Self::Packed(view) => view.dtype(),
            Self::Encoded { dtype, .. }
            | Self::Grouped(GroupQuantization { dtype, .. })
            | Self::Bytes { dtype, .. } => Ok(*dtype),
            Self::Repacked(repacking) => Ok(repacking.dtype()),
            Self::Gridded(repacking) => Ok(repacking.dtype()),
            Self::File(_) => Ok(DType::U8),
        }
    }

    /// Elements that share a scale in the output, for dtypes that leave the number to the tensor.
    pub(crate) fn group_size(&self) -> Option<u32> {
        match self {
            Self::Packed(view) => view.group_size(),
            Self::Repacked(repacking) => repacking.group_size(),
            Self::Gridded(repacking) => Some(repacking.group_size()),
            Self::Grouped(quantizing) => Some(quantizing.group_size),
            Self::Encoded { .. } | Self::Bytes { .. } | Self::File(_) => None,
        }
    }

    /// Cuts the tensor into pieces that take about `memory` bytes each to produce. `places` are the
    /// offsets of its parts in the file.
    pub(super) fn pieces(&self, places: &[u64], memory: u64) -> Result<Vec<OutputPiece>> {
        let mut planned = Vec::new();
        let start = places.first().copied().unwrap_or(0);
        match self {
            Self::Packed(view) => {
                for (part, &place) in view.packed()?.iter().zip(places) {
                    plan_packed(view, part, place, memory, 1, &mut planned);
                }
            }
            Self::Encoded {
                view, dtype: dtype @ (DType::F32 | DType::F16 | DType::BF16), ..
            } => {
                plan_values(view, *dtype, start, memory, &mut planned);
            }
            Self::Encoded { view, dtype, importance } => {
                return quantized(view, *dtype, importance.as_deref(), start, memory);
            }
            Self::Repacked(repacking) => {
                let (rows, row) = repacking.view().gathered_shape();
                let step = memory.checked_div(row.saturating_mul(2)).unwrap_or(0).max(1);
                let end = |first| repacking.piece_end(first, rows, step);
                let sizes = |rows: Range<u64>| repacking.sizes(rows);
                let mut pieces = in_rows(rows, places, end, sizes)?;
                if let (Some(bytes), Some(&place)) = (repacking.global_bytes()?, places.last()) {
                    let to = one(place..place + bytes.len() as u64);
                    pieces.push(OutputPiece { to, task: PieceTask::Bytes(bytes) });
                }
                return Ok(pieces);
            }
            Self::Grouped(quantizing) => {
                let sizes = |rows| quantizing.sizes(rows);
                return in_values(&quantizing.view, places, memory, sizes);
            }
            Self::Gridded(repacking) => {
                return in_values(repacking.view(), places, memory, |rows| repacking.sizes(rows));
            }
            Self::Bytes { bytes, .. } => {
                let to = one(start..start + bytes.len() as u64);
                return Ok(vec![OutputPiece { to, task: PieceTask::Bytes(bytes.to_vec()) }]);
            }
            Self::File(source) => {
                let (len, step) = (source.len(), memory.max(1));
                let pieces = (0..len.div_ceil(step)).map(|number| {
                    let from = number * step..len.min((number + 1) * step);
                    let to = std::iter::once(start + from.start..start + from.end).collect();
                    OutputPiece { to, task: PieceTask::Copy(from) }
                });
                return Ok(pieces.collect());
            }
        }
        let read =
            |BufferPiece { to, work, .. }| OutputPiece { to: one(to), task: PieceTask::Read(work) };
        Ok(planned.into_iter().map(read).collect())
    }

    /// Produces a piece.
    pub(super) fn make(
        &self,
        piece: &OutputPiece,
        out: &mut [u8],
        bench: &mut ProducerBuffers,
    ) -> Result<Loss> {
        let torn = || Error::mismatch("a piece of another tensor");
        match (self, &piece.task) {
            (Self::Packed(view) | Self::Encoded { view, .. }, PieceTask::Read(work)) => {
                work.fill(view, out, &mut bench.scratch).map(Loss::from)
            }
            (
                Self::Encoded { view, importance, .. },
                PieceTask::Quantize { rows, columns, dtype, importance: within },
            ) => {
                let (_, width) = view.gathered_shape();
                let count = (rows.end - rows.start).saturating_mul(width);
                let checks = !bench.allow_nonfinite;
                let values = bench.values(usize::try_from(count).unwrap_or(usize::MAX))?;
                // Only decoding `F64` to `f32` can lose something.
                let (values, scratch) = values;
                let lost =
                    view.decode_bulk(rows.clone(), values, &DecodeOptions::new(), scratch)?;
                let importance = match within {
                    Some(within) => {
                        let all = importance.as_deref().ok_or_else(torn)?;
                        Some(all.get(within.clone()).ok_or_else(torn)?)
                    }
                    None => None,
                };
                let check = QuantizedRows { view, rows: rows.clone(), dtype: *dtype };
                let made = check.quantize(values, *columns, importance, out, checks);
                made.map_err(|error| error.in_tensor(view.name()))?;
                let mut loss = Loss::from(lost);
                // The loss of a first quantization is expected, and not reported.
                if is_quantized(view) {
                    loss += Loss::measured(values, *dtype, &Packed::blocks(out));
                }
                Ok(loss)
            }
            (Self::Repacked(repacking), PieceTask::Rows(rows)) => {
                match repacking.fill(rows.clone(), out)? {
                    None => repacking.loss(rows.clone(), out, &mut bench.scratch),
                    // The plan has checked that the repacking is exact.
                    Some(fault) => Err(Error::mismatch(format!(
                        "the tensor changed since the plan was made: {fault}"
                    ))),
                }
            }
            (Self::Grouped(quantizing), PieceTask::Rows(rows)) => {
                let checks = !bench.allow_nonfinite;
                quantizing.fill(rows.clone(), out, checks, &mut bench.scratch)
            }
            (Self::Gridded(repacking), PieceTask::Rows(rows)) => {
                repacking.fill(rows.clone(), out, &mut bench.scratch)
            }
            (Self::File(source), PieceTask::Copy(from)) => {
                source.read_at(from.start, out)?;
                Ok(Loss::default())
            }
            (_, PieceTask::Bytes(bytes)) => {
                out.copy_from_slice(bytes);
                Ok(Loss::default())
            }
            _ => Err(torn()),
        }
    }
}

impl ProducerBuffers {
    /// Empty buffers.
    pub(super) fn new(options: &WriteOptions<'_>) -> Self {
        Self { allow_nonfinite: options.allow_nonfinite, ..Self::default() }
    }

    /// A buffer for `count` values, and the scratch memory for reading them.
    fn values(&mut self, count: usize) -> Result<(&mut [f32], &mut Scratch)> {
        if self.values.as_ref().is_none_or(|values| values.len() < count) {
            self.values = None;
            self.values = Some(AlignedBuffer::zeroed(count)?);
        }
        let values = self.values.as_deref_mut().and_then(|values| values.get_mut(..count));
        Ok((values.unwrap_or_default(), &mut self.scratch))
    }
}

/// Allocates a buffer for a piece, aligned for numbers of any width.
pub(super) fn room(len: u64) -> Result<AlignedBytes> {
    AlignedBytes::zeroed(len)
}

/// Bytes of a tensor in a dtype without other parts.
fn bytes(dtype: DType, shape: &[u64]) -> Result<u64> {
    let columns = shape::columns(shape);
    let rows = shape::elements(shape).and_then(|all| all.checked_div(columns.max(1)));
    let bytes = dtype.row_bytes(columns).zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
    bytes.ok_or_else(|| {
        let len = dtype.descriptor().block_len;
        Error::mismatch(format!(
            "rows of {columns} elements do not divide into blocks of {len} ({dtype})"
        ))
    })
}

/// A single byte range for the whole piece.
pub(super) fn one(range: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(range).collect()
}

/// Cuts rows whose parts are produced together into pieces. `end` gives the end of the piece that
/// starts at a row, `sizes` the bytes of each part of a range of rows.
fn in_rows(
    rows: u64,
    places: &[u64],
    end: impl Fn(u64) -> u64,
    sizes: impl Fn(Range<u64>) -> Result<PartSizes>,
) -> Result<Vec<OutputPiece>> {
    let mut at: Vec<u64> = places.to_vec();
    let mut pieces = Vec::new();
    let mut first = 0;
    while first < rows {
        let next = end(first).max(first + 1);
        let sizes = sizes(first..next)?;
        let mut to = Vec::new();
        for (place, size) in at.iter_mut().zip(sizes).filter(|(_, size)| *size > 0) {
            to.push(*place..*place + size as u64);
            *place += size as u64;
        }
        pieces.push(OutputPiece { to, task: PieceTask::Rows(first..next) });
        first = next;
    }
    Ok(pieces)
}

/// Cuts rows whose values are decoded, and whose parts are produced together, into pieces.
fn in_values(
    view: &Tensor,
    places: &[u64],
    memory: u64,
    sizes: impl Fn(Range<u64>) -> Result<PartSizes>,
) -> Result<Vec<OutputPiece>> {
    let (rows, row) = view.gathered_shape();
    let step = match view.rows_at_once() {
        Some(together) => together,
        None => memory.checked_div(row.saturating_mul(4)).unwrap_or(0).max(1),
    };
    in_rows(rows, places, |first: u64| rows.min(first.saturating_add(step)), sizes)
}

/// Cuts rows to be quantized into pieces.
fn quantized(
    view: &Tensor,
    dtype: DType,
    importance: Option<&[f32]>,
    start: u64,
    memory: u64,
) -> Result<Vec<OutputPiece>> {
    let (gathered, width) = view.gathered_shape();
    let columns = shape::columns(view.shape());
    let row_bytes = bytes(dtype, &[columns])?;
    // In a vector, each gathered row may be a single element.
    let each = columns.checked_div(width).unwrap_or(0).max(1);
    let rows = gathered / each;
    let matrix = match view.rows_at_once() {
        Some(together) => together / each,
        None => view.matrix_rows() / each,
    }
    .max(1);
    let step = match view.rows_at_once() {
        Some(_) => matrix,
        None => memory.checked_div(columns.saturating_mul(4)).unwrap_or(0).max(1),
    };
    let columns = usize::try_from(columns).unwrap_or(usize::MAX);
    let mut pieces = Vec::new();
    let mut first = 0;
    while first < rows {
        let mut end = rows.min(first + step);
        let mut within = None;
        if importance.is_some() {
            // Each matrix has its own importance.
            end = end.min((first / matrix + 1) * matrix);
            let number = usize::try_from(first / matrix).unwrap_or(usize::MAX);
            let from = number.saturating_mul(columns);
            within = Some(from..from.saturating_add(columns));
        }
        let task = PieceTask::Quantize {
            rows: first * each..end * each,
            columns,
            dtype,
            importance: within,
        };
        pieces.push(OutputPiece {
            to: one(start + first * row_bytes..start + end * row_bytes),
            task,
        });
        first = end;
    }
    Ok(pieces)
}
