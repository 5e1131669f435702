//! Quantized tensors whose values lie on grids, in MLX's groups with the same values: codes with zero
//! points, whatever packed them.

use std::ops::Range;

use super::Loss;
use super::groups::{PartSizes, grouped_parts, parts_of, round, zeroed};
use crate::bytes::{Scratch, try_vec};
use crate::container::writer::NewPart;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::quant::{Float, Global, GroupParts, Packed, largest_grid_code, pack_grids};
use crate::shape;
use crate::store::tensor::DecodeOptions;

/// The dtypes that mlx-lm loads, the narrowest first.
const DTYPES: [DType; 6] = [
    DType::MLX_AFFINE2,
    DType::MLX_AFFINE3,
    DType::MLX_AFFINE4,
    DType::MLX_AFFINE5,
    DType::MLX_AFFINE6,
    DType::MLX_AFFINE8,
];

/// Values that are looked at together.
const PIECE: u64 = 1 << 18;

/// A tensor's values in groups that hold them exactly.
#[derive(Clone, Debug)]
pub(crate) struct GridRepack {
    view: Tensor,
    dtype: DType,
    group_size: u32,
    /// Whether scales and biases are rounded to `BF16`.
    rounded: bool,
}

impl GridRepack {
    /// The widest groups, with the fewest bits, that hold every value of a tensor, which requires
    /// reading it. `None` if there are none.
    pub(crate) fn exact(view: &Tensor) -> Result<Option<Self>> {
        let (columns, (_, row)) = (shape::columns(view.shape()), view.gathered_shape());
        let divides = |size: &u64| columns.is_multiple_of(*size) && row.is_multiple_of(*size);
        for group_size in [128, 64, 32].into_iter().filter(divides) {
            let Some(last) = largest_code(view, group_size)? else { continue };
            let fits = |dtype: &DType| u64::from(last) < 1 << dtype.bits();
            let dtype = DTYPES.into_iter().find(fits);
            let group_size = u32::try_from(group_size).unwrap_or(u32::MAX);
            let this = |dtype| Self { view: view.clone(), dtype, group_size, rounded: false };
            return Ok(dtype.map(this));
        }
        Ok(None)
    }

    /// The same codes, with scales and biases in `BF16`.
    pub(crate) fn with_bf16_scales(self) -> Self {
        Self { rounded: true, ..self }
    }

    pub(crate) fn view(&self) -> &Tensor {
        &self.view
    }

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    pub(crate) fn group_size(&self) -> u32 {
        self.group_size
    }

    /// The output's parts, the weight first.
    pub(crate) fn parts(&self) -> Result<Vec<NewPart>> {
        let scales = if self.rounded { DType::BF16 } else { DType::F32 };
        grouped_parts(self.view.shape(), self.dtype, Some(self.group_size as usize), scales)
    }

    /// Bytes of the weight, the scale and the bias of a range of rows.
    pub(crate) fn sizes(&self, rows: Range<u64>) -> Result<PartSizes> {
        let width = if self.rounded { 2 } else { 4 };
        let values = row_values(&self.view, &rows)?;
        let groups = values.checked_div(self.group_size as usize).unwrap_or(0);
        let bits = values.saturating_mul(self.dtype.bits() as usize);
        Ok([bits / 8, width * groups, width * groups])
    }

    /// Makes the parts of some rows, one after another.
    pub(crate) fn fill(
        &self,
        rows: Range<u64>,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Loss> {
        let changed = || Error::mismatch("the tensor changed since the plan was made");
        let (sizes, size) = (self.sizes(rows.clone())?, self.group_size as usize);
        let values = decoded(&self.view, rows, scratch)?;
        let pack = |to| pack_grids(&values, size, self.dtype.bits(), to).ok_or_else(changed);
        let to = parts_of(out, sizes)?;
        if !self.rounded {
            pack(to)?;
            return Ok(Loss::default());
        }
        let (mut scale, mut bias) = (zeroed(2 * to.scale.len())?, zeroed(2 * to.bias.len())?);
        let GroupParts { weight, scale: narrow_scale, bias: narrow_bias } = to;
        pack(GroupParts { weight, scale: &mut scale, bias: &mut bias })?;
        round(&scale, DType::F32, narrow_scale);
        round(&bias, DType::F32, narrow_bias);
        let (formats, global) = ((Float::BF16, Float::BF16), Global::None);
        let GroupParts { weight, scale, bias } = parts_of(out, sizes)?;
        let packed = Packed { weight, scale, bias, formats, group_size: size, global };
        Ok(Loss::measured(&values, self.dtype, &packed))
    }
}

/// The largest code that groups of this size need. `None` if one of them lies on no grid.
fn largest_code(view: &Tensor, group_size: u64) -> Result<Option<u8>> {
    let (rows, row) = view.gathered_shape();
    let step = view.rows_at_once().unwrap_or(PIECE.checked_div(row).unwrap_or(0)).max(1);
    let (mut largest, mut first) = (0, 0);
    let mut scratch = Scratch::default();
    while first < rows {
        let end = rows.min(first.saturating_add(step));
        let values = decoded(view, first..end, &mut scratch)?;
        let size = usize::try_from(group_size).unwrap_or(usize::MAX);
        let Some(last) = largest_grid_code(&values, size) else { return Ok(None) };
        largest = largest.max(last);
        first = end;
    }
    Ok(Some(largest))
}

/// The number of values of some rows.
fn row_values(view: &Tensor, rows: &Range<u64>) -> Result<usize> {
    let (_, row) = view.gathered_shape();
    let count = rows.end.saturating_sub(rows.start).saturating_mul(row);
    usize::try_from(count).map_err(|_| Error::mismatch("rows of more values than memory has"))
}

fn decoded(view: &Tensor, rows: Range<u64>, scratch: &mut Scratch) -> Result<Vec<f32>> {
    let count = row_values(view, &rows)?;
    let mut values = try_vec(count)?;
    values.resize(count, 0.0);
    view.decode_bulk(rows, &mut values, &DecodeOptions::new(), scratch)?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    /// Scales and biases in BF16 change values a little, and no code.
    #[test]
    fn scales_rounded_to_bf16_keep_the_codes() {
        let model = Model::open("tests/fixtures/hfq/awq-gemm-4bit-g128").unwrap();
        let quantized =
            model.stored_tensors().find(|tensor| tensor.dtype().ok() == Some(DType::AWQ4));
        let view = model.stored_tensor(quantized.unwrap().name()).unwrap();
        let exact = GridRepack::exact(&view).unwrap().unwrap();
        assert_eq!((exact.dtype(), exact.group_size()), (DType::MLX_AFFINE4, 128));
        let rounded = exact.clone().with_bf16_scales();
        let (mut codes, mut relative) = (Vec::new(), Vec::new());
        for repacking in [&exact, &rounded] {
            let rows = 0..view.gathered_shape().0;
            let sizes = repacking.sizes(rows.clone()).unwrap();
            let parts: u64 = repacking.parts().unwrap().iter().map(|part| part.bytes).sum();
            assert_eq!(sizes.iter().sum::<usize>() as u64, parts);
            let mut out = vec![0; sizes.iter().sum()];
            let loss = repacking.fill(rows, &mut out, &mut Scratch::default()).unwrap();
            codes.push(out[..sizes[0]].to_vec());
            relative.push(loss.relative_rms());
        }
        assert_eq!(codes[0], codes[1]);
        assert_eq!(relative[0], None);
        assert!(relative[1].is_some_and(|loss| loss < 0.01), "{relative:?}");
    }
}
