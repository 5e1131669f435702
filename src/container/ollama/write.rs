//! Writes models for Ollama's store, as Ollama fb307609 (2026-08-21) does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::gguf;
use super::super::safetensors::write::{Order, describe, layout};
use super::super::writer::{
    BlobStore, DocumentContent, DocumentKinds, ExpertName, NewDocument, NewFile, NewModel, NewPart,
    NewTensor, Placement, Writer,
};
use super::abilities::Sources;
use super::config::{ConfigBlob, ConfigSettings};
use super::manifest::{self, is_model};
use super::types::TYPES;
use crate::bytes::Files;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::place::ollama::{self as name, ModelName};
use crate::store::{Part, document};

/// Ollama's store.
const STORE: BlobStore = BlobStore {
    name: "Ollama's store",
    blobs: manifest::BLOBS,
    root: |manifest| {
        store_of_place(manifest).ok_or_else(|| {
            let fault = "not the path of a manifest in an Ollama store";
            Error::mismatch(fault).in_file(manifest)
        })
    },
    blob: manifest::blob,
    manifest: manifest::new_manifest,
    with_weights: manifest::with_model,
};

/// The writer of models of tensor blobs.
pub(crate) const WRITER: Writer = Writer {
    name: "Ollama",
    summary: "A model in Ollama's store: DST is its name",
    dialect: Dialect::HuggingFace,
    placement: Placement::Store(&STORE),
    metadata: &[],
    shard_bytes: None,
    holds: |dtype, parts| {
        is_plain_of_mlx(dtype) || has_type(dtype) && !parts.contains(&Part::GlobalAmax)
    },
    repacks_to: has_type,
    global: Part::GlobalScale,
    takes_global: |_| true,
    // As Ollama's own writer does.
    rounds_divisors: true,
    fallback: Some((DType::MLX_AFFINE8, 32)),
    widens_plain: true,
    keeps_schemes: false,
    documents: DocumentKinds::Json,
    // The blobs' metadata state it.
    quantization_in_config: false,
    expert: Some(expert),
    layout: blobs,
};

/// The writer of models of one GGUF blob.
pub(crate) const GGUF_WRITER: Writer =
    Writer { placement: Placement::Store(&STORE), layout: gguf_blob, ..gguf::write::WRITER };

/// Whether Ollama has a quantization type for a dtype.
fn has_type(dtype: DType) -> bool {
    TYPES.iter().any(|row| row.dtype == dtype)
}

/// Whether MLX reads a plain dtype correctly (`dtype_from_safetensor_str` of
/// mlx/io/safetensors.cpp). It does not read F64, and reads 8-bit floats as integers.
fn is_plain_of_mlx(dtype: DType) -> bool {
    dtype.is_integer() || matches!(dtype, DType::BOOL | DType::F16 | DType::BF16 | DType::F32)
}

/// The prefixes of `layers.{n}` with which Ollama recognizes experts (x/create/plan.go).
const BEFORE_LAYERS: &[&str] = &[
    "",
    "model.",
    "backbone.",
    "mtp.",
    "language_model.",
    "language_model.model.",
    "language_model.backbone.",
    "model.language_model.",
    "model.language_model.backbone.",
];

/// The text between the number of a layer and that of an expert.
const EXPERTS: &[&str] = &[
    ".mlp.experts.",
    ".mlp.shared_experts.",
    ".mlp.switch_mlp.",
    ".moe.experts.",
    ".mixer.experts.",
    ".mixer.shared_experts.",
];

/// Splits `model.layers.0.mlp.experts.7.up_proj.weight` into `model.layers.0.mlp.experts`, 7 and
/// `up_proj.weight`.
fn expert(name: &str) -> Option<ExpertName<'_>> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let found = |between: &&str| {
        let (layer, rest) = name.split_once(between)?;
        let (start, layer) = layer.split_once("layers.")?;
        let (number, projection) = rest.split_once('.')?;
        let known = BEFORE_LAYERS.contains(&start)
            && is_number(layer)
            && is_number(number)
            && projection.strip_suffix(".weight").is_some_and(|name| !name.is_empty());
        let group = name.get(..name.len() - rest.len() - 1)?;
        known
            .then(|| Some(ExpertName { group, number: number.parse().ok()?, projection }))
            .flatten()
    };
    EXPERTS.iter().find_map(found)
}

/// Lays out the tensors, then the documents, then the config. A draft model's tensors follow the JSON
/// documents of the model.
fn blobs(model: NewModel<'_>) -> Result<Vec<NewFile>> {
    let tensors = tensor_blobs(&model)?;
    let (prefix, config) = match model.documents.iter().find(|document| document.role == "config") {
        Some(config) => {
            let draft = ConfigBlob::parse(&json_of(config)?).draft;
            (draft.map_or_else(String::new, |draft| draft.tensor_prefix), None)
        }
        None => {
            let types = model.tensors.iter().map(|tensor| (tensor.dtype, tensor.group_size));
            let config = tensor_config(&model.documents, types, &ConfigSettings::default())?;
            (String::new(), Some(config))
        }
    };
    let documents = model.documents.into_iter().chain(config);
    let documents = documents.map(|document| {
        NewFile::document(document, |config| describe(config, None, model.tensors))
    });
    let documents = documents.collect::<Result<Vec<NewFile>>>()?;
    let is_draft = |file: &NewFile| !prefix.is_empty() && file.name.starts_with(&prefix);
    let (draft, own): (Vec<NewFile>, Vec<NewFile>) = tensors.into_iter().partition(is_draft);
    let is_json = |file: &NewFile| file.role == "json" && !file.name.starts_with(DRAFT_DOCUMENTS);
    let (json, others): (Vec<NewFile>, Vec<NewFile>) = documents.into_iter().partition(is_json);
    Ok(own.into_iter().chain(json).chain(draft).chain(others).collect())
}

