//! Keys of `config.json` that GGUF has no key for. They are kept in the GGUF file under keys of this
//! library's own, which llama.cpp ignores, and restored on the way back to `config.json`.
//!
//! What is kept is the difference between the model's `config.json` and the one that the GGUF keys
//! alone would give. The same difference tells what llama.cpp computes differently.

mod meaning;

use std::collections::BTreeMap;

pub(crate) use super::config::KEPT_CONFIG as CONFIG;
use super::config::{KEYS, KeptDocument, nested_configs, paths};
use super::resolution::Resolution;
use super::source::SourceModel;
use super::{LayerKind, config_json, family};
use crate::engines::transformers;
use crate::error::{ErrorKind, Result};
use crate::json::{Json, Map, json};
use crate::metadata::{KeyValues, Metadata, Value};
use crate::store::{Encoding, Store};
pub(crate) use meaning::same;
use meaning::{WINDOWS, defaults, group, is_group, meaning};

/// The prefix of this library's own keys in GGUF.
pub(crate) const PREFIX: &str = "weighbridge.";
/// For the same keys, the values that the GGUF keys gave when the file was written, and those of
/// keys that the model's `config.json` does not have. A value that was changed since then in the
/// GGUF file takes precedence over the kept one.
pub(crate) const DERIVED: &str = "weighbridge.config.derived";
/// `true` if [`CONFIG`] is a whole document, which needs no derived one.
const WHOLE: &str = "weighbridge.config.whole";

/// The same two keys for `generation_config.json`.
pub(crate) const GENERATION: [&str; 2] =
    ["weighbridge.generation", "weighbridge.generation.derived"];

/// Keys that describe the files, not the model. They are set anew for each written model.
const OF_FILES: &[&str] =
    &["torch_dtype", "dtype", "quantization", "quantization_config", "compression_config"];

/// Whether a key of `config.json` describes the files, not the model.
pub(crate) fn describes_files(key: &str) -> bool {
    OF_FILES.contains(&key)
}

/// The values of `config.json` that GGUF keys do not state.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    config: Map<String, Json>,
    derived: Map<String, Json>,
    /// Whether `config` is a whole document, which needs no derived one.
    pub(crate) whole: bool,
    /// The document that was compared.
    pub(crate) stated: Map<String, Json>,
    /// The differences in llama.cpp's computation, one statement each.
    pub(crate) losses: Vec<String>,
}

impl Kept {
    /// Compares a model's `config.json` with the one derived from its GGUF keys. `whole` says
    /// whether the document is the model's own, and not part of a larger model's.
    pub(crate) fn of(
        stated: &Map<String, Json>,
        derived: &Map<String, Json>,
        layers: u32,
        whole: bool,
    ) -> Self {
        let mut kept = Self::default();
        let (wanted, given) = (meaning(stated, layers), meaning(derived, layers));
        let named = |key: &str| matches!(key, "architectures" | "model_type");
        let class = stated.get("model_type").and_then(Json::as_str).and_then(defaults);
        // A model that is of another architecture in GGUF comes back with the names of that one.
        let row = |document: &Map<String, Json>| {
            let name = document.get("model_type").and_then(Json::as_str)?;
            family::architectures().iter().position(|row| row.hf.contains(&name))
        };
        let moved = row(stated).zip(row(derived)).is_some_and(|(own, other)| own != other);
        // What is not kept has the defaults of the class that is.
        let mut restored = derived.clone();
        // A class that holds a language model, as LLaVA's, is not that of the model in GGUF.
        let class_is_kept = whole && !moved && row(stated).is_some();
        restored.extend(stated.iter().filter(|(key, _)| class_is_kept && named(key)).map(owned));
        let restored = meaning(&restored, layers);
        let null = Json::Null;
        let alike = |name: &str| {
            same(wanted.get(name).unwrap_or(&null), restored.get(name).unwrap_or(&null))
        };
        for (key, value) in stated {
            // Another class does not know the keys of this one.
            let unknown = moved && !derived.contains_key(key);
            let skipped = describes_files(key) || unknown || (named(key) && !class_is_kept);
            let unchanged = match group(key) == key {
                true => derived.get(key).is_some_and(|given| same(value, given)),
                // A group whose meaning is the same needs none of its keys.
                false => alike(group(key)),
            };
            if skipped || unchanged {
                continue;
            }
            kept.keep(key, value.clone(), derived.get(key));
        }
        for (key, value) in derived.iter().filter(|(key, _)| !moved && !stated.contains_key(key)) {
            let wrong = match group(key) == key {
                // The class's default is what the document means.
                true => class
                    .as_ref()
                    .and_then(|class| class.get(key))
                    .is_some_and(|usual| !usual.is_null() && !same(usual, value)),
                false => !alike(group(key)),
            };
            if wrong {
                kept.derived.insert(key.clone(), value.clone());
            }
        }
        kept.losses = losses(stated, &wanted, &given);
        kept.stated = stated.clone();
        kept
    }

