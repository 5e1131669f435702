//! Windows: the rows of a tensor that a kernel can use at once, and what it needs to know.

use std::ops::Range;

use super::schemes::{self, Parameters};
use super::{Body, Kernel, Operation, kernel};
use crate::device::{DeviceLimits, LoadedPart, TensorLayout};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::store::Part;

/// The facts about a tensor on a device that kernels need.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelTensor {
    /// The kernel of its dtype.
    pub kernel: &'static Kernel,
    /// All rows, of all matrices.
    pub rows: u64,
    /// The elements of a row.
    pub columns: u64,
    /// The elements that share a scale; 0 for dtypes without groups.
    pub group_size: u64,
    /// The dtypes of the scales and of the biases, if they are parts of their own.
    pub formats: (Option<DType>, Option<DType>),
    /// The weight, the scales and the biases: where they are in the buffer, and the bytes of a row. In
    /// place of the biases, the range of all other parts of a checkpoint's scheme.
    parts: [Option<(Range<u64>, Option<u64>)>; 3],
    /// The parameters that all windows share; offsets are from the start of the third range.
    fixed: Parameters,
    /// The buffers that the layout is divided into.
    cuts: Vec<Range<u64>>,
    limits: DeviceLimits,
}

/// A range of one of a tensor's buffers.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Binding {
    /// The number of the buffer, for tensors that have several.
    pub buffer: usize,
    /// The offset in that buffer, a multiple of the alignment.
    pub offset: u64,
    /// The bytes, a multiple of [`WIDTH`].
    pub bytes: u64,
}

/// Rows that a kernel uses at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Window {
    /// The rows.
    pub rows: Range<u64>,
    /// The ranges to bind for the weight, the scales and the biases.
    pub bindings: [Option<Binding>; 3],
    /// The parameters of the shader.
    pub parameters: Parameters,
    /// The bytes of the output that precede this window's.
    pub output_offset: u64,
}

/// The bytes that kernels read at once: buffers of weights, and of inputs, have a multiple of them.
pub const WIDTH: u64 = 16;

/// The number of rows whose outputs are a multiple of the alignment.
fn aligned_rows(row_bytes: u64, alignment: u64) -> u64 {
    // The alignment is a power of two.
    alignment >> row_bytes.trailing_zeros().min(alignment.trailing_zeros())
}

impl KernelTensor {
    /// Describes a tensor for kernels; `None` if its dtype has no kernel, or it has parts that no
    /// kernel uses.
    pub fn new(tensor: &TensorLayout<'_>, limits: DeviceLimits) -> Option<Self> {
        let TensorLayout { shape, group_size, parts, .. } = *tensor;
        let kernel = kernel(tensor.dtype)?;
        let scheme = match kernel.body {
            Body::Scheme { by_rows, .. } => Some(by_rows),
            _ => None,
        };
        let columns = crate::shape::columns(shape);
        let rows = crate::shape::elements(shape)?.checked_div(columns).unwrap_or(0);
        let mut places: [Option<(Range<u64>, Option<u64>)>; 3] = [None, None, None];
        let mut formats = (None, None);
        let is_packed = matches!(tensor.dtype, DType::CT_INT4 | DType::CT_INT8);
        for LoadedPart { part, dtype, range, row_bytes, shape, .. } in parts {
            let number = match part {
                // The kernel's scales are those of rows, and its zero points are packed.
                Part::Scale if is_packed && !matches!(**shape, [n, _] if n == rows) => return None,
                Part::ZeroPoint if is_packed && *dtype == DType::I8 => return None,
                Part::Weight => 0,
                Part::Scale | Part::Absmax => {
                    formats.0 = Some(*dtype);
                    1
                }
                Part::Bias if scheme.is_none() => {
                    formats.1 = Some(*dtype);
                    2
                }
                // They do not affect the values.
                Part::Description => continue,
                part if part.is_of_activations() => continue,
                Part::ZeroPoint
                | Part::GroupIndex
                | Part::CodeValues
                | Part::NestedAbsmax
                | Part::NestedCodeValues
                    if scheme.is_some() =>
                {
                    2
                }
                part if kernel.global_kind(*part).is_some() => 2,
                _ => return None,
            };
            // The rows of a vector are its elements, as far as fusing is concerned.
            let bytes = range.end - range.start;
            let row = row_bytes.and_then(|_| bytes.checked_div(rows));
            let row = row.filter(|row| row.checked_mul(rows) == Some(bytes));
            // Of a scheme, only the codes can have rows of their own. A global scale has none.
            let row = row.filter(|_| match scheme {
                Some(by_rows) => by_rows && number == 0,
                None => kernel.global_kind(*part).is_none(),
            });
            let place = places.get_mut(number)?;
            let start = place.as_ref().map_or(range.start, |(held, _)| held.start.min(range.start));
            let end = place.as_ref().map_or(range.end, |(held, _)| held.end.max(range.end));
            *place = Some((start..end, row));
        }
        let start = places.get(2)?.as_ref().map_or(0, |(range, _)| range.start);
        let fixed = schemes::parameters(kernel, tensor, start)?;
        let fits = u32::try_from(rows).is_ok() && u32::try_from(columns).is_ok();
        (fits && kernel.takes(formats.0, formats.1)).then(|| Self {
            kernel,
            rows,
            columns,
            group_size: group_size.map_or(0, u64::from),
            formats,
            parts: places,
            fixed,
            cuts: tensor.layout.cuts(limits),
            limits,
        })
    }

