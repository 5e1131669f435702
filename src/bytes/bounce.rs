//! Long reads into memory that was not filled with zeros first. One of the few files that may contain
//! unsafe code.
#![allow(unsafe_code, reason = "only the system knows how much of a vector's room it has written")]

use std::fs::File;
use std::ops::Range;

use super::positioned::read_exact_at;

/// The bytes that are read at once. They stay in the processor's cache until they are copied.
const PIECE: usize = 64 << 10;

/// Addresses are compared within a page.
const PAGE: usize = 4096;

/// A buffer through which bytes of a file get behind those of a vector, if they cannot be read there.
///
/// On AMD's Zen 3 the system reads at a sixth of its speed if the destination lies 1 to 31 bytes further in
/// its page than the source (measured; docs/performance-history.md). A long vector starts 16 bytes into a
/// page, where the C library puts it, and a file at the start of one.
#[derive(Debug, Default)]
pub(crate) struct BounceBuffer(Vec<u8>);

impl BounceBuffer {
    /// Appends a range of the file to `out`.
    pub(super) fn append(
        &mut self,
        file: &File,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let mut at = range.start;
        while at < range.end {
            let to = out.as_ptr().addr().wrapping_add(out.len());
            let left = usize::try_from(range.end - at).unwrap_or(PIECE);
            #[cfg(target_os = "linux")]
            if left < PAGE || !(1..32).contains(&distance(at, to)) {
                return append_exact_at(file, at, left, out);
            }
            let piece = self.place(at, to, left.min(PIECE));
            read_exact_at(file, at, piece)?;
            out.extend_from_slice(piece);
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Room for bytes that are copied from `from` in a file and then to the address `to`.
    fn place(&mut self, from: u64, to: usize, len: usize) -> &mut [u8] {
        if self.0.is_empty() {
            self.0 = vec![0; PIECE + PAGE];
        }
        // Half a page from both, or as the file lies in its page, if that is far from `to`.
        let shift = if distance(from, to) < PAGE / 4 { PAGE / 2 } else { 0 };
        let wanted = usize::try_from(from % PAGE as u64).unwrap_or(0) + shift;
        let start = wanted.wrapping_sub(self.0.as_ptr().addr()) % PAGE;
        self.0.get_mut(start..start + len).unwrap_or_default()
    }
}

/// The distance between the position of an address in its page and that of a byte of a file.
fn distance(from: u64, to: usize) -> usize {
    to.wrapping_sub(usize::try_from(from % PAGE as u64).unwrap_or(0)) % PAGE
}

/// Appends `len` bytes of the file to `out`, which has room for them.
#[cfg(target_os = "linux")]
fn append_exact_at(file: &File, offset: u64, len: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    use rustix::io::{Errno, pread};
    let mut done = 0;
    while done < len {
        let room = out.spare_capacity_mut();
        let room = room.get_mut(..len - done).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let read = match pread(file, room, offset.saturating_add(done as u64)) {
            Ok((read, _)) => read.len(),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: `pread` returned the part of the room that it has written, which lies directly
        // behind the items of `out`.
        unsafe { out.set_len(out.len() + read) };
        done += read;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_goes_a_few_bytes_further() {
        let mut buffer = BounceBuffer::default();
        for from in [0u64, 1, 16, 100, 2047, 4095, 4096, 1 << 40] {
            for to in (0..3 * PAGE).step_by(7) {
                let room = buffer.place(from, to, PIECE);
                assert_eq!(room.len(), PIECE);
                let room = room.as_ptr().addr();
                for distance in [distance(from, room), distance(room as u64, to)] {
                    assert!(!(1..32).contains(&distance), "{from} {to}: {distance}");
                }
            }
        }
    }
}
