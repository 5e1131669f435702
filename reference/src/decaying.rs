//! Linear attention without a rule of change: sums of products of keys and values, which decay at a fixed
//! rate for each head (Qin et al., "Lightning Attention-2", 2024).

use weighbridge::arch::NormKind;

use crate::cache::LayerCache;
use crate::error::Result;
use crate::math::Function;
use crate::plan::{DecayingPlan, NormPlan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

#[derive(Debug)]
pub(crate) struct Decaying {
    plan: DecayingPlan,
    /// Queries, keys and values of each head, one after the other.
    qkv: Weight,
    gate: Weight,
    norm: Norm,
    output: Weight,
    /// The factor of each head's state after a position.
    decays: Vec<f32>,
}

impl Decaying {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: DecayingPlan,
    ) -> Result<Self> {
        let DecayingPlan { heads, head_dim, eps, .. } = plan;
        let at = |what: &str| format!("{name}.{what}");
        let width = heads * head_dim;
        let norm = NormPlan::new(NormKind::Rms, eps);
        #[expect(clippy::cast_precision_loss, reason = "numbers of heads")]
        let slope = |head: usize| (-8.0 * (head + 1) as f32 / heads as f32).exp2();
        let decay = |head: usize| (-slope(head) * plan.slope).exp();
        Ok(Self {
            plan,
            qkv: loader.sized(&at("qkv"), 3 * width, dim)?,
            gate: loader.sized(&at("gate"), width, dim)?,
            norm: loader.norm(&at("norm"), width, norm)?,
            output: loader.sized(&at("output"), dim, width)?,
            decays: (0..heads).map(decay).collect(),
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let DecayingPlan { heads, head_dim, activation, .. } = self.plan;
        let mut qkv = self.qkv.of(x)?;
        qkv.apply(activation);
        let each = head_dim * head_dim;
        cache.state.resize(heads * each, 0.0);
        let mut out = Rows::zeros(x.len(), heads * head_dim);
        for (out, qkv) in out.rows_mut().zip(qkv.rows()) {
            let heads = out.chunks_exact_mut(head_dim).zip(qkv.chunks_exact(3 * head_dim));
            let states = cache.state.chunks_exact_mut(each).zip(&self.decays);
            for ((out, qkv), (state, decay)) in heads.zip(states) {
                let (q, kv) = qkv.split_at(head_dim);
                let (k, v) = kv.split_at(head_dim);
                step(state, q, k, v, *decay, out);
            }
        }
        self.norm.apply(&mut out);
        out.gate(&self.gate.of(x)?, Function::Sigmoid);
        self.output.of(&out)
    }
}

/// One position of one head: the state decays, takes the product of key and value, and is read by the
/// query. A row of the state belongs to an element of the key.
fn step(state: &mut [f32], q: &[f32], k: &[f32], v: &[f32], decay: f32, out: &mut [f32]) {
    for ((row, k), q) in state.chunks_exact_mut(v.len().max(1)).zip(k).zip(q) {
        for ((state, v), out) in row.iter_mut().zip(v).zip(out.iter_mut()) {
            *state = *state * decay + k * v;
            *out += *state * q;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::step;

    /// The sum over positions of (q k) v, each with the decay of its distance.
    #[test]
    fn a_state_is_a_decaying_sum() {
        let mut state = vec![0.0; 4];
        let positions: [[[f32; 2]; 3]; 3] = [
            [[1.0, 0.0], [1.0, 2.0], [1.0, -1.0]],
            [[0.5, 1.0], [0.0, 1.0], [2.0, 3.0]],
            [[2.0, -1.0], [1.0, 1.0], [0.5, 4.0]],
        ];
        for (now, [q, k, v]) in positions.iter().enumerate() {
            let mut out = [0.0; 2];
            step(&mut state, q, k, v, 0.5, &mut out);
            for (element, out) in out.iter().enumerate() {
                let mut decay = 2.0;
                let sum: f32 = positions[..=now].iter().rev().fold(0.0, |sum, [_, k, v]| {
                    decay *= 0.5;
                    sum + (q[0] * k[0] + q[1] * k[1]) * v[element] * decay
                });
                assert!((sum - out).abs() < 1e-6, "{now}: {sum} and {out}");
            }
        }
    }
}
