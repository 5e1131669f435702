//! Operations on plain numbers.

/// The sum of products of two rows.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (a_whole, a_rest) = a.as_chunks::<LANES>();
    let (b_whole, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (a, b) in a_whole.iter().zip(b_whole) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// Turns scores into weights that sum to one; `beside` is a score that takes its share and has no
/// weight.
pub(crate) fn softmax(scores: &mut [f32], beside: Option<f32>) {
    let most = scores.iter().copied().chain(beside).fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = exp(*score - most));
    let own = scores.iter().copied().map(f64::from).sum::<f64>();
    let sum = own + beside.map_or(0.0, |score| f64::from(exp(score - most)));
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    let factor = (1.0 / sum) as f32;
    scores.iter_mut().for_each(|score| *score *= factor);
}

/// The sum of `numbers[n]` times the n-th power of `x`.
fn polynomial<const N: usize>(x: f32, numbers: [f32; N]) -> f32 {
    numbers.into_iter().rev().fold(0.0, |sum, number| sum * x + number)
}

/// The exponential, to 2e-7 of its value, without a branch: loops over it are vectors. It is 0 below -87, and
/// infinite above 88.
#[inline]
pub(crate) fn exp(x: f32) -> f32 {
    // Added to a small number, it leaves the nearest integer in the lowest bits.
    const ROUNDING: f32 = 12_582_912.0;
    // The logarithm of 2 in two parts, the first of which has few bits.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let shifted = x.clamp(-87.0, 88.0) * std::f32::consts::LOG2_E + ROUNDING;
    let whole = shifted - ROUNDING;
    let rest = x.clamp(-87.0, 88.0) - whole * LN_2.0 - whole * LN_2.1;
    // Fitted at the Chebyshev nodes of half a logarithm of 2 to either side.
    let power = polynomial(
        rest,
        [1.0, 1.0, 0.5, 0.166_664_15, 0.041_666_22, 0.008_375_129, 0.001_394_858_1],
    );
    let exponent = shifted.to_bits().wrapping_sub(ROUNDING.to_bits()).wrapping_add(127);
    let inner = power * f32::from_bits(exponent << 23);
    let inner = if x < -87.0 { 0.0 } else { inner };
    if x > 88.0 { f32::INFINITY } else { inner }
}

/// The part of a normal distribution below a number, to 1e-6 of its value near 0. Far below it, the rounding of
/// the square adds 1.2e-7 times that square.
#[inline]
fn normal_part(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * z);
    // The logarithm of what is left of 1 - erf(z) without e^(-z^2) and t, fitted at the Chebyshev nodes of
    // 0.12 to 1.
    let rest = polynomial(
        t,
        [
            -1.265_500_6,
            0.999_756_8,
            0.376_550_2,
            0.084_682_1,
            -0.150_773,
            0.213_782_74,
            -1.060_099_4,
            1.435_545_5,
            -0.801_325_26,
            0.167_381,
        ],
    );
    let beyond = 0.5 * t * exp(rest - z * z);
    if x < 0.0 { beyond } else { 1.0 - beyond }
}

#[inline]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline]
fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

#[inline]
fn gelu(x: f32) -> f32 {
    x * normal_part(x)
}

/// Half of one more than the tangent is the sigmoid of twice the number.
#[inline]
fn gelu_tanh(x: f32) -> f32 {
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    x * sigmoid(2.0 * inner)
}

/// log(1 + e^x), without overflow.
pub(crate) fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

/// The error function, to the precision of `f64`.
pub(crate) fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// The number below which that part of a normal distribution lies, found by halving.
pub(crate) fn normal_quantile(part: f64) -> f64 {
    let below = |x: f64| 0.5 * (1.0 + erf(x / std::f64::consts::SQRT_2));
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if below(middle) < part { low = middle } else { high = middle }
    }
    low
}

