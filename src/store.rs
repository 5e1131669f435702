//! What every container parses to: files, tensors by stored name, metadata.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::{Source, Text};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::{NameIndex, hash};
use crate::limits::Limits;
use crate::metadata::Metadata;
use crate::shape;
use crate::tensor::{Part, Tensor};

/// An opened model, under the names that its files use.
///
/// A store holds the headers of its files and one small record for each tensor; tensor data stays
/// where it is until it is asked for. [`WeightStore::open`] makes one from any path.
#[derive(Debug)]
pub struct WeightStore {
    container: &'static str,
    encoding: Encoding,
    path: PathBuf,
    files: Vec<StoredFile>,
    listing: Listing,
    groups: Vec<Group>,
    parts: Vec<(Part, u32)>,
    index: NameIndex,
    tensors: usize,
    metadata: Metadata,
    documents: Vec<Document>,
    attachments: Vec<Attachment>,
    /// Files with the digests that they should have.
    digests: Vec<(PathBuf, String)>,
    notes: Vec<Note>,
}

/// How a model's files are written, whatever container gathers them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Encoding {
    /// GGUF.
    Gguf,
    /// safetensors.
    Safetensors,
}

/// A file that belongs to a model beside its weights: a projector, an adapter, a template.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attachment {
    /// What it is, in Ollama's words: `projector`, `adapter`, `draft`, `template`, `license`.
    pub kind: String,
    /// The file name that it stands for, where it has one.
    pub name: String,
    /// Its length in bytes, as the manifest says.
    pub bytes: u64,
    /// Where it lies.
    pub path: PathBuf,
}

/// One file of a model.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) source: Source,
    /// Holds the names of this file's entries.
    pub(crate) header: Arc<Vec<u8>>,
    /// Numbers in the tensor data are big-endian.
    pub(crate) big_endian: bool,
}

/// A JSON document that belongs to a model: `config.json` and its kin.
#[derive(Debug)]
#[non_exhaustive]
pub struct Document {
    /// The file's name.
    pub name: String,
    /// Its content. The bare words `NaN`, `Infinity` and `-Infinity`, which Python writes, stand
    /// as `{"__float__": "NaN"}` and the like, as transformers writes them since version 5.
    pub json: serde_json::Value,
}

/// Something a reader should know about a model that nevertheless opened.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// The file concerned.
    pub path: PathBuf,
    /// What was seen, in one sentence without a full stop.
    pub text: String,
}

/// Where one stored array lies. Small, since a model may have a hundred thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Position in the file, from its start.
    pub(crate) offset: u64,
    name_start: u32,
    name_len: u32,
    shape_start: u32,
    /// The group whose part this is, or `NO_GROUP`.
    group: u32,
    file: u32,
    dtype: EntryType,
    rank: u8,
}

/// The dtype of an entry, or where its unknown type code stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum EntryType {
    Known(DType),
    /// A ggml type code without a row in the table; it stands behind the dimensions.
    Unknown,
}

const NO_GROUP: u32 = u32::MAX;

/// Bytes of a stored array that describes another: a shape, or bitsandbytes' JSON.
const DESCRIPTION_BYTES: usize = 64 << 10;

/// Set in `name_len` where the name stands in `Listing::names`, not in the file's header.
const OWN_NAME: u32 = 1 << 31;

/// Several stored arrays that make up one tensor.
#[derive(Debug)]
struct Group {
    /// The entry that gives the tensor its name and place: its weight part.
    head: u32,
    /// Range in `WeightStore::parts`.
    parts: Range<u32>,
    dtype: DType,
    /// Elements that share a scale, where the parts give a number for each group; 0 elsewhere.
    group_size: u32,
    /// Where the head's name in the file stands, as in [`Entry`]: the entry itself may have got
    /// the tensor's name.
    stored_name: (u32, u32),
    /// The tensor's dimensions, as in [`Entry`].
    shape: (u32, u8),
}

/// A tensor made of several stored arrays.
#[derive(Debug)]
pub(crate) struct Grouped<'a> {
    pub(crate) dtype: DType,
    /// Elements that share a scale; 0 where that is not one number.
    pub(crate) group_size: u32,
    /// The name, where it is not that of the weight part.
    pub(crate) name: Option<Vec<u8>>,
    /// The dimensions, where they are not those of the weight part.
    pub(crate) shape: Option<Vec<u64>>,
    /// The other parts.
    pub(crate) companions: &'a [(Part, u32)],
}

