//! One pass over the values of a matrix that keeps sums by row and by column.

use weighbridge::{Result, Tensor, shape};

use crate::watch::{Watch, go_on};

/// The largest number of rows, or of columns, for which sums are kept.
const LINES: u64 = 1 << 22;

/// The values between two calls of the watch.
const PIECE: u64 = 1 << 22;

/// Sums over the finite values of a row or a column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    pub(crate) values: u64,
    pub(crate) squares: f64,
    /// Values beyond the limits that the pass was given.
    pub(crate) outliers: u64,
    /// Values that are NaN or infinite, which nothing else counts.
    pub(crate) not_finite: u64,
}

impl Line {
    pub(crate) fn rms(&self) -> f64 {
        if self.values == 0 { 0.0 } else { (self.squares / self.values as f64).sqrt() }
    }

    /// Whether all values are 0.
    pub(crate) fn is_dead(&self) -> bool {
        self.squares == 0.0 && self.not_finite == 0
    }
}

/// A value and its position in row-major order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) at: u64,
    pub(crate) value: f32,
}

/// The result of one pass over the values of a tensor. Rows are counted over all dimensions but the last.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) rows: Vec<Line>,
    pub(crate) columns: Vec<Line>,
    /// The values with the largest magnitudes, the largest first.
    pub(crate) largest: Vec<Placed>,
    /// The number of values that are NaN or infinite, and the position of the first.
    pub(crate) not_finite: u64,
    pub(crate) first_not_finite: Option<u64>,
    /// A hash of the bits of all values, in order.
    pub(crate) hash: u64,
    /// One sketch for each of the equal slices into which the tensor was divided.
    pub(crate) sketches: Vec<Sketch>,
}

/// The number of largest values that are kept.
const LARGEST: usize = 10;

/// Sums of values with signs that depend on the position alone. The cosine of two sketches is about that of
/// the values: a random projection to [`CELLS`] dimensions, which is off by about 0.1.
pub(crate) type Sketch = [f32; CELLS];

const CELLS: usize = 64;

/// The cosine of two sketches; `None` if one is all 0.
pub(crate) fn cosine(a: &Sketch, b: &Sketch) -> Option<f64> {
    let product = |a: &Sketch, b: &Sketch| {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
    };
    let lengths = (product(a, a) * product(b, b)).sqrt();
    (lengths > 0.0).then(|| product(a, b) / lengths)
}

impl Lines {
    /// Reads all values. Those outside of `usual` count as outliers. `slices` sketches are made.
    pub(crate) fn of(
        tensor: &Tensor,
        usual: (f64, f64),
        slices: usize,
        watch: Watch<'_>,
    ) -> Result<Self> {
        tensor.check_decodable()?;
        let width = shape::columns(tensor.shape()).max(1);
        let rows = tensor.elements() / width;
        let kept = |count: u64| {
            let fits = rows > 1 && width > 1 && count <= LINES;
            vec![Line::default(); if fits { usize::try_from(count).unwrap_or(0) } else { 0 }]
        };
        let mut lines = Self {
            rows: kept(rows),
            columns: kept(width),
            hash: BASIS,
            sketches: vec![[0.0; CELLS]; slices],
            ..Self::default()
        };
        let slice = (tensor.elements() / slices.max(1) as u64).max(1);
        let (mut at, mut told) = (0u64, 0u64);
        tensor.for_each_values::<f32, weighbridge::Error>(|values| {
            let mut rest = values;
            while !rest.is_empty() {
                let column = at % width;
                let left = usize::try_from(width - column).unwrap_or(usize::MAX);
                let (part, later) = rest.split_at(left.min(rest.len()));
                lines.add(part, at, width, usual);
                if slices > 0 {
                    lines.sketch(part, at, slice);
                }
                at += part.len() as u64;
                rest = later;
            }
            if at - told >= PIECE {
                told = at;
                go_on(watch)?;
            }
            Ok(())
        })?;
        Ok(lines)
    }

    /// Adds values of one row, of which the first is at this position.
    fn add(&mut self, values: &[f32], at: u64, width: u64, (low, high): (f64, f64)) {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let mut least = self.least();
        let mut row = Line::default();
        let mut spare = Line::default();
        let mut columns = self.columns.get_mut(place(at % width)..).unwrap_or_default().iter_mut();
        for (at, value) in (at..).zip(values) {
            let column = columns.next().unwrap_or(&mut spare);
            self.hash = (self.hash ^ u64::from(value.to_bits())).wrapping_mul(PRIME);
            if !value.is_finite() {
                self.not_finite += 1;
                self.first_not_finite.get_or_insert(at);
                row.not_finite += 1;
                column.not_finite += 1;
                continue;
            }
            let wide = f64::from(*value);
            let outlier = u64::from(wide < low || wide > high);
            for line in [&mut row, column] {
                line.values += 1;
                line.squares += wide * wide;
                line.outliers += outlier;
            }
            if value.abs() > least {
                let after = self.largest.partition_point(|one| one.value.abs() >= value.abs());
                self.largest.insert(after, Placed { at, value: *value });
                self.largest.truncate(LARGEST);
                least = self.largest.get(LARGEST - 1).map_or(0.0, |last| last.value.abs());
            }
        }
        if let Some(line) = self.rows.get_mut(place(at / width)) {
            line.values += row.values;
            line.squares += row.squares;
            line.outliers += row.outliers;
            line.not_finite += row.not_finite;
        }
    }

