//! A grid over the values of a matrix: single numbers, or the means of rectangles.

use std::ops::Range;

use super::row_ranges;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::progress::{Callback, Meter, Watch};
use crate::rounding::f32_of;
use crate::setters::setters;
use crate::shape;
use crate::threads::Threads;

/// Options of [`grid`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GridOptions<'w> {
    rows: Range<u64>,
    columns: Range<u64>,
    height: usize,
    width: usize,
    threads: Threads,
    progress: Watch<'w>,
}

impl<'w> GridOptions<'w> {
    /// A grid over all rows and columns with at most this many cells each way: at least 1, and at most
    /// 2^20 together.
    pub fn new(height: usize, width: usize) -> Self {
        let width = width.clamp(1, CELLS);
        let height = height.clamp(1, CELLS / width);
        let all = 0..u64::MAX;
        let (rows, columns) = (all.clone(), all);
        Self {
            rows,
            columns,
            height,
            width,
            threads: Threads::default(),
            progress: Watch::default(),
        }
    }

    setters! {
        /// Sets the rows, which are counted over all dimensions but the last. What exceeds the tensor is left
        /// out.
        rows: Range<u64>;
        /// Sets the columns. What exceeds the tensor is left out.
        columns: Range<u64>;
        /// Sets the threads that share the rows.
        threads: impl Into<Threads>;
        /// Sets a callback that is called after every piece of the tensor. `Break` cancels.
        progress: Callback<'w>;
    }
}

/// The largest number of cells of a grid.
const CELLS: usize = 1 << 20;

/// The number of values that one thread takes at a time.
const PIECE: u64 = 1 << 19;

/// A grid over some rows and columns of a tensor: see [`grid`].
///
/// Cell `(i, j)` of `height` times `width` cells covers the rows `i * n / height` to
/// `(i + 1) * n / height` of the `n` rows, and columns likewise. If there are at least as many cells as
/// rows and columns, each cell is one number.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Grid {
    /// The first row, and the row after the last.
    pub rows: [u64; 2],
    /// The first column, and the column after the last.
    pub columns: [u64; 2],
    /// The number of cells from top to bottom.
    pub height: usize,
    /// The number of cells from left to right.
    pub width: usize,
    /// The mean of the finite values of each cell, row after row; NaN if a cell has none.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::floats"))]
    pub mean: Vec<f32>,
    /// The root mean square of the finite values of each cell.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::floats"))]
    pub rms: Vec<f32>,
    /// The largest magnitude in each cell: NaN or infinite if a value is.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::ops::serialize::floats"))]
    pub max: Vec<f32>,
}

/// The sums over the values of a cell.
#[derive(Clone, Copy, Debug)]
struct Cell {
    finite: u64,
    sum: f64,
    squares: f64,
    max: f32,
}

/// A cell without values. The sum of -0 and any value has the bits of that value.
const EMPTY: Cell = Cell { finite: 0, sum: -0.0, squares: 0.0, max: 0.0 };

impl Cell {
    fn add(&mut self, values: &[f32]) {
        let (mut sum, mut squares, mut max) = ([-0.0f64; 4], [0.0f64; 4], [0.0f32; 4]);
        let (lanes, rest) = values.as_chunks::<4>();
        for values in lanes {
            for lane in 0..4 {
                let value = f64::from(values[lane]);
                sum[lane] += value;
                squares[lane] += value * value;
                max[lane] = max[lane].max(values[lane].abs());
            }
        }
        // In `f64`, no sum of finite `f32` overflows.
        let sum: f64 = sum.into_iter().fold(-0.0, |sum, more| sum + more);
        if sum.is_finite() {
            self.finite += (lanes.len() * 4) as u64;
            self.sum += sum;
            self.squares += squares.into_iter().sum::<f64>();
            let most = max.into_iter().fold(0.0, f32::max);
            self.max = if self.max.is_nan() { self.max } else { self.max.max(most) };
        } else {
            lanes.as_flattened().iter().for_each(|value| self.add_one(*value));
        }
        rest.iter().for_each(|value| self.add_one(*value));
    }

