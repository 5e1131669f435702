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

/// Multiplies rows of weights with rows of inputs.
struct RowProducts;

impl KernelSignature for RowProducts {
    type Input<'a> = (Products<'a>, &'a mut [f32]);
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

impl StridedRows<'_> {
    /// Whole rows of that width.
    fn count(self, width: usize) -> usize {
        self.values.len().checked_sub(width).map_or(0, |rest| rest / self.stride + 1)
    }

    /// The same without numbers behind the last whole row.
    fn whole(self, width: usize) -> Self {
        let stride = self.stride.max(width).max(1);
        let rows = Self { stride, ..self }.count(width);
        let len = rows.checked_sub(1).map_or(0, |last| last * stride + width);
        Self { values: &self.values[..len], stride }
    }

    /// At most so many rows at a time.
    fn chunks(self, rows: usize) -> impl Iterator<Item = Self> {
        let chunks = self.values.chunks(rows * self.stride);
        chunks.map(move |values| Self { values, stride: self.stride })
    }
}

/// Rows of inputs that are multiplied with all weights before the next ones: they stay in the cache.
const NEAR: usize = 16;

/// Columns whose products are summed before those of the next: four rows of them stay in the nearest
/// cache.
const COLUMNS: usize = 2048;

impl KernelBody<Self> for RowProducts {
    #[inline(always)]
    fn run<S: Simd>(simd: S, (products, out): (Products<'_>, &mut [f32])) {
        // As many sums side by side as registers hold.
        if products.inputs.count(products.width) == 1 {
            products.fill::<S, 4, 1>(simd, out);
        } else if S::IS_WIDE {
            products.fill::<S, 4, 4>(simd, out);
        } else {
            products.fill::<S, 2, 2>(simd, out);
        }
    }
}

/// Rows of weights and rows of inputs, of the same width.
#[derive(Clone, Copy)]
struct Products<'a> {
    weights: StridedRows<'a>,
    inputs: StridedRows<'a>,
    width: usize,
}

impl Products<'_> {
    #[inline(always)]
    fn fill<S: Simd, const WEIGHTS: usize, const INPUTS: usize>(self, simd: S, out: &mut [f32]) {
        let Self { weights, inputs, width } = self;
        let count = inputs.count(width);
        for start in (0..width).step_by(COLUMNS) {
            for (near, first) in inputs.chunks(NEAR).zip((0..).step_by(NEAR)) {
                let rows = weights.chunks(WEIGHTS).zip(out.chunks_mut(WEIGHTS * count));
                for (weights, out) in rows {
                    for (inputs, at) in near.chunks(INPUTS).zip((first..).step_by(INPUTS)) {
                        let part = Products { weights, inputs, width };
                        let found = part.block::<S, WEIGHTS, INPUTS>(simd, start);
                        for (out, found) in out.chunks_mut(count).zip(&found) {
                            let here = out.iter_mut().skip(at).take(inputs.count(width));
                            match start {
                                0 => here.zip(found).for_each(|(out, found)| *out = *found),
                                _ => here.zip(found).for_each(|(out, found)| *out += *found),
                            }
                        }
                    }
                }
            }
        }
    }

    /// The products of at most so many rows, over [`COLUMNS`] from `start` on.
    #[inline(always)]
    fn block<S: Simd, const WEIGHTS: usize, const INPUTS: usize>(
        self,
        simd: S,
        start: usize,
    ) -> [[f32; INPUTS]; WEIGHTS] {
        let Self { weights, inputs, width } = self;
        let columns = start..width.min(start + COLUMNS);
        // Rows that are not there are read as the first one.
        let row = |rows: StridedRows<'_>, number: usize| {
            let first = number * rows.stride;
            let first = if first + width <= rows.values.len() { first } else { 0 };
            first + columns.start..first + columns.end
        };
        let weights: [&[f32]; WEIGHTS] =
            std::array::from_fn(|number| &weights.values[row(weights, number)]);
        let inputs: [&[f32]; INPUTS] =
            std::array::from_fn(|number| &inputs.values[row(inputs, number)]);
        let whole = columns.len() / 16;
        let weights = weights.map(|row| (&row.as_chunks::<16>().0[..whole], &row[whole * 16..]));
        let inputs = inputs.map(|row| (&row.as_chunks::<16>().0[..whole], &row[whole * 16..]));
        let mut sums = [[simd.splat(0.0); INPUTS]; WEIGHTS];
        for at in 0..whole {
            let inputs = inputs.map(|(row, _)| simd.load(&row[at]));
            for (sums, (row, _)) in sums.iter_mut().zip(weights) {
                let weight = simd.load(&row[at]);
                for (sum, input) in sums.iter_mut().zip(inputs) {
                    *sum = simd.fused(weight, input, *sum);
                }
            }
        }
        let mut found = totals(simd, sums);
        for (found, (_, weights)) in found.iter_mut().zip(weights) {
            for (found, (_, inputs)) in found.iter_mut().zip(inputs) {
                *found += weights.iter().zip(inputs).map(|(a, b)| a * b).sum::<f32>();
            }
        }
        found
    }
}

