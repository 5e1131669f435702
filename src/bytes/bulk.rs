//! Reading much of a file: from the system's page cache what that holds, past it what it does not.
//! The map plays no part: its pages would count as this program's memory until they are dropped,
//! which costs more than reading does.

use std::fs::File;
use std::ops::Range;

use super::{Handle, Kind, Pages, Source};
use crate::error::Result;

/// What a thread that reads much uses again and again.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What comes past the page cache, on its way.
    passing: Option<Pages>,
    /// What is looked at as a whole.
    held: Option<Pages>,
}

/// What offsets, lengths and memory of reads past the page cache must be multiples of, whatever the
/// device: a page.
const SECTOR: u64 = 4096;

/// Bytes read past the page cache at a time.
const STEP: u64 = 1 << 20;

/// Reads shorter than this go through the page cache.
const LEAST: u64 = 64 << 10;

/// At least so many bytes, starting at a page.
fn room(pages: &mut Option<Pages>, len: u64) -> Result<&mut [u8]> {
    if pages.as_ref().is_none_or(|pages| (pages.len() as u64) < len) {
        // Long enough to have pages of its own, which start where they should.
        *pages = Some(Pages::zeroed(len.max(2 * STEP))?);
    }
    let room = pages.as_deref_mut().unwrap_or_default();
    Ok(room.get_mut(..usize::try_from(len).unwrap_or(usize::MAX)).unwrap_or_default())
}

impl Source {
    /// Fills `out` from `offset`, like [`read_at`](Self::read_at), by the way that is fastest for
    /// many bytes: what the system holds in memory is copied from there, the rest is read past its
    /// page cache, which would copy it once more. The system itself says which is which, by
    /// giving no more of a read that must not wait than it has.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub(crate) fn fill(&self, offset: u64, out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        let (Kind::Mapped { file: Handle::Open(file), .. }
        | Kind::Read { file: Handle::Open(file) }) = &self.kind
        else {
            return self.read_at(offset, out);
        };
        self.check(&(offset..offset.saturating_add(out.len() as u64)))?;
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let held = read_held(file, at, rest);
            (at, rest) = (at + held as u64, rest.get_mut(held..).unwrap_or_default());
            let direct = self.direct.get_or_init(|| open_direct(file));
            let Some(direct) = direct.as_ref().filter(|_| rest.len() as u64 >= LEAST) else {
                return self.read_at(at, rest);
            };
            let step = usize::try_from(STEP).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(step);
            let end = at.saturating_add(now.len() as u64);
            now.copy_from_slice(self.read_direct(direct, at..end, scratch)?);
            (at, rest) = (end, later);
        }
        Ok(())
    }

    /// The bytes of a range, read into `scratch` by the same ways.
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
        if let Kind::Memory { bytes } = &self.kind {
            return bytes.get(start..start.saturating_add(len)).ok_or_else(|| self.beyond(&range));
        }
        let mut held = std::mem::take(&mut scratch.held);
        let filled =
            room(&mut held, len as u64).and_then(|room| self.fill(range.start, room, scratch));
        scratch.held = held;
        filled?;
        Ok(scratch.held.as_deref().and_then(|held| held.get(..len)).unwrap_or_default())
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
        let room = room(&mut scratch.passing, end.saturating_sub(start))?;
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

/// Fills as much of `out` as the system holds in memory, and says how much that is.
#[cfg(target_os = "linux")]
fn read_held(file: &File, offset: u64, out: &mut [u8]) -> usize {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut filled = 0;
    while filled < out.len() {
        let rest = out.get_mut(filled..).unwrap_or_default();
        let mut rest = [std::io::IoSliceMut::new(rest)];
        match preadv2(file, &mut rest, offset + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    filled
}

#[cfg(not(target_os = "linux"))]
fn read_held(_: &File, _: u64, _: &mut [u8]) -> usize {
    0
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
                let (Kind::Mapped { file: Handle::Open(file), .. }
                | Kind::Read { file: Handle::Open(file) }) = &source.kind
                else {
                    panic!("an open file")
                };
                if let Some(direct) = open_direct(file) {
                    let range = start as u64..(start + len) as u64;
                    let found = source.read_direct(&direct, range, &mut scratch).unwrap();
                    assert_eq!(found, &bytes[start..start + len]);
                }
            }
            assert_eq!(source.stretch(9..70_000, &mut scratch).unwrap(), &bytes[9..70_000]);
            assert!(source.fill(3_000_000, &mut [0; 2], &mut scratch).is_err());
        }
    }
}