/// The entries of one file, or of several once joined.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    entries: Vec<Entry>,
    /// The hash of each entry's name, taken while the name was in the cache.
    hashes: Vec<u32>,
    /// The dimensions of all entries, one after the other.
    dims: Vec<u64>,
    /// Names that do not stand in a header as they are: unescaped, or made.
    names: Vec<u8>,
}

impl Listing {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Makes room for `count` entries.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<()> {
        let reserved = self.entries.try_reserve(count).and_then(|()| self.dims.try_reserve(count));
        reserved
            .map_err(|_| Error::new(crate::ErrorKind::Io, format!("no memory for {count} tensors")))
    }

    /// Adds a dimension to the entry that will be pushed next.
    pub(crate) fn push_dim(&mut self, dim: u64) {
        self.dims.push(dim);
    }

    /// Turns round the last `rank` dimensions: GGUF writes the innermost first.
    pub(crate) fn reverse_dims(&mut self, rank: usize) {
        let start = self.dims.len().saturating_sub(rank);
        if let Some(dims) = self.dims.get_mut(start..) {
            dims.reverse();
        }
    }

    /// The last `rank` dimensions that were pushed.
    pub(crate) fn last_dims(&self, rank: usize) -> &[u64] {
        self.dims.get(self.dims.len().saturating_sub(rank)..).unwrap_or_default()
    }

    /// Adds an entry of file 0 with the last `rank` dimensions pushed and the name at a range of
    /// that file's header. `dtype` is `Err` with a ggml code that has no row.
    pub(crate) fn push(
        &mut self,
        name: Range<u32>,
        name_hash: u32,
        dtype: Result<DType, u32>,
        rank: u8,
        offset: u64,
    ) -> Result<()> {
        let shape_start = self.dims.len().saturating_sub(usize::from(rank));
        let shape_start = u32::try_from(shape_start)
            .map_err(|_| Error::unsupported("more than 2^32 dimensions in one model"))?;
        let dtype = match dtype {
            Ok(dtype) => EntryType::Known(dtype),
            Err(code) => {
                self.dims.push(code.into());
                EntryType::Unknown
            }
        };
        self.hashes.push(name_hash);
        self.entries.push(Entry {
            offset,
            name_start: name.start,
            name_len: name.end.saturating_sub(name.start) & !OWN_NAME,
            shape_start,
            group: NO_GROUP,
            file: 0,
            dtype,
            rank,
        });
        Ok(())
    }

    /// Keeps a name that does not stand in the header; gives its place as in [`Entry`].
    fn own_name(&mut self, name: &[u8]) -> Result<(u32, u32)> {
        let too_many = || Error::unsupported("more than 2 GiB of names that need unescaping");
        let start = u32::try_from(self.names.len()).map_err(|_| too_many())?;
        let len = u32::try_from(name.len()).map_err(|_| too_many())?;
        if len & OWN_NAME != 0 {
            return Err(too_many());
        }
        self.names.extend_from_slice(name);
        Ok((start, len | OWN_NAME))
    }

    /// Gives the last entry a name that does not stand in the header.
    pub(crate) fn rename_last(&mut self, name: &[u8]) -> Result<()> {
        let own = self.own_name(name)?;
        if let (Some(entry), Some(old)) = (self.entries.last_mut(), self.hashes.last_mut()) {
            *old = hash(name);
            (entry.name_start, entry.name_len) = own;
        }
        Ok(())
    }

    /// The name of entry `number`; `header` gives the header of a file by its number.
    fn name<'a>(&'a self, entry: &Entry, header: impl Fn(u32) -> &'a [u8]) -> &'a [u8] {
        let from = if entry.name_len & OWN_NAME == 0 { header(entry.file) } else { &self.names };
        let start = entry.name_start as usize;
        let end = start.saturating_add((entry.name_len & !OWN_NAME) as usize);
        from.get(start..end).unwrap_or_default()
    }

    fn shape(&self, entry: &Entry) -> &[u64] {
        let start = entry.shape_start as usize;
        self.dims.get(start..start.saturating_add(entry.rank.into())).unwrap_or_default()
    }

