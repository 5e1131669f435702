//! Values of an original that a quantization clipped: its code for them is the last one of their block, and the
//! scale of the block is too small.

use serde::Serialize;
use weighbridge::model::{DecodeOptions, Derivation};
use weighbridge::ops::TensorPair;
use weighbridge::{Progress, Result, Tensor, shape};

use crate::watch::{Watch, go_on};

/// The values that are compared at a time.
const PIECE: u64 = 1 << 20;

/// Blocks of so many values have parts with separate scales. If these are unknown, so are the last codes.
const SUPER_BLOCK: u64 = 256;

/// The clipped values of a tensor.
#[derive(Debug, Serialize)]
pub(crate) struct Clipping {
    /// The number of values that share a scale.
    width: u64,
    elements: u64,
    pub(crate) clipped: u64,
    /// Their part of the squared error.
    pub(crate) share_of_error: f64,
    /// The value that lost most.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Cut {
    row: u64,
    column: u64,
    a: f64,
    b: f64,
}

/// Sums over the values read so far.
#[derive(Debug, Default)]
struct Sums {
    clipped: u64,
    squares: f64,
    clipped_squares: f64,
    worst: Option<Cut>,
}

impl Clipping {
    /// Compares an original with its quantization; `None` unless each run of values in a row of B has one scale.
    pub(crate) fn of(pair: &TensorPair, watch: Watch<'_>) -> Result<Option<Self>> {
        let (a, b) = (&pair.a, &pair.b);
        let columns = shape::columns(b.shape());
        let width = width(b)?.filter(|width| columns > 0 && columns.is_multiple_of(*width));
        let Some(width) = width.filter(|_| a.shape() == b.shape()) else { return Ok(None) };
        let block = usize::try_from(width).unwrap_or(usize::MAX);
        let (rows, step) = (b.elements() / columns, (PIECE / columns).max(1));
        let decoding = DecodeOptions::default();
        let mut sums = Sums::default();
        let [mut of_a, mut of_b] = [const { Vec::<f32>::new() }; 2];
        for first in (0..rows).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let mut progress = Progress::default();
            (progress.done, progress.total) = (first, rows);
            go_on(&|_| watch(progress))?;
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
        Ok(Some(Self { width, elements, clipped, share_of_error, worst }))
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
            if self.worst.is_none_or(|worst| lost.abs() > (worst.a - worst.b).abs()) {
                self.worst = Some(Cut { row, column, a: a.into(), b: b.into() });
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
        assert_eq!(found.worst, Some(Cut { row: 3, column: 38, a: 5.0, b: 2.0 }));
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
