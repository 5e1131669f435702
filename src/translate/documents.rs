//! Documents and metadata of models that are written.

use std::borrow::Cow;

use super::pruned::PrunedLayers;
use super::{card, config, general, key_types, modules, tokenizer};
use crate::arch::factor;
use crate::arch::kept::{self, GENERATION, Kept};
use crate::arch::source::KeyWriter;
use crate::arch::tower::{Tower, TowerConfig};
use crate::arch::{
    ConfigField, Dialect, Resolution, config_json, is_in_words_of_meta, source_model,
    source_of_keys, unlike_fields,
};
use crate::container::gguf::write::model_keys;
use crate::engines::mlx_vlm;
use crate::error::{Error, ErrorKind, Result};
use crate::json::{Json, Map};
use crate::metadata::{KeyValues, Value};
use crate::model::{Model, OUTPUT};
use crate::store::{Encoding, Note, Store, folder};
use crate::tokenizer::{Tokenizer, TokenizerTables, of_library};

/// The metadata of a model in GGUF, as llama.cpp's `convert_hf_to_gguf.py` writes it. For a GGUF
/// file, this is its own metadata.
///
/// The caller must set `general.file_type`, since it depends on the dtypes that are written; until
/// then it is that of `F32`. The license, tags and base models are those of the model card. What the
/// converter guesses from the model's name is omitted: `general.basename` and related keys.
///
/// # Errors
///
/// `Unsupported` if there are no rules for the family, or a required number is missing;
/// `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub fn gguf_metadata(model: &Model) -> Result<KeyValues> {
    Ok(gguf_metadata_and_notes(model)?.0)
}

/// Like [`gguf_metadata`], with notes for the user, such as an unknown pre-tokenizer.
///
/// # Errors
///
/// Same as [`gguf_metadata`].
pub fn gguf_metadata_and_notes(model: &Model) -> Result<(KeyValues, Vec<Note>)> {
    let store = model.store();
    if store.encoding() == Encoding::Gguf {
        let mut keys = model_keys(store.metadata());
        let note = key_types::correct_types(&mut keys);
        let notes = note.into_iter().map(|text| Note::new(store.path(), text)).collect();
        return Ok((keys, notes));
    }
    let resolution = model.resolution()?;
    let variant = config::gguf::gguf_variant(store)?;
    let mut keys = KeyValues::new();
    keys.set_text("general.architecture", variant.gguf);
    keys.set_text("general.type", "model");
    general::sampling(store, &mut keys)?;
    let generated = gguf_tensors(model)?.iter().map(|(_, values)| values.len() as u64).sum();
    general::names(store, resolution, generated, &mut keys);
    config::gguf::gguf_keys(store, resolution, &mut keys)?;
    keys.set("general.quantization_version", Value::U32(BLOCKS));
    let config = model.config()?;
    let rows = config.vocab_size.as_ref().map(|rows| rows.value);
    let note = tokenizer::gguf::gguf_keys(store, variant, rows, &mut keys)?;
    if variant.tokenizer.has("counts_token_types")
        && let Some(kinds) = &config.scales.type_vocab_size
    {
        keys.set("tokenizer.ggml.token_type_count", Value::U32(kinds.value));
    }
    let notes = note.into_iter().map(|text| Note::new(store.path(), text)).collect();
    Ok((keys, notes))
}

/// The `general.architecture` of a model in GGUF.
///
/// # Errors
///
/// `Unsupported` if there is none for the model.
pub(crate) fn gguf_architecture(model: &Model) -> Result<String> {
    let own = model.metadata().str("general.architecture");
    match own.filter(|_| model.encoding() == Encoding::Gguf) {
        Some(name) => Ok(name.to_owned()),
        None => Ok(config::gguf::gguf_variant(model.store())?.gguf.to_owned()),
    }
}

/// The metadata of a model's vision model in GGUF, as llama.cpp's converter writes it with
/// `--mmproj`. `weights` is the number of its weights.
///
/// # Errors
///
/// See [`TowerConfig::keys`]; `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub(crate) fn projector_metadata(
    model: &Model,
    tower: &Tower,
    config: &TowerConfig<'_>,
    weights: u64,
    file_type: u32,
) -> Result<KeyValues> {
    let mut keys = KeyValues::new();
    keys.set_text("general.architecture", "clip");
    keys.set_text("general.type", "mmproj");
    general::sampling(model.store(), &mut keys)?;
    general::projector_names(model.store(), weights, &mut keys);
    keys.set("general.file_type", Value::U32(file_type));
    config.keys(tower, model.config()?.dim.value, &mut KeyWriter::new("clip", &mut keys))?;
    keys.set("general.quantization_version", Value::U32(BLOCKS));
    Ok(keys)
}