    fn dtype(&self, entry: &Entry) -> Result<DType, u32> {
        match entry.dtype {
            EntryType::Known(dtype) => Ok(dtype),
            EntryType::Unknown => {
                let place = (entry.shape_start as usize).saturating_add(entry.rank.into());
                let code = self.dims.get(place).copied().unwrap_or(u64::MAX);
                Err(u32::try_from(code).unwrap_or(u32::MAX))
            }
        }
    }

    /// Entries in order, each with what a container's own checks need.
    pub(crate) fn iter<'a>(&'a self, header: &'a [u8]) -> impl Iterator<Item = Listed<'a>> {
        self.entries.iter().map(move |entry| self.listed(entry, header))
    }

    /// Entry `number` alone.
    pub(crate) fn get<'a>(&'a self, number: usize, header: &'a [u8]) -> Option<Listed<'a>> {
        self.entries.get(number).map(|entry| self.listed(entry, header))
    }

    fn listed<'a>(&'a self, entry: &Entry, header: &'a [u8]) -> Listed<'a> {
        Listed {
            name: Text::new(self.name(entry, |_| header)),
            dtype: self.dtype(entry),
            shape: self.shape(entry),
            offset: entry.offset,
        }
    }

    /// Keeps the entries whose number `keep` answers for.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut kept = (0..self.entries.len()).map(&mut keep);
        self.entries.retain(|_| kept.next().unwrap_or(true));
        let mut kept = (0..self.hashes.len()).map(&mut keep);
        self.hashes.retain(|_| kept.next().unwrap_or(true));
    }

    /// Makes offsets that count from the start of the data count from the start of the file.
    pub(crate) fn move_to(&mut self, data_start: u64) -> Result<()> {
        for entry in &mut self.entries {
            entry.offset = entry.offset.checked_add(data_start).ok_or_else(|| {
                Error::malformed(format!("offset {} is beyond every file", entry.offset))
            })?;
        }
        Ok(())
    }

    /// Puts the entries of another file behind these.
    fn append(&mut self, other: Self, file: u32) -> Result<()> {
        let too_many =
            |_| Error::unsupported("more than 2^32 dimensions or name bytes in one model");
        let dims = u32::try_from(self.dims.len()).map_err(too_many)?;
        let names = u32::try_from(self.names.len()).map_err(too_many)?;
        u32::try_from(self.dims.len().saturating_add(other.dims.len())).map_err(too_many)?;
        u32::try_from(self.names.len().saturating_add(other.names.len())).map_err(too_many)?;
        self.dims.extend_from_slice(&other.dims);
        self.names.extend_from_slice(&other.names);
        self.hashes.extend_from_slice(&other.hashes);
        self.entries.extend(other.entries.into_iter().map(|mut entry| {
            entry.file = file;
            entry.shape_start = entry.shape_start.saturating_add(dims);
            if entry.name_len & OWN_NAME != 0 {
                entry.name_start = entry.name_start.saturating_add(names);
            }
            entry
        }));
        Ok(())
    }
}

/// What a container's own checks see of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) dtype: Result<DType, u32>,
    pub(crate) shape: &'a [u64],
    pub(crate) offset: u64,
}

impl Listed<'_> {
    /// Where the data end, for a known dtype whose size was checked.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.dtype.ok()?.tensor_bytes(self.shape)?)
    }
}

/// Gathers what a container finds, and makes the store of it.
#[derive(Debug)]
pub(crate) struct StoreBuilder {
    container: &'static str,
    encoding: Encoding,
    path: PathBuf,
    files: Vec<StoredFile>,
    listing: Listing,
    groups: Vec<Group>,
    parts: Vec<(Part, u32)>,
    pub(crate) metadata: Metadata,
    pub(crate) documents: Vec<Document>,
    pub(crate) notes: Vec<Note>,
}

