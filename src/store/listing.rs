//! The records of stored arrays. They are small, since a model may have a hundred thousand.

use std::ops::Range;

use crate::bytes::Text;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::hash;
use crate::limits::Limits;
use crate::shape;

/// The location of one stored array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayEntry {
    /// The position in the file, from its start.
    pub(crate) offset: u64,
    pub(super) name_start: u32,
    pub(super) name_len: u32,
    pub(super) shape_start: u32,
    /// The group that this entry is a part of, or `NO_GROUP`.
    pub(super) group: u32,
    pub(crate) file: u32,
    pub(super) dtype: EntryType,
    pub(super) rank: u8,
}

/// Several stored arrays that make up one tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorGroup {
    /// The weight part. Its entry gives the tensor its name and position.
    pub(super) head: u32,
    /// Range in `Store::parts`.
    pub(super) parts: Range<u32>,
    pub(super) dtype: DType,
    /// The number of elements that share a scale; 0 if there is no single such number.
    pub(super) group_size: u32,
    /// The location of the weight part's name in the file, in the form of [`ArrayEntry`]: the entry
    /// itself may have been renamed to the tensor's name.
    pub(super) stored_name: (u32, u32),
    /// The tensor's dimensions, in the form of [`ArrayEntry`].
    pub(super) shape: (u32, u8),
}

/// The dtype of an entry, or the fact that its type code is unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum EntryType {
    Known(DType),
    /// A ggml type code without a row in the table; it is stored after the dimensions.
    Unknown,
}

pub(super) const NO_GROUP: u32 = u32::MAX;

/// Set in `name_len` if the name is stored in `ArrayListing::names` instead of the file's header.
pub(super) const OWN_NAME: u32 = 1 << 31;

/// The entries of one file, or of several after joining.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArrayListing {
    pub(super) entries: Vec<ArrayEntry>,
    /// The hash of each entry's name, computed while the name was in the cache.
    pub(super) hashes: Vec<u32>,
    /// The dimensions of all entries, one entry after another.
    pub(super) dims: Vec<u64>,
    /// Names that no header contains literally, because they were unescaped or derived.
    pub(super) names: Vec<u8>,
}

impl ArrayListing {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reserves memory for `count` entries of two dimensions, as most have.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<()> {
        let reserved = self.entries.try_reserve(count);
        let reserved = reserved.and_then(|()| self.hashes.try_reserve(count));
        let reserved = reserved.and_then(|()| self.dims.try_reserve(count.saturating_mul(2)));
        reserved
            .map_err(|_| Error::new(crate::ErrorKind::Io, format!("no memory for {count} tensors")))
    }

    /// Adds a dimension to the next entry.
    pub(crate) fn push_dim(&mut self, dim: u64) {
        self.dims.push(dim);
    }

    /// The number of dimensions that were pushed.
    pub(crate) fn dims(&self) -> usize {
        self.dims.len()
    }

    /// Drops all dimensions but the first `count`: those of an entry that is read again.
    pub(crate) fn keep_dims(&mut self, count: usize) {
        self.dims.truncate(count);
    }

    /// Reverses the last `rank` dimensions: GGUF writes the innermost first.
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

    /// Adds an entry of file 0 with the last `rank` dimensions that were pushed. `name` is a range
    /// of that file's header. `dtype` is `Err` for a ggml code without a row in the table.
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
        self.entries.push(ArrayEntry {
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

    /// Stores a name that the header does not contain, and returns its location in the form of
    /// [`ArrayEntry`].
    pub(super) fn own_name(&mut self, name: &[u8]) -> Result<(u32, u32)> {
        let too_many = || Error::unsupported("more than 2 GiB of names that need unescaping");
        let start = u32::try_from(self.names.len()).map_err(|_| too_many())?;
        let len = u32::try_from(name.len()).map_err(|_| too_many())?;
        if len & OWN_NAME != 0 {
            return Err(too_many());
        }
        self.names.extend_from_slice(name);
        Ok((start, len | OWN_NAME))
    }

    /// Renames the last entry to a name that the header does not contain.
    pub(crate) fn rename_last(&mut self, name: &[u8]) -> Result<()> {
        let own = self.own_name(name)?;
        if let (Some(entry), Some(old)) = (self.entries.last_mut(), self.hashes.last_mut()) {
            *old = hash(name);
            (entry.name_start, entry.name_len) = own;
        }
        Ok(())
    }

    /// The name of entry `number`; `header` returns the header of a file by its number.
    pub(super) fn name<'a>(
        &'a self,
        entry: &ArrayEntry,
        header: impl Fn(u32) -> &'a [u8],
    ) -> &'a [u8] {
        let from = if entry.name_len & OWN_NAME == 0 { header(entry.file) } else { &self.names };
        let start = entry.name_start as usize;
        let end = start.saturating_add((entry.name_len & !OWN_NAME) as usize);
        from.get(start..end).unwrap_or_default()
    }

    pub(super) fn shape(&self, entry: &ArrayEntry) -> &[u64] {
        let start = entry.shape_start as usize;
        self.dims.get(start..start.saturating_add(entry.rank.into())).unwrap_or_default()
    }

