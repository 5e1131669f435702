//! Producers that write a tensor as several parts: repacked codes, and values quantized in groups.

use std::ops::Range;

use zerocopy::IntoBytes;

use super::Loss;
use super::finite::QuantizedRows;
use crate::bytes::{Scratch, try_vec};
use crate::container::writer::NewPart;
use crate::dtype::{DType, Packing};
use crate::error::{Error, ErrorKind, Result};
use crate::model::Tensor;
use crate::quant::{
    Element, Float, Global, GroupParts, Grouping, NotExact, Packed, ScaleFormat, bf16, f16,
};
use crate::repack::{PackedRows, Repack, Repacked};
use crate::shape;
use crate::store::Part;
use crate::store::tensor::DecodeOptions;

/// The bytes of a piece that belong to its weight, scale and bias.
pub(super) type PartSizes = [usize; 3];

/// A tensor's codes in another packing, with the same values.
#[derive(Clone, Debug)]
pub(crate) struct TensorRepack {
    view: Tensor,
    repack: &'static Repack,
    /// The dtype of scales and biases that keeps all values.
    scales: DType,
    /// Whether scales and biases are rounded to `BF16`.
    rounded: bool,
    /// Elements per group in the source.
    from_group: usize,
    /// Elements per group in the output.
    to_group: Option<usize>,
    /// One factor for the whole tensor, or one for each of its outermost arrays.
    globals: Vec<Global>,
    /// The part that stores it: the largest magnitude (amax) or a factor. `None` if the reader takes none.
    global: Option<Part>,
}

impl TensorRepack {
    /// Finds a repacking that is exact for every number in the tensor, which requires reading all
    /// of its scales. The inner `Err` says why there is none.
    pub(crate) fn exact(
        view: &Tensor,
        to: DType,
        global: Option<Part>,
    ) -> Result<Result<Self, String>> {
        Self::with_globals(view, to, global, view.globals()?)
    }

    /// Like [`exact`](Self::exact), with each divisor of compressed-tensors rounded to a factor:
    /// the values differ from the source's by the roundings of f32.
    pub(crate) fn with_factors(
        view: &Tensor,
        to: DType,
        global: Option<Part>,
    ) -> Result<Result<Self, String>> {
        let factor = |global| match global {
            Global::Divisor(divisor) => Global::Factor(1.0 / divisor),
            other => other,
        };
        let globals = view.globals()?.into_iter().map(factor).collect();
        Self::with_globals(view, to, global, globals)
    }

