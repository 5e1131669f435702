//! Repositories of the hub, downloaded into the cache of its client (huggingface_hub 2.4): blobs
//! named by their digests, links to them in the snapshot of a commit, and the commit of a branch.
//!
//! The client names unfinished blobs `DIGEST.XXXXXXXX.incomplete`, and earlier ones continued
//! `DIGEST.incomplete` at its end. Ours have their full length from the start, so their name is another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hub_links::Links;
use super::plan::{PullFile, PullOptions, PullPlan, Target, partial_in_folder};
use super::transfer::{Content, Download};
use crate::bytes::{Access, Source};
use crate::error::{AdvisedOption, Error, Result};
use crate::place::choice;
use crate::place::hub::{HubName, cache, is_commit};
use crate::remote::{Client, Repository};

/// Plans the download of a repository's files.
pub(super) fn plan(
    name: &HubName,
    options: &PullOptions,
    client: &Arc<Client>,
) -> Result<PullPlan> {
    let repository = Repository::list(name, client)?;
    let chosen = choose(&repository, name, options)?;
    let mut files = Vec::new();
    let (mut downloads, mut names): (Vec<Download>, Vec<(String, Vec<String>)>) =
        Default::default();
    let places = Places::of(name, options)?;
    for file in &chosen {
        let listed = repository.listed.get(file).cloned().unwrap_or_default();
        let (Some(size), Some(digest)) = (listed.size, listed.digest) else {
            let fault = format!("the hub states no size or no digest of {file}");
            return Err(Error::malformed(fault));
        };
        let hex = digest.hex().to_owned();
        let place = places.of_file(file, &hex);
        let download = Download {
            address: repository.address(file),
            size,
            partial: places.partial(&place),
            lock: places.lock(&hex),
            content: Content::Digest(digest),
            place,
        };
        if matches!(places, Places::Folder(_)) {
            check_existing(&download)?;
        }
        let bytes = download.size;
        files.push(PullFile { name: file.clone(), bytes, present: download.there() });
        // Files with the same content share a blob.
        match downloads.iter().position(|other| other.place == download.place) {
            Some(same) => names.get_mut(same).into_iter().for_each(|(_, names)| {
                names.push(file.clone());
            }),
            None => {
                names.push((hex, vec![file.clone()]));
                downloads.push(download);
            }
        }
    }
    let (commit, revision) = (repository.commit.clone(), &name.revision);
    let (root, target) = match places {
        Places::Folder(folder) => (folder, Target::Folder),
        Places::Cache { repository, .. } => {
            let reference = (!is_commit(revision)).then(|| revision.clone());
            let root = repository.join("snapshots").join(&commit);
            (root, Target::HubCache(Links { repository, commit, reference, names }))
        }
    };
    // A model of GGUF files is opened by its first file.
    let is_gguf = |file: &&PullFile| file.name.ends_with(".gguf") && !file.name.contains("mmproj");
    let has = |ending: &str| files.iter().any(|file| file.name.ends_with(ending));
    let first = files.iter().find(is_gguf).filter(|_| !has(".safetensors"));
    let path = match (&name.file, first) {
        (Some(file), _) => root.join(file),
        (None, Some(first)) => root.join(&first.name),
        (None, None) => root,
    };
    Ok(PullPlan {
        name: repository.path(None).display().to_string(),
        path,
        files,
        client: Arc::clone(client),
        connections: options.connections,
        piece: options.piece,
        downloads,
        target,
    })
}

/// Refuses to replace a file that is another one. In a folder, a name does not stand for a content.
fn check_existing(download: &Download) -> Result<()> {
    let path = &download.place;
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let same = Source::open(path, Access::Read)
        .and_then(|source| download.content.check(&source, |_| Ok(())));
    same.map_err(|_| {
        Error::mismatch("already exists, with another content")
            .advise("delete it, or give another folder")
            .in_file(path)
    })
}

/// The files to download.
fn choose(repository: &Repository, name: &HubName, options: &PullOptions) -> Result<Vec<String>> {
    let names: Vec<&String> = repository.listed.keys().collect();
    let asked = |name: &String| options.choose.as_ref().and_then(|choose| choose(name));
    let usual = match &name.file {
        // A file, or the files of a folder.
        Some(file) => {
            let inside = |name: &&&String| {
                name.strip_prefix(file.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let found: Vec<&String> = names.iter().filter(inside).copied().collect();
            if found.is_empty() {
                return Err(Error::not_found(format!("the repository has no file {file}")));
            }
            found
        }
        // Those that were asked for need not contain weights.
        None if names.iter().any(|name| asked(name) == Some(true)) => Vec::new(),
        None => choice::needed(&names, name.tag.as_deref())?,
    };
    let wanted = |name: &&String| asked(name).unwrap_or_else(|| usual.contains(name));
    let chosen: Vec<String> = names.into_iter().filter(wanted).cloned().collect();
    if chosen.is_empty() {
        return Err(Error::not_found("none of the repository's files is chosen")
            .advise_option("{} names files to download, such as '*.onnx'", AdvisedOption::Choose));
    }
    Ok(chosen)
}

/// The place where files are written.
enum Places {
    /// A folder that has the files by their names.
    Folder(PathBuf),
    Cache {
        /// The folder `models--ORG--NAME`.
        repository: PathBuf,
        /// The folder of its locks.
        locks: PathBuf,
    },
}

impl Places {
    fn of(name: &HubName, options: &PullOptions) -> Result<Self> {
        if let Some(folder) = &options.folder {
            return Ok(Self::Folder(folder.clone()));
        }
        let cache = options.hub_cache.clone().or_else(cache).ok_or_else(|| {
            Error::not_found(
                "the location of the hub's cache is unknown: neither HF_HUB_CACHE, HF_HOME nor a \
                 home directory is set",
            )
            .advise_option("give a folder with {}", AdvisedOption::Folder)
        })?;
        let folder = name.folder();
        Ok(Self::Cache {
            repository: cache.join(&folder),
            locks: cache.join(".locks").join(folder),
        })
    }

    fn of_file(&self, file: &str, hex: &str) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join(file),
            Self::Cache { repository, .. } => repository.join("blobs").join(hex),
        }
    }

    fn partial(&self, place: &Path) -> PathBuf {
        match self {
            Self::Folder(_) => partial_in_folder(place),
            Self::Cache { .. } => {
                let name = place.file_name().unwrap_or_default().to_string_lossy();
                place.with_file_name(format!("{name}.weighbridge.incomplete"))
            }
        }
    }

    fn lock(&self, hex: &str) -> Option<PathBuf> {
        match self {
            Self::Folder(_) => None,
            Self::Cache { locks, .. } => Some(locks.join(format!("{hex}.lock"))),
        }
    }
}
