//! Values of an original that a quantization clipped: its code for them is the last one of their block, and the
//! scale of the block is too small.

use super::{DiffOptions, TensorPair};
use crate::error::Result;
use crate::model::{DecodeOptions, Derivation, Tensor};
use crate::shape;

/// The number of values that are compared at a time.
const PIECE: u64 = 1 << 20;

/// Blocks of so many values have parts with separate scales. If these are unknown, so are the last codes.
const SUPER_BLOCK: u64 = 256;

/// The values of a tensor that a quantization clipped; see [`TensorPair::clipping`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Clipping {
    /// The number of values that share a scale.
    pub width: u64,
    /// The number of compared values.
    pub elements: u64,
    /// The number of clipped ones.
    pub clipped: u64,
    /// Their part of the squared error.
    pub share_of_error: f64,
    /// The clipped value that lost most.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub worst: Option<ClippedValue>,
}

/// A clipped value. Rows are counted over all dimensions but the last.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ClippedValue {
    /// Its row.
    pub row: u64,
    /// Its column.
    pub column: u64,
    /// Its value in the original.
    pub a: f32,
    /// Its value in the quantization.
    pub b: f32,
}

/// Sums over the values read so far.
#[derive(Debug, Default)]
struct Sums {
    clipped: u64,
    squares: f64,
    clipped_squares: f64,
    worst: Option<ClippedValue>,
}

impl TensorPair {
    /// Counts the values of the first tensor that the second, a quantization of it, clipped: those beyond the largest or
    /// the smallest value of their block, by more than half the distance from there to the next. `None` unless the
    /// values of each block in a row share one scale. The tolerance of the options is ignored, and the progress is
    /// that of rows.
    ///
    /// # Errors
    ///
    /// Same as [`Tensor::dequantize_rows`]; `Cancelled` if the progress callback cancels.
    pub fn clipping(&self, options: &DiffOptions<'_>) -> Result<Option<Clipping>> {
        let (a, b) = (&self.a, &self.b);
        let columns = shape::columns(b.shape());
        let width = width(b)?.filter(|width| columns > 0 && columns.is_multiple_of(*width));
        let Some(width) = width.filter(|_| a.shape() == b.shape()) else { return Ok(None) };
        let block = usize::try_from(width).unwrap_or(usize::MAX);
        let (rows, step) = (b.elements() / columns, (PIECE / columns).max(1));
        let decoding = DecodeOptions::default();
        let mut sums = Sums::default();
        let [mut of_a, mut of_b] = [const { Vec::<f32>::new() }; 2];
        for first in (0..rows).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            options.progress.report(first, rows)?;
            let end = first.saturating_add(step).min(rows);
            let count = usize::try_from((end - first) * columns).unwrap_or(usize::MAX);
            for (tensor, values) in [(a, &mut of_a), (b, &mut of_b)] {
                values.resize(count, 0.0);
                tensor.dequantize_rows(first..end, values, &decoding)?;
            }
            let places = (first * columns..).step_by(block);
            for (at, (a, b)) in places.zip(of_a.chunks(block).zip(of_b.chunks(block))) {
                sums.add(a, b, [at / columns, at % columns]);
            }
        }
        let share_of_error =
            if sums.squares > 0.0 { sums.clipped_squares / sums.squares } else { 0.0 };
        let (elements, Sums { clipped, worst, .. }) = (b.elements(), sums);
        Ok(Some(Clipping { width, elements, clipped, share_of_error, worst }))
    }
}

/// The number of values of a quantized tensor that share a scale.
fn width(tensor: &Tensor) -> Result<Option<u64>> {
    if matches!(tensor.derivation()?, Derivation::Computed(_)) {
        return Ok(None);
    }
    let mut common = None;
    for source in tensor.sources() {
        let Some(scales) = source.row_scales(0..1)? else { return Ok(None) };
        let width = scales.sub_blocks.map_or(scales.width, |inner| inner.width);
        if width >= SUPER_BLOCK || common.is_some_and(|known| known != width) {
            return Ok(None);
        }
        common = Some(width);
    }
    Ok(common)
}

/// The largest value of a block times `sign`, and the limit beyond which a value is clipped: half a step further, if the
/// distance to the next value is a step. `None` if all are equal.
fn last(block: &[f32], sign: f32) -> Option<(f32, f32)> {
    let (mut most, mut next) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for value in block.iter().map(|value| value * sign) {
        if value > most {
            (most, next) = (value, most);
        } else if value < most && value > next {
            next = value;
        }
    }
    next.is_finite().then(|| (most, most + (most - next) / 2.0))
}

impl Sums {
    /// Adds the values of a block, of which the first is at this row and column.
    fn add(&mut self, a: &[f32], b: &[f32], [row, column]: [u64; 2]) {
        let ends = [1.0, -1.0].map(|sign| last(b, sign).map(|found| (sign, found)));
        for (column, (&a, &b)) in (column..).zip(a.iter().zip(b)) {
            let lost = f64::from(a) - f64::from(b);
            if !lost.is_finite() {
                continue;
            }
            self.squares += lost * lost;
            let is_clipped =
                |(sign, (most, limit)): &(f32, (f32, f32))| b * sign == *most && a * sign > *limit;
            if !ends.iter().flatten().any(is_clipped) {
                continue;
            }
            self.clipped += 1;
            self.clipped_squares += lost * lost;
            let of = |worst: ClippedValue| (f64::from(worst.a) - f64::from(worst.b)).abs();
            if self.worst.is_none_or(|worst| lost.abs() > of(worst)) {
                self.worst = Some(ClippedValue { row, column, a, b });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(a: &[f32], b: &[f32]) -> Sums {
        let mut sums = Sums::default();
        sums.add(a, b, [3, 32]);
        sums
    }

    #[test]
    fn values_beyond_the_last_code_are_clipped() {
        // A step of 1, codes from -2 to 2.
        let b = [-2.0, -1.0, 0.0, 1.0, 2.0, 2.0, 2.0];
        let found = sums(&[-2.4, -1.4, 0.4, 1.4, 2.4, 2.6, 5.0], &b);
        assert_eq!(found.clipped, 2);
        assert_eq!(found.worst, Some(ClippedValue { row: 3, column: 38, a: 5.0, b: 2.0 }));
        assert!(found.clipped_squares > 9.0 && found.squares < 10.5, "{found:?}");
        let found = sums(&[-2.6, -1.0, 0.0, 1.0, 2.0, 2.0, 2.0], &b);
        assert_eq!((found.clipped, found.worst.map(|worst| worst.column)), (1, Some(32)));
    }

    #[test]
    fn equal_blocks_and_values_without_a_number_clip_nothing() {
        assert_eq!(sums(&[9.0, 1.0], &[0.0, 0.0]).clipped, 0);
        assert_eq!(sums(&[f32::NAN, f32::INFINITY], &[0.0, 1.0]).clipped, 0);
    }
}
