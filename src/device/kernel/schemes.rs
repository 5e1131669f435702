//! The facts that kernels need about tensors of checkpoints' schemes, and about global scales, in addition to codes and
//! scales.

use super::{Body, Kernel};
use crate::device::{LoadedPart, TensorLayout};
use crate::dtype::DType;
use crate::quant::scale_reach;
use crate::shape;
use crate::store::Part;

/// The parameters of a shader, which come with its command, in this order, each as `u32`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Parameters {
    /// The rows of the window.
    pub rows: u32,
    /// The elements of a row.
    pub columns: u32,
    /// The bytes of a row of the weight.
    pub row_bytes: u32,
    /// The bytes in its binding before the first row of the weight.
    pub weight_at: u32,
    /// The bytes in its binding before the first scale.
    pub scale_at: u32,
    /// The bytes in its binding before the first bias.
    pub bias_at: u32,
    /// The scales of a row.
    pub groups: u32,
    /// The elements that share a scale.
    pub group_size: u32,
    /// The number of indices of `get_rows`, or of vectors of `matrix_matrix`.
    pub count: u32,
    /// The number of rows of the output before the window's first.
    pub first_row: u32,
    /// All rows of the tensor; of `expert_vectors`, those of one expert's matrix.
    pub all_rows: u32,
    /// The number of chosen experts that have one vector, for `expert_vectors`.
    pub per_vector: u32,
    /// The number of the window's first row within the tensor. This and what follows is used by the
    /// schemes of checkpoints alone.
    pub start_row: u32,
    /// The rows of one matrix.
    pub outputs: u32,
    /// The bytes in the binding of the biases before the zero points; `u32::MAX` if there are none.
    pub zero_at: u32,
    /// The same for the group of each column.
    pub index_at: u32,
    /// The same for the values of codes.
    pub values_at: u32,
    /// The same for the sizes of coded scales.
    pub nested_at: u32,
    /// The same for the values of coded scales.
    pub nested_values_at: u32,
    /// The words of zero points for each group.
    pub zero_words: u32,
    /// The scales of each matrix; 0 if all matrices have the same.
    pub matrix_scales: u32,
    /// The rows that share a scale.
    pub row_group: u32,
    /// The elements that share a scale.
    pub block: u32,
    /// The scales that share one of their own.
    pub nested_block: u32,
    /// The bits of the `f32` that is added to each coded scale.
    pub nested_offset: u32,
    /// The kind of the global scale at the start of the biases: 0 if there is none, 1 for a factor, 2 for the largest
    /// magnitude, 3 for a divisor. Each is that of `outputs` rows.
    pub global_kind: u32,
}

impl Parameters {
    /// The number of bytes that a shader's parameters have: a multiple of 16, and at most what every driver
    /// takes with a command.
    pub const BYTES: u32 = 112;

    /// The bytes that a shader gets with its command.
    pub fn bytes(&self) -> [u8; Self::BYTES as usize] {
        let Self { rows, columns, row_bytes, weight_at, scale_at, bias_at, .. } = *self;
        let Self { groups, group_size, count, first_row, all_rows, per_vector, .. } = *self;
        let Self { start_row, outputs, zero_at, index_at, values_at, nested_at, .. } = *self;
        let Self { nested_values_at, zero_words, matrix_scales, row_group, .. } = *self;
        let Self { block, nested_block, nested_offset, global_kind, .. } = *self;
        #[rustfmt::skip]
        let numbers = [
            rows, columns, row_bytes, weight_at, scale_at, bias_at, groups, group_size, count,
            first_row, all_rows, per_vector, start_row, outputs, zero_at, index_at, values_at,
            nested_at, nested_values_at, zero_words, matrix_scales, row_group, block, nested_block,
            nested_offset, global_kind,
        ];
        let mut bytes = [0; Self::BYTES as usize];
        for (to, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
            *to = number.to_le_bytes();
        }
        bytes
    }

    /// The same, with offsets from the start of a binding and not of the range in it.
    pub(super) fn moved(self, by: u32) -> Option<Self> {
        let add = |at: u32| if at == u32::MAX { Some(at) } else { at.checked_add(by) };
        Some(Self {
            zero_at: add(self.zero_at)?,
            index_at: add(self.index_at)?,
            values_at: add(self.values_at)?,
            nested_at: add(self.nested_at)?,
            nested_values_at: add(self.nested_values_at)?,
            ..self
        })
    }
}

