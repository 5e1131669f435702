//! Looks up the fields of the table in the model's files, and checks their values.

use std::borrow::Cow;
use std::collections::HashMap;

use super::check::{self, Check};
use super::defaults::Defaults;
use super::field::{ConfigValue, Field, nested_configs};
use super::origin::FieldSource;
use super::values::LayerKind;
use crate::engines::transformers;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::store::{Encoding, Store};

/// The documents that hold config values, in the order of precedence.
const DOCUMENTS: [&str; 2] = [CONFIG, "params.json"];

/// The document that transformers' classes read.
const CONFIG: &str = "config.json";

/// Objects that hold numbers of rotary embeddings. Newer configs have one for each layer type.
const ROPE: [&str; 3] = ["rope_parameters.full_attention", "rope_parameters", OLDER];

/// The object of older files.
const OLDER: &str = "rope_scaling";

/// Numbers that a config around that of a text model does not have for it, if that states its width: its class computes
/// them, or has defaults. Outside, they are those of another part.
const OF_TEXT_MODELS: [&str; 3] = ["head_dim", "narrow_head_dim", "max_seq_len"];

/// All paths that a path of the table stands for.
pub(crate) fn paths(path: &str) -> impl Iterator<Item = Cow<'_, str>> {
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

/// The documents with config values, by name. The one that a GGUF file keeps replaces the others.
pub(super) fn documents<'s>(
    store: &'s Store,
    kept: Option<&'s KeptDocument>,
) -> Vec<(&'static str, &'s Json)> {
    match kept {
        Some(kept) => vec![(KEPT_CONFIG, &kept.document)],
        None => {
            let named = DOCUMENTS.into_iter().map(|name| (name, store.document(name)));
            named.filter_map(|(name, document)| Some((name, document?))).collect()
        }
    }
}

/// The value under a key of the documents, which may be a path.
pub(super) fn in_documents<'s>(
    store: &'s Store,
    kept: Option<&'s KeptDocument>,
    key: &str,
) -> Option<&'s Json> {
    let configs = documents(store, kept).into_iter().flat_map(|(_, root)| nested_configs(root));
    configs.into_iter().find_map(|(_, config)| at(config, key))
}

/// The value under a key of a model's config, which may be a path; in GGUF it follows the architecture's name.
pub(crate) fn stated<'s>(
    store: &'s Store,
    architecture: Option<&str>,
    kept: Option<&'s KeptDocument>,
    key: &str,
) -> Option<ConfigValue<'s>> {
    let is_gguf = store.encoding() == Encoding::Gguf;
    let json = if is_gguf && kept.is_none() { None } else { in_documents(store, kept, key) };
    let of_keys = || store.metadata().get(&format!("{}.{key}", architecture?));
    json.map(ConfigValue::Json).or_else(|| of_keys().filter(|_| is_gguf).map(ConfigValue::Metadata))
}

/// Whether a config states rotary embeddings in the objects of older and of newer files.
fn replaces_rope(store: &Store, kept: Option<&KeptDocument>) -> bool {
    let has = |config: &Json, key: &str| {
        let object = config.get(key).and_then(Json::as_object);
        object.is_some_and(|object| !object.is_empty())
    };
    let configs = documents(store, kept).into_iter().flat_map(|(_, root)| nested_configs(root));
    let mut configs = configs.filter(|(_, config)| has(config, "rope_parameters"));
    configs.next().is_some_and(|(_, config)| has(config, OLDER))
}

/// The rotary embeddings of transformers' class, if `config.json` states none, and the keys of older files
/// that the class does not read.
fn rope_of_class(store: &Store, kept: Option<&KeptDocument>) -> (Option<Json>, Vec<&'static str>) {
    let named = in_documents(store, kept, "model_type").and_then(Json::as_str);
    let Some(named) = named else { return (None, Vec::new()) };
    let reads = |key: &str, is_beside| transformers::reads_older(named, key, is_beside);
    let is_stated = |key: &str| in_documents(store, kept, key).is_some();
    let is_beside = is_stated("rope_parameters") || is_stated(OLDER) && reads(OLDER, false);
    let rope = transformers::rope_of_class(named).filter(|_| !is_beside);
    let mut unread = vec!["rope_theta", "partial_rotary_factor", OLDER];
    unread.retain(|key| !reads(key, is_beside));
    // The class takes the older object in place of the newer one.
    if replaces_rope(store, kept) && reads(OLDER, true) {
        unread.push("rope_parameters");
    }
    (rope.map(|rope| json!({ "rope_parameters": rope })), unread)
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

/// The `config.json` of the model that a GGUF file was written from.
#[derive(Debug)]
pub(crate) struct KeptDocument {
    /// The document: what the GGUF keys give, with the kept keys.
    pub(crate) document: Json,
    /// The keys that the file keeps.
    pub(crate) kept: Map<String, Json>,
    /// Rows of the table that count what the GGUF file stores, and not what the other model did.
    pub(crate) counted: &'static [&'static str],
    /// The GGUF key that the value of a path comes from: of the store, the architecture and the path.
    pub(crate) gguf_key: fn(&Store, &str, &str) -> Option<String>,
}

