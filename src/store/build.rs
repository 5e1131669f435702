//! Builds a store from what a container parses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::listing::{ArrayListing, ListedArray, NO_GROUP, TensorGroup};
use super::{Document, Encoding, Note, Store, StoredFile, name};
use crate::bytes::{Files, Source, Text};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::{NameIndex, hash};
use crate::limits::Limits;
use crate::metadata::Metadata;
use crate::store::Part;

/// The largest stored array that describes another: a shape, or bitsandbytes' JSON. In bytes.
const DESCRIPTION_BYTES: usize = 64 << 10;

/// A tensor made of several stored arrays, as a container reports it.
#[derive(Debug)]
pub(crate) struct NewGroup<'a> {
    pub(crate) dtype: DType,
    /// The number of elements that share a scale; 0 if there is no single such number.
    pub(crate) group_size: u32,
    /// The name, if it differs from that of the weight part.
    pub(crate) name: Option<Vec<u8>>,
    /// The dimensions, if they differ from those of the weight part.
    pub(crate) shape: Option<Vec<u64>>,
    /// The other parts.
    pub(crate) companions: &'a [(Part, u32)],
}

/// A tensor that is known without the header of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescribedTensor<'t> {
    pub(crate) name: &'t str,
    pub(crate) dtype: DType,
    /// Dimensions, outermost first.
    pub(crate) shape: &'t [u64],
    /// Elements that share a scale, for dtypes that leave the number to the tensor.
    pub(crate) group_size: Option<u32>,
}

/// Collects what a container parses, and builds the store.
#[derive(Debug)]
pub(crate) struct StoreBuilder {
    container: &'static str,
    encoding: Encoding,
    /// The version of the files' format, if it has versions.
    pub(crate) version: Option<u32>,
    path: PathBuf,
    /// The folder of the files beside the weights, for containers that have one.
    pub(crate) folder: Option<PathBuf>,
    files: Vec<StoredFile>,
    listing: ArrayListing,
    groups: Vec<TensorGroup>,
    parts: Vec<(Part, u32)>,
    pub(crate) metadata: Metadata,
    pub(crate) documents: Vec<Document>,
    pub(crate) notes: Vec<Note>,
    /// Whether the file is a shard of a model whose others are not opened.
    pub(crate) is_shard: bool,
    /// Arrays whose values are refused, with the reason.
    refused: BTreeMap<u32, Box<str>>,
}

impl StoreBuilder {
    pub(crate) fn new(container: &'static str, encoding: Encoding, path: &Path) -> Self {
        Self {
            container,
            encoding,
            version: None,
            path: path.to_path_buf(),
            folder: None,
            files: Vec::new(),
            listing: ArrayListing::default(),
            groups: Vec::new(),
            parts: Vec::new(),
            metadata: Metadata::default(),
            documents: Vec::new(),
            notes: Vec::new(),
            is_shard: false,
            refused: BTreeMap::new(),
        }
    }

