//! The parsed form of every container: files, tensors by stored name, metadata.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod beside;
mod build;
pub(crate) mod document;
pub(crate) mod folder;
mod listing;
mod part;
mod projector;
mod replace;
mod summary;
pub(crate) mod tensor;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::{Files, Source, Text};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::index::NameIndex;
use crate::json::Json;
use crate::limits::Limits;
use crate::metadata::Metadata;
use crate::place::choice::is_companion;
use crate::threads::Threads;
pub(crate) use beside::CompanionFiles;
pub(crate) use build::{DescribedTensor, Indexed, NewGroup, StoreBuilder, single};
use listing::TensorGroup;
pub(crate) use listing::{
    ArrayEntry, ArrayListing, ListedArray, check_count, check_range, cut_short,
};
pub use part::Part;
pub(crate) use projector::Length;
pub use summary::{DTypeSummary, QuantizationSummary};

/// An opened container, under the names that its files use.
///
/// A store holds the headers of its files and one small record for each tensor. Tensor data is not
/// read until it is requested. [`container::open`](crate::container) makes a store from any path.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    container: &'static str,
    encoding: Encoding,
    version: Option<u32>,
    path: PathBuf,
    files: Vec<StoredFile>,
    listing: ArrayListing,
    groups: Vec<TensorGroup>,
    parts: Vec<(Part, u32)>,
    index: NameIndex,
    tensors: usize,
    metadata: Metadata,
    documents: Vec<Document>,
    attachments: Vec<Attachment>,
    /// The folder of the files beside the weights.
    folder: Option<PathBuf>,
    /// A folder whose documents of a tokenizer take precedence.
    tokenizer_folder: Option<PathBuf>,
    /// The limits for those files.
    limits: Limits,
    /// The place of the files next to the weights.
    place: Files,
    /// Files and their expected digests.
    digests: Vec<(PathBuf, String)>,
    notes: Vec<Note>,
    /// Whether the file is a shard of a model whose others are not opened.
    is_shard: bool,
    /// Arrays that are not numbers by themselves, with the reason why their values are refused: codes that
    /// no scheme joined with their scales, and weights with a factor that is not applied.
    refused: BTreeMap<u32, Box<str>>,
}

/// The format of a model's weight files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Encoding {
    /// GGUF.
    Gguf,
    /// safetensors.
    Safetensors,
    /// The ggml format of whisper.cpp's files: no tensor table, no alignment.
    Ggml,
}

/// A file that belongs to a model besides its weights: a projector, an adapter, a template.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attachment {
    /// The kind, in Ollama's terms: `projector`, `adapter`, `draft`, `template`, `license`.
    pub kind: String,
    /// The original file name; empty if it has none.
    pub name: String,
    /// The length in bytes that the manifest states.
    pub bytes: u64,
    /// The path of the file.
    pub path: PathBuf,
}

/// One file of a model.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) source: Arc<Source>,
    /// The header, which contains the names of this file's entries.
    pub(crate) header: Arc<Vec<u8>>,
    /// Whether numbers in the tensor data are big-endian.
    pub(crate) big_endian: bool,
}

/// A mapped file of a store, which keeps the store.
pub(crate) struct MappedFile {
    store: Arc<Store>,
    file: u32,
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        let file = self.store.files.get(self.file as usize);
        file.and_then(|file| file.source.map()).unwrap_or_default()
    }
}

/// A JSON document that belongs to a model, such as `config.json`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Document {
    /// The file name.
    pub name: String,
    /// The content. The bare words `NaN`, `Infinity` and `-Infinity`, which Python writes, become
    /// `{"__float__": "NaN"}` and so on, the form that transformers writes since version 5.
    pub json: Json,
}

/// A remark about a model that opened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// The file concerned.
    pub path: PathBuf,
    /// The remark, in one sentence without a full stop; safe to show on a terminal.
    pub text: String,
    /// Whether the file breaks a rule of its format, for which
    /// [`Strictness::Strict`](crate::Strictness::Strict) refuses it.
    pub breaks_rule: bool,
    /// Whether the remark names files next to the model that are not read.
    pub names_unread: bool,
}

