//! Divisors of rotary frequencies, which files hold as a tensor and configs as numbers.

use super::config::ModelConfig;
use crate::rounding::f32_of;

/// Llama 3's divisor for each frequency: 1 for short waves, the factor for long ones, and a ramp
/// between them.
pub(crate) fn llama3_factors(config: &ModelConfig, numbers: [f32; 3], trained: u32) -> Vec<f32> {
    let ([factor, low, high], trained) = (numbers.map(f64::from), f64::from(trained));
    let (dim, base) = (config.head_dim.value, config.rope_theta.value);
    let each = (0..dim).step_by(2).map(|pair| {
        // The converter computes in f32. The frequencies are far enough from a tie that f64 gives
        // the same result.
        let wavelength =
            std::f64::consts::TAU * f64::from(base).powf(f64::from(pair) / f64::from(dim));
        let divisor = if wavelength < trained / high {
            1.0
        } else if wavelength > trained / low || low == high {
            factor
        } else {
            let smooth = (trained / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        f32_of(divisor)
    });
    each.collect()
}
