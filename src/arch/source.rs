//! A model to be translated, as the rules of its family read it, and a writer for its GGUF keys.

use std::path::Path;

use super::config::{
    ConfigField, ConfigReader, Field, KEPT_CONFIG, KEYS, KeptDocument, Key, LayerKind, ModelConfig,
    Reported, SourceKind, key, nested_configs, pooling,
};
use super::mapping::{Mapping, next_layers};
use super::rule::KeyedTensor;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::metadata::{KeyValues, Metadata, Value};
use crate::rounding::f32_of;
use crate::store::{Encoding, Store};

/// A model and its config.
pub(crate) struct SourceModel<'a> {
    reader: ConfigReader<'a>,
    pub(crate) config: ModelConfig,
    pub(super) mapped: &'a [Mapping],
    /// Whether rotary embeddings turn neighbors of a head, and not its halves, in a Hugging Face checkpoint.
    pub(crate) turns_neighbors: bool,
}

impl<'a> SourceModel<'a> {
    /// A model by its config and its canonical tensors.
    pub(super) fn new(
        reader: ConfigReader<'a>,
        config: ModelConfig,
        mapped: &'a [Mapping],
        turns_neighbors: bool,
    ) -> Self {
        Self { reader, config, mapped, turns_neighbors }
    }

    pub(super) fn into_config(self) -> (ModelConfig, Option<KeptDocument>) {
        (self.config, self.reader.kept)
    }