/// The sums of the lanes: halves are added until one is left.
#[inline(always)]
fn totals<S: Simd, const WEIGHTS: usize, const INPUTS: usize>(
    simd: S,
    sums: [[S::Floats; INPUTS]; WEIGHTS],
) -> [[f32; INPUTS]; WEIGHTS] {
    let mut found = [[0.0; INPUTS]; WEIGHTS];
    if WEIGHTS * INPUTS == 16 {
        // All at once: the lanes of the transposed sums are different sums.
        let all = std::array::from_fn(|at| sums[at / INPUTS][at % INPUTS]);
        let mut rows = simd.transposed(all);
        for half in [8, 4, 2, 1] {
            for at in 0..half {
                rows[at] = simd.add(rows[at], rows[at + half]);
            }
        }
        let mut lanes = [0.0; 16];
        simd.put_f32::<false>(rows[0], &mut lanes);
        found.as_flattened_mut().copy_from_slice(&lanes);
        return found;
    }
    for (found, sum) in found.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
        *found = total(simd, *sum);
    }
    found
}

/// As [`multiply_strided`], of rows without anything between them.
///
/// ```
/// let (weights, inputs) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0]);
/// let mut out = [0.0; 2];
/// weighbridge_quant::multiply_rows(&weights, &inputs, 2, &mut out);
/// assert_eq!(out, [21.0, 43.0]);
/// ```
pub fn multiply_rows(weights: &[f32], inputs: &[f32], width: usize, out: &mut [f32]) {
    let rows = |values| StridedRows { values, stride: width };
    multiply_strided(rows(weights), rows(inputs), width, out);
}

/// Multiplies rows of weights with rows of inputs, both `width` values long: of `n` rows of inputs,
/// `out[w * n + i]` is the product of row `w` of the weights with row `i` of the inputs. Sums are
/// `f32`, and their order is the same on every processor. Rows for which `out` has no room are left
/// out.
pub fn multiply_strided(
    weights: StridedRows<'_>,
    inputs: StridedRows<'_>,
    width: usize,
    out: &mut [f32],
) {
    static KERNELS: Kernels<RowProducts> = Kernels::of::<RowProducts>();
    let (weights, inputs) = (weights.whole(width), inputs.whole(width));
    if width > 0 && !weights.values.is_empty() && !inputs.values.is_empty() {
        KERNELS.run((Products { weights, inputs, width }, out));
    }
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
        for (rows, count, width) in [
            (1, 1, 1),
            (3, 1, 40),
            (2, 5, 16),
            (5, 35, 33),
            (7, 2, 100),
            (5, 1, 2100),
            (3, 6, 2048 + 17),
        ] {
            let weights: Vec<f32> = (0..rows * width).map(number).collect();
            let inputs: Vec<f32> = (0..count * width).map(|n| number(n + 77)).collect();
            let product = |weights: &[f32], inputs: &[f32]| -> (f64, f64) {
                let each = weights.iter().zip(inputs).map(|(a, b)| f64::from(*a) * f64::from(*b));
                each.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()))
            };
            let mut all = Isa::available().map(|isa| {
                let mut out = vec![f32::NAN; rows * count];
                let rows = |values| StridedRows { values, stride: width };
                let (weights, inputs) = (rows(&weights), rows(&inputs));
                let given = (Products { weights, inputs, width }, &mut *out);
                Kernels::<RowProducts>::of::<RowProducts>().run_on(isa, given);
                out
            });
            let first = all.next().unwrap();
            assert!(all.all(|out| out == first), "{rows} x {count} x {width}");
            let expected = weights
                .chunks(width)
                .flat_map(|weights| inputs.chunks(width).map(|inputs| product(weights, inputs)));
            for (found, (expected, size)) in first.iter().zip(expected) {
                let off = (f64::from(*found) - expected).abs();
                assert!(off <= 1e-6 * size, "{found} for {expected}");
            }
        }
        // Every second row, the last of which is cut after its numbers.
        let (weights, inputs) =
            ([1.0, 2.0, 0.0, 0.0, 3.0, 4.0], [5.0, 6.0, 0.0, 7.0, 8.0, 0.0, 9.0]);
        let mut out = [0.0; 4];
        let rows = |values, stride| StridedRows { values, stride };
        multiply_strided(rows(&weights, 4), rows(&inputs, 3), 2, &mut out);
        assert_eq!(out, [17.0, 23.0, 39.0, 53.0]);
        multiply_rows(&[1.0; 3], &[], 2, &mut []);
        multiply_rows(&[1.0], &[1.0], 0, &mut [0.0]);
    }
}