    /// Keeps a whole document, for a model whose `config.json` cannot be derived from its GGUF keys.
    pub(crate) fn whole(stated: &Map<String, Json>) -> Self {
        let config = stated.iter().filter(|(key, _)| !describes_files(key)).map(owned).collect();
        Self { config, whole: true, stated: stated.clone(), ..Self::default() }
    }

    /// Keeps the `model_type` of a model whose class is not kept, because tensors are left out.
    pub(crate) fn keep_model_type(&mut self, derived: &Map<String, Json>) {
        let key = "model_type";
        if let Some(stated) = self.stated.get(key).filter(|own| derived.get(key) != Some(*own)) {
            self.keep(key, stated.clone(), derived.get(key));
        }
    }

    fn keep(&mut self, key: &str, value: Json, derived: Option<&Json>) {
        self.config.insert(key.to_owned(), value);
        self.derived.extend(derived.map(|derived| (key.to_owned(), derived.clone())));
    }

    /// Keeps what `generation_config.json` says and `derived`, which GGUF keys give, does not. `skipped` are
    /// the keys that GGUF has.
    pub(crate) fn generation(
        stated: &Map<String, Json>,
        derived: &Map<String, Json>,
        skipped: impl Fn(&str) -> bool,
    ) -> Self {
        let mut kept = Self::default();
        for (key, value) in stated.iter().filter(|(key, _)| !skipped(key)) {
            if derived.get(key) != Some(value) {
                kept.keep(key, value.clone(), derived.get(key));
            }
        }
        kept
    }

    /// Adds this library's keys to a GGUF file's.
    pub(crate) fn write(&self, keys: &mut KeyValues) {
        if self.whole {
            keys.set(WHOLE, Value::Bool(true));
        }
        self.write_as([CONFIG, DERIVED], keys);
    }

    /// Adds the same under other keys.
    pub(crate) fn write_as(&self, names: [&str; 2], keys: &mut KeyValues) {
        for (key, map) in names.into_iter().zip([&self.config, &self.derived]) {
            if !map.is_empty() {
                keys.set_text(key, Json::Object(map.clone()).to_string());
            }
        }
    }

    /// Reads what a GGUF file keeps. Empty if it keeps nothing.
    ///
    /// # Errors
    ///
    /// `Malformed` if the value is not a JSON object.
    pub(crate) fn read(metadata: &Metadata) -> Result<Self> {
        let whole = metadata.get(WHOLE).and_then(|value| value.to_bool()) == Some(true);
        Ok(Self { whole, ..Self::read_from(metadata, [CONFIG, DERIVED])? })
    }

    /// The `model_type` of the whole document that a GGUF file keeps.
    pub(crate) fn whole_model_type(metadata: &Metadata) -> Option<String> {
        let kept = Self::read(metadata).ok().filter(|kept| kept.whole)?;
        Some(kept.config.get("model_type")?.as_str()?.to_owned())
    }

    /// Reads the same from other keys.
    ///
    /// # Errors
    ///
    /// Same as [`read`](Self::read).
    pub(crate) fn read_from(metadata: &Metadata, names: [&'static str; 2]) -> Result<Self> {
        let object = |key: &'static str| match metadata.str(key) {
            None => Ok(Map::new()),
            Some(text) => Map::parse(text.as_bytes()).map_err(|error| error.in_key(key)),
        };
        let [config, derived] = names;
        Ok(Self { config: object(config)?, derived: object(derived)?, ..Self::default() })
    }

    /// The kept keys.
    pub(crate) fn config(&self) -> &Map<String, Json> {
        &self.config
    }

