//! A store in which some tensors are those of another store, or stand under two names.

use super::listing::{EntryType, NO_GROUP};
use super::{Store, StoredFile, name};
use crate::error::{Error, Result};
use crate::index::hash;

impl Store {
    /// The same store with some tensors replaced, under their own names. Of each pair, the first number is
    /// that of a tensor of this store, the second one that of a tensor of `other`, which is a single array
    /// and may have another dtype and shape.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a tensor of several arrays or of an unknown dtype.
    pub(crate) fn replacing(&self, other: &Self, pairs: &[(u32, u32)]) -> Result<Self> {
        let mut store = self.clone();
        for &(own, with) in pairs {
            let fault = |fault: &'static str| {
                Error::unsupported(fault).in_tensor(other.entry_name(with)).in_file(other.path())
            };
            let entry = other.entry(with).filter(|entry| entry.group == NO_GROUP);
            let (Some(entry), Some(file), Ok(dtype)) =
                (entry, other.entry_file(with), other.entry_dtype(with))
            else {
                return Err(fault("a quantized tensor cannot replace another one"));
            };
            let too_many = |_| fault("more than 2^32 files or dimensions in one model");
            let same = |known: &StoredFile| known.source.path() == file.source.path();
            let place = store.files.iter().position(same).unwrap_or_else(|| {
                store.files.push(file.clone());
                store.files.len().saturating_sub(1)
            });
            let (place, rank) = (u32::try_from(place).map_err(too_many)?, entry.rank);
            let shape = u32::try_from(store.listing.dims.len()).map_err(too_many)?;
            store.listing.dims.extend_from_slice(other.entry_shape(with));
            let name = self.entry_name(own).as_bytes().to_vec();
            let (name_start, name_len) = store.listing.own_name(&name)?;
            store.refused.remove(&own);
            if let Some(replaced) = store.listing.entries.get_mut(own as usize) {
                (replaced.file, replaced.offset) = (place, entry.offset);
                (replaced.dtype, replaced.shape_start) = (EntryType::Known(dtype), shape);
                (replaced.rank, replaced.name_start, replaced.name_len) =
                    (rank, name_start, name_len);
                // The parts of a replaced tensor stay in its group, which has lost its head.
                replaced.group = NO_GROUP;
            }
        }
        Ok(store)
    }

    /// The same store with tensor `of` under a second name, which no tensor has. Both share their arrays.
    ///
    /// # Errors
    ///
    /// `Unsupported` for too many names or parts.
    pub(crate) fn with_alias(&self, of: u32, alias: &str) -> Result<Self> {
        let mut store = self.clone();
        let too_many = |_| Error::unsupported("more than 2^32 tensors or parts in one model");
        let Some(&entry) = self.entry(of) else { return Ok(store) };
        let number = u32::try_from(store.listing.len()).map_err(too_many)?;
        let mut second = entry;
        (second.name_start, second.name_len) = store.listing.own_name(alias.as_bytes())?;
        let group = store.groups.get(entry.group as usize).filter(|group| group.head == of);
        if let Some(mut group) = group.cloned() {
            let range = group.parts.start as usize..group.parts.end as usize;
            let mut parts = store.parts.get(range).unwrap_or_default().to_vec();
            parts.iter_mut().filter(|(_, part)| *part == of).for_each(|(_, part)| *part = number);
            let start = u32::try_from(store.parts.len()).map_err(too_many)?;
            store.parts.extend(parts);
            group.parts = start..u32::try_from(store.parts.len()).map_err(too_many)?;
            group.head = number;
            second.group = u32::try_from(store.groups.len()).map_err(too_many)?;
            store.groups.push(group);
        }
        if let Some(why) = self.refused.get(&of) {
            store.refused.insert(number, why.clone());
        }
        store.listing.entries.push(second);
        store.tensors = store.tensors.saturating_add(1);
        let Self { index, listing, files, .. } = &mut store;
        let name = |other| name(listing, files, other);
        let same = |other| name(other) == alias.as_bytes();
        index.insert(hash(alias.as_bytes()), number, same, |other| hash(name(other)));
        Ok(store)
    }

    /// Reads the documents of the tokenizer from the folder of another store, where that has them.
    pub(crate) fn with_tokenizer_of(mut self, other: &Self) -> Self {
        self.tokenizer_folder.clone_from(&other.folder);
        self
    }
}
