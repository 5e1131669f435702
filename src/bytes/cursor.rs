//! Reads a header from its start, and holds only as much of the file as the parser has reached.

use std::ops::Range;

use super::{Source, try_vec};
use crate::error::{Error, Result};

/// The bytes fetched first, and at most at a time later. A small header takes a single read, and
/// the fetched bytes are still in the processor's cache when they are parsed.
const FIRST: u64 = 32 << 10;
const LATER: u64 = 256 << 10;

/// Memory reserved for a header that exceeds the first pieces: a vocabulary takes about 9 MB.
const AHEAD: u64 = 16 << 20;

/// A position in a file's header, and the bytes from the file's start to some way past it.
///
/// The header is read, never mapped: a file that shrinks meanwhile causes an error, and parsed data
/// cannot change. Offsets are positions in the file.
pub(crate) struct Cursor<'a> {
    source: &'a Source,
    held: Vec<u8>,
    pos: usize,
    limit: u64,
    swap: bool,
}

impl<'a> Cursor<'a> {
    /// Starts at byte 0. At most `limit` bytes are held.
    pub(crate) fn new(source: &'a Source, limit: u64) -> Self {
        let limit = limit.min(u64::from(u32::MAX));
        Self { source, held: Vec::new(), pos: 0, limit, swap: false }
    }

    /// Reads later numbers as big-endian.
    pub(crate) fn set_big_endian(&mut self) {
        self.swap = true;
    }

    pub(crate) fn is_big_endian(&self) -> bool {
        self.swap
    }

    pub(crate) fn position(&self) -> u64 {
        self.pos as u64
    }

    /// Bytes from here to the end of the file.
    pub(crate) fn remaining(&self) -> u64 {
        self.source.len().saturating_sub(self.pos as u64)
    }

    /// The header up to the cursor.
    pub(crate) fn into_header(mut self) -> Vec<u8> {
        // Not shrunk: the rest was never touched, or is a few kilobytes.
        self.held.truncate(self.pos);
        self.held
    }

    /// The bytes held so far, from the file's start.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Consumes `len` bytes and returns their range. `what` names them in messages.
    #[inline(always)]
    pub(crate) fn take(&mut self, len: u64, what: &str) -> Result<Range<u32>> {
        let start = self.pos;
        let end = (start as u64).saturating_add(len);
        if end > self.held.len() as u64 {
            self.hold(end, what)?;
        }
        // `hold` keeps `end` within the u32 limit of `new`.
        self.pos = usize::try_from(end).unwrap_or(usize::MAX);
        Ok(u32::try_from(start).unwrap_or(u32::MAX)..u32::try_from(end).unwrap_or(u32::MAX))
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let start = self.pos;
        let found = self.held.get(start..).and_then(|rest| rest.first_chunk::<N>());
        if let Some(found) = found {
            self.pos = start.saturating_add(N);
            return Ok(*found);
        }
        self.take(N as u64, what)?;
        let found = self.held.get(start..).and_then(|rest| rest.first_chunk::<N>());
        found.copied().ok_or_else(|| Error::malformed("the file ends here"))
    }