/// Lays out one blob for each tensor, but a single blob for the experts of a layer if they have the
/// same type.
fn tensor_blobs(model: &NewModel<'_>) -> Result<Vec<NewFile>> {
    let mut files = Vec::new();
    let mut rest = model.tensors.iter().enumerate().peekable();
    while let Some((number, first)) = rest.next() {
        let mut together = vec![number];
        if first.experts.is_some() {
            while let Some((next, _)) = rest.next_if(|(_, next)| next.experts == first.experts) {
                together.push(next);
            }
        }
        let own = |number: &usize| model.tensors.get(*number).map(group_type_of);
        let alike = together.windows(2).all(|pair| pair.first().map(own) == pair.last().map(own));
        match &first.experts {
            Some(group) if alike => files.push(blob(group, model, together)?),
            _ => {
                for number in together {
                    let name = model.tensors.get(number).map_or("", |tensor| &tensor.name);
                    files.push(blob(name, model, vec![number])?);
                }
            }
        }
    }
    Ok(files)
}

/// The config of a model of tensor blobs with these documents. `types` are the dtypes and group sizes
/// of its tensors.
///
/// # Errors
///
/// `Unsupported` without a `config.json`; `Malformed` if it is not JSON.
pub(crate) fn tensor_config(
    documents: &[NewDocument],
    types: impl IntoIterator<Item = (DType, Option<u32>)>,
    settings: &ConfigSettings,
) -> Result<NewDocument> {
    let named = |name: &str| documents.iter().rfind(|document| document.name == name);
    let config = named("config.json").map(json_of).transpose()?;
    let config = config
        .ok_or_else(|| Error::unsupported("config.json is missing, but Ollama requires it"))?;
    // Ollama ignores a tokenizer_config.json that it cannot read, too.
    let tokenizer = named("tokenizer_config.json").and_then(|document| json_of(document).ok());
    let embedded = tokenizer.as_ref().and_then(|json| json.get("chat_template")?.as_str());
    let sources = Sources {
        config: Some(&config),
        embedded: embedded.unwrap_or_default(),
        standalone: &settings.chat_template,
    };
    let file_type = settings.file_type.unwrap_or_else(|| common_type(types.into_iter()));
    let blob = ConfigBlob::of_tensors(&sources, file_type, settings);
    Ok(config_blob(blob.to_json().into_bytes()))
}

/// The content of a JSON document; `null` for a copy of a file, which is not read here.
pub(crate) fn json_of(document: &NewDocument) -> Result<Json> {
    Ok(match &document.content {
        DocumentContent::Json(map) | DocumentContent::Config(map) => Json::Object(map.clone()),
        DocumentContent::Bytes(bytes) => Json::parse(bytes)
            .map_err(|error| Error::malformed(format!("{}: {error}", document.name)))?,
        DocumentContent::Copy(_) => Json::Null,
    })
}

/// The prefix of the names of a draft model's tensors.
pub(crate) const DRAFT_PREFIX: &str = "draft.";

/// The prefix of the names of a draft model's documents.
pub(crate) const DRAFT_DOCUMENTS: &str = "draft/";

/// The config of a model as a document.
pub(crate) fn config_blob(bytes: Vec<u8>) -> NewDocument {
    NewDocument {
        name: String::new(),
        role: "config".to_owned(),
        content: DocumentContent::Bytes(bytes),
    }
}

/// Lays out one GGUF file of the tensors, if there are any; then the documents, of which a copied
/// GGUF file is the first.
fn gguf_blob(mut model: NewModel<'_>) -> Result<Vec<NewFile>> {
    let documents = std::mem::take(&mut model.documents);
    let mut files = Vec::new();
    if !model.tensors.is_empty() {
        let keys = model.metadata.clone();
        files.push(gguf::write::file("", &model, 0..model.tensors.len(), keys)?);
    }
    for document in documents {
        files.push(NewFile::document(document, |_| {})?);
    }
    Ok(files)
}

/// The name of a quantization type and its group size; `None` for a dtype that is not quantized.
fn group_type(dtype: DType, group_size: Option<u32>) -> Option<(&'static str, u64)> {
    let row = TYPES.iter().find(|row| row.dtype == dtype)?;
    Some((row.name, group_size.unwrap_or(row.group_size).into()))
}

fn group_type_of(tensor: &NewTensor) -> Option<(&'static str, u64)> {
    group_type(tensor.dtype, tensor.group_size)
}