/// The number of rows of the position embedding before that of the first position. A directory has
/// them, GGUF does not.
///
/// # Errors
///
/// Same as [`Model::config`]; `Unsupported` if the number of rows cannot be determined.
pub(crate) fn rows_before_positions(store: &Store, resolution: &Resolution) -> Result<u64> {
    let Some(rows) = resolution.architecture.and_then(|row| row.rows_before_positions) else {
        return Ok(0);
    };
    let model = source_model(store, resolution)?;
    if store.encoding() == Encoding::Gguf {
        // The kept config counts all rows, the tensor has those of positions alone.
        let kept = Kept::read(store.metadata()).map_err(|error| error.in_file(store.path()))?;
        let stored = model.rows("position_embedding.weight");
        if let (Some(all), Some(stored)) = (kept.count("max_position_embeddings"), stored)
            && let Some(before @ 1..=16) = all.checked_sub(stored)
        {
            return Ok(before);
        }
    }
    rows(&model)
}

/// The version of ggml's block layouts, 2 since June 2023.
const BLOCKS: u32 = 2;

/// Tensors that exist in GGUF only, which the converter derives from the config: divisors of rotary
/// frequencies. Empty for a GGUF file, which contains its own.
///
/// # Errors
///
/// Same as [`gguf_metadata`].
pub fn gguf_tensors(model: &Model) -> Result<Vec<(&'static str, Vec<f32>)>> {
    if model.encoding() == Encoding::Gguf {
        return Ok(Vec::new());
    }
    config::gguf::gguf_tensors(model.store(), model.resolution()?)
}

/// The documents of a Hugging Face or MLX directory: `config.json` and the others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Documents {
    /// `config.json`.
    pub config: ConfigDocument,
    /// Names and contents of the other files.
    pub others: Vec<(&'static str, Vec<u8>)>,
}

impl Documents {
    /// All files by name, `config.json` first.
    pub fn into_files(self) -> Vec<(&'static str, Vec<u8>)> {
        let mut files = vec![(ConfigDocument::NAME, self.config.into_bytes())];
        files.extend(self.others);
        files
    }
}

/// A `config.json`. It is serialized once, when it is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConfigDocument {
    /// The file beside the weights, byte for byte.
    Stored(Vec<u8>),
    /// A document that was generated from the model's metadata, or changed.
    Made(Map<String, Json>),
}

impl ConfigDocument {
    const NAME: &'static str = "config.json";

    /// The keys of the document.
    ///
    /// # Errors
    ///
    /// `Malformed` if the file is not a JSON object.
    pub fn keys(&self) -> Result<Cow<'_, Map<String, Json>>> {
        match self {
            Self::Stored(bytes) => {
                let fault = |error| Error::malformed(format!("{}: {error}", Self::NAME));
                Map::parse_python(bytes).map(Cow::Owned).map_err(fault)
            }
            Self::Made(map) => Ok(Cow::Borrowed(map)),
        }
    }

    /// The keys of the document, without a copy if they are parsed already.
    ///
    /// # Errors
    ///
    /// As [`keys`](Self::keys).
    pub fn into_keys(self) -> Result<Map<String, Json>> {
        match self {
            Self::Made(map) => Ok(map),
            stored @ Self::Stored(_) => stored.keys().map(Cow::into_owned),
        }
    }

    /// The bytes of the document: those of the file, or indented JSON.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Made(map) => format!("{map:#}").into_bytes(),
        }
    }
}

/// The documents of a model in a Hugging Face directory: `config.json`, `generation_config.json`,
/// those of the tokenizer, and those of sentence-transformers, one of which is in a folder.
///
/// Documents that exist beside the weights are copied byte for byte. A generated `config.json`
/// states `torch_dtype` if the embedding's dtype is plain; a caller that writes another dtype must
/// change it. The text model of an MLX directory without vision and audio models gets a
/// `config.json` of its own.
///
/// # Errors
///
/// `Unsupported` if there are no rules for the family or the tokenizer; `Malformed`,
/// `LimitExceeded` and `Io` if a file cannot be read.
pub fn hf_documents(model: &Model) -> Result<Documents> {
    let mut documents = documents(model)?;
    let resolution = model.resolution()?;
    if resolution.dialect == Dialect::Mlx && !resolution.has_towers() {
        let keys = documents.config.keys().map_err(|error| error.in_file(model.path()))?;
        let mut made = config_json::text_alone(&keys);
        let before = model.config().ok().and_then(|config| config.attention.window_before.as_ref());
        if let Some(window) = before {
            // mlx-lm counts the current position in this key, and transformers does not.
            let text = made.get_or_insert(keys.into_owned());
            text.remove("sliding_window_size");
            text.insert("sliding_window".to_owned(), window.value.into());
        }
        documents.config = made.map_or(documents.config, ConfigDocument::Made);
    }
    Ok(documents)
}

