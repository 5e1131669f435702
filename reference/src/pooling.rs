//! One vector for a text: the hidden states of its tokens, pooled.

use std::path::{Component, Path, PathBuf};

use weighbridge::json::Json;
use weighbridge::quant::Inputs;
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
    /// The largest value of each dimension.
    Max,
    /// The sum over all tokens, divided by the square root of their number.
    MeanSqrtLen,
    /// The mean over all tokens, weighted by their position, which starts at 1.
    WeightedMean,
}

/// The poolings of sentence-transformers, in the order in which it concatenates them: the flag in older files, the
/// name in newer ones, and the name here.
const POOLINGS: [(&str, &str, &str, Pooling); 6] = [
    ("pooling_mode_cls_token", "cls", "first", Pooling::First),
    ("pooling_mode_max_tokens", "max", "max", Pooling::Max),
    ("pooling_mode_mean_tokens", "mean", "mean", Pooling::Mean),
    (
        "pooling_mode_mean_sqrt_len_tokens",
        "mean_sqrt_len_tokens",
        "mean_sqrt_len",
        Pooling::MeanSqrtLen,
    ),
    ("pooling_mode_weightedmean_tokens", "weightedmean", "weighted_mean", Pooling::WeightedMean),
    ("pooling_mode_lasttoken", "lasttoken", "last", Pooling::Last),
];

impl Pooling {
    /// The name, such as `mean`.
    pub fn name(self) -> &'static str {
        let row = POOLINGS.iter().find(|(.., pooling)| *pooling == self);
        row.map_or("unknown", |(_, _, name, _)| name)
    }

    /// The pooling that GGUF's key states. A model that states none takes the mean if its tokens see the
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

    /// Those that the module of sentence-transformers states, whose vectors are concatenated.
    fn of_module(config: &Json) -> Result<Vec<Self>> {
        let flag = |key: &str| config.get(key).and_then(Json::as_bool) == Some(true);
        let names: Vec<&str> = match config.get("pooling_mode") {
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            Some(name) => name.as_str().into_iter().collect(),
            None => {
                POOLINGS.iter().filter(|(key, ..)| flag(key)).map(|(_, name, ..)| *name).collect()
            }
        };
        let known = |name: &&str| {
            let row = POOLINGS.iter().find(|(_, known, ..)| known == name);
            row.map(|(.., pooling)| *pooling)
                .ok_or_else(|| Error::Unsupported(format!("the pooling \"{name}\"")))
        };
        let found = names.iter().map(known).collect::<Result<Vec<_>>>()?;
        Ok(if found.is_empty() { vec![Self::Mean] } else { found })
    }

    /// One vector of the hidden states after the first `skipped`, which belong to a prompt.
    fn of_rows(self, hidden: &Rows, skipped: usize) -> Vec<f32> {
        let weight = |place: usize| match self {
            Self::WeightedMean => place as f32 + 1.0,
            _ => 1.0,
        };
        let (mut out, mut total) = (vec![0.0; hidden.width()], 0.0);
        if self == Self::Max {
            out.fill(f32::NEG_INFINITY);
        }
        for (place, row) in hidden.rows().enumerate().skip(skipped) {
            let weight = weight(place);
            total += weight;
            for (out, value) in out.iter_mut().zip(row) {
                *out = match self {
                    Self::First if place > skipped => *out,
                    Self::First | Self::Last => *value,
                    Self::Max => out.max(*value),
                    Self::Mean | Self::MeanSqrtLen | Self::WeightedMean => *out + weight * value,
                };
            }
        }
        let divisor: f32 = match self {
            Self::Mean | Self::WeightedMean => total,
            Self::MeanSqrtLen => total.sqrt(),
            Self::First | Self::Last | Self::Max => 1.0,
        };
        out.iter_mut().for_each(|value| *value /= divisor);
        out
    }
}

/// The steps from hidden states to one vector of a text: pooling, and the modules after it, such as the dense
/// layers of EmbeddingGemma.
#[derive(Debug)]
pub struct Embedder<'r> {
    reference: &'r Reference,
    poolings: Vec<Pooling>,
    steps: Vec<Step>,
    /// The number of values after the steps.
    width: usize,
    longest: Option<usize>,
    prompt: Option<String>,
    /// Whether the tokens of the prompt are pooled too.
    pools_prompt: bool,
}

/// A matrix behind the pooling.
#[derive(Debug)]
struct DenseLayer {
    weight: Tensor,
    outputs: usize,
    bias: Option<Vec<f32>>,
    activation: Option<Function>,
}

/// A step after the pooling.
#[derive(Debug)]
enum Step {
    Dense(Box<DenseLayer>),
    LayerNorm {
        weight: Vec<f32>,
        bias: Vec<f32>,
    },
    Normalize,
    /// Keeps this many values.
    Truncate(usize),
}