/// The quantization type of all quantized tensors; empty if there are none, or several types.
fn common_type(types: impl Iterator<Item = (DType, Option<u32>)>) -> &'static str {
    let mut names = types.filter_map(|(dtype, size)| group_type(dtype, size)).map(|(name, _)| name);
    let first = names.next().unwrap_or_default();
    if names.all(|name| name == first) { first } else { "" }
}

/// Lays out a blob of tensors of one type as Ollama's writer does.
fn blob(name: &str, model: &NewModel<'_>, tensors: Vec<usize>) -> Result<NewFile> {
    let mut metadata = BTreeMap::new();
    let first = tensors.first().and_then(|number| model.tensors.get(*number));
    if let Some((name, size)) = first.and_then(group_type_of) {
        metadata.insert("quant_type".to_owned(), name.to_owned());
        metadata.insert("group_size".to_owned(), size.to_string());
    }
    NewFile::tensors(name, "tensor", model, tensors, part_name, |arrays| {
        layout(&metadata, arrays, 8, Order::Given)
    })
}

fn part_name(tensor: &NewTensor, part: &NewPart) -> String {
    match part.part {
        Part::Weight => tensor.name.clone(),
        Part::Scale => format!("{}.scale", tensor.name),
        Part::Bias => format!("{}.bias", tensor.name),
        Part::GlobalScale => format!("{}.global_scale", tensor.name),
        other => format!("{}.{}", tensor.name, other.name()),
    }
}

/// Reads the manifest of a model of one GGUF blob, if its weights can be replaced.
///
/// # Errors
///
/// `Unsupported` for a manifest that is stored as a blob or in the second tree, and for a list of
/// manifests.
pub(crate) fn replaceable_model(path: &Path, limits: &Limits) -> Result<Json> {
    let refused = |fault: &str| {
        let advice = "copy the model to a file with `weighbridge convert NAME copy.gguf --to gguf`, \
                      change the copy, and create a model from it";
        Err(Error::unsupported(fault.to_owned()).advise(advice).in_file(path))
    };
    if path.is_symlink() {
        return refused("this manifest is named by its digest, so it cannot be changed");
    }
    if store_of_place(path).is_none() {
        return refused(
            "this manifest is in the second tree of manifests (manifests-v2), which this program only reads",
        );
    }
    let manifest = document::read(&Files::Disk, path, "", limits)?.json;
    let layers = manifest.get("layers").and_then(Json::as_array);
    match layers.is_some_and(|layers| layers.iter().any(is_model)) {
        true => Ok(manifest),
        false => refused("this manifest lists other manifests, so it cannot be changed"),
    }
}

/// The path of the manifest for a model name: in `store`, or in the store of this user's Ollama.
/// The manifest need not exist.
///
/// # Errors
///
/// `Mismatch` if the name does not follow Ollama's grammar; `NotFound` if the store's location is
/// unknown; `Unsupported` if the name exists in the second tree of manifests, which would hide the
/// new one.
pub fn place(name: &str, store: Option<&Path>) -> Result<PathBuf> {
    let Some(parsed) = ModelName::parse(name) else {
        return Err(Error::mismatch("not a valid name of an Ollama model")
            .in_file(Path::new(name))
            .advise("[HOST/][NAMESPACE/]MODEL[:TAG], of letters, digits, '_', '-' and '.'"));
    };
    let store = store.map(Path::to_path_buf).or_else(name::own_store).ok_or_else(|| {
        Error::not_found("the location of Ollama's store is unknown: neither OLLAMA_MODELS nor a home directory is set").advise("set OLLAMA_MODELS")
    })?;
    let path = parsed.place(&store);
    match parsed.find(&store) {
        Some(found) if found != path => {
            let fault = "a model with this name is in the second tree of manifests (manifests-v2), which this program only reads";
            Err(Error::unsupported(fault).in_file(&found).advise("give another name"))
        }
        _ => Ok(path),
    }
}

/// The store that contains the path of a manifest, as [`place`] returns it.
fn store_of_place(manifest: &Path) -> Option<PathBuf> {
    let tree = manifest.ancestors().nth(4)?;
    (tree.file_name()? == name::WRITTEN).then(|| tree.parent().map(Path::to_path_buf))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path();
        let at = |name: &str| place(name, Some(store));
        let written = store.join("manifests/registry.ollama.ai/library/Tales/int4");
        assert_eq!(at("Tales:int4").unwrap(), written);
        assert_eq!(store_of_place(&written).unwrap(), store);
        std::fs::create_dir_all(written.parent().unwrap()).unwrap();
        std::fs::write(&written, "{}").unwrap();
        // An existing model is found in any upper or lower case.
        assert_eq!(at("tales:INT4").unwrap(), written);
        assert!(at("../x").is_err());
        let second = store.join("manifests-v2/ollama.com/library/other/latest");
        std::fs::create_dir_all(second.parent().unwrap()).unwrap();
        std::fs::write(&second, "{}").unwrap();
        assert_eq!(at("other").unwrap_err().kind(), crate::ErrorKind::Unsupported);
    }
}
