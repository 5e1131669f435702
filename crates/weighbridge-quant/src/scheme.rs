//! Decodes checkpoints of quantization schemes other than ggml's and MLX's, row by row.
//!
//! Order of rounding: zero points are subtracted as integers, and each product is rounded to `f32`
//! separately, as in the libraries that wrote the checkpoints.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;

use super::arrays::{BlockScales, RowsDecode, SchemeArrays, StoredArray};
use super::float::{E2M1, E2M3, E4M3, E4M3FNUZ, E5M2, E5M2FNUZ};
use super::{Codec, Decoder};

const fn rows(decode: RowsDecode) -> Codec {
    Codec(Decoder::Rows(decode))
}

pub(crate) static GPTQ2: Codec = rows(gptq::<2, 1>);
pub(crate) static GPTQ3: Codec = rows(gptq::<3, 1>);
pub(crate) static GPTQ4: Codec = rows(gptq::<4, 1>);
pub(crate) static GPTQ8: Codec = rows(gptq::<8, 1>);
pub(crate) static GPTQ2_V2: Codec = rows(gptq::<2, 0>);
pub(crate) static GPTQ3_V2: Codec = rows(gptq::<3, 0>);
pub(crate) static GPTQ4_V2: Codec = rows(gptq::<4, 0>);
pub(crate) static GPTQ8_V2: Codec = rows(gptq::<8, 0>);
pub(crate) static AWQ4: Codec = rows(awq);
pub(crate) static AWQ4_GEMV: Codec = rows(awq_gemv);
pub(crate) static SPARSE24: Codec = rows(sparse24);
pub(crate) static CT_INT2: Codec = rows(compressed::<2>);
pub(crate) static CT_INT3: Codec = rows(compressed::<3>);
pub(crate) static CT_INT4: Codec = rows(compressed::<4>);
pub(crate) static CT_INT5: Codec = rows(compressed::<5>);
pub(crate) static CT_INT6: Codec = rows(compressed::<6>);
pub(crate) static CT_INT7: Codec = rows(compressed::<7>);
pub(crate) static CT_INT8: Codec = rows(compressed::<8>);
pub(crate) static CT_MXFP6: Codec = rows(mxfp6);
pub(crate) static SCALED_I8: Codec = rows(|parts, range, out| {
    let zero_point = |number: usize| match &parts.zero_point {
        Some(zeros) if zeros.width == 1 => Some(i32::from(zeros.bytes.get(number)?.cast_signed())),
        Some(_) => None,
        None => Some(0),
    };
    scaled(parts, range, out, |byte, scale, number| {
        Some(scale * small(i32::from(byte.cast_signed()) - zero_point(number)?))
    })
});
pub(crate) static SCALED_F8_E4M3: Codec =
    rows(|parts, range, out| scaled_float(parts, range, out, &E4M3));
pub(crate) static SCALED_F8_E5M2: Codec =
    rows(|parts, range, out| scaled_float(parts, range, out, &E5M2));
pub(crate) static SCALED_F8_E4M3FNUZ: Codec =
    rows(|parts, range, out| scaled_float(parts, range, out, &E4M3FNUZ));
pub(crate) static SCALED_F8_E5M2FNUZ: Codec =
    rows(|parts, range, out| scaled_float(parts, range, out, &E5M2FNUZ));
pub(crate) static HF_NVFP4_AWQ: Codec = rows(nvfp4_awq);
pub(crate) static BNB_NF4: Codec = rows(bitsandbytes);
pub(crate) static BNB_FP4: Codec = rows(bitsandbytes);
pub(crate) static BNB_INT8: Codec = rows(bitsandbytes_int8);

/// Converts an integer of a few bits to a float.
#[expect(clippy::cast_precision_loss, reason = "at most 9 bits")]
fn small(number: i32) -> f32 {
    number as f32
}

/// The group of a column: from `g_idx` if there is one that names it (compressed-tensors stores -1 for all columns if they
/// were not sorted), otherwise consecutive groups of equal length. If they do not divide the columns, the last columns are in
/// a group that does not exist.
fn groups<'p>(
    parts: &'p SchemeArrays<'_>,
    count: usize,
) -> Option<impl Fn(usize) -> Option<usize> + 'p> {
    let each = parts.columns.checked_div(count)?;
    Some(move |column: usize| match &parts.group_index {
        Some(index) => match index.word(column)? {
            u32::MAX => column.checked_div(each),
            group => usize::try_from(group).ok().filter(|group| *group < count),
        },
        None => column.checked_div(each),
    })
}

