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
    let mut sum = beside.map_or(0.0, |score| f64::from((score - most).exp()));
    for score in scores.iter_mut() {
        *score = (*score - most).exp();
        sum += f64::from(*score);
    }
    #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
    let factor = (1.0 / sum) as f32;
    scores.iter_mut().for_each(|score| *score *= factor);
}

pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
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
            "silu" | "swish" | "gated-silu" => Self::Silu,
            "gelu" => Self::Gelu,
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
            Self::Silu | Self::ClampedSwiglu { .. } => x * sigmoid(x),
            #[expect(clippy::cast_possible_truncation, reason = "rounded once")]
            Self::Gelu => {
                let x = f64::from(x);
                (0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
            }
            Self::GeluTanh => {
                let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
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

    /// The gated activation: `activation(gate) * up`.
    pub(crate) fn gated(self, gate: f32, up: f32) -> f32 {
        match self {
            Self::ClampedSwiglu { alpha, limit } => {
                let (gate, up) = (gate.min(limit), up.max(-limit).min(limit));
                (up + 1.0) * gate * sigmoid(alpha * gate)
            }
            plain => plain.of(gate) * up,
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

    /// The function of a gate, times what it lets through.
    pub(crate) fn gated(self, gate: f32, x: f32) -> f32 {
        match self {
            Self::Activation(activation) => activation.gated(gate, x),
            other => other.of(gate) * x,
        }
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