/// The key of a GGUF file that keeps what `config.json` says and GGUF has no key for: a JSON object.
pub(crate) const KEPT_CONFIG: &str = "weighbridge.config";

/// Reads config values from the model's files.
pub(crate) struct ConfigReader<'a> {
    pub(crate) store: &'a Store,
    /// The architecture's name, which is the prefix of GGUF keys.
    pub(crate) architecture: Field<String>,
    /// Values that transformers' class takes for keys that `config.json` omits.
    of_class: HashMap<&'static str, Json>,
    /// The rotary embeddings that the class has if `config.json` does not state any.
    rope_of_class: Option<Json>,
    /// Keys that the class does not read.
    unread: Vec<&'static str>,
    /// Whether the class rotates whole heads, whatever its config states, if nothing is scaled.
    pub(super) rotates_whole: bool,
    defaults: Defaults,
    /// A document that takes the place of GGUF keys.
    pub(crate) kept: Option<KeptDocument>,
}

/// The values that transformers' class takes for keys that the config `root` omits. Without the sizes of the model, a config is
/// damaged, but one inside of another states what differs from its class alone.
fn of_class(defaults: Defaults, root: &Json) -> HashMap<&'static str, Json> {
    let stated = defaults.of_class.iter().map(|(key, value)| (*key, (*value).into()));
    let inner = nested_configs(root).into_iter().next().filter(|(path, _)| !path.is_empty());
    let model_type = inner.and_then(|(_, config)| config.get("model_type")?.as_str());
    stated.chain(model_type.into_iter().flat_map(transformers::sizes)).collect()
}

impl<'a> ConfigReader<'a> {
    /// Creates a reader of the files of a model, which state this architecture.
    pub(crate) fn new(store: &'a Store, architecture: Field<String>, defaults: Defaults) -> Self {
        let config = store.document(CONFIG);
        let of_class = config.map(|root| of_class(defaults, root)).unwrap_or_default();
        Self::with(store, architecture, of_class, defaults, None)
    }

    /// Creates a reader of the document that a GGUF file keeps. `defaults` are those of its class.
    pub(crate) fn of_kept(
        store: &'a Store,
        architecture: Field<String>,
        defaults: Defaults,
        kept: KeptDocument,
    ) -> Self {
        let of_class = of_class(defaults, &kept.document);
        Self::with(store, architecture, of_class, defaults, Some(kept))
    }

    fn with(
        store: &'a Store,
        architecture: Field<String>,
        mut of_class: HashMap<&'static str, Json>,
        defaults: Defaults,
        kept: Option<KeptDocument>,
    ) -> Self {
        let (rope_of_class, unread) = rope_of_class(store, kept.as_ref());
        let named = in_documents(store, kept.as_ref(), "model_type").and_then(Json::as_str);
        let rotates_whole = named.is_some_and(transformers::rotates_whole);
        for (other, field) in named.into_iter().flat_map(transformers::other_names) {
            if in_documents(store, kept.as_ref(), other).is_some() {
                of_class.remove(field);
            }
        }
        Self { store, architecture, of_class, rope_of_class, unread, rotates_whole, defaults, kept }
    }

    /// Whether the values are those of GGUF keys.
    pub(crate) fn reads_gguf_keys(&self) -> bool {
        self.store.encoding() == Encoding::Gguf && self.kept.is_none()
    }

    /// The documents with config values, by name.
    fn documents(&self) -> Vec<(&'static str, &Json)> {
        documents(self.store, self.kept.as_ref())
    }

    /// Whether the documents state `false` under a path.
    pub(super) fn is_stated_false(&self, path: &str) -> bool {
        in_documents(self.store, self.kept.as_ref(), path).and_then(Json::as_bool) == Some(false)
    }