    /// Whether a key is kept.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.config.contains_key(key)
    }

    /// A kept count.
    pub(crate) fn count(&self, key: &str) -> Option<u64> {
        self.config.get(key).and_then(Json::as_u64)
    }

    /// Restores the kept keys in a derived document. Where a GGUF key was changed since the file was
    /// written, nothing of its group is restored.
    pub(crate) fn restore(&self, document: &mut Map<String, Json>) {
        let changed = |key: &str| match (document.get(key), self.derived.get(key)) {
            (Some(now), Some(then)) => !same(now, then),
            (now, then) => now.is_some() != then.is_some(),
        };
        let keys = || self.config.keys().chain(self.derived.keys());
        let changed: Vec<&str> =
            keys().filter(|key| !self.whole && changed(key)).map(|key| group(key)).collect();
        for key in keys().filter(|key| !changed.contains(&group(key))) {
            match self.config.get(key) {
                Some(value) => document.insert(key.clone(), value.clone()),
                None => document.remove(key),
            };
        }
        // The class of the restored type, if the model's own class is not kept.
        let model_type = document.get("model_type").and_then(Json::as_str).unwrap_or_default();
        let mut classes = family::variants().flat_map(|variant| variant.classes);
        let class = classes.find(|class| class.model_type == model_type).map(|class| class.class);
        if self.config.contains_key("model_type")
            && document.contains_key("architectures")
            && !self.config.contains_key("architectures")
            && let Some(class) = class
        {
            document.insert("architectures".to_owned(), json!([class]));
        }
    }
}

fn owned((key, value): (&String, &Json)) -> (String, Json) {
    (key.clone(), value.clone())
}

/// Rows of the config's table that GGUF and `config.json` count differently, since GGUF counts the layers
/// that predict further tokens; and the pooling, which `config.json` has no key for.
const COUNTED: &[&str] = &["n_layers", "n_next_token_layers", "pooling_type"];
/// The same, for families whose position embedding loses rows in GGUF.
const COUNTED_WITH_POSITIONS: &[&str] =
    &["n_layers", "n_next_token_layers", "pooling_type", "max_seq_len"];

/// The `config.json` that a GGUF file keeps: the one that its keys give, with the kept keys. `None` if
/// it keeps none, or if its keys give none and the kept one is not whole.
///
/// # Errors
///
/// `Malformed` if the kept value is not a JSON object; otherwise same as
/// [`hf_config`](config_json::hf_config).
pub(super) fn document(
    keys: &SourceModel<'_>,
    resolution: &Resolution,
) -> Result<Option<KeptDocument>> {
    let found = if is_kept(keys.store()) { kept_and_derived(keys)? } else { None };
    let Some((kept, mut document)) = found else { return Ok(None) };
    kept.restore(&mut document);
    let positions = resolution.architecture.is_some_and(|row| row.rows_before_positions.is_some());
    let counted = if positions { COUNTED_WITH_POSITIONS } else { COUNTED };
    let document = Json::Object(document);
    Ok(Some(KeptDocument { document, kept: kept.config, counted, gguf_key }))
}

/// The GGUF key that the value of a path of `config.json` comes from.
fn gguf_key(store: &Store, architecture: &str, path: &str) -> Option<String> {
    let rows = KEYS.iter().copied().flatten();
    let own = family::own_keys(architecture);
    let rows = rows.filter(|row| own.and(row.name, row.json).flat_map(paths).any(|p| p == path));
    let mut keys = rows.flat_map(|row| row.gguf).map(|key| format!("{architecture}.{key}"));
    keys.find(|key| store.metadata().get(key).is_some())
}

/// Whether a file keeps anything.
pub(super) fn is_kept(store: &Store) -> bool {
    let keeps = |key| store.metadata().get(key).is_some();
    store.encoding() == Encoding::Gguf && (keeps(CONFIG) || keeps(DERIVED))
}

