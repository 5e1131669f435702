//! The layers of a model in Ollama's store that are not made of its tensors: whole GGUF files, and
//! what belongs to them.

use std::path::Path;
use std::sync::Arc;

use crate::json::Json;

use super::QuantType;
use super::go_template::GoTemplate;
use super::parameters::Parameters;
use super::prompt::{PromptFormat, message_layer, stop_words};
use super::show::base_config;
use crate::adapter::Adapter;
use crate::bytes::Access;
use crate::container::gguf::write::model_keys;
use crate::container::ollama::{ConfigBlob, ConfigSettings, DraftEntry, OLLAMA, write};
use crate::container::writer::{DocumentContent, NewDocument};
use crate::engines::ollama::chat_of_architecture;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::model::Model;
use crate::recipe::FILE_TYPES;
use crate::store::{Encoding, Store};
use crate::write::{Builder, OutTensor, WritePlan};

/// Layers that are added to a model, or replaced in it.
#[derive(Debug, Default)]
pub(crate) struct NewLayers {
    pub(crate) settings: ConfigSettings,
    pub(crate) template: Option<String>,
    pub(crate) system: Option<String>,
    pub(crate) licenses: Vec<String>,
    pub(crate) parameters: Parameters,
    /// Roles and texts.
    pub(crate) messages: Vec<(String, String)>,
    /// Projectors and adapters in GGUF.
    pub(crate) files: Vec<Model>,
    /// Adapters in other containers, which are converted to GGUF.
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) draft: Option<Model>,
    pub(crate) draft_quantization: Option<QuantType>,
}

impl NewLayers {
    fn is_empty(&self) -> bool {
        let ConfigSettings { renderer, parser, requires, .. } = &self.settings;
        let texts = [renderer, parser, requires, &self.template, &self.system];
        texts.iter().all(|text| text.is_none())
            && self.licenses.is_empty()
            && self.parameters.is_empty()
            && self.messages.is_empty()
            && self.files.is_empty()
            && self.adapters.is_empty()
            && self.draft.is_none()
    }

    /// Adds the layers of texts to those of the model, in Ollama's order. A new text takes the place
    /// of the old one, licenses are added, and parameters are merged. `stop` has the stop words for
    /// a model whose user sets none.
    pub(crate) fn edit(
        &self,
        mut layers: Vec<NewDocument>,
        stop: &[&str],
    ) -> Result<Vec<NewDocument>> {
        if self.is_empty() && stop.is_empty() {
            return Ok(layers);
        }
        let remove = |layers: &mut Vec<NewDocument>, role: &str| {
            layers.retain(|layer| layer.role != role);
        };
        for (role, text) in [("template", &self.template), ("system", &self.system)] {
            let Some(text) = text else { continue };
            remove(&mut layers, role);
            if !text.is_empty() {
                layers.push(text_layer(role, text.clone()));
            }
        }
        layers.extend(self.licenses.iter().map(|text| text_layer("license", text.clone())));
        let mut parameters = self.parameters.clone();
        if !parameters.has("stop") {
            for word in stop {
                parameters.set("stop", word)?;
            }
        }
        for layer in layers.iter().filter(|layer| layer.role == "params") {
            match &layer.content {
                DocumentContent::Bytes(bytes) => parameters.add_missing(bytes)?,
                DocumentContent::Copy(source) => {
                    let bytes = source.bytes(0..source.len())?;
                    parameters.add_missing(&bytes).map_err(|error| error.in_file(source.path()))?;
                }
                DocumentContent::Json(_) | DocumentContent::Config(_) => {}
            }
        }
        if !parameters.is_empty() {
            remove(&mut layers, "params");
            layers.push(text_layer("params", parameters.to_layer()));
        }
        if !self.messages.is_empty() {
            remove(&mut layers, "messages");
            layers.push(text_layer("messages", message_layer(&self.messages)));
        }
        Ok(layers)
    }
}

