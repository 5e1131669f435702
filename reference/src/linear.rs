//! Linear attention by the gated delta rule: a convolution over few positions, then a matrix for each
//! head that each position changes (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024).

use weighbridge::arch::NormKind;

use crate::cache::LayerCache;
use crate::convolution::Convolution;
use crate::error::{Error, Result};
use crate::math::{Activation, Function, dot, softplus};
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
    gate: Weight,
    beta: Weight,
    alpha: Weight,
    /// Of the channels of q, k and v.
    convolution: Convolution,
    a_log: Vec<f32>,
    dt_bias: Vec<f32>,
    norm: Norm,
    output: Weight,
}

impl Linear {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: LinearPlan,
        eps: f32,
    ) -> Result<Self> {
        let LinearPlan { key_heads, value_heads, key_dim, value_dim, kernel } = plan;
        let at = |what: &str| format!("{name}.{what}");
        let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
        // The norm within has its factors as they are, whatever those of the layers are.
        let norm = NormPlan { kind: NormKind::Rms, eps, added: 0.0, bare: false };
        Ok(Self {
            plan,
            q: loader.sized(&at("q"), keys, dim)?,
            k: loader.sized(&at("k"), keys, dim)?,
            v: loader.sized(&at("v"), values, dim)?,
            gate: loader.sized(&at("gate"), values, dim)?,
            beta: loader.sized(&at("beta"), value_heads, dim)?,
            alpha: loader.sized(&at("alpha"), value_heads, dim)?,
            convolution: Convolution::load(loader, &at("conv"), 2 * keys + values, kernel)?,
            a_log: loader.vector(&at("a_log"), value_heads)?,
            dt_bias: loader.vector(&at("dt_bias"), value_heads)?,
            norm: loader.norm(&at("norm"), value_dim, norm)?,
            output: loader.weight(&at("output"), values)?,
        })
    }

    pub(crate) fn of(&self, x: &Rows, caches: &mut [LayerCache], layer: usize) -> Result<Rows> {
        let LinearPlan { key_heads, value_heads, key_dim, value_dim, .. } = self.plan;
        let cache = caches.get_mut(layer);
        let cache = cache.ok_or_else(|| Error::Mismatch(format!("no cache for layer {layer}")))?;
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
        let (mut beta, mut decay) = (self.beta.of(x)?, self.alpha.of(x)?);
        beta.apply(Function::Sigmoid);
        for row in decay.rows_mut() {
            for ((alpha, a_log), bias) in row.iter_mut().zip(&self.a_log).zip(&self.dt_bias) {
                *alpha = (-a_log.exp() * softplus(*alpha + bias)).exp();
            }
        }
        let each = key_dim * value_dim;
        cache.state.resize(value_heads * each, 0.0);
        let mut out = Rows::zeros(x.len(), values);
        let steps = q.rows().zip(k.rows()).zip(v.rows()).zip(beta.rows().zip(decay.rows()));
        for (out, (((q, k), v), (beta, decay))) in out.rows_mut().zip(steps) {
            let shared = value_heads / key_heads;
            let states = cache.state.chunks_exact_mut(each);
            let values = out.chunks_exact_mut(value_dim).zip(v.chunks_exact(value_dim));
            let rates = beta.iter().zip(decay);
            for (head, ((state, (out, v)), rates)) in states.zip(values).zip(rates).enumerate() {
                let own = head / shared * key_dim..(head / shared + 1) * key_dim;
                let (q, k) =
                    (q.get(own.clone()).unwrap_or_default(), k.get(own).unwrap_or_default());
                step(state, q, k, v, rates, out);
            }
        }
        let gate = self.gate.of(x)?;
        self.norm.apply(&mut out);
        out.gate(&gate, Activation::Silu);
        self.output.of(&out)
    }
}

/// One position of one head: the state decays, what it says of the key moves towards the value, and the
/// query reads it. A row of the state belongs to an element of the key.
fn step(
    state: &mut [f32],
    q: &[f32],
    k: &[f32],
    v: &[f32],
    (beta, decay): (&f32, &f32),
    out: &mut [f32],
) {
    let width = v.len().max(1);
    let mut change = v.to_vec();
    for (row, k) in state.chunks_exact_mut(width).zip(k) {
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
