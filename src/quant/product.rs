//! Adds low-rank products to rows of values.

use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::simd::Simd;

/// A row of a low-rank product: the sum over `k` of `left[k]` times row `k` of `right`, times
/// `scale`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductRow<'a> {
    /// One number for each row of `right`.
    pub(crate) left: &'a [f32],
    /// The rows, `stride` numbers apart.
    pub(crate) right: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) scale: f32,
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
pub(crate) fn add_product(row: ProductRow<'_>, out: &mut [f32]) {
    static KERNELS: Kernels<ProductAdding> = Kernels::of::<ProductAdding>();
    KERNELS.run((row, out));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::kernel::Isa;

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
}
