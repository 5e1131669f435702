//! Shared by several test files: byte builders, folders, and the bodies of the fuzz targets.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "the sizes are the test's own")]

mod codecs;
mod gguf;
mod safetensors;
mod values;
mod walk;
mod whisper_ggml;

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weighbridge::{Error, Model, OpenOptions, Strictness};

pub(crate) use codecs::{codec_bytes, decodable};
pub(crate) use gguf::{Entry, Gguf, Kv, Writer};
pub(crate) use safetensors::{Array, Safetensors, escaped, index, quoted};
pub(crate) use values::{same, same_rounded};
pub(crate) use walk::{
    DIGESTS, any_file, gguf_bytes, index_bytes, look_at, mlx_bytes, ollama_bytes, packed,
    safetensors_bytes, serve, tokenizer_bytes, walk, whisper_ggml_bytes,
};
pub(crate) use whisper_ggml::WhisperGgml;

/// Every strictness, from the narrowest to the widest.
pub(crate) const POLICIES: [Strictness; 3] =
    [Strictness::Strict, Strictness::Default, Strictness::Lenient];

/// A model whose names have been resolved.
pub(crate) fn resolved(model: Model) -> weighbridge::Result<Model> {
    model.resolution()?;
    Ok(model)
}

/// The folder of the library, at or above the one that Cargo or `cargo xtask device-check` names.
pub(crate) fn root() -> PathBuf {
    let said = std::env::var_os("CARGO_MANIFEST_DIR");
    let folder = said.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let root = folder.ancestors().find(|one| one.join("assets/sample").exists());
    root.map_or_else(|| folder.clone(), Path::to_owned)
}

/// The path of the sample model in one of its formats.
pub(crate) fn sample(name: &str) -> PathBuf {
    let embedded = root().join("assets/sample").join(name);
    if embedded.exists() { embedded } else { root().join("tests/fixtures/sample").join(name) }
}

/// A file or folder of `tests/fixtures`, or of the larger set outside of the repository. If it is
/// missing, the test is skipped and reports that.
pub(crate) fn fixture(path: &str) -> Option<PathBuf> {
    if let Some(name) = path.strip_prefix("sample/") {
        return Some(sample(name));
    }
    let own = root().join("tests/fixtures").join(path);
    if own.exists() { Some(own) } else { outside(path) }
}

/// A file or folder of the larger set of fixtures, which `WEIGHBRIDGE_FIXTURES` names. It contains third-party files,
/// and files that are too large for the repository.
pub(crate) fn outside(path: &str) -> Option<PathBuf> {
    let fault = match std::env::var_os("WEIGHBRIDGE_FIXTURES") {
        None => format!("WEIGHBRIDGE_FIXTURES names no folder with {path}"),
        Some(folder) => {
            let found = PathBuf::from(folder).join(path);
            if found.exists() {
                return Some(found);
            }
            format!("{} is not here", found.display())
        }
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Written past the test runner, which hides the output of tests that pass.
    let said = format!("skipped: {test}: {fault}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
    None
}

/// The little-endian bytes of some values.
pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A temporary folder with these files; names may contain folders.
pub(crate) fn folder<B: AsRef<[u8]>>(files: &[(&str, B)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        put(folder.path(), name, bytes);
    }
    folder
}

/// A folder under this name for the calling thread only, created once and filled by `fill`.
pub(crate) fn own_folder(name: &'static str, fill: impl FnOnce(&Path)) -> PathBuf {
    thread_local! {
        static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
    }
    let path = FOLDER.with(|folder| folder.path().join(name));
    if !path.exists() {
        std::fs::create_dir(&path).expect("a folder in a temporary folder");
        fill(&path);
    }
    path
}

/// A temporary copy of a folder of files.
pub(crate) fn copy_of(folder: impl AsRef<Path>) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder");
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    copy
}

/// Writes one file into a folder.
pub(crate) fn put(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).expect("a folder in a temporary folder");
    }
    std::fs::write(path, bytes).expect("a file in a temporary folder");
}

/// Adds tensors to a directory of one file, as a second shard.
pub(crate) fn second_shard(folder: &Path, file: &Safetensors) {
    let first = folder.join("model-00001-of-00002.safetensors");
    std::fs::rename(folder.join("model.safetensors"), first).expect("the first shard");
    put(folder, "model-00002-of-00002.safetensors", file.build());
}

/// A folder of shards with an index that maps tensors to shards.
pub(crate) fn sharded(shards: &[(&str, Safetensors)]) -> TempDir {
    let map: Vec<(&str, &str)> = shards
        .iter()
        .flat_map(|(file, shard)| shard.arrays.iter().map(move |array| (&*array.name, *file)))
        .collect();
    let folder = folder(&[("model.safetensors.index.json", index(&map))]);
    for (file, shard) in shards {
        put(folder.path(), file, shard.build());
    }
    folder
}

/// Opens bytes under a neutral name.
pub(crate) fn open_as(bytes: Vec<u8>, policy: Strictness) -> weighbridge::Result<Model> {
    OpenOptions::new().strictness(policy).open_memory("file", bytes)
}

/// The kind, the message and the advice of an error, for snapshots.
pub(crate) fn told(error: &Error) -> String {
    let help = error.advice().map(|advice| format!("\nhelp: {advice}")).unwrap_or_default();
    format!("{error:?}{help}")
}

/// The error for bytes that must be refused, as text.
pub(crate) fn refused(bytes: Vec<u8>) -> String {
    refused_by(bytes, Strictness::Default)
}

pub(crate) fn refused_by(bytes: Vec<u8>, policy: Strictness) -> String {
    match open_as(bytes, policy) {
        Ok(store) => format!("opened, with {} tensors", store.len()),
        Err(error) => told(&error),
    }
}

/// The error for a folder that must be refused, as text, without the folder's path.
pub(crate) fn refused_folder(folder: &TempDir) -> String {
    match Model::open(folder.path()) {
        Ok(store) => format!("opened, with {} tensors", store.len()),
        Err(error) => without_path(&told(&error), folder.path()),
    }
}

/// Replaces the path of a temporary folder by `.`.
pub(crate) fn without_path(text: &str, folder: &Path) -> String {
    text.replace(&*folder.to_string_lossy(), ".")
}

/// The notes of a model, one per line.
pub(crate) fn notes(store: &Model) -> String {
    let notes: Vec<&str> = store.notes().iter().map(|note| note.text.as_str()).collect();
    notes.join("\n")
}