impl Step {
    /// The number of values that it gives for `width` values.
    fn width(&self, width: usize) -> Result<usize> {
        let (inputs, outputs, what) = match self {
            Self::Dense(layer) => {
                let inputs = layer.weight.shape().last().copied().unwrap_or_default();
                (usize::try_from(inputs).unwrap_or(usize::MAX), layer.outputs, "dense layer")
            }
            Self::LayerNorm { weight, bias } if weight.len() == bias.len() => {
                (weight.len(), weight.len(), "LayerNorm")
            }
            Self::LayerNorm { .. } => (0, 0, "LayerNorm with another bias"),
            Self::Normalize => return Ok(width),
            Self::Truncate(most) => return Ok(width.min(*most)),
        };
        if inputs == width {
            return Ok(outputs);
        }
        Err(Error::Mismatch(format!("a {what} takes {inputs} values, but gets {width}")))
    }

    fn of(&self, mut vector: Vec<f32>) -> Result<Vec<f32>> {
        /// PyTorch's default, which sentence-transformers keeps.
        const EPSILON: f32 = 1e-5;
        match self {
            Self::Dense(layer) => return layer.of(&vector),
            Self::Normalize => normalize(&mut vector),
            Self::Truncate(most) => vector.truncate(*most),
            Self::LayerNorm { weight, bias } => {
                let count = vector.len().max(1) as f32;
                let mean = vector.iter().sum::<f32>() / count;
                let variance = vector.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count;
                let factor = 1.0 / (variance + EPSILON).sqrt();
                for ((x, weight), bias) in vector.iter_mut().zip(weight).zip(bias) {
                    *x = (*x - mean) * factor * weight + bias;
                }
            }
        }
        Ok(vector)
    }
}

impl<'r> Embedder<'r> {
    /// The steps that a model states, with another pooling if one is chosen. GGUF has the dense layers as
    /// tensors; sentence-transformers keeps them in folders of their own, which `modules.json` lists.
    ///
    /// # Errors
    ///
    /// `Model` if the config or a layer cannot be read; `Unsupported` if the model states a pooling that
    /// does not give one vector, or has a module or an activation that is not here; `Mismatch` if the layers
    /// do not fit.
    pub fn new(model: &Model, reference: &'r Reference, chosen: Option<Pooling>) -> Result<Self> {
        let mut steps = Vec::new();
        for name in ["dense_2.weight", "dense_3.weight"] {
            if model.has(name) {
                steps.push(Step::Dense(Box::new(DenseLayer::new(
                    model.tensor(name)?,
                    None,
                    None,
                )?)));
            }
        }
        let (mut pooled, mut pools_prompt) = (None, true);
        let modules = model.read_document("modules.json")?;
        let modules = modules.as_deref().and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        for module in modules {
            let text = |key: &str| module.get(key).and_then(Json::as_str).unwrap_or_default();
            let folder = text("path").trim_end_matches('/');
            match text("type").rsplit('.').next().unwrap_or_default() {
                "Transformer" | "Dropout" => {}
                "Normalize" => steps.push(Step::Normalize),
                "Dense" => {
                    steps.push(Step::Dense(Box::new(DenseLayer::open(&beside(
                        model.path(),
                        folder,
                    )?)?)));
                }
                "LayerNorm" => steps.push(layer_norm(&beside(model.path(), folder)?)?),
                "Pooling" => {
                    beside(model.path(), folder)?;
                    let file = format!("{folder}/config.json");
                    let config = model.read_document(&file)?.ok_or_else(|| {
                        Error::Mismatch(format!("{file}, which states the pooling, is missing"))
                    })?;
                    pooled = Some(Pooling::of_module(&config)?);
                    pools_prompt =
                        config.get("include_prompt").and_then(Json::as_bool) != Some(false);
                }
                kind => {
                    let fault = format!(
                        "the module {kind} of modules.json, which gives no vector of a text here"
                    );
                    return Err(Error::Unsupported(fault));
                }
            }
        }
        let poolings = match (chosen, pooled) {
            (Some(chosen), _) => vec![chosen],
            (None, Some(pooled)) => pooled,
            (None, None) if modules.is_empty() => vec![Pooling::stated(model, reference)?],
            (None, None) => {
                let fault = "modules.json lists no Pooling: the model has a vector for each token";
                return Err(Error::Unsupported(fault.to_owned()));
            }
        };
        // The caller normalizes.
        while matches!(steps.last(), Some(Step::Normalize)) {
            steps.pop();
        }
        let settings = model.read_document("config_sentence_transformers.json")?;
        let setting = |key: &str| settings.as_deref()?.get(key);
        let count =
            |json: Option<&Json>| usize::try_from(json?.as_u64()?).ok().filter(|count| *count > 0);
        steps.extend(count(setting("truncate_dim")).map(Step::Truncate));
        let prompt = setting("default_prompt_name").and_then(Json::as_str);
        let prompt = prompt.and_then(|name| setting("prompts")?.get(name)?.as_str());
        let prompt = prompt.filter(|prompt| !prompt.is_empty()).map(str::to_owned);
        let width = reference.plan().dim.saturating_mul(poolings.len());
        let width = steps.iter().try_fold(width, |width, step| step.width(width))?;
        let settings = model.read_document("sentence_bert_config.json")?;
        let longest = count(settings.as_deref().and_then(|json| json.get("max_seq_length")));
        Ok(Self { reference, poolings, steps, width, longest, prompt, pools_prompt })
    }