    #[inline(always)]
    pub(crate) fn u32(&mut self, what: &str) -> Result<u32> {
        let bytes = self.array(what)?;
        Ok(if self.swap { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    #[inline(always)]
    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        let bytes = self.array(what)?;
        Ok(if self.swap { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Reads the file up to `end`, if it is not held yet.
    #[cold]
    fn hold(&mut self, end: u64, what: &str) -> Result<()> {
        let at = self.pos as u64;
        if end > self.source.len() {
            let fault = format!(
                "{what} needs {} bytes, but only {} are left in the file",
                end - at,
                self.remaining()
            );
            return Err(Error::malformed(fault)
                .at(at)
                .advise("the file is cut short or damaged: fetch or copy it again"));
        }
        if end > self.limit {
            return Err(Error::limit("header bytes", end, self.limit, "header_bytes").at(at));
        }
        let have = self.held.len() as u64;
        let step = have.clamp(FIRST, LATER);
        let target = end.max(have.saturating_add(step)).min(self.source.len()).min(self.limit);
        let target = usize::try_from(target)
            .map_err(|_| Error::unsupported("the header exceeds this machine's address space"))?;
        let start = self.held.len();
        if self.held.capacity() < target {
            // Memory for a long header is reserved at once, so that it is not copied as it grows;
            // pages that are not reached are never touched. Beyond that it doubles.
            let ahead = if have >= LATER { AHEAD } else { 0 };
            let ahead = ahead.min(self.source.len()).min(self.limit);
            let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
            let doubled = self.held.capacity().saturating_mul(2);
            let room = target.max(doubled).max(ahead).saturating_sub(start);
            if self.held.try_reserve_exact(room).is_err() {
                drop(try_vec::<u8>(room)?);
            }
        }
        self.held.resize(target, 0);
        match self.held.get_mut(start..) {
            Some(new) => self.source.read_at(start as u64, new),
            None => Ok(()),
        }
    }

    /// Skips `count` strings, each a length of `width` bytes (4 or 8) followed by that many bytes,
    /// and checks each length against `longest`. A vocabulary has hundreds of thousands of strings,
    /// so this loop takes most of the time of opening a GGUF file.
    pub(crate) fn skip_strings(&mut self, count: u64, wide: bool, longest: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let walked = match (wide, self.swap) {
                (true, false) => walk::<8>(&self.held, self.pos, left, longest, u64::from_le_bytes),
                (true, true) => walk::<8>(&self.held, self.pos, left, longest, u64::from_be_bytes),
                (false, false) => walk::<4>(&self.held, self.pos, left, longest, |length| {
                    u64::from(u32::from_le_bytes(length))
                }),
                (false, true) => walk::<4>(&self.held, self.pos, left, longest, |length| {
                    u64::from(u32::from_be_bytes(length))
                }),
            };
            (self.pos, left) = walked;
            if left > 0 {
                // The walk stopped at a string that is not completely held, or is too long.
                self.skip_string(wide, longest)?;
                left -= 1;
            }
        }
        Ok(())
    }

    fn skip_string(&mut self, wide: bool, longest: u64) -> Result<()> {
        let at = self.position();
        let len = self.length(wide, "a string's length")?;
        self.check_string(len, longest, at)?;
        self.take(len, "a string").map(drop)
    }

    /// Reads a count or length: 32 bits wide in GGUF version 1, 64 bits since.
    #[inline(always)]
    pub(crate) fn length(&mut self, wide: bool, what: &str) -> Result<u64> {
        if wide { self.u64(what) } else { self.u32(what).map(u64::from) }
    }

    #[inline(always)]
    pub(crate) fn check_string(&self, len: u64, longest: u64, at: u64) -> Result<()> {
        if len > self.remaining() {
            let fault = format!("a string of {len} bytes, but only {} are left", self.remaining());
            return Err(Error::malformed(fault).at(at));
        }
        if len > longest {
            return Err(Error::limit("bytes in one string", len, longest, "string_bytes").at(at));
        }
        Ok(())
    }
}

/// Skips strings while they lie completely in `held` and are no longer than `longest`. Returns the
/// position reached and the number of strings left.
#[inline(always)]
fn walk<const N: usize>(
    held: &[u8],
    mut pos: usize,
    mut left: u64,
    longest: u64,
    length: impl Fn([u8; N]) -> u64,
) -> (usize, u64) {
    while left > 0 {
        let Some(rest) = held.get(pos..) else { break };
        let Some((bytes, rest)) = rest.split_first_chunk::<N>() else { break };
        let len = length(*bytes);
        if len > rest.len() as u64 || len > longest {
            break;
        }
        #[expect(clippy::cast_possible_truncation, reason = "len <= rest.len(), a usize")]
        let step = N + len as usize;
        pos += step;
        left -= 1;
    }
    (pos, left)
}
