#![doc = include_str!("../../../docs/formats/ollama.md")]

mod blobs;
mod config;
mod manifest;
mod name;
pub(crate) mod write;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::{Container, OpenOptions, Opened, Probe, gguf, in_parallel};
use crate::bytes::{Access, Source, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Attachment, Store, document};
use name::Name;

pub(crate) use config::Config;
pub(crate) use manifest::{Digest, NewBlob, new_manifest, with_model};
use manifest::{Layer, Manifest};
pub use write::place;
pub(crate) use write::{replaceable_model, store_of_place};

/// The Ollama container's row in [`CONTAINERS`](super::CONTAINERS).
pub static OLLAMA: Container = Container {
    name: "ollama",
    summary: "models in Ollama's store, by name, manifest or blob: GGUF and tensor blobs",
    detect,
    open,
    write: Some(&write::WRITER),
};

fn detect(probe: &Probe<'_>) -> bool {
    if probe.directory.is_some() {
        return false;
    }
    manifest::is_manifest(probe.head.trim_ascii_start()) || blobs::is_tensor_blob(probe)
}

fn open(opened: Opened, options: &OpenOptions) -> Result<Store> {
    let source = match opened {
        Opened::File(source) => source,
        // Directories are never detected as Ollama.
        Opened::Directory(path, _) => Source::open(&path, options.access)?,
    };
    let mut head = [0; 1];
    source.read_at(0, &mut head)?;
    if head != *b"{" && !head[0].is_ascii_whitespace() {
        return blobs::open_blob(source, options);
    }
    let path = source.path().to_path_buf();
    let Some(store) = store_of(&path) else {
        return Err(Error::malformed("an Ollama manifest outside a store").advise(
            "the path of a manifest is STORE/manifests/HOST/NAMESPACE/MODEL/TAG, beside STORE/blobs",
        ));
    };
    open_manifest(&path, &store, options)
}

/// The store that contains a manifest: the folder above its tree of manifests.
fn store_of(path: &Path) -> Option<PathBuf> {
    let tree = path.ancestors().nth(5)?;
    let above = path.ancestors().nth(4)?;
    let name = above.file_name()?.to_str()?;
    name::TREES.contains(&name).then(|| tree.to_path_buf())
}

/// Opens a model by name, if `name` is valid as one. The caller has checked that no such path
/// exists.
///
/// Returns `None` if the name is invalid, and an error if no store has the model.
pub(super) fn open_name(name: &Path, options: &OpenOptions) -> Option<Result<Store>> {
    let text = name.to_str()?;
    let parsed = Name::parse(text)?;
    let stores = name::stores();
    let mut refused = Vec::new();
    for store in &stores {
        if let Some(path) = parsed.find(store) {
            return Some(
                open_manifest(&path, store, options).map_err(|error| error.in_file(&path)),
            );
        }
        if let Err(error) = std::fs::read_dir(store)
            && error.kind() == std::io::ErrorKind::PermissionDenied
        {
            refused.push(store.display().to_string());
        }
    }
    let places: Vec<String> = stores.iter().map(|store| store.display().to_string()).collect();
    let fault = format!("no such file, and no model of that name in {}", places.join(" or "));
    let error = Error::new(ErrorKind::NotFound, fault).in_file(name);
    Some(Err(match refused.as_slice() {
        [] => error.advise("`weighbridge list models` lists the models of a store"),
        refused => error.advise(format!(
            "{} cannot be read: join the group that owns it, or set OLLAMA_MODELS",
            refused.join(", ")
        )),
    }))
}

