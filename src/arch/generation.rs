//! Recommended settings for generating text.

use super::config::nested_configs;
use super::kept::{GENERATION, Kept};
use super::{Field, FieldSource};
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::rounding::f32_of;
use crate::store::Store;

/// Settings for generating text, from `generation_config.json`, GGUF's `general.sampling.` keys, or
/// the parameters of an Ollama model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GenerationConfig {
    /// Whether tokens are sampled (true) or the most likely one is taken.
    pub do_sample: Option<Field<bool>>,
    /// Divisor of the logits.
    pub temperature: Option<Field<f32>>,
    /// Sample from this many of the most likely tokens.
    pub top_k: Option<Field<u32>>,
    /// Sample from the most likely tokens whose probabilities add up to this.
    pub top_p: Option<Field<f32>>,
    /// Sample from tokens with at least this probability, relative to the most likely token.
    pub min_p: Option<Field<f32>>,
    /// Penalty for tokens that have occurred already.
    pub repetition_penalty: Option<Field<f32>>,
    /// Maximum number of tokens to generate.
    pub max_new_tokens: Option<Field<u32>>,
    /// The token that starts a text.
    pub bos: Option<Field<u32>>,
    /// Tokens that end a text.
    pub eos: Option<Field<Vec<u32>>>,
    /// The padding token.
    pub pad: Option<Field<u32>>,
    /// Strings that end the answer.
    pub stop: Option<Field<Vec<String>>>,
    /// All other settings, as the files state them.
    pub other: Map<String, Json>,
}

/// The settings as the files state them, and how messages name the place of a key.
struct SettingsSource<'a> {
    json: Map<String, Json>,
    shown: fn(&str) -> FieldSource,
    store: &'a Store,
}

impl SettingsSource<'_> {
    /// Removes and returns the value of the first of these keys that is present.
    fn take<T>(
        &mut self,
        keys: &[&str],
        what: &str,
        read: impl Fn(&Json) -> Option<T>,
    ) -> Result<Option<Field<T>>> {
        for key in keys {
            let Some(json) = self.json.remove(key).filter(|json| !json.is_null()) else {
                continue;
            };
            let source = (self.shown)(key);
            let Some(value) = read(&json) else {
                let shown = crate::bytes::Text::new(json.to_string().as_bytes()).brief();
                let fault = format!("{shown}, but {what} is needed");
                return Err(Error::malformed(fault).in_file(self.store.path()).in_key(source));
            };
            return Ok(Some(Field { value, source }));
        }
        Ok(None)
    }
}

fn float(json: &Json) -> Option<f32> {
    let float = f32_of(json.as_f64()?);
    Some(float).filter(|float| float.is_finite())
}

fn count(json: &Json) -> Option<u32> {
    u32::try_from(json.as_u64()?).ok()
}

fn each<T>(json: &Json, read: fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    match json {
        Json::Array(list) => list.iter().map(read).collect(),
        one => Some(vec![read(one)?]),
    }
}

impl GenerationConfig {
    /// The settings stored with a model, or `None` if no file has any.
    ///
    /// # Errors
    ///
    /// `Malformed` if a setting has the wrong type, or the file is not valid JSON; `LimitExceeded`;
    /// `Io` if it cannot be read.
    pub(crate) fn of(store: &Store) -> Result<Option<Self>> {
        let Some(mut settings) = find(store)? else { return Ok(None) };
        let text = |json: &Json| json.as_str().map(str::to_owned);
        Ok(Some(Self {
            do_sample: settings.take(&["do_sample"], "true or false", Json::as_bool)?,
            temperature: settings.take(&["temperature", "temp"], "a number", float)?,
            top_k: settings.take(&["top_k"], "a count", count)?,
            top_p: settings.take(&["top_p"], "a number", float)?,
            min_p: settings.take(&["min_p"], "a number", float)?,
            repetition_penalty: settings.take(
                &["repetition_penalty", "repeat_penalty", "penalty_repeat"],
                "a number",
                float,
            )?,
            max_new_tokens: settings.take(
                &["max_new_tokens", "num_predict"],
                "a count",
                |json| {
                    // Ollama uses -1 for "no limit".
                    if json.as_i64().is_some_and(|number| number < 0) {
                        Some(u32::MAX)
                    } else {
                        count(json)
                    }
                },
            )?,
            bos: settings.take(&["bos_token_id"], "a token number", count)?,
            eos: settings.take(&["eos_token_id"], "a token number or a list of them", |json| {
                each(json, count)
            })?,
            pad: settings.take(&["pad_token_id"], "a token number", count)?,
            stop: settings.take(&["stop", "stop_strings"], "texts", |json| each(json, text))?,
            other: settings.json,
        }))
    }
}

/// See [`Model::end_tokens`](crate::Model::end_tokens).
pub(crate) fn end_tokens(store: &Store) -> Result<Vec<u32>> {
    if let Some(stated) = GenerationConfig::of(store)?.and_then(|settings| settings.eos) {
        return Ok(stated.value);
    }
    let ends = |config: &Map<String, Json>| each(config.get("eos_token_id")?, count);
    let own = store.document("config.json").map(nested_configs).unwrap_or_default();
    if let Some(stated) = own.iter().find_map(|(_, config)| ends(config.as_object()?)) {
        return Ok(stated);
    }
    let here = |error: Error| error.in_file(store.path());
    let generation = Kept::read_from(store.metadata(), GENERATION).map_err(here)?;
    let config = Kept::read(store.metadata()).map_err(here)?;
    let kept = ends(generation.config()).or_else(|| ends(config.config()));
    Ok(kept.unwrap_or_default())
}

fn find(store: &Store) -> Result<Option<SettingsSource<'_>>> {
    let file = "generation_config.json";
    if let Some(json) = store.read_document(file)? {
        let Json::Object(json) = json.into_owned() else {
            let fault = "the file is not a JSON object";
            return Err(Error::malformed(fault).in_file(store.path()).in_key(file));
        };
        let shown = |key: &str| FieldSource::document("generation_config.json", key);
        return Ok(Some(SettingsSource { json, shown, store }));
    }
    let key = "ollama.params";
    if let Some(text) = store.metadata().str(key) {
        let json = crate::store::document::parse(text.as_bytes(), store.limits())
            .map_err(|error| error.in_file(store.path()).in_key(key))?;
        if let Json::Object(json) = json {
            let shown = |key: &str| FieldSource::document("ollama.params", key);
            return Ok(Some(SettingsSource { json, shown, store }));
        }
    }
    let prefix = "general.sampling.";
    let mut json = Map::new();
    for (key, value) in store.metadata().iter() {
        let key = key.spelling();
        let Some(name) = key.strip_prefix(prefix) else { continue };
        let value = match (value.to_bool(), value.to_i128(), value.to_text()) {
            (Some(flag), ..) => Json::from(flag),
            (_, Some(number), _) => i64::try_from(number).map_or(Json::Null, Json::from),
            (.., Some(text)) => Json::from(text.spelling().into_owned()),
            _ => value.to_f64().map_or(Json::Null, Json::from),
        };
        json.insert(name.to_owned(), value);
    }
    let shown = |key: &str| FieldSource::key(format!("general.sampling.{key}"));
    Ok((!json.is_empty()).then_some(SettingsSource { json, shown, store }))
}
