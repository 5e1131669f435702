//! The `show` verb: what `ollama show` tells about a model in the store, without its server.

use std::collections::BTreeMap;

use super::modelfile::{Instruction, Modelfile};
use super::served::{GgufFacts, Template, shown_capabilities};
use crate::bytes::{Access, Text};
use crate::container::ollama::types::TYPES;
use crate::container::ollama::{ConfigBlob, OLLAMA, human};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::model::Model;
use crate::place::ollama::name_of_manifest;
use crate::recipe::FILE_TYPES;
use crate::store::{Attachment, Encoding, Store, document};

/// The facts that `ollama show` prints about a model. The fields have the names of Ollama's API.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShowReport {
    /// The texts of the licenses, each on lines of its own.
    pub license: String,
    /// A Modelfile that creates the model.
    pub modelfile: String,
    /// The parameters, one a line.
    pub parameters: String,
    /// The template that Ollama uses: in Go's language, or the chat template of a GGUF file.
    pub template: String,
    /// The system prompt.
    pub system: String,
    /// The renderer that writes prompts; empty if a template does.
    pub renderer: String,
    /// The parser that reads answers; empty if there is none.
    pub parser: String,
    /// Format, family and size.
    pub details: ShowDetails,
    /// The messages that conversations begin with.
    pub messages: Vec<ShowMessage>,
    /// The properties of the architecture, such as `general.architecture` and
    /// `llama.context_length`.
    pub model_info: BTreeMap<String, Json>,
    /// The properties of the first projector.
    pub projector_info: Option<BTreeMap<String, Json>>,
    /// The architecture of the draft model.
    pub draft: Option<String>,
    /// The model's capabilities, in Ollama's order.
    pub capabilities: Vec<String>,
    /// The oldest version of Ollama that runs the model; empty if any does.
    pub requires: String,
    /// The parameters by name, as they are stored.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub settings: BTreeMap<String, Json>,
}

/// The format, family and size of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShowDetails {
    /// `gguf` or `safetensors`.
    pub format: String,
    /// The family.
    pub family: String,
    /// The number of weights in readable form, such as `8.0B`.
    pub parameter_size: String,
    /// The quantization, such as `Q4_K_M`.
    pub quantization_level: String,
}

/// A message that conversations begin with.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ShowMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// The template of models without one.
const NO_TEMPLATE: &str = "{{ .Prompt }}";

/// Reports what `ollama show` tells about a model in Ollama's store.
///
/// # Errors
///
/// `Mismatch` if the model is not in a store; `Malformed`, `LimitExceeded` and `Io` if one of its
/// layers cannot be read.
pub fn show(model: &Model) -> Result<ShowReport> {
    let store = model.store();
    let name = name_of_manifest(store.path()).filter(|_| model.container() == OLLAMA.name);
    let (Some(name), Some(config)) = (name, base_config(store)?) else {
        let fault = "not a model in Ollama's store";
        return Err(Error::mismatch(fault)
            .in_file(store.path())
            .advise("`weighbridge inspect` shows models in files; `weighbridge create` puts one into the store"));
    };
    let config = ConfigBlob::parse(&config);
    let layers = Layers { store };
    let template = layers.template()?;
    let is_gguf = model.encoding() == Encoding::Gguf;
    let projector = layers.projector()?;
    let keys = store.metadata();
    let facts = is_gguf.then(|| gguf_facts(keys, projector.as_ref().map(Model::metadata)));
    let (capabilities, used) = shown_capabilities(&config, template.as_deref(), facts.as_ref());
    let parameters = layers.json("params")?;
    let messages = match layers.json("messages")? {
        Some(Json::Array(all)) => all.iter().map(message).collect(),
        _ => Vec::new(),
    };
    let weights = store.tensors().map(|tensor| tensor.elements()).fold(0, u64::saturating_add);
    let info = match is_gguf {
        true => gguf_info(keys, weights),
        false => directory_info(store, weights),
    };
    let mut details = ShowDetails {
        format: config.format.clone(),
        family: config.family.clone(),
        parameter_size: config.model_type.clone(),
        quantization_level: config.file_type.clone(),
    };
    if !is_gguf {
        details.family = text_of(&info, "general.architecture");
        details.parameter_size = human(weights);
    }
    if ["", "unknown"].contains(&details.quantization_level.as_str()) {
        let found = if is_gguf { gguf_file_type(keys) } else { directory_type(store) };
        details.quantization_level = found.unwrap_or(details.quantization_level);
    }
    let system = layers.last("system")?.unwrap_or_default();
    let licenses = layers.texts("license")?;
    let chat_template = facts.as_ref().map_or("", |facts| facts.chat_template).to_owned();
    let shown = match used {
        Template::Chat => chat_template,
        _ => template.clone().unwrap_or_else(|| NO_TEMPLATE.to_owned()),
    };
    let instructions = Instructions {
        name: &name,
        config: &config,
        template,
        system: &system,
        parameters: &parameters,
        licenses: &licenses,
        messages: &messages,
    };
    Ok(ShowReport {
        modelfile: instructions.modelfile(&layers, is_gguf),
        license: licenses.join("\n"),
        parameters: parameter_lines(&parameters),
        template: shown,
        system,
        renderer: config.renderer,
        parser: config.parser,
        details,
        messages,
        model_info: info,
        projector_info: projector.as_ref().map(|projector| {
            let store = projector.store();
            let weights = store.tensors().map(|tensor| tensor.elements());
            gguf_info(store.metadata(), weights.fold(0, u64::saturating_add))
        }),
        draft: config.draft.map(|draft| draft.architecture),
        capabilities,
        requires: config.requires,
        settings: parameters.iter().filter_map(Json::as_object).flatten().map(owned).collect(),
    })
}

