//! Recipes: which models are merged, and how.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::methods::MergeMethod;
use super::setting::{Setting, Settings};
use super::vocabulary::{MergedVocabulary, TokenName, TokenRow, TokenRule, VocabularySource};
use super::yaml;
use crate::adapter::Adapter;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::model::Model;

/// A recipe: models, methods and settings of a merge.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergeRecipe {
    /// The method.
    pub method: MergeMethod,
    /// The models.
    pub sources: Vec<MergeSource>,
    /// The number of the base among the models, for methods that have one.
    pub base: Option<usize>,
    /// Settings for all models.
    pub settings: Settings,
    /// The layers of the result, if they are not those of the models.
    pub slices: Vec<MergeSlice>,
    /// The tokens of the result, if they are not those of the models.
    pub vocabulary: Option<MergedVocabulary>,
    /// The dtype of the result: `F32`, `F16` or `BF16`. Without it, that of the base or of the first model.
    pub dtype: Option<DType>,
}

/// A model that is merged.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergeSource {
    /// The model.
    pub model: Model,
    /// Its settings, which replace those for all models.
    pub settings: Settings,
}

/// Layers of the result, each merged from one layer of each source.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergeSlice {
    /// The layers of models; all ranges are equally long.
    pub sources: Vec<SliceSource>,
    /// Settings for these layers.
    pub settings: Settings,
}

/// Layers of a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct SliceSource {
    /// The number of the model.
    pub model: usize,
    /// The layers, without the end.
    pub layers: Range<u32>,
    /// Settings for these layers of this model.
    pub settings: Settings,
}

impl MergeRecipe {
    /// Starts a recipe without models.
    pub fn new(method: MergeMethod) -> Self {
        let (sources, slices) = (Vec::new(), Vec::new());
        let (settings, vocabulary) = (Settings::default(), None);
        Self { method, sources, base: None, settings, slices, vocabulary, dtype: None }
    }

    /// Adds a model with a weight, and returns its number.
    pub fn add(&mut self, model: Model, weight: f64) -> usize {
        let mut settings = Settings::default();
        settings.set("weight", Setting::Number(weight));
        self.sources.push(MergeSource { model, settings });
        self.sources.len().saturating_sub(1)
    }

    /// Adds the base, and returns its number.
    pub fn add_base(&mut self, model: Model) -> usize {
        let number = self.add(model, 1.0);
        self.base = Some(number);
        number
    }

    /// The recipe of a file of mergekit's. `open` opens the models that it names.
    ///
    /// # Errors
    ///
    /// `Malformed` for a text that is not YAML; `Unsupported` for a method or key that is not known;
    /// `Mismatch` for a recipe that is not complete; any error of `open`.
    pub fn parse(text: &str, open: &dyn Fn(&str) -> Result<Model>) -> Result<Self> {
        let document = yaml::parse(text)?;
        let keys = document.as_object().ok_or_else(|| Error::malformed("a recipe is a mapping"))?;
        check_keys(
            keys,
            &[
                "merge_method",
                "base_model",
                "models",
                "slices",
                "parameters",
                "dtype",
                "out_dtype",
                "tokenizer",
                "tokenizer_source",
                "name",
            ],
        )?;
        let word = |key: &str| keys.get(key).and_then(Json::as_str);
        let method = word("merge_method").ok_or_else(|| lacks("merge_method"))?;
        let mut recipe = Self::new(MergeMethod::from_name(method)?);
        recipe.settings = Settings::parse(keys.get("parameters"))?;
        if let Some(name) = word("out_dtype").or(word("dtype")) {
            recipe.dtype = Some(dtype(name)?);
        }
        let mut models = Models { numbers: HashMap::new(), open };
        for entry in keys.get("models").and_then(Json::as_array).into_iter().flatten() {
            let (name, settings) = model_of(entry, &["model", "parameters"])?;
            let number = models.number(&name, &mut recipe)?;
            if let Some(source) = recipe.sources.get_mut(number) {
                source.settings = settings;
            }
        }
        for entry in keys.get("slices").and_then(Json::as_array).into_iter().flatten() {
            let slice = entry.as_object().ok_or_else(|| lacks("sources"))?;
            check_keys(slice, &["sources", "parameters"])?;
            let mut sources = Vec::new();
            for source in slice.get("sources").and_then(Json::as_array).into_iter().flatten() {
                let (name, settings) = model_of(source, &["model", "layer_range", "parameters"])?;
                let layers = layer_range(source.get("layer_range"))?;
                let model = models.number(&name, &mut recipe)?;
                sources.push(SliceSource { model, layers, settings });
            }
            let settings = Settings::parse(slice.get("parameters"))?;
            recipe.slices.push(MergeSlice { sources, settings });
        }
        if let Some(name) = word("base_model") {
            let listed = recipe.sources.len();
            let base = models.number(name, &mut recipe)?;
            if base >= listed && recipe.slices.is_empty() && !recipe.method.needs_base() {
                let method = recipe.method.name();
                let fault = format!("{method} merges the models of the list, which lacks {name}");
                let advice = "add it to models with its weight, or leave base_model out";
                return Err(Error::mismatch(fault).advise(advice).in_key("base_model"));
            }
            recipe.base = Some(base);
        }
        recipe.vocabulary = match (keys.get("tokenizer"), keys.get("tokenizer_source")) {
            (None, None) => None,
            (Some(section), None) => Some(models.vocabulary(section, recipe.base)?),
            (None, Some(source)) => Some(MergedVocabulary::new(models.tokens_of(source)?)),
            _ => {
                let fault = "a recipe has either tokenizer or tokenizer_source";
                return Err(Error::mismatch(fault).in_key("tokenizer_source"));
            }
        };
        Ok(recipe)
    }