/// The config that a GGUF file keeps, and the document that its keys give.
fn kept_and_derived(keys: &SourceModel<'_>) -> Result<Option<(Kept, Map<String, Json>)>> {
    let kept = Kept::read(keys.metadata()).map_err(|error| error.in_file(keys.path()))?;
    if kept.whole {
        return Ok(Some((kept, Map::new())));
    }
    match config_json::hf_config(keys) {
        Ok(derived) => Ok(Some((kept, derived))),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// The values that a GGUF file keeps, with the document and the differences in llama.cpp's
/// computation. Empty if its keys give no document, and for a whole one, whose keys llama.cpp does not
/// have.
///
/// # Errors
///
/// Same as [`Model::config`](crate::Model::config).
pub(super) fn of_file(keys: &SourceModel<'_>) -> Result<Kept> {
    let Some((mut kept, derived)) = kept_and_derived(keys)?.filter(|(kept, _)| !kept.whole) else {
        return Ok(Kept::default());
    };
    let mut stated = derived.clone();
    kept.restore(&mut stated);
    let layers = keys.own_layers();
    kept.losses = losses(&stated, &meaning(&stated, layers), &meaning(&derived, layers));
    kept.stated = stated;
    Ok(kept)
}

/// The meaning of a document for each layer, by group of keys.
pub(crate) fn layer_meanings(document: &Map<String, Json>, layers: u32) -> BTreeMap<String, Json> {
    meaning(document, layers).into_iter().filter(|(name, _)| is_group(name)).collect()
}

/// Keys that tensors and their shapes determine, whatever a document says.
const OF_SHAPES: &[&str] = &[
    "attention_bias",
    "attn_layer_indices",
    "attn_layer_offset",
    "attn_layer_period",
    "bias",
    "expansion_ratio",
    "ffn_hidden_size",
    "head_dim",
    "layer_group_size",
    "mlp_bias",
    "multi_query",
    "n_inner",
    "new_decoder_architecture",
    "no_bias",
    "n_routed_experts",
    "num_decoder_layers",
    "num_experts",
    "num_key_value_heads",
    "num_kv_heads",
    "num_local_experts",
    "num_ln_in_parallel_attn",
    "qkv_bias",
    "shared_intermediate_size",
    "time_step_rank",
    "use_bias",
    "use_qk_norm",
    "vocab_size_per_layer_input",
    "width of the network",
];

/// Values that change nothing, as if the key were not stated.
const NEUTRAL: &[(&str, &str)] = &[
    // A conversion to GGUF refuses the norm for which this counts.
    ("mamba_norm_before_gate", "true"),
    ("mlp_multipliers", "[1.0,1.0]"),
    ("position_embedding_type", "\"nope\""),
    ("position_embedding_type", "\"rope\""),
    ("ssm_multipliers", "[1.0,1.0,1.0,1.0,1.0]"),
    ("time_step_limit", "[0.0,{\"__float__\":\"Infinity\"}]"),
    // The text alone has causal attention.
    ("use_bidirectional_attention", "\"vision\""),
];

/// The effect of a value on computing; null if there is none.
fn effect<'a>(model_type: &str, name: &str, value: &'a Json) -> &'a Json {
    let other = family::defaults(model_type).value("without_attention");
    let windowless = |kind: &Json| {
        let known = kind.as_str().map(LayerKind::named);
        matches!(known, Some(LayerKind::Full | LayerKind::Linear)) || other.as_ref() == Some(kind)
    };
    let none = match value.as_array() {
        // Layers without attention are known by their tensors.
        Some(each) if name == WINDOWS => each.iter().all(windowless),
        _ => {
            let text = value.to_string();
            NEUTRAL.iter().any(|(key, neutral)| *key == name && **neutral == *text)
        }
    };
    if none { &Json::Null } else { value }
}

/// Rotary embeddings without what they say about the bounds of YaRN; other values as they are.
fn without_bounds(value: &Json) -> Json {
    let mut value = value.clone();
    if let Json::Object(rope) = &mut value {
        rope.remove("truncate");
    }
    value
}

/// Whether a key is one of layers that a model does not have.
pub(crate) fn is_unused(stated: &Map<String, Json>, name: &str) -> bool {
    const EXPERTS: [&str; 3] = ["num_local_experts", "num_experts", "n_routed_experts"];
    let kinds = stated.get("layer_types").and_then(Json::as_array);
    let attends = |kind: &Json| {
        !matches!(LayerKind::named(kind.as_str().unwrap_or_default()), LayerKind::Other(_))
    };
    let no_states = || kinds.is_some_and(|kinds| kinds.iter().all(attends));
    let count = |key: &str| stated.get(key).and_then(Json::as_u64);
    let experts = || EXPERTS.iter().find_map(|key| count(key));
    match name {
        "num_experts_per_tok" => experts() == Some(0),
        // The weights of all experts add up to 1 without it.
        "norm_topk_prob" => experts().is_some() && experts() == count("num_experts_per_tok"),
        _ => name.starts_with("mamba_") && no_states(),
    }
}