    /// Reserves memory for the entries of several files.
    pub(crate) fn reserve<'l>(
        &mut self,
        listings: impl Iterator<Item = &'l ArrayListing> + Clone,
    ) -> Result<()> {
        // The listing of a single file is used without copying.
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
    pub(crate) fn add(&mut self, file: StoredFile, listing: ArrayListing) -> Result<()> {
        let number = u32::try_from(self.files.len())
            .map_err(|_| Error::unsupported("more than 2^32 files in one model"))?;
        file.source.opened();
        self.files.push(file);
        if self.listing.entries.capacity() == 0 {
            self.listing = listing;
            return Ok(());
        }
        self.listing.append(listing, number)
    }

    /// Adds a note about `path`.
    pub(crate) fn note(&mut self, path: &Path, text: impl Into<String>) {
        self.notes.push(Note::new(path, text.into()));
    }

    /// Builds a store of tensors whose little-endian data follow each other from the start of `source`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if a name occurs twice; `Unsupported` for too many names or dimensions.
    pub(crate) fn described<'t>(
        mut self,
        source: Source,
        tensors: impl Iterator<Item = DescribedTensor<'t>>,
    ) -> Result<Store> {
        let too_long = |_| Error::unsupported("more than 4 GiB of names");
        let (mut listing, mut names, mut offset) = (ArrayListing::default(), Vec::new(), 0u64);
        let mut grouped = Vec::new();
        for (DescribedTensor { name, dtype, shape, group_size }, number) in tensors.zip(0u32..) {
            grouped.extend(group_size.map(|size| (number, dtype, size)));
            let start = u32::try_from(names.len()).map_err(too_long)?;
            names.extend_from_slice(name.as_bytes());
            let end = u32::try_from(names.len()).map_err(too_long)?;
            let rank = u8::try_from(shape.len())
                .map_err(|_| Error::unsupported(format!("{} dimensions", shape.len())))?;
            shape.iter().for_each(|&dim| listing.push_dim(dim));
            listing.push(start..end, hash(name.as_bytes()), Ok(dtype), rank, offset)?;
            offset = offset.saturating_add(dtype.tensor_bytes(shape).unwrap_or(0));
        }
        let (source, header) = (Arc::new(source), Arc::new(names));
        self.add(StoredFile { source, header, big_endian: false }, listing)?;
        let mut indexed = self.index(|_, _, _| Error::mismatch("duplicate tensor name"))?;
        for (number, dtype, group_size) in grouped {
            let (name, shape, companions) = (None, None, &[][..]);
            indexed.group(number, NewGroup { dtype, group_size, name, shape, companions })?;
        }
        Ok(indexed.finish())
    }

    fn name(&self, number: u32) -> &[u8] {
        name(&self.listing, &self.files, number)
    }

    /// Builds the index of names. If a name occurs twice, `twice` makes the error.
    pub(crate) fn index(self, twice: impl Fn(Text<'_>, &Path, &Path) -> Error) -> Result<Indexed> {
        let mut index = NameIndex::with_room(self.listing.len())?;
        let hashes = &self.listing.hashes;
        for ((number, entry), &hash) in (0u32..).zip(&self.listing.entries).zip(hashes) {
            // Equal hashes are rare, and a name is seldom in the cache.
            let hash_of = |other: u32| hashes.get(other as usize).copied().unwrap_or_default();
            let same = |other| hash_of(other) == hash && self.name(other) == self.name(number);
            if let Some(first) = index.insert(hash, number, same, hash_of) {
                let name = self.name(number);
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

/// A store of one little-endian array, which is all that `source` has.
///
/// # Errors
///
/// `Mismatch` if the length of the source is not that of an array of this dtype and shape.
pub(crate) fn single(name: &str, dtype: DType, shape: &[u64], source: Source) -> Result<Store> {
    let bytes = dtype.tensor_bytes(shape);
    if bytes != Some(source.len()) {
        let needed = bytes.map_or("more than 2^64".to_owned(), |bytes| bytes.to_string());
        let fault =
            format!("{} bytes, but a {dtype} array of shape {shape:?} has {needed}", source.len());
        return Err(Error::mismatch(fault).in_file(source.path()).in_tensor(name));
    }
    let builder = StoreBuilder::new("memory", Encoding::Safetensors, source.path());
    builder.described(
        source,
        std::iter::once(DescribedTensor { name, dtype, shape, group_size: None }),
    )
}

/// A [`StoreBuilder`] whose entries can be looked up by name, so that parts can be grouped.
#[derive(Debug)]
pub(crate) struct Indexed {
    builder: StoreBuilder,
    index: NameIndex,
}

impl Indexed {
    /// The number of the entry with this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.find(name, |n| self.builder.name(n))
    }

    /// Whether entry `number` has this name: a cheap guess to try before [`find`](Self::find).
    pub(crate) fn is_named(&self, number: u32, name: &[u8]) -> bool {
        self.builder.name(number) == name
    }

    pub(crate) fn len(&self) -> usize {
        self.builder.listing.len()
    }

    /// The entry with this number.
    pub(crate) fn get(&self, number: u32) -> Option<ListedArray<'_>> {
        let entry = self.builder.listing.entries.get(number as usize)?;
        let header = self.builder.files.get(entry.file as usize)?.header.as_slice();
        Some(self.builder.listing.listed(entry, header))
    }

    /// The dtype of entry `number`, if it is known.
    pub(crate) fn dtype(&self, number: u32) -> Option<DType> {
        let entry = self.builder.listing.entries.get(number as usize)?;
        self.builder.listing.dtype(entry).ok()
    }

    /// The known dtypes of entries that are no part of a group, in order, without repeating the last one.
    pub(crate) fn dtypes(&self) -> impl Iterator<Item = DType> {
        let mut last = None;
        let alone = self.builder.listing.entries.iter().filter(|entry| entry.group == NO_GROUP);
        let known = alone.filter_map(|entry| self.builder.listing.dtype(entry).ok());
        known.filter(move |dtype| last.replace(*dtype) != Some(*dtype))
    }

    /// The number of the file that holds entry `number`.
    pub(crate) fn file(&self, number: u32) -> Option<u32> {
        self.builder.listing.entries.get(number as usize).map(|entry| entry.file)
    }

    /// Adds a note about `path`.
    pub(crate) fn note(&mut self, path: &Path, text: String) {
        self.builder.note(path, text);
    }

    /// Adds a note about a rule that `path` breaks.
    pub(crate) fn note_broken_rule(&mut self, path: &Path, text: &str) {
        self.builder.notes.push(Note::broken_rule(path, text));
    }

    /// The path that was opened.
    pub(crate) fn root(&self) -> &Path {
        &self.builder.path
    }

    /// The note about a file with this name.
    pub(crate) fn note_on(&self, name: &str) -> Option<&Note> {
        let on = |note: &&Note| note.path.file_name().is_some_and(|file| file == name);
        self.builder.notes.iter().find(on)
    }

    /// Whether a file with this name lies beside the weights.
    pub(crate) fn root_has(&self, files: &Files, name: &'static str) -> bool {
        self.builder.folder.as_ref().is_some_and(|folder| files.exists(&folder.join(name)))
    }

    /// The model's JSON documents that have been read.
    pub(crate) fn documents(&self) -> &[Document] {
        &self.builder.documents
    }

    /// Whether the entry already belongs to a group.
    pub(crate) fn is_grouped(&self, number: u32) -> bool {
        let entry = self.builder.listing.entries.get(number as usize);
        entry.is_some_and(|entry| entry.group != NO_GROUP)
    }

    /// Reads the bytes of an entry that describes another one. The memory map is not used.
    pub(crate) fn read(&self, number: u32) -> Result<Vec<u8>> {
        let len = self.get(number).map_or(0, |listed| listed.length());
        match self.placed(number) {
            Some((file, listed)) if len > DESCRIPTION_BYTES => {
                Err(Error::malformed(format!("an array of {len} bytes describes another tensor"))
                    .in_file(file.source.path())
                    .in_tensor(listed.name)
                    .at(listed.offset))
            }
            _ => self.read_start(number, len),
        }
    }

    /// Reads the first bytes of an entry.
    pub(crate) fn read_start(&self, number: u32, most: usize) -> Result<Vec<u8>> {
        let Some((file, listed)) = self.placed(number) else { return Ok(Vec::new()) };
        let mut bytes = crate::bytes::try_zeroed(listed.length().min(most))?;
        file.source.read_at(listed.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// An entry and its file.
    fn placed(&self, number: u32) -> Option<(&StoredFile, ListedArray<'_>)> {
        Some((self.builder.files.get(self.file(number)? as usize)?, self.get(number)?))
    }

    /// The path of the file that holds entry `number`, for messages.
    pub(crate) fn path(&self, number: u32) -> &Path {
        let file = self.file(number).and_then(|file| self.builder.files.get(file as usize));
        file.map_or(&self.builder.path, |file| file.source.path())
    }

    /// Whether the entry is the weight part of a group.
    pub(crate) fn is_head(&self, number: u32) -> bool {
        let entry = self.builder.listing.entries.get(number as usize);
        let group = entry.and_then(|entry| self.builder.groups.get(entry.group as usize));
        group.is_some_and(|group| group.head == number)
    }

    /// Refuses the values of these arrays, for the reasons given, and notes how many there are.
    pub(crate) fn refuse(&mut self, arrays: BTreeMap<u32, String>) {
        let Some((&first, reason)) = arrays.first_key_value() else { return };
        let name = Text::new(self.builder.name(first)).brief();
        let others = match arrays.len() - 1 {
            0 => String::new(),
            1 => " and 1 more array".to_owned(),
            more => format!(" and {more} more arrays"),
        };
        let note = format!("the values of {name}{others} cannot be read: {reason}");
        let root = self.builder.path.clone();
        self.builder.note(&root, note);
        self.builder.refused =
            arrays.into_iter().map(|(number, why)| (number, why.into())).collect();
    }

    /// Joins `head` and its companions into one tensor.
    pub(crate) fn group(&mut self, head: u32, grouped: NewGroup<'_>) -> Result<()> {
        let NewGroup { dtype, group_size, name, shape, companions } = grouped;
        if let Some(other) = name.as_ref().and_then(|name| self.find(name)) {
            let fault =
                format!("the array and \"{}\" belong to the same tensor", self.path_name(other));
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
        builder.groups.push(TensorGroup { head, parts, dtype, group_size, stored_name, shape });
        if let Some(name) = name {
            let builder = &self.builder;
            let same = |other| builder.name(other) == name;
            self.index.insert(hash(&name), head, same, |other| hash(builder.name(other)));
        }
        Ok(())
    }

    fn path_name(&self, number: u32) -> String {
        Text::new(self.builder.name(number)).to_string()
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.builder.metadata
    }

    /// Sets the store's metadata.
    pub(crate) fn set_metadata(&mut self, metadata: Metadata) {
        self.builder.metadata = metadata;
    }

    /// Builds the store.
    pub(crate) fn finish(self) -> Store {
        let Self { mut builder, index } = self;
        builder.listing.hashes = Vec::new();
        let companions = builder.parts.len().saturating_sub(builder.groups.len());
        Store {
            container: builder.container,
            encoding: builder.encoding,
            version: builder.version,
            attachments: Vec::new(),
            folder: builder.folder,
            tokenizer_folder: None,
            limits: Limits::default(),
            place: Files::default(),
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
            is_shard: builder.is_shard,
            refused: builder.refused,
        }
    }
}