fn open_manifest(path: &Path, store: &Path, options: &OpenOptions) -> Result<Store> {
    let read =
        |path: &Path| document::read(path, "", &options.limits).map(|document| document.json);
    let json = read(path)?;
    check_linked(path)?;
    let manifest = Manifest::parse(&json, store, &read)?;
    let config = match &manifest.config {
        Some(layer) if layer.digest.path(store).exists() => read(&layer.digest.path(store)).ok(),
        _ => None,
    };
    let remote = config.as_ref().and_then(|config| {
        let host =
            config.get("remote_host").and_then(Json::as_str).filter(|host| !host.is_empty())?;
        Some(Error::unsupported(format!("a cloud model, served by {host}, without local weights")))
    });
    if let Some(remote) = remote {
        return Err(remote.advise("pull a model that runs on this machine"));
    }
    let (weights, tensors): (Vec<&Layer>, Vec<&Layer>) = manifest
        .layers
        .iter()
        .filter(|layer| matches!(layer.kind.as_str(), "model" | "tensor"))
        .partition(|layer| layer.kind == "model");
    let mut opened = match (weights.last(), tensors.is_empty()) {
        (Some(model), true) => {
            let source = open_layer(model, store, options.access)?;
            gguf::open_source_as(OLLAMA.name, source, options)?
        }
        (None, false) => blobs::open_tensors(path, store, &manifest, options)?,
        (Some(_), false) => {
            return Err(Error::malformed("the manifest has both a GGUF layer and tensor layers"));
        }
        (None, true) => {
            let kinds: Vec<&str> =
                manifest.layers.iter().map(|layer| layer.kind.as_str()).collect();
            let kinds = Text::new(kinds.join(", ").as_bytes()).to_string();
            return Err(Error::malformed(format!(
                "the model has no weights: its layers are {kinds}"
            )));
        }
    };
    attach(&mut opened, &manifest, store)?;
    for layer in manifest.layers.iter().chain(&manifest.config) {
        let mut blob = layer.digest.path(store);
        match std::fs::read_link(&blob) {
            Ok(target) => opened.note(&blob, format!("a symbolic link to {}", target.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let old = layer.digest.old_path(store);
                blob = if old.exists() { old } else { blob };
            }
            // The blob exists and is not a link.
            Err(_) => {}
        }
        opened.expect_digest(blob, layer.digest.hex());
    }
    opened.set_path(path);
    Ok(opened)
}

/// The layer kinds whose text becomes metadata, under `ollama.` and the kind.
const TEXTS: [&str; 7] =
    ["config", "template", "prompt", "system", "license", "params", "messages"];

/// The total size of such texts, in bytes; larger texts stay in their files.
const TEXT_BYTES: u64 = 1 << 20;

/// Lists the attachments of the model, and adds short texts to its metadata.
fn attach(opened: &mut Store, manifest: &Manifest, store: &Path) -> Result<()> {
    // Thousands of layers may name the same text.
    let (mut seen, mut room) = (std::collections::HashSet::new(), TEXT_BYTES);
    for layer in manifest.layers.iter().chain(&manifest.config) {
        if layer.kind == "tensor" || layer.kind == "model" {
            continue;
        }
        let path = layer.digest.path(store);
        let wanted = TEXTS.contains(&layer.kind.as_str()) && seen.insert(layer.digest.hex());
        if wanted && layer.size <= room && path.exists() {
            let source = Source::open(&path, Access::Read)?;
            let len = source.len().min(room);
            room = room.saturating_sub(len);
            opened.add_text(format!("ollama.{}", layer.kind), source.bytes(0..len)?.into_owned());
        }
        let (kind, name, bytes) = (layer.kind.clone(), layer.name.clone(), layer.size);
        opened.attach(Attachment { kind, name, bytes, path });
    }
    Ok(())
}

/// Checks a tag of the second tree, which is a link to a manifest stored as a blob: the content
/// must have the digest that names the blob.
fn check_linked(path: &Path) -> Result<()> {
    let Ok(target) = std::fs::read_link(path) else { return Ok(()) };
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digest = Digest::parse(name).map_err(|error| error.in_file(path))?;
    let source = Source::open(path, Access::Read)?;
    if crate::digest::sha256(&source)? != digest.hex().to_ascii_lowercase() {
        return Err(Error::malformed(
            "the manifest's content does not match the digest in its name",
        )
        .in_file(path)
        .advise("pull the model again"));
    }
    Ok(())
}

/// Opens a blob and checks its length against the manifest.
fn open_layer(layer: &Layer, store: &Path, access: Access) -> Result<Source> {
    let path = layer.digest.path(store);
    let what = match layer.name.as_str() {
        "" => format!("the {} layer", layer.kind),
        name => format!("the layer \"{}\"", Text::new(name.as_bytes())),
    };
    let source = match Source::open(&path, access) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Source::open(&layer.digest.old_path(store), access).map_err(|_| {
                Error::malformed(format!("the blob of {what} is missing"))
                    .in_file(&path)
                    .advise("pull the model again")
            })?
        }
        opened => opened?,
    };
    if source.len() != layer.size {
        let fault =
            format!("{what} has {} bytes, but the manifest says {}", source.len(), layer.size);
        return Err(Error::malformed(fault).in_file(&path).advise("pull the model again"));
    }
    Ok(source)
}

