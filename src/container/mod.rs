//! Containers: the formats in which models are stored on disk. Detects and opens them.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

pub mod gguf;
pub mod mlx;
pub mod ollama;
pub mod safetensors;
pub mod whisper_ggml;

mod folder;
mod foreign;
mod groups;
#[cfg(feature = "npz")]
mod npz;
mod rules;
pub(crate) mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::{Access, FileSystem, Files, Source};
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::place::{self, Place, Resolved};
use crate::remote::{self, Network};
use crate::store::Store;
use crate::threads::{self, Threads};

pub use gguf::GGUF;
pub(crate) use groups::default_group_size;
pub use mlx::MLX;
pub use ollama::OLLAMA;
pub use safetensors::SAFETENSORS;
pub use whisper_ggml::WHISPER_GGML;
pub use writer::Shards;
use writer::Writer;

/// A format in which models are stored on disk.
///
/// A container is a function: files in, `Store` out. Once parsed, all containers are the same data,
/// so there is no trait to implement.
#[derive(Debug)]
pub struct Container {
    /// The name, as in `weighbridge list containers`.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// Whether a path is this container, judged by its content.
    detect: fn(&Probe<'_>) -> bool,
    /// Opens a path that was detected as this container.
    open: fn(DetectedPath, &OpenOptions) -> Result<Store>,
    /// How models are written into it.
    write: Option<&'static Writer>,
}

/// Containers are the same if they have the same name.
impl PartialEq for Container {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Container {}

impl Container {
    /// What is written into this container, in a few words; `None` if it is only read.
    pub fn written_as(&self) -> Option<&'static str> {
        self.write.map(|writer| writer.summary)
    }

    /// How models are written into it.
    pub(crate) fn writer(&self) -> Result<&'static Writer> {
        self.write.ok_or_else(|| {
            let name = self.name;
            Error::unsupported(match cfg!(feature = "write") {
                true => format!("{name} can be read, but not written"),
                false => format!("{name} cannot be written without the feature `write`"),
            })
        })
    }
}

/// A path after detection.
enum DetectedPath {
    /// A file, whose header has not been parsed.
    File(Source),
    /// A directory, with its sorted file names.
    Directory(PathBuf, Vec<String>),
}

/// All containers, in the order of detection: the most specific come first, and safetensors, which
/// has no magic number, comes last.
pub static CONTAINERS: &[&Container] = &[&GGUF, &WHISPER_GGML, &OLLAMA, &MLX, &SAFETENSORS];

/// How strictly a file must follow its format.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Strictness {
    /// Accept what the strictest reader accepts: llama.cpp for GGUF, whisper.cpp for its own files,
    /// the format's specification for safetensors.
    Strict,
    /// Accept everything with a single safe interpretation; for safetensors, what its reference
    /// crate accepts.
    #[default]
    Default,
    /// Also accept safetensors files that MLX accepts, with holes, shared bytes and trailing bytes,
    /// and files of whisper.cpp that lack tensors at the end.
    Lenient,
}

/// Options for opening a model.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) strictness: Strictness,
    pub(crate) threads: Threads,
    pub(crate) all_files: bool,
    pub(crate) files: Files,
    pub(crate) network: Option<Network>,
}

