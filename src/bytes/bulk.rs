//! Bulk reads of a file: bytes in the page cache are copied from there, other bytes are read past
//! it.
//!
//! Copying does not use the memory map: its pages would count as this program's memory until they
//! are released, which costs more than a read.

use std::fs::File;
use std::ops::Range;

use super::bulk_files::BulkFiles;
use super::{AlignedBytes, FileHandle, Source, SourceKind, read_exact_at};
use crate::error::Result;

/// Buffers that a thread reuses between bulk reads.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    buffer: Option<AlignedBytes>,
}

/// Whether the page cache has a range of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CacheState {
    /// The range is not in the page cache.
    No,
    /// The range is in the page cache and has to be copied.
    Unmapped,
    /// The range is in the page cache and mapped.
    Mapped,
}

/// The alignment of offsets, lengths and memory of reads past the page cache, whatever the device:
/// a page.
const SECTOR: usize = 4096;

/// The number of bytes that pass through a buffer at a time.
const STEP: usize = 4 << 20;

/// Shorter reads use the page cache.
const LEAST: usize = 64 << 10;

impl Scratch {
    /// A buffer of `len` bytes, in huge pages if available. With small pages, which are scattered
    /// over the memory, a read past the page cache is split into many small requests.
    fn room(&mut self, len: usize) -> Result<&mut [u8]> {
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
            self.buffer =
                Some(AlignedBytes::zeroed(len.max(STEP).next_multiple_of(2 << 20) as u64)?);
        }
        let room = self.buffer.as_deref_mut().unwrap_or_default();
        Ok(room.get_mut(..len).unwrap_or_default())
    }
}

impl Source {
    /// Fills `out` from `offset`, like [`read_at`](Self::read_at), in the fastest way for many
    /// bytes. Bytes in the page cache are copied from there. Other bytes are read past the page
    /// cache, which saves a copy; they go straight to `out` if it has the same offset within a page
    /// as the bytes in the file.
    ///
    /// # Errors
    ///
    /// Same as [`read_at`](Self::read_at).
    pub(crate) fn fill(&self, offset: u64, out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        self.check(&(offset..offset.saturating_add(out.len() as u64)))?;
        if out.len() < LEAST
            && let Some(bulk) = self.bulk()
            && read_exact_at(&bulk.quiet, offset, out).is_ok()
        {
            return Ok(());
        }
        let Some(bulk) = self.cold(offset, out.len()) else { return self.read_at(offset, out) };
        // Up to the first page boundary in the file.
        let lead = usize::try_from(offset.next_multiple_of(SECTOR as u64) - offset).unwrap_or(0);
        let (head, pages) = out.split_at_mut(lead.min(out.len()));
        if pages.as_ptr().align_offset(SECTOR) == 0 {
            self.fill(offset, head, scratch)?;
            let (pages, tail) = pages.split_at_mut(pages.len() / SECTOR * SECTOR);
            let start = offset + lead as u64;
            self.read_pages(bulk, start, pages, pages.len())?;
            return self.fill(start + pages.len() as u64, tail, scratch);
        }
        let mut at = offset;
        for out in out.chunks_mut(STEP - SECTOR) {
            let end = at.saturating_add(out.len() as u64);
            out.copy_from_slice(self.read_past(bulk, at..end, scratch)?);
            at = end;
        }
        Ok(())
    }