/// The values that the GGUF keys do not state. Only those count that the model's class in
/// transformers computes with; other keys of a document have no effect.
fn losses(
    stated: &Map<String, Json>,
    wanted: &BTreeMap<String, Json>,
    given: &BTreeMap<String, Json>,
) -> Vec<String> {
    let mut losses = Vec::new();
    // The bounds of YaRN are the same for all models: llama.cpp rounds them.
    let rope = |map: &BTreeMap<String, Json>| map.get(meaning::group("rope_theta")).cloned();
    if rope(wanted).is_some_and(|rope| rope.get("truncate").and_then(Json::as_bool) == Some(false))
    {
        losses.push(
            "bounds of YaRN: not rounded (truncate is false), but rounded by llama.cpp".to_owned(),
        );
    }
    for (name, value, other) in differing(stated, wanted, given) {
        let (value, other) = (&without_bounds(value), &without_bounds(other));
        if !same(value, other) {
            let (value, other) = (words(&unlike(value, other)), words(&unlike(other, value)));
            losses.push(format!("{name}: {value} in config.json, {other} in GGUF"));
        }
    }
    losses
}

/// The groups of keys that mean something else in another document, of those that the class of the first one computes
/// with, each with both values.
fn differing<'m>(
    stated: &Map<String, Json>,
    wanted: &'m BTreeMap<String, Json>,
    given: &'m BTreeMap<String, Json>,
) -> Vec<(&'m str, &'m Json, &'m Json)> {
    let model_type = stated.get("model_type").and_then(Json::as_str).unwrap_or_default();
    let class = defaults(model_type);
    let wanted = wanted.iter().filter(|(name, _)| !is_unused(stated, name));
    let differing = wanted.filter_map(|(name, value)| {
        let of_class = class.as_ref().is_some_and(|class| class.contains_key(name));
        let of_shapes = OF_SHAPES.contains(&name.as_str());
        // A width that is stated is compared; state spaces state none.
        let counts =
            if is_group(name) { !of_shapes || !value.is_null() } else { of_class && !of_shapes };
        let value = effect(model_type, name, value);
        let other = effect(model_type, name, given.get(name).unwrap_or(&Json::Null));
        (counts && !same(value, other)).then_some((name.as_str(), value, other))
    });
    differing.collect()
}

/// A value that two documents state differently: its key, or the name of a group of keys, and what each means.
pub(crate) type Unlike = (String, Json, Json);

/// The values that mean something else in another document, key by key within objects. `None` if transformers has no
/// class for the first, so that only the meaning of few keys is known.
pub(crate) fn unlike_values(
    stated: &Map<String, Json>,
    other: &Map<String, Json>,
    layers: u32,
) -> Option<Vec<Unlike>> {
    transformers::class(stated.get("model_type")?.as_str()?)?;
    let meaning = |document: &Map<String, Json>| {
        let mut meaning = meaning(document, layers);
        let rope = meaning.get_mut(meaning::group("rope_theta"));
        rope.into_iter().for_each(drop_scaling_by_one);
        meaning
    };
    let (own, others) = (meaning(stated), meaning(other));
    let mut found = Vec::new();
    for (name, value, other) in differing(stated, &own, &others) {
        add_unlike(name, value, other, &mut found);
    }
    Some(found)
}

/// Removes a scaling of rotary embeddings by 1, which mlx-lm's classes require where there is none.
fn drop_scaling_by_one(rope: &mut Json) {
    let Json::Object(rope) = rope else { return };
    rope.values_mut().filter(|value| value.is_object()).for_each(drop_scaling_by_one);
    let is_one = |key: &str| rope.get(key).map(|value| value.as_f64() == Some(1.0));
    let scales = matches!(rope.get("rope_type").and_then(Json::as_str), Some("linear" | "yarn"));
    if scales && is_one("factor") == Some(true) && is_one("attention_factor") != Some(false) {
        rope.retain(|key, _| ["rope_theta", "partial_rotary_factor"].contains(&key.as_str()));
    }
}

/// Adds a value, or the keys within it, that differ.
fn add_unlike(name: &str, value: &Json, other: &Json, found: &mut Vec<Unlike>) {
    let (Json::Object(own), Json::Object(others)) = (value, other) else {
        found.push((name.to_owned(), value.clone(), other.clone()));
        return;
    };
    let more = others.keys().filter(|key| !own.contains_key(key));
    for key in own.keys().chain(more) {
        let of = |map: &Map<String, Json>| map.get(key).cloned().unwrap_or(Json::Null);
        let (value, other) = (of(own), of(others));
        if !same(&value, &other) {
            let path = if is_group(name) { key.clone() } else { format!("{name}.{key}") };
            add_unlike(&path, &value, &other, found);
        }
    }
}

/// The keys that state a value together: those of a group, or the one of this name.
pub(crate) fn keys_of(name: &str) -> Vec<&str> {
    meaning::keys_of_group(name).map_or_else(|| vec![name], <[_]>::to_vec)
}

