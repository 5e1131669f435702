//! One vector for a text: the hidden states of its tokens, pooled.

use serde_json::Value as Json;
use weighbridge::Model;

use crate::error::{Error, Result};
use crate::model::Reference;
use crate::rows::Rows;

/// How the hidden states of a text become one vector.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The state of the first token.
    First,
    /// The state of the last token.
    Last,
}

impl Pooling {
    /// The pooling that was chosen or, without a choice, the one that the model states. A model that
    /// states none takes the mean if its tokens see the whole text, and the last token if they see what
    /// came before.
    ///
    /// # Errors
    ///
    /// `Model` if the config cannot be read; `Unsupported` if the model has dense layers behind the
    /// pooling, or states a pooling that does not give one vector.
    pub fn of(model: &Model, reference: &Reference, chosen: Option<Self>) -> Result<Self> {
        if has_dense_layers(model)? {
            let fault = "the model has dense layers behind its pooling (EmbeddingGemma)";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        if let Some(chosen) = chosen {
            return Ok(chosen);
        }
        let Some(stated) = &model.config()?.attention.pooling_type else {
            return Ok(if reference.plan().encodes() { Self::Mean } else { Self::Last });
        };
        // 0 is "no pooling": the hidden states of all tokens.
        match stated.value {
            1 => Ok(Self::Mean),
            2 => Ok(Self::First),
            3 => Ok(Self::Last),
            4 => Err(Error::Unsupported("the model ranks texts, and has no embeddings".to_owned())),
            other => Err(Error::Unsupported(format!(
                "pooling {other} ({}): 1 (mean), 2 (first) and 3 (last) give one vector",
                stated.source
            ))),
        }
    }

    fn of_rows(self, hidden: &Rows) -> Rows {
        match self {
            Self::First => hidden.first(),
            Self::Last => hidden.last(),
            Self::Mean => {
                let mut mean = Rows::new(vec![0.0; hidden.width()], hidden.width());
                hidden.rows().for_each(|row| mean.add(&Rows::new(row.to_vec(), row.len()), 1.0));
                mean.scale(1.0 / hidden.len().max(1) as f32);
                mean
            }
        }
    }
}

/// Whether dense layers change the pooled vector. GGUF has them as tensors; sentence-transformers keeps
/// them in folders of their own, which `modules.json` lists.
fn has_dense_layers(model: &Model) -> Result<bool> {
    let modules = model.read_document("modules.json")?;
    let modules = modules.as_deref().and_then(Json::as_array).into_iter().flatten();
    let mut kinds = modules.filter_map(|module| module.get("type")?.as_str());
    Ok(model.has("dense_2.weight") || kinds.any(|kind| kind.ends_with("Dense")))
}

impl Reference {
    /// One vector for a text, which is not normalized.
    ///
    /// # Errors
    ///
    /// `Input` if there are no tokens, or one that the model does not have; `Model` if weights cannot
    /// be read.
    pub fn embedding(&self, tokens: &[u32], pooling: Pooling) -> Result<Vec<f32>> {
        if tokens.is_empty() {
            return Err(Error::Input("a text without tokens has no embedding".to_owned()));
        }
        let hidden = match self.plan().encodes() {
            true => self.encode(tokens, None)?.hidden,
            false => self.session().hidden(tokens)?,
        };
        Ok(pooling.of_rows(&hidden).values().to_vec())
    }
}

/// Scales a vector to length 1. A vector of zeros stays as it is.
#[expect(clippy::cast_possible_truncation, reason = "values are f32")]
pub fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_one() {
        let rows = Rows::new(vec![1.0, 2.0, 3.0, 4.0, 5.0, 9.0], 2);
        let pooled = |pooling: Pooling| pooling.of_rows(&rows).values().to_vec();
        assert_eq!(pooled(Pooling::Mean), [3.0, 5.0]);
        assert_eq!(pooled(Pooling::First), [1.0, 2.0]);
        assert_eq!(pooled(Pooling::Last), [5.0, 9.0]);
        let (mut vector, mut zeros) = ([3.0, 4.0], [0.0, 0.0]);
        normalize(&mut vector);
        normalize(&mut zeros);
        assert_eq!((vector, zeros), ([0.6, 0.8], [0.0, 0.0]));
    }
}