    /// All paths that the paths of a row stand for, without those of unread keys.
    fn paths<'k>(&self, keys: impl Iterator<Item = &'k str>) -> impl Iterator<Item = Cow<'k, str>> {
        let is_read = |path: &Cow<'_, str>| {
            path.split('.').next().is_none_or(|key| !self.unread.contains(&key))
        };
        keys.flat_map(paths).filter(is_read)
    }

    /// The keys of `config.json` that state a field: those that the family alone reads, then those of the table.
    pub(crate) fn keys(&self, key: &Key) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.defaults.own_keys.and(key.name, key.json)
    }

    /// The key that a value of the kept document comes from: the file keeps it, or a GGUF key gives it.
    fn kept_source(&self, kept: &KeptDocument, path: &str) -> FieldSource {
        let outer = path.split('.').next().unwrap_or_default();
        if kept.kept.contains_key(outer) {
            return FieldSource::kept(KEPT_CONFIG, path);
        }
        let key = (kept.gguf_key)(self.store, &self.architecture.value, path);
        FieldSource::given(key.as_deref(), path)
    }

    /// The value that transformers' class takes if `config.json` omits a key. A key that is `null`
    /// is not omitted.
    pub(crate) fn of_class<'k>(
        &self,
        keys: impl Iterator<Item = &'k str> + Clone,
    ) -> Option<(&'static str, &Json)> {
        let (key, value) = keys.clone().find_map(|key| self.of_class.get_key_value(key))?;
        let (_, root) = self.documents().into_iter().next()?;
        let (_, config) = nested_configs(root).into_iter().next()?;
        let stated = self.paths(keys).any(|path| {
            let found = path.split('.').try_fold(config, |json, name| json.get(name));
            found.is_some()
        });
        (!stated).then_some((*key, value))
    }

    fn find(&self, key: &Key) -> Option<(ConfigValue<'_>, FieldSource)> {
        let counted = self.kept.as_ref().is_some_and(|kept| kept.counted.contains(&key.name));
        let (gguf, ggml) = match self.store.encoding() {
            Encoding::Gguf if counted || self.kept.is_none() => (key.gguf, None),
            // The header of whisper.cpp's files has OpenAI's names, as the JSON documents do.
            Encoding::Ggml => (&[][..], Some(self.keys(key))),
            Encoding::Gguf | Encoding::Safetensors => (&[][..], None),
        };
        for key in gguf.iter().copied().chain(ggml.into_iter().flatten()) {
            // Some files leave the prefix out.
            for name in [format!("{}.{key}", self.architecture.value), key.to_owned()] {
                if let Some(value) = self.store.metadata().get(&name) {
                    return Some((ConfigValue::Metadata(value), FieldSource::key(name)));
                }
            }
        }
        let documents = if counted { Vec::new() } else { self.documents() };
        for (document, root) in documents {
            let mut configs = nested_configs(root);
            let states_width = |(_, config): &(String, &Json)| config.get("hidden_size").is_some();
            let states_rope =
                |(_, config): &(String, &Json)| config.get("rope_parameters").is_some();
            let is_own = match key.name {
                name if name.starts_with("rope_") => configs.first().is_some_and(states_rope),
                name => OF_TEXT_MODELS.contains(&name) && configs.first().is_some_and(states_width),
            };
            if is_own {
                configs.truncate(1);
            }
            for (inside, config) in configs {
                for path in self.paths(self.keys(key)) {
                    if let Some(json) = at(config, &path) {
                        let dot = if inside.is_empty() { "" } else { "." };
                        let source = match &self.kept {
                            Some(kept) => self.kept_source(kept, &path),
                            None => {
                                FieldSource::document(document, &format!("{inside}{dot}{path}"))
                            }
                        };
                        return Some((ConfigValue::Json(json), source));
                    }
                }
            }
        }
        if let Some(class) = &self.rope_of_class
            && let Some(json) = self.paths(self.keys(key)).find_map(|path| at(class, &path))
        {
            return Some((ConfigValue::Json(json), self.default_source()));
        }
        let (name, value) = self.of_class(self.keys(key))?;
        Some((
            ConfigValue::Json(value),
            FieldSource::class(format!("default of {} for {name}", self.architecture.value)),
        ))
    }

    pub(crate) fn invalid(&self, source: &str, fault: impl Into<Cow<'static, str>>) -> Error {
        Error::malformed(fault).in_file(self.store.path()).in_key(source)
    }

    /// Reads a field of the table. `None` if no file has it, or its value means "disabled".
    pub(crate) fn field<T>(&self, key: &Key, check: Check<T>) -> Result<Option<Field<T>>> {
        let Some((found, source)) = self.find(key) else { return Ok(None) };
        let value = check(found).map_err(|fault| self.invalid(&source, fault))?;
        Ok(value.map(|value| Field { value, source }))
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
        let source = default.source.map_or_else(|| self.default_source(), FieldSource::from);
        let value = check(ConfigValue::Json(&default.value.into()))
            .map_err(|fault| self.invalid(&source, fault))?;
        Ok(value.map(|value| Field::derived(value, source)))
    }

    /// Whether the window of transformers' class is 0 unless a flag states that it is used.
    pub(super) fn is_window_zero(&self) -> bool {
        let named = in_documents(self.store, self.kept.as_ref(), "model_type");
        let window =
            named.and_then(|named| transformers::computed(named.as_str()?, "sliding_window"));
        window.is_some_and(|window| window.as_u64() == Some(0))
    }

    /// The kinds of layers that transformers' class derives if the files do not list them.
    pub(crate) fn layers_of_class(&self, n_layers: u32) -> Option<Field<Vec<LayerKind>>> {
        let named = in_documents(self.store, self.kept.as_ref(), "model_type")?;
        let kinds =
            transformers::kinds_of_layers(named.as_str()?, usize::try_from(n_layers).ok()?)?;
        let kinds = check::kinds(ConfigValue::Json(&kinds)).ok()??;
        Some(Field::derived(kinds, self.default_source()))
    }

    /// The source of a default of the family.
    fn default_source(&self) -> FieldSource {
        FieldSource::family(format!("default of {}", self.architecture.value))
    }
}