    pub(crate) fn store(&self) -> &'a Store {
        self.reader.store
    }

    pub(crate) fn path(&self) -> &Path {
        self.reader.store.path()
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.reader.store.encoding()
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        self.reader.store.metadata()
    }

    /// A value of the model's `config.json` that a GGUF file keeps.
    pub(crate) fn kept(&self, key: &str) -> Option<Json> {
        Map::parse(self.metadata().str(KEPT_CONFIG)?.as_bytes()).ok()?.remove(key)
    }

    /// The architecture, as the model's files name it.
    pub(crate) fn architecture(&self) -> &str {
        &self.config.architecture.value
    }

    /// Whether the model has a tensor with this canonical name.
    pub(crate) fn has(&self, canonical: &str) -> bool {
        self.mapped.iter().any(|mapping| mapping.canonical == canonical)
    }

    /// Whether any layer has a tensor with this canonical name.
    pub(crate) fn has_in_layers(&self, rest: &str) -> bool {
        (0..self.own_layers()).any(|layer| self.has(&format!("layers.{layer}.{rest}")))
    }

    /// The values of a stored tensor that was derived from the config.
    pub(crate) fn values(&self, stored: &str) -> Result<Vec<f32>> {
        Ok(self.reader.store.tensor(stored)?.dequantize()?.to_vec())
    }

    /// The values of the tensors that a key of GGUF states, one for each layer; empty if the model has
    /// none.
    pub(crate) fn keyed(&self, tensor: &KeyedTensor) -> Result<Vec<f32>> {
        let mut mapped = self.mapped.iter().filter(|m| tensor.is(&m.canonical));
        if mapped.next().is_none() {
            return Ok(Vec::new());
        }
        let of_layer = |layer: u32| {
            let canonical = tensor.canonical.replace("{n}", &layer.to_string());
            let mut mapped = self.mapped.iter();
            let found = mapped.find(|mapping| mapping.canonical == canonical);
            let stored = found.and_then(|mapping| mapping.stored.first());
            let stored = stored.ok_or_else(|| self.missing_in_config(&canonical))?;
            let values = self.values(stored)?;
            let [value] = values.as_slice() else {
                let fault = format!("{} values, but one is needed", values.len());
                return Err(Error::mismatch(fault).in_tensor(stored).in_file(self.path()));
            };
            Ok(*value)
        };
        (0..self.own_layers()).map(of_layer).collect()
    }

    /// The shape of the stored tensor that holds this canonical one.
    pub(crate) fn shape(&self, canonical: &str) -> Option<&'a [u64]> {
        let mut mapped = self.mapped.iter();
        let mapping = mapped.find(|mapping| mapping.canonical == canonical)?;
        Some(self.reader.store.find(mapping.stored.first()?)?.shape())
    }

    /// The number of rows of the stored tensor that holds this canonical matrix. llama.cpp's programs store a matrix
    /// of one row without that axis.
    pub(crate) fn rows(&self, canonical: &str) -> Option<u64> {
        match self.shape(canonical)? {
            [_] => Some(1),
            shape => shape.first().copied(),
        }
    }

    /// The value of a config field as the files state it, or as the shapes of their tensors do.
    pub(crate) fn row(&self, name: &str) -> Result<Option<Json>> {
        let Some(key) = key(name) else { return Ok(None) };
        let stated: Option<Field<Json>> = self.reader.field(key, key.value)?;
        let is_shown = |field: &ConfigField<'_>| {
            field.name == name && field.source.kind() == SourceKind::Tensors
        };
        let shown = || self.config.fields().into_iter().find(is_shown).map(|field| field.value);
        Ok(stated.map(|field| field.value).or_else(shown))
    }

    /// The value of a config field, derived if the files do not state it.
    pub(crate) fn derived(&self, name: &str) -> Option<Json> {
        let fields = self.config.fields();
        fields.into_iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// The value of the field that a key of `config.json` names.
    pub(crate) fn named(&self, json: &str) -> Result<Option<Json>> {
        let states = |key: &&Key| self.reader.keys(key).any(|name| name == json);
        for key in KEYS.iter().copied().flatten().filter(states) {
            // The config has one epsilon, whatever the kind of norms.
            let name = if key.name.ends_with("_eps") { "norm_eps" } else { key.name };
            let found = match self.derived(name) {
                None => self.row(key.name)?,
                derived => derived,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The value in `config.json` at a path that the table has no row for.
    pub(crate) fn config_value(&self, path: &str) -> Option<&Json> {
        let store = self.reader.store;
        let root = store.document("config.json").or_else(|| store.document("params.json"))?;
        let configs = nested_configs(root).into_iter();
        let at = |config| path.split('.').try_fold(config, |json: &Json, name| json.get(name));
        let (nulls, values): (Vec<_>, Vec<_>) =
            configs.filter_map(|(_, config)| at(config)).partition(|json| json.is_null());
        let of_class = || self.reader.of_class(std::iter::once(path)).map(|(_, value)| value);
        // A null that is stated is none, whatever the class has without it.
        let usual = if nulls.is_empty() { of_class() } else { None };
        values.into_iter().next().or(usual)
    }

    /// A count in `config.json` at such a path.
    pub(crate) fn count(&self, path: &str) -> Result<Option<u32>> {
        let Some(json) = self.config_value(path) else { return Ok(None) };
        let count = json.as_u64().and_then(|count| u32::try_from(count).ok());
        count.map(Some).ok_or_else(|| self.invalid_json(path, json, "a count"))
    }

    /// A number in `config.json` at such a path.
    pub(crate) fn real(&self, path: &str) -> Result<Option<f32>> {
        let Some(json) = self.config_value(path) else { return Ok(None) };
        let real = json.as_f64().map(f32_of).filter(|real| real.is_finite());
        real.map(Some).ok_or_else(|| self.invalid_json(path, json, "a number"))
    }

    /// A list of numbers in `config.json` at such a path.
    pub(crate) fn reals(&self, path: &str) -> Result<Vec<f64>> {
        let Some(json) = self.config_value(path) else { return Ok(Vec::new()) };
        let reals = json.as_array().and_then(|list| list.iter().map(Json::as_f64).collect());
        reals.ok_or_else(|| self.invalid_json(path, json, "a list of numbers"))
    }

    /// A GGUF key that is in no field; `key` follows the architecture's name.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the file lacks it.
    pub(crate) fn gguf_value(&self, key: &str) -> Result<Json> {
        let key = format!("{}.{key}", self.architecture());
        let value = self.metadata().get(&key);
        let json = value.and_then(|value| match (value.to_u64(), value.to_bool()) {
            (Some(count), _) => Some(count.into()),
            (_, Some(flag)) => Some(flag.into()),
            _ => value.to_f64().map(|real| f32_of(real).reported()),
        });
        json.ok_or_else(|| {
            let fault = format!("config.json requires {key}, which the file lacks");
            Error::unsupported(fault).in_file(self.path())
        })
    }

    /// The pooling of an embedding model's outputs, as GGUF numbers it.
    pub(crate) fn pooling(&self) -> Result<Option<u32>> {
        Ok(pooling::stated(self.reader.store)?.map(|stated| stated.value))
    }

    /// The layers of this kind, if `config.json` lists the kinds.
    pub(crate) fn layers_of(&self, kind: &LayerKind) -> Result<Option<Vec<bool>>> {
        let Some(Json::Array(kinds)) = self.row("layer_types")? else { return Ok(None) };
        if kinds.len() as u64 != u64::from(self.config.n_layers.value) {
            let fault = format!(
                "{} elements, but the model has {} layers",
                kinds.len(),
                self.config.n_layers.value
            );
            return Err(self.invalid("config.json layer_types", fault));
        }
        Ok(Some(kinds.iter().map(|name| name.as_str() == Some(kind.name())).collect()))
    }

    /// The number of layers at the end that predict further tokens and whose tensors have names.
    pub(crate) fn next_layers(&self) -> u32 {
        let layers = self.config.n_layers.value;
        let last = next_layers(self.mapped).last().copied().filter(|last| *last >= layers);
        last.map_or(0, |last| last.saturating_sub(layers).saturating_add(1))
    }

    /// The number of layers without those that predict further tokens.
    pub(crate) fn own_layers(&self) -> u32 {
        let layers = self.config.n_layers.value;
        let stated = self.config.counted_next_layers();
        // A file may count them without stating how many they are.
        let found = next_layers(self.mapped).range(..layers).count();
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        layers.saturating_sub(stated.max(found))
    }

    /// The kinds of layers, if the layers differ.
    pub(crate) fn kinds(&self) -> Option<Vec<&LayerKind>> {
        (0..self.own_layers()).map(|layer| self.config.layer_kind(layer)).collect()
    }

    /// An error for an invalid value.
    pub(crate) fn invalid(&self, source: &str, fault: String) -> Error {
        self.reader.invalid(source, fault)
    }

    fn invalid_json(&self, path: &str, found: &Json, needed: &str) -> Error {
        let found = crate::bytes::Text::new(found.to_string().as_bytes()).brief();
        self.invalid(&format!("config.json {path}"), format!("{found}, but {needed} is needed"))
    }

    /// An error for a number that GGUF requires and `config.json` lacks.
    pub(crate) fn missing_in_config(&self, path: &str) -> Error {
        let fault =
            format!("{} in GGUF requires {path}, which config.json lacks", self.architecture());
        Error::unsupported(fault).in_file(self.path())
    }

    /// An error for a number or a tensor that `config.json` requires and the model lacks.
    pub(crate) fn missing_in_model(&self, what: &str) -> Error {
        let architecture = self.architecture();
        let fault = format!("config.json for {architecture} requires {what}, which is missing");
        Error::unsupported(fault).in_file(self.path())
    }

    /// An error for a property that GGUF has no key for.
    pub(crate) fn inexpressible_in_gguf(&self, what: &str) -> Error {
        let fault = format!("{what}, which GGUF cannot express for {}", self.architecture());
        Error::unsupported(fault).in_file(self.path())
    }

    /// An error for a property that mlx-lm's class cannot express.
    pub(crate) fn inexpressible_in_mlx_lm(&self, what: &str) -> Error {
        let fault = format!("{what}, which mlx-lm cannot express for {}", self.architecture());
        Error::unsupported(fault).in_file(self.path())
    }

    /// An error for a property that transformers' class cannot express.
    pub(crate) fn inexpressible(&self, what: &str) -> Error {
        let fault = format!("{what}, which config.json cannot express for {}", self.architecture());
        Error::unsupported(fault).in_file(self.path())
    }
}

/// Writes GGUF keys, each prefixed with the architecture's name.
///
/// Value types are those that llama.cpp's strict readers require: `u32` for integers, `f32` for
/// floats, `bool` for flags, and `i32` for integers in arrays, which `gguf-py` uses for Python's
/// lists.
pub(crate) struct KeyWriter<'k> {
    prefix: &'static str,
    out: &'k mut KeyValues,
}

impl<'k> KeyWriter<'k> {
    /// Creates a writer that appends to `out`, with this prefix.
    pub(crate) fn new(prefix: &'static str, out: &'k mut KeyValues) -> Self {
        Self { prefix, out }
    }

    /// Writes a value by its JSON type.
    pub(crate) fn set(&mut self, key: &str, value: &Json) {
        let key = format!("{}.{key}", self.prefix);
        let real = |json: &Json| json.as_f64().map(f32_of);
        let count = |json: &Json| json.as_u64().and_then(|count| u32::try_from(count).ok());
        match value {
            Json::Bool(flag) => self.out.set(&key, Value::Bool(*flag)),
            Json::String(text) => self.out.set_text(&key, text),
            Json::Number(_) => match (count(value), real(value)) {
                (Some(count), _) => self.out.set(&key, Value::U32(count)),
                (_, Some(real)) => self.out.set(&key, Value::F32(real)),
                _ => {}
            },
            // As in `gguf-py`: the first element determines the element type, and an empty list is
            // not written.
            Json::Array(list) => match list.first() {
                Some(Json::Bool(_)) => {
                    self.out.set_array(&key, list.iter().filter_map(Json::as_bool));
                }
                Some(first) if first.as_u64().is_some() => {
                    let counts = list.iter().filter_map(count);
                    self.out.set_array(&key, counts.map(u32::cast_signed));
                }
                Some(_) => self.out.set_array(&key, list.iter().filter_map(real)),
                None => {}
            },
            Json::Null | Json::Object(_) => {}
        }
    }

    /// Writes `general.file_type` with the number of `F32`, to be replaced by the number of the
    /// dtypes.
    pub(crate) fn file_type(&mut self) {
        self.out.set("general.file_type", Value::U32(0));
    }

    pub(crate) fn real(&mut self, key: &str, value: f32) {
        self.out.set(&format!("{}.{key}", self.prefix), Value::F32(value));
    }

    pub(crate) fn count(&mut self, key: &str, value: u32) {
        self.out.set(&format!("{}.{key}", self.prefix), Value::U32(value));
    }

    pub(crate) fn reals(&mut self, key: &str, reals: impl Iterator<Item = f32>) {
        self.out.set_array(&format!("{}.{key}", self.prefix), reals);
    }

    pub(crate) fn texts<'t>(&mut self, key: &str, texts: impl Iterator<Item = &'t str>) {
        self.out.set_array(&format!("{}.{key}", self.prefix), texts);
    }

    pub(crate) fn flags(&mut self, key: &str, flags: &[bool]) {
        self.out.set_array(&format!("{}.{key}", self.prefix), flags.iter().copied());
    }
}
