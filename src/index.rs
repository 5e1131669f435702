//! A hash index over names that are stored elsewhere.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::error::{Error, Result};

/// The hash of a name. It is seeded at random once per process, so that no file can be crafted
/// whose names all collide, and it has 32 bits, so that a hundred thousand names take little
/// memory.
pub(crate) fn hash(name: &[u8]) -> u32 {
    static SEED: OnceLock<foldhash::fast::RandomState> = OnceLock::new();
    let mut hasher = SEED.get_or_init(Default::default).build_hasher();
    hasher.write(name);
    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
    let half = hasher.finish() as u32;
    half
}

/// Spreads the hash over 64 bits: the table takes the bucket from the lower bits and the tag from
/// the upper bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A hash table of numbers whose names are stored elsewhere.
#[derive(Clone, Default)]
pub(crate) struct NameIndex {
    table: HashTable<u32>,
}

impl NameIndex {
    /// Allocates room for `count` names.
    pub(crate) fn with_room(count: usize) -> Result<Self> {
        let mut table = HashTable::new();
        table.try_reserve(count, |_| 0).map_err(|_| {
            Error::new(crate::ErrorKind::Io, format!("no memory for {count} names"))
        })?;
        Ok(Self { table })
    }

    /// Adds `number` under a name with this hash, or returns the number that is already there: one
    /// for which `same` says that its name is the same. `hash_of` is called if the table grows.
    pub(crate) fn insert(
        &mut self,
        hash: u32,
        number: u32,
        same: impl Fn(u32) -> bool,
        hash_of: impl Fn(u32) -> u32,
    ) -> Option<u32> {
        let rehash = |&other: &u32| spread(hash_of(other));
        match self.table.entry(spread(hash), |&other| same(other), rehash) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                entry.insert(number);
                None
            }
        }
    }

    /// The number under `name`.
    pub(crate) fn find<'n>(&self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) -> Option<u32> {
        self.table.find(spread(hash(name)), |&other| name_of(other) == name).copied()
    }

    /// Removes the number under `name`.
    pub(crate) fn remove<'n>(&mut self, name: &[u8], name_of: impl Fn(u32) -> &'n [u8]) {
        let same = |&other: &u32| name_of(other) == name;
        if let Ok(entry) = self.table.find_entry(spread(hash(name)), same) {
            entry.remove();
        }
    }

    /// Replaces the number under `name`.
    pub(crate) fn replace<'n>(
        &mut self,
        name: &[u8],
        number: u32,
        name_of: impl Fn(u32) -> &'n [u8],
    ) {
        let slot = self.table.find_mut(spread(hash(name)), |&other| name_of(other) == name);
        if let Some(slot) = slot {
            *slot = number;
        }
    }
}

impl std::fmt::Debug for NameIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameIndex").field("names", &self.table.len()).finish()
    }
}
