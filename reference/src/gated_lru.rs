//! Linear recurrences of single channels whose rates depend on the input (De et al., "Griffin", 2024).

use crate::attention::Pass;
use crate::cache::LayerCache;
use crate::convolution::Convolution;
use crate::error::{Error, Result};
use crate::math::{Activation, sigmoid, softplus};
use crate::plan::GatedLruPlan;
use crate::rows::Rows;
use crate::weight::{Loader, Weight};

/// Factor of the logarithm of a rate.
const SHARPNESS: f32 = 8.0;

#[derive(Debug)]
pub(crate) struct GatedLru {
    /// The input of the recurrence, and the gate of its output.
    x: Weight,
    y: Weight,
    convolution: Convolution,
    input_gate: BlockGate,
    rate_gate: BlockGate,
    /// For each channel, how fast it decays if its gate is open.
    rates: Vec<f32>,
    output: Weight,
    activation: Activation,
}

/// A gate for each channel, computed from those of its block.
#[derive(Debug)]
struct BlockGate {
    /// For each block, a row of factors for each of its inputs.
    factors: Vec<f32>,
    bias: Vec<f32>,
    width: usize,
}

impl BlockGate {
    fn load(loader: Loader<'_>, name: &str, channels: usize, blocks: usize) -> Result<Self> {
        let width = channels / blocks.max(1);
        Ok(Self {
            factors: loader.vector(&format!("{name}.weight"), channels * width)?,
            bias: loader.vector(&format!("{name}.bias"), channels)?,
            width,
        })
    }

    fn of(&self, x: &[f32]) -> Vec<f32> {
        let mut out = self.bias.clone();
        let blocks = out.chunks_exact_mut(self.width).zip(x.chunks_exact(self.width));
        for ((out, x), factors) in blocks.zip(self.factors.chunks_exact(self.width * self.width)) {
            for (x, factors) in x.iter().zip(factors.chunks_exact(self.width)) {
                out.iter_mut().zip(factors).for_each(|(out, factor)| *out += x * factor);
            }
        }
        out.iter_mut().for_each(|gate| *gate = sigmoid(*gate));
        out
    }
}

impl GatedLru {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: GatedLruPlan,
    ) -> Result<Self> {
        let GatedLruPlan { channels, blocks, kernel, activation } = plan;
        if blocks == 0 || channels % blocks != 0 {
            let fault = format!("{name} has {channels} channels in {blocks} blocks");
            return Err(Error::Mismatch(fault));
        }
        let at = |what: &str| format!("{name}.{what}");
        let rates = loader.vector(&at("rates"), channels)?;
        Ok(Self {
            x: loader.sized(&at("x"), channels, dim)?,
            y: loader.sized(&at("y"), channels, dim)?,
            convolution: Convolution::load(loader, &at("conv"), channels, kernel)?,
            input_gate: BlockGate::load(loader, &at("input_gate"), channels, blocks)?,
            rate_gate: BlockGate::load(loader, &at("rate_gate"), channels, blocks)?,
            rates: rates.into_iter().map(|rate| SHARPNESS * softplus(rate)).collect(),
            output: loader.sized(&at("output"), dim, channels)?,
            activation,
        })
    }

    pub(crate) fn of(&self, x: &Rows, pass: &Pass<'_>, cache: &mut LayerCache) -> Result<Rows> {
        let mut out = self.convolution.of(&self.x.of(x)?, cache);
        cache.state.resize(self.rates.len(), 0.0);
        for (position, row) in out.rows_mut().enumerate() {
            let gates = self.input_gate.of(row).into_iter().zip(self.rate_gate.of(row));
            let is_first = pass.start + position == 0;
            let channels = row.iter_mut().zip(&mut cache.state).zip(&self.rates);
            for (((x, state), rate), (input, gate)) in channels.zip(gates) {
                *state = step(*state, *x * input, -rate * gate, is_first);
                *x = *state;
            }
        }
        out.gate(&self.y.of(x)?, self.activation);
        self.output.of(&out)
    }
}

/// One position of one channel: the state decays, and the input fills what is then missing of a variance
/// of 1. The first position has nothing to fill up.
fn step(state: f32, input: f32, log_rate: f32, is_first: bool) -> f32 {
    let filled = if is_first { 1.0 } else { (1.0 - (2.0 * log_rate).exp()).sqrt() };
    log_rate.exp() * state + filled * input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_keeps_its_variance() {
        // e^-ln2 = 1/2: the squares of both factors add up to 1.
        let half = -std::f32::consts::LN_2;
        assert!((step(1.0, 0.0, half, false) - 0.5).abs() < 1e-6);
        assert!((step(0.0, 1.0, half, false) - 0.75f32.sqrt()).abs() < 1e-6);
        assert_eq!(step(0.0, 3.0, half, true), 3.0);
    }

    /// Rows of factors belong to inputs, and blocks do not see each other.
    #[test]
    fn gates_see_their_block_alone() {
        let gate = BlockGate {
            factors: vec![1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0],
            bias: vec![0.0, 1.0, 0.0, 0.0],
            width: 2,
        };
        let expected = [3.0, 7.0, 0.0, -5.0].map(sigmoid);
        assert_eq!(gate.of(&[3.0, 4.0, 9.0, 5.0]), expected);
    }
}
