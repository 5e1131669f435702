//! Reading much of a file: copied from the map where it is in memory already, past the page cache
//! where it is not.

use std::fs::File;
use std::ops::Range;

use super::{Handle, Kind, Pages, Source};
use crate::error::Result;

/// What a thread that reads much uses again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    buffer: Option<Pages>,
}

/// What offsets, lengths and memory of reads past the page cache must be multiples of, whatever the
/// device: a page.
const SECTOR: u64 = 4096;

/// Bytes read past the page cache at a time, and sectors on both sides.
const STEP: u64 = 1 << 20;

/// Reads shorter than this go through the page cache.
const LEAST: u64 = 64 << 10;

impl Scratch {
    /// At least so many bytes, starting at a page.
    fn room(&mut self, len: u64) -> Result<&mut [u8]> {
        if self.buffer.as_ref().is_none_or(|buffer| (buffer.len() as u64) < len) {
            // Long enough to have pages of its own, which start where they should.
            self.buffer = Some(Pages::zeroed(len.max(2 * STEP))?);
        }
        let room = self.buffer.as_deref_mut().unwrap_or_default();
        Ok(room.get_mut(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or_default())
    }
}

impl Source {
    /// Fills `out` from `offset`, like [`read_at`](Self::read_at), by the way that is fastest for
    /// many bytes: those that the system holds in memory are copied from the map, or read where
    /// there is none; others are read past the page cache, which would copy them once more.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub(crate) fn fill(&self, offset: u64, out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let range = offset..offset.saturating_add(out.len() as u64);
        self.check(&range)?;
        if self.is_cached(&range) {
            if let Kind::Mapped { file, map } = &self.kind {
                let (start, len) = self.check(&range)?;
                let whole = self.mapped(file, map)?;
                let from = whole.get(start..start.saturating_add(len));
                out.copy_from_slice(from.ok_or_else(|| self.beyond(&range))?);
                self.forget(&range);
                return Ok(());
            }
        } else if let Some(direct) = self.direct() {
            let mut at = offset;
            for out in out.chunks_mut(usize::try_from(STEP).unwrap_or(usize::MAX)) {
                let end = at.saturating_add(out.len() as u64);
                out.copy_from_slice(self.read_direct(direct, at..end, scratch)?);
                at = end;
            }
            return Ok(());
        }
        self.read_at(offset, out)
    }

    /// Whether the system holds the bytes in memory, as far as a few of them tell. What is in
    /// memory already, and what is short, counts as held.
    pub(crate) fn is_cached(&self, range: &Range<u64>) -> bool {
        let (Kind::Mapped { file, .. } | Kind::Read { file }) = &self.kind else { return true };
        let Handle::Open(file) = file else { return true };
        let len = range.end.saturating_sub(range.start);
        if len < LEAST {
            return true;
        }
        // The first, the last and two between: pages come and go by runs of many.
        [0, len / 3, len / 3 * 2, len - 1].iter().all(|at| is_cached(file, range.start + at))
    }

    /// Lets go of what the map holds of the bytes, so that it does not count as this program's
    /// memory.
    pub(crate) fn forget(&self, range: &Range<u64>) {
        if let (Kind::Mapped { map, .. }, Ok((start, len))) = (&self.kind, self.check(range))
            && let Some(map) = map.get()
        {
            map.forget(start, len);
        }
    }

    fn direct(&self) -> Option<&File> {
        let (Kind::Mapped { file, .. } | Kind::Read { file }) = &self.kind else { return None };
        let Handle::Open(file) = file else { return None };
        self.direct.get_or_init(|| open_direct(file)).as_ref()
    }

    /// The bytes of a range: of the map where it holds them, else read into `scratch`. Those of
    /// the map should be [let go of](Self::forget) after use.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub(crate) fn stretch<'s>(
        &'s self,
        range: Range<u64>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8]> {
        let (start, len) = self.check(&range)?;
        let cached = self.is_cached(&range);
        let held = match &self.kind {
            Kind::Memory { bytes } => bytes.get(start..start.saturating_add(len)),
            Kind::Mapped { file, map } if cached && len > 0 => {
                self.mapped(file, map)?.get(start..start.saturating_add(len))
            }
            _ => None,
        };
        if let Some(held) = held {
            return Ok(held);
        }
        match self.direct() {
            Some(direct) if !cached => self.read_direct(direct, range, scratch),
            _ => {
                let room = scratch.room(len as u64)?;
                self.read_at(range.start, room)?;
                Ok(room)
            }
        }
    }

    /// Reads a range past the page cache, with what lies beside it in its pages.
    fn read_direct<'s>(
        &self,
        direct: &File,
        range: Range<u64>,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8]> {
        let start = range.start / SECTOR * SECTOR;
        let end = range.end.next_multiple_of(SECTOR);
        let room = scratch.room(end.saturating_sub(start))?;
        let wanted = usize::try_from(range.end - start).unwrap_or(usize::MAX);
        let lead = usize::try_from(range.start - start).unwrap_or(usize::MAX);
        let mut filled = 0;
        while filled < wanted {
            let rest = room.get_mut(filled..).unwrap_or_default();
            let step = rest.len().min(usize::try_from(STEP).unwrap_or(usize::MAX));
            let read =
                read_at(direct, start + filled as u64, rest.get_mut(..step).unwrap_or_default());
            match read {
                Ok(0) => return Err(self.shrunk()),
                // A read that ends within a page ends at the end of the file.
                Ok(read) if (read as u64).is_multiple_of(SECTOR) || filled + read >= wanted => {
                    filled += read;
                }
                // Not every file system keeps its word about these reads.
                _ => {
                    let missing = room.get_mut(lead..wanted).unwrap_or_default();
                    self.read_at(range.start, missing)?;
                    break;
                }
            }
        }
        Ok(room.get(lead..wanted).unwrap_or_default())
    }
}

/// Whether the page of a byte is in the page cache: asks for the byte, but not to wait for it.
#[cfg(target_os = "linux")]
fn is_cached(file: &File, at: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut byte = [0];
    let mut room = [std::io::IoSliceMut::new(&mut byte)];
    match preadv2(file, &mut room, at, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => false,
        // File systems that cannot say are read in the ordinary way.
        Ok(_) | Err(_) => true,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_cached(_: &File, _: u64) -> bool {
    true
}

/// The same file once more, whatever its name stands for by now.
#[cfg(target_os = "linux")]
fn open_direct(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &File) -> Option<File> {
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::bytes::Access;

    #[test]
    fn the_same_bytes_by_every_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let mut file = File::create(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        let mut scratch = Scratch::default();
        for access in [Access::Map, Access::Read] {
            let source = Source::open(&path, access).unwrap();
            for (start, len) in [(0, 3_000_001), (1, 70_000), (4095, 2), (2_999_000, 1001), (5, 0)]
            {
                let mut out = vec![0; len];
                source.fill(start as u64, &mut out, &mut scratch).unwrap();
                assert_eq!(out, bytes[start..start + len]);
                if let Some(direct) = source.direct() {
                    let range = start as u64..(start + len) as u64;
                    let found = source.read_direct(direct, range, &mut scratch).unwrap();
                    assert_eq!(found, &bytes[start..start + len]);
                }
            }
            assert_eq!(source.stretch(9..70_000, &mut scratch).unwrap(), &bytes[9..70_000]);
            assert!(source.fill(3_000_000, &mut [0; 2], &mut scratch).is_err());
            source.forget(&(0..3_000_001));
            assert_eq!(source.bytes(7..9).unwrap(), &bytes[7..9]);
        }
    }
}
