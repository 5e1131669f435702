//! A plan that is cut into pieces, and the pieces of a slice.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::json::Json;
use xxhash_rust::xxh3::Xxh3;

use super::layout::{FILES, PIECE};
use super::parts;
use super::produce::{SliceBench, produced, sized};
use super::records::{Checksum, SliceRecord, missing};
use crate::bytes::AlignedBytes;
use crate::container::writer::Placement;
use crate::error::{Error, Result};
#[cfg(feature = "http")]
use crate::remote::WritableBucket;
use crate::write::out::{OutFile, PlacedTensor};
use crate::write::pipeline::OpenFile;
use crate::write::plan::WritePlan;
use crate::write::producer::{OutputPiece, one};
use crate::write::target::{open_in_folder, reserve};

/// A plan that is cut into slices.
#[derive(Debug)]
pub struct Slices<'p> {
    pub(super) plan: &'p WritePlan,
    pub(super) path: PathBuf,
    pub(super) description: Json,
    pub(super) digest: String,
    pub(super) items: Vec<SlicedItem>,
    /// The work of all items.
    pub(super) work: u64,
    /// The number of pieces.
    pub(super) pieces: u64,
    /// The bucket of a plan that writes to an object store.
    #[cfg(feature = "http")]
    pub(super) bucket: Option<WritableBucket>,
}

/// An item of output: the header of a file, a tensor, or a part of a file in an object store.
#[derive(Debug)]
pub(super) struct SlicedItem {
    pub(super) file: usize,
    pub(super) what: ItemKind,
    pub(super) bytes: u64,
    /// The estimated work, in bytes copied.
    pub(super) work: u64,
    /// The work of all items before it.
    pub(super) before: u64,
    /// The number of its first piece.
    pub(super) first: u64,
    /// The number of its pieces.
    pub(super) pieces: u64,
}

#[derive(Debug)]
pub(super) enum ItemKind {
    Header,
    /// The tensor at this position in the file.
    Tensor(usize),
    Part(Range<u64>),
}

/// A piece of a slice.
pub(super) struct SlicePiece<'p> {
    pub(super) file: usize,
    pub(super) origin: PieceSource<'p>,
    pub(super) to: Vec<Range<u64>>,
}

pub(super) enum PieceSource<'p> {
    Header(&'p [u8]),
    Tensor(&'p PlacedTensor, OutputPiece),
    Part(&'p OutFile),
}

/// The report of a slice that was run.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SliceReport {
    /// The number of the slice, from 1.
    pub slice: u64,
    /// The number of slices.
    pub of: u64,
    /// The number of its pieces.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the slice was already there, so that nothing was written.
    pub was_done: bool,
}

/// The progress of a plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SlicesStatus {
    /// The number of pieces of the plan.
    pub pieces: u64,
    /// The number of pieces that are done.
    pub done: u64,
    /// The pieces that are missing, as ranges of their numbers.
    pub missing: Vec<Range<u64>>,
    /// The slices that are done, as `NUMBER/OF`.
    pub slices: Vec<String>,
    /// Whether the model is complete and in its place: [`Slices::finish`] has left a record of that, and
    /// the files are still those of the record.
    pub finished: bool,
    /// The first file that has changed, or is gone, since the plan was finished.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub changed: Option<String>,
}

impl<'p> Slices<'p> {
    /// The description of the work as JSON: outputs, sources and pieces. It is the same whenever it
    /// is made from the same files.
    pub fn description(&self) -> &Json {
        &self.description
    }

    /// The SHA-256 of the description.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The pieces with these numbers whose work starts in this range, and their numbers, which are
    /// consecutive.
    pub(super) fn select(
        &self,
        work: Range<u64>,
        numbers: Range<u64>,
    ) -> Result<(Range<u64>, Vec<SlicePiece<'p>>)> {
        let mut found = Vec::new();
        let mut selected: Option<Range<u64>> = None;
        for item in &self.items {
            // Most items lie before or behind the range as a whole.
            let (end, last) = (item.before.saturating_add(item.work), item.first + item.pieces);
            let outside = end <= work.start || item.before >= work.end;
            if outside || last <= numbers.start || item.first >= numbers.end {
                continue;
            }
            let Some(file) = self.plan.files.get(item.file) else { continue };
            let pieces = match &item.what {
                ItemKind::Header => vec![(one(0..item.bytes), PieceSource::Header(&file.header))],
                ItemKind::Tensor(place) => {
                    let Some(placed) = file.tensors.get(*place) else { continue };
                    let pieces = placed.pieces(PIECE)?.into_iter();
                    let with =
                        |piece: OutputPiece| (piece.to.clone(), PieceSource::Tensor(placed, piece));
                    pieces.map(with).collect()
                }
                ItemKind::Part(range) => vec![(one(range.clone()), PieceSource::Part(file))],
            };
            let mut done = 0u64;
            for (number, (to, origin)) in (item.first..).zip(pieces) {
                let share = u128::from(item.work) * u128::from(done);
                let share = share.checked_div(u128::from(item.bytes)).unwrap_or(0);
                let start = item.before.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
                done += to.iter().map(|range| range.end - range.start).sum::<u64>();
                if work.contains(&start) && numbers.contains(&number) {
                    let first = selected.as_ref().map_or(number, |range| range.start);
                    selected = Some(first..number + 1);
                    found.push(SlicePiece { file: item.file, origin, to });
                }
            }
        }
        Ok((selected.unwrap_or(0..0), found))
    }