    fn add_one(&mut self, value: f32) {
        let magnitude = value.abs();
        // Nothing is larger than NaN.
        if magnitude.is_nan() || magnitude > self.max {
            self.max = magnitude;
        }
        if value.is_finite() {
            self.finite += 1;
            self.sum += f64::from(value);
            self.squares += f64::from(value) * f64::from(value);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.finite += other.finite;
        self.sum += other.sum;
        self.squares += other.squares;
        if other.max.is_nan() || other.max > self.max {
            self.max = other.max;
        }
    }

    fn mean(&self) -> f32 {
        f32_of(self.sum / self.finite as f64)
    }

    fn rms(&self) -> f32 {
        f32_of((self.squares / self.finite as f64).sqrt())
    }
}

/// The bounds of `cells` cells over a range, as positions within it: one more than there are cells.
fn bounds(len: u64, cells: usize) -> Vec<u64> {
    let cells = cells as u64;
    let bound = |cell: u64| u128::from(cell) * u128::from(len) / u128::from(cells.max(1));
    (0..=cells).map(|cell| u64::try_from(bound(cell)).unwrap_or(len)).collect()
}

/// Computes a grid over the values of a tensor: the means, root mean squares and largest magnitudes of
/// rectangles, down to single numbers. Only the rows that are asked for are decoded.
///
/// With one cell for each row, the root mean square of a cell is the norm of the row divided by the root
/// of its length; with one cell for each column, likewise.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let q = model.tensor("layers.0.attention.q.weight")?;
/// let corner = ops::grid(&q, &ops::GridOptions::new(4, 4).rows(0..4).columns(0..4))?;
/// assert_eq!(corner.mean[..4], q.dequantize()?[..4]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Same as [`Tensor::dequantize`]; `Cancelled` if the progress callback cancels.
pub fn grid(tensor: &Tensor, options: &GridOptions<'_>) -> Result<Grid> {
    Layout::new(tensor, options)
        .compute(tensor, options, |rows, sink| tensor.for_each_values_in(rows, sink).map(drop))
}

/// Like [`grid`], for the differences of two tensors of one shape: the second minus the first.
///
/// # Errors
///
/// `Mismatch` if the shapes differ; otherwise same as [`grid`].
pub(in crate::ops) fn grid_of_difference(
    a: &Tensor,
    b: &Tensor,
    options: &GridOptions<'_>,
) -> Result<Grid> {
    if a.shape() != b.shape() {
        let fault = format!("shape {:?} in A, but {:?} in B", a.shape(), b.shape());
        return Err(Error::mismatch(fault).in_tensor(a.name()));
    }
    let mut layout = Layout::new(a, options);
    // Pieces that suit the second tensor too.
    if b.rows_at_once() > a.rows_at_once() {
        layout = Layout::new(b, options);
    }
    layout.compute(a, options, |rows, sink| {
        let mut differences = Vec::new();
        a.for_each_values_with(b, Some(rows), |a, b| {
            differences.clear();
            differences.extend(a.iter().zip(b).map(|(a, b)| b - a));
            sink(&differences)
        })
    })
}

/// The positions of a grid's cells.
struct Layout {
    columns: u64,
    row_bounds: Vec<u64>,
    column_bounds: Vec<u64>,
    rows: Range<u64>,
    taken: Range<u64>,
    /// The rows that are decoded together, each with the number of its cell row.
    pieces: Vec<(usize, Range<u64>)>,
}

impl Layout {
    fn new(tensor: &Tensor, options: &GridOptions<'_>) -> Self {
        let columns = shape::columns(tensor.shape());
        let count = tensor.elements().checked_div(columns).unwrap_or(0);
        let within = |range: &Range<u64>, count: u64| {
            let end = range.end.min(count);
            range.start.min(end)..end
        };
        let rows = within(&options.rows, count);
        let taken = within(&options.columns, columns);
        let cells = |range: &Range<u64>, most: usize| {
            usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(most)
        };
        let row_bounds = bounds(rows.end - rows.start, cells(&rows, options.height));
        let column_bounds = bounds(taken.end - taken.start, cells(&taken, options.width));
        // Pieces end where cells end; a tall cell is divided among at most 64 pieces.
        let all = (rows.end - rows.start).saturating_mul(columns);
        let piece = PIECE.max(all / 64);
        let mut pieces = Vec::new();
        for (cell, bounds) in row_bounds.windows(2).enumerate() {
            let &[from, to] = bounds else { continue };
            let ranges = row_ranges(tensor, rows.start + from..rows.start + to, piece);
            pieces.extend(ranges.into_iter().map(|range| (cell, range)));
        }
        Self { columns, row_bounds, column_bounds, rows, taken, pieces }
    }