    /// The bytes that a kernel reads of some rows.
    pub fn bytes(&self, rows: u64) -> u64 {
        let all = self.parts.iter().flatten();
        all.map(|(range, row)| match row {
            Some(row) => row.saturating_mul(rows),
            None => range.end - range.start,
        })
        .sum()
    }

    /// Whether the parts that have no rows of their own can be bound.
    pub(super) fn is_bindable(&self) -> bool {
        let mut shared =
            self.parts.iter().flatten().filter(|(_, row)| row.is_none_or(|row| row == 0));
        self.rows == 0 || shared.all(|(range, row)| self.reach(range, *row, 0).is_ok())
    }

    /// Divides some rows into windows for an operation.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the tensor does not have the rows; `Unsupported` if a single row exceeds a
    /// binding.
    pub fn windows(&self, operation: Operation, rows: Range<u64>) -> Result<Vec<Window>> {
        if rows.end > self.rows || rows.start > rows.end {
            let fault = format!("rows {rows:?} of a tensor with {} rows", self.rows);
            return Err(Error::mismatch(fault));
        }
        let dequantizes = matches!(operation, Operation::DequantizeF32 | Operation::DequantizeF16);
        let output_row = self.columns.saturating_mul(operation.output_bytes());
        // Bindings of outputs begin at multiples of the alignment: at the last such row before the
        // window's first, of which the shader is told. Rows that share a word have one window.
        let aligned = aligned_rows(output_row.max(1), self.limits.alignment.max(1));
        let whole = aligned_rows(output_row.max(1), 4);
        let mut windows = Vec::new();
        let mut first = rows.start;
        while first < rows.end {
            let mut end = rows.end;
            for (range, row) in self.parts.iter().flatten() {
                end = end.min(self.reach(range, *row, first)?);
            }
            let lead = if dequantizes { (first - rows.start) % aligned } else { 0 };
            if dequantizes && output_row > 0 {
                let most = (self.limits.binding / output_row).saturating_sub(lead);
                end = end.min(first.saturating_add(most));
            }
            if end < rows.end && dequantizes {
                end = first + (end - first) / whole * whole;
            }
            if end <= first {
                let fault = format!(
                    "a row of {} elements exceeds what a kernel can use at once, {} bytes",
                    self.columns, self.limits.binding
                );
                return Err(Error::unsupported(fault));
            }
            let before = if dequantizes { lead } else { first };
            let output_offset = (first - rows.start - lead) * output_row;
            windows.push(self.window(first..end, before, output_offset)?);
            first = end;
        }
        Ok(windows)
    }