/// The field at position `number` in a stream of words, with fields of `BITS` bits. `word` returns
/// the words.
fn field<const BITS: usize>(number: usize, word: impl Fn(usize) -> Option<u32>) -> Option<i32> {
    let bit = number.checked_mul(BITS)?;
    let low = u64::from(word(bit / 32)?);
    // Only a width that does not divide 32 reaches into the next word.
    let high = if bit % 32 + BITS > 32 { u64::from(word(bit / 32 + 1)?) } else { 0 };
    i32::try_from((low | high << 32) >> (bit % 32) & ((1 << BITS) - 1)).ok()
}

/// GPTQ: codes packed along the input, [K bits / 32, N]; zero points along the output, [G, N bits /
/// 32], stored minus `LESS`; scales [G, N]. Value: scale (q - zero point).
///
/// The first format stores a zero point of 0 as the largest field: the sum is computed modulo the
/// width, as in auto-gptq.
fn gptq<const BITS: usize, const LESS: i32>(
    parts: &SchemeArrays<'_>,
    range: Range<usize>,
    out: &mut [f32],
) -> Option<()> {
    let (scales, zeros) = (parts.scale.as_ref()?, parts.zero_point.as_ref()?);
    let (outputs, zero_words) = (parts.weight.along(1), zeros.along(1));
    let group = groups(parts, scales.along(0))?;
    for (output, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let scaling = |group: usize| {
            let zero = field::<BITS>(output, |word| zeros.word(group * zero_words + word))?;
            Some((scales.float(group * outputs + output)?, (zero + LESS) & ((1 << BITS) - 1)))
        };
        let scalings: Option<Vec<(f32, i32)>> = (0..scales.along(0)).map(scaling).collect();
        let scalings = scalings?;
        for (column, value) in row.iter_mut().enumerate() {
            let (scale, zero) = scalings.get(group(column)?)?;
            let code = field::<BITS>(column, |word| parts.weight.word(word * outputs + output))?;
            *value = scale * small(code - zero);
        }
    }
    Some(())
}

/// AWQ: codes packed along the output, [K, N / 8], and so are zero points, [G, N / 8]; the nibbles
/// of a word hold columns 0, 2, 4, 6, 1, 3, 5, 7. Value: scale (q - zero point).
fn awq(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    /// The nibble that holds each column.
    const NIBBLE: [u32; 8] = [0, 4, 1, 5, 2, 6, 3, 7];
    let (scales, zeros) = (parts.scale.as_ref()?, parts.zero_point.as_ref()?);
    let (words, outputs) = (parts.weight.along(1), scales.along(1));
    let group = groups(parts, scales.along(0))?;
    for (output, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let nibble = NIBBLE.get(output % 8)?;
        let code = |array: &StoredArray<'_>, row: usize| {
            let word = array.word(row * words + output / 8)?;
            i32::try_from(word >> (4 * nibble) & 15).ok()
        };
        let scaling =
            |group: usize| Some((scales.float(group * outputs + output)?, code(zeros, group)?));
        let scalings: Option<Vec<(f32, i32)>> = (0..scales.along(0)).map(scaling).collect();
        let scalings = scalings?;
        for (column, value) in row.iter_mut().enumerate() {
            let (scale, zero) = scalings.get(group(column)?)?;
            *value = scale * small(code(&parts.weight, column)? - zero);
        }
    }
    Some(())
}

/// AWQ's GEMV layout: codes packed along the input, [N, K / 8], and so are zero points, [N, words]. Scales and zero
/// points are padded to whole words. Value: scale (q - zero point).
fn awq_gemv(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    let (scales, zeros) = (parts.scale.as_ref()?, parts.zero_point.as_ref()?);
    let (words, across, zero_words) = (parts.weight.along(1), scales.along(1), zeros.along(1));
    let each = usize::try_from(parts.blocks.block).ok().filter(|each| *each > 0)?;
    for (output, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        for (group, row) in row.chunks_mut(each).enumerate() {
            let zero = field::<4>(group, |word| zeros.word(output * zero_words + word))?;
            let scale = scales.float(output * across + group)?;
            for (column, value) in (group * each..).zip(row) {
                let code = field::<4>(column, |word| parts.weight.word(output * words + word))?;
                *value = scale * small(code - zero);
            }
        }
    }
    Some(())
}

/// compressed-tensors' 2:4 sparsity: the stored half of each row, [N, K / 2], and a bit for each element, [N, K /
/// 8 bytes]. Value: the element, times the scale of its row.
fn sparse24(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    let (bitmask, width) = (parts.bitmask.as_ref()?, parts.weight.along(1));
    let element = |number: usize| match parts.weight.format {
        Some(_) => parts.weight.float(number),
        None => Some(f32::from(parts.weight.bytes.get(number)?.cast_signed())),
    };
    for (number, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let scale = match &parts.scale {
            Some(scale) if scale.along(0) > 1 => scale.float(number)?,
            Some(scale) => scale.float(0)?,
            None => 1.0,
        };
        let (mut next, end) = (number * width, (number + 1) * width);
        for (column, out) in row.iter_mut().enumerate() {
            let bits = bitmask.bytes.get(number * bitmask.along(1) + column / 8)?;
            *out = 0.0;
            if bits >> (column % 8) & 1 == 1 && next < end {
                *out = element(next)? * scale;
                next += 1;
            }
        }
        // A row whose bits do not count its elements is damaged.
        (next == end).then_some(())?;
    }
    Some(())
}