impl OpenOptions {
    /// The defaults: tensor data is mapped, the default [`Limits`] apply, and a thread for each
    /// processor reads headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads tensor data at its position, without any memory map. See [`Access`].
    pub fn read(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// Sets upper bounds on what a file may cost.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how strictly files must follow their formats.
    pub fn strictness(mut self, strictness: Strictness) -> Self {
        self.strictness = strictness;
        self
    }

    /// Sets the threads that share the reading of a sharded model's headers.
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Opens the model among `files` instead of those of this machine.
    pub fn files(mut self, files: impl FileSystem + 'static) -> Self {
        self.files = Files::Custom(Arc::new(files));
        self
    }

    /// Sets how servers are reached; without it, as the environment says.
    pub fn network(mut self, network: Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Also opens safetensors files that the index does not name.
    pub fn all_files(mut self, all: bool) -> Self {
        self.all_files = all;
        self
    }
}

/// Opens the model that a name means; among files of a program's own, the one at a path.
pub(crate) fn open(name: &Path, options: &OpenOptions) -> Result<Store> {
    if !matches!(options.files, Files::Disk) {
        return open_path(name, options);
    }
    let Resolved { place, note } = place::resolve(name)?;
    let mut store = match place {
        Place::Path(path) => open_path(&path, options)?,
        Place::Manifest { path, store } => {
            let opened = ollama::open_manifest(&path, &store, options);
            let opened = opened.map_err(|error| error.in_file(&path))?;
            opened.among(&options.files, &options.limits)
        }
        Place::Address => match remote::downloaded(name, options.network.as_ref()) {
            Some(path) => open_path(&path, options)?,
            None => {
                let found = remote::locate(name, options.network.as_ref())?;
                let options = OpenOptions { files: Files::Custom(found.files), ..options.clone() };
                open_path(&found.path, &options)?
            }
        },
    };
    note.into_iter().for_each(|note| store.note(name, note));
    Ok(store)
}

fn open_path(path: &Path, options: &OpenOptions) -> Result<Store> {
    let (container, opened) = look(path, options)?;
    let others = match &opened {
        DetectedPath::Directory(_, names) => other_models(container, names),
        DetectedPath::File(_) => None,
    };
    let mut store = (container.open)(opened, options).map_err(|error| error.in_file(path))?;
    others.into_iter().for_each(|note| store.note(path, note));
    Ok(store.among(&options.files, &options.limits))
}

/// Opens bytes that are no file of their own: in memory, or computed when they are read.
pub(crate) fn open_source(source: Source, options: &OpenOptions) -> Result<Store> {
    let options = &OpenOptions { files: Files::Absent, ..options.clone() };
    let path = source.path().to_path_buf();
    let opened = choose_file(&source, options)
        .and_then(|row| (row.open)(DetectedPath::File(source), options));
    let opened = opened.map_err(|error| error.in_file(&path));
    opened.map(|store| store.among(&options.files, &options.limits))
}

/// A note about models in a directory that are not opened, because files of another container are.
fn other_models(container: &Container, names: &[String]) -> Option<String> {
    let is_other = |name: &&String| {
        let lower = name.to_ascii_lowercase();
        lower.ends_with(".gguf") || lower.starts_with("ggml-") && lower.ends_with(".bin")
    };
    let others: Vec<&str> = names.iter().filter(is_other).map(String::as_str).collect();
    if *container == GGUF || others.is_empty() {
        return None;
    }
    let shown: Vec<&str> = others.iter().copied().take(4).collect();
    let more = if others.len() > shown.len() { ", ..." } else { "" };
    Some(format!(
        "the safetensors files are opened; the directory also holds {}{more}: give the path of such \
         a file to open it instead",
        shown.join(", ")
    ))
}

/// What detection sees of a path.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) path: &'a Path,
    /// The first bytes of the file.
    pub(crate) head: &'a [u8],
    /// The length of the file.
    pub(crate) len: u64,
    /// The sorted file names, if the path is a directory.
    pub(crate) directory: Option<&'a [String]>,
    /// How files that detection reads are opened, and their limits.
    pub(crate) options: &'a OpenOptions,
}

impl Probe<'_> {
    const HEAD: usize = 1024;
}

/// Detects the container of a path from its content.
///
/// # Errors
///
/// Same as [`Model::open`](crate::Model::open), for faults in the first bytes or in the file names
/// of a directory.
pub fn detect(path: impl AsRef<Path>) -> Result<&'static Container> {
    look(path.as_ref(), &OpenOptions::new()).map(|(container, _)| container)
}

fn look(path: &Path, options: &OpenOptions) -> Result<(&'static Container, DetectedPath)> {
    match options.files.open(path, options.access) {
        Ok(source) => Ok((choose_file(&source, options)?, DetectedPath::File(source))),
        Err(_) if options.files.is_folder(path) => {
            // As many as a model may have shards, plus some thousand.
            let most = options.limits.shards as usize + 4096;
            let names = options.files.names(path, most)?;
            let probe = Probe { path, head: &[], len: 0, directory: Some(&names), options };
            Ok((choose(&probe)?, DetectedPath::Directory(path.to_path_buf(), names)))
        }
        Err(error) => Err(error),
    }
}

fn choose_file(source: &Source, options: &OpenOptions) -> Result<&'static Container> {
    let mut head = [0; Probe::HEAD];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(head.len());
    let head = head.get_mut(..len).unwrap_or_default();
    source.read_at(0, head)?;
    choose(&Probe { path: source.path(), head, len: source.len(), directory: None, options })
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
            Some(_) => folder::error(probe),
            None => foreign::unknown(probe),
        };
        error.in_file(probe.path)
    })
}

/// The number of files that are asked for at the same time, if they are not on this machine.
const REQUESTS: usize = 16;

/// Runs `parse` over `items` with the threads that the options allow. Results keep their order.
fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    options: &OpenOptions,
    parse: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    // Requests wait for servers, not for processors.
    let threads = match options.files {
        Files::Custom(_) => Threads::new(options.threads.get().max(REQUESTS)),
        _ => options.threads,
    };
    threads::in_order(threads, items.iter(), || (), |(), item| parse(item))
}
