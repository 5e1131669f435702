//! The head of encoders that says which words were masked.

use crate::error::{Error, Result};
use crate::math::Activation;
use crate::plan::{NormPlan, Plan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

#[derive(Debug)]
pub(crate) struct MaskedWords {
    /// The matrix and norm before the output, if there are any.
    transform: Option<(Weight, Norm)>,
    activation: Activation,
    /// `None` where the embedding serves.
    output: Option<Weight>,
    bias: Vec<f32>,
}

impl MaskedWords {
    pub(crate) fn load_if(
        loader: Loader<'_>,
        embedding: &Weight,
        dim: usize,
        norm: NormPlan,
        plan: &Plan,
    ) -> Result<Option<Self>> {
        let dense = loader.weight_if("masked_words.dense", dim)?;
        if dense.is_none() && !loader.has("masked_words.output.weight") {
            return Ok(None);
        }
        let width = dense.as_ref().map_or(dim, Weight::outputs);
        if !loader.has("masked_words.output.weight") && width != plan.embedding_dim {
            let fault = format!("a head of {width} for an embedding of {}", plan.embedding_dim);
            return Err(Error::Mismatch(fault));
        }
        let output = loader.weight_if("masked_words.output", width)?;
        let bias = match &output {
            // It is part of the matrix.
            Some(_) => Vec::new(),
            None => {
                let bias = loader.vector_if("masked_words.output.bias", embedding.outputs())?;
                bias.unwrap_or_default()
            }
        };
        let of_layers = plan.layers.first().map(|layer| layer.network.activation);
        let activation = plan.head_activation.or(of_layers);
        let activation =
            activation.ok_or_else(|| Error::Unsupported("a model without layers".to_owned()))?;
        let transform = match dense {
            Some(dense) => Some((dense, loader.norm("masked_words.norm", width, norm)?)),
            None => None,
        };
        Ok(Some(Self { transform, activation, output, bias }))
    }

    pub(crate) fn of(&self, hidden: &Rows, embedding: &Weight) -> Result<Rows> {
        let transformed = match &self.transform {
            Some((dense, norm)) => {
                let mut x = dense.of(hidden)?;
                x.apply(self.activation);
                norm.apply(&mut x);
                Some(x)
            }
            None => None,
        };
        let x = transformed.as_ref().unwrap_or(hidden);
        let mut logits = self.output.as_ref().unwrap_or(embedding).of(x)?;
        for row in logits.rows_mut() {
            row.iter_mut().zip(&self.bias).for_each(|(logit, bias)| *logit += bias);
        }
        Ok(logits)
    }
}