/// compressed-tensors: codes packed along the row, [N, words]. Scales: [N, G], one for the tensor, or one for
/// each block of rows and columns. Zero points: packed along the first dimension, [N bits / 32, G], or a signed byte
/// beside each scale. Codes, and packed zero points, are stored with an offset of half their range. Value: scale (q -
/// zero point). Matrices of several experts follow one another in each array.
fn compressed<const BITS: usize>(
    parts: &SchemeArrays<'_>,
    range: Range<usize>,
    out: &mut [f32],
) -> Option<()> {
    let scales = parts.scale.as_ref()?;
    let ((rows, words), (scale_rows, count)) = (parts.weight.matrix(), scales.matrix());
    let zero_rows = parts.zero_point.as_ref().map_or(0, |zeros| zeros.matrix().0);
    let half = 1 << (BITS - 1);
    let group = groups(parts, count)?;
    let reach = scale_reach(rows, scale_rows)?;
    for (output, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let (matrix, within) = (output.checked_div(rows)?, output % rows);
        let scaling = |group: usize| {
            let at = (matrix * scale_rows + within / reach) * count + group;
            let zero = match &parts.zero_point {
                Some(zeros) if zeros.width == 1 => {
                    half + i32::from(zeros.bytes.get(at)?.cast_signed())
                }
                Some(zeros) => field::<BITS>(within, |word| {
                    zeros.word((matrix * zero_rows + word) * count + group)
                })?,
                None => half,
            };
            Some((scales.float(at)?, zero))
        };
        let scalings: Option<Vec<(f32, i32)>> = (0..count).map(scaling).collect();
        let scalings = scalings?;
        for (column, value) in row.iter_mut().enumerate() {
            let (scale, zero) = scalings.get(group(column)?)?;
            let code = field::<BITS>(column, |word| parts.weight.word(output * words + word))?;
            *value = scale * small(code - zero);
        }
    }
    Some(())
}

/// compressed-tensors' MXFP6: E2M3 codes, four in three bytes, the first in the low bits; a power of two for each
/// 32. Value: code scale.
fn mxfp6(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    const GROUP: usize = 32;
    let scales = parts.scale.as_ref()?;
    let (width, count) = (parts.weight.matrix().1, scales.matrix().1);
    for (number, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let start = number.checked_mul(width)?;
        let bytes = parts.weight.bytes.get(start..start.checked_add(width)?)?;
        for (column, out) in row.iter_mut().enumerate() {
            let [first, second, third] = *bytes.get(column / 4 * 3..)?.first_chunk()?;
            let word = u32::from_le_bytes([first, second, third, 0]);
            let code = usize::try_from(word >> (column % 4 * 6) & 63).ok()?;
            *out = E2M3.get(code)? * scales.float(number * count + column / GROUP)?;
        }
    }
    Some(())
}

/// The number of elements along a dimension that share a scale, derived from the numbers of
/// elements and of scales: all, one, or a power of two, of which at most one fits.
pub fn scale_reach(elements: usize, scales: usize) -> Option<usize> {
    if scales <= 1 {
        return Some(elements.max(1));
    }
    (0..usize::BITS - 1).map(|power| 1 << power).find(|reach| elements.div_ceil(*reach) == scales)
}

/// Decodes one-byte elements; the shapes determine the range of each scale. `value` is called with
/// the byte, the scale and its number.
fn scaled(
    parts: &SchemeArrays<'_>,
    range: Range<usize>,
    out: &mut [f32],
    value: impl Fn(u8, f32, usize) -> Option<f32>,
) -> Option<()> {
    let scales = parts.scale.as_ref()?;
    // One scale for the tensor, one for each row, or several along each dimension.
    let one = scales.shape.iter().all(|&len| len == 1);
    let dims: Vec<usize> = (0..parts.shape.len())
        .map(|dimension| match (one, scales.shape.len() == 1) {
            (true, _) => 1,
            (false, true) if dimension == 0 => scales.along(0),
            (false, true) => 1,
            (false, false) => scales.along(dimension),
        })
        .collect();
    let reaches: Option<Vec<(usize, usize, usize)>> = parts
        .shape
        .iter()
        .zip(&dims)
        .map(|(&len, &scales)| {
            let len = usize::try_from(len).ok()?;
            Some((len, scales, scale_reach(len, scales)?))
        })
        .collect();
    let reaches = reaches?;
    let (&(_, across, width), outer) = reaches.split_last()?;
    for (number, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        // The position of the row along each of the outer dimensions, the innermost first.
        let (mut rest, mut at, mut stride) = (number, 0usize, across);
        for &(len, scales, reach) in outer.iter().rev() {
            at += (rest % len.max(1) / reach) * stride;
            rest /= len.max(1);
            stride = stride.checked_mul(scales)?;
        }
        let start = number.checked_mul(parts.columns)?;
        let bytes = parts.weight.bytes.get(start..start.checked_add(parts.columns)?)?;
        for (block, (row, bytes)) in row.chunks_mut(width).zip(bytes.chunks(width)).enumerate() {
            let scale = scales.float(at + block)?;
            for (out, &byte) in row.iter_mut().zip(bytes) {
                *out = value(byte, scale, at + block)?;
            }
        }
    }
    Some(())
}

