//! Products of many rows of inputs, as of the tokens of a prompt, with rows of weights.

use super::inputs::Line;
use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::product::StridedRows;
use super::simd::Simd;

/// Rows of inputs, prepared once for products with many rows of weights.
///
/// ```
/// use weighbridge_quant::{InputPanels, StridedRows};
///
/// let (weights, inputs) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 0.0, 1.0]);
/// let panels = InputPanels::new(StridedRows::dense(&inputs, 2), 2);
/// let mut out = [0.0; 4];
/// panels.multiply(StridedRows::dense(&weights, 2), &mut out);
/// assert_eq!(out, [21.0, 43.0, 2.0, 4.0]);
/// ```
#[derive(Debug)]
pub struct InputPanels {
    /// A panel for each [`ROWS`]: a line for each column, with a number of each row. Zeros fill the last
    /// [`COLUMNS`].
    columns: Vec<Line>,
    count: usize,
    width: usize,
}

/// Rows of a panel.
const ROWS: usize = 16;

/// Columns whose products are summed before those of the next: two panels of them and the weights stay
/// in the nearest cache.
const COLUMNS: usize = 128;

impl InputPanels {
    /// Prepares rows of `width` numbers.
    pub fn new(rows: StridedRows<'_>, width: usize) -> Self {
        static KERNELS: Kernels<Turning> = Kernels::of::<Turning>();
        let count = rows.count(width);
        let lines = count.div_ceil(ROWS) * width.next_multiple_of(COLUMNS);
        let mut panels = Self { columns: vec![Line([0.0; ROWS]); lines], count, width };
        KERNELS.run((rows, &mut panels));
        panels
    }

    /// Fills `out` with the products of rows of weights with these: of `n` rows of weights,
    /// `out[i * n + w]` is the product of row `i` of the inputs with row `w` of the weights. Sums are
    /// `f32`, and their order is the same on every processor.
    pub fn multiply(&self, weights: StridedRows<'_>, out: &mut [f32]) {
        static KERNELS: Kernels<PanelProducts> = Kernels::of::<PanelProducts>();
        if self.width > 0 && self.count > 0 && weights.count(self.width) > 0 {
            KERNELS.run((weights, self, out));
        }
    }
}

/// Turns rows into columns.
struct Turning;

impl KernelSignature for Turning {
    type Input<'a> = (StridedRows<'a>, &'a mut InputPanels);
    type Output = ();
}

impl KernelBody<Self> for Turning {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (rows, panels): (StridedRows<'_>, &mut InputPanels)) {
        let width = panels.width;
        let height = width.next_multiple_of(COLUMNS).max(1);
        for (number, panel) in panels.columns.chunks_mut(height).enumerate() {
            let first = number * ROWS;
            let squares = panel.as_chunks_mut::<16>().0.iter_mut();
            for (columns, start) in squares.zip((0..width).step_by(16)) {
                let mut square = [simd.splat(0.0); ROWS];
                for (line, row) in square.iter_mut().zip(first..panels.count) {
                    let row = &rows.row(row, width)[start..];
                    *line = match row.first_chunk() {
                        Some(row) => simd.load(row),
                        None => simd.load(&padded(row)),
                    };
                }
                let square = simd.transposed(square);
                for at in 0..16 {
                    simd.put_f32::<false>(square[at], &mut columns[at].0);
                }
            }
        }
    }
}

/// Some numbers, then zeros.
#[inline(always)]
fn padded<const LEN: usize>(numbers: &[f32]) -> [f32; LEN] {
    let mut all = [0.0; LEN];
    all.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from);
    all
}

/// Multiplies rows of weights with panels.
struct PanelProducts;

impl KernelSignature for PanelProducts {
    type Input<'a> = (StridedRows<'a>, &'a InputPanels, &'a mut [f32]);
    type Output = ();
}

impl KernelBody<Self> for PanelProducts {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (weights, panels, out): (StridedRows<'_>, &InputPanels, &mut [f32])) {
        let rows = weights.count(panels.width);
        let room = out.len().min(rows * panels.count);
        // A line for each panel and row of weights, so that whole lines are added up.
        let height = rows.next_multiple_of(16);
        let mut sums = vec![Line([0.0; ROWS]); height * panels.count.div_ceil(ROWS)];
        // As many sums side by side as registers hold.
        if S::IS_WIDE {
            let pairs = panels.count.div_ceil(ROWS) / 2;
            let (of_pairs, of_last) = sums.split_at_mut(2 * pairs * height);
            fill::<S, 2, 8>(simd, weights, panels, 0, of_pairs);
            fill::<S, 1, 8>(simd, weights, panels, 2 * pairs, of_last);
        } else {
            fill::<S, 1, 4>(simd, weights, panels, 0, &mut sums);
        }
        for (sums, out) in sums.chunks(height).zip(out[..room].chunks_mut(ROWS * rows)) {
            turn_back(simd, sums, rows, out);
        }
    }
}