impl StoreBuilder {
    pub(crate) fn new(container: &'static str, encoding: Encoding, path: &Path) -> Self {
        Self {
            container,
            encoding,
            path: path.to_path_buf(),
            files: Vec::new(),
            listing: Listing::default(),
            groups: Vec::new(),
            parts: Vec::new(),
            metadata: Metadata::default(),
            documents: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Makes room for the entries of several files.
    pub(crate) fn reserve<'l>(
        &mut self,
        listings: impl Iterator<Item = &'l Listing> + Clone,
    ) -> Result<()> {
        // A single file's listing is taken as it is.
        if listings.clone().nth(1).is_none() {
            return Ok(());
        }
        let entries = listings.clone().map(|listing| listing.entries.len()).sum();
        let dims = listings.map(|listing| listing.dims.len()).sum();
        let reserved = self.listing.entries.try_reserve_exact(entries);
        let reserved = reserved.and_then(|()| self.listing.hashes.try_reserve_exact(entries));
        reserved.and_then(|()| self.listing.dims.try_reserve_exact(dims)).map_err(|_| {
            Error::new(crate::ErrorKind::Io, format!("no memory for {entries} tensors"))
        })
    }

    /// Adds a file and its entries.
    pub(crate) fn add(&mut self, file: StoredFile, listing: Listing) -> Result<()> {
        let number = u32::try_from(self.files.len())
            .map_err(|_| Error::unsupported("more than 2^32 files in one model"))?;
        self.files.push(file);
        if self.listing.entries.capacity() == 0 {
            self.listing = listing;
            return Ok(());
        }
        self.listing.append(listing, number)
    }

    /// Remembers something worth knowing about `path`.
    pub(crate) fn note(&mut self, path: &Path, text: impl Into<String>) {
        self.notes.push(Note { path: path.to_path_buf(), text: text.into() });
    }

    fn name(&self, number: u32) -> &[u8] {
        name(&self.listing, &self.files, number)
    }

    /// Indexes the names. Where one stands twice, `twice` is asked for the error.
    pub(crate) fn index(self, twice: impl Fn(Text<'_>, &Path, &Path) -> Error) -> Result<Indexed> {
        let mut index = NameIndex::with_room(self.listing.len())?;
        let hashes = self.listing.hashes.iter();
        for ((number, entry), &hash) in (0u32..).zip(&self.listing.entries).zip(hashes) {
            let name = self.name(number);
            if let Some(first) = index.insert(name, hash, number, |n| self.name(n)) {
                let path = |n: u32| {
                    let file = self.listing.entries.get(n as usize).map_or(0, |entry| entry.file);
                    self.files.get(file as usize).map_or(self.path.as_path(), |f| f.source.path())
                };
                let error = twice(Text::new(name), path(first), path(number));
                return Err(error
                    .in_file(path(number))
                    .in_tensor(Text::new(name))
                    .at(entry.offset));
            }
        }
        Ok(Indexed { builder: self, index })
    }
}

/// A [`StoreBuilder`] whose entries can be found by name, so that parts can be gathered.
#[derive(Debug)]
pub(crate) struct Indexed {
    builder: StoreBuilder,
    index: NameIndex,
}

impl Indexed {
    /// The number of the entry of that name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.find(name, |n| self.builder.name(n))
    }

    /// Whether an entry stands at a place; a cheap guess before [`find`](Self::find).
    pub(crate) fn is_named(&self, number: u32, name: &[u8]) -> bool {
        self.builder.name(number) == name
    }

    pub(crate) fn len(&self) -> usize {
        self.builder.listing.len()
    }

    /// The entry of that number.
    pub(crate) fn get(&self, number: u32) -> Option<Listed<'_>> {
        let entry = self.builder.listing.entries.get(number as usize)?;
        let header = self.builder.files.get(entry.file as usize)?.header.as_slice();
        Some(self.builder.listing.listed(entry, header))
    }

    /// The number of the file that entry `number` lies in.
    pub(crate) fn file(&self, number: u32) -> Option<u32> {
        self.builder.listing.entries.get(number as usize).map(|entry| entry.file)
    }

    /// The JSON documents of the model.
    pub(crate) fn documents(&self) -> &[Document] {
        &self.builder.documents
    }

    /// Whether the entry is part of a group already.
    pub(crate) fn is_grouped(&self, number: u32) -> bool {
        let entry = self.builder.listing.entries.get(number as usize);
        entry.is_some_and(|entry| entry.group != NO_GROUP)
    }

