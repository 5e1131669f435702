//! Bulk reads of a tensor's bytes, for loading.

use std::ops::Range;

use super::{Segment, StoredTensor, swap};
use crate::bytes::{CacheState, Scratch, Source};
use crate::error::{Error, Result};
use crate::store::Part;

impl<'a> StoredTensor<'a> {
    /// The number of the file that holds a part, and the part's offset in it.
    pub(crate) fn place(&self, part: Part) -> Option<(u32, u64)> {
        let segment = self.segments().find(|segment| segment.part == part)?;
        Some((self.store.entry(segment.number)?.file, segment.range.start))
    }

    /// Whether both are the same tensor of the same store.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }

    /// The identity of the tensor: equal only for the same tensor of the same open store.
    pub(crate) fn identity(&self) -> (usize, u32) {
        (std::ptr::from_ref(self.store).addr(), self.number)
    }

    /// Reads bytes of a part, little-endian. In a big-endian file they must be whole blocks.
    pub(crate) fn fill(
        &self,
        part: Part,
        from: u64,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (source, segment) = self.source(part)?;
        let within = from..from.saturating_add(out.len() as u64);
        let range = self.range(&segment, &within)?;
        source.fill(range.start, out, scratch).map_err(|error| error.in_tensor(self.name()))?;
        self.swap(part, out)
    }

    /// Reads bytes of a part into `scratch`, in the byte order of the file.
    pub(crate) fn read_range<'s>(
        &'s self,
        part: Part,
        within: Range<u64>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8]> {
        let (source, segment) = self.source(part)?;
        let range = self.range(&segment, &within)?;
        source.read_range(range, scratch).map_err(|error| error.in_tensor(self.name()))
    }

    /// Whether bytes of a part are in the page cache, judged by a few samples.
    pub(crate) fn cache_state(&self, part: Part, within: &Range<u64>) -> Result<CacheState> {
        let (source, segment) = self.source(part)?;
        Ok(source.cache_state(&self.range(&segment, within)?))
    }

    /// Releases the memory map's pages of some bytes of a part.
    pub(crate) fn release_pages(&self, part: Part, within: Range<u64>) {
        if let Ok((source, segment)) = self.source(part)
            && let Ok(range) = self.range(&segment, &within)
        {
            source.release_pages(&range);
        }
    }

    /// Reverses the byte order of whole blocks if the file is big-endian.
    pub(crate) fn swap(&self, part: Part, bytes: &mut [u8]) -> Result<()> {
        if self.is_big_endian() {
            let (_, segment) = self.source(part)?;
            self.check_swappable(segment.dtype)?;
            swap(bytes, segment.dtype);
        }
        Ok(())
    }

    pub(super) fn source(&self, part: Part) -> Result<(&'a Source, Segment<'a>)> {
        let segment = self.segment(part)?;
        let file = self.store.entry_file(segment.number);
        let file = file.ok_or_else(|| {
            Error::not_found("the file of the tensor is missing").in_tensor(self.name())
        })?;
        Ok((&file.source, segment))
    }

    /// The place of bytes of a part in its file.
    pub(super) fn range(&self, segment: &Segment<'_>, within: &Range<u64>) -> Result<Range<u64>> {
        let at = |place: u64| segment.range.start.checked_add(place);
        let range = at(within.start).zip(at(within.end)).map(|(start, end)| start..end);
        range.filter(|range| range.end <= segment.range.end).ok_or_else(|| {
            Error::malformed(format!("the {} is too short", segment.part.name()))
                .in_file(self.store.path())
                .in_tensor(self.name())
        })
    }
}