/// The function between the two matrices of a feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// x times its sigmoid.
    Silu,
    /// With the error function.
    Gelu,
    /// With tanh in place of the error function.
    GeluTanh,
    /// max(x, 0).
    Relu,
    /// The square of max(x, 0).
    ReluSquared,
    /// gpt-oss: both halves are bounded by `limit`, and 1 is added to the second.
    ClampedSwiglu {
        /// Factor within the sigmoid.
        alpha: f32,
        /// Bound of both halves.
        limit: f32,
    },
    /// A parabola on the right and an exponential on the left (Huang and Schlag, "Deriving Activation
    /// Functions Using Integration", 2024). Its numbers are those of a layer.
    Xielu(Xielu),
}

/// The numbers of [`Activation::Xielu`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Xielu {
    /// Factor of the left side.
    pub alpha_n: f32,
    /// Factor of the square on the right side.
    pub alpha_p: f32,
    /// Slope at 0.
    pub beta: f32,
    /// The bound of the exponent.
    pub eps: f32,
}

impl Xielu {
    /// The numbers, from those that checkpoints store.
    pub(crate) fn stored(alpha_n: f32, alpha_p: f32, beta: f32, eps: f32) -> Self {
        Self { alpha_n: beta + softplus(alpha_n), alpha_p: softplus(alpha_p), beta, eps }
    }
}

impl Activation {
    /// The function of that name in `config.json`.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "silu" | "swish" | "swiglu" | "gated-silu" => Self::Silu,
            "gelu" | "geglu" => Self::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_tanh" | "gated-gelu" => {
                Self::GeluTanh
            }
            "relu" => Self::Relu,
            "relu2" => Self::ReluSquared,
            "xielu" => Self::Xielu(Xielu::default()),
            _ => return None,
        })
    }

    /// Its value.
    pub(crate) fn of(self, x: f32) -> f32 {
        match self {
            Self::Silu | Self::ClampedSwiglu { .. } => silu(x),
            Self::Gelu => gelu(x),
            Self::GeluTanh => gelu_tanh(x),
            Self::Relu => x.max(0.0),
            Self::ReluSquared => x.max(0.0) * x.max(0.0),
            Self::Xielu(Xielu { alpha_n, alpha_p, beta, eps }) => {
                let curved = match x > 0.0 {
                    true => alpha_p * x * x,
                    false => (x.min(eps).exp_m1() - x) * alpha_n,
                };
                curved + beta * x
            }
        }
    }
}

/// A function of single values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Activation(Activation),
    /// A bound in both directions.
    Clip(f32),
    /// A bound that tanh puts in both directions.
    Cap(f32),
    Tanh,
    Sigmoid,
    Softplus,
}

fn each(values: &mut [f32], function: impl Fn(f32) -> f32) {
    values.iter_mut().for_each(|value| *value = function(*value));
}

impl From<Activation> for Function {
    fn from(activation: Activation) -> Self {
        Self::Activation(activation)
    }
}

impl Function {
    pub(crate) fn of(self, x: f32) -> f32 {
        match self {
            Self::Activation(activation) => activation.of(x),
            Self::Clip(bound) => x.max(-bound).min(bound),
            Self::Cap(cap) => (x / cap).tanh() * cap,
            Self::Tanh => x.tanh(),
            Self::Sigmoid => sigmoid(x),
            Self::Softplus => softplus(x),
        }
    }

    /// Replaces values by the function of them.
    pub(crate) fn apply(self, values: &mut [f32]) {
        // Loops over one function each are vectors.
        match self {
            Self::Activation(Activation::Silu) => each(values, silu),
            Self::Activation(Activation::Gelu) => each(values, gelu),
            Self::Activation(Activation::GeluTanh) => each(values, gelu_tanh),
            Self::Sigmoid => each(values, sigmoid),
            other => each(values, |x| other.of(x)),
        }
    }

    /// Multiplies values by the function of their gates.
    pub(crate) fn gate(self, values: &mut [f32], gates: &[f32]) {
        if let Self::Activation(Activation::ClampedSwiglu { alpha, limit }) = self {
            for (up, gate) in values.iter_mut().zip(gates) {
                let gate = gate.clamp(f32::NEG_INFINITY, limit);
                *up = (up.clamp(-limit, limit) + 1.0) * gate * sigmoid(alpha * gate);
            }
            return;
        }
        let mut factors = gates.to_vec();
        self.apply(&mut factors);
        values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    }

