//! Models of Ollama's registry, downloaded into Ollama's store: blobs first, the manifest last, as the
//! registry sent it, because its digest is the model's id.

use std::path::Path;
use std::sync::Arc;

use super::ollama_tag::Tag;
use super::plan::{PullFile, PullOptions, PullPlan, Target};
use super::transfer::{Content, Download};
use crate::bytes::{FileSystem, Files};
use crate::container::ollama::Manifest;
use crate::digest::FileDigest;
use crate::error::{AdvisedOption, Error, Result};
use crate::limits::Limits;
use crate::place::ollama::{ModelName, own_store};
use crate::remote::{Client, RegistryModel};
use crate::store::document;

/// Plans the download of a model's blobs.
pub(super) fn plan(
    name: &ModelName,
    options: &PullOptions,
    client: &Arc<Client>,
) -> Result<PullPlan> {
    let store = options.folder.clone().or_else(|| options.ollama_store.clone()).or_else(own_store);
    let store = store.ok_or_else(|| {
        Error::not_found(
            "the location of Ollama's store is unknown: neither OLLAMA_MODELS nor a home directory \
             is set",
        )
        .advise_option("set OLLAMA_MODELS, or give a folder with {}", AdvisedOption::Folder)
    })?;
    let model = Arc::new(RegistryModel::of(name, client));
    let limits = Limits::default();
    let source = model.open(model.manifest())?;
    if source.len() > limits.document_bytes {
        let limit = limits.document_bytes;
        return Err(Error::limit("bytes of JSON", source.len(), limit, "document_bytes"));
    }
    let manifest = source.bytes(0..source.len())?.into_owned();
    let json = document::parse(&manifest, &limits)?;
    if json.get("manifests").is_some() {
        let fault = "a list of manifests for several programs, which is not downloaded";
        return Err(Error::unsupported(fault).advise("pull the model with Ollama"));
    }
    let files = Files::Custom(Arc::clone(&model) as Arc<dyn FileSystem>);
    let read = |path: &Path| document::read(&files, path, "", &limits).map(|found| found.json);
    let parsed = Manifest::parse(&json, &store, &files, &read)?;
    let (mut shown, mut downloads): (Vec<PullFile>, Vec<Download>) = Default::default();
    for layer in parsed.layers.iter().chain(&parsed.config) {
        let place = layer.digest.path(&store);
        if downloads.iter().any(|other| other.place == place) {
            continue;
        }
        let digest = FileDigest::Sha256(layer.digest.hex().to_ascii_lowercase());
        let download = Download {
            address: model.blob(layer.digest.hex()),
            size: layer.size,
            content: Content::Digest(digest),
            // The name that Ollama gives to an unfinished blob; it deletes what is left of it.
            partial: place.with_file_name(format!("sha256-{}-partial", layer.digest.hex())),
            place,
            lock: None,
            copy: None,
        };
        let name = if layer.name.is_empty() { &layer.kind } else { &layer.name };
        let present = download.there();
        shown.push(PullFile { name: name.clone(), bytes: layer.size, present });
        downloads.push(download);
    }
    let path = name.place(&store);
    let blobs = downloads.iter().map(|download| download.place.clone()).collect();
    let tag = Tag { store, path: path.clone(), manifest, blobs };
    Ok(PullPlan {
        name: name.to_string(),
        path,
        files: shown,
        left_out: Vec::new(),
        note: None,
        client: Arc::clone(client),
        connections: options.connections,
        piece: options.piece,
        downloads,
        target: Target::OllamaStore(tag),
    })
}