    /// The number of a part in its file, from 1.
    #[cfg(feature = "http")]
    pub(super) fn part_number(&self, piece: &SlicePiece<'_>) -> u64 {
        let own = self.items.iter().filter(|item| item.file == piece.file);
        let start = piece.to.first().map_or(0, |to| to.start);
        let before =
            |item: &&SlicedItem| matches!(&item.what, ItemKind::Part(range) if range.start < start);
        own.filter(before).count() as u64 + 1
    }

    /// The path of an unfinished file. Those of a plan that writes no directory have numbers.
    pub(super) fn unfinished(&self, folder: &Path, number: usize, file: &OutFile) -> PathBuf {
        let files = folder.join(FILES);
        match self.plan.placement {
            Placement::Directory => files.join(&file.name),
            Placement::Files | Placement::Store(_) => files.join(number.to_string()),
        }
    }

    /// Opens the unfinished files of some pieces, and reserves their space.
    pub(super) fn open(&self, folder: &Path, pieces: &[SlicePiece<'_>]) -> Result<OpenFiles> {
        let mut open = OpenFiles::new();
        for piece in pieces {
            let Some(file) = self.plan.files.get(piece.file) else { continue };
            if open.contains_key(&piece.file) {
                continue;
            }
            let path = self.unfinished(folder, piece.file, file);
            let failed = |error| Error::io("cannot create the file", error).in_file(&path);
            let handle = open_in_folder(&path).map_err(failed)?;
            reserve(&handle, file.len).map_err(|error| error.in_file(&path))?;
            open.insert(piece.file, OpenFile { file: handle, path });
        }
        Ok(open)
    }

    /// Refuses records that lack pieces.
    pub(super) fn check_records(&self, records: &[SliceRecord]) -> Result<()> {
        if let [first, ..] = missing(records, self.pieces).as_slice() {
            let done = records.iter().map(|record| record.name.as_str()).collect::<Vec<_>>();
            let done = if done.is_empty() { "none".to_owned() } else { done.join(", ") };
            let fault = format!(
                "pieces {}..{} of {} are missing; slices that are done: {done}",
                first.start, first.end, self.pieces
            );
            let error = Error::mismatch(fault).advise("run the missing slices");
            return Err(error.in_file(&self.path));
        }
        Ok(())
    }
}

/// The open files of a slice, by their numbers.
pub(super) type OpenFiles = BTreeMap<usize, OpenFile>;

impl SlicePiece<'_> {
    pub(super) fn len(&self) -> u64 {
        self.to.iter().map(|range| range.end - range.start).sum()
    }

    /// The file that the piece is in.
    pub(super) fn file<'o>(&self, open: &'o OpenFiles) -> Result<&'o OpenFile> {
        open.get(&self.file).ok_or_else(|| Error::mismatch("a piece that belongs to no file"))
    }

    /// Produces the piece.
    pub(super) fn make<'b>(&'b self, bench: &'b mut SliceBench) -> Result<&'b [u8]> {
        match &self.origin {
            PieceSource::Header(header) => Ok(header),
            PieceSource::Tensor(placed, piece) => {
                produced(placed, piece, &mut bench.buffer, &mut bench.producing)
            }
            PieceSource::Part(file) => match self.to.as_slice() {
                [range] => parts::range_of_file(file, range, bench),
                _ => Err(Error::mismatch("a part of several ranges")),
            },
        }
    }

    /// Produces the piece and writes it to its place. Gives its checksum and its length.
    pub(super) fn write(
        &self,
        open: &OpenFiles,
        bench: &mut SliceBench,
    ) -> Result<(Checksum, u64)> {
        let file = self.file(open)?;
        let bytes = self.make(bench)?;
        let mut rest = bytes;
        for range in &self.to {
            let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let torn = || Error::mismatch("a piece that belongs to no file");
            let (now, later) = rest.split_at_checked(len).ok_or_else(torn)?;
            file.write(now, range.start)?;
            rest = later;
        }
        Ok((Checksum::of(bytes), bytes.len() as u64))
    }

    /// Reads the piece back. Gives its checksum and its length.
    pub(super) fn read(
        &self,
        open: &OpenFiles,
        buffer: &mut Option<AlignedBytes>,
    ) -> Result<(Checksum, u64)> {
        let file = self.file(open)?;
        let mut state = Xxh3::new();
        for range in &self.to {
            let out = sized(buffer, range.end - range.start)?;
            file.read(out, range.start)?;
            state.update(out);
        }
        Ok((Checksum(state.digest128()), self.len()))
    }
}