    /// The bytes of an entry, for those that describe others; read, never mapped.
    pub(crate) fn read(&self, number: u32) -> Result<Vec<u8>> {
        let (Some(listed), Some(entry)) =
            (self.get(number), self.builder.listing.entries.get(number as usize))
        else {
            return Ok(Vec::new());
        };
        let Some(file) = self.builder.files.get(entry.file as usize) else { return Ok(Vec::new()) };
        let len = listed.end().unwrap_or(listed.offset).saturating_sub(listed.offset);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > DESCRIPTION_BYTES {
            return Err(Error::malformed(format!("{len} bytes to describe another tensor"))
                .in_file(file.source.path())
                .in_tensor(listed.name)
                .at(listed.offset));
        }
        let mut bytes = crate::bytes::try_zeroed(len)?;
        file.source.read_at(listed.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The file of entry `number`, for messages.
    pub(crate) fn path(&self, number: u32) -> &Path {
        let file = self.file(number).and_then(|file| self.builder.files.get(file as usize));
        file.map_or(&self.builder.path, |file| file.source.path())
    }

    /// Joins `head` and its companions into one tensor.
    pub(crate) fn group(&mut self, head: u32, grouped: Grouped<'_>) -> Result<()> {
        let Grouped { dtype, group_size, name, shape, companions } = grouped;
        if let Some(other) = name.as_ref().and_then(|name| self.find(name)) {
            let fault = format!("it and \"{}\" are one tensor", self.path_name(other));
            let stored = Text::new(self.builder.name(head)).to_string();
            return Err(Error::malformed(fault).in_file(self.path(head)).in_tensor(stored));
        }
        let builder = &mut self.builder;
        let too_many = |_| Error::unsupported("more than 2^32 parts in one model");
        let number = u32::try_from(builder.groups.len()).map_err(too_many)?;
        let start = u32::try_from(builder.parts.len()).map_err(too_many)?;
        for (part, entry) in std::iter::once((Part::Weight, head)).chain(companions.iter().copied())
        {
            if let Some(entry) = builder.listing.entries.get_mut(entry as usize) {
                entry.group = number;
            }
            builder.parts.push((part, entry));
        }
        let end = u32::try_from(builder.parts.len()).map_err(too_many)?;
        let listing = &mut builder.listing;
        let new_shape = match shape {
            Some(dims) => {
                let start = u32::try_from(listing.dims.len()).map_err(too_many)?;
                listing.dims.extend_from_slice(&dims);
                Some((start, u8::try_from(dims.len()).unwrap_or(u8::MAX)))
            }
            None => None,
        };
        let new_name = match &name {
            Some(name) => Some(listing.own_name(name)?),
            None => None,
        };
        let Some(entry) = listing.entries.get_mut(head as usize) else { return Ok(()) };
        let stored_name = (entry.name_start, entry.name_len);
        let shape = new_shape.unwrap_or((entry.shape_start, entry.rank));
        if let Some(own) = new_name {
            (entry.name_start, entry.name_len) = own;
        }
        let parts = start..end;
        builder.groups.push(Group { head, parts, dtype, group_size, stored_name, shape });
        if let Some(name) = name {
            let builder = &self.builder;
            self.index.insert(&name, hash(&name), head, |n| builder.name(n));
        }
        Ok(())
    }

    fn path_name(&self, number: u32) -> String {
        Text::new(self.builder.name(number)).to_string()
    }

    /// Gives the store its metadata.
    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.builder.metadata = metadata;
    }

    /// The finished store.
    pub(crate) fn finish(self) -> WeightStore {
        let Self { mut builder, index } = self;
        builder.listing.hashes = Vec::new();
        let companions = builder.parts.len().saturating_sub(builder.groups.len());
        WeightStore {
            container: builder.container,
            encoding: builder.encoding,
            attachments: Vec::new(),
            digests: Vec::new(),
            path: builder.path,
            tensors: builder.listing.len().saturating_sub(companions),
            files: builder.files,
            listing: builder.listing,
            groups: builder.groups,
            parts: builder.parts,
            index,
            metadata: builder.metadata,
            documents: builder.documents,
            notes: builder.notes,
        }
    }
}

fn name<'a>(listing: &'a Listing, files: &'a [StoredFile], number: u32) -> &'a [u8] {
    let header = |file: u32| files.get(file as usize).map_or(&[][..], |file| &file.header);
    listing.entries.get(number as usize).map_or(&[], |entry| listing.name(entry, header))
}

impl WeightStore {
    /// The name of the container: `gguf`, `safetensors`.
    pub fn container(&self) -> &'static str {
        self.container
    }