/// The model's `tokenizer.json`: the one beside the weights, or one that splits text as the model's other
/// tokenizer does, which is GGUF's keys or a model of SentencePiece. `None` without a tokenizer.
///
/// # Errors
///
/// `Unsupported` for a tokenizer that cannot be translated; `Malformed` if a file breaks its format;
/// `LimitExceeded`; `Io` if a file cannot be read.
pub fn tokenizer_json(model: &Model) -> Result<Option<Json>> {
    let store = model.store();
    let name = "tokenizer.json";
    if store.encoding() != Encoding::Gguf
        && let Some((file, _)) = of_library(store)?
    {
        return Json::parse(&file.bytes).map(Some).map_err(|error| error.in_file(&file.path));
    }
    let mut made = tokenizer::hf::files(store, None)?.into_iter();
    Ok(made.find(|(found, _)| *found == name).map(|(_, json)| json))
}

/// Like [`tokenizer_json`], with the vocabulary and the merges as tables, which take a tenth of the memory.
///
/// # Errors
///
/// Same as [`tokenizer_json`]; `Malformed` for a merge of texts that are not in the vocabulary.
pub fn tokenizer_tables(model: &Model) -> Result<Option<TokenizerTables>> {
    let store = model.store();
    if store.encoding() != Encoding::Gguf
        && let Some((file, _)) = of_library(store)?
    {
        let tables = TokenizerTables::parse(&file.bytes, store.limits());
        let mut tables = tables.map_err(|error| error.in_file(&file.path))?;
        if let Some(config) = store.read_document("tokenizer_config.json")? {
            tables.add_tokens(&config);
        }
        return Ok(Some(tables));
    }
    let mut tables = tokenizer::hf::tables(store)?;
    if store.encoding() != Encoding::Gguf
        && let (Some(tables), Some(config)) =
            (&mut tables, store.read_document("tokenizer_config.json")?)
    {
        tables.add_tokens(&config);
    }
    Ok(tables)
}