    /// The end of the rows from `first` on of which a part can be bound.
    fn reach(&self, range: &Range<u64>, row: Option<u64>, first: u64) -> Result<u64> {
        let Some(row) = row.filter(|row| *row > 0) else {
            let (_, cut) = self.cut(range.start)?;
            let start = range.start - (range.start - cut.start) % self.limits.alignment.max(1);
            let bytes = (range.end - start).next_multiple_of(WIDTH);
            if bytes > self.limits.binding || cut.end < range.end {
                let fault = format!("a part of {bytes} bytes cannot be divided between rows");
                return Err(Error::unsupported(fault));
            }
            return Ok(self.rows);
        };
        let start = range.start + first.saturating_mul(row);
        let (_, cut) = self.cut(start)?;
        // The binding starts up to one alignment earlier, and ends at a multiple of the width.
        let room = self.limits.binding.saturating_sub(self.limits.alignment + WIDTH);
        Ok(first + room.min(cut.end - start) / row)
    }

    /// The buffer that has a byte.
    fn cut(&self, at: u64) -> Result<(usize, &Range<u64>)> {
        let mut cuts = self.cuts.iter().enumerate();
        cuts.find(|(_, cut)| cut.contains(&at))
            .ok_or_else(|| Error::mismatch(format!("byte {at} is in no buffer")))
    }

    /// `before` is the number of rows of the output before the window's.
    fn window(&self, rows: Range<u64>, before: u64, output_offset: u64) -> Result<Window> {
        let mut bindings = [None, None, None];
        let mut at = [0u32; 3];
        let mut row_bytes = [0u64; 3];
        let narrow = |number: u64| {
            u32::try_from(number)
                .map_err(|_| Error::unsupported(format!("{number} exceeds 32 bits")))
        };
        let places = self.parts.iter().zip(&mut bindings).zip(at.iter_mut().zip(&mut row_bytes));
        for ((part, binding), (at, row_bytes)) in places {
            let Some((range, row)) = part else { continue };
            let (start, end) = match row {
                Some(row) => (range.start + rows.start * row, range.start + rows.end * row),
                None => (range.start, range.end),
            };
            let (buffer, cut) = self.cut(start)?;
            let within = start - cut.start;
            let offset = within / self.limits.alignment.max(1) * self.limits.alignment.max(1);
            let bytes = (end - cut.start - offset).next_multiple_of(WIDTH);
            *binding = Some(Binding { buffer, offset, bytes });
            *at = narrow(within - offset)?;
            *row_bytes = row.unwrap_or(0);
        }
        let [weight, scale, _] = row_bytes;
        let scale_bytes =
            self.formats.0.map_or(1, |dtype| u64::from(dtype.descriptor().block_bytes));
        let [weight_at, scale_at, bias_at] = at;
        let too_large = || Error::unsupported("the parts exceed 32 bits");
        let fixed = self.fixed.moved(bias_at).ok_or_else(too_large)?;
        let (groups, group_size) = match self.kernel.body {
            Body::Scheme { .. } => (fixed.groups, fixed.group_size),
            _ => (narrow(scale / scale_bytes)?, narrow(self.group_size.max(1))?),
        };
        let parameters = Parameters {
            rows: narrow(rows.end - rows.start)?,
            columns: narrow(self.columns)?,
            row_bytes: narrow(weight)?,
            weight_at,
            scale_at,
            bias_at,
            groups,
            group_size,
            count: 1,
            first_row: narrow(before)?,
            all_rows: narrow(self.rows)?,
            per_vector: 1,
            start_row: narrow(rows.start)?,
            ..fixed
        };
        Ok(Window { rows, bindings, parameters, output_offset })
    }
}

