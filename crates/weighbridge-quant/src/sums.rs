//! Sums, range and zeros of values, compiled for each instruction set.

use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::simd::Simd;

/// Partial sums that a compiler keeps in vectors. Their number is part of the result, which is the same for
/// every instruction set.
pub const LANES: usize = 16;

/// What is known of some finite values.
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
}
