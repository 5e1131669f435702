//! Memory maps. One of the few files that may hold unsafe code.
#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; see `Access::Map`")]

use std::fs::File;

use crate::error::{Error, Result};

/// A read-only map of the first `len` bytes of a file.
#[derive(Debug)]
pub(super) struct Map(memmap2::Mmap);

impl Map {
    /// The caller has checked that the file holds `len` bytes now.
    pub(super) fn new(file: &File, len: u64) -> Result<Self> {
        let len = usize::try_from(len)
            .map_err(|_| Error::unsupported("larger than this machine's address space"))?;
        // SAFETY: the map is private to this struct and read-only. What no program can rule out,
        // another process changing the file meanwhile, is documented at `Access::Map`, which the
        // caller chose; `Access::Read` makes no map.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) };
        map.map(Self).map_err(|error| Error::io("cannot map", error))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
