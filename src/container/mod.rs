//! Containers: the ways in which weights lie on disk, and how they are told apart.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

pub mod gguf;
pub mod mlx;
pub mod ollama;
pub mod safetensors;
pub mod whisper_ggml;

mod foreign;
mod groups;
pub(crate) mod layout;
mod npz;
mod rules;

use std::path::{Path, PathBuf};

use crate::bytes::{Access, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;
use crate::store::Store;
use crate::threads::{self, Threads};

/// A way in which weights lie on disk.
///
/// A container is a function: files in, `Store` out. Once a file is parsed, all containers
/// are the same data, so there is no trait to fill.
#[derive(Debug)]
pub struct Container {
    /// The name, as in `weighbridge list containers`.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Whether a path looks like this container, by its content.
    detect: fn(&Probe<'_>) -> bool,
    /// Opens a path that looks like it.
    open: fn(Opened, &OpenOptions) -> Result<Store>,
}

/// A path after the first look at it.
enum Opened {
    /// A file, whose header is not read yet.
    File(Source),
    /// A directory, with the names in it, sorted.
    Directory(PathBuf, Vec<String>),
}

/// Every container, in the order in which they are tried: those that are told by more come first,
/// and safetensors, which has no magic number, last.
pub static CONTAINERS: &[&Container] = &[
    &gguf::GGUF,
    &whisper_ggml::WHISPER_GGML,
    &ollama::OLLAMA,
    &mlx::MLX,
    &safetensors::SAFETENSORS,
];

/// How strictly a file is held to its format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Strictness {
    /// What the strictest reader of the field accepts: llama.cpp for GGUF, whisper.cpp for its own
    /// files, the format's own document for safetensors.
    Strict,
    /// Everything that has one safe reading; for safetensors, the rules of its reference crate.
    #[default]
    Default,
    /// For safetensors also what MLX accepts: holes, shared bytes, bytes left over. For files of
    /// whisper.cpp also those that lack tensors at the end.
    Lenient,
}

/// How a model is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) strictness: Strictness,
    pub(crate) threads: Threads,
    pub(crate) all_files: bool,
}

impl OpenOptions {
    /// Maps tensor data, applies the default [`Limits`], uses a thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads tensor data at its position, and makes no memory map at all. See [`Access`].
    pub fn read(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// Upper bounds on what the file may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How strictly files are held to their formats.
    pub fn strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// Threads that share the reading of a sharded model's headers.
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Takes safetensors files beside those that the index names as well.
    pub fn all_files(mut self, all: bool) -> Self {
        self.all_files = all;
        self
    }
}

/// Opens `path`, or the model of that name in Ollama's store.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Store> {
    let opened = match look(path, options) {
        Ok((container, opened)) => {
            (container.open)(opened, options).map_err(|error| error.in_file(path))
        }
        // An existing path wins over a name.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            ollama::open_name(path, options).unwrap_or(Err(error))
        }
        Err(error) => Err(error),
    };
    opened.map(|store| store.with_limits(&options.limits))
}

/// Opens bytes that are in memory: one file, whose path in messages is `name`.
pub(crate) fn open_memory(
    name: PathBuf,
    bytes: std::borrow::Cow<'static, [u8]>,
    options: &OpenOptions,
) -> Result<Store> {
    let source = Source::memory(name, bytes);
    let path = source.path().to_path_buf();
    let opened = choose_file(&source, &options.limits)
        .and_then(|row| (row.open)(Opened::File(source), options));
    let opened = opened.map_err(|error| error.in_file(&path));
    opened.map(|store| store.with_limits(&options.limits))
}

/// What a path shows of itself before it is opened as anything.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) path: &'a Path,
    /// The first bytes of a file.
    pub(crate) head: &'a [u8],
    /// The length of a file.
    pub(crate) len: u64,
    /// The sorted names in a directory, where the path is one.
    pub(crate) directory: Option<&'a [String]>,
    /// What may be read to tell.
    pub(crate) limits: &'a Limits,
}

impl Probe<'_> {
    const HEAD: usize = 1024;
}

/// The container of a path, told by content.
///
/// # Errors
///
/// As [`Model::open`](crate::Model::open), for what can be told from the first bytes or the names in a directory.
pub fn detect(path: impl AsRef<Path>) -> Result<&'static Container> {
    look(path.as_ref(), &OpenOptions::new()).map(|(container, _)| container)
}

fn look(path: &Path, options: &OpenOptions) -> Result<(&'static Container, Opened)> {
    match Source::open(path, options.access) {
        Ok(source) => Ok((choose_file(&source, &options.limits)?, Opened::File(source))),
        Err(_) if path.is_dir() => {
            let names = file_names(path, options)?;
            let limits = &options.limits;
            let probe = Probe { path, head: &[], len: 0, directory: Some(&names), limits };
            Ok((choose(&probe)?, Opened::Directory(path.to_path_buf(), names)))
        }
        Err(error) => Err(error),
    }
}

fn choose_file(source: &Source, limits: &Limits) -> Result<&'static Container> {
    let mut head = [0; Probe::HEAD];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(head.len());
    let head = head.get_mut(..len).unwrap_or_default();
    source.read_at(0, head)?;
    choose(&Probe { path: source.path(), head, len: source.len(), directory: None, limits })
}

fn choose(probe: &Probe<'_>) -> Result<&'static Container> {
    // The length of a safetensors header may look like any magic number.
    let header = safetensors::header::looks_right(probe.head, probe.len)
        && probe.head.get(8..).is_some_and(|text| text.starts_with(b"{"));
    if !header && let Some(foreign) = foreign::recognize(probe) {
        return Err(foreign.in_file(probe.path));
    }
    let found = CONTAINERS.iter().find(|container| (container.detect)(probe));
    found.copied().ok_or_else(|| {
        let error = match probe.directory {
            Some(_) => foreign::directory(probe),
            None => Error::new(ErrorKind::UnknownContainer, "neither GGUF nor safetensors"),
        };
        error.in_file(probe.path)
    })
}

/// The names in a directory that are UTF-8, sorted; at most as many as a model may have shards,
/// and some thousand more.
fn file_names(path: &Path, options: &OpenOptions) -> Result<Vec<String>> {
    let cannot = |error| Error::io("cannot list", error).in_file(path);
    let most = options.limits.shards as usize + 4096;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let Ok(name) = entry.map_err(cannot)?.file_name().into_string() else { continue };
        if names.len() == most {
            let found = names.len() as u64 + 1;
            return Err(
                Error::limit("files in one directory", found, most as u64, "shards").in_file(path)
            );
        }
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

/// Runs `parse` over `items` on as many threads as the options allow, and keeps their order.
fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    options: &OpenOptions,
    parse: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    threads::in_order(options.threads, items.iter(), || (), |(), item| parse(item))
}
