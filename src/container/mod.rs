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
mod options;
mod row;
mod rules;
#[cfg(feature = "write")]
pub(crate) mod writer;

use std::path::Path;

use crate::bytes::{Files, Source};
use crate::error::Result;
use crate::place::{self, Place, Resolved};
use crate::remote;
use crate::store::Store;

pub use gguf::GGUF;
pub(crate) use groups::{default_group_size, mode as group_mode};
pub use mlx::MLX;
pub use ollama::OLLAMA;
use options::in_parallel;
pub use options::{OpenOptions, Strictness};
pub use row::Container;
use row::{DetectedPath, Probe};
pub use safetensors::SAFETENSORS;
pub use whisper_ggml::WHISPER_GGML;
#[cfg(feature = "write")]
pub use writer::Shards;

/// All containers, in the order of detection: the most specific come first, and safetensors, which
/// has no magic number, comes last.
pub static CONTAINERS: &[&Container] = &[&GGUF, &WHISPER_GGML, &OLLAMA, &MLX, &SAFETENSORS];

/// Opens the model that a name means; among files of a program's own, the one at a path.
pub(crate) fn open(name: &Path, options: &OpenOptions) -> Result<Store> {
    if !matches!(options.files, Files::Disk) {
        return open_path(name, options);
    }
    let Resolved { place, note } = place::resolve(name)?;
    let mut store = match place {
        Place::Path(path) => {
            let mut store = open_path(&path, options)?;
            // A repository in the hub's cache stands for a file of it, and what belongs to that.
            let is_file = path != name && name.extension().is_none_or(|ending| ending != "gguf");
            if let Some(folder) =
                path.parent().filter(|_| is_file && store.container() == GGUF.name)
            {
                gguf::attach(&mut store, folder, &names(folder, options)?, options);
            }
            store
        }
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
            let names = names(path, options)?;
            let probe =
                Probe { path, head: &[], len: 0, source: None, directory: Some(&names), options };
            Ok((choose(&probe)?, DetectedPath::Directory(path.to_path_buf(), names)))
        }
        Err(error) => Err(error),
    }
}

/// The names in a folder: as many as a model may have shards, plus some thousand.
fn names(folder: &Path, options: &OpenOptions) -> Result<Vec<String>> {
    options.files.names(folder, options.limits.shards as usize + 4096)
}

fn choose_file(source: &Source, options: &OpenOptions) -> Result<&'static Container> {
    let mut head = [0; Probe::HEAD];
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX).min(head.len());
    let head = head.get_mut(..len).unwrap_or_default();
    source.read_at(0, head)?;
    choose(&Probe {
        path: source.path(),
        head,
        len: source.len(),
        source: Some(source),
        directory: None,
        options,
    })
}

fn choose(probe: &Probe<'_>) -> Result<&'static Container> {
    // The length of a safetensors header may look like any magic number.
    let header = safetensors::header::looks_right(probe.head, probe.len)
        && probe.head.get(8..).is_some_and(|text| text.starts_with(b"{"));
    let foreign = || if header { None } else { foreign::recognize(probe) };
    if let Some(foreign) = foreign::piece(probe).or_else(foreign) {
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
