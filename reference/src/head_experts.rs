//! Experts that are pairs of a query matrix and an output matrix, with the same keys and values for all
//! (Zhang et al., "Mixture of Attention Heads", 2022; JetMoE).

use crate::error::{Error, Result};
use crate::math::softmax;
use crate::network::largest;
use crate::plan::AttentionPlan;
use crate::rows::Rows;
use crate::weight::{Loader, Weight};

/// A router and its pairs of matrices.
#[derive(Debug)]
pub(crate) struct HeadExperts {
    router: Weight,
    q: Weight,
    output: Weight,
    /// Added to what the experts give together.
    bias: Option<Rows>,
    /// Experts for each token. Each has a query for every key head.
    used: usize,
    kv_heads: usize,
}

/// A row that chose an expert: which of its choices that is, and the expert's weight.
#[derive(Clone, Copy, Debug)]
struct Choice {
    row: usize,
    slot: usize,
    weight: f32,
}

impl HeadExperts {
    /// The experts of the attention whose names start with `name`, or nothing where it has none.
    pub(crate) fn load_if(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: &AttentionPlan,
    ) -> Result<Option<Self>> {
        let AttentionPlan { heads, kv_heads, head_dim, value_dim, .. } = *plan;
        let at = |what: &str| format!("{name}.{what}");
        if !loader.has(&at("experts.q.weight")) {
            return Ok(None);
        }
        let router = loader.weight(&at("router"), dim)?;
        let q = loader.sized(&at("experts.q"), kv_heads * head_dim, dim)?;
        let output = loader.sized(&at("experts.output"), dim, kv_heads * value_dim)?;
        let (count, used) = (router.outputs(), heads / kv_heads);
        if [q.arrays(), output.arrays()] != [count; 2] || !(1..=count).contains(&used) {
            let fault = format!("{name} has {count} experts, {used} for each token");
            return Err(Error::Mismatch(fault));
        }
        let bias = loader.vector_if(&at("experts.bias"), dim)?.map(|bias| Rows::new(bias, dim));
        Ok(Some(Self { router, q, output, bias, used, kv_heads }))
    }

    /// For each expert, the rows of `x` that chose it.
    fn choices(&self, x: &Rows) -> Result<Vec<Vec<Choice>>> {
        let mut of_experts = vec![Vec::new(); self.q.arrays()];
        for (row, scores) in self.router.of(x)?.rows().enumerate() {
            let chosen = largest(scores, self.used);
            let score = |expert: &usize| scores.get(*expert).copied().unwrap_or_default();
            let mut weights: Vec<f32> = chosen.iter().map(score).collect();
            softmax(&mut weights, None);
            for (slot, (expert, weight)) in chosen.into_iter().zip(weights).enumerate() {
                let own = of_experts.get_mut(expert);
                own.into_iter().for_each(|own| own.push(Choice { row, slot, weight }));
            }
        }
        Ok(of_experts)
    }

    /// The place of a head: those with the same keys follow each other.
    fn place(&self, kv: usize, choice: Choice) -> usize {
        kv * self.used + choice.slot
    }

    /// The queries of the chosen experts.
    pub(crate) fn queries(&self, x: &Rows) -> Result<Rows> {
        let width = self.q.outputs() / self.kv_heads;
        let mut out = Rows::zeros(x.len(), self.used * self.q.outputs());
        for (expert, choices) in self.choices(x)?.into_iter().enumerate() {
            let own = choices.iter().flat_map(|choice| x.row(choice.row).unwrap_or_default());
            let own = Rows::new(own.copied().collect(), x.width());
            let given = self.q.of_array(expert, &own)?;
            for (choice, given) in choices.iter().zip(given.rows()) {
                let Some(row) = out.rows_mut().nth(choice.row) else { continue };
                for (kv, head) in given.chunks_exact(width).enumerate() {
                    let place = row.iter_mut().skip(self.place(kv, *choice) * width);
                    place.zip(head).for_each(|(out, q)| *out = *q);
                }
            }
        }
        Ok(out)
    }

    /// The output of the chosen experts, from what their heads attended to. `x` is the input that they were chosen for.
    pub(crate) fn output(&self, mixed: &Rows, x: &Rows) -> Result<Rows> {
        let width = mixed.width() / (self.used * self.kv_heads);
        let mut out = Rows::zeros(x.len(), x.width());
        for (expert, choices) in self.choices(x)?.into_iter().enumerate() {
            let heads = choices.iter().flat_map(|choice| {
                let row = mixed.row(choice.row).unwrap_or_default();
                let head = |kv| row.iter().skip(self.place(kv, *choice) * width).take(width);
                (0..self.kv_heads).flat_map(head)
            });
            let own = Rows::new(heads.copied().collect(), self.kv_heads * width);
            let given = self.output.of_array(expert, &own)?;
            for (choice, given) in choices.iter().zip(given.rows()) {
                let Some(row) = out.rows_mut().nth(choice.row) else { continue };
                row.iter_mut().zip(given).for_each(|(out, given)| *out += choice.weight * given);
            }
        }
        self.bias.iter().for_each(|bias| out.add_row(bias, 0));
        Ok(out)
    }
}