    /// How the files are written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// What belongs to the model beside its weights.
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments
    }

    pub(crate) fn attach(&mut self, attachment: Attachment) {
        self.attachments.push(attachment);
    }

    /// Adds a text that the container keeps in a file of its own.
    pub(crate) fn add_text(&mut self, key: String, text: Vec<u8>) {
        self.metadata.add_text(key, text);
    }

    pub(crate) fn note(&mut self, path: &Path, text: String) {
        self.notes.push(Note { path: path.to_path_buf(), text });
    }

    pub(crate) fn set_path(&mut self, path: &Path) {
        self.path = path.to_path_buf();
    }

    /// A file should have this SHA-256, as its container says.
    pub(crate) fn expect_digest(&mut self, path: PathBuf, hex: &str) {
        self.digests.push((path, hex.to_ascii_lowercase()));
    }

    /// Reads every file whose SHA-256 the container gives, and says which have another: each with
    /// the digest found. `progress` is told the bytes read.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read.
    pub fn verify_digests(&self, mut progress: impl FnMut(u64)) -> Result<Vec<(PathBuf, String)>> {
        let mut wrong = Vec::new();
        for (path, expected) in &self.digests {
            let source = Source::open(path, crate::bytes::Access::Read)?;
            let found = crate::digest::sha256(&source)?;
            progress(source.len());
            if found != *expected {
                wrong.push((path.clone(), found));
            }
        }
        Ok(wrong)
    }

    /// Files whose SHA-256 the container gives.
    pub fn digests(&self) -> usize {
        self.digests.len()
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The paths of the files that hold tensors or metadata.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.source.path())
    }

    /// The number of tensors. Scales and the like that belong to another tensor do not count.
    pub fn len(&self) -> usize {
        self.tensors
    }

    /// Whether there are no tensors: a file of metadata or a vocabulary alone.
    pub fn is_empty(&self) -> bool {
        self.tensors == 0
    }

    /// All tensors, in the order of the files.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor<'_>> {
        let heads = move |number: &u32| match self.entry(*number).map(|entry| entry.group) {
            None | Some(NO_GROUP) => true,
            Some(group) => self.groups.get(group as usize).is_some_and(|g| g.head == *number),
        };
        let count = u32::try_from(self.listing.len()).unwrap_or(u32::MAX);
        (0..count).filter(heads).map(|number| Tensor::new(self, number))
    }

    /// The tensor of that stored name: the name itself, or its [spelling](Text::spelling) where it
    /// is not UTF-8.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; the advice names the tensor that comes nearest.
    pub fn tensor(&self, stored_name: &str) -> Result<Tensor<'_>> {
        let name_of = |n| name(&self.listing, &self.files, n);
        if let Some(number) = self.index.find(stored_name.as_bytes(), name_of) {
            let entry = self.entry(number);
            let group = entry.and_then(|entry| self.groups.get(entry.group as usize));
            return match group.filter(|group| group.head != number) {
                None => Ok(Tensor::new(self, number)),
                Some(group) => {
                    let whole = self.entry_name(group.head);
                    let name = Text::new(stored_name.as_bytes());
                    Err(Error::not_found(format!("\"{name}\" is no tensor, but a part of one"))
                        .in_file(&self.path)
                        .advise(format!("ask for \"{whole}\"")))
                }
            };
        }
        let unusual = self.tensors().find(|tensor| {
            tensor.name().to_str().is_none() && tensor.name().spelling() == stored_name
        });
        unusual.ok_or_else(|| self.no_tensor(stored_name))
    }

    fn no_tensor(&self, wanted: &str) -> Error {
        let fault = format!("there is no tensor \"{}\"", Text::new(wanted.as_bytes()));
        let error = Error::not_found(fault).in_file(&self.path);
        // The stored name that shares most with the one asked for, at the end and at the start.
        let likeness = |tensor: &Tensor<'_>| {
            let name = tensor.name().as_bytes();
            let same = |(a, b): &(&u8, &u8)| a == b;
            let tail =
                name.iter().rev().zip(wanted.as_bytes().iter().rev()).take_while(same).count();
            tail + name.iter().zip(wanted.as_bytes()).take_while(same).count()
        };
        let nearest = self.tensors().max_by_key(likeness).filter(|tensor| likeness(tensor) >= 4);
        match nearest {
            Some(tensor) => error.advise(format!("the nearest name is \"{}\"", tensor.name())),
            None => error.advise("`weighbridge inspect --all` lists the names"),
        }
    }

    /// Keys and values: GGUF's metadata, or the `__metadata__` of a safetensors file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The JSON document of that file name, if the model has it.
    pub fn document(&self, file_name: &str) -> Option<&serde_json::Value> {
        self.documents.iter().find(|document| document.name == file_name).map(|found| &found.json)
    }

    /// What a reader should know although the model opened: rules that files break, files left
    /// aside.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    pub(crate) fn entry(&self, number: u32) -> Option<&Entry> {
        self.listing.entries.get(number as usize)
    }

    pub(crate) fn entry_name(&self, number: u32) -> Text<'_> {
        Text::new(name(&self.listing, &self.files, number))
    }

    pub(crate) fn entry_shape(&self, number: u32) -> &[u64] {
        self.entry(number).map_or(&[], |entry| self.listing.shape(entry))
    }

    /// The dimensions of a tensor, which need not be those of its weight part.
    pub(crate) fn tensor_shape(&self, number: u32) -> &[u64] {
        let group = self.entry(number).and_then(|entry| self.groups.get(entry.group as usize));
        let Some(group) = group.filter(|group| group.head == number) else {
            return self.entry_shape(number);
        };
        let start = group.shape.0 as usize;
        self.listing.dims.get(start..start.saturating_add(group.shape.1.into())).unwrap_or_default()
    }

    /// The name of an entry in its file, which need not be that of the tensor it heads.
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

    /// The dtype of the whole tensor and its parts, for the head of a group.
    pub(crate) fn entry_group(&self, number: u32) -> Option<(DType, &[(Part, u32)])> {
        let group = self.groups.get(self.entry(number)?.group as usize)?;
        Some((group.dtype, self.parts.get(group.parts.start as usize..group.parts.end as usize)?))
    }

    /// Elements that share a scale, for the head of a group that has such a number.
    pub(crate) fn entry_group_size(&self, number: u32) -> Option<u32> {
        let group = self.groups.get(self.entry(number)?.group as usize)?;
        (group.group_size > 0).then_some(group.group_size)
    }

    /// Bytes that all tensors take with all their parts; those of unknown types do not count.
    pub fn stored_bytes(&self) -> u64 {
        self.tensors().map(|tensor| tensor.stored_bytes()).fold(0, u64::saturating_add)
    }
}