/// Adds up the products of `PANELS` panels with `WEIGHTS` rows of weights at a time, from a panel on.
#[inline(always)]
fn fill<S: Simd, const PANELS: usize, const WEIGHTS: usize>(
    simd: S,
    weights: StridedRows<'_>,
    panels: &InputPanels,
    panel: usize,
    sums: &mut [Line],
) {
    let width = panels.width;
    let rows = weights.count(width);
    let height = rows.next_multiple_of(16);
    let blocks = width.div_ceil(COLUMNS);
    let columns = &panels.columns.as_chunks::<COLUMNS>().0[panel * blocks..];
    let mut ends = [[0.0; COLUMNS]; WEIGHTS];
    for (block, start) in (0..width).step_by(COLUMNS).enumerate() {
        let end = width.min(start + COLUMNS);
        for (panels, sums) in columns.chunks(PANELS * blocks).zip(sums.chunks_mut(PANELS * height))
        {
            let panels = std::array::from_fn(|panel| &panels[panel * blocks + block]);
            for first in (0..rows).step_by(WEIGHTS) {
                // Rows that are not there are read as the last one.
                let row =
                    |number: usize| &weights.row((first + number).min(rows - 1), width)[start..end];
                let near = if end - start == COLUMNS {
                    std::array::from_fn(|number| &row(number).as_chunks().0[0])
                } else {
                    for (number, end) in ends.iter_mut().enumerate() {
                        *end = padded(row(number));
                    }
                    ends.each_ref()
                };
                let found: [[S::Floats; PANELS]; WEIGHTS] = tile(simd, panels, near, end - start);
                for (number, found) in found.iter().enumerate() {
                    for (panel, found) in found.iter().enumerate() {
                        let sum = &mut sums[panel * height + first + number].0;
                        simd.put_f32::<false>(simd.add(simd.load(sum), *found), sum);
                    }
                }
            }
        }
    }
}

/// The sums of the products over `columns`.
#[inline(always)]
fn tile<S: Simd, const PANELS: usize, const WEIGHTS: usize>(
    simd: S,
    panels: [&[Line; COLUMNS]; PANELS],
    weights: [&[f32; COLUMNS]; WEIGHTS],
    columns: usize,
) -> [[S::Floats; PANELS]; WEIGHTS] {
    let mut sums = [[simd.splat(0.0); PANELS]; WEIGHTS];
    for column in 0..columns.min(COLUMNS) {
        let mut inputs = [simd.splat(0.0); PANELS];
        for (input, panel) in inputs.iter_mut().zip(panels) {
            *input = simd.load(&panel[column].0);
        }
        for (sums, weights) in sums.iter_mut().zip(weights) {
            let weight = simd.splat(weights[column]);
            for (sum, input) in sums.iter_mut().zip(inputs) {
                *sum = simd.fused(input, weight, *sum);
            }
        }
    }
    sums
}

/// Writes sums, of which a line has those of one row of weights, as one row for each row of inputs.
#[inline(always)]
fn turn_back<S: Simd>(simd: S, sums: &[Line], rows: usize, out: &mut [f32]) {
    for (square, start) in sums.as_chunks::<16>().0.iter().zip((0..rows).step_by(16)) {
        let mut lines = [simd.splat(0.0); 16];
        for at in 0..16 {
            lines[at] = simd.load(&square[at].0);
        }
        let lines = simd.transposed(lines);
        for (line, out) in lines.iter().zip(out.chunks_exact_mut(rows)) {
            let out = &mut out[start..];
            match out.first_chunk_mut() {
                Some(out) => simd.put_f32::<false>(*line, out),
                None => {
                    let mut all = [0.0; 16];
                    simd.put_f32::<false>(*line, &mut all);
                    out.iter_mut().zip(all).for_each(|(to, from)| *to = from);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Isa;

    #[test]
    fn panels_are_multiplied_in_the_same_order_everywhere() {
        let number = |n: usize| ((n * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
        for (rows, count, width) in
            [(1, 1, 1), (3, 2, 40), (8, 16, 128), (5, 35, 33), (17, 64, 300), (9, 49, 2100)]
        {
            let weights: Vec<f32> = (0..rows * width).map(number).collect();
            let inputs: Vec<f32> = (0..count * width).map(|n| number(n + 77)).collect();
            let panels = InputPanels::new(StridedRows::dense(&inputs, width), width);
            let mut all = Isa::available().map(|isa| {
                let mut out = vec![f32::NAN; rows * count];
                let given = (StridedRows::dense(&weights, width), &panels, &mut *out);
                Kernels::<PanelProducts>::of::<PanelProducts>().run_on(isa, given);
                out
            });
            let first = all.next().unwrap();
            assert!(all.all(|out| out == first), "{rows} x {count} x {width}");
            for (found, inputs) in first.chunks(rows).zip(inputs.chunks(width)) {
                for (found, weights) in found.iter().zip(weights.chunks(width)) {
                    let products = || weights.iter().zip(inputs).map(|(a, b)| f64::from(a * b));
                    let (expected, size): (f64, f64) =
                        (products().sum(), products().map(f64::abs).sum());
                    let off = (f64::from(*found) - expected).abs();
                    assert!(off <= 1e-6 * size, "{found} for {expected}");
                }
            }
        }
    }

    #[test]
    fn rows_may_be_apart_and_too_few() {
        let weights = StridedRows { values: &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0], stride: 4 };
        let inputs = StridedRows { values: &[5.0, 6.0, 0.0, 7.0, 8.0, 0.0, 9.0], stride: 3 };
        let mut out = [f32::NAN; 5];
        InputPanels::new(inputs, 2).multiply(weights, &mut out);
        assert_eq!(out[..4], [17.0, 39.0, 23.0, 53.0]);
        assert!(out[4].is_nan());
        let none = StridedRows::dense(&[], 2);
        InputPanels::new(none, 2).multiply(weights, &mut out);
        InputPanels::new(inputs, 2).multiply(none, &mut out);
        InputPanels::new(inputs, 0).multiply(weights, &mut out);
        assert_eq!(out[..4], [17.0, 39.0, 23.0, 53.0]);
        // A row of inputs for which `out` has no room.
        InputPanels::new(inputs, 2).multiply(weights, &mut out[..3]);
    }
}