impl Note {
    pub(crate) fn new(path: &Path, text: impl AsRef<str>) -> Self {
        // The text may contain names from files; they are escaped.
        let text = Text::new(text.as_ref().as_bytes()).brief();
        Self { path: path.to_path_buf(), text, breaks_rule: false, names_unread: false }
    }

    /// A remark on files that are not read.
    pub(crate) fn unread(folder: &Path, text: impl AsRef<str>) -> Self {
        Self { names_unread: true, ..Self::new(folder, text) }
    }

    /// A remark on a broken rule.
    pub(crate) fn broken_rule(path: &Path, text: impl AsRef<str>) -> Self {
        Self { breaks_rule: true, ..Self::new(path, text) }
    }
}

fn name<'a>(listing: &'a ArrayListing, files: &'a [StoredFile], number: u32) -> &'a [u8] {
    let header = |file: u32| files.get(file as usize).map_or(&[][..], |file| &file.header);
    listing.entries.get(number as usize).map_or(&[], |entry| listing.name(entry, header))
}

impl Store {
    /// The name of the container: `gguf`, `safetensors`.
    pub(crate) fn container(&self) -> &'static str {
        self.container
    }

    /// The format of the files.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The version of the files' format, if it has versions.
    pub(crate) fn version(&self) -> Option<u32> {
        self.version
    }

    /// The files that belong to the model besides its weights.
    pub(crate) fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    pub(crate) fn attach(&mut self, attachment: Attachment) {
        self.attachments.push(attachment);
    }

    /// Adds a text that the container stores in a separate file.
    pub(crate) fn add_text(&mut self, key: String, text: Vec<u8>) {
        self.metadata.add_text(key, text);
    }

    pub(crate) fn note(&mut self, path: &Path, text: String) {
        self.notes.push(Note::new(path, text));
    }

    pub(crate) fn set_path(&mut self, path: &Path) {
        self.path = path.to_path_buf();
    }

    /// Registers the SHA-256 that the container states for a file.
    pub(crate) fn expect_digest(&mut self, path: PathBuf, hex: &str) {
        self.digests.push((path, hex.to_ascii_lowercase()));
    }

    /// Reads every file whose digest the container states or its name is, and returns the files that
    /// differ: each with the digest found, or `None` if the file is missing. `progress` is called
    /// with the bytes read.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read.
    pub(crate) fn verify_digests(
        &self,
        threads: Threads,
        progress: impl Fn(u64) -> Result<()> + Sync,
    ) -> Result<Vec<(PathBuf, Option<String>)>> {
        self.different(threads, &self.expected_digests(), progress)
    }

    /// Like [`verify_digests`](Self::verify_digests), for files with digests.
    pub(crate) fn different(
        &self,
        threads: Threads,
        expected: &[(PathBuf, String)],
        progress: impl Fn(u64) -> Result<()> + Sync,
    ) -> Result<Vec<(PathBuf, Option<String>)>> {
        let check = |(): &mut (), (path, expected): &(PathBuf, String)| {
            let source = match self.place.open(path, crate::bytes::Access::Read) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    return Ok(Some((path.clone(), None)));
                }
                opened => opened?,
            };
            let found = crate::digest::like(expected, &source, &progress)?;
            Ok((found != *expected).then(|| (path.clone(), Some(found))))
        };
        let checked = threads.in_order(expected.iter(), || (), check)?;
        Ok(checked.into_iter().flatten().collect())
    }

    /// Files and their digests: those that the container states, and those of files whose name is the
    /// digest of their content, as in the cache of the Hugging Face hub.
    fn expected_digests(&self) -> Vec<(PathBuf, String)> {
        let mut expected = self.digests.clone();
        for path in self.local_files() {
            let Some(blob) = crate::bytes::blob_behind(&path) else { continue };
            let name = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let hex = name.rsplit(['-', ':']).next().unwrap_or(name).to_ascii_lowercase();
            let is_known = !crate::digest::is_git_blob(&hex) || cfg!(feature = "http");
            let is_new = expected.iter().all(|(known, other)| *known != path && *other != hex);
            if is_known && is_new {
                expected.push((path, hex));
            }
        }
        expected
    }

    /// The files of the model on this machine: those with tensors or metadata, and those that its folder has
    /// for it. Empty for a model that is elsewhere.
    pub(crate) fn local_files(&self) -> Vec<PathBuf> {
        if !matches!(self.place, Files::Disk) {
            return Vec::new();
        }
        let beside = self.folder.iter().flat_map(|folder| {
            let names = self.place.names(folder, usize::MAX).unwrap_or_default().into_iter();
            names.filter(|name| is_companion(name)).map(|name| folder.join(name))
        });
        self.files_on_disk().map(Path::to_path_buf).chain(beside).collect()
    }

    /// The bytes of the files with tensors or metadata.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_sizes().fold(0, u64::saturating_add)
    }

    /// The bytes of each of the [`files`](Self::files).
    pub(crate) fn file_sizes(&self) -> impl ExactSizeIterator<Item = u64> {
        self.files.iter().map(|file| file.source.len())
    }

    /// The SHA-256 of the first file with tensors or metadata.
    pub(crate) fn sha256_of_file(&self, progress: impl Fn(u64) -> Result<()>) -> Result<String> {
        let file = self.files.first().ok_or_else(|| Error::not_found("the model has no file"))?;
        crate::digest::sha256_with(&file.source, progress)
    }

    /// The bytes of the files whose digests are known.
    pub(crate) fn digest_bytes(&self) -> u64 {
        let bytes = |(path, _): &(PathBuf, String)| self.place.len(path);
        self.expected_digests().iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// The number of files whose digests are known.
    pub(crate) fn digests(&self) -> usize {
        self.expected_digests().len()
    }

    /// The path that was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The paths of the files that hold tensors or metadata.
    pub(crate) fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.source.path())
    }

    /// The paths of those files that are not in memory.
    pub(crate) fn files_on_disk(&self) -> impl Iterator<Item = &Path> {
        let sources = self.files.iter().map(|file| &file.source);
        sources.filter(|source| source.is_file()).map(|source| source.path())
    }

    /// The files of a model on a server: the name, length and version of each.
    pub(crate) fn files_elsewhere(&self) -> impl Iterator<Item = (&Path, u64, Option<String>)> {
        let sources = self.files.iter().map(|file| &file.source);
        let elsewhere = sources.filter(|source| crate::place::scheme(source.path()).is_some());
        elsewhere.map(|source| (source.path(), source.len(), source.version()))
    }

    /// A file of the store as host memory, if it is mapped or can be.
    pub(crate) fn map(self: &Arc<Self>, file: u32) -> Option<MappedFile> {
        self.files.get(file as usize)?.source.map()?;
        Some(MappedFile { store: Arc::clone(self), file })
    }

    /// The number of tensors. Scales and other parts of a tensor do not count.
    pub(crate) fn len(&self) -> usize {
        self.tensors
    }

    /// Whether there are no tensors, as in a GGUF file that holds only metadata or a vocabulary.
    pub(crate) fn is_empty(&self) -> bool {
        self.tensors == 0
    }

    pub(super) fn number(&self, stored_name: &str) -> Option<u32> {
        self.index.find(stored_name.as_bytes(), |n| name(&self.listing, &self.files, n))
    }

    /// The metadata: the keys and values of GGUF, the `__metadata__` of a safetensors file, or the
    /// hyperparameters of a whisper.cpp file.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The JSON document with this file name, if opening the model read it: `config.json`,
    /// `params.json`. [`read_document`](Self::read_document) reads other documents.
    pub(crate) fn document(&self, file_name: &str) -> Option<&Json> {
        self.documents.iter().find(|document| document.name == file_name).map(|found| &found.json)
    }

    /// The model's JSON documents that opening read.
    pub(crate) fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// Whether the file is a shard of a model whose others are not opened.
    pub(crate) fn is_shard(&self) -> bool {
        self.is_shard
    }

    /// Remarks about a model that opened: broken format rules, files that were ignored.
    pub(crate) fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Checks that the values of all tensors are known: see [`StoredTensor::check_known`].
    ///
    /// # Errors
    ///
    /// `Unsupported`, for the first tensor of which they are not.
    pub(crate) fn check_known(&self) -> Result<()> {
        self.unknown_values().next().map_or(Ok(()), Err)
    }

    /// For each tensor whose values are refused, the reason.
    pub(crate) fn unknown_values(&self) -> impl Iterator<Item = Error> {
        self.refused.iter().map(|(number, why)| self.refusal(*number, why))
    }

    fn refusal(&self, number: u32, why: &str) -> Error {
        let path = self.entry_file(number).map_or(self.path(), |file| file.source.path());
        Error::unsupported(why.to_owned())
            .in_file(path)
            .in_tensor(self.entry_name(number))
            .advise("use the checkpoint from before its quantization, or copy this one as it is")
    }

    pub(crate) fn entry(&self, number: u32) -> Option<&ArrayEntry> {
        self.listing.entries.get(number as usize)
    }

    pub(crate) fn entry_name(&self, number: u32) -> Text<'_> {
        Text::new(name(&self.listing, &self.files, number))
    }

    pub(crate) fn entry_shape(&self, number: u32) -> &[u64] {
        self.entry(number).map_or(&[], |entry| self.listing.shape(entry))
    }

    /// The dimensions of a tensor, which may differ from those of its weight part.
    pub(crate) fn tensor_shape(&self, number: u32) -> &[u64] {
        let group = self.entry(number).and_then(|entry| self.groups.get(entry.group as usize));
        let Some(group) = group.filter(|group| group.head == number) else {
            return self.entry_shape(number);
        };
        let start = group.shape.0 as usize;
        self.listing.dims.get(start..start.saturating_add(group.shape.1.into())).unwrap_or_default()
    }

    /// The name of an entry in its file, which may differ from the name of its tensor.
    pub(crate) fn stored_name(&self, number: u32) -> Text<'_> {
        let Some(entry) = self.entry(number) else { return Text::new(&[]) };
        let group = self.groups.get(entry.group as usize).filter(|group| group.head == number);
        let mut entry = *entry;
        if let Some(group) = group {
            (entry.name_start, entry.name_len) = group.stored_name;
        }
        let header = |file: u32| self.files.get(file as usize).map_or(&[][..], |file| &file.header);
        Text::new(self.listing.name(&entry, header))
    }

    pub(crate) fn entry_dtype(&self, number: u32) -> Result<DType, u32> {
        self.entry(number).map_or(Err(u32::MAX), |entry| self.listing.dtype(entry))
    }

    pub(crate) fn entry_file(&self, number: u32) -> Option<&StoredFile> {
        self.files.get(self.entry(number)?.file as usize)
    }

    /// The dtype of the whole tensor and its parts, if this entry is the head of a group.
    pub(crate) fn entry_group(&self, number: u32) -> Option<(DType, &[(Part, u32)])> {
        let group = self.groups.get(self.entry(number)?.group as usize)?;
        Some((group.dtype, self.parts.get(group.parts.start as usize..group.parts.end as usize)?))
    }

    /// The number of elements that share a scale, if this entry is the head of a group with one.
    pub(crate) fn entry_group_size(&self, number: u32) -> Option<u32> {
        let group = self.groups.get(self.entry(number)?.group as usize)?;
        (group.group_size > 0).then_some(group.group_size)
    }

    /// Bytes of all tensors with all their parts. Tensors of unknown types do not count.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.tensors().map(|tensor| tensor.stored_bytes()).fold(0, u64::saturating_add)
    }
}