/// Plans a GGUF model as one blob: a copy of its file, or of its shards merged.
pub(crate) fn gguf_blob(model: &Model, new: &NewLayers) -> Result<WritePlan> {
    check_decodable(model)?;
    let role = gguf_role(model.store().metadata());
    let mut builder = Builder::with_writer(&write::GGUF_WRITER);
    builder.reads(model.store());
    let weights = match file_layer(model, role) {
        Some(layer) => Some(layer?),
        None if role == "model" => {
            merged_gguf(model, &mut builder);
            None
        }
        None => {
            let fault = format!("this {role} is in several files; Ollama reads one");
            return Err(Error::unsupported(fault).advise("merge them: `weighbridge merge`"));
        }
    };
    add_layers(&mut builder, model, model, weights, new)?;
    let tensors = OutTensor::copies_of(model);
    let mut plan = builder.plan()?;
    let planned = tensors.iter().map(|tensor| Ok(tensor.planned(&tensor.describe()?)));
    plan.tensors = planned.collect::<Result<_>>()?;
    Ok(plan)
}

/// A GGUF model that is made from `source`, as one blob, with the layers of `source` besides its weights.
pub(crate) fn made_blob(source: &Model, made: Builder, new: &NewLayers) -> Result<Builder> {
    let planned = made.model(source)?;
    let planned = planned.ok_or_else(|| Error::unsupported("a model of one file is needed"))?;
    check_decodable(&planned)?;
    let mut builder = made.written_by(&write::GGUF_WRITER);
    add_layers(&mut builder, &planned, source, None, new)?;
    Ok(builder)
}

/// Adds the layers of a GGUF model: its file, unless it is written, those of `source`, and new ones.
fn add_layers(
    builder: &mut Builder,
    model: &Model,
    source: &Model,
    weights: Option<NewDocument>,
    new: &NewLayers,
) -> Result<()> {
    let store = model.store();
    let role = gguf_role(store.metadata());
    let base = base_config(source.store())?;
    let is_copy = weights.is_some() && new.is_empty() && base.is_some();
    let mut layers = Vec::from_iter(weights);
    if is_copy {
        layers.extend(stored_layers(source.store(), |_, _| true)?);
    } else {
        // A projector that is given takes the place of that in the model's folder.
        let is_given = source.container() != OLLAMA.name
            && new.files.iter().any(|file| gguf_role(file.metadata()) == "projector");
        let is_kept = |kind: &str| kind != "config" && !(is_given && kind == "projector");
        layers.extend(stored_layers(source.store(), |kind, _| is_kept(kind))?);
        if role == "model" && source.container() != OLLAMA.name {
            let template = store.metadata().str("tokenizer.chat_template").unwrap_or_default();
            layers.extend(known_format(template, builder).unwrap_or_default());
        }
        check_projectors(model, new)?;
        let draft = add_files(new, &mut layers, builder)?;
        let settings = ConfigSettings { draft, base, ..new.settings.clone() };
        layers = new.edit(layers, default_stop(role, store.metadata(), &settings))?;
        let config = gguf_config(role, store, &settings);
        dropped_prompt(&layers, &config)?.into_iter().for_each(|note| builder.note(note));
        layers.push(config);
    }
    layers.into_iter().for_each(|layer| builder.push_document(layer));
    source.attached_projector_fault().into_iter().for_each(|note| builder.note(note));
    Ok(())
}

/// Refuses projectors that do not fit the model.
fn check_projectors(model: &Model, new: &NewLayers) -> Result<()> {
    let projectors = new.files.iter().filter(|file| gguf_role(file.metadata()) == "projector");
    for file in projectors {
        if let Some(fault) = model.projector_fault(file) {
            let advice = "give the projector (mmproj) that was made from the same model";
            return Err(Error::mismatch(fault).in_file(file.path()).advise(advice));
        }
    }
    Ok(())
}

/// Adds all tensors and metadata of a GGUF model, as one file.
fn merged_gguf(model: &Model, builder: &mut Builder) {
    *builder.metadata() = model_keys(model.store().metadata());
    builder.push_copies_of(model);
}

/// Ollama's template and stop words for a chat template that it knows.
pub(super) fn known_format(template: &str, builder: &mut Builder) -> Option<Vec<NewDocument>> {
    let format = PromptFormat::of(template)?;
    let name = format.name;
    builder.note(format!("adds Ollama's template {name}, which its chat template resembles"));
    Some(vec![
        text_layer("template", format.go_template()),
        text_layer("params", stop_words(&format.stop())),
    ])
}

