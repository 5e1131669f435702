//! Repositories of the hub, downloaded into the cache of its client (huggingface_hub 2.4): blobs
//! named by their digests, links to them in the snapshot of a commit, and the commit of a branch. Where the client makes
//! no links, the snapshot has the files themselves, and there are no blobs.
//!
//! The client names unfinished blobs `DIGEST.XXXXXXXX.incomplete`, and earlier ones continued
//! `DIGEST.incomplete` at its end. Ours have their full length from the start, so their name is another.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hub_links::{Linked, Links};
use super::plan::{PullFile, PullOptions, PullPlan, Target, partial_in_folder};
use super::transfer::{Content, Download};
use crate::OpenOptions;
use crate::bytes::{Access, Source};
use crate::error::{AdvisedOption, Error, ErrorKind, Result};
use crate::place::choice;
use crate::place::hub::{self, HubName, cache, is_commit};
use crate::remote::{Client, Repository};

/// Plans the download of a repository's files.
pub(super) fn plan(
    name: &HubName,
    options: &PullOptions,
    client: &Arc<Client>,
) -> Result<PullPlan> {
    let repository = match Repository::list(name, client) {
        Ok(repository) => repository,
        Err(error) => return kept(name, options, client, &error).ok_or(error),
    };
    let chosen = choose(&repository.listed.keys().collect::<Vec<_>>(), name, options)?;
    let is_usual = name.file.is_none() && name.tag.is_none() && options.choose.is_none();
    let others = repository.listed.keys().filter(|file| is_usual && !chosen.contains(file));
    let left_out = others.cloned().collect();
    let mut files = Vec::new();
    let (mut downloads, mut linked): (Vec<Download>, Vec<Linked>) = Default::default();
    let places = Places::of(name, &repository.commit, options)?;
    for file in &chosen {
        let listed = repository.listed.get(file).cloned().unwrap_or_default();
        let (Some(size), Some(digest)) = (listed.size, listed.digest) else {
            let fault = format!("the hub states no size or no digest of {file}");
            return Err(Error::malformed(fault));
        };
        let hex = digest.hex().to_owned();
        let place = places.of_file(file, &hex, size);
        let download = Download {
            address: repository.address(file),
            size,
            partial: places.partial(&place),
            lock: places.lock(&hex),
            content: Content::Digest(digest),
            copy: places.copy(file, &hex, size),
            place,
        };
        if matches!(places, Places::Folder { .. }) {
            check_existing(&download)?;
        }
        let bytes = download.size;
        files.push(PullFile { name: file.clone(), bytes, present: download.there() });
        // Files with the same content share a blob.
        let same = downloads.iter().position(|other| other.place == download.place);
        let same = same.unwrap_or_else(|| {
            linked.push(Linked { digest: hex, is_new: !download.is_there(), names: Vec::new() });
            downloads.push(download);
            downloads.len() - 1
        });
        if let Some(linked) =
            linked.get_mut(same).filter(|it| places.is_linked(file, &it.digest, size))
        {
            linked.names.push(file.clone());
        }
    }
    let (commit, revision) = (repository.commit.clone(), &name.revision);
    let (root, target) = match places {
        Places::Folder { folder, .. } => (folder, Target::Folder),
        Places::Cache { repository, snapshot, .. } => {
            let reference = (!is_commit(revision)).then(|| revision.clone());
            let links = Links { repository, commit, reference, linked, are_files: !options.links };
            (snapshot, Target::HubCache(links))
        }
    };
    Ok(PullPlan {
        name: repository.path(None).display().to_string(),
        path: opened(root, name, &files),
        files,
        left_out,
        note: None,
        client: Arc::clone(client),
        connections: options.connections,
        piece: options.piece,
        downloads,
        target,
    })
}

/// The path of what was downloaded: a model of GGUF files is opened by its first file.
fn opened(root: PathBuf, name: &HubName, files: &[PullFile]) -> PathBuf {
    let is_gguf = |file: &&PullFile| file.name.ends_with(".gguf") && !file.name.contains("mmproj");
    let has = |ending: &str| files.iter().any(|file| file.name.ends_with(ending));
    let first = files.iter().find(is_gguf).filter(|_| !has(".safetensors"));
    match (&name.file, first) {
        (Some(file), _) => root.join(file),
        (None, Some(first)) => root.join(&first.name),
        (None, None) => root,
    }
}