/// The config blob of a stored model.
pub(super) fn base_config(store: &Store) -> Result<Option<Json>> {
    let config = store.attachments().iter().find(|attachment| attachment.kind == "config");
    config
        .map(|config| Ok(document::read(store.place(), &config.path, "", store.limits())?.json))
        .transpose()
}

/// The capabilities of a model in Ollama's store; `None` if its config is missing.
pub(super) fn stored_capabilities(model: &Model) -> Result<Option<Vec<String>>> {
    let store = model.store();
    let Some(config) = base_config(store)? else { return Ok(None) };
    let layers = Layers { store };
    let projector = layers.projector()?;
    let is_gguf = model.encoding() == Encoding::Gguf;
    let keys = store.metadata();
    let facts = is_gguf.then(|| gguf_facts(keys, projector.as_ref().map(Model::metadata)));
    let (template, config) = (layers.template()?, ConfigBlob::parse(&config));
    Ok(Some(shown_capabilities(&config, template.as_deref(), facts.as_ref()).0))
}

/// The layers of a stored model besides its weights.
struct Layers<'s> {
    store: &'s Store,
}

impl<'s> Layers<'s> {
    fn of(&self, kind: &str) -> impl Iterator<Item = &'s Attachment> {
        self.store.attachments().iter().filter(move |layer| layer.kind == kind)
    }

    /// The template in Go's language.
    fn template(&self) -> Result<Option<String>> {
        Ok(match self.last("template")? {
            Some(text) => Some(text),
            None => self.last("prompt")?,
        })
    }

    /// The first projector.
    fn projector(&self) -> Result<Option<Model>> {
        self.of("projector").next().map(|file| Model::open(&file.path)).transpose()
    }

    fn text(&self, layer: &Attachment) -> Result<String> {
        let source = self.store.place().open(&layer.path, Access::Read)?;
        let limit = self.store.limits().document_bytes;
        if source.len() > limit {
            let error = Error::limit("bytes of text", source.len(), limit, "document_bytes");
            return Err(error.in_file(&layer.path));
        }
        Ok(String::from_utf8_lossy(&source.bytes(0..source.len())?).into_owned())
    }

    fn texts(&self, kind: &str) -> Result<Vec<String>> {
        self.of(kind).map(|layer| self.text(layer)).collect()
    }

    fn last(&self, kind: &str) -> Result<Option<String>> {
        self.of(kind).last().map(|layer| self.text(layer)).transpose()
    }

    fn json(&self, kind: &str) -> Result<Option<Json>> {
        let Some(layer) = self.of(kind).last() else { return Ok(None) };
        let fault =
            |error| Error::malformed(format!("the layer {kind}: {error}")).in_file(&layer.path);
        Json::parse(self.text(layer)?.as_bytes()).map(Some).map_err(fault)
    }
}