    pub(super) fn dtype(&self, entry: &ArrayEntry) -> Result<DType, u32> {
        match entry.dtype {
            EntryType::Known(dtype) => Ok(dtype),
            EntryType::Unknown => {
                let place = (entry.shape_start as usize).saturating_add(entry.rank.into());
                let code = self.dims.get(place).copied().unwrap_or(u64::MAX);
                Err(u32::try_from(code).unwrap_or(u32::MAX))
            }
        }
    }

    /// The entries in order, each with what a container's own checks need.
    pub(crate) fn iter<'a>(&'a self, header: &'a [u8]) -> impl Iterator<Item = ListedArray<'a>> {
        self.entries.iter().map(move |entry| self.listed(entry, header))
    }

    /// Entry `number` alone.
    pub(crate) fn get<'a>(&'a self, number: usize, header: &'a [u8]) -> Option<ListedArray<'a>> {
        self.entries.get(number).map(|entry| self.listed(entry, header))
    }

    pub(super) fn listed<'a>(&'a self, entry: &ArrayEntry, header: &'a [u8]) -> ListedArray<'a> {
        ListedArray {
            name: Text::new(self.name(entry, |_| header)),
            dtype: self.dtype(entry),
            shape: self.shape(entry),
            offset: entry.offset,
        }
    }

    /// Keeps the entries for whose number `keep` returns true.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut kept = (0..self.entries.len()).map(&mut keep);
        self.entries.retain(|_| kept.next().unwrap_or(true));
        let mut kept = (0..self.hashes.len()).map(&mut keep);
        self.hashes.retain(|_| kept.next().unwrap_or(true));
    }

    /// Converts offsets from the start of the data to offsets from the start of the file.
    pub(crate) fn move_to(&mut self, data_start: u64) -> Result<()> {
        for entry in &mut self.entries {
            entry.offset = entry.offset.checked_add(data_start).ok_or_else(|| {
                Error::malformed(format!("offset {} exceeds the largest file size", entry.offset))
            })?;
        }
        Ok(())
    }

    /// Appends the entries of another file.
    pub(super) fn append(&mut self, other: Self, file: u32) -> Result<()> {
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

/// An entry as a container's own checks see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListedArray<'a> {
    pub(crate) name: Text<'a>,
    pub(crate) dtype: Result<DType, u32>,
    pub(crate) shape: &'a [u64],
    pub(crate) offset: u64,
}

impl ListedArray<'_> {
    /// The end of the data, for a known dtype whose size was checked.
    pub(crate) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.dtype.ok()?.tensor_bytes(self.shape)?)
    }

    /// The bytes of the data, for such a dtype; 0 for others.
    pub(crate) fn length(&self) -> usize {
        let len = self.end().unwrap_or(self.offset).saturating_sub(self.offset);
        usize::try_from(len).unwrap_or(usize::MAX)
    }
}

/// A statement about a file of `file_len` bytes whose tensors end at `needed`.
pub(crate) fn cut_short(file_len: u64, needed: u64) -> String {
    let missing = needed.saturating_sub(file_len);
    if missing == 0 {
        return "the file is cut short, perhaps by an unfinished download".to_owned();
    }
    let share = u128::from(file_len).saturating_mul(100).checked_div(needed.into()).unwrap_or(0);
    format!(
        "the file is cut short, perhaps by an unfinished download: {file_len} of {needed} bytes are there \
         ({share} %), {missing} missing"
    )
}

/// Checks that an entry's bytes lie within a file of `file_len` bytes, where all entries end at `needed`, or
/// at 0 if that is unknown. Returns their end, which is unknown for a dtype that is not in the table.
pub(crate) fn check_range(
    listed: &ListedArray<'_>,
    file_len: u64,
    needed: u64,
) -> Result<Option<u64>> {
    let Ok(dtype) = listed.dtype else { return Ok(None) };
    let error =
        |fault: String| Err(Error::malformed(fault).in_tensor(listed.name).at(listed.offset));
    let Some(bytes) = dtype.tensor_bytes(listed.shape) else {
        let row = dtype.descriptor();
        if shape::elements(listed.shape).and_then(|n| n.checked_mul(8)).is_none() {
            return error(format!("shape {:?} has more than 2^64 elements", listed.shape));
        }
        return error(format!(
            "rows of {} elements do not divide into {dtype} blocks of {}",
            shape::columns(listed.shape),
            row.block_len
        ));
    };
    match listed.offset.checked_add(bytes) {
        Some(end) if end <= file_len => Ok(Some(end)),
        _ => {
            let missing = listed.offset.saturating_add(bytes).saturating_sub(file_len);
            let error = Error::malformed(format!(
                "the tensor's {bytes} bytes would end {missing} bytes after the end of the file ({file_len})"
            ));
            Err(error
                .in_tensor(listed.name)
                .at(listed.offset)
                .advise(format!("{}: fetch it again", cut_short(file_len, needed))))
        }
    }
}

/// Checks the number of tensors against the limit.
pub(crate) fn check_count(count: u64, limits: &Limits) -> Result<()> {
    if count > limits.tensors {
        return Err(Error::limit("tensors", count, limits.tensors, "tensors"));
    }
    Ok(())
}
