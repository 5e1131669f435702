//! A mask that is computed from the values: each key has a number for its head, which is added to its
//! scores, and the keys with the largest numbers alone are attended to (Doge).

use std::cmp::Ordering;

use crate::error::Result;
use crate::math::softplus;
use crate::plan::AttentionPlan;
use crate::rows::Rows;
use crate::weight::{Loader, Weight};

#[derive(Debug)]
pub(crate) struct DynamicMask {
    step: Weight,
    /// For each key head, the factor of its steps.
    rates: Vec<f32>,
    /// The number of keys that a query attends to.
    kept: usize,
}

impl DynamicMask {
    /// The mask of the attention whose names start with `name`, or nothing where it has none.
    pub(crate) fn load_if(
        loader: Loader<'_>,
        name: &str,
        plan: &AttentionPlan,
    ) -> Result<Option<Self>> {
        let AttentionPlan { kv_heads, value_dim, kept_keys, .. } = *plan;
        let step = format!("{name}.mask.dt");
        if !loader.has(&format!("{step}.weight")) {
            return Ok(None);
        }
        Ok(Some(Self {
            step: loader.sized(&step, kv_heads, kv_heads * value_dim)?,
            rates: loader.vector(&format!("{name}.mask.a"), kv_heads)?,
            kept: kept_keys.unwrap_or(usize::MAX),
        }))
    }

    /// The numbers of keys with these values, one for each key head.
    pub(crate) fn numbers(&self, values: &Rows) -> Result<Rows> {
        let mut numbers = self.step.of(values)?;
        for row in numbers.rows_mut() {
            let steps = row.iter_mut().zip(&self.rates);
            steps.for_each(|(step, rate)| *step = (rate * softplus(*step)).exp());
        }
        Ok(numbers)
    }

    /// Adds to the scores of keys, from number `first` on, what a head's numbers say.
    pub(crate) fn apply(&self, numbers: &Rows, head: usize, first: usize, scores: &mut [f32]) {
        let own = numbers.values().iter().skip(head).step_by(self.rates.len().max(1));
        let own: Vec<f32> = own.skip(first).take(scores.len()).copied().collect();
        scores.iter_mut().zip(&own).for_each(|(score, number)| *score += number);
        if own.len() > self.kept {
            let mut falling: Vec<usize> = (0..own.len()).collect();
            falling
                .sort_by(|a, b| own.get(*b).partial_cmp(&own.get(*a)).unwrap_or(Ordering::Equal));
            for place in falling.into_iter().skip(self.kept) {
                let score = scores.get_mut(place);
                score.into_iter().for_each(|score| *score = f32::NEG_INFINITY);
            }
        }
    }
}
