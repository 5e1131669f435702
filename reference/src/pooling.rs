//! One vector for a text: the hidden states of its tokens, pooled.

use std::path::{Component, Path, PathBuf};

use weighbridge::json::Json;
use weighbridge::{Model, Tensor};

use crate::error::{Error, Result};
use crate::math::{Activation, Function};
use crate::model::Reference;
use crate::rows::Rows;

/// The way in which the hidden states of a text become one vector.
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
    /// The pooling that the model states. A model that states none takes the mean if its tokens see the
    /// whole text, and the last token if they see what came before.
    fn stated(model: &Model, reference: &Reference) -> Result<Self> {
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

/// The steps from hidden states to one vector of a text: pooling, and the dense layers after it,
/// which EmbeddingGemma has.
#[derive(Debug)]
pub struct Embedder<'r> {
    reference: &'r Reference,
    pooling: Pooling,
    layers: Vec<DenseLayer>,
    longest: Option<usize>,
}

/// A matrix behind the pooling.
#[derive(Debug)]
struct DenseLayer {
    weight: Tensor,
    outputs: usize,
    bias: Option<Vec<f32>>,
    activation: Option<Function>,
}

impl<'r> Embedder<'r> {
    /// The steps that a model states, with another pooling if one is chosen. GGUF has the dense layers as
    /// tensors; sentence-transformers keeps them in folders of their own, which `modules.json` lists.
    ///
    /// # Errors
    ///
    /// `Model` if the config or a layer cannot be read; `Unsupported` if the model states a pooling that
    /// does not give one vector, or a layer with an activation that is not here; `Mismatch` if the layers
    /// do not fit.
    pub fn new(model: &Model, reference: &'r Reference, chosen: Option<Pooling>) -> Result<Self> {
        let pooling = chosen.map_or_else(|| Pooling::stated(model, reference), Ok)?;
        let mut layers = Vec::new();
        for name in ["dense_2.weight", "dense_3.weight"] {
            if model.has(name) {
                layers.push(DenseLayer::new(model.tensor(name)?, None, None)?);
            }
        }
        let modules = model.read_document("modules.json")?;
        for module in modules.as_deref().and_then(Json::as_array).into_iter().flatten() {
            let text = |key: &str| module.get(key).and_then(Json::as_str).unwrap_or_default();
            if text("type").ends_with("Dense") {
                layers.push(DenseLayer::open(&beside(model.path(), text("path"))?)?);
            }
        }
        let mut width = reference.plan().dim;
        for layer in &layers {
            let inputs = layer.weight.shape().last().copied().unwrap_or_default();
            if inputs != width as u64 {
                let fault = format!("a dense layer takes {inputs} values, but gets {width}");
                return Err(Error::Mismatch(fault));
            }
            width = layer.outputs;
        }
        let settings = model.read_document("sentence_bert_config.json")?;
        let longest = settings.as_deref().and_then(|json| json.get("max_seq_length")?.as_u64());
        let longest = longest.and_then(|longest| usize::try_from(longest).ok());
        Ok(Self { reference, pooling, layers, longest: longest.filter(|longest| *longest > 0) })
    }

    /// The number of tokens that sentence-transformers cuts a text to, if the model states it
    /// (`max_seq_length` in `sentence_bert_config.json`).
    pub fn longest(&self) -> Option<usize> {
        self.longest
    }

    /// The pooling.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// The number of values in a vector.
    pub fn width(&self) -> usize {
        self.layers.last().map_or(self.reference.plan().dim, |layer| layer.outputs)
    }

    /// One vector for a text, which is not normalized.
    ///
    /// # Errors
    ///
    /// `Input` if there are no tokens, or one that the model does not have; `Model` if weights cannot
    /// be read.
    pub fn embed(&self, tokens: &[u32]) -> Result<Vec<f32>> {
        if tokens.is_empty() {
            return Err(Error::Input("a text without tokens has no embedding".to_owned()));
        }
        let hidden = match self.reference.plan().encodes() {
            true => self.reference.encode(tokens, None)?.hidden,
            false => self.reference.session().hidden(tokens)?,
        };
        let mut vector = self.pooling.of_rows(&hidden).values().to_vec();
        for layer in &self.layers {
            vector = layer.of(&vector)?;
        }
        Ok(vector)
    }
}

/// A folder beside a model's files.
fn beside(path: &Path, name: &str) -> Result<PathBuf> {
    let plain = |part| matches!(part, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(plain) {
        let fault = format!("modules.json names the folder \"{name}\", which is not next to it");
        return Err(Error::Mismatch(fault));
    }
    let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    Ok(folder.join(name))
}

impl DenseLayer {
    fn new(weight: Tensor, bias: Option<Vec<f32>>, activation: Option<Function>) -> Result<Self> {
        let [outputs, _] = weight.shape() else {
            let fault = format!("{} has the shape {:?}", weight.name(), weight.shape());
            return Err(Error::Mismatch(fault));
        };
        let outputs = usize::try_from(*outputs).unwrap_or(usize::MAX);
        if bias.as_ref().is_some_and(|bias| bias.len() != outputs) {
            let fault = format!("a bias that does not fit {}", weight.name());
            return Err(Error::Mismatch(fault));
        }
        Ok(Self { weight, outputs, bias, activation })
    }

    /// A module of sentence-transformers.
    fn open(folder: &Path) -> Result<Self> {
        let model = Model::open(folder)?;
        let named = model.document("config.json").and_then(|json| json.get("activation_function"));
        // A name in Python, as in `torch.nn.modules.activation.Tanh`.
        let named = named.and_then(Json::as_str).unwrap_or("Tanh");
        let activation = match named.rsplit('.').next() {
            Some("Identity") => None,
            Some("Tanh") => Some(Function::Tanh),
            Some("Sigmoid") => Some(Function::Sigmoid),
            Some("ReLU") => Some(Function::Activation(Activation::Relu)),
            Some("GELU") => Some(Function::Activation(Activation::Gelu)),
            Some("SiLU") => Some(Function::Activation(Activation::Silu)),
            _ => {
                let fault = format!("a dense layer with the activation {named}");
                return Err(Error::Unsupported(fault));
            }
        };
        let names: Vec<&str> = model.names()?.collect();
        let bias = match names.contains(&"linear.bias") {
            true => Some(model.tensor("linear.bias")?.dequantize()?.to_vec()),
            false => None,
        };
        Self::new(model.tensor("linear.weight")?, bias, activation)
    }

    fn of(&self, x: &[f32]) -> Result<Vec<f32>> {
        let mut out = vec![0.0; self.outputs];
        self.weight.row_reader()?.multiply_rows(0..self.outputs as u64, x, &mut out)?;
        for (out, bias) in out.iter_mut().zip(self.bias.iter().flatten()) {
            *out += bias;
        }
        if let Some(activation) = self.activation {
            out.iter_mut().for_each(|value| *value = activation.of(*value));
        }
        Ok(out)
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