/// A model in a store, as `ollama list` shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredModel {
    /// The name with its tag; host and namespace are included only if they are not the defaults.
    pub name: String,
    /// The first 12 digits of the SHA-256 of the manifest.
    pub id: String,
    /// The total size of all blobs, in bytes, according to the manifest.
    pub bytes: u64,
    /// `gguf` or `safetensors`; empty for a model without weights.
    pub format: &'static str,
    /// The modification time of the manifest.
    pub modified: Option<std::time::SystemTime>,
    /// The path of the manifest.
    pub path: PathBuf,
}

/// Lists the models of `store`, or of the first of Ollama's default stores that exists. Manifests
/// that cannot be read are returned separately, as errors.
///
/// # Errors
///
/// `NotFound` if there is no store; `Io` if it cannot be listed.
pub fn models(
    store: Option<&Path>,
    options: &OpenOptions,
) -> Result<(PathBuf, Vec<StoredModel>, Vec<Error>)> {
    let places = store.map_or_else(name::stores, |store| vec![store.to_path_buf()]);
    let found =
        places.iter().find(|place| name::TREES.iter().any(|tree| place.join(tree).is_dir()));
    let Some(store) = found else {
        let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        return Err(Error::not_found(format!("no Ollama store at {}", places.join(" or ")))
            .advise("set OLLAMA_MODELS to the folder that holds `manifests` and `blobs`"));
    };
    let paths: Vec<PathBuf> =
        name::TREES.iter().flat_map(|tree| files_at_depth(&store.join(tree), 4)).collect();
    let read = |path: &PathBuf| Ok(stored_model(path, store, options));
    let (mut models, mut faults) = (Vec::new(), Vec::new());
    let mut names = std::collections::HashSet::new();
    for (path, found) in paths.iter().zip(in_parallel(&paths, options, read)?) {
        match found {
            // If a model is in both trees, the first takes precedence.
            Ok(Some(model)) if names.insert(model.name.clone()) => models.push(model),
            Ok(_) => {}
            Err(error) => faults.push(error.in_file(path)),
        }
    }
    models.sort_by(|a, b| Text::new(a.name.as_bytes()).natural_cmp(Text::new(b.name.as_bytes())));
    Ok((store.clone(), models, faults))
}

fn files_at_depth(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    if depth == 1 {
        return entries.map(|entry| entry.path()).collect();
    }
    entries.flat_map(|entry| files_at_depth(&entry.path(), depth - 1)).collect()
}

/// Returns `None` for a file whose path is not a model name.
fn stored_model(path: &Path, store: &Path, options: &OpenOptions) -> Result<Option<StoredModel>> {
    let mut parts = path.iter().rev().filter_map(|part| part.to_str());
    let (Some(tag), Some(model), Some(namespace), Some(host)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Ok(None);
    };
    let host = host.replace("%3A", ":");
    if Name::parse(&format!("{host}/{namespace}/{model}:{tag}")).is_none() {
        return Ok(None);
    }
    let name = match (host.as_str(), namespace) {
        ("registry.ollama.ai" | "ollama.com", "library") => format!("{model}:{tag}"),
        ("registry.ollama.ai" | "ollama.com", namespace) => format!("{namespace}/{model}:{tag}"),
        (host, namespace) => format!("{host}/{namespace}/{model}:{tag}"),
    };
    let source = Source::open(path, Access::Read)?;
    let limit = options.limits.document_bytes;
    if source.len() > limit {
        return Err(Error::limit("bytes of JSON", source.len(), limit, "document_bytes"));
    }
    let bytes = source.bytes(0..source.len())?;
    let read =
        |path: &Path| document::read(path, "", &options.limits).map(|document| document.json);
    let manifest = Manifest::parse(&document::parse(&bytes, &options.limits)?, store, &read)?;
    let has = |kind: &str| manifest.layers.iter().any(|layer| layer.kind == kind);
    let digest = crate::digest::sha256_of(&bytes)?;
    Ok(Some(StoredModel {
        name,
        id: digest.get(..12).unwrap_or_default().to_owned(),
        bytes: manifest.size(),
        format: match (has("model"), has("tensor")) {
            (true, _) => "gguf",
            (_, true) => "safetensors",
            _ => "",
        },
        modified: source.modified(),
        path: path.to_path_buf(),
    }))
}