/// The documents beside the weights, or those that follow from GGUF's metadata.
fn documents(model: &Model) -> Result<Documents> {
    let store = model.store();
    if store.encoding() != Encoding::Gguf
        && let Some(config) = store.document(ConfigDocument::NAME)
    {
        let mut documents = beside(store, config)?;
        let resolution = model.resolution()?;
        let in_other_words = config.as_object().is_some_and(is_in_words_of_meta);
        if resolution.dialect == Dialect::Publisher || in_other_words {
            // Of the publisher's own classes, whose names and keys the written tensors do not have.
            let made = derived_config(store, resolution)?;
            if in_other_words || made.get("model_type") != config.get("model_type") {
                documents.config = ConfigDocument::Made(made);
            }
        }
        return Ok(documents);
    }
    let kept = Kept::read(store.metadata()).map_err(|error| error.in_file(store.path()))?;
    let mut config = match kept.whole {
        true => Map::new(),
        false => derived_config(store, model.resolution()?)?,
    };
    kept.restore(&mut config);
    // RoBERTa's `max_position_embeddings` also counts rows that belong to no position.
    let family = store.metadata().str("general.architecture");
    let longest = family.and_then(|name| store.metadata().u64(&format!("{name}.context_length")));
    let longest = longest.and_then(|longest| u32::try_from(longest).ok());
    let tokenizer = tokenizer::hf::files(store, longest)?;
    let mut generation = generation(store, &config)?;
    let kept = Kept::read_from(store.metadata(), GENERATION);
    kept.map_err(|error| error.in_file(store.path()))?.restore(&mut generation);
    config_json::without_padding(&mut config);
    let written = |(name, json): (&'static str, Json)| (name, format!("{json:#}").into_bytes());
    // Without the file, transformers takes the special tokens of config.json.
    let generation =
        (!generation.is_empty()).then_some(("generation_config.json", Json::Object(generation)));
    let modules = modules::files(store, model.resolution()?);
    let others = generation.into_iter().chain(tokenizer).chain(modules).map(written);
    let others = others.chain(card::file(store)).collect();
    Ok(Documents { config: ConfigDocument::Made(config), others })
}

/// The `generation_config.json` that GGUF keys alone give.
fn generation(store: &Store, config: &Map<String, Json>) -> Result<Map<String, Json>> {
    let mut generation = general::generation(store);
    for (name, id) in Tokenizer::of(store)?.into_iter().flat_map(|t| t.special) {
        if SPECIAL.contains(&name.as_str()) {
            let key = format!("{name}_token_id");
            let id = Json::from(id.value);
            // The config may keep several, of which GGUF states one.
            let several =
                config.get(&key).filter(|ids| ids.as_array().is_some_and(|ids| ids.contains(&id)));
            generation.insert(key, several.cloned().unwrap_or(id));
        }
    }
    Ok(generation)
}

/// The values of a model's `generation_config.json` that the keys of its GGUF file, of which `gguf` is the draft, do
/// not state. Empty for a model in GGUF.
///
/// # Errors
///
/// `Malformed` and `Io` if a document cannot be read.
pub(crate) fn kept_generation(model: &Model, gguf: &Model, kept: &Kept) -> Result<Kept> {
    let store = model.store();
    let Some(Json::Object(stated)) =
        store.read_document("generation_config.json")?.map(Cow::into_owned)
    else {
        return Ok(Kept::default());
    };
    let mut config = kept.stated.clone();
    kept.restore(&mut config);
    Ok(Kept::generation(&stated, &generation(gguf.store(), &config)?, general::is_setting))
}

/// Special tokens whose ids `config.json` states.
const SPECIAL: [&str; 3] = ["bos", "eos", "pad"];

/// The `config.json` that GGUF keys alone give.
fn derived_config(store: &Store, resolution: &Resolution) -> Result<Map<String, Json>> {
    let mut config = config_json::hf_config(&source_of_keys(store, resolution)?)?;
    for (name, id) in Tokenizer::of(store)?.into_iter().flat_map(|t| t.special) {
        if SPECIAL.contains(&name.as_str()) {
            config.insert(format!("{name}_token_id"), id.value.into());
        }
    }
    config_json::without_padding(&mut config);
    Ok(config)
}

/// Checks that the remaining layers of a model are of the kinds that they were. `before` and `after` are
/// the model in GGUF, with all layers and without the removed ones.
///
/// # Errors
///
/// `Unsupported` if a layer would change; `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub(crate) fn check_pruned(before: &Model, after: &Model, pruned: &PrunedLayers) -> Result<()> {
    if let (Ok(before), Ok(after)) = (before.config(), after.config()) {
        pruned.check_kinds(before, after)?;
    }
    let document = |model: &Model| match derived_config(model.store(), model.resolution()?) {
        // No rules for the family.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        derived => derived.map(Some),
    };
    match document(before)?.zip(document(after)?) {
        Some((before, after)) => pruned.check_meaning(&before, &after),
        None => Ok(()),
    }
}

/// The values of a model's `config.json` that its GGUF keys do not state. `gguf` is the same model
/// in GGUF. `None` for a model without `config.json`. `whole` says whether no tensor is left out,
/// so that the class of the model stays the same.
///
/// # Errors
///
/// `Malformed`, `LimitExceeded` and `Io` if a file cannot be read.
pub(crate) fn kept(
    model: &Model,
    gguf: &Model,
    whole: bool,
    pruned: Option<&PrunedLayers>,
) -> Result<Option<Kept>> {
    let Some(root) = model.store().document(ConfigDocument::NAME) else {
        let mut kept = Kept::default();
        kept.losses = unlike(model, gguf);
        return Ok(Some(kept).filter(|kept| !kept.losses.is_empty()));
    };
    let Some((mut stated, is_inner)) = kept::text_of(root) else { return Ok(None) };
    // The keys of GGUF say it in full.
    if is_in_words_of_meta(&stated) {
        return Ok(None);
    }
    // The weights are multiplied by them.
    let factors = factor::rules(model.resolution()?);
    let is_multiplied = !factors.is_empty();
    for key in factor::keys(factors) {
        stated.remove(key);
    }
    if let Some(pruned) = pruned {
        pruned.edit_config(&mut stated);
    }
    // An output matrix that is stored counts, whatever the document says. Models with an encoder scale
    // logits by this flag.
    let tied = model.config().ok().and_then(|config| config.tie_embeddings.as_ref());
    let scales = stated.get("is_encoder_decoder").and_then(Json::as_bool) == Some(true);
    if let Some(stated) = stated.get_mut("tie_word_embeddings").filter(|_| !scales)
        && (tied.is_some_and(|tied| !tied.value) || is_multiplied && gguf.has(OUTPUT))
    {
        *stated = false.into();
    }
    let layers = gguf.config().map_or(0, |config| config.n_layers.value);
    match derived_config(gguf.store(), gguf.resolution()?) {
        Ok(derived) => {
            let mut kept = Kept::of(&stated, &derived, layers, whole && !is_inner);
            if !whole && !is_inner {
                kept.keep_model_type(&derived);
            }
            Ok(Some(kept))
        }
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            let mut kept = Kept::whole(&stated);
            kept.losses = unlike(model, gguf);
            Ok(Some(kept))
        }
        Err(error) => Err(error),
    }
}

