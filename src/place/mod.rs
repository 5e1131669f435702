//! Resolves a user's name of a model: to a path, a model of Ollama's store, or a repository in the
//! cache of the Hugging Face hub's client. [`resolve`] is the only place that decides it.
//!
//! The order, which docs/remote.md documents:
//!
//! 1. a path that exists; of a repository's folder in the hub's cache, its current snapshot;
//! 2. an address, such as `hf://` or `https://`;
//! 3. a model of Ollama's store: `llama3.2`;
//! 4. a repository of the hub's cache: `org/name`, `org/name@revision`, `org/name:Q4_K_M`.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

pub(crate) mod choice;
pub(crate) mod hub;
pub(crate) mod ollama;

use std::path::{Path, PathBuf};

use crate::bytes::{Files, Text};
use crate::error::{Error, ErrorKind, Result};
use hub::HubName;
use ollama::ModelName;

/// The place of a model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    /// A file or folder of this machine.
    Path(PathBuf),
    /// A name with a scheme, whose files are on a server.
    Address,
    /// A manifest in one of Ollama's stores.
    Manifest { path: PathBuf, store: PathBuf },
}

/// The place that a name resolves to.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) place: Place,
    /// A note about another model that the name also matches.
    pub(crate) note: Option<String>,
}

/// The schemes of names whose files are on servers.
pub(crate) const SCHEMES: [&str; 7] = ["http", "https", "hf", "ollama", "s3", "gs", "az"];

/// The scheme of a name such as `https://host/model.gguf`.
pub(crate) fn scheme(name: &Path) -> Option<&'static str> {
    let (scheme, _) = name.to_str()?.split_once("://")?;
    SCHEMES.into_iter().find(|known| *known == scheme)
}

/// Finds the model that a name means.
///
/// # Errors
///
/// `NotFound` if there is none on this machine, with the places that were looked at; `Io` for a path
/// that cannot be read; an error of [`choice::gguf`] if a repository does not have the wanted file.
pub(crate) fn resolve(name: &Path) -> Result<Resolved> {
    let metadata = name.metadata();
    if metadata.is_ok() || Files::Disk.is_file(name) {
        let other = stored(name).map(|(path, _)| {
            let shown = ollama::name_of_manifest(&path).unwrap_or_default();
            format!("the path is opened; {shown} names the model of Ollama's store")
        });
        let path = hub::current_snapshot(name).unwrap_or_else(|| name.to_path_buf());
        return Ok(Resolved { place: Place::Path(path), note: other });
    }
    if scheme(name).is_some() {
        return Ok(Resolved { place: Place::Address, note: None });
    }
    let text = name.to_str().unwrap_or_default();
    let repository = HubName::parse(text);
    let cached = repository.as_ref().and_then(|name| hub::cached(name).transpose()).transpose();
    if let Some((path, store)) = stored(name) {
        let note = cached.ok().flatten().map(|snapshot| {
            let shown = Text::from_path(&snapshot).brief();
            format!("the model of Ollama's store is opened; {shown} is the one of the hub's cache")
        });
        return Ok(Resolved { place: Place::Manifest { path, store }, note });
    }
    if let Some(path) = cached? {
        return Ok(Resolved { place: Place::Path(path), note: None });
    }
    Files::Disk.check_link(name)?;
    let is_name = ModelName::parse(text).is_some() || repository.is_some();
    Err(match metadata {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Error::io("cannot open", error).in_file(name)
        }
        _ if is_path(text) || !is_name => Error::not_found("no such file").in_file(name),
        _ => nowhere(name, text, repository.filter(|_| !is_path(text)).as_ref()),
    })
}

/// Whether a name that exists nowhere was meant as a path: it ends like a file, or starts like a path.
fn is_path(text: &str) -> bool {
    let endings = [".gguf", ".safetensors", ".json", ".npz", ".bin", ".pt", ".pth"];
    endings.iter().any(|ending| text.ends_with(ending)) || text.starts_with(['.', '/', '~'])
}

/// The manifest of a model of Ollama's stores, and the store.
fn stored(name: &Path) -> Option<(PathBuf, PathBuf)> {
    let parsed = ModelName::parse(name.to_str()?)?;
    ollama::stores().into_iter().find_map(|store| Some((parsed.find(&store)?, store)))
}

/// The error for a name that means nothing on this machine.
fn nowhere(name: &Path, text: &str, repository: Option<&HubName>) -> Error {
    if let Some(HubName { repository, revision, file: None, .. }) = repository
        && let Some(commit) = hub::snapshots(repository).pop()
    {
        let fault =
            format!("the hub's cache has {repository}, but no snapshot of its revision {revision}");
        return Error::new(ErrorKind::NotFound, fault).in_file(name).advise(format!(
            "give a snapshot that it has, such as {repository}@{commit}; `weighbridge pull {text}` downloads the revision"
        ));
    }
    let stores = ollama::stores();
    let refused: Vec<String> = stores
        .iter()
        .filter(|store| {
            let refused = std::io::ErrorKind::PermissionDenied;
            std::fs::read_dir(store).is_err_and(|error| error.kind() == refused)
        })
        .map(|store| store.display().to_string())
        .collect();
    let stores: Vec<String> = stores.iter().map(|store| store.display().to_string()).collect();
    let mut fault = format!("no such file, and no model of that name in {}", stores.join(" or "));
    let cache = repository.and_then(|_| hub::cache());
    if let Some(cache) = &cache {
        fault.push_str(&format!(" or {}", cache.display()));
    }
    let error = Error::new(ErrorKind::NotFound, fault).in_file(name);
    if !refused.is_empty() {
        return error.advise(format!(
            "{} cannot be read: join the group that owns it, or set OLLAMA_MODELS",
            refused.join(", ")
        ));
    }
    match repository {
        Some(_) => {
            let text = hub::without_host(text);
            error.advise(format!(
                "`weighbridge pull {text}` downloads it from the hub, hf://{text} reads it there"
            ))
        }
        None => error.advise(format!(
            "`weighbridge pull {text}` downloads a model of Ollama's; `weighbridge models` lists those of a store"
        )),
    }
}
