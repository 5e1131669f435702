//! Parts: the ranges of files that an object store gets, and what they are produced from.

use std::ops::Range;

use super::produce::{SliceBench, produced, sized, work_of};
use crate::error::{Error, Result};
use crate::write::out::{OutFile, PlacedTensor};

/// Bytes of a part, unless the caller sets them or the file would have too many.
const PART: u64 = 32 << 20;

/// The least bytes of a part but the last one of a file, and the most bytes of a part; the most parts of
/// a file ("Amazon S3 multipart upload limits").
const PART_BYTES: Range<u64> = (5 << 20)..(5 << 30) + 1;
const PARTS: u64 = 10_000;

/// Bytes of the largest pieces that a part is produced from, unless one row is longer. A piece that lies
/// in two parts is produced for each of them.
const PIECE: u64 = 1 << 20;

/// Bytes of each part of a file but the last.
///
/// # Errors
///
/// `Mismatch` for a number that no store accepts; `Unsupported` for a file that is too long.
pub(super) fn part_bytes(len: u64, wanted: Option<u64>) -> Result<u64> {
    let Range { start, end } = PART_BYTES;
    if let Some(wanted) = wanted.filter(|wanted| !PART_BYTES.contains(wanted)) {
        let fault = format!("parts of {wanted} bytes, but stores accept {start} to {}", end - 1);
        return Err(Error::mismatch(fault));
    }
    let least = len.div_ceil(PARTS).next_multiple_of(1 << 20);
    let bytes = wanted.unwrap_or(PART).max(least);
    match PART_BYTES.contains(&bytes) {
        true => Ok(bytes),
        false => Err(Error::unsupported(format!("a file of {len} bytes in {PARTS} parts"))),
    }
}

/// The byte ranges of a file's parts.
fn ranges(len: u64, part: u64) -> impl Iterator<Item = Range<u64>> {
    // An empty file has one empty part.
    let count = len.div_ceil(part.max(1)).max(1);
    (0..count).map(move |number| number * part..((number + 1) * part).min(len))
}

/// The parts of a file, which have this length: the range of each, and its work.
pub(super) fn parts(file: &OutFile, part: u64) -> Result<Vec<(Range<u64>, u64)>> {
    let mut found: Vec<(Range<u64>, u64)> =
        ranges(file.len, part).map(|range| (range, 1)).collect();
    let mut add = |span: Range<u64>, work: u64| {
        let len = span.end.saturating_sub(span.start).max(1);
        let first = usize::try_from(span.start / part).unwrap_or(usize::MAX);
        let later = found.iter_mut().skip(first);
        for (range, sum) in later.take_while(|(range, _)| range.start < span.end) {
            let own = overlap(&span, range);
            let share = u128::from(work) * u128::from(own.end - own.start) / u128::from(len);
            *sum = sum.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
        }
    };
    add(0..file.header.len() as u64, file.header.len() as u64);
    for placed in &file.tensors {
        let work = work_of(placed);
        if let Some(range) = whole(placed) {
            add(range, work);
            continue;
        }
        // A part with any of the ranges of a piece needs all of the piece's work.
        for piece in placed.pieces(PIECE)? {
            let share = u128::from(work) * u128::from(piece.len());
            let share = share.checked_div(u128::from(placed.bytes)).unwrap_or(0);
            let share = u64::try_from(share).unwrap_or(u64::MAX);
            piece.to.iter().for_each(|to| add(to.clone(), share));
        }
    }
    Ok(found)
}

/// The range of a tensor that has one.
fn whole(placed: &PlacedTensor) -> Option<Range<u64>> {
    match placed.offsets.as_slice() {
        [start] => Some(*start..start.saturating_add(placed.bytes)),
        _ => None,
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// Produces a range of a file.
pub(super) fn range_of_file<'b>(
    file: &OutFile,
    range: &Range<u64>,
    bench: &'b mut SliceBench,
) -> Result<&'b [u8]> {
    let SliceBench { producing, buffer, part } = bench;
    let out = sized(part, range.end - range.start)?;
    out.fill(0);
    copy(&file.header, 0, range, out);
    let touches = |other: &Range<u64>| !overlap(other, range).is_empty();
    for placed in &file.tensors {
        if whole(placed).is_some_and(|whole| !touches(&whole)) {
            continue;
        }
        for piece in placed.pieces(PIECE)?.iter().filter(|piece| piece.to.iter().any(touches)) {
            let mut rest: &[u8] = produced(placed, piece, buffer, producing)?;
            for to in &piece.to {
                let len = usize::try_from(to.end - to.start).unwrap_or(usize::MAX);
                let torn = || Error::mismatch("a piece that belongs to no file");
                let (now, later) = rest.split_at_checked(len).ok_or_else(torn)?;
                copy(now, to.start, range, out);
                rest = later;
            }
        }
    }
    Ok(out)
}

/// Copies those of the bytes at an offset that lie in `range` to their place in `out`.
fn copy(bytes: &[u8], at: u64, range: &Range<u64>, out: &mut [u8]) {
    let common = overlap(&(at..at.saturating_add(bytes.len() as u64)), range);
    let within = |start: u64| {
        let place = |of: u64| usize::try_from(of.saturating_sub(start)).unwrap_or(usize::MAX);
        place(common.start)..place(common.end)
    };
    let (from, to) = (bytes.get(within(at)), out.get_mut(within(range.start)));
    if let (Some(from), Some(to), false) = (from, to, common.is_empty()) {
        to.copy_from_slice(from);
    }
}
