//! The head of encoders that says which words were masked.

use crate::error::{Error, Result};
use crate::math::Activation;
use crate::plan::{NormPlan, Plan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

#[derive(Debug)]
pub(crate) struct MaskedWords {
    dense: Weight,
    activation: Activation,
    norm: Norm,
    /// `None` where the embedding serves.
    output: Option<Weight>,
    bias: Vec<f32>,
}

impl MaskedWords {
    pub(crate) fn load_if(
        loader: Loader<'_>,
        dim: usize,
        norm: NormPlan,
        plan: &Plan,
    ) -> Result<Option<Self>> {
        let Some(dense) = loader.weight_if("masked_words.dense", dim)? else { return Ok(None) };
        let width = dense.outputs();
        if !loader.has("masked_words.output.weight") && width != plan.embedding_dim {
            let fault = format!("a head of {width} for an embedding of {}", plan.embedding_dim);
            return Err(Error::Mismatch(fault));
        }
        let output = loader.weight_if("masked_words.output", width)?;
        let bias = match &output {
            // It is part of the matrix.
            Some(_) => Vec::new(),
            None => loader.vector_if("masked_words.output.bias")?.unwrap_or_default(),
        };
        let of_layers = plan.layers.first().map(|layer| layer.network.activation);
        let activation = plan.head_activation.or(of_layers);
        let activation =
            activation.ok_or_else(|| Error::Unsupported("a model without layers".to_owned()))?;
        let norm = loader.norm("masked_words.norm", width, norm)?;
        Ok(Some(Self { dense, activation, norm, output, bias }))
    }

    pub(crate) fn of(&self, hidden: &Rows, embedding: &Weight) -> Result<Rows> {
        let mut x = self.dense.of(hidden)?;
        x.apply(self.activation);
        self.norm.apply(&mut x);
        let mut logits = self.output.as_ref().unwrap_or(embedding).of(&x)?;
        for row in logits.rows_mut() {
            row.iter_mut().zip(&self.bias).for_each(|(logit, bias)| *logit += bias);
        }
        Ok(logits)
    }
}