    fn sketch(&mut self, values: &[f32], at: u64, slice: u64) {
        for (at, value) in (at..).zip(values).filter(|(_, value)| value.is_finite()) {
            let Ok(number) = usize::try_from(at / slice) else { continue };
            let Some(sketch) = self.sketches.get_mut(number) else { continue };
            // Multiplied by an odd constant, the upper bits are as good as random.
            let mixed = (at % slice).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let cell = usize::try_from(mixed >> 58).unwrap_or(0);
            if let Some(cell) = sketch.get_mut(cell) {
                *cell += if (mixed >> 57) & 1 == 0 { *value } else { -*value };
            }
        }
    }

    /// The magnitude that a value must exceed to be among the largest.
    fn least(&self) -> f32 {
        self.largest.get(LARGEST - 1).map_or(0.0, |last| last.value.abs())
    }
}

/// The constants of FNV-1a, here over whole values.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use weighbridge::DType;

    use super::*;

    fn tensor(shape: &[u64], values: &[f32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new("t", DType::F32, shape, bytes).unwrap()
    }

    fn lines(shape: &[u64], values: &[f32]) -> Lines {
        let go = |_| ControlFlow::Continue(());
        Lines::of(&tensor(shape, values), (-5.0, 5.0), 0, &go).unwrap()
    }

    #[test]
    fn rows_and_columns_are_summed() {
        let found = lines(&[3, 2], &[3.0, 4.0, 0.0, 0.0, f32::NAN, -6.0]);
        let rms = |lines: &[Line]| lines.iter().map(Line::rms).collect::<Vec<_>>();
        assert_eq!(rms(&found.rows), [12.5f64.sqrt(), 0.0, 6.0]);
        assert_eq!(rms(&found.columns), [4.5f64.sqrt(), (52.0f64 / 3.0).sqrt()]);
        assert_eq!((found.not_finite, found.first_not_finite), (1, Some(4)));
        assert_eq!(found.columns[1].outliers, 1);
        let largest: Vec<_> = found.largest.iter().map(|one| (one.at, one.value)).collect();
        assert_eq!(largest, [(5, -6.0), (1, 4.0), (0, 3.0)]);
    }

    #[test]
    fn sketches_of_alike_slices_are_alike() {
        let value = |n: u64| ((n.wrapping_mul(2_654_435_761) >> 7) % 1000) as f32 / 500.0 - 1.0;
        let slice = |from: u64| (from..from + 4096).map(value);
        let noisy = slice(0).zip(slice(90_000)).map(|(a, b)| a + 0.1 * b);
        let values: Vec<f32> = slice(0).chain(slice(7_000)).chain(noisy).collect();
        let go = |_| ControlFlow::Continue(());
        let found = Lines::of(&tensor(&[3, 64, 64], &values), (-5.0, 5.0), 3, &go).unwrap();
        let [a, b, c] = [0, 1, 2].map(|slice| found.sketches[slice]);
        assert!(cosine(&a, &b).unwrap().abs() < 0.5);
        assert!(cosine(&a, &c).unwrap() > 0.9);
        assert_eq!(cosine(&a, &[0.0; CELLS]), None);
    }

    #[test]
    fn ten_largest_values_are_kept() {
        let values: Vec<f32> = (0..100).map(|n| ((n * 37) % 100) as f32).collect();
        let found = lines(&[10, 10], &values);
        let largest: Vec<f32> = found.largest.iter().map(|one| one.value).collect();
        assert_eq!(largest, [99.0, 98.0, 97.0, 96.0, 95.0, 94.0, 93.0, 92.0, 91.0, 90.0]);
        assert_eq!(lines(&[10, 10], &values).hash, found.hash);
        assert_ne!(
            lines(&[2, 2], &[1.0, 2.0, 3.0, 4.0]).hash,
            lines(&[2, 2], &[1.0, 2.0, 4.0, 3.0]).hash
        );
        assert!(lines(&[4], &[1.0, 2.0, 3.0, 4.0]).rows.is_empty());
    }
}