    fn with_globals(
        view: &Tensor,
        to: DType,
        global: Option<Part>,
        globals: Vec<Global>,
    ) -> Result<Result<Self, String>> {
        let from = match view.dtype() {
            Ok(dtype) => dtype,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let Some(repack) = from.repack_to(to) else {
            return Ok(Err(format!("{to} cannot express {from}")));
        };
        let is_one =
            |one: &Global| matches!(one, Global::Factor(one) | Global::Divisor(one) if *one == 1.0);
        let globals = match (global, view.shape(), globals.as_slice()) {
            (None, ..) if globals.iter().all(is_one) => Vec::new(),
            (None, ..) => {
                return Ok(Err("mlx-lm's module has no place for its global scale".to_owned()));
            }
            // MLX has one for each expert.
            (Some(Part::GlobalAmax), [experts, _, _], [one]) => {
                vec![*one; usize::try_from(*experts).unwrap_or(1)]
            }
            _ => globals,
        };
        let parts = match view.packed() {
            Ok(parts) => parts,
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => return Ok(Err(error.to_string())),
        };
        let more = |part: &Part| matches!(part, Part::ZeroPoint | Part::GroupIndex);
        if let Some(part) = parts.iter().map(|part| part.part).find(more) {
            return Ok(Err(format!("{to} has no {}", part.name())));
        }
        let from_group = view.group_size().map_or(1, |size| size as usize);
        let mut why = String::new();
        // Wider scales may hold what narrow ones cannot.
        let none = [DType::U8];
        let candidates = if repack.scales.is_empty() { &none[..] } else { repack.scales };
        for &scales in candidates {
            let to_group = (to.descriptor().packing == Packing::Group)
                .then(|| repack.group_size(from_group))
                .flatten();
            let view = view.clone();
            let globals = globals.clone();
            let rounded = false;
            let this =
                Self { view, repack, scales, rounded, from_group, to_group, globals, global };
            match this.first_fault()? {
                None => return Ok(Ok(this)),
                Some(fault) => why = fault,
            }
        }
        Ok(Err(why))
    }

    /// The same codes, with scales and biases in `BF16`, whose range holds them all.
    pub(crate) fn with_bf16_scales(mut self) -> Self {
        self.rounded = matches!(self.scales, DType::F32 | DType::F16);
        self
    }

    /// Whether scales and biases are rounded.
    pub(crate) fn is_rounded(&self) -> bool {
        self.rounded
    }

    pub(crate) fn view(&self) -> &Tensor {
        &self.view
    }

    pub(crate) fn dtype(&self) -> DType {
        self.repack.to
    }

    pub(crate) fn group_size(&self) -> Option<u32> {
        self.to_group.and_then(|size| u32::try_from(size).ok())
    }

    /// The output's parts, the weight first.
    pub(crate) fn parts(&self) -> Result<Vec<NewPart>> {
        let mut parts =
            grouped_parts(self.view.shape(), self.repack.to, self.to_group, self.stored_scales())?;
        if let (Some(part), Some(bytes)) = (self.global, self.global_bytes()?) {
            let count = self.globals.len() as u64;
            let amax = self.global == Some(Part::GlobalAmax);
            let shape = if amax && count == 1 { Vec::new() } else { vec![count] };
            let bytes = bytes.len() as u64;
            parts.push(NewPart { part, dtype: DType::F32, shape, bytes, stored_name: None });
        }
        Ok(parts)
    }

    /// The bytes of the global scale, as it is written.
    pub(crate) fn global_bytes(&self) -> Result<Option<Vec<u8>>> {
        if self.globals.is_empty() {
            return Ok(None);
        }
        let amax = self.global == Some(Part::GlobalAmax);
        let mut bytes = Vec::new();
        for global in &self.globals {
            let number = match (self.repack.global(*global), amax) {
                (global, true) => global.amax(),
                (Global::Factor(factor), false) => Some(factor),
                _ => None,
            };
            let number = number.ok_or_else(|| {
                Error::unsupported("its global scale cannot be derived from a largest magnitude")
                    .in_tensor(self.view.name())
            })?;
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Ok(Some(bytes))
    }

    /// Describes the first number that the other packing cannot hold.
    fn first_fault(&self) -> Result<Option<String>> {
        if self.global_bytes().is_err() {
            return Ok(Some(
                "its global scale cannot be derived from a largest magnitude".to_owned(),
            ));
        }
        let (rows, row) = self.view.gathered_shape();
        let step = (1 << 20) / row.max(1);
        let mut first = 0;
        let mut bench = Vec::new();
        while first < rows {
            let end = self.piece_end(first, rows, step.max(1));
            let sizes = self.sizes(first..end)?;
            bench.resize(sizes.iter().sum::<usize>(), 0);
            if let Some(fault) = self.fill(first..end, &mut bench)? {
                return Ok(Some(fault.to_string()));
            }
            first = end;
        }
        Ok(None)
    }

    /// The end of a piece that starts at row `first` and has at most `step` rows. A piece stays
    /// within one of the outermost arrays if each has its own factor.
    pub(crate) fn piece_end(&self, first: u64, rows: u64, step: u64) -> u64 {
        let end = rows.min(first.saturating_add(step));
        match self.globals.len() as u64 {
            0 | 1 => end,
            arrays => {
                let each = rows.checked_div(arrays).unwrap_or(rows).max(1);
                end.min((first / each + 1) * each)
            }
        }
    }

    /// Bytes of the weight, the scale and the bias of a range of rows.
    pub(crate) fn sizes(&self, rows: Range<u64>) -> Result<[usize; 3]> {
        let from = self.rows(&[], &[], &[], Global::None, (DType::U8, DType::U8));
        let count = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
        Ok(self.repack.sizes(count, &from, self.stored_scales())?)
    }

    /// The dtype in which scales and biases are written.
    fn stored_scales(&self) -> DType {
        if self.rounded { DType::BF16 } else { self.scales }
    }

    fn rows<'r>(
        &self,
        weight: &'r [u8],
        scale: &'r [u8],
        bias: &'r [u8],
        global: Global,
        dtypes: (DType, DType),
    ) -> PackedRows<'r> {
        let columns = usize::try_from(shape::columns(self.view.shape())).unwrap_or(usize::MAX);
        PackedRows { weight, scale, bias, dtypes, columns, group_size: self.from_group, global }
    }