    /// The number of tokens that sentence-transformers cuts a text to, if the model states it
    /// (`max_seq_length` in `sentence_bert_config.json`).
    pub fn longest(&self) -> Option<usize> {
        self.longest
    }

    /// The text that sentence-transformers puts before each text, if the model states one
    /// (`default_prompt_name` in `config_sentence_transformers.json`).
    pub fn prompt(&self) -> Option<&str> {
        self.prompt.as_deref()
    }

    /// Whether the tokens of the prompt are pooled too.
    pub fn pools_prompt(&self) -> bool {
        self.pools_prompt
    }

    /// The poolings, whose vectors are concatenated.
    pub fn poolings(&self) -> &[Pooling] {
        &self.poolings
    }

    /// The number of values in a vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// One vector for a text, which is not normalized. The first `skipped` tokens are not pooled.
    ///
    /// # Errors
    ///
    /// `Input` if there are no tokens, or one that the model does not have; `Model` if weights cannot
    /// be read.
    pub fn embed(&self, tokens: &[u32], skipped: usize) -> Result<Vec<f32>> {
        if tokens.len() <= skipped {
            return Err(Error::Input("a text without tokens has no embedding".to_owned()));
        }
        let hidden = match self.reference.plan().encodes() {
            true => self.reference.encode(tokens, None)?.hidden,
            false => self.reference.session().hidden(tokens)?,
        };
        let pooled = self.poolings.iter().flat_map(|pooling| pooling.of_rows(&hidden, skipped));
        self.steps.iter().try_fold(pooled.collect(), |vector, step| step.of(vector))
    }
}

/// A layer norm of sentence-transformers.
fn layer_norm(folder: &Path) -> Result<Step> {
    let model = Model::open(folder)?;
    let values =
        |name: &str| -> Result<Vec<f32>> { Ok(model.tensor(name)?.dequantize()?.to_vec()) };
    Ok(Step::LayerNorm { weight: values("norm.weight")?, bias: values("norm.bias")? })
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
        self.weight.row_reader()?.multiply_rows(
            0..self.outputs as u64,
            &Inputs::new(x),
            &mut out,
        )?;
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
        let pooled = |pooling: Pooling| pooling.of_rows(&rows, 0);
        assert_eq!(pooled(Pooling::Mean), [3.0, 5.0]);
        assert_eq!(pooled(Pooling::First), [1.0, 2.0]);
        assert_eq!(pooled(Pooling::Last), [5.0, 9.0]);
        assert_eq!(pooled(Pooling::Max), [5.0, 9.0]);
        assert_eq!(pooled(Pooling::WeightedMean), [22.0 / 6.0, 37.0 / 6.0]);
        assert_eq!(pooled(Pooling::MeanSqrtLen), [9.0 / 3f32.sqrt(), 15.0 / 3f32.sqrt()]);
        // Positions count from the start of the prompt.
        assert_eq!(Pooling::WeightedMean.of_rows(&rows, 1), [21.0 / 5.0, 35.0 / 5.0]);
        assert_eq!(Pooling::First.of_rows(&rows, 1), [3.0, 4.0]);
        let (mut vector, mut zeros) = ([3.0, 4.0], [0.0, 0.0]);
        normalize(&mut vector);
        normalize(&mut zeros);
        assert_eq!((vector, zeros), ([0.6, 0.8], [0.0, 0.0]));
    }

    #[test]
    fn modules_state_poolings() {
        let of = |text: &str| Pooling::of_module(&Json::parse(text.as_bytes()).expect("JSON"));
        let two = r#"{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}"#;
        assert_eq!(of(two).expect("known"), [Pooling::First, Pooling::Mean]);
        let listed = r#"{"pooling_mode": ["weightedmean", "cls"]}"#;
        assert_eq!(of(listed).expect("known"), [Pooling::WeightedMean, Pooling::First]);
        assert_eq!(of("{}").expect("the default"), [Pooling::Mean]);
        let unknown = of(r#"{"pooling_mode": "attention"}"#).expect_err("unknown");
        assert_eq!(unknown.to_string(), "unsupported: the pooling \"attention\"");
    }

    #[test]
    fn steps_follow_the_pooling() {
        let norm = Step::LayerNorm { weight: vec![2.0, 1.0], bias: vec![0.0, 1.0] };
        let out = norm.of(vec![1.0, 3.0]).expect("values");
        assert!((out[0] + 2.0).abs() < 1e-4 && (out[1] - 2.0).abs() < 1e-4, "{out:?}");
        assert_eq!(Step::Truncate(1).of(vec![1.0, 3.0]).expect("values"), [1.0]);
        let fault = norm.width(3).expect_err("another width").to_string();
        assert!(fault.ends_with("a LayerNorm takes 2 values, but gets 3"), "{fault}");
    }
}
