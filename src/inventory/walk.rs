//! Finds models in folders by the names of their files. No model is opened.
//!
//! A folder of a program's own kind is recognized wherever it lies: a repository of the hub cache by
//! its name `models--ORG--NAME`, a store of Ollama by its `blobs` beside `manifests`. In any other
//! folder, GGUF files and files of whisper.cpp are models, and safetensors files are one model if a
//! document such as `config.json` lies beside them.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::index::Stamp;
use super::programs;
use crate::bytes::{Text, is_content_addressed};
use crate::container::{OpenOptions, ollama};
use crate::error::{Error, ErrorKind, Result};
use crate::place;
use crate::threads::Threads;

/// Folders in folders: deeper ones are not looked at.
const DEEPEST: u32 = 32;

/// A model that was found, and is not yet opened.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) program: Option<&'static str>,
    /// The path to open: a file, the first of several, a folder, or a manifest.
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
    /// The files with weights.
    pub(super) weights: Vec<FoundFile>,
    /// The bytes of all files of the model.
    pub(super) bytes: u64,
    pub(super) stamp: Stamp,
    /// When a file with weights was read last, in seconds since 1970.
    pub(super) last_used: Option<u64>,
    /// The reason why the model cannot be opened, if it is known already.
    pub(super) error: Option<Error>,
}

/// The kind of a candidate's path.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Kind {
    File,
    Folder,
    /// A manifest of Ollama.
    Manifest,
    /// A manifest of Ollama that lists no weights: a model on a server.
    Weightless,
}

/// A file with weights.
#[derive(Clone, Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// Equal for two paths of one file.
    pub(super) identity: (u64, u64),
    /// The digest in the name that a store has given to the file. Its content may have changed since.
    pub(super) digest: Option<String>,
}

/// A folder to be read.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The name of a model that is this folder; the start of the names of models in it.
    name: String,
    program: Option<&'static str>,
    depth: u32,
    /// Whether this is a revision in the hub cache.
    is_revision: bool,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    /// Folders that cannot be read.
    pub(super) faults: Vec<Error>,
    /// The number of files seen.
    pub(super) files: u64,
}

/// Folders that are walked on their own, or were reached through a link.
struct Seen {
    roots: HashSet<PathBuf>,
    linked: Mutex<HashSet<PathBuf>>,
}

