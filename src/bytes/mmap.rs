//! Memory maps. One of the few files that may contain unsafe code.
#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; see `Access::Map`")]

use std::fs::File;

use crate::error::{AdvisedOption, Error, Result};

/// A read-only map of the first `len` bytes of a file.
#[derive(Debug)]
pub(super) struct MappedFile(memmap2::Mmap);

impl MappedFile {
    /// The caller must have checked that the file has `len` bytes.
    pub(super) fn new(file: &File, len: u64) -> Result<Self> {
        let len = usize::try_from(len)
            .map_err(|_| Error::unsupported("the file exceeds this machine's address space"))?;
        // SAFETY: the map is private to this struct and read-only. No program can prevent another
        // process from changing the file meanwhile; that is documented at `Access::Map`, which the
        // caller chose. `Access::Read` makes no map.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) };
        map.map(Self).map_err(|error| {
            let advice = "a limit of address space may be the cause (ulimit -v); {} reads the file without a map";
            Error::io("cannot map", error).advise_option(advice, AdvisedOption::NoMap)
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Releases the pages of some bytes. Until their next access they do not count as memory of
    /// this process.
    pub(super) fn release_pages(&self, start: usize, len: usize) {
        #[cfg(target_os = "linux")]
        {
            let end = start.saturating_add(len).min(self.0.len());
            if start < end {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: the map is a shared map of a file and never written to, so released pages
                // are read from the file again: nothing is lost.
                let _ = unsafe { self.0.unchecked_advise_range(advice, start, end - start) };
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (start, len);
    }
}
