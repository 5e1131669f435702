//! Opening models of Ollama's store by name, manifest or blob.

use std::path::{Path, PathBuf};

use super::super::{DetectedPath, OpenOptions, Probe, gguf};
use super::blobs;
use super::config::{ConfigBlob, DraftEntry};
use super::manifest::{self, Digest, Layer, Manifest};
use crate::bytes::{Access, Files, Text};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::place::ollama::TREES;
use crate::store::{Attachment, Store, document};

pub(super) fn detect(probe: &Probe<'_>) -> bool {
    manifest::is_manifest(probe.head.trim_ascii_start()) || blobs::is_tensor_blob(probe)
}

pub(super) fn open(opened: DetectedPath, options: &OpenOptions) -> Result<Store> {
    let source = match opened {
        DetectedPath::File(source) => source,
        // Directories are never detected as Ollama.
        DetectedPath::Directory(path, _) => options.files.open(&path, options.access)?,
    };
    let mut head = [0; 1];
    source.read_at(0, &mut head)?;
    if head != *b"{" && !head[0].is_ascii_whitespace() {
        return blobs::open_blob(source, options);
    }
    let path = source.path().to_path_buf();
    let Some(store) = store_of(&path) else {
        return Err(Error::malformed("an Ollama manifest outside a store").advise(
            "the path of a manifest is STORE/manifests/HOST/NAMESPACE/MODEL/TAG, next to STORE/blobs",
        ));
    };
    open_manifest(&path, &store, options)
}

/// The store that contains a manifest: the folder above its tree of manifests.
fn store_of(path: &Path) -> Option<PathBuf> {
    let tree = path.ancestors().nth(5)?;
    let above = path.ancestors().nth(4)?;
    let name = above.file_name()?.to_str()?;
    TREES.contains(&name).then(|| tree.to_path_buf())
}

/// Opens the model of a store whose manifest is at `path`.
pub(in super::super) fn open_manifest(
    path: &Path,
    store: &Path,
    options: &OpenOptions,
) -> Result<Store> {
    let read = |path: &Path| {
        document::read(&options.files, path, "", &options.limits).map(|document| document.json)
    };
    let json = read(path)?;
    check_linked(path, &options.files)?;
    let mut manifest = Manifest::parse(&json, store, &options.files, &read)?;
    let config = match &manifest.config {
        Some(layer) if options.files.exists(&layer.digest.path(store)) => {
            read(&layer.digest.path(store)).ok()
        }
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
    let draft = config.as_ref().and_then(|config| ConfigBlob::parse(config).draft);
    let drafts = separate_draft(&mut manifest, draft.as_ref());
    let (weights, tensors): (Vec<&Layer>, Vec<&Layer>) = manifest
        .layers
        .iter()
        .filter(|layer| matches!(layer.kind.as_str(), "model" | "tensor"))
        .partition(|layer| layer.kind == "model");
    let mut opened = match (weights.last(), tensors.is_empty()) {
        (Some(model), true) => {
            let source = model.open(store, &options.files, options.access)?;
            gguf::open_source_as(blobs::NAME, source, options)?
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
    attach(&mut opened, &manifest, store, options)?;
    for layer in &drafts {
        let (kind, name, bytes) = (layer.kind.clone(), layer.name.clone(), layer.size);
        opened.attach(Attachment { kind, name, bytes, path: layer.digest.path(store) });
    }
    for layer in manifest.layers.iter().chain(&drafts).chain(&manifest.config) {
        let mut blob = layer.digest.path(store);
        match options.files.link_target(&blob) {
            Ok(Some(target)) => {
                opened.note(&blob, format!("a symbolic link to {}", target.display()));
            }
            Ok(None) => {}
            Err(_) => {
                let old = layer.digest.old_path(store);
                blob = if options.files.exists(&old) { old } else { blob };
            }
        }
        opened.expect_digest(blob, layer.digest.hex());
    }
    opened.set_path(path);
    Ok(opened)
}

/// Takes the tensors of a draft model out of the manifest. They are tensors of another model, which
/// guesses ahead of this one.
fn separate_draft(manifest: &mut Manifest, draft: Option<&DraftEntry>) -> Vec<Layer> {
    let Some(prefix) = draft.map(|draft| draft.tensor_prefix.as_str()).filter(|p| !p.is_empty())
    else {
        return Vec::new();
    };
    let is_draft = |layer: &Layer| layer.kind == "tensor" && layer.name.starts_with(prefix);
    let (drafts, own) = std::mem::take(&mut manifest.layers).into_iter().partition(is_draft);
    manifest.layers = own;
    drafts
}

/// The layer kinds whose text becomes metadata, under `ollama.` and the kind.
const TEXTS: [&str; 7] =
    ["config", "template", "prompt", "system", "license", "params", "messages"];

/// The total size of such texts, in bytes; larger texts stay in their files.
const TEXT_BYTES: u64 = 1 << 20;

/// Lists the attachments of the model, and adds short texts to its metadata.
fn attach(
    opened: &mut Store,
    manifest: &Manifest,
    store: &Path,
    options: &OpenOptions,
) -> Result<()> {
    // Thousands of layers may name the same text.
    let (mut seen, mut room) = (std::collections::HashSet::new(), TEXT_BYTES);
    for layer in manifest.layers.iter().chain(&manifest.config) {
        if layer.kind == "tensor" || layer.kind == "model" {
            continue;
        }
        let path = layer.digest.path(store);
        let wanted = TEXTS.contains(&layer.kind.as_str()) && seen.insert(layer.digest.hex());
        if wanted && layer.size <= room && options.files.exists(&path) {
            let source = options.files.open(&path, Access::Read)?;
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
fn check_linked(path: &Path, files: &Files) -> Result<()> {
    let Ok(Some(target)) = files.link_target(path) else { return Ok(()) };
    let name = target.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digest = Digest::parse(name).map_err(|error| error.in_file(path))?;
    let source = files.open(path, Access::Read)?;
    if crate::digest::sha256(&source)? != digest.hex().to_ascii_lowercase() {
        return Err(Error::malformed(
            "the manifest's content does not match the digest in its name",
        )
        .in_file(path)
        .advise("pull the model again"));
    }
    Ok(())
}
