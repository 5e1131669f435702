//! What kernels need to know of tensors that checkpoints' schemes quantized, and of global scales, beside
//! codes and scales.

use super::{Body, Kernel, Parameters};
use crate::device::TensorLayout;
use crate::dtype::DType;
use crate::quant::scale_reach;
use crate::shape;
use crate::store::Part;

/// The byte offset of a part that a tensor does not have.
const NONE: u32 = u32::MAX;

/// The parameters of a tensor, with the byte offsets of its parts in their common range; `None` if the
/// parts do not fit together, or no kernel uses one of them.
pub(super) fn parameters(
    kernel: &Kernel,
    tensor: &TensorLayout<'_>,
    start: u64,
) -> Option<Parameters> {
    let TensorLayout { shape: dims, blocks, parts, .. } = *tensor;
    let Body::Scheme { function, .. } = kernel.body else { return global(kernel, tensor) };
    let part = |wanted: Part| parts.iter().find(|part| part.part == wanted);
    let along = |wanted: Part, axis: usize| part(wanted)?.shape.get(axis).copied();
    let at = |wanted: Part| match part(wanted) {
        Some(part) => u32::try_from(part.range.start.checked_sub(start)?).ok(),
        None => Some(NONE),
    };
    let narrow = |number: u64| u32::try_from(number).ok();
    // A part that is too small is left to the CPU, which says so.
    let has = |wanted: Part, least: Option<u64>| {
        let count = part(wanted).and_then(|part| shape::elements(&part.shape));
        least.zip(count).is_some_and(|(least, count)| count >= least)
    };
    let columns = shape::columns(dims);
    let rows = shape::elements(dims)?.checked_div(columns)?;
    let all = Parameters {
        outputs: narrow(rows)?,
        zero_at: at(Part::ZeroPoint)?,
        index_at: at(Part::GroupIndex)?,
        values_at: at(Part::CodeValues)?,
        nested_at: at(Part::NestedAbsmax)?,
        nested_values_at: at(Part::NestedCodeValues)?,
        ..Parameters::default()
    };
    // Other zero points are numbers of another width.
    let zeros = if function == "scaled_i8" { DType::I8 } else { DType::I32 };
    if part(Part::ZeroPoint).is_some_and(|part| part.dtype != zeros) {
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
            let (groups, group_size) = of_groups(along(Part::Scale, 0)?)?;
            let zero_words = narrow(along(Part::ZeroPoint, 1)?)?;
            // Both are packed alike.
            if function == "awq" && along(Part::Weight, 1) != along(Part::ZeroPoint, 1) {
                return None;
            }
            Some(Parameters { groups, group_size, zero_words, ..all })
        }
        ("compressed", [_, _]) => {
            let (groups, group_size) = of_groups(along(Part::Scale, 1)?)?;
            let words = rows.checked_mul(kernel.dtype.bits().into())?.div_ceil(32);
            let zeros = words.checked_mul(groups.into());
            let fits = all.zero_at == NONE || has(Part::ZeroPoint, zeros);
            fits.then_some(Parameters { groups, group_size, ..all })
        }
        ("scaled_i8" | "scaled_f8", [.., _, _]) => {
            // Scales that are powers of two are left to the CPU.
            let is_float = |dtype: &DType| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
            let scales = &part(Part::Scale).filter(|part| is_float(&part.dtype))?.shape;
            let fits = all.zero_at == NONE || has(Part::ZeroPoint, shape::elements(scales));
            fits.then_some(scaled(dims, scales, all)?)
        }
        ("bitsandbytes", _) => {
            let blocks = blocks.filter(|blocks| blocks.block > 0)?;
            let elements = shape::elements(dims)?;
            narrow(elements)?;
            let scales = elements.div_ceil(blocks.block.into());
            let coded = all.nested_at != NONE;
            let is_float = |wanted: Part| part(wanted).is_none_or(|part| part.dtype == DType::F32);
            let values = [Part::CodeValues, Part::NestedAbsmax, Part::NestedCodeValues];
            let fits = all.values_at != NONE
                && coded == (all.nested_values_at != NONE)
                && coded == (blocks.nested_block > 0)
                && has(Part::Absmax, Some(scales))
                && has(Part::CodeValues, Some(16))
                && (!coded
                    || has(Part::NestedAbsmax, Some(scales.div_ceil(blocks.nested_block.into())))
                        && has(Part::NestedCodeValues, Some(256)))
                && values.into_iter().all(is_float);
            fits.then_some(Parameters {
                block: blocks.block,
                nested_block: blocks.nested_block,
                nested_offset: blocks.nested_offset.to_bits(),
                ..all
            })
        }
        ("bitsandbytes_int8", [_, _]) => has(Part::Scale, Some(rows)).then_some(all),
        _ => None,
    }
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