/// Finds the models in these folders, each of which belongs to a program or to none. Threads share
/// the folders.
pub(super) fn walk(roots: &[(Option<&'static str>, PathBuf)], threads: Threads) -> Result<Found> {
    let mut seen = Seen { roots: HashSet::new(), linked: Mutex::default() };
    let mut level = Vec::new();
    for (program, root) in roots {
        let real = root.canonicalize().unwrap_or_else(|_| root.clone());
        if seen.roots.insert(real) {
            seen.roots.insert(root.clone());
            let (path, name) = (root.clone(), String::new());
            level.push(Folder { path, name, program: *program, depth: 0, is_revision: false });
        }
    }
    let mut found = Found::default();
    while !level.is_empty() {
        let read = |(): &mut (), folder: &Folder| Ok(read(folder, &seen, threads));
        let mut next = Vec::new();
        for part in threads.in_order(level.iter(), || (), read)? {
            let (folders, more) = part;
            next.extend(folders);
            found.candidates.extend(more.candidates);
            found.faults.extend(more.faults);
            found.files = found.files.saturating_add(more.files);
        }
        level = next;
    }
    Ok(found)
}

/// Reads one folder: the folders in it, and the models.
fn read(folder: &Folder, seen: &Seen, threads: Threads) -> (Vec<Folder>, Found) {
    let mut found = Found::default();
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    let entries = match std::fs::read_dir(&folder.path) {
        Ok(entries) => entries,
        Err(error) => {
            let error = Error::io("cannot list the folder", error).in_file(&folder.path);
            // A folder that was removed meanwhile, or that a program has never made.
            if error.kind() != ErrorKind::NotFound {
                found.faults.push(error);
            }
            return (Vec::new(), found);
        }
    };
    for entry in entries.flatten() {
        let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
        // In the hub cache every file is a link to a blob.
        if kind.is_file() || kind.is_symlink() && folder.is_revision {
            files.push(name);
        } else if kind.is_dir() {
            folders.push(name);
        } else if kind.is_symlink() {
            let path = entry.path();
            match std::fs::metadata(&path) {
                Ok(target) if target.is_dir() && seen.follows(&path) => folders.push(name),
                Ok(target) if target.is_file() => files.push(name),
                _ => {}
            }
        }
    }
    files.sort_unstable();
    folders.sort_unstable();
    found.files = files.len() as u64;
    let has = |name: &str| folders.iter().any(|folder| folder == name);
    let is_store = has("blobs") || folder.program == Some(programs::OLLAMA);
    if is_store && (has("manifests") || has("manifests-v2")) {
        ollama_store(&folder.path, threads, &mut found);
        return (Vec::new(), found);
    }
    if let Some(repository) = hub_repository(&folder.path).filter(|_| has("snapshots")) {
        return (revisions(folder, &repository), found);
    }
    let first = found.candidates.len();
    models(folder, &files, &mut found.candidates);
    name_alone(folder, found.candidates.get_mut(first..).unwrap_or_default());
    let inside = |name: OsString| {
        let path = folder.path.join(&name);
        let text = Text::from_path(Path::new(&name)).spelling().into_owned();
        // Programs keep locks, notes and partial downloads in hidden folders.
        let hidden = [".", "datasets--", "spaces--"].iter().any(|start| text.starts_with(start));
        let skipped = hidden || folder.depth >= DEEPEST || seen.roots.contains(&path);
        let name = joined(&folder.name, &text);
        let (program, depth, is_revision) = (folder.program, folder.depth + 1, folder.is_revision);
        (!skipped).then_some(Folder { path, name, program, depth, is_revision })
    };
    (folders.into_iter().filter_map(inside).collect(), found)
}

impl Seen {
    /// Whether a link to a folder is followed: it leads out of all roots, and no other link has led
    /// there.
    fn follows(&self, link: &Path) -> bool {
        let Ok(target) = link.canonicalize() else { return false };
        if self.roots.iter().any(|root| target.starts_with(root) || root.starts_with(&target)) {
            return false;
        }
        self.linked.lock().unwrap_or_else(PoisonError::into_inner).insert(target)
    }
}

fn joined(start: &str, name: &str) -> String {
    if start.is_empty() { name.to_owned() } else { format!("{start}/{name}") }
}

/// `org/name`, if the folder is named like a repository in the hub cache.
fn hub_repository(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.strip_prefix("models--")?.replace("--", "/"))
}

/// The revisions of a repository in the hub cache: `main` has the repository's name, others are
/// `org/name@REVISION`, as in names `hf://`.
fn revisions(folder: &Folder, repository: &str) -> Vec<Folder> {
    let mut names = BTreeMap::new();
    refs(&folder.path.join("refs"), "", 4, &mut names);
    let entries = std::fs::read_dir(folder.path.join("snapshots")).into_iter().flatten().flatten();
    let revision = |entry: std::fs::DirEntry| {
        let commit = entry.file_name().into_string().ok()?;
        let name = match names.get(&commit).map(String::as_str) {
            Some("main") => repository.to_owned(),
            Some(reference) => format!("{repository}@{}", reference.replace('/', "%2F")),
            None => format!("{repository}@{commit}"),
        };
        let (path, program, depth) = (entry.path(), Some(programs::HUB), folder.depth + 2);
        Some(Folder { path, name, program, depth, is_revision: true })
    };
    let mut all: Vec<Folder> = entries.filter_map(revision).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The names of commits. `main` takes precedence.
fn refs(folder: &Path, start: &str, depth: u32, names: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else {
            continue;
        };
        let name = joined(start, &name);
        if kind.is_dir() && depth > 0 {
            refs(&entry.path(), &name, depth - 1, names);
        } else if kind.is_file()
            && let Some(commit) = short_text(&entry.path())
        {
            let known = names.entry(commit.trim().to_owned()).or_insert_with(|| name.clone());
            if name == "main" {
                *known = name;
            }
        }
    }
}

/// The text of a small file, such as a commit of 40 digits; `None` for another.
fn short_text(path: &Path) -> Option<String> {
    let mut text = [0; 128];
    let len = File::open(path).ok()?.read(&mut text).ok()?;
    let text = text.get(..len).filter(|_| len < text.len())?;
    String::from_utf8(text.to_vec()).ok()
}

/// The models of a store of Ollama.
fn ollama_store(store: &Path, threads: Threads, found: &mut Found) {
    let options = OpenOptions::new().threads(threads);
    let (models, faults) = match ollama::models(Some(store), &options) {
        Ok((_, models, faults)) => (models, faults),
        Err(error) => {
            found.faults.push(error);
            return;
        }
    };
    let candidate =
        |name, path: PathBuf, kind| Candidate::new(name, Some(programs::OLLAMA), path, kind);
    for model in models {
        let kind = if model.weights.is_empty() { Kind::Weightless } else { Kind::Manifest };
        let mut made = candidate(model.name, model.path.clone(), kind);
        made.add(&model.path, false);
        model.weights.iter().for_each(|blob| made.add(blob, true));
        made.bytes = model.bytes;
        found.files = found.files.saturating_add(1 + made.weights.len() as u64);
        found.candidates.push(made);
    }
    for error in faults {
        let path = error.path().unwrap_or(store).to_path_buf();
        let name = place::ollama::name_of_manifest(&path)
            .unwrap_or_else(|| Text::from_path(&path).spelling().into_owned());
        let mut made = candidate(name, path.clone(), Kind::Manifest);
        made.add(&path, false);
        made.error = Some(error);
        found.candidates.push(made);
    }
}

/// Documents beside safetensors files that make the folder one model.
const DOCUMENTS: [&str; 4] =
    ["config.json", "adapter_config.json", "params.json", "model_index.json"];

/// Adds the models whose files lie directly in a folder.
fn models(folder: &Folder, files: &[OsString], found: &mut Vec<Candidate>) {
    let ends = |name: &OsStr, end: &str| {
        let name = name.as_encoded_bytes();
        name.len() > end.len()
            && name
                .get(name.len() - end.len()..)
                .is_some_and(|n| n.eq_ignore_ascii_case(end.as_bytes()))
    };
    let is_alone = |name: &OsStr| {
        let whisper = name.as_encoded_bytes().starts_with(b"ggml-") && ends(name, ".bin");
        whisper || ends(name, ".gguf")
    };
    let is_weights = |name: &OsStr| ends(name, ".safetensors") || name == "weights.npz";
    let is_document = |name: &OsString| {
        DOCUMENTS.iter().any(|document| name == document) || ends(name, ".safetensors.index.json")
    };
    let one_model = files.iter().any(is_document) && files.iter().any(|name| is_weights(name));
    let mut sets: BTreeMap<OsString, Vec<&OsString>> = BTreeMap::new();
    for name in files {
        if is_alone(name) || !one_model && ends(name, ".safetensors") {
            sets.entry(set_of(name)).or_default().push(name);
        }
    }
    for names in sets.into_values() {
        let Some(first) = names.first() else { continue };
        let name = joined(&folder.name, &Text::from_path(Path::new(first)).spelling());
        let path = folder.path.join(first);
        let mut made = Candidate::new(name, folder.program, path, Kind::File);
        names.iter().for_each(|name| made.add(&folder.path.join(name), true));
        made.name_blobs(folder);
        found.push(made);
    }
    if one_model {
        let own = folder.path.file_name().unwrap_or_default();
        let name = match folder.name.as_str() {
            "" => Text::from_path(Path::new(own)).spelling().into_owned(),
            name => name.to_owned(),
        };
        let mut made = Candidate::new(name, folder.program, folder.path.clone(), Kind::Folder);
        let files = files.iter().filter(|name| !is_alone(name));
        files.for_each(|name| made.add(&folder.path.join(name), is_weights(name)));
        made.name_blobs(folder);
        found.push(made);
    }
}

/// The common name of the shards of one model: of `a-00001-of-00003.gguf`, `a-of-00003.gguf`; of any other file, its
/// whole name.
fn set_of(name: &OsStr) -> OsString {
    let shared = || {
        let (rest, end) = name.to_str()?.rsplit_once("-of-")?;
        let (start, number) = rest.rsplit_once('-')?;
        let digits = number.len() >= 5 && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| OsString::from(format!("{start}-of-{end}")))
    };
    shared().unwrap_or_else(|| name.to_owned())
}