/// The cached files of a repository about which the hub gave no answer; `None` if files are missing.
/// Another program may have downloaded it, so no list of its files is known here.
fn kept(
    name: &HubName,
    options: &PullOptions,
    client: &Arc<Client>,
    error: &Error,
) -> Option<PullPlan> {
    let cache = options.hub_cache.clone().or_else(cache);
    let cache = cache.filter(|_| error.kind() == ErrorKind::Io && options.folder.is_none())?;
    let snapshot = hub::snapshot(&cache.join(name.folder()), &name.revision)?;
    let names = hub::files(&snapshot);
    let chosen = choose(&names.iter().collect::<Vec<_>>(), name, options).ok()?;
    let file = |name: String| {
        // A link leads to a blob only once that is whole.
        let bytes = snapshot.join(&name).metadata().ok()?.len();
        Some(PullFile { name, bytes, present: bytes })
    };
    let files = chosen.into_iter().map(file).collect::<Option<Vec<_>>>()?;
    let path = opened(snapshot, name, &files);
    // A shard may be missing.
    if name.file.is_none() && options.choose.is_none() {
        OpenOptions::new().open(&path).ok()?;
    }
    Some(PullPlan {
        name: format!("hf://{}@{}", name.repository, name.revision.replace('/', "%2F")),
        path,
        files,
        left_out: Vec::new(),
        note: Some(format!("the hub was not asked ({error}): these are the files in the cache")),
        client: Arc::clone(client),
        connections: options.connections,
        piece: options.piece,
        downloads: Vec::new(),
        target: Target::Folder,
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

/// The files of a repository that an error names.
const LISTED: usize = 12;

/// The files to download.
fn choose(names: &[&String], name: &HubName, options: &PullOptions) -> Result<Vec<String>> {
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
        None => choice::needed(names, name.tag.as_deref())?,
    };
    let wanted = |name: &&String| asked(name).unwrap_or_else(|| usual.contains(name));
    let chosen: Vec<String> = names.iter().copied().filter(wanted).cloned().collect();
    if chosen.is_empty() {
        let mut some: Vec<&str> = names.iter().take(LISTED).map(|name| name.as_str()).collect();
        if names.len() > LISTED {
            some.push("...");
        }
        return Err(Error::not_found("the repository has no file that was asked for")
            .advise(format!("it has {}", some.join(", "))));
    }
    Ok(chosen)
}

/// The place where files are written.
enum Places {
    /// A folder that has the files by their names.
    Folder {
        folder: PathBuf,
        /// The folder `models--ORG--NAME` of the cache, and the commit's in it, whose files need not be fetched.
        cached: Option<(PathBuf, PathBuf)>,
    },
    Cache {
        /// The folder `models--ORG--NAME`.
        repository: PathBuf,
        /// The commit's folder in it.
        snapshot: PathBuf,
        /// The folder of its locks.
        locks: PathBuf,
    },
}

/// Whether a path is a file of this length, and no link.
fn is_file(path: &Path, size: u64) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() == size)
}

impl Places {
    fn of(name: &HubName, commit: &str, options: &PullOptions) -> Result<Self> {
        let cache = options.hub_cache.clone().or_else(cache);
        let folders = |cache: &Path| {
            let repository = cache.join(name.folder());
            let snapshot = repository.join("snapshots").join(commit);
            (repository, snapshot)
        };
        if let Some(folder) = options.folder.clone() {
            return Ok(Self::Folder { folder, cached: cache.as_deref().map(folders) });
        }
        let cache = cache.ok_or_else(|| {
            Error::not_found(
                "the location of the hub's cache is unknown: neither HF_HUB_CACHE, HF_HOME nor a \
                 home directory is set",
            )
            .advise_option("give a folder with {}", AdvisedOption::Folder)
        })?;
        let (repository, snapshot) = folders(&cache);
        Ok(Self::Cache { repository, snapshot, locks: cache.join(".locks").join(name.folder()) })
    }

    fn of_file(&self, file: &str, hex: &str, size: u64) -> PathBuf {
        match self {
            Self::Folder { folder, .. } => folder.join(file),
            Self::Cache { repository, snapshot, .. } => match self.is_linked(file, hex, size) {
                true => repository.join("blobs").join(hex),
                false => snapshot.join(file),
            },
        }
    }

    /// Whether a file of the cache is a blob. Without links, the snapshot has it.
    fn is_linked(&self, file: &str, hex: &str, size: u64) -> bool {
        match self {
            Self::Folder { .. } => false,
            Self::Cache { repository, snapshot, .. } => {
                is_file(&repository.join("blobs").join(hex), size)
                    || !is_file(&snapshot.join(file), size)
            }
        }
    }

    /// The file of the cache that is copied to a folder.
    fn copy(&self, file: &str, hex: &str, size: u64) -> Option<PathBuf> {
        let Self::Folder { cached: Some((repository, snapshot)), .. } = self else { return None };
        let found = [repository.join("blobs").join(hex), snapshot.join(file)];
        found.into_iter().find(|path| is_file(path, size))
    }

    fn partial(&self, place: &Path) -> PathBuf {
        match self {
            Self::Folder { .. } => partial_in_folder(place),
            Self::Cache { .. } => {
                let name = place.file_name().unwrap_or_default().to_string_lossy();
                place.with_file_name(format!("{name}.weighbridge.incomplete"))
            }
        }
    }

    fn lock(&self, hex: &str) -> Option<PathBuf> {
        match self {
            Self::Folder { .. } => None,
            Self::Cache { locks, .. } => Some(locks.join(format!("{hex}.lock"))),
        }
    }
}
