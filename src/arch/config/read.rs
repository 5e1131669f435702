//! Looks up the fields of the table in the model's files, and checks their values.

use std::borrow::Cow;
use std::collections::HashMap;

use super::check::Check;
use super::defaults::Defaults;
use super::field::{ConfigValue, Field, nested_configs};
use crate::engines::transformers;
use crate::error::{Error, Result};
use crate::json::{Json, json};
use crate::store::{Encoding, Store};

/// The documents that hold config values, in the order of precedence.
pub(super) const DOCUMENTS: [&str; 2] = [CONFIG, "params.json"];

/// The document that transformers' classes read.
const CONFIG: &str = "config.json";

/// Objects that hold numbers of rotary embeddings. Newer configs have one for each layer type.
const ROPE: [&str; 3] = ["rope_parameters.full_attention", "rope_parameters", "rope_scaling"];

/// All paths that a path of the table stands for.
pub(super) fn paths(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let rest = path.strip_prefix("rope.");
    let bases = if rest.is_some() { &ROPE[..] } else { &[""] };
    bases.iter().map(move |base| match rest {
        Some(rest) => format!("{base}.{rest}").into(),
        None => path.into(),
    })
}

/// The value under a path. `*` is the first key of an object: a number of all layers of a kind stands
/// under the number of each.
fn at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    let inner = |json: &'a Json, name: &str| match name {
        "*" => json.as_object()?.values().next(),
        name => json.get(name),
    };
    path.split('.').try_fold(json, inner).filter(|json| !json.is_null())
}

/// The value under a key of a model's config, which may be a path; in GGUF it follows the architecture's name.
pub(crate) fn stated<'s>(
    store: &'s Store,
    architecture: Option<&str>,
    key: &str,
) -> Option<ConfigValue<'s>> {
    if store.encoding() == Encoding::Gguf {
        return store
            .metadata()
            .get(&format!("{}.{key}", architecture?))
            .map(ConfigValue::Metadata);
    }
    let documents = DOCUMENTS.into_iter().filter_map(|document| store.document(document));
    let mut configs = documents.flat_map(nested_configs);
    configs.find_map(|(_, config)| at(config, key)).map(ConfigValue::Json)
}

/// The rotary embeddings that transformers' class has if `config.json` states none, where they are more than
/// a base.
fn rope_of_class(store: &Store) -> Option<Json> {
    let ConfigValue::Json(named) = stated(store, None, "model_type")? else { return None };
    if ["rope_parameters", "rope_scaling"].iter().any(|key| stated(store, None, key).is_some()) {
        return None;
    }
    let rope = transformers::computed(named.as_str()?, "rope_parameters")?;
    let plain = rope.get("rope_type")?.as_str()? == "default" && rope.as_object()?.len() <= 2;
    (!plain).then(|| json!({ "rope_parameters": rope }))
}

/// The names of one field.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) gguf: &'static [&'static str],
    pub(crate) json: &'static [&'static str],
    /// Checks a value and returns it as reports show it.
    pub(crate) value: Check<Json>,
}

/// Reads config values from the model's files.
pub(crate) struct ConfigReader<'a> {
    pub(crate) store: &'a Store,
    /// The architecture's name, which is the prefix of GGUF keys.
    pub(crate) architecture: Field<String>,
    /// Values that transformers' class takes for keys that `config.json` omits.
    of_class: HashMap<&'static str, Json>,
    /// The rotary embeddings that the class has if `config.json` does not state any.
    rope_of_class: Option<Json>,
    defaults: Defaults,
}

impl<'a> ConfigReader<'a> {
    /// Creates a reader of the files of a model, which state this architecture.
    pub(crate) fn new(store: &'a Store, architecture: Field<String>, defaults: Defaults) -> Self {
        let of_class = match store.document(CONFIG) {
            Some(_) => {
                defaults.of_class.iter().map(|(key, value)| (*key, (*value).into())).collect()
            }
            None => HashMap::new(),
        };
        Self { store, architecture, of_class, rope_of_class: rope_of_class(store), defaults }
    }

    /// The value that transformers' class takes if `config.json` omits a key. A key that is `null`
    /// is not omitted.
    pub(crate) fn of_class(&self, keys: &[&str]) -> Option<(&'static str, &Json)> {
        let (key, value) = keys.iter().find_map(|key| self.of_class.get_key_value(*key))?;
        let root = self.store.document(CONFIG)?;
        let (_, config) = nested_configs(root).into_iter().next()?;
        let stated = keys.iter().copied().flat_map(paths).any(|path| {
            let found = path.split('.').try_fold(config, |json, name| json.get(name));
            found.is_some()
        });
        (!stated).then_some((*key, value))
    }

    fn find(&self, key: &Key) -> Option<(ConfigValue<'_>, String)> {
        let keys = match self.store.encoding() {
            Encoding::Gguf => key.gguf,
            // The header of whisper.cpp's files has OpenAI's names, as the JSON documents do.
            Encoding::Ggml => key.json,
            Encoding::Safetensors => &[],
        };
        for key in keys {
            // Some files leave the prefix out.
            for name in [format!("{}.{key}", self.architecture.value), (*key).to_owned()] {
                if let Some(value) = self.store.metadata().get(&name) {
                    return Some((ConfigValue::Metadata(value), name));
                }
            }
        }
        for document in DOCUMENTS {
            let Some(root) = self.store.document(document) else { continue };
            for (inside, config) in nested_configs(root) {
                for path in key.json.iter().copied().flat_map(paths) {
                    if let Some(json) = at(config, &path) {
                        let dot = if inside.is_empty() { "" } else { "." };
                        let source = format!("{document} {inside}{dot}{path}");
                        return Some((ConfigValue::Json(json), source));
                    }
                }
            }
        }
        if let Some(class) = &self.rope_of_class {
            let mut found = key.json.iter().copied().flat_map(paths);
            if let Some(json) = found.find_map(|path| at(class, &path)) {
                return Some((ConfigValue::Json(json), self.default_source()));
            }
        }
        let (name, value) = self.of_class(key.json)?;
        Some((
            ConfigValue::Json(value),
            format!("default of {} for {name}", self.architecture.value),
        ))
    }

    pub(crate) fn invalid(&self, source: &str, fault: impl Into<Cow<'static, str>>) -> Error {
        Error::malformed(fault).in_file(self.store.path()).in_key(source)
    }

    /// Reads a field of the table. `None` if no file has it, or its value means "disabled".
    pub(crate) fn field<T>(&self, key: &Key, check: Check<T>) -> Result<Option<Field<T>>> {
        let Some((found, source)) = self.find(key) else { return Ok(None) };
        let value = check(found).map_err(|fault| self.invalid(&source, fault))?;
        Ok(value.map(|value| Field { value, source: source.into() }))
    }

    /// Like [`field`](Self::field), with the family's default if there is no value.
    pub(crate) fn field_or_default<T>(
        &self,
        key: &Key,
        check: Check<T>,
    ) -> Result<Option<Field<T>>> {
        if let Some(field) = self.field(key, check)? {
            return Ok(Some(field));
        }
        let Some(default) = self.defaults.of_row(key.name) else { return Ok(None) };
        let source = default.source.map_or_else(|| self.default_source(), str::to_owned);
        let value = check(ConfigValue::Json(&default.value.into()))
            .map_err(|fault| self.invalid(&source, fault))?;
        Ok(value.map(|value| Field::derived(value, source)))
    }

    /// The source of a default of the family.
    pub(crate) fn default_source(&self) -> String {
        format!("default of {}", self.architecture.value)
    }
}