/// Decodes floats of one byte, by a table of their values.
fn scaled_float(
    parts: &SchemeArrays<'_>,
    range: Range<usize>,
    out: &mut [f32],
    table: &[f32; 256],
) -> Option<()> {
    scaled(parts, range, out, |byte, scale, _| Some(table.get(usize::from(byte))? * scale))
}

/// ModelOpt's NVFP4 after AWQ: E2M1 codes, the first of two in the low nibble; a scale for each 16, times
/// that of the tensor; and the factor of each column, by which the module multiplies its input. Value:
/// (code (scale global)) factor.
fn nvfp4_awq(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    const GROUP: usize = 16;
    let (scales, factors) = (parts.scale.as_ref()?, parts.input_factor.as_ref()?);
    let global = parts.global_scale.as_ref()?.float(0)?;
    for (number, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let start = number.checked_mul(parts.columns)?;
        for (group, row) in row.chunks_mut(GROUP).enumerate() {
            let scale = scales.float(start / GROUP + group)? * global;
            for (column, out) in (group * GROUP..).zip(row) {
                let byte = usize::from(*parts.weight.bytes.get((start + column) / 2)?);
                let code = if column % 2 == 0 { byte & 15 } else { byte >> 4 };
                *out = E2M1.get(code)? * scale * factors.float(column)?;
            }
        }
    }
    Some(())
}

/// bitsandbytes: 4-bit codes over the whole tensor, the first of two in the high nibble. Value:
/// table[q] absmax, where absmax may be quantized itself: table[a] absmax of absmax + offset.
fn bitsandbytes(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    let (absmax, table) = (parts.absmax.as_ref()?, parts.code_values.as_ref()?);
    let table: Option<Vec<f32>> = (0..16).map(|code| table.float(code)).collect();
    let table = table?;
    let BlockScales { block: each, nested_block, nested_offset } = parts.blocks;
    let (each, nested_block) = (each as usize, nested_block as usize);
    let factor = |block: usize| match (&parts.nested_absmax, &parts.nested_code_values) {
        (Some(nested), Some(values)) => {
            let code = usize::from(*absmax.bytes.get(block)?);
            let product = values.float(code)? * nested.float(block.checked_div(nested_block)?)?;
            Some(product + nested_offset)
        }
        _ => absmax.float(block),
    };
    let start = range.start.checked_mul(parts.columns)?;
    let (mut block, mut scale) = (usize::MAX, 0.0);
    for (element, out) in (start..).zip(out.iter_mut()) {
        let now = element.checked_div(each)?;
        if now != block {
            (block, scale) = (now, factor(now)?);
        }
        let byte = usize::from(*parts.weight.bytes.get(element / 2)?);
        let code = if element % 2 == 0 { byte >> 4 } else { byte & 15 };
        *out = table.get(code)? * scale;
    }
    Some(())
}

/// bitsandbytes' 8-bit integers, with the largest magnitude of each row. Value: (q scale) / 127,
/// where the division is a multiplication by the rounded reciprocal.
fn bitsandbytes_int8(parts: &SchemeArrays<'_>, range: Range<usize>, out: &mut [f32]) -> Option<()> {
    /// 1 / 127 as in the library.
    const RECIPROCAL: f32 = 0.007_874_016;
    let scales = parts.scale.as_ref()?;
    for (number, row) in range.zip(out.chunks_exact_mut(parts.columns)) {
        let scale = scales.float(number)?;
        let start = number.checked_mul(parts.columns)?;
        let bytes = parts.weight.bytes.get(start..start.checked_add(parts.columns)?)?;
        for (out, byte) in row.iter_mut().zip(bytes) {
            *out = f32::from(byte.cast_signed()) * scale * RECIPROCAL;
        }
    }
    Some(())
}