/// Fields that two configs state with different values, of a model whose GGUF keys do not give its document. `gguf` is the
/// same model in GGUF.
fn unlike(model: &Model, gguf: &Model) -> Vec<String> {
    let (Ok(own), Ok(given)) = (model.config(), gguf.config()) else { return Vec::new() };
    let has_network = gguf.resolution().is_ok_and(Resolution::has_network);
    let found = unlike_fields(own, given, has_network).into_iter();
    let loss = |(own, given): (ConfigField<'_>, Option<ConfigField<'_>>)| {
        let document = own.source.document_name();
        let lost = given.is_some() || document.is_some();
        let given = given.map_or_else(|| "not stated".to_owned(), |given| given.value.to_string());
        let document = document.unwrap_or(ConfigDocument::NAME);
        lost.then(|| format!("{}: {} in {document}, {given} in GGUF", own.name, own.value))
    };
    found.filter_map(loss).collect()
}

/// Like [`hf_documents`], for an MLX directory. `config.json` also has the keys that mlx-lm requires
/// or reads under other names. mlx-lm supports the text models of Qwen 3.5 and Gemma 3n only as
/// parts of models with images, so their `config.json` has a `text_config`. For models with a vision model,
/// it has what mlx-vlm's class reads.
///
/// # Errors
///
/// Same as [`hf_documents`]; `Malformed` if `config.json` is not a JSON object.
pub fn mlx_documents(model: &Model) -> Result<Documents> {
    let mut documents = documents(model)?;
    let keys = documents.config.keys().map_err(|error| error.in_file(model.path()))?;
    let mut changed =
        config_json::within_in_mlx(&keys).unwrap_or_else(|| keys.clone().into_owned());
    let resolution = model.resolution()?;
    let class = mlx_vlm::class_of(&changed).filter(|_| resolution.has_towers());
    class.into_iter().for_each(|class| class.flatten(&mut changed));
    if resolution.architecture.is_some() {
        config::mlx::state_for_mlx_lm(model.store(), resolution, &mut changed)?;
    }
    class.into_iter().for_each(|class| class.adapt(&mut changed));
    if changed != *keys {
        documents.config = ConfigDocument::Made(changed);
    }
    Ok(documents)
}

/// The documents beside the weights that only describe quantization, for a copy that stays quantized.
pub(crate) fn quantization_documents(store: &Store) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let limit = (store.limits().vocabulary_bytes, "vocabulary_bytes");
    let mut found = Vec::new();
    for &name in folder::QUANTIZATION_DOCUMENTS {
        found.extend(store.read_companion(name, limit)?.map(|file| (name, file.bytes)));
    }
    Ok(found)
}

/// The documents beside the weights. `config` is the parsed `config.json`.
fn beside(store: &Store, config: &Json) -> Result<Documents> {
    let limit = (store.limits().vocabulary_bytes, "vocabulary_bytes");
    let read = |name| Ok::<_, Error>(store.read_companion(name, limit)?.map(|file| file.bytes));
    let config = match read(ConfigDocument::NAME)? {
        Some(bytes) => ConfigDocument::Stored(bytes),
        None => ConfigDocument::Made(config.as_object().cloned().unwrap_or_default()),
    };
    let mut others = Vec::new();
    for name in folder::documents() {
        others.extend(read(name)?.map(|bytes| (name, bytes)));
    }
    Ok(Documents { config, others })
}