/// The byte offset of a part that a tensor does not have.
const NONE: u32 = u32::MAX;

/// The parts of a tensor, and where they begin in their common range.
struct Parts<'t> {
    tensor: &'t TensorLayout<'t>,
    start: u64,
}

impl Parts<'_> {
    fn get(&self, wanted: Part) -> Option<&LoadedPart> {
        self.tensor.parts.iter().find(|part| part.part == wanted)
    }

    /// The length of an axis of a part.
    fn along(&self, wanted: Part, axis: usize) -> Option<u64> {
        self.get(wanted)?.shape.get(axis).copied()
    }

    /// The byte offset of a part, or [`NONE`].
    fn offset(&self, wanted: Part) -> Option<u32> {
        match self.get(wanted) {
            Some(part) => narrow(part.range.start.checked_sub(self.start)?),
            None => Some(NONE),
        }
    }

    /// Whether a part has at least this many elements. A part that is too small is left to the CPU, which
    /// reports it.
    fn has(&self, wanted: Part, least: Option<u64>) -> bool {
        let count = self.get(wanted).and_then(|part| shape::elements(&part.shape));
        least.zip(count).is_some_and(|(least, count)| count >= least)
    }
}

fn narrow(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// The parameters of a tensor, with the byte offsets of its parts in their common range; `None` if the
/// parts do not fit together, or no kernel uses one of them.
pub(super) fn parameters(
    kernel: &Kernel,
    tensor: &TensorLayout<'_>,
    start: u64,
) -> Option<Parameters> {
    let Body::Scheme { function, .. } = kernel.body else { return global(kernel, tensor) };
    let dims = tensor.shape;
    let parts = Parts { tensor, start };
    let columns = shape::columns(dims);
    let rows = shape::elements(dims)?.checked_div(columns)?;
    let all = Parameters {
        outputs: narrow(rows)?,
        zero_at: parts.offset(Part::ZeroPoint)?,
        index_at: parts.offset(Part::GroupIndex)?,
        values_at: parts.offset(Part::CodeValues)?,
        nested_at: parts.offset(Part::NestedAbsmax)?,
        nested_values_at: parts.offset(Part::NestedCodeValues)?,
        ..Parameters::default()
    };
    // Other zero points are numbers of another width.
    let zeros = if function == "scaled_i8" { DType::I8 } else { DType::I32 };
    if parts.get(Part::ZeroPoint).is_some_and(|part| part.dtype != zeros) {
        return None;
    }
    // Columns of equal groups, unless each column names its group.
    let of_groups = |groups: u64| {
        let each = columns.checked_div(groups)?;
        let even = each.checked_mul(groups) == Some(columns) || all.index_at != NONE;
        Some((narrow(groups)?, narrow(each.max(1))?)).filter(|_| even)
    };
    match (function, dims) {
        ("gptq" | "awq", [_, _]) => {
            let (groups, group_size) = of_groups(parts.along(Part::Scale, 0)?)?;
            let zero_words = narrow(parts.along(Part::ZeroPoint, 1)?)?;
            // Both are packed alike.
            let alike = parts.along(Part::Weight, 1) == parts.along(Part::ZeroPoint, 1);
            let fits = function == "gptq" || alike;
            fits.then_some(Parameters { groups, group_size, zero_words, ..all })
        }
        ("compressed", [_, _]) => {
            let (groups, group_size) = of_groups(parts.along(Part::Scale, 1)?)?;
            let words = rows.checked_mul(kernel.dtype.bits().into())?.div_ceil(32);
            let zeros = words.checked_mul(groups.into());
            let fits = all.zero_at == NONE || parts.has(Part::ZeroPoint, zeros);
            fits.then_some(Parameters { groups, group_size, ..all })
        }
        ("scaled_i8" | "scaled_f8", [.., _, _]) => {
            // Scales that are powers of two are left to the CPU.
            let scale = parts.get(Part::Scale).filter(|part| is_float(part.dtype))?;
            let zeros = shape::elements(&scale.shape);
            let fits = all.zero_at == NONE || parts.has(Part::ZeroPoint, zeros);
            fits.then_some(scaled(dims, &scale.shape, all)?)
        }
        ("bitsandbytes", _) => bitsandbytes(&parts, all),
        ("bitsandbytes_int8", [_, _]) => parts.has(Part::Scale, Some(rows)).then_some(all),
        _ => None,
    }
}

/// The parameters of codes in blocks, each with the largest magnitude, which may be coded too.
fn bitsandbytes(parts: &Parts<'_>, all: Parameters) -> Option<Parameters> {
    let blocks = parts.tensor.blocks.filter(|blocks| blocks.block > 0)?;
    let elements = shape::elements(parts.tensor.shape)?;
    narrow(elements)?;
    let scales = elements.div_ceil(blocks.block.into());
    let coded = all.nested_at != NONE;
    let is_f32 = |wanted: Part| parts.get(wanted).is_none_or(|part| part.dtype == DType::F32);
    let nested_fit = || {
        parts.has(Part::NestedAbsmax, Some(scales.div_ceil(blocks.nested_block.into())))
            && parts.has(Part::NestedCodeValues, Some(256))
    };
    let fits = all.values_at != NONE
        && coded == (all.nested_values_at != NONE)
        && coded == (blocks.nested_block > 0)
        && parts.has(Part::Absmax, Some(scales))
        && parts.has(Part::CodeValues, Some(16))
        && (!coded || nested_fit())
        && [Part::CodeValues, Part::NestedAbsmax, Part::NestedCodeValues].into_iter().all(is_f32);
    fits.then_some(Parameters {
        block: blocks.block,
        nested_block: blocks.nested_block,
        nested_offset: blocks.nested_offset.to_bits(),
        ..all
    })
}

/// The kind of a global scale, and the rows that share it: all, or those of an outermost array.
fn global(kernel: &Kernel, tensor: &TensorLayout<'_>) -> Option<Parameters> {
    let mut globals =
        tensor.parts.iter().filter_map(|part| Some((part, kernel.global_kind(part.part)?)));
    let Some((part, global_kind)) = globals.next() else { return Some(Parameters::default()) };
    let rows = shape::elements(tensor.shape)?.checked_div(shape::columns(tensor.shape))?;
    let count =
        shape::elements(&part.shape).filter(|count| *count > 0 && rows.is_multiple_of(*count))?;
    let outputs = u32::try_from(rows / count).ok()?.max(1);
    let fits = part.dtype == DType::F32 && globals.next().is_none();
    fits.then_some(Parameters { global_kind, outputs, ..Parameters::default() })
}

/// One scale for all elements, for each row, or for each block of both dimensions of each matrix.
fn scaled(dims: &[u64], scales: &[u64], all: Parameters) -> Option<Parameters> {
    let narrow = |number: u64| u32::try_from(number).ok();
    let one = scales.iter().all(|len| *len == 1);
    let count = |axis: usize| match (one, scales.len()) {
        (true, _) => Some(1),
        (false, 1) => Some(if axis == 0 { *scales.first()? } else { 1 }),
        (false, _) => scales.get(axis).copied(),
    };
    let reach = |axis: usize| {
        let sizes = (usize::try_from(*dims.get(axis)?).ok()?, usize::try_from(count(axis)?).ok()?);
        narrow(scale_reach(sizes.0, sizes.1)? as u64)
    };
    let last = dims.len().checked_sub(1)?;
    let row = last.checked_sub(1)?;
    let (across, down) = (count(last)?, count(row)?);
    // Each matrix has scales of its own, or all have the same.
    let matrices = shape::elements(dims.get(..row)?)?;
    let of_matrices = (0..row).map(count).try_fold(1u64, |all, count| all.checked_mul(count?))?;
    let each = match of_matrices {
        1 => 0,
        of_each if of_each == matrices => across.checked_mul(down)?,
        _ => return None,
    };
    Some(Parameters {
        outputs: narrow(*dims.get(row)?)?,
        groups: narrow(across)?,
        group_size: reach(last)?,
        row_group: reach(row)?,
        matrix_scales: narrow(each)?,
        ..all
    })
}