    /// Computes the grid. `read` passes the values of some rows to its sink.
    fn compute(
        self,
        tensor: &Tensor,
        options: &GridOptions<'_>,
        read: impl Fn(Range<u64>, &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> + Sync,
    ) -> Result<Grid> {
        tensor.check_decodable()?;
        let height = self.row_bounds.len().saturating_sub(1);
        let width = self.column_bounds.len().saturating_sub(1);
        let total = (self.rows.end - self.rows.start).saturating_mul(self.columns);
        let meter = Meter::new(total.saturating_mul(4), options.progress);
        // Several pieces that are small are one item, so that threads are not busy with handing out work.
        let items = self.items();
        let work = |(): &mut (), item: &[(usize, Range<u64>)]| {
            let mut found: Vec<(usize, Vec<Cell>)> = Vec::new();
            for (cell, rows) in item {
                let mut cells = vec![EMPTY; width];
                let mut column = 0;
                read(rows.clone(), &mut |values| {
                    column = self.add(values, column, &mut cells);
                    meter.add((values.len() as u64).saturating_mul(4))
                })?;
                found.push((*cell, cells));
            }
            Ok(found)
        };
        let found = options.threads.in_order(items.into_iter(), || (), work)?;
        let mut cells = vec![EMPTY; height.saturating_mul(width)];
        for (row, more) in found.iter().flatten() {
            let own = cells.iter_mut().skip(row.saturating_mul(width));
            own.zip(more).for_each(|(cell, more)| cell.merge(more));
        }
        Ok(Grid {
            rows: [self.rows.start, self.rows.end],
            columns: [self.taken.start, self.taken.end],
            height,
            width,
            mean: cells.iter().map(Cell::mean).collect(),
            rms: cells.iter().map(Cell::rms).collect(),
            max: cells.iter().map(|cell| cell.max).collect(),
        })
    }

    /// The pieces, in groups of about [`PIECE`] values.
    fn items(&self) -> Vec<&[(usize, Range<u64>)]> {
        let mut items = Vec::new();
        let (mut rest, mut len, mut values) = (&*self.pieces, 0, 0u64);
        for (_, rows) in &self.pieces {
            len += 1;
            values = values.saturating_add((rows.end - rows.start).saturating_mul(self.columns));
            if values >= PIECE {
                let (item, later) = rest.split_at(len);
                items.push(item);
                (rest, len, values) = (later, 0, 0);
            }
        }
        if !rest.is_empty() {
            items.push(rest);
        }
        items
    }

    /// Adds values, of which the first is in this column, to the cells of their columns. Returns the column
    /// after the last.
    fn add(&self, values: &[f32], mut column: u64, cells: &mut [Cell]) -> u64 {
        let mut rest = values;
        while !rest.is_empty() {
            let left = usize::try_from(self.columns - column).unwrap_or(usize::MAX);
            let (row, later) = rest.split_at(left.min(rest.len()));
            self.add_row(row, column, cells);
            column = (column + row.len() as u64) % self.columns.max(1);
            rest = later;
        }
        column
    }

    /// Adds a part of one row, which begins at this column.
    fn add_row(&self, values: &[f32], column: u64, cells: &mut [Cell]) {
        let end = column + values.len() as u64;
        let (from, to) = (column.max(self.taken.start), end.min(self.taken.end));
        let place = |at: u64| usize::try_from(at - column).unwrap_or(usize::MAX);
        let first = from - self.taken.start;
        let cell = self.column_bounds.partition_point(|bound| *bound <= first).saturating_sub(1);
        let bounds = self.column_bounds.windows(2).zip(cells).skip(cell);
        for (bounds, cell) in bounds {
            let &[low, high] = bounds else { break };
            let low = from.max(self.taken.start + low);
            let high = to.min(self.taken.start + high);
            if low >= to {
                break;
            }
            cell.add(values.get(place(low)..place(high)).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn tensor(rows: u64, columns: u64, value: impl Fn(u64, u64) -> f32) -> Tensor {
        let values = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let bytes: Vec<u8> =
            values.flat_map(|(row, column)| value(row, column).to_le_bytes()).collect();
        Tensor::new("t", DType::F32, &[rows, columns], bytes).unwrap()
    }

    /// NaN remains the largest magnitude, whatever is found after it and by whichever thread.
    #[test]
    fn nan_is_the_largest_magnitude_of_its_cell() {
        for at in [0, 96, 150, 299] {
            let value = |row, column| if (row, column) == (at, 3) { f32::NAN } else { row as f32 };
            let tensor = tensor(300, 53, value);
            for threads in [1, 3] {
                let grid = grid(&tensor, &GridOptions::new(1, 1).threads(threads)).unwrap();
                assert!(grid.max[0].is_nan(), "{at} {threads}: {:?}", grid.max);
                assert!(grid.mean[0].is_finite());
            }
        }
    }

    #[test]
    fn cells_are_the_means_of_their_rectangles() {
        let value = |row: u64, column: u64| (row * 31 + column * 7) as f32 % 101.0 - 50.0;
        let tensor = tensor(97, 53, value);
        let cases = [
            (0..97, 0..53, 97, 53),
            (0..97, 0..53, 10, 7),
            (0..97, 0..53, 1, 53),
            (0..97, 0..53, 97, 1),
            (13..40, 20..41, 5, 30),
            (96..97, 52..53, 4, 4),
            (90..200, 50..90, 3, 2),
            (60..60, 0..53, 3, 3),
        ];
        for (rows, columns, height, width) in cases {
            for threads in [1, 3] {
                let options = GridOptions::new(height, width).rows(rows.clone());
                let options = options.columns(columns.clone()).threads(threads);
                let grid = grid(&tensor, &options).unwrap();
                let (rows, columns) =
                    (rows.start..rows.end.min(97), columns.start..columns.end.min(53));
                let (n, m) = (rows.end - rows.start, columns.end - columns.start);
                assert_eq!(grid.height, height.min(usize::try_from(n).unwrap()));
                assert_eq!(grid.mean.len(), grid.height * grid.width);
                for i in 0..grid.height as u64 {
                    for j in 0..grid.width as u64 {
                        let (h, w) = (grid.height as u64, grid.width as u64);
                        let in_rows = rows.start + i * n / h..rows.start + (i + 1) * n / h;
                        let in_columns = columns.start + j * m / w..columns.start + (j + 1) * m / w;
                        let values: Vec<f64> = in_rows
                            .flat_map(|row| {
                                in_columns.clone().map(move |column| value(row, column).into())
                            })
                            .collect();
                        let count = values.len() as f64;
                        let mean = values.iter().sum::<f64>() / count;
                        let rms = (values.iter().map(|v| v * v).sum::<f64>() / count).sqrt();
                        let max = values.iter().fold(0.0f64, |max, v| max.max(v.abs()));
                        let at = usize::try_from(i * w + j).unwrap();
                        assert!((f64::from(grid.mean[at]) - mean).abs() < 1e-4, "{i}, {j}");
                        assert!((f64::from(grid.rms[at]) - rms).abs() < 1e-4, "{i}, {j}");
                        assert_eq!(f64::from(grid.max[at]), max);
                    }
                }
            }
        }
    }

    #[test]
    fn single_numbers_have_their_bits() {
        let values = [-0.0f32, 0.0, 1e-45, -3.4e38, -1.5, f32::MIN_POSITIVE];
        let tensor = tensor(2, 3, |row, column| values[usize::try_from(row * 3 + column).unwrap()]);
        let grid = grid(&tensor, &GridOptions::new(2, 3)).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&grid.mean), bits(&values));
    }

    #[test]
    fn odd_values_show_in_the_magnitude() {
        let tensor = tensor(4, 8, |row, column| match (row, column) {
            (0, 0) => f32::NAN,
            (1, 7) => f32::NEG_INFINITY,
            (3, _) => f32::NAN,
            _ => 2.0,
        });
        let grid = grid(&tensor, &GridOptions::new(4, 1)).unwrap();
        assert_eq!(grid.mean[..3], [2.0; 3]);
        assert!(grid.mean[3].is_nan() && grid.max[0].is_nan() && grid.max[3].is_nan());
        assert_eq!((grid.max[1], grid.max[2]), (f32::INFINITY, 2.0));
    }

    #[test]
    fn differences_are_those_of_the_values() {
        let a = tensor(9, 5, |row, column| (row * 5 + column) as f32);
        let b = tensor(9, 5, |row, column| (row * 5 + column) as f32 + row as f32);
        let grid = grid_of_difference(&a, &b, &GridOptions::new(9, 1)).unwrap();
        assert_eq!(grid.mean, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let other = tensor(5, 9, |_, _| 0.0);
        let error = grid_of_difference(&a, &other, &GridOptions::new(1, 1)).unwrap_err();
        assert_eq!(error.to_string(), "tensor \"t\": shape [9, 5] in A, but [5, 9] in B");
    }
}
