//! Matrices that exponential gates write and forget (Beck et al., "xLSTM", 2024).

use weighbridge::arch::NormKind;

use crate::cache::LayerCache;
use crate::error::Result;
use crate::math::{Function, dot};
use crate::plan::{MatrixLstmPlan, NormPlan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

/// Added to what the output is divided by.
const EPS: f32 = 1e-6;

#[derive(Debug)]
pub(crate) struct MatrixLstm {
    plan: MatrixLstmPlan,
    q: Weight,
    k: Weight,
    v: Weight,
    write: Weight,
    forget: Weight,
    gate: Weight,
    norm: Norm,
    output: Weight,
}

impl MatrixLstm {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: MatrixLstmPlan,
        eps: f32,
    ) -> Result<Self> {
        let MatrixLstmPlan { heads, key_dim, value_dim, .. } = plan;
        let at = |what: &str| format!("{name}.{what}");
        let norm = NormPlan::new(NormKind::Layer, eps).in_runs(heads);
        Ok(Self {
            plan,
            q: loader.sized(&at("q"), heads * key_dim, dim)?,
            k: loader.sized(&at("k"), heads * key_dim, dim)?,
            v: loader.sized(&at("v"), heads * value_dim, dim)?,
            write: loader.sized(&at("write"), heads, dim)?,
            forget: loader.sized(&at("forget"), heads, dim)?,
            gate: loader.sized(&at("gate"), heads * value_dim, dim)?,
            norm: loader.norm(&at("norm"), value_dim, norm)?,
            output: loader.sized(&at("output"), dim, heads * value_dim)?,
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let MatrixLstmPlan { heads, key_dim, value_dim, gate_cap } = self.plan;
        let (mut q, k, v) = (self.q.of(x)?, self.k.of(x)?, self.v.of(x)?);
        #[expect(clippy::cast_precision_loss, reason = "heads are narrow")]
        q.scale((key_dim as f32).sqrt().recip());
        let (mut write, mut forget) = (self.write.of(x)?, self.forget.of(x)?);
        write.apply(Function::Cap(gate_cap));
        forget.apply(Function::Cap(gate_cap));
        // A matrix, a sum of keys, and the logarithm of their common factor.
        let each = key_dim * value_dim + key_dim + 1;
        cache.state.resize(heads * each, 0.0);
        let mut out = Rows::zeros(x.len(), heads * value_dim);
        let rows = q.rows().zip(k.rows()).zip(v.rows()).zip(write.rows().zip(forget.rows()));
        for (out, (((q, k), v), (write, forget))) in out.rows_mut().zip(rows) {
            let keys = q.chunks_exact(key_dim).zip(k.chunks_exact(key_dim));
            let values = v.chunks_exact(value_dim).zip(out.chunks_exact_mut(value_dim));
            let states = cache.state.chunks_exact_mut(each).zip(write.iter().zip(forget));
            for (((q, k), (v, out)), (state, (write, forget))) in keys.zip(values).zip(states) {
                step(state, (q, k, v), *write, *forget, out);
            }
        }
        self.norm.apply(&mut out);
        out.gate(&self.gate.of(x)?, Function::Sigmoid);
        self.output.of(&out)
    }
}

/// One position of one head. A row of the matrix belongs to an element of the key.
fn step(
    state: &mut [f32],
    (q, k, v): (&[f32], &[f32], &[f32]),
    write: f32,
    forget: f32,
    out: &mut [f32],
) {
    let (matrix, rest) = state.split_at_mut(k.len() * v.len());
    let (sums, factor) = rest.split_at_mut(k.len());
    let Some(factor) = factor.first_mut() else { return };
    // The logarithm of a sigmoid.
    let forget = -(-forget).exp().ln_1p();
    let most = (forget + *factor).max(write);
    let (old, new) = ((forget + *factor - most).exp(), (write - most).exp());
    *factor = most;
    let rows = matrix.chunks_exact_mut(v.len().max(1)).zip(sums.iter_mut());
    for ((row, sum), (k, q)) in rows.zip(k.iter().zip(q)) {
        *sum = old * *sum + new * k;
        for ((state, v), out) in row.iter_mut().zip(v).zip(out.iter_mut()) {
            *state = old * *state + new * k * v;
            *out += q * *state;
        }
    }
    let divisor = dot(q, sums).abs().max((-most).exp()) + EPS;
    out.iter_mut().for_each(|out| *out /= divisor);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quotient of two sums over positions, whose weights are the products of the gates.
    #[test]
    fn a_state_is_a_quotient_of_sums() {
        let positions = [
            ([0.3f32, 0.1], [1.0f32, 2.0], [1.0f32], 0.2f32, 1.0f32),
            ([-0.5, 0.4], [0.5, -1.0], [-2.0], 1.5, -0.3),
            ([0.9, 0.2], [2.0, 1.0], [3.0], -0.7, 0.8),
        ];
        let mut state = vec![0.0; 2 + 2 + 1];
        for now in 0..3 {
            let (q, k, v, write, forget) = positions[now];
            let mut out = [0.0];
            step(&mut state, (&q, &k, &v), write, forget, &mut out);
            let weight = |place: usize| {
                let kept = positions[place + 1..=now].iter().map(|(.., forget)| forget);
                let kept: f32 = kept.map(|forget| 1.0 / (1.0 + (-forget).exp())).product();
                positions[place].3.exp() * kept
            };
            let reads = |place: usize| q[0] * positions[place].1[0] + q[1] * positions[place].1[1];
            let sum: f32 = (0..=now).map(|at| weight(at) * reads(at) * positions[at].2[0]).sum();
            let all: f32 = (0..=now).map(|at| weight(at) * reads(at)).sum();
            // The factor of a state of nothing is 1, so that a divisor is at least 1.
            let expected = sum / all.abs().max(1.0);
            assert!((out[0] - expected).abs() < 1e-4, "{now}: {} and {expected}", out[0]);
        }
    }
}