    /// Makes the parts of some rows, one after another.
    pub(crate) fn fill(&self, rows: Range<u64>, out: &mut [u8]) -> Result<Option<NotExact>> {
        let (all, _) = self.view.gathered_shape();
        let (mut weight, mut scale, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        let mut dtypes = (DType::U8, DType::U8);
        for part in self.view.packed()? {
            let into = match part.part {
                Part::Weight => &mut weight,
                Part::Scale => {
                    dtypes.0 = part.dtype;
                    &mut scale
                }
                Part::Bias => {
                    dtypes.1 = part.dtype;
                    &mut bias
                }
                _ => continue,
            };
            let row = part.bytes.checked_div(all).unwrap_or(0);
            let within = rows.start * row..rows.end * row;
            *into = try_vec(usize::try_from(within.end - within.start).unwrap_or(usize::MAX))?;
            self.view.for_each_piece_in(part.part, within, |bytes| {
                into.extend_from_slice(bytes);
                Ok::<(), Error>(())
            })?;
        }
        let global = match self.globals.len() as u64 {
            0 => Global::None,
            arrays => {
                let each = all.checked_div(arrays).unwrap_or(all).max(1);
                let number = usize::try_from(rows.start / each).unwrap_or(usize::MAX);
                self.globals.get(number).copied().unwrap_or(Global::None)
            }
        };
        let sizes = self.sizes(rows.clone())?;
        let from = self.rows(&weight, &scale, &bias, global, dtypes);
        let to = parts_of(out, sizes)?;
        let run = |to| {
            let done = self.repack.run(&from, self.scales, to)?;
            Ok(match done {
                Repacked::Exact => None,
                Repacked::NotExact(fault) => Some(fault),
            })
        };
        if !self.rounded {
            return run(to);
        }
        let count = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
        let [_, scale, bias] = self.repack.sizes(count, &from, self.scales)?;
        let (mut scale, mut bias) = (zeroed(scale)?, zeroed(bias)?);
        let wide = GroupParts { weight: to.weight, scale: &mut scale, bias: &mut bias };
        let fault = run(wide)?;
        round(&scale, self.scales, to.scale);
        round(&bias, self.scales, to.bias);
        Ok(fault)
    }

    /// The loss from rounding the scales and biases of some rows; `out` has their parts.
    pub(crate) fn loss(
        &self,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Loss> {
        if !self.rounded {
            return Ok(Loss::default());
        }
        let (_, row) = self.view.gathered_shape();
        let count = usize::try_from((rows.end - rows.start).saturating_mul(row));
        let count = count.unwrap_or(usize::MAX);
        let mut values: Vec<f32> = try_vec(count)?;
        values.resize(count, 0.0);
        let sizes = self.sizes(rows.clone())?;
        self.view.decode_bulk(rows, &mut values, &DecodeOptions::new(), scratch)?;
        let GroupParts { weight, scale, bias } = parts_of(out, sizes)?;
        let (formats, global) = ((Float::BF16, Float::BF16), Global::None);
        let group_size = self.to_group.unwrap_or(1);
        let packed = Packed { weight, scale, bias, formats, group_size, global };
        Ok(Loss::measured(&values, self.repack.to, &packed))
    }
}

/// The values of a tensor, quantized in groups.
#[derive(Clone, Debug)]
pub(crate) struct GroupQuantization {
    pub(crate) view: Tensor,
    pub(crate) dtype: DType,
    pub(crate) group_size: u32,
    /// The dtype to which values are rounded before they are quantized, and in which scales and
    /// biases are stored: F32, F16 or BF16.
    pub(crate) values: DType,
}

impl GroupQuantization {
    pub(crate) fn parts(&self) -> Result<Vec<NewPart>> {
        let scales = match self.is_affine() {
            true => self.values,
            false => DType::U8,
        };
        grouped_parts(self.view.shape(), self.dtype, Some(self.group_size as usize), scales)
    }

    fn is_affine(&self) -> bool {
        self.dtype.descriptor().scales.is_none()
    }

    /// Bytes of the weight, the scale and the bias of that many rows.
    pub(crate) fn sizes(&self, rows: Range<u64>) -> Result<[usize; 3]> {
        let (_, row) = self.view.gathered_shape();
        let values = usize::try_from((rows.end - rows.start).saturating_mul(row));
        let values = values.unwrap_or(usize::MAX);
        let grouping = Grouping { size: self.group_size as usize, amax: None };
        let quantizer = self.dtype.group_quantizer();
        let quantizer = quantizer
            .ok_or_else(|| Error::unsupported(format!("no quantizer for {}", self.dtype)))?;
        Ok(match self.values {
            DType::F16 => quantizer.sizes::<f16>(values, grouping),
            DType::BF16 => quantizer.sizes::<bf16>(values, grouping),
            _ => quantizer.sizes::<f32>(values, grouping),
        }?)
    }

    /// Makes the parts of some rows, one after another. `checks` says whether values and scales that are not
    /// finite are an error.
    pub(crate) fn fill(
        &self,
        rows: Range<u64>,
        out: &mut [u8],
        checks: bool,
        scratch: &mut Scratch,
    ) -> Result<Loss> {
        match self.values {
            DType::F16 => self.fill_from::<f16>(rows, out, checks, scratch),
            DType::BF16 => self.fill_from::<bf16>(rows, out, checks, scratch),
            _ => self.fill_from::<f32>(rows, out, checks, scratch),
        }
    }

    /// The format of scales and biases.
    fn scale_format(&self) -> Float {
        match self.dtype.descriptor().scales.map(|scales| scales.format) {
            Some(ScaleFormat::Float(float)) => float,
            _ if self.values == DType::F16 => Float::F16,
            _ if self.values == DType::BF16 => Float::BF16,
            _ => Float::F32,
        }
    }

    fn fill_from<T: Element>(
        &self,
        rows: Range<u64>,
        out: &mut [u8],
        checks: bool,
        scratch: &mut Scratch,
    ) -> Result<Loss> {
        let (_, row) = self.view.gathered_shape();
        let count = (rows.end - rows.start).saturating_mul(row);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut values: Vec<T> = try_vec(count)?;
        values.resize(count, T::new_zeroed());
        let lost =
            self.view.decode_bulk(rows.clone(), &mut values, &DecodeOptions::new(), scratch)?;
        let grouping = Grouping { size: self.group_size as usize, amax: None };
        let sizes = self.sizes(rows.clone())?;
        let quantizer = self.dtype.group_quantizer();
        let quantizer = quantizer
            .ok_or_else(|| Error::unsupported(format!("no quantizer for {}", self.dtype)))?;
        let check = QuantizedRows { view: &self.view, rows: rows.clone(), dtype: self.dtype };
        if checks {
            check.check_values(values.as_bytes(), self.values, 0)?;
        }
        quantizer.quantize(&values, grouping, parts_of(out, sizes)?)?;
        let format = self.scale_format();
        if checks {
            let GroupParts { scale, bias, .. } = parts_of(out, sizes)?;
            check.check_groups(scale, format, grouping.size)?;
            check.check_groups(bias, format, grouping.size)?;
        }
        let mut loss = Loss::from(lost);
        if is_quantized(&self.view) {
            // The values before any rounding.
            let mut values: Vec<f32> = try_vec(count)?;
            values.resize(count, 0.0);
            self.view.decode_bulk(rows.clone(), &mut values, &DecodeOptions::new(), scratch)?;
            let GroupParts { weight, scale, bias } = parts_of(out, sizes)?;
            let packed = Packed {
                weight,
                scale,
                bias,
                formats: (format, format),
                group_size: self.group_size as usize,
                global: Global::None,
            };
            loss += Loss::measured(&values, self.dtype, &packed);
        }
        Ok(loss)
    }
}

pub(super) fn zeroed(len: usize) -> Result<Vec<u8>> {
    let mut bytes = try_vec(len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

/// Rounds little-endian floats of `F32` or `F16` to `BF16`.
pub(super) fn round(from: &[u8], dtype: DType, to: &mut [u8]) {
    let width = if dtype == DType::F32 { 4 } else { 2 };
    for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(2)) {
        let half = || from.try_into().map(u16::from_le_bytes).unwrap_or_default();
        let value = match dtype {
            DType::F32 => from.try_into().map(f32::from_le_bytes).unwrap_or_default(),
            _ => f16::from_bits(half()).to_f32(),
        };
        to.copy_from_slice(&bf16::from_f32(value).to_bits().to_le_bytes());
    }
}

/// Splits a buffer into three parts, one after another.
pub(super) fn parts_of(out: &mut [u8], [weight, scale, bias]: PartSizes) -> Result<GroupParts<'_>> {
    let short = || Error::mismatch("the buffer of a piece is too small for its parts");
    let (weight, rest) = out.split_at_mut_checked(weight).ok_or_else(short)?;
    let (scale, rest) = rest.split_at_mut_checked(scale).ok_or_else(short)?;
    let (bias, _) = rest.split_at_mut_checked(bias).ok_or_else(short)?;
    Ok(GroupParts { weight, scale, bias })
}

/// The arrays of a tensor in a dtype with groups or blocks.
pub(super) fn grouped_parts(
    shape: &[u64],
    dtype: DType,
    group: Option<usize>,
    scales: DType,
) -> Result<Vec<NewPart>> {
    let columns = shape::columns(shape);
    let misfit = || Error::mismatch(format!("rows of {columns} elements do not fit {dtype}"));
    let row = dtype.row_bytes(columns).ok_or_else(misfit)?;
    let outer = shape.split_last().map(|(_, outer)| outer).unwrap_or_default();
    let rows = shape::elements(outer).ok_or_else(misfit)?;
    let with = |last: u64| outer.iter().copied().chain([last]).collect::<Vec<u64>>();
    let Some(group) = group.map(|group| group as u64) else {
        let bytes = row.checked_mul(rows).ok_or_else(misfit)?;
        return Ok(vec![NewPart {
            part: Part::Weight,
            dtype,
            shape: shape.to_vec(),
            bytes,
            stored_name: None,
        }]);
    };
    if !row.is_multiple_of(4) || group == 0 || !columns.is_multiple_of(group) {
        return Err(misfit());
    }
    let bytes = row.checked_mul(rows).ok_or_else(misfit)?;
    let (words, shape) = match dtype {
        // As in transformers: one more axis, for the bytes of a block.
        DType::HF_MXFP4 => {
            let blocks = columns / group;
            let each = row.checked_div(blocks).ok_or_else(misfit)?;
            (DType::U8, [outer, &[blocks, each]].concat())
        }
        // Codes are packed into 32-bit words.
        _ => (DType::U32, with(row / 4)),
    };
    let weight = NewPart { part: Part::Weight, dtype: words, shape, bytes, stored_name: None };
    let each = u64::from(scales.descriptor().block_bytes);
    let part = |part| NewPart {
        part,
        dtype: scales,
        shape: with(columns / group),
        bytes: rows * (columns / group) * each,
        stored_name: None,
    };
    Ok(match dtype.descriptor().scales.is_none() {
        true => vec![weight, part(Part::Scale), part(Part::Bias)],
        false => vec![weight, part(Part::Scale)],
    })
}

/// Whether a tensor's values come from quantized tensors.
pub(super) fn is_quantized(view: &Tensor) -> bool {
    view.stored_tensors().any(|tensor| tensor.dtype().is_ok_and(DType::is_quantized))
}