    /// Reads a range into `scratch` in the same way.
    ///
    /// # Errors
    ///
    /// Same as [`read_at`](Self::read_at).
    pub(crate) fn read_range<'s>(
        &'s self,
        range: Range<u64>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8]> {
        let len = self.check(&range)?;
        if let SourceKind::Memory { bytes } = &self.kind {
            return self.part(bytes, &range);
        }
        if let Some(bulk) = self.cold(range.start, len) {
            return self.read_past(bulk, range, scratch);
        }
        let room = scratch.room(len)?;
        self.read_at(range.start, room)?;
        Ok(room)
    }

    /// Whether a range is in the page cache, judged by three samples, and whether it is mapped.
    /// Short ranges count as present.
    pub(crate) fn cache_state(&self, range: &Range<u64>) -> CacheState {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        match (self.cold(range.start, len), &self.kind) {
            (Some(_), _) => CacheState::No,
            (None, SourceKind::Mapped { .. }) => CacheState::Mapped,
            (None, _) => CacheState::Unmapped,
        }
    }

    /// Releases the memory map's pages of a range, so that they do not count as this program's
    /// memory.
    pub(crate) fn release_pages(&self, range: &Range<u64>) {
        if let SourceKind::Mapped { map, .. } = &self.kind
            && let (Ok(len), Ok(start)) = (self.check(range), usize::try_from(range.start))
            && let Some(map) = map.get()
        {
            map.release_pages(start, len);
        }
    }

    /// The files for reading past the page cache, if three samples find that the range is not in
    /// it. The first page alone does not suffice: an earlier read may have fetched it.
    fn cold(&self, offset: u64, len: usize) -> Option<&BulkFiles> {
        let bulk = self.bulk().filter(|_| len >= LEAST)?;
        let end = offset.saturating_add(len as u64 - 1);
        let held = |at: u64| is_held(&bulk.quiet, at);
        let all = held(end) && held(offset.midpoint(end)) && held(offset);
        (!all).then_some(bulk)
    }

    fn bulk(&self) -> Option<&BulkFiles> {
        let (SourceKind::Mapped { file: FileHandle::Open(file), .. }
        | SourceKind::Read { file: FileHandle::Open(file) }) = &self.kind
        else {
            return None;
        };
        self.bulk.get_or_init(|| open(file)).as_ref()
    }

    /// Reads a range past the page cache, together with the rest of its pages.
    fn read_past<'s>(
        &self,
        bulk: &BulkFiles,
        range: Range<u64>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8]> {
        let start = range.start / SECTOR as u64 * SECTOR as u64;
        let within = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX);
        let (lead, end) = (within(range.start), within(range.end));
        let room = scratch.room(end.next_multiple_of(SECTOR))?;
        self.read_pages(bulk, start, room, end)?;
        Ok(room.get(lead..end).unwrap_or_default())
    }

    /// Fills whole pages, starting at a page boundary of the file. The file may end within the last
    /// page, but not before `wanted` bytes.
    fn read_pages(
        &self,
        bulk: &BulkFiles,
        offset: u64,
        pages: &mut [u8],
        wanted: usize,
    ) -> Result<()> {
        let mut filled = 0;
        while filled < wanted {
            let rest = pages.get_mut(filled..).unwrap_or_default();
            match read_at(&bulk.direct, offset + filled as u64, rest) {
                // A read that ends within a page ends at the end of the file.
                Ok(read)
                    if read > 0 && (read.is_multiple_of(SECTOR) || filled + read >= wanted) =>
                {
                    filled += read;
                }
                // Some file systems refuse such reads although they accepted the flag.
                _ => {
                    let rest = pages.get_mut(filled..wanted).unwrap_or_default();
                    return self.read_at(offset + filled as u64, rest);
                }
            }
        }
        Ok(())
    }
}

/// Whether the page that contains a byte is in the page cache. It requests one byte without
/// waiting; a longer request would start the system's read-ahead.
#[cfg(target_os = "linux")]
fn is_held(file: &File, at: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut byte = [0];
    let mut room = [std::io::IoSliceMut::new(&mut byte)];
    // File systems that cannot answer are read in the ordinary way.
    !matches!(preadv2(file, &mut room, at, ReadWriteFlags::NOWAIT), Err(Errno::AGAIN))
}

#[cfg(not(target_os = "linux"))]
fn is_held(_: &File, _: u64) -> bool {
    true
}

/// Opens the same file again, even if its path now names another file.
#[cfg(target_os = "linux")]
fn open(file: &File) -> Option<BulkFiles> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let open = |flags| File::options().read(true).custom_flags(flags).open(&path).ok();
    let (quiet, direct) = (open(0)?, open(libc::O_DIRECT)?);
    rustix::fs::fadvise(&quiet, 0, None, rustix::fs::Advice::Random).ok()?;
    Some(BulkFiles { quiet, direct })
}

#[cfg(not(target_os = "linux"))]
fn open(_: &File) -> Option<BulkFiles> {
    None
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> std::io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, offset)
}

#[cfg(windows)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> std::io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: u64, _: &mut [u8]) -> std::io::Result<usize> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::bytes::Access;

    #[test]
    fn the_same_bytes_by_every_way() {
        const LEN: usize = 9_000_001;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..LEN).map(|i| (i * 7 + i / 256).to_le_bytes()[0]).collect();
        let mut file = File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        let mut scratch = Scratch::default();
        let ranges =
            [(0, LEN), (4096, LEN - 4096), (1, 70_000), (4095, 2), (LEN - 1001, 1001), (5, 0)];
        for access in [Access::Map, Access::Read] {
            let source = Source::open(&path, access).unwrap();
            for (start, len) in ranges {
                let offset = start as u64;
                let range = offset..offset + len as u64;
                let expected = &bytes[start..start + len];
                let mut out = AlignedBytes::zeroed(len as u64 + 64).unwrap();
                // Once with the file in the page cache, once without.
                for cold in [false, true] {
                    #[cfg(target_os = "linux")]
                    if cold {
                        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                    }
                    for place in [0, 3] {
                        let out = &mut out[place..place + len];
                        out.fill(0);
                        source.fill(offset, out, &mut scratch).unwrap();
                        assert_eq!(out, expected, "{start} {len} cold {cold}");
                    }
                    assert_eq!(source.read_range(range.clone(), &mut scratch).unwrap(), expected);
                }
                // Past the page cache, whatever it contains.
                if let Some(bulk) = source.bulk.get().and_then(Option::as_ref) {
                    let found = source.read_past(bulk, range, &mut scratch).unwrap();
                    assert_eq!(found, expected);
                }
            }
            assert!(source.fill(LEN as u64 - 1, &mut [0; 2], &mut scratch).is_err());
            assert!(source.read_range(LEN as u64 - 1..LEN as u64 + 1, &mut scratch).is_err());
        }
    }
}
