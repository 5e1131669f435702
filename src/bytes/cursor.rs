//! Reads a header from its start, and holds only as much of the file as the parser has reached.

use std::ops::Range;

use super::{BounceBuffer, Source, try_vec};
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
    buffer: BounceBuffer,
    pos: usize,
    limit: u64,
    swap: bool,
}

impl<'a> Cursor<'a> {
    /// Starts at byte 0. At most `limit` bytes are held.
    pub(crate) fn new(source: &'a Source, limit: u64) -> Self {
        let limit = limit.min(u64::from(u32::MAX));
        Self {
            source,
            held: Vec::new(),
            buffer: BounceBuffer::default(),
            pos: 0,
            limit,
            swap: false,
        }
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

    /// The bytes held from here on.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &[u8] {
        self.held.get(self.pos..).unwrap_or_default()
    }

    /// Reads the next `len` bytes, or as many as there are, unless they are held.
    #[inline(always)]
    pub(crate) fn read_ahead(&mut self, len: usize) -> Result<()> {
        let end = (self.pos as u64).saturating_add(len as u64);
        let end = end.min(self.source.len()).min(self.limit);
        if (self.held.len() as u64) < end { self.hold(end, "the header") } else { Ok(()) }
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
        if start == 0 {
            self.held = self.source.read(0..target as u64)?;
            return Ok(());
        }
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
        self.source.append(have..target as u64, &mut self.held, &mut self.buffer)
    }

    /// Skips `count` strings, each a length of `width` bytes (4 or 8) followed by that many bytes,
    /// and checks each length against `longest`. A vocabulary has hundreds of thousands of strings,
    /// so this loop takes most of the time of opening a GGUF file.
    pub(crate) fn skip_strings(&mut self, count: u64, wide: bool, longest: u64) -> Result<()> {
        let mut left = count;
        while left > 0 {
            let (held, at) = (self.held.as_slice(), self.pos);
            let walked = match (wide, self.swap) {
                (true, false) => {
                    Strings::<8, _> { held, longest, length: u64::from_le_bytes }.walk(at, left)
                }
                (true, true) => {
                    Strings::<8, _> { held, longest, length: u64::from_be_bytes }.walk(at, left)
                }
                (false, false) => {
                    let length = |bytes| u32::from_le_bytes(bytes).into();
                    Strings::<4, _> { held, longest, length }.walk(at, left)
                }
                (false, true) => {
                    let length = |bytes| u32::from_be_bytes(bytes).into();
                    Strings::<4, _> { held, longest, length }.walk(at, left)
                }
            };
            self.pos = walked.pos;
            left -= walked.count;
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

/// The bytes from which a list is divided among several walks: finding where they start has a cost.
const DIVIDED: usize = 4 << 10;

/// Strings that follow each other, each a length of `N` bytes and that many bytes.
#[derive(Clone, Copy)]
struct Strings<'a, const N: usize, L> {
    held: &'a [u8],
    /// The longest string that is skipped.
    longest: u64,
    /// Decodes a length.
    length: L,
}

/// A place within strings, and the number of strings before it.
#[derive(Clone, Copy)]
struct Walked {
    pos: usize,
    count: u64,
}

impl<const N: usize, L: Fn([u8; N]) -> u64 + Copy> Strings<'_, N, L> {
    /// The end of the string at `pos`, if it is held completely and not too long.
    #[inline(always)]
    fn after(self, pos: usize) -> Option<usize> {
        let (bytes, rest) = self.held.get(pos..)?.split_first_chunk::<N>()?;
        let len = (self.length)(*bytes);
        if len > rest.len() as u64 || len > self.longest {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "len <= rest.len(), a usize")]
        let step = N + len as usize;
        Some(pos + step)
    }

    /// Skips at most `count` strings from `pos` on.
    #[inline(always)]
    fn walk(self, pos: usize, count: u64) -> Walked {
        let mut walked = Walked { pos, count: 0 };
        if self.held.len().saturating_sub(pos) >= DIVIDED {
            walked = self.walk_side_by_side(pos, count);
        }
        let left = count - walked.count;
        let last = self.walk_to(walked.pos, self.held.len(), left);
        Walked { pos: last.pos, count: walked.count + last.count }
    }

    /// Skips at most `count` strings that start before `end`.
    #[inline(always)]
    fn walk_to(self, pos: usize, end: usize, count: u64) -> Walked {
        let mut walked = Walked { pos, count: 0 };
        while walked.count < count && walked.pos < end {
            let Some(pos) = self.after(walked.pos) else { break };
            walked = Walked { pos, count: walked.count + 1 };
        }
        walked
    }

    /// Skips strings from `pos` on, `count` at most, perhaps fewer than are there.
    ///
    /// Each length tells where the next is: a chain of loads, in which the processor mostly waits.
    /// So walks from several places that look like starts of strings take turns. If a walk arrives where
    /// the next began, that one took the right way.
    #[inline(always)]
    fn walk_side_by_side(self, pos: usize, count: u64) -> Walked {
        let end = self.held.len();
        let share = end.saturating_sub(pos) / 4;
        let starts = [
            pos,
            self.probable_start(pos + share),
            self.probable_start(pos + 2 * share),
            self.probable_start(pos + 3 * share),
        ];
        let ([mut a, mut b, mut c, mut d], [_, b0, c0, d0]) = (starts, starts);
        let mut steps = 0;
        while a < b0 && b < c0 && c < d0 && d < end {
            let next = (self.after(a), self.after(b), self.after(c), self.after(d));
            let (Some(next_a), Some(next_b), Some(next_c), Some(next_d)) = next else { break };
            (a, b, c, d) = (next_a, next_b, next_c, next_d);
            steps += 1;
        }
        let mut joined = Walked { pos, count: 0 };
        for (start, at, end) in [(pos, a, b0), (b0, b, c0), (c0, c, d0), (d0, d, end)] {
            let rest = self.walk_to(at, end, u64::MAX);
            let all = joined.count + steps + rest.count;
            if joined.pos != start || all > count {
                break;
            }
            joined = Walked { pos: rest.pos, count: all };
        }
        joined
    }

    /// The first place from `from` on that looks like the start of short strings, or the end.
    fn probable_start(self, from: usize) -> usize {
        let short = Self { longest: 255, ..self };
        let looks_right = |&pos: &usize| short.walk_to(pos, self.held.len(), 3).count == 3;
        let mut near = from..self.held.len().min(from.saturating_add(512));
        near.find(looks_right).unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn walks_side_by_side_are_one_walk(
            lengths in proptest::collection::vec(prop_oneof![0usize..20, 0usize..20, 0usize..20, 0usize..700], 300..3000),
            bytes in proptest::collection::vec(any::<u8>(), 1..40),
            longest in prop_oneof![Just(10_000u64), 0u64..800],
            (count, cut, offset) in (0u64..4000, 0usize..50, 0usize..9),
        ) {
            let mut held = bytes.repeat(offset.div_ceil(bytes.len()) + 1);
            held.truncate(offset);
            for (number, &length) in lengths.iter().enumerate() {
                held.extend_from_slice(&(length as u64).to_le_bytes());
                held.extend(bytes.iter().cycle().skip(number).take(length));
            }
            held.truncate(held.len() - cut);
            let strings = Strings::<8, _> { held: &held, longest, length: u64::from_le_bytes };
            let found = strings.walk(offset, count);
            let expected = strings.walk_to(offset, held.len(), count);
            prop_assert_eq!((found.pos, found.count), (expected.pos, expected.count));
        }
    }
}
