//! Sums over values, and over pairs of values, compiled for each instruction set.

use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::simd::Simd;

/// Partial sums that a compiler keeps in vectors. Their number is part of the result, which is the same for
/// every instruction set.
pub const LANES: usize = 16;

/// Sums over some finite values.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    /// The mean.
    pub mean: f64,
    /// The sum of the squared distances from the mean.
    pub squares: f64,
    /// The number of zeros.
    pub zeros: u64,
    /// The smallest value.
    pub least: f32,
    /// The largest value.
    pub most: f32,
}

struct Summing;

impl KernelSignature for Summing {
    type Input<'a> = &'a [[f32; LANES]];
    type Output = Option<Sums>;
}

impl KernelBody<Self> for Summing {
    #[inline(always)]
    fn run<S: Simd>(_: S, values: &[[f32; LANES]]) -> Option<Sums> {
        let mut sums = [0.0f64; LANES];
        let mut zeros = [0u32; LANES];
        let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        for values in values {
            for lane in 0..LANES {
                let value = values[lane];
                sums[lane] += f64::from(value);
                zeros[lane] += u32::from(value == 0.0);
                least[lane] = if value < least[lane] { value } else { least[lane] };
                most[lane] = if value > most[lane] { value } else { most[lane] };
            }
        }
        // In `f64`, no sum of finite `f32` overflows.
        let sum: f64 = sums.iter().sum();
        if values.is_empty() || !sum.is_finite() {
            return None;
        }
        let mean = sum / values.as_flattened().len() as f64;
        let mut squares = [0.0f64; LANES];
        for values in values {
            for lane in 0..LANES {
                let distance = f64::from(values[lane]) - mean;
                squares[lane] += distance * distance;
            }
        }
        Some(Sums {
            mean,
            squares: squares.iter().sum(),
            zeros: zeros.iter().map(|zeros| u64::from(*zeros)).sum(),
            least: least.into_iter().fold(f32::INFINITY, f32::min),
            most: most.into_iter().fold(f32::NEG_INFINITY, f32::max),
        })
    }
}

static KERNELS: Kernels<Summing> = Kernels::of::<Summing>();

/// Sums values; `None` if there are none, or one of them is not finite. They are read twice, and should
/// be in the processor's cache.
pub fn sums(values: &[[f32; LANES]]) -> Option<Sums> {
    KERNELS.run(values)
}

/// Like [`LANES`], for pairs.
pub const PAIR_LANES: usize = 8;

/// Sums over some pairs of finite values.
#[derive(Clone, Copy, Debug)]
pub struct PairSums {
    /// The sum of the squares of the first values.
    pub squares_a: f64,
    /// The sum of the squares of the second values.
    pub squares_b: f64,
    /// The sum of the products.
    pub products: f64,
    /// The sum of the squared differences.
    pub squares: f64,
    /// The largest difference.
    pub most: f64,
    /// The number of pairs that differ by more than a tolerance.
    pub differing: u64,
}

struct PairSumming;

impl KernelSignature for PairSumming {
    type Input<'a> = (&'a [[f32; PAIR_LANES]], &'a [[f32; PAIR_LANES]], f64);
    type Output = Option<PairSums>;
}

impl KernelBody<Self> for PairSumming {
    #[inline(always)]
    fn run<S: Simd>(
        _: S,
        (a, b, tolerance): (&[[f32; PAIR_LANES]], &[[f32; PAIR_LANES]], f64),
    ) -> Option<PairSums> {
        let mut sums = [[0.0f64; PAIR_LANES]; 4];
        let mut most = [0.0f64; PAIR_LANES];
        let mut differing = [0u64; PAIR_LANES];
        for (a, b) in a.iter().zip(b) {
            for lane in 0..PAIR_LANES {
                let (a, b) = (f64::from(a[lane]), f64::from(b[lane]));
                let difference = (a - b).abs();
                sums[0][lane] += a * a;
                sums[1][lane] += b * b;
                sums[2][lane] += a * b;
                sums[3][lane] += difference * difference;
                most[lane] = if difference > most[lane] { difference } else { most[lane] };
                differing[lane] += u64::from(difference > tolerance);
            }
        }
        let [squares_a, squares_b, products, squares] = sums.map(|lanes| lanes.iter().sum::<f64>());
        // In `f64`, no sum of squares of finite `f32` overflows.
        (squares_a + squares_b).is_finite().then(|| PairSums {
            squares_a,
            squares_b,
            products,
            squares,
            most: most.into_iter().fold(0.0, f64::max),
            differing: differing.iter().sum(),
        })
    }
}

static PAIR_KERNELS: Kernels<PairSumming> = Kernels::of::<PairSumming>();

/// Sums over pairs of values; `None` if one of them is not finite.
pub fn pair_sums(
    a: &[[f32; PAIR_LANES]],
    b: &[[f32; PAIR_LANES]],
    tolerance: f64,
) -> Option<PairSums> {
    PAIR_KERNELS.run((a, b, tolerance))
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Isa;
    use super::*;

    #[test]
    fn every_instruction_set_finds_the_same() {
        let value = |n: u32| (n.wrapping_mul(2_654_435_761) >> 9) as f32 / 65_536.0 - 60.0;
        let mut values: Vec<f32> = (0..4096).map(value).collect();
        values[77] = -0.0;
        values[78] = 0.0;
        let expected = sums(values.as_chunks().0).unwrap();
        assert_eq!(expected.zeros, values.iter().filter(|value| **value == 0.0).count() as u64);
        for isa in Isa::available() {
            let found = KERNELS.run_on(isa, values.as_chunks().0).unwrap();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{isa:?}");
        }
        values[4000] = f32::NAN;
        assert!(Isa::available().all(|isa| KERNELS.run_on(isa, values.as_chunks().0).is_none()));
    }

    #[test]
    fn every_instruction_set_finds_the_same_in_pairs() {
        let value = |n: u32| (n.wrapping_mul(2_654_435_761) >> 9) as f32 / 65_536.0 - 60.0;
        let a: Vec<f32> = (0..4096).map(value).collect();
        let mut b: Vec<f32> = (0..4096).map(|n| value(n) + value(n + 7) / 512.0).collect();
        let run =
            |isa, b: &[f32]| PAIR_KERNELS.run_on(isa, (a.as_chunks().0, b.as_chunks().0, 0.1));
        let expected = pair_sums(a.as_chunks().0, b.as_chunks().0, 0.1).unwrap();
        let apart = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
        assert_eq!(expected.most, a.iter().zip(&b).map(apart).fold(0.0, f64::max));
        let differing = a.iter().zip(&b).map(apart).filter(|apart| *apart > 0.1).count();
        assert_eq!(expected.differing, differing as u64);
        for isa in Isa::available() {
            let found = run(isa, &b).unwrap();
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{isa:?}");
        }
        b[4000] = f32::INFINITY;
        assert!(Isa::available().all(|isa| run(isa, &b).is_none()));
    }
}
