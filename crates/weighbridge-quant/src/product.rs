//! Products of rows: of weights with inputs, and those of low rank that adapters add to weights.

use super::body::total;
use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::simd::Simd;

/// A row of a low-rank product: the sum over `k` of `left[k]` times row `k` of `right`, times
/// `scale`.
#[derive(Clone, Copy, Debug)]
pub struct ProductRow<'a> {
    /// One number for each row of `right`.
    pub left: &'a [f32],
    /// The rows, `stride` numbers apart.
    pub right: &'a [f32],
    /// The distance between consecutive elements of a column of `right`.
    pub stride: usize,
    /// The factor of the product.
    pub scale: f32,
}

/// Adds a [`ProductRow`] to values.
struct ProductAdding;

impl KernelSignature for ProductAdding {
    type Input<'a> = (ProductRow<'a>, &'a mut [f32]);
    type Output = ();
}

/// The sums of this many columns are kept in registers.
const LANES: usize = 64;

impl KernelBody<Self> for ProductAdding {
    #[inline(always)]
    fn run<S: Simd>(_: S, (row, out): (ProductRow<'_>, &mut [f32])) {
        let mut first = 0;
        for values in out.chunks_mut(LANES) {
            let mut sums = [0.0f32; LANES];
            let rows = row.right.chunks(row.stride.max(1));
            for (left, right) in row.left.iter().zip(rows) {
                let right = right.get(first..).unwrap_or_default();
                // PyTorch's product accumulates in this order too, with fused multiply-add.
                match right.first_chunk::<LANES>() {
                    Some(right) => {
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum = left.mul_add(*right, *sum);
                        }
                    }
                    None => {
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum = left.mul_add(*right, *sum);
                        }
                    }
                }
            }
            for (value, sum) in values.iter_mut().zip(&sums) {
                *value += sum * row.scale;
            }
            first += LANES;
        }
    }
}

/// Adds a row of a low-rank product to values. Products are rounded once, as by a fused
/// multiply-add; the scale and the sum are rounded separately.
pub fn add_product(row: ProductRow<'_>, out: &mut [f32]) {
    static KERNELS: Kernels<ProductAdding> = Kernels::of::<ProductAdding>();
    KERNELS.run((row, out));
}

/// Multiplies rows of weights with one row of inputs.
struct RowProducts;

impl KernelSignature for RowProducts {
    type Input<'a> = (StridedRows<'a>, &'a [f32], &'a mut [f32]);
    type Output = ();
}

/// Rows of numbers within others, such as those of one head of attention.
#[derive(Clone, Copy, Debug)]
pub struct StridedRows<'a> {
    /// The numbers, from the first row on.
    pub values: &'a [f32],
    /// The distance between the first numbers of two rows, at least the width of a row.
    pub stride: usize,
}

impl<'a> StridedRows<'a> {
    /// Rows of that width, without anything between them.
    pub fn dense(values: &'a [f32], width: usize) -> Self {
        Self { values, stride: width }
    }

    /// Whole rows of that width.
    pub(crate) fn count(self, width: usize) -> usize {
        let rest = self.values.len().checked_sub(width.max(1));
        rest.map_or(0, |rest| rest / self.stride.max(width).max(1) + 1)
    }

    /// From the first number of a row on.
    #[inline(always)]
    pub(crate) fn row(self, number: usize, width: usize) -> &'a [f32] {
        &self.values[number * self.stride.max(width)..][..width]
    }
}

/// Rows whose sums are kept in registers at a time.
const WEIGHTS: usize = 4;