/// The only model of a repository has its name, and Jan's `model.gguf` that of its folder.
fn name_alone(folder: &Folder, models: &mut [Candidate]) {
    let is_projector = |model: &Candidate| model.name.contains("mmproj");
    let is_jan = folder.program == Some(programs::JAN);
    let several = models.iter().filter(|model| !is_projector(model)).count() > 1;
    if several || folder.name.is_empty() || !(folder.is_revision || is_jan) {
        return;
    }
    for model in models.iter_mut().filter(|model| !is_projector(model)) {
        let of_jan = model.path.file_name().is_some_and(|name| name == "model.gguf");
        // A folder in a repository is a part of its name already.
        if of_jan || folder.is_revision {
            model.name.clone_from(&folder.name);
        }
    }
}

impl Candidate {
    fn new(name: String, program: Option<&'static str>, path: PathBuf, kind: Kind) -> Self {
        let (weights, stamp) = (Vec::new(), Stamp::default());
        Self { name, program, path, kind, weights, bytes: 0, stamp, last_used: None, error: None }
    }

    /// Adds a file of the model. A file that is missing changes the stamp too.
    fn add(&mut self, path: &Path, is_weights: bool) {
        let found = std::fs::metadata(path).ok();
        let len = found.as_ref().map_or(0, Metadata::len);
        let modified = found.as_ref().and_then(|found| found.modified().ok());
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        self.stamp.add(name, len, modified.and_then(since_1970).map_or(0, |time| time.as_nanos()));
        self.bytes = self.bytes.saturating_add(len);
        let (true, Some(found)) = (is_weights, found) else { return };
        let used = found.accessed().or_else(|_| found.modified()).ok().and_then(since_1970);
        self.last_used = self.last_used.max(used.map(|time| time.as_secs()));
        let identity = identity(path, &found);
        self.weights.push(FoundFile {
            path: path.to_path_buf(),
            len,
            identity,
            digest: digest(path),
        });
    }

    /// In the hub cache, takes the digests from the names of the blobs that files are links to.
    fn name_blobs(&mut self, folder: &Folder) {
        for file in self.weights.iter_mut().filter(|_| folder.is_revision) {
            file.digest = std::fs::read_link(&file.path).ok().and_then(|blob| digest(&blob));
        }
    }
}

/// The time now, in seconds since 1970.
pub(super) fn now() -> u64 {
    since_1970(SystemTime::now()).map_or(0, |time| time.as_secs())
}

fn since_1970(time: SystemTime) -> Option<std::time::Duration> {
    time.duration_since(UNIX_EPOCH).ok()
}

/// The digest by which a store names a file: 64 digits of SHA-256, or 40 of git's SHA-1.
fn digest(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let hex = name.rsplit(['-', ':']).next()?;
    is_content_addressed(path).then(|| hex.to_ascii_lowercase())
}

/// The identity of a file, whatever its path: its number on its file system.
#[cfg(unix)]
fn identity(_: &Path, found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

/// The identity of a file: its path without links. Hard links count as other files.
#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> (u64, u64) {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    (0, super::index::fnv(super::index::FNV, path.as_os_str().as_encoded_bytes()))
}