/// Whether a kernel computes with a tensor whose parts lie so: there is one for its parts, and those that
/// cannot be divided between rows do not exceed a binding. `true` if its values are not known.
pub fn computes(tensor: &TensorLayout<'_>, limits: DeviceLimits) -> bool {
    let is_known = tensor.dtype.descriptor().codec.is_some();
    !is_known || KernelTensor::new(tensor, limits).is_some_and(|tensor| tensor.is_bindable())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BufferLayout;

    fn weight(dtype: DType, shape: &[u64], range: Range<u64>, row: u64) -> LoadedPart {
        let (shape, row_bytes) = (shape.to_vec(), Some(row));
        LoadedPart { part: Part::Weight, dtype, shape, range, row_bytes }
    }

    /// The tensor of one part.
    fn kernel_tensor(
        part: &LoadedPart,
        layout: &BufferLayout,
        limits: DeviceLimits,
    ) -> KernelTensor {
        let (dtype, shape, parts) = (part.dtype, &part.shape[..], std::slice::from_ref(part));
        let tensor = TensorLayout { dtype, shape, group_size: None, blocks: None, parts, layout };
        KernelTensor::new(&tensor, limits).unwrap()
    }

    /// Every row is in one window, and every binding is aligned and within its limits.
    #[test]
    fn windows_cover_all_rows_once() {
        for (binding, buffer) in
            [(20_000, u64::MAX), (20_000, 30_000), (4096, 5000), (1 << 27, 1 << 27)]
        {
            let mut limits = DeviceLimits::new(256);
            (limits.unit, limits.binding, limits.buffer) = (4, binding, buffer);
            for (dtype, columns) in [(DType::Q6_K, 512), (DType::Q8_0, 96), (DType::MXFP4, 32)] {
                let rows = 301;
                let row = dtype.row_bytes(columns).unwrap();
                let start = 512;
                let range = start..start + row * rows;
                let bytes = range.end.next_multiple_of(4);
                let layout = BufferLayout::new(bytes).part(range.clone(), Some(row));
                let cuts = layout.cuts(limits);
                assert_eq!((cuts[0].start, cuts[cuts.len() - 1].end), (0, bytes));
                assert!(cuts.windows(2).all(|two| two[0].end == two[1].start));
                assert!(cuts.iter().all(|cut| cut.end - cut.start <= buffer));
                let part = weight(dtype, &[rows, columns], range, row);
                let tensor = kernel_tensor(&part, &layout, limits);
                for operation in Operation::ALL {
                    let windows = tensor.windows(operation, 3..rows).unwrap();
                    assert_eq!(
                        (windows[0].rows.start, windows[windows.len() - 1].rows.end),
                        (3, rows)
                    );
                    assert!(windows.windows(2).all(|two| two[0].rows.end == two[1].rows.start));
                    for window in &windows {
                        let found = window.bindings[0].as_ref().unwrap();
                        let cut = &cuts[found.buffer];
                        assert!(found.offset.is_multiple_of(256) && found.bytes <= binding);
                        let at = cut.start + found.offset + u64::from(window.parameters.weight_at);
                        assert_eq!(at, start + row * window.rows.start);
                        assert!(
                            found.offset + found.bytes
                                <= (cut.end - cut.start).next_multiple_of(WIDTH)
                        );
                        let dequantizes =
                            operation.output_bytes() == 2 || operation == Operation::DequantizeF32;
                        assert!(!dequantizes || window.output_offset.is_multiple_of(256));
                    }
                }
                assert!(tensor.windows(Operation::GetRows, 0..rows + 1).is_err());
            }
        }
    }

    #[test]
    fn a_row_beyond_a_binding_is_an_error() {
        let mut limits = DeviceLimits::new(256);
        (limits.unit, limits.binding) = (4, 1024);
        let layout = BufferLayout::new(8192).part(0..8192, Some(4096));
        let part = weight(DType::F32, &[2, 1024], 0..8192, 4096);
        let tensor = kernel_tensor(&part, &layout, limits);
        let error = tensor.windows(Operation::MatrixVector, 0..2).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    }
}
