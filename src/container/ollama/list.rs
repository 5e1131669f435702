//! Lists the models of a store.

use std::path::{Path, PathBuf};

use super::super::{OpenOptions, in_parallel};
use super::manifest::Manifest;
use crate::bytes::{Access, Files, Source, Text};
use crate::error::{Error, Result};
use crate::place::ollama as name;
use crate::place::ollama::{TREES, name_of_manifest};
use crate::store::document;

/// The name of the model whose manifest a path is, as `ollama list` shows it: `llama3.2:latest`. `None` for
/// other paths.
pub fn name_of(path: &Path) -> Option<String> {
    let tree = path.iter().rev().nth(4)?.to_str()?;
    TREES.contains(&tree).then(|| name_of_manifest(path))?
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
    /// The paths of the blobs with weights: those of the model, its projector and its adapters.
    pub weights: Vec<PathBuf>,
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
    let Some(name) = name_of_manifest(path) else { return Ok(None) };
    let source = Source::open(path, Access::Read)?;
    let limit = options.limits.document_bytes;
    if source.len() > limit {
        return Err(Error::limit("bytes of JSON", source.len(), limit, "document_bytes"));
    }
    let bytes = source.bytes(0..source.len())?;
    let read = |path: &Path| {
        document::read(&Files::Disk, path, "", &options.limits).map(|document| document.json)
    };
    let manifest =
        Manifest::parse(&document::parse(&bytes, &options.limits)?, store, &Files::Disk, &read)?;
    let has = |kind: &str| manifest.layers.iter().any(|layer| layer.kind == kind);
    let digest = crate::digest::sha256_of(&bytes)?;
    let is_weights = |kind: &str| ["model", "tensor", "projector", "adapter"].contains(&kind);
    let weights = manifest.layers.iter().filter(|layer| is_weights(&layer.kind));
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
        weights: weights.map(|layer| layer.digest.path(store)).collect(),
    }))
}