impl KernelBody<Self> for RowProducts {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (weights, input, out): (StridedRows<'_>, &[f32], &mut [f32])) {
        let width = input.len();
        let count = weights.count(width).min(out.len());
        let (inputs, last) = input.as_chunks::<16>();
        for (first, out) in (0..count).step_by(WEIGHTS).zip(out[..count].chunks_mut(WEIGHTS)) {
            // Rows that are not there are read as the first one.
            let row = |number: usize| if number < out.len() { first + number } else { first };
            let rows: [&[f32]; WEIGHTS] =
                std::array::from_fn(|number| weights.row(row(number), width));
            let wholes = rows.map(|row| &row.as_chunks::<16>().0[..inputs.len()]);
            let mut sums = [simd.splat(0.0); WEIGHTS];
            for (at, input) in inputs.iter().enumerate() {
                let input = simd.load(input);
                for (sum, row) in sums.iter_mut().zip(wholes) {
                    *sum = simd.fused(simd.load(&row[at]), input, *sum);
                }
            }
            for ((out, row), sum) in out.iter_mut().zip(rows).zip(sums) {
                let rest = row[16 * inputs.len()..].iter().zip(last);
                *out = total(simd, sum) + rest.map(|(a, b)| a * b).sum::<f32>();
            }
        }
    }
}

/// Fills `out` with the product of each row of weights with one row of inputs. Sums are `f32`, and their
/// order is the same on every processor. Rows for which `out` has no room are left out.
///
/// ```
/// use weighbridge_quant::{StridedRows, multiply_rows};
///
/// let (weights, input) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0]);
/// let mut out = [0.0; 2];
/// multiply_rows(StridedRows::dense(&weights, 2), &input, &mut out);
/// assert_eq!(out, [21.0, 43.0]);
/// ```
pub fn multiply_rows(weights: StridedRows<'_>, input: &[f32], out: &mut [f32]) {
    static KERNELS: Kernels<RowProducts> = Kernels::of::<RowProducts>();
    KERNELS.run((weights, input, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Isa;

    #[test]
    fn every_instruction_set_computes_the_same_sums() {
        let number = |n: usize| ((n * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
        let (rank, columns) = (5, 3 * LANES + 7);
        let left: Vec<f32> = (0..rank).map(number).collect();
        let right: Vec<f32> = (0..rank * columns).map(|n| number(n + 77)).collect();
        let row = ProductRow { left: &left, right: &right, stride: columns, scale: 1.7 };
        let values: Vec<f32> = (0..columns).map(|n| number(n + 31)).collect();
        let expected: Vec<f32> = (0..columns)
            .map(|column| {
                let fused = |sum: f32, k: usize| left[k].mul_add(right[k * columns + column], sum);
                values[column] + (0..rank).fold(0.0, fused) * 1.7
            })
            .collect();
        for isa in Isa::available() {
            let mut out = values.clone();
            Kernels::<ProductAdding>::of::<ProductAdding>().run_on(isa, (row, &mut out));
            assert_eq!(out, expected, "{isa:?}");
        }
    }

    #[test]
    fn rows_are_multiplied_in_the_same_order_everywhere() {
        let number = |n: usize| ((n * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
        for (rows, width) in [(1, 1), (3, 40), (2, 16), (5, 33), (7, 100), (5, 2100)] {
            let weights: Vec<f32> = (0..rows * width).map(number).collect();
            let input: Vec<f32> = (0..width).map(|n| number(n + 77)).collect();
            let mut all = Isa::available().map(|isa| {
                let mut out = vec![f32::NAN; rows];
                let given = (StridedRows::dense(&weights, width), &*input, &mut *out);
                Kernels::<RowProducts>::of::<RowProducts>().run_on(isa, given);
                out
            });
            let first = all.next().unwrap();
            assert!(all.all(|out| out == first), "{rows} x {width}");
            for (found, weights) in first.iter().zip(weights.chunks(width)) {
                let products = || weights.iter().zip(&input).map(|(a, b)| f64::from(a * b));
                let (expected, size): (f64, f64) =
                    (products().sum(), products().map(f64::abs).sum());
                let off = (f64::from(*found) - expected).abs();
                assert!(off <= 1e-6 * size, "{found} for {expected}");
            }
        }
        // Every second row, the last of which is cut after its numbers.
        let mut out = [0.0, 0.0, f32::NAN];
        let weights = StridedRows { values: &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0], stride: 4 };
        multiply_rows(weights, &[5.0, 6.0], &mut out);
        assert_eq!(out[..2], [17.0, 39.0]);
        assert!(out[2].is_nan());
        multiply_rows(StridedRows::dense(&[1.0; 3], 2), &[], &mut []);
        multiply_rows(StridedRows::dense(&[], 0), &[], &mut [0.0]);
    }
}