fn owned((name, value): (&String, &Json)) -> (String, Json) {
    (name.clone(), value.clone())
}

fn message(json: &Json) -> ShowMessage {
    let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    ShowMessage { role: text("role"), content: text("content") }
}

pub(super) fn gguf_facts<'m>(keys: &'m Metadata, projector: Option<&Metadata>) -> GgufFacts<'m> {
    let architecture = keys.str("general.architecture").unwrap_or_default();
    let has = |key: &str| keys.get(&format!("{architecture}.{key}")).is_some();
    let hears = |keys: &Metadata| {
        let silent = keys.iter().any(|(key, value)| {
            key.spelling().ends_with("vision.projector_type")
                && value.to_text().is_some_and(|text| text.spelling() == "gemma3nv")
        });
        let encodes = keys.iter().any(|(key, value)| {
            key.spelling().ends_with(".has_audio_encoder") && value.to_bool() == Some(true)
        });
        encodes && !silent
    };
    GgufFacts {
        chat_template: keys.str("tokenizer.chat_template").unwrap_or_default(),
        pools: has("pooling_type"),
        sees: has("vision.block_count"),
        hears: has("audio.block_count"),
        has_projector: projector.is_some(),
        projector_hears: projector.is_some_and(hears),
    }
}

/// The keys of a GGUF file that are short: no arrays, no name, no chat template.
fn gguf_info(keys: &Metadata, weights: u64) -> BTreeMap<String, Json> {
    let mut info = BTreeMap::new();
    for (key, value) in keys.stored() {
        let key = key.spelling().into_owned();
        let text = value.to_text().map(|text: Text<'_>| Json::from(text.spelling().into_owned()));
        let number = value.to_u64().map(Json::from).or_else(|| value.to_f64().map(Json::from));
        let flag = value.to_bool().map(Json::from);
        if let Some(json) = text.or(flag).or(number)
            && !["general.name", "tokenizer.chat_template"].contains(&key.as_str())
        {
            info.insert(key, json);
        }
    }
    info.insert("general.parameter_count".to_owned(), weights.into());
    info
}

/// The properties of a model of tensor blobs (`buildModelInfo` of x/server/show.go).
fn directory_info(store: &Store, weights: u64) -> BTreeMap<String, Json> {
    let config = store.document("config.json").unwrap_or(&Json::Null);
    let text = |at: &str| config.pointer(at).and_then(Json::as_str).filter(|text| !text.is_empty());
    let architecture = match text("/model_type") {
        Some(name) => name.to_owned(),
        None => {
            let class = text("/architectures/0").unwrap_or_default().to_ascii_lowercase();
            let class = class.strip_suffix("forcausallm").unwrap_or(&class);
            class.strip_suffix("forconditionalgeneration").unwrap_or(class).to_owned()
        }
    };
    let number = |key: &str| config.get(key).and_then(Json::as_u64).filter(|number| *number > 0);
    let inner = |key: &str| {
        let inner = config.get("text_config").and_then(|text| text.get(key)?.as_u64());
        inner.filter(|number| *number > 0).or_else(|| number(key))
    };
    let all = [
        ("context_length", inner("max_position_embeddings")),
        ("embedding_length", inner("hidden_size")),
        ("block_count", inner("num_hidden_layers")),
        ("attention.head_count", number("num_attention_heads")),
        ("attention.head_count_kv", number("num_key_value_heads")),
        ("feed_forward_length", number("intermediate_size")),
        ("vocab_size", number("vocab_size")),
    ];
    let named = |(key, number): (&str, Option<u64>)| {
        Some((format!("{architecture}.{key}"), Json::from(number?)))
    };
    let mut info: BTreeMap<String, Json> = all.into_iter().filter_map(named).collect();
    info.insert("general.parameter_count".to_owned(), weights.into());
    info.insert("general.architecture".to_owned(), architecture.into());
    info
}

fn text_of(info: &BTreeMap<String, Json>, key: &str) -> String {
    info.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn gguf_file_type(keys: &Metadata) -> Option<String> {
    let number = keys.u64("general.file_type").filter(|number| *number > 0)?;
    let row = FILE_TYPES.iter().find(|row| row.number.map(u64::from) == Some(number))?;
    Some(row.name.to_owned())
}

/// The quantization type with the fewest bits, else the dtype in `config.json`.
fn directory_type(store: &Store) -> Option<String> {
    let dtypes = store.tensors().filter_map(|tensor| tensor.dtype().ok());
    let rows = dtypes.filter_map(|dtype| TYPES.iter().find(|row| row.dtype == dtype));
    let fewest = rows.min_by_key(|row| row.name.ends_with('8'));
    let config = store.document("config.json")?;
    let plain = config.get("torch_dtype").or_else(|| config.get("dtype"))?.as_str();
    fewest.map(|row| row.name).or(plain).map(str::to_owned)
}

/// A value as Go prints it in a Modelfile.
fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The parameters, each value of a list on a line of its own.
fn settings(parameters: &Option<Json>) -> Vec<(String, Json)> {
    let mut all: Vec<(String, Json)> = Vec::new();
    for (name, value) in parameters.iter().filter_map(Json::as_object).flatten() {
        match value {
            Json::Array(list) => all.extend(list.iter().map(|value| (name.clone(), value.clone()))),
            value => all.push((name.clone(), value.clone())),
        }
    }
    // Go's maps have no order.
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn parameter_lines(parameters: &Option<Json>) -> String {
    let line = |(name, value): (String, Json)| match value.as_str() {
        Some(text) => format!("{name:<30} {text:?}"),
        None => format!("{name:<30} {value}"),
    };
    settings(parameters).into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The contents of a Modelfile.
struct Instructions<'s> {
    name: &'s str,
    config: &'s ConfigBlob,
    template: Option<String>,
    system: &'s str,
    parameters: &'s Option<Json>,
    licenses: &'s [String],
    messages: &'s [ShowMessage],
}

impl Instructions<'_> {
    fn modelfile(self, layers: &Layers<'_>, is_gguf: bool) -> String {
        let paths = |kind: &str| -> Vec<String> {
            layers.of(kind).map(|layer| layer.path.to_string_lossy().into_owned()).collect()
        };
        let mut all = Vec::new();
        match (is_gguf, layers.store.files().next()) {
            (true, Some(file)) => all.push(Instruction::From(file.to_string_lossy().into_owned())),
            _ => all.push(Instruction::From(self.name.to_owned())),
        }
        all.extend(paths("adapter").into_iter().map(Instruction::Adapter));
        all.extend(paths("draft").pop().map(Instruction::Draft));
        all.extend(paths("projector").into_iter().map(Instruction::From));
        all.push(Instruction::Template(self.template.unwrap_or_else(|| NO_TEMPLATE.to_owned())));
        let text = |text: &str, make: fn(String) -> Instruction| {
            (!text.is_empty()).then(|| make(text.to_owned()))
        };
        all.extend(text(self.system, Instruction::System));
        all.extend(text(&self.config.renderer, Instruction::Renderer));
        all.extend(text(&self.config.parser, Instruction::Parser));
        let settings = settings(self.parameters).into_iter();
        all.extend(settings.map(|(name, value)| Instruction::Parameter(name, plain(&value))));
        all.extend(self.licenses.iter().cloned().map(Instruction::License));
        let message = |message: &ShowMessage| {
            Instruction::Message(message.role.clone(), message.content.clone())
        };
        all.extend(self.messages.iter().map(message));
        let comment = match is_gguf {
            true => format!(
                "# To start from the stored model, replace FROM with:\n# FROM {}\n\n",
                self.name
            ),
            false => String::new(),
        };
        format!(
            "# Modelfile generated by \"weighbridge show\"\n{comment}{}",
            Modelfile { instructions: all }
        )
    }
}