/// The config of a language model in a `config.json`, with the ids of tokens that the documents around it state, and
/// whether it is within another.
pub(crate) fn text_of(document: &Json) -> Option<(Map<String, Json>, bool)> {
    let mut configs = nested_configs(document).into_iter().filter_map(|(_, json)| json.as_object());
    let mut stated = configs.next().cloned()?;
    let mut is_inner = false;
    for (key, value) in configs.inspect(|_| is_inner = true).flatten() {
        if key.ends_with("_token_id") || key == "tie_word_embeddings" {
            stated.entry(key).or_insert_with(|| value.clone());
        }
    }
    Some((stated, is_inner))
}

/// The `config.json` that a model's keys give, with what a GGUF file keeps. `None` if there are no rules for it.
///
/// # Errors
///
/// Same as [`of_file`].
pub(crate) fn given(keys: &SourceModel<'_>) -> Result<Option<Map<String, Json>>> {
    let found = kept_and_derived(keys)?;
    Ok(found.map(|(kept, mut document)| {
        kept.restore(&mut document);
        document
    }))
}

/// The keys of an object that another one does not have with the same value; other values as they are.
fn unlike(value: &Json, other: &Json) -> Json {
    let (Json::Object(own), Json::Object(others)) = (value, other) else { return value.clone() };
    let other = |key: &String| others.get(key).unwrap_or(&Json::Null);
    let unlike = own.iter().filter(|(key, value)| !same(value, other(key)));
    Json::Object(
        unlike.map(|(key, value)| (key.clone(), self::unlike(value, other(key)))).collect(),
    )
}