/// The stop words of an architecture. They go with the renderer and the parser that it gets.
fn default_stop(role: &str, keys: &Metadata, settings: &ConfigSettings) -> &'static [&'static str] {
    let base = settings.base.as_ref().map(ConfigBlob::parse).unwrap_or_default();
    let is_set = |set: &Option<String>, base: &str| set.is_some() || !base.is_empty();
    let complete =
        is_set(&settings.renderer, &base.renderer) && is_set(&settings.parser, &base.parser);
    match keys.str("general.architecture") {
        Some(architecture) if role == "model" && !complete => chat_of_architecture(architecture).1,
        _ => &[],
    }
}

/// Adds the files of adapters, projectors and a draft model, and returns the draft's entry in the
/// config.
fn add_files(
    new: &NewLayers,
    layers: &mut Vec<NewDocument>,
    builder: &mut Builder,
) -> Result<Option<DraftEntry>> {
    for file in &new.files {
        check_decodable(file)?;
        builder.reads(file.store());
        let role = gguf_role(file.metadata());
        layers.push(file_layer(file, role).unwrap_or_else(|| Err(one_file(file)))?);
    }
    let Some(draft) = &new.draft else { return Ok(None) };
    check_decodable(draft)?;
    builder.reads(draft.store());
    layers.retain(|layer| layer.role != "draft");
    layers.push(file_layer(draft, "draft").unwrap_or_else(|| Err(one_file(draft)))?);
    let architecture = draft.metadata().str("general.architecture").unwrap_or_default();
    let (format, architecture) = ("gguf".to_owned(), architecture.to_owned());
    Ok(Some(DraftEntry { format, architecture, ..DraftEntry::default() }))
}

/// The config of a manifest whose main layer is a GGUF file.
fn gguf_config(role: &str, store: &Store, settings: &ConfigSettings) -> NewDocument {
    let keys = store.metadata();
    let config = match role {
        "model" => {
            let family = keys.str("general.architecture").unwrap_or_default();
            let weights = store.tensors().map(|tensor| tensor.elements());
            let weights = weights.fold(0, u64::saturating_add);
            ConfigBlob::of_gguf(family, weights, file_type(keys), settings)
        }
        _ => ConfigBlob::of_nothing(),
    };
    write::config_blob((config.to_json() + "\n").into_bytes())
}

/// The name of the file type. Ollama takes number 0, F32, for a missing one.
fn file_type(keys: &Metadata) -> &'static str {
    let number = keys.u64("general.file_type").filter(|number| *number > 0);
    let named = FILE_TYPES.iter().find(|row| row.number.map(u64::from) == number);
    named.filter(|_| number.is_some()).map_or("unknown", |row| row.name)
}

/// The kind of layer that a GGUF file becomes: `model`, `adapter` or `projector`.
pub(crate) fn gguf_role(keys: &Metadata) -> &'static str {
    let architecture = keys.str("general.architecture").unwrap_or_default();
    let own = |key: &str| format!("{architecture}.{key}");
    let layers = |key: &str| keys.u64(&own(key)).is_some_and(|count| count > 0);
    let is_true = |key: &str| keys.get(&own(key)).and_then(|value| value.to_bool()) == Some(true);
    match keys.str("general.type") {
        Some("adapter") => "adapter",
        Some("projector" | "mmproj") => "projector",
        _ if layers("block_count") => "model",
        _ if layers("vision.block_count") => "projector",
        _ if architecture == CLIP
            && (is_true("has_vision_encoder") || is_true("has_audio_encoder")) =>
        {
            "projector"
        }
        _ => "model",
    }
}

/// The architecture of projectors in files that state no type.
const CLIP: &str = "clip";

/// The ggml types that Ollama knows the size of (fs/ggml): among those of llama.cpp, neither TQ1_0
/// and TQ2_0 (34 and 35) nor Q2_0 (42).
const DECODED: [std::ops::RangeInclusive<u32>; 4] = [0..=3, 6..=30, 39..=39, 40..=41];