    /// Checks what does not depend on tensors.
    pub(super) fn check(&self) -> Result<()> {
        if self.sources.is_empty() {
            return Err(Error::mismatch("the recipe names no models"));
        }
        if self.method.needs_base() && self.base.is_none() {
            let fault = format!("{} requires a base model", self.method.name());
            return Err(Error::mismatch(fault));
        }
        let of_slices = self.slices.iter().flat_map(|slice| {
            slice.sources.iter().map(|source| &source.settings).chain([&slice.settings])
        });
        let own = self.sources.iter().map(|source| &source.settings).chain([&self.settings]);
        for key in own.chain(of_slices).flat_map(Settings::keys) {
            // Every model has a weight, whether the method reads it or not.
            if key != "weight" && !self.method.settings().contains(&key) {
                let known = self.method.settings().join(", ");
                let fault = format!("{} has no setting {key}, but {known}", self.method.name());
                return Err(Error::unsupported(fault).in_key(key));
            }
        }
        for slice in &self.slices {
            let mut lengths = slice.sources.iter().map(|source| source.layers.len());
            let first = lengths.next().unwrap_or(0);
            if first == 0 || lengths.any(|length| length != first) {
                return Err(Error::mismatch("the layer ranges of a slice are not equally long"));
            }
        }
        self.slices.iter().flat_map(|slice| &slice.sources).try_for_each(|source| {
            let count = self.layer_count(source.model)?;
            if source.layers.end <= count {
                return Ok(());
            }
            let fault = format!("layer {}, but the model has {count}", source.layers.end);
            Err(Error::mismatch(fault).in_key("layer_range"))
        })
    }

    /// A note on the first model without a weight that is merged with one that has a weight.
    pub(super) fn unweighted(&self) -> Option<String> {
        const KEY: &str = "weight";
        let states = |settings: &Settings| settings.keys().any(|key| key == KEY);
        let is_base = |number| self.method.needs_base() && self.base == Some(number);
        if !self.method.settings().contains(&KEY) || states(&self.settings) {
            return None;
        }
        let own = |number: usize| self.sources.get(number).is_some_and(|it| states(&it.settings));
        let of_slice = |slice: &MergeSlice| {
            let stated = |it: &SliceSource| states(&it.settings) || states(&slice.settings);
            let sources = slice.sources.iter();
            sources.map(|it| (it.model, stated(it) || own(it.model))).collect::<Vec<_>>()
        };
        let groups = match self.slices.is_empty() {
            true => vec![(0..self.sources.len()).map(|number| (number, own(number))).collect()],
            false => self.slices.iter().map(of_slice).collect::<Vec<_>>(),
        };
        groups.into_iter().find_map(|mut group| {
            group.retain(|(number, _)| !is_base(*number));
            let lacking = group.iter().find(|(_, states)| !states);
            let (number, _) = lacking.filter(|_| group.iter().any(|(_, states)| *states))?;
            let path = self.model(*number).ok()?.path().display().to_string();
            Some(format!(
                "the recipe gives {path} no weight: it is taken as 1; mergekit requires one"
            ))
        })
    }

    /// A model.
    pub(super) fn model(&self, number: usize) -> Result<&Model> {
        self.sources.get(number).map(|source| &source.model).ok_or_else(|| lacks("models"))
    }

