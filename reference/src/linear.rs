//! Linear attention by the gated delta rule: a convolution over few positions, then a matrix for each
//! head that each position changes (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024). States
//! decay at one rate for each head, or at one for each element of its keys (Kimi Team, "Kimi Linear",
//! 2025).

use weighbridge::arch::NormKind;

use crate::cache::LayerCache;
use crate::convolution::Convolution;
use crate::error::{Error, Result};
use crate::math::{Activation, Function, dot, sigmoid, softplus};
use crate::plan::{LinearPlan, NormPlan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

/// Added to the squared length of queries and keys, as transformers has it.
const LENGTH_EPS: f32 = 1e-6;

#[derive(Debug)]
pub(crate) struct Linear {
    plan: LinearPlan,
    q: Weight,
    k: Weight,
    v: Weight,
    gate: Projection,
    beta: Weight,
    alpha: Projection,
    /// The convolution over the channels of q, k and v.
    convolution: Convolution,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    norm: Norm,
    output: Weight,
}

/// A matrix, or the product of two narrow ones.
#[derive(Debug)]
struct Projection {
    narrow: Option<Weight>,
    wide: Weight,
}

impl Projection {
    /// The matrix `{name}`, or `{name}_a` and `{name}_b`, of which the latter is applied last.
    fn load(loader: Loader<'_>, name: &str, dim: usize) -> Result<Self> {
        let narrow = loader.weight_if(&format!("{name}_a"), dim)?;
        let wide = match &narrow {
            Some(narrow) => loader.weight(&format!("{name}_b"), narrow.outputs())?,
            None => loader.weight(name, dim)?,
        };
        Ok(Self { narrow, wide })
    }

    fn of(&self, x: &Rows) -> Result<Rows> {
        match &self.narrow {
            Some(narrow) => self.wide.of(&narrow.of(x)?),
            None => self.wide.of(x),
        }
    }
}

impl Linear {
    /// The layer whose tensors' names start with `name`. Families whose layers of both kinds store their
    /// queries under one name have some tensors under the names of `attention`.
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        attention: &str,
        dim: usize,
        plan: LinearPlan,
    ) -> Result<Self> {
        let LinearPlan { key_heads, value_heads, key_dim, value_dim, kernel, eps, .. } = plan;
        let at = |what: &str| format!("{name}.{what}");
        let either = |what: &str| match loader.has(&format!("{attention}.{what}.weight")) {
            true => format!("{attention}.{what}"),
            false => at(what),
        };
        let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
        // The norm within has its factors as they are, whatever those of the layers are.
        let norm = NormPlan::new(NormKind::Rms, eps);
        let alpha = Projection::load(loader, &at("alpha"), dim)?;
        let rates = alpha.wide.outputs();
        if ![value_heads, value_heads * key_dim].contains(&rates) {
            let fault = format!("{name}.alpha has {rates} outputs for {value_heads} heads");
            return Err(Error::Mismatch(fault));
        }
        let gate = Projection::load(loader, &either("gate"), dim)?;
        if gate.wide.outputs() != values {
            let fault = format!("{name}.gate has {} outputs", gate.wide.outputs());
            return Err(Error::Mismatch(fault));
        }
        let channels = 2 * keys + values;
        let convolution = match loader.has(&at("q_conv.weight")) {
            true => {
                let parts = ["q_conv", "k_conv", "v_conv"].map(at);
                Convolution::load_joined(loader, &parts, channels, kernel)?
            }
            false => Convolution::load(loader, &at("conv"), channels, kernel)?,
        };
        Ok(Self {
            plan,
            q: loader.sized(&either("q"), keys, dim)?,
            k: loader.sized(&either("k"), keys, dim)?,
            v: loader.sized(&either("v"), values, dim)?,
            gate,
            beta: loader.sized(&at("beta"), value_heads, dim)?,
            alpha,
            convolution,
            a_log: loader.vector(&at("a_log"), value_heads)?,
            dt_bias: loader.vector(&at("dt_bias"), rates)?,
            norm: loader.norm(&at("norm"), value_dim, norm)?,
            output: loader.weight(&either("output"), values)?,
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let LinearPlan { key_heads, value_heads, key_dim, value_dim, .. } = self.plan;
        let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
        let joined = Rows::joined(&[self.q.of(x)?, self.k.of(x)?, self.v.of(x)?]);
        let mut mixed = self.convolution.of(&joined, cache);
        mixed.apply(Activation::Silu);
        let (mut q, mut k) = (mixed.columns(0..keys), mixed.columns(keys..2 * keys));
        let v = mixed.columns(2 * keys..2 * keys + values);
        for rows in [&mut q, &mut k] {
            for head in rows.values_mut().chunks_exact_mut(key_dim) {
                let factor = (dot(head, head) + LENGTH_EPS).sqrt().recip();
                head.iter_mut().for_each(|x| *x *= factor);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "heads are narrow")]
        q.scale((key_dim as f32).sqrt().recip());
        let mut beta = self.beta.of(x)?;
        beta.apply(Function::Sigmoid);
        beta.scale(self.plan.rate_scale);
        let decay = self.decay(x)?;
        let rates = decay.width() / value_heads.max(1);
        let each = key_dim * value_dim;
        cache.state.resize(value_heads * each, 0.0);
        let mut out = Rows::zeros(x.len(), values);
        let steps = q.rows().zip(k.rows()).zip(v.rows()).zip(beta.rows().zip(decay.rows()));
        for (out, (((q, k), v), (beta, decay))) in out.rows_mut().zip(steps) {
            let shared = value_heads / key_heads;
            let states = cache.state.chunks_exact_mut(each);
            let values = out.chunks_exact_mut(value_dim).zip(v.chunks_exact(value_dim));
            let rates = beta.iter().zip(decay.chunks_exact(rates.max(1)));
            for (head, ((state, (out, v)), rates)) in states.zip(values).zip(rates).enumerate() {
                let own = head / shared * key_dim..(head / shared + 1) * key_dim;
                let (q, k) =
                    (q.get(own.clone()).unwrap_or_default(), k.get(own).unwrap_or_default());
                step(state, q, k, v, rates, out);
            }
        }
        let gate = self.gate.of(x)?;
        self.norm.apply(&mut out);
        out.gate(&gate, self.plan.gate);
        self.output.of(&out)
    }

    /// Computes the decay of the states after each position: a factor for each head, or for each
    /// element of its keys.
    fn decay(&self, x: &Rows) -> Result<Rows> {
        let mut decay = self.alpha.of(x)?;
        let of_head = self.dt_bias.len() / self.a_log.len().max(1);
        for row in decay.rows_mut() {
            let heads = row.chunks_exact_mut(of_head.max(1));
            let biases = self.dt_bias.chunks_exact(of_head.max(1));
            for ((alphas, biases), a_log) in heads.zip(biases).zip(&self.a_log) {
                let rate = a_log.exp();
                for (alpha, bias) in alphas.iter_mut().zip(biases) {
                    let logarithm = match self.plan.decay_bound {
                        Some(bound) => bound * sigmoid(rate * (*alpha + bias)),
                        None => -rate * softplus(*alpha + bias),
                    };
                    *alpha = logarithm.exp();
                }
            }
        }
        Ok(decay)
    }
}

/// One position of one head: the state decays, what it says of the key moves towards the value, and the
/// query reads it. A row of the state belongs to an element of the key.
fn step(
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    (beta, decay): (&f32, &[f32]),
    out: &mut [f32],
) {
    let width = v.len().max(1);
    let mut change = v.to_vec();
    let decay = decay.iter().cycle();
    for ((row, k), decay) in state.chunks_exact_mut(width).zip(k).zip(decay) {
        for (state, change) in row.iter_mut().zip(&mut change) {
            *state *= decay;
            *change -= *state * k;
        }
    }
    for ((row, k), q) in state.chunks_exact_mut(width).zip(k).zip(q) {
        for ((state, change), out) in row.iter_mut().zip(&change).zip(out.iter_mut()) {
            *state += k * beta * change;
            *out += *state * q;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::step;

    /// Two elements of a key that decay at different rates, by hand.
    #[test]
    fn each_element_of_a_key_has_its_rate() {
        // A row for each element of the key, a column for each element of the value.
        let mut state = vec![1.0, 2.0, 4.0, 8.0];
        let mut out = vec![0.0; 2];
        step(&mut state, &[1.0, 1.0], &[1.0, 0.0], &[3.0, 5.0], (&0.5, &[0.5, 0.25]), &mut out);
        // Decayed: [0.5, 1], [1, 2]. The key reads [0.5, 1]; half of the rest is added to its row.
        assert_eq!(state, [1.75, 3.0, 1.0, 2.0]);
        assert_eq!(out, [2.75, 5.0]);
        // One rate for all.
        step(&mut state, &[0.0, 1.0], &[0.0, 1.0], &[2.0, 2.0], (&1.0, &[0.5]), &mut out);
        assert_eq!(state, [0.875, 1.5, 2.0, 2.0]);
    }
}