/// Checks that Ollama, and the llama.cpp within it, can read a GGUF model.
fn check_decodable(model: &Model) -> Result<()> {
    let store = model.store();
    let rewrite = "convert the model to GGUF again, which writes a copy that it reads";
    for tensor in store.tensors() {
        let refused = |fault: String| {
            Error::unsupported(fault).in_tensor(tensor.name().spelling()).in_file(store.path())
        };
        if tensor.is_big_endian() {
            let fault = "Ollama does not read big-endian GGUF files".to_owned();
            return Err(refused(fault).advise(rewrite));
        }
        let known = tensor.dtype().ok().and_then(|dtype| dtype.descriptor().ggml);
        if !known.is_some_and(|code| DECODED.iter().any(|codes| codes.contains(&code))) {
            let fault = format!("Ollama does not read {}", tensor.dtype_label());
            return Err(refused(fault).advise(
                "convert the model to a dtype that it reads, such as Q8_0, or quantize the original",
            ));
        }
    }
    for file in store.files().filter(|file| store.place().exists(file)) {
        let mut head = [0; 8];
        let source = store.place().open(file, Access::Read)?;
        source.read_at(0, &mut head)?;
        if let [b'G', b'G', b'U', b'F', 1, 0, 0, 0] = head {
            let fault = "Ollama does not run GGUF files of version 1";
            return Err(Error::unsupported(fault).in_file(file).advise(rewrite));
        }
    }
    Ok(())
}

fn one_file(model: &Model) -> Error {
    let fault = "not a GGUF file, or several; Ollama takes one for each of these layers";
    Error::unsupported(fault).in_file(model.path())
}

/// A GGUF model's file as a layer; `None` if it has several files, or none on a disk.
fn file_layer(model: &Model, role: &str) -> Option<Result<NewDocument>> {
    let (files, place): (Vec<&Path>, _) = (model.files().collect(), model.store().place());
    match files.as_slice() {
        [one] if place.exists(one) && model.encoding() == Encoding::Gguf => {
            let source = place.open(one, Access::Read);
            Some(source.map(|source| layer(role, DocumentContent::Copy(Arc::new(source)))))
        }
        _ => None,
    }
}

/// The layers of a stored model besides its own weights, as far as `kept` accepts their kind and
/// name: template, system prompt, parameters, licenses, a draft model.
pub(crate) fn stored_layers(
    store: &Store,
    kept: impl Fn(&str, &str) -> bool,
) -> Result<Vec<NewDocument>> {
    let all = store.attachments().iter();
    let kept = all.filter(|attachment| kept(&attachment.kind, &attachment.name));
    kept.map(|attachment| {
        let copy = store.place().open(&attachment.path, Access::Read)?;
        let content = DocumentContent::Copy(Arc::new(copy));
        let (name, role) = (attachment.name.clone(), attachment.kind.clone());
        Ok(NewDocument { name, role, content })
    })
    .collect()
}

fn layer(role: &str, content: DocumentContent) -> NewDocument {
    NewDocument { name: String::new(), role: role.to_owned(), content }
}

/// A note if the template has no place for the system prompt. A renderer needs no template.
pub(super) fn dropped_prompt(
    layers: &[NewDocument],
    config: &NewDocument,
) -> Result<Option<&'static str>> {
    let content = |layer: &NewDocument| match &layer.content {
        DocumentContent::Bytes(bytes) => Ok(bytes.clone()),
        DocumentContent::Copy(source) => Ok(source.bytes(0..source.len())?.to_vec()),
        DocumentContent::Json(_) | DocumentContent::Config(_) => Ok(Vec::new()),
    };
    let layer = |role: &str| layers.iter().find(|layer| layer.role == role);
    let is_rendered = Json::parse(&content(config)?)
        .is_ok_and(|config| !ConfigBlob::parse(&config).renderer.is_empty());
    if layer("system").is_none() || is_rendered {
        return Ok(None);
    }
    let template: Result<Vec<u8>> = layer("template").map_or(Ok(Vec::new()), content);
    let template = GoTemplate::parse(&String::from_utf8_lossy(&template?));
    let drops = template.is_ok_and(|it| !it.names("system") && !it.names("messages"));
    let note = "Ollama drops the system prompt: the template has neither .System nor .Messages; give one that has";
    Ok(drops.then_some(note))
}

fn text_layer(role: &str, text: String) -> NewDocument {
    layer(role, DocumentContent::Bytes(text.into_bytes()))
}