    /// Its number in `steps.wgsl`, and its own numbers.
    pub(crate) fn code(self) -> (u32, [f32; 4]) {
        match self {
            Self::Activation(activation) => match activation {
                Activation::Silu => (0, [0.0; 4]),
                Activation::Gelu => (1, [0.0; 4]),
                Activation::GeluTanh => (2, [0.0; 4]),
                Activation::Relu => (3, [0.0; 4]),
                Activation::ReluSquared => (4, [0.0; 4]),
                Activation::ClampedSwiglu { alpha, limit } => (5, [alpha, limit, 0.0, 0.0]),
                Activation::Xielu(Xielu { alpha_n, alpha_p, beta, eps }) => {
                    (6, [alpha_n, alpha_p, beta, eps])
                }
            },
            Self::Clip(bound) => (7, [bound, 0.0, 0.0, 0.0]),
            Self::Cap(cap) => (8, [cap, 0.0, 0.0, 0.0]),
            Self::Tanh => (9, [0.0; 4]),
            Self::Sigmoid => (10, [0.0; 4]),
            Self::Softplus => (11, [0.0; 4]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of gated networks are those of what their gates compute.
    #[test]
    fn gated_networks_have_the_activation_of_their_gates() {
        assert_eq!(Activation::named("swiglu"), Activation::named("silu"));
        assert_eq!(Activation::named("geglu"), Activation::named("gelu"));
    }

    #[test]
    fn the_error_function_has_its_known_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, value) in
            [(0.0, 0.0), (0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (2.0, 0.995_322_265_0)]
        {
            assert!((erf(x) - value).abs() < 1e-9 && (erf(-x) + value).abs() < 1e-9, "{x}");
        }
        assert!((erf(2.499_999_9) - erf(2.500_000_1)).abs() < 1e-8);
        assert!((erf(3.0) - 0.999_977_909_5).abs() < 1e-9);
    }

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        for n in -8800..=8800_i16 {
            let x = f32::from(n) / 102.0;
            let (found, right) = (exp(x), f64::from(x).exp());
            assert!((f64::from(found) - right).abs() <= 2e-7 * right, "{x}: {found}, not {right}");
        }
        assert_eq!(
            [exp(f32::NEG_INFINITY), exp(-88.0), exp(f32::INFINITY)],
            [0.0, 0.0, f32::INFINITY]
        );
        assert!(exp(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!([sigmoid(f32::NEG_INFINITY), sigmoid(f32::INFINITY)], [0.0, 1.0]);
    }

    #[test]
    fn gelu_is_that_of_the_error_function() {
        for n in -1200..=1200_i16 {
            let x = f32::from(n) / 100.0;
            let wide = f64::from(x);
            let right = 0.5 * wide * libm::erfc(-wide / std::f64::consts::SQRT_2);
            let off = (f64::from(Activation::Gelu.of(x)) - right).abs();
            // Squares of large numbers are rounded before the exponential.
            let relative = 1e-6 + 1.2e-7 * wide * wide;
            assert!(off <= relative * right.abs() + 1e-30, "{x}: off by {off:e} of {right:e}");
        }
        assert!(Activation::Gelu.of(f32::NAN).is_nan());
    }

    #[test]
    fn a_quantile_has_its_part_below() {
        assert!((normal_quantile(0.95) - 1.644_853_627).abs() < 1e-8);
        assert!(normal_quantile(0.5).abs() < 1e-9);
    }

    #[test]
    fn a_score_beside_takes_its_share() {
        let mut scores = [0.0, 0.0];
        softmax(&mut scores, Some(0.0));
        assert!(scores.iter().all(|score| (score - 1.0 / 3.0).abs() < 1e-7), "{scores:?}");
    }
}
