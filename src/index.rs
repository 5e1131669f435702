//! Finds names among many without owning any of them.

use std::hash::{BuildHasher, Hasher};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::error::{Error, Result};

/// A hash table of numbers whose names lie elsewhere.
///
/// The hash is seeded at random, so that no file can be made whose names all collide.
pub(crate) struct NameIndex {
    table: HashTable<u32>,
    seed: foldhash::fast::RandomState,
}

impl NameIndex {
    /// Room for `count` names.
    pub(crate) fn with_room(count: usize) -> Result<Self> {
        let mut table = HashTable::new();
        table.try_reserve(count, |_| 0).map_err(|_| {
            Error::new(crate::ErrorKind::Io, format!("no memory for {count} names"))
        })?;
        Ok(Self { table, seed: foldhash::fast::RandomState::default() })
    }

    fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(name);
        hasher.finish()
    }

    /// Adds `number` under `name`, or gives the number that already stands under it.
    pub(crate) fn insert<'n>(
        &mut self,
        name: &[u8],
        number: u32,
        name_of: impl Fn(u32) -> &'n [u8],
    ) -> Option<u32> {
        let hash = self.hash(name);
        let same = |&other: &u32| name_of(other) == name;
        let seed = &self.seed;
        let rehash = |&other: &u32| {
            let mut hasher = seed.build_hasher();
            hasher.write(name_of(other));
            hasher.finish()
        };
        match self.table.entry(hash, same, rehash) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(number);
                None
            }
        }
    }

    /// The number under `name`.
    pub(crate) fn find<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> Option<u32> {
        self.table.find(self.hash(name), |&other| name_of(other) == name).copied()
    }

    /// Puts `number` in the place of the one that stands under `name`.
    pub(crate) fn replace<'n>(
        &mut self,
        name: &[u8],
        number: u32,
        name_of: impl Fn(u32) -> &'n [u8],
    ) {
        let hash = self.hash(name);
        if let Some(slot) = self.table.find_mut(hash, |&other| name_of(other) == name) {
            *slot = number;
        }
    }
}

impl std::fmt::Debug for NameIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameIndex").field("names", &self.table.len()).finish()
    }
}