/// Checks that an entry's bytes lie in a file of `file_len` bytes.
pub(crate) fn check_range(listed: &Listed<'_>, file_len: u64) -> Result<()> {
    let Ok(dtype) = listed.dtype else { return Ok(()) };
    let error =
        |fault: String| Err(Error::malformed(fault).in_tensor(listed.name).at(listed.offset));
    let Some(bytes) = dtype.tensor_bytes(listed.shape) else {
        let row = dtype.descriptor();
        if shape::elements(listed.shape).and_then(|n| n.checked_mul(8)).is_none() {
            return error(format!("shape {:?} has more elements than 64 bits count", listed.shape));
        }
        return error(format!(
            "rows of {} elements are no whole number of {dtype} blocks of {}",
            shape::columns(listed.shape),
            row.block_len
        ));
    };
    match listed.offset.checked_add(bytes) {
        Some(end) if end <= file_len => Ok(()),
        _ => {
            let missing = listed.offset.saturating_add(bytes).saturating_sub(file_len);
            let error = Error::malformed(format!(
                "its {bytes} bytes would end {missing} bytes after the end of the file ({file_len})"
            ));
            Err(error.in_tensor(listed.name).at(listed.offset).advise(
                "the file is cut short, perhaps a download that did not finish: fetch it again",
            ))
        }
    }
}

/// Refuses more tensors than the limit.
pub(crate) fn check_count(count: u64, limits: &Limits) -> Result<()> {
    if count > limits.tensors {
        return Err(Error::limit("tensors", count, limits.tensors, "tensors"));
    }
    Ok(())
}