/// A value in words, in at most 60 characters.
pub(crate) fn words(value: &Json) -> String {
    const LONGEST: usize = 60;
    let text = spelled(value);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn spelled(value: &Json) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Json::Null => "not stated".to_owned(),
        Json::Object(object) if object.is_empty() => "not stated".to_owned(),
        Json::Object(object) => match object.get("__float__") {
            Some(number) => spelled(number),
            None => list(object.iter().map(|(key, own)| pair(key, own)).collect()),
        },
        Json::Array(each) => match each.as_slice() {
            [first, _, _, ..] if each.iter().all(|other| other == first) => {
                format!("{} times {}", each.len(), spelled(first))
            }
            _ => format!("[{}]", list(each.iter().map(spelled).collect())),
        },
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn pair(key: &str, value: &Json) -> String {
    match value {
        Json::Object(object) if !object.contains_key("__float__") => {
            format!("{key} ({})", spelled(value))
        }
        _ => format!("{key} {}", spelled(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(json: Json) -> Map<String, Json> {
        json.as_object().cloned().unwrap()
    }

    fn mistral() -> Map<String, Json> {
        map(json!({
            "model_type": "mistral", "hidden_size": 64, "sliding_window": 8, "pad_token_id": null,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}, "torch_dtype": "float32",
        }))
    }

    fn derived() -> Map<String, Json> {
        map(json!({
            "model_type": "llama", "hidden_size": 64, "hidden_act": "gelu", "rope_theta": 1e4,
        }))
    }

    /// The same number for each layer is a number for all.
    #[test]
    fn numbers_of_all_layers() {
        let document = |used: Json| {
            map(json!({ "model_type": "hunyuan_v1_moe", "num_hidden_layers": 2, "moe_topk": used }))
        };
        let losses = |used: Json| Kept::of(&document(used), &document(json!(8)), 2, true).losses;
        assert_eq!(losses(json!([8, 8])), [""; 0]);
        assert_eq!(losses(json!([8, 4])), ["moe_topk: [8, 4] in config.json, 8 in GGUF"]);
    }

    /// A llama has no window; a mistral has one unless it says otherwise.
    #[test]
    fn what_is_not_kept_has_the_defaults_of_the_class_that_is() {
        let mut stated = mistral();
        stated.insert("sliding_window".to_owned(), Json::Null);
        let kept = Kept::of(&stated, &derived(), 2, true);
        assert_eq!(kept.config.get("sliding_window"), Some(&Json::Null));
        assert!(!kept.losses.join("; ").contains("window"), "{:?}", kept.losses);
        let mut document = derived();
        kept.restore(&mut document);
        assert_eq!(document.get("sliding_window"), Some(&Json::Null));
    }

    /// Llama 4's fourth layer does not rotate; a model with three has none that does not.
    #[test]
    fn a_model_with_fewer_layers_than_the_period_loses_nothing() {
        let stated = map(json!({"model_type": "llama4_text", "no_rope_layers": [1, 1, 1]}));
        let derived = map(json!({"model_type": "llama4_text", "no_rope_layer_interval": 4}));
        let losses = |layers| Kept::of(&stated, &derived, layers, true).losses.join("; ");
        assert_eq!(losses(3), "");
        assert!(losses(4).contains("layers with rotary embeddings"), "{}", losses(4));
    }

    /// MiniMax M2 states the number of rotated elements of a head.
    #[test]
    fn rotated_elements_are_a_part_of_the_head() {
        let config = |key: &str, value: Json| {
            let sizes = json!({"model_type": "minimax_m2", "head_dim": 32, "rope_theta": 1e4});
            let mut config = map(sizes);
            config.insert(key.to_owned(), value);
            config
        };
        let losses = |elements: u32| {
            let derived = config("partial_rotary_factor", json!(0.5));
            Kept::of(&config("rotary_dim", elements.into()), &derived, 2, true).losses.join("; ")
        };
        assert_eq!(losses(16), "");
        assert!(losses(8).contains("partial_rotary_factor 0.25"), "{}", losses(8));
    }

    /// llama.cpp always rounds them, which no key of GGUF says.
    #[test]
    fn bounds_of_yarn_that_are_not_rounded_are_a_loss() {
        let rope = |truncate: bool| {
            let yarn = json!({"rope_type": "yarn", "factor": 4.0, "truncate": truncate});
            map(json!({"model_type": "gpt_oss", "rope_scaling": yarn}))
        };
        // The keys of GGUF give the published models' config.
        let told = |truncate| Kept::of(&rope(truncate), &rope(false), 2, true);
        assert!(told(false).losses.join("; ").contains("bounds of YaRN"));
        assert!(!told(true).losses.join("; ").contains("truncate"), "{:?}", told(true).losses);
        assert!(told(true).config.contains_key("rope_scaling"));
    }

    #[test]
    fn keys_of_layers_that_do_not_exist_are_no_loss() {
        let stated = map(json!({
            "model_type": "granitemoehybrid", "mamba_d_conv": 7, "num_local_experts": 0,
            "num_experts_per_tok": 0, "layer_types": ["attention"], "shared_intermediate_size": 8,
        }));
        let derived = map(json!({"model_type": "granite"}));
        let told = Kept::of(&stated, &derived, 1, true).losses.join("; ");
        for key in ["mamba_", "num_experts_per_tok", "shared_intermediate_size"] {
            assert!(!told.contains(key), "{told}");
        }
    }

    #[test]
    fn only_what_differs_is_kept_and_comes_back() {
        let kept = Kept::of(&mistral(), &derived(), 2, true);
        let keys: Vec<&str> = kept.config.keys().map(String::as_str).collect();
        // The two forms of rotary embeddings mean the same, and the dtype is that of the files.
        assert_eq!(keys, ["model_type", "sliding_window", "pad_token_id"]);
        // The class's default is another one.
        assert_eq!(kept.derived.get("hidden_act"), Some(&json!("gelu")));
        let mut back = derived();
        kept.restore(&mut back);
        let expected = json!({
            "model_type": "mistral", "hidden_size": 64, "sliding_window": 8, "pad_token_id": null,
            "rope_theta": 1e4,
        });
        assert_eq!(Json::Object(back), expected);
    }

    #[test]
    fn losses_name_the_keys_with_the_defaults_of_both_classes() {
        let kept = Kept::of(&mistral(), &derived(), 2, true);
        let losses = kept.losses.join("\n");
        assert!(losses.contains("hidden_act: silu in config.json, gelu in GGUF"), "{losses}");
        assert!(
            losses.contains("sliding windows: [8, 8] in config.json, not stated in GGUF"),
            "{losses}"
        );
        assert_eq!(kept.losses.len(), 2, "{losses}");
        // Without a key, Mistral's class has a window of 4096.
        let mut stated = mistral();
        stated.remove("sliding_window");
        let losses = Kept::of(&stated, &derived(), 2, true).losses.join("\n");
        assert!(losses.contains("[4096, 4096]"), "{losses}");
        stated.insert("sliding_window".to_owned(), Json::Null);
        stated.insert("hidden_act".to_owned(), "gelu".into());
        assert!(Kept::of(&stated, &derived(), 2, true).losses.is_empty());
    }

    #[test]
    fn values_that_change_nothing_are_no_loss() {
        let losses = |stated: Json, derived: Json| {
            Kept::of(&map(stated), &map(derived), 2, true).losses.join("; ")
        };
        let falcon = json!({
            "model_type": "falcon_h1", "mamba_norm_before_gate": true, "mlp_multipliers": [1.0, 1.0],
            "mamba_chunk_size": 16,
            "time_step_limit": [0.0, {"__float__": "Infinity"}],
        });
        assert_eq!(losses(falcon, json!({"model_type": "falcon_h1"})), "");
        // Tensors have these widths, and the length of a chunk is that of a sum's parts.
        let mamba = json!({"model_type": "mamba2", "chunk_size": 16, "time_step_rank": 4});
        assert_eq!(losses(mamba, json!({"model_type": "mamba2", "intermediate_size": 8})), "");
        // Each object that transformers saves has what every config has.
        let within = json!({"ffn_act_fn": {"name": "silu"}, "chunk_size_feed_forward": 0,
            "id2label": {"0": "LABEL_0"}, "model_type": "", "_name_or_path": ""});
        let dbrx = json!({"model_type": "dbrx", "ffn_config": within});
        let silu = json!({"model_type": "dbrx", "ffn_config": {"ffn_act_fn": {"name": "silu"}}});
        assert_eq!(losses(dbrx.clone(), silu), "");
        assert!(losses(dbrx, json!({"model_type": "dbrx"})).contains("ffn_act_fn (name silu)"));
        let mixture = json!({"model_type": "qwen2_moe", "num_experts": 2, "num_experts_per_tok": 2, "norm_topk_prob": true});
        let derived = json!({"model_type": "qwen2_moe", "num_experts": 2, "num_experts_per_tok": 2, "norm_topk_prob": false});
        assert_eq!(losses(mixture, derived), "");
        // Greedy choice is among all experts.
        let groups = |method: &str| {
            json!({
                "model_type": "deepseek_v2", "n_group": 4, "topk_group": 2, "topk_method": method,
            })
        };
        let single = json!({"model_type": "deepseek_v2", "topk_method": "greedy"});
        assert_eq!(losses(groups("greedy"), single.clone()), "");
        let told = losses(groups("group_limited_greedy"), single);
        assert!(told.contains("groups of experts: [4, 2] in config.json, not stated"), "{told}");
    }

    #[test]
    fn values_are_spelled_without_json() {
        let limit = json!([0.001, {"__float__": "Infinity"}]);
        assert_eq!(words(&limit), "[0.001, Infinity]");
        assert_eq!(words(&json!([8, 8, 8])), "3 times 8");
        let rope = json!({"full_attention": {"rope_theta": 5e4}, "factor": 2.0});
        assert_eq!(words(&rope), "full_attention (rope_theta 50000.0), factor 2.0");
    }

    #[test]
    fn settings_of_training_are_kept_and_no_loss() {
        let stated = map(json!({ "model_type": "bert", "hidden_dropout_prob": 0.2 }));
        let derived = map(json!({ "model_type": "bert" }));
        let kept = Kept::of(&stated, &derived, 2, true);
        assert!(kept.losses.is_empty(), "{:?}", kept.losses);
        let mut back = derived;
        kept.restore(&mut back);
        assert_eq!(back, stated);
    }

    #[test]
    fn a_changed_value_drops_its_group_alone() {
        let mut stated = mistral();
        stated.insert("rope_parameters".to_owned(), json!({"rope_type": "dynamic", "factor": 2.0}));
        let kept = Kept::of(&stated, &derived(), 2, true);
        let mut back = derived();
        back.insert("rope_theta".to_owned(), json!(5e5));
        kept.restore(&mut back);
        assert_eq!(back.get("rope_theta"), Some(&json!(5e5)));
        assert!(!back.contains_key("rope_parameters"), "{back:?}");
        assert_eq!(back.get("sliding_window"), Some(&json!(8)));
    }

    #[test]
    fn it_is_written_to_keys_and_read_again() {
        let kept = Kept::of(&mistral(), &derived(), 2, true);
        let mut keys = KeyValues::new();
        kept.write(&mut keys);
        let names: Vec<String> = keys.iter().map(|(key, _)| key.to_string()).collect();
        assert_eq!(names, [CONFIG, DERIVED]);
        assert!(names.iter().all(|name| name.starts_with(PREFIX)));
        let whole = Kept::whole(&mistral());
        let mut back = Map::new();
        whole.restore(&mut back);
        assert_eq!(back.get("sliding_window"), Some(&json!(8)));
        assert!(!back.contains_key("torch_dtype"));
    }
}