    /// The number of layers of a model.
    pub(super) fn layer_count(&self, source: usize) -> Result<u32> {
        Ok(self.model(source)?.config()?.n_layers.value)
    }

    /// The layer of the base that each layer of the result takes the config's values of.
    pub(super) fn layers(&self, model: &Model) -> Result<Vec<u32>> {
        if self.slices.is_empty() {
            return Ok((0..model.config()?.n_layers.value).collect());
        }
        let firsts = self.slices.iter().filter_map(|slice| slice.sources.first());
        Ok(firsts.flat_map(|source| source.layers.clone()).collect())
    }
}

/// The models that a file names, by name.
struct Models<'o> {
    numbers: HashMap<String, usize>,
    open: &'o dyn Fn(&str) -> Result<Model>,
}

impl Models<'_> {
    fn number(&mut self, name: &str, recipe: &mut MergeRecipe) -> Result<usize> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = recipe.add(self.opened(name)?, 1.0);
        if let Some(source) = recipe.sources.get_mut(number) {
            source.settings = Settings::default();
        }
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

impl Models<'_> {
    /// Opens a model, or `MODEL+ADAPTER`, which is mergekit's name of a model with an adapter merged into it.
    fn opened(&self, name: &str) -> Result<Model> {
        let parts = name.split_once('+').filter(|_| !Path::new(name).exists());
        if let Some((model, adapter)) = parts {
            return Adapter::merged(&(self.open)(model)?, &[Adapter::open(adapter)?.into()]);
        }
        let model = (self.open)(name)?;
        match Adapter::open(name) {
            Ok(_) => Err(Error::mismatch("an adapter, and not a model")
                .in_file(Path::new(name))
                .advise(format!("name it with its model: MODEL+{name}"))),
            Err(_) => Ok(model),
        }
    }
}

/// The vocabulary, in mergekit's form: `tokenizer`.
impl Models<'_> {
    /// The number of a model that is merged.
    fn merged(&self, name: &str) -> Result<usize> {
        self.numbers.get(name).copied().ok_or_else(|| {
            let fault = format!("the tokenizer names the model \"{name}\", which is not merged");
            Error::mismatch(fault).in_key("tokenizer").advise("list it with the weight 0")
        })
    }

    fn tokens_of(&self, source: &Json) -> Result<VocabularySource> {
        match source.as_str() {
            Some("union") => Ok(VocabularySource::Union),
            Some("base") => Ok(VocabularySource::Base),
            // Recipes of 2023 have a word before the name.
            Some(name) => {
                let name = name.strip_prefix("model:").unwrap_or(name);
                Ok(VocabularySource::Model(self.merged(name)?))
            }
            None => Err(lacks("source")),
        }
    }

    fn vocabulary(&self, section: &Json, base: Option<usize>) -> Result<MergedVocabulary> {
        let keys = section.as_object().ok_or_else(|| lacks("source"))?;
        check_keys(keys, &["source", "tokens", "remove", "pad_to_multiple_of"])?;
        let source = keys.get("source").map(|source| self.tokens_of(source)).transpose()?;
        let mut found = MergedVocabulary::new(source.unwrap_or(VocabularySource::Union));
        for (text, rule) in keys.get("tokens").and_then(Json::as_object).into_iter().flatten() {
            let mut parsed = TokenRule::default();
            if let Some(keys) = rule.as_object() {
                check_keys(keys, &["source", "force"])?;
                parsed.force = keys.get("force").and_then(Json::as_bool).unwrap_or(false);
                let row = keys.get("source").filter(|row| !row.is_null());
                parsed.row = row.map(|row| self.row(row, base.unwrap_or(0))).transpose()?;
            }
            found.rules.push((text.clone(), parsed));
        }
        for text in keys.get("remove").and_then(Json::as_array).into_iter().flatten() {
            found.removed.push(text.as_str().ok_or_else(|| lacks("remove"))?.to_owned());
        }
        let multiple = keys.get("pad_to_multiple_of").filter(|multiple| !multiple.is_null());
        if let Some(multiple) = multiple {
            found.multiple =
                multiple.as_u64().filter(|multiple| *multiple > 0).ok_or_else(|| {
                    let fault = format!("{multiple} is not a number above 0");
                    Error::mismatch(fault).in_key("pad_to_multiple_of")
                })?;
        }
        Ok(found)
    }

    /// The row of a token. `own` is the number of the model that is meant if none is named.
    fn row(&self, row: &Json, own: usize) -> Result<TokenRow> {
        if let Some(name) = row.as_str() {
            return Ok(TokenRow::Model(self.merged(name)?));
        }
        let keys = row.as_object().ok_or_else(|| lacks("source"))?;
        let known: &[&str] = match keys.get("kind").and_then(Json::as_str) {
            Some("zero" | "mean") => &["kind"],
            Some("random") => &["kind", "seed"],
            Some("model_token") => &["kind", "model", "token", "token_id"],
            _ => {
                let fault = "the kind is not model_token, zero, mean or random";
                return Err(Error::unsupported(fault).in_key("kind"));
            }
        };
        check_keys(keys, known)?;
        match keys.get("kind").and_then(Json::as_str) {
            Some("zero") => return Ok(TokenRow::Zero),
            Some("mean") => return Ok(TokenRow::Mean),
            Some("random") => {
                let seed = keys.get("seed").and_then(Json::as_u64).unwrap_or(0);
                return Ok(TokenRow::Random { seed });
            }
            _ => {}
        }
        let name = keys.get("model").and_then(Json::as_str);
        let model = name.map_or(Ok(own), |name| self.merged(name))?;
        let text = keys.get("token").and_then(Json::as_str).map(str::to_owned).map(TokenName::Text);
        let number = keys.get("token_id").and_then(Json::as_u64).map(TokenName::Number);
        match (text, number) {
            (Some(token), None) | (None, Some(token)) => Ok(TokenRow::Token { model, token }),
            _ => Err(Error::mismatch("give either token or token_id").in_key("token")),
        }
    }
}

