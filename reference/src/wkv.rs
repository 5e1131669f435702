//! Time mixing and channel mixing of RWKV 4: weighted means of values whose weights decay with the
//! distance, and inputs that are mixed with those of the position before (Peng et al., "RWKV", 2023).

use crate::cache::LayerCache;
use crate::error::Result;
use crate::math::{Activation, Function};
use crate::rows::Rows;
use crate::weight::{Loader, Weight};

/// The largest exponent before the first position: no number of a model is as small.
const NONE: f32 = -1e38;

#[derive(Debug)]
pub(crate) struct TimeMix {
    k: Weight,
    v: Weight,
    gate: Weight,
    output: Weight,
    shares: [Vec<f32>; 3],
    /// For each channel, by how much the logarithm of a weight falls with each position.
    decay: Vec<f32>,
    /// For each channel, what the logarithm of the present position's weight has in addition.
    first: Vec<f32>,
}

/// The network, whose inputs are mixed as well.
#[derive(Debug)]
pub(crate) struct ChannelMix {
    up: Weight,
    down: Weight,
    gate: Weight,
    shares: [Vec<f32>; 2],
}

/// The position before each one. `last` is that before the first one, and becomes the last one.
fn shifted(x: &Rows, last: &mut Vec<f32>) -> Rows {
    last.resize(x.width(), 0.0);
    let mut values = std::mem::take(last);
    values.extend_from_slice(x.values());
    *last = values.split_off(values.len() - x.width());
    Rows::new(values, x.width())
}

/// Each channel's share of the present position, and the rest of the position before.
fn mixed(x: &Rows, before: &Rows, shares: &[f32]) -> Rows {
    let mut out = x.clone();
    out.with(before, |x, before| x - before);
    for row in out.rows_mut() {
        row.iter_mut().zip(shares).for_each(|(x, share)| *x *= share);
    }
    out.add(before, 1.0);
    out
}

impl TimeMix {
    pub(crate) fn load(loader: Loader<'_>, name: &str, dim: usize) -> Result<Self> {
        let at = |what: &str| format!("{name}.{what}");
        let share = |of: &str| loader.vector(&at(&format!("{of}_share")), dim);
        let k = loader.weight(&at("k"), dim)?;
        let width = k.outputs();
        let decay = loader.vector(&at("decay"), width)?;
        Ok(Self {
            v: loader.sized(&at("v"), width, dim)?,
            gate: loader.sized(&at("gate"), width, dim)?,
            output: loader.sized(&at("output"), dim, width)?,
            shares: [share("k")?, share("v")?, share("gate")?],
            decay: decay.into_iter().map(f32::exp).collect(),
            first: loader.vector(&at("first"), width)?,
            k,
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let before = shifted(x, &mut cache.inputs);
        let [k, v, gate] = self.shares.each_ref().map(|shares| mixed(x, &before, shares));
        let (k, v, gate) = (self.k.of(&k)?, self.v.of(&v)?, self.gate.of(&gate)?);
        let width = self.decay.len();
        if cache.state.is_empty() {
            cache.state = [0.0, 0.0, NONE].repeat(width);
        }
        let mut out = Rows::zeros(x.len(), width);
        for (out, (k, v)) in out.rows_mut().zip(k.rows().zip(v.rows())) {
            let (states, _) = cache.state.as_chunks_mut::<3>();
            let channels = out.iter_mut().zip(states).zip(k.iter().zip(v));
            let rates = self.decay.iter().zip(&self.first);
            for (((out, state), (k, v)), (decay, first)) in channels.zip(rates) {
                *out = step(state, *k, *v, *decay, *first);
            }
        }
        out.gate(&gate, Function::Sigmoid);
        self.output.of(&out)
    }
}

/// One position of one channel: the mean of the values so far. The state has the sums of weighted values
/// and of weights, and the logarithm of their common factor.
fn step(state: &mut [f32; 3], k: f32, v: f32, decay: f32, first: f32) -> f32 {
    let [sum, weights, factor] = *state;
    let most = factor.max(k + first);
    let (old, new) = ((factor - most).exp(), (k + first - most).exp());
    let out = (old * sum + new * v) / (old * weights + new);
    let most = (factor - decay).max(k);
    let (old, new) = ((factor - decay - most).exp(), (k - most).exp());
    *state = [old * sum + new * v, old * weights + new, most];
    out
}

impl ChannelMix {
    /// The network of the layer, if it is of this kind.
    pub(crate) fn load_if(loader: Loader<'_>, name: &str, dim: usize) -> Result<Option<Self>> {
        let at = |what: &str| format!("{name}.{what}");
        if !loader.has(&at("receptance.weight")) {
            return Ok(None);
        }
        let share = |of: &str| loader.vector(&at(&format!("{of}_share")), dim);
        let up = loader.weight(&at("up"), dim)?;
        Ok(Some(Self {
            down: loader.sized(&at("down"), dim, up.outputs())?,
            gate: loader.sized(&at("receptance"), dim, dim)?,
            shares: [share("up")?, share("receptance")?],
            up,
        }))
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let before = shifted(x, &mut cache.network_input);
        let [up, gate] = self.shares.each_ref().map(|shares| mixed(x, &before, shares));
        let mut inner = self.up.of(&up)?;
        inner.apply(Activation::ReluSquared);
        let mut out = self.down.of(&inner)?;
        out.gate(&self.gate.of(&gate)?, Function::Sigmoid);
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean with weights e^(k - decay * distance), and e^(k + first) for the present position.
    #[test]
    fn a_state_is_a_weighted_mean() {
        let (k, v): ([f32; 3], [f32; 3]) = ([0.5, -1.0, 2.0], [1.0, -2.0, 3.0]);
        let (decay, first) = (0.3f32, 0.7f32);
        let mut state = [0.0, 0.0, NONE];
        for now in 0..3 {
            let found = step(&mut state, k[now], v[now], decay, first);
            let weight = |place: usize| match now - place {
                0 => (k[place] + first).exp(),
                distance => (k[place] - decay * (distance - 1) as f32).exp(),
            };
            let sum: f32 = (0..=now).map(|place| weight(place) * v[place]).sum();
            let mean = sum / (0..=now).map(weight).sum::<f32>();
            assert!((found - mean).abs() < 1e-5, "{now}: {found} and {mean}");
        }
    }

    #[test]
    fn positions_are_mixed_with_those_before() {
        let mut last = Vec::new();
        let x = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2);
        let before = shifted(&x, &mut last);
        assert_eq!((before.values(), &last[..]), (&[0.0, 0.0, 1.0, 2.0][..], &[3.0, 4.0][..]));
        assert_eq!(mixed(&x, &before, &[1.0, 0.5]).values(), [1.0, 1.0, 3.0, 3.0]);
    }
}