/// The name and the settings of a model in a list.
fn model_of(entry: &Json, known: &[&str]) -> Result<(String, Settings)> {
    if let Some(keys) = entry.as_object() {
        check_keys(keys, known)?;
    }
    let named = entry.get("model").ok_or_else(|| lacks("model"))?;
    // The longer form names an adapter apart, and each of both as a text or as an object with a path.
    let path = |json: &Json| {
        let path = json.get("path").and_then(|path| path.get("path").or(Some(path)));
        path.unwrap_or(json).as_str().map(str::to_owned)
    };
    let model = path(named.get("model").unwrap_or(named)).ok_or_else(|| lacks("model"))?;
    let adapter = named.get("lora").filter(|lora| !lora.is_null());
    let adapter = adapter.map(|lora| path(lora).ok_or_else(|| lacks("lora"))).transpose()?;
    let name = adapter.map_or_else(|| model.clone(), |adapter| format!("{model}+{adapter}"));
    Ok((name, Settings::parse(entry.get("parameters"))?))
}

/// The layers of a slice: the first one, and the one after the last.
fn layer_range(stated: Option<&Json>) -> Result<Range<u32>> {
    let stated = stated.ok_or_else(|| lacks("layer_range"))?;
    let layer = |number: &Json| u32::try_from(number.as_u64()?).ok();
    let ends = stated.as_array().map(|ends| ends.iter().map(layer).collect::<Vec<_>>());
    match ends.as_deref() {
        Some([Some(start), Some(end)]) => Ok(*start..*end),
        _ => {
            let fault = format!(
                "{stated}, but two numbers are needed: the first layer, and the one after the last"
            );
            Err(Error::malformed(fault).in_key("layer_range"))
        }
    }
}

fn check_keys(keys: &Map<String, Json>, known: &[&str]) -> Result<()> {
    // Whatever other keys it has.
    if let Some(key) = ["gate_mode", "experts"].into_iter().find(|key| keys.contains_key(key)) {
        let fault = "a recipe of mergekit-moe, which makes a mixture of experts from dense models: this is not supported";
        return Err(Error::unsupported(fault).in_key(key));
    }
    match keys.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let fault = format!("the key is not one of {}", known.join(", "));
            let error = Error::unsupported(fault).in_key(key);
            Err(match key.as_str() {
                "chat_template" => error.advise("the template of the base model is kept: leave the key out, and set another one in the result"),
                _ => error,
            })
        }
        None => Ok(()),
    }
}

fn lacks(key: &str) -> Error {
    Error::mismatch("the recipe lacks this key").in_key(key)
}

fn dtype(name: &str) -> Result<DType> {
    match name {
        "float32" => Ok(DType::F32),
        "float16" => Ok(DType::F16),
        "bfloat16" => Ok(DType::BF16),
        other => {
            let fault = format!("the dtype is \"{other}\", not float32, float16 or bfloat16");
            Err(Error::mismatch(fault).in_key("dtype"))
        }
    }
}
