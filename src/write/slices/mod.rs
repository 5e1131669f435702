//! Slices: a plan that many processes run, on one machine or on many.
//!
//! ```text
//!  plan ──describe──▶ description ──▶ slice 1 of N ─┐   pieces at their offsets
//!                                     slice 2 of N ─┼──▶ .NAME.slices-DIGEST/ ──finish──▶ NAME
//!                                     …             ┘   and a record of each slice
//! ```
//!
//! Every process derives the same plan from the same model, and compares it with the description. A
//! slice is a run of consecutive pieces. It writes them to their final offsets in unfinished files
//! that all processes share, and then a record with their digest. Writing a slice twice, or by two
//! processes at once, writes the same bytes to the same places.
//!
//! In an object store, a piece is a part of an upload, and the store joins the parts (`store`).

mod description;
mod finish;
mod finished;
mod parts;
mod records;
#[cfg(feature = "http")]
mod store;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use xxhash_rust::xxh3::Xxh3;

use super::pipeline::OpenFile;
use super::producer::{OutputPiece, ProducerBuffers, one, room};
use super::target::{self, open_in_folder, reserve};
use super::{Method, OutFile, PlacedTensor, WriteOptions, WritePlan};
use crate::bytes::{AlignedBytes, Text, own_path, put_by};
use crate::container::writer::Placement;
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::place;
use crate::progress;
#[cfg(feature = "http")]
use crate::remote::WritableBucket;
use crate::threads;
use description::{described, digest_of, identity};
use finished::{FinishedFile, FinishedState, status_of};
use records::{Checksum, SliceRecord, missing, records};

pub use description::check_sources;

/// Bytes of the largest piece, unless one row is longer. It is fixed, since every process must cut
/// the same pieces.
const PIECE: u64 = 4 << 20;

/// The folder with the unfinished files, in that of a plan.
const FILES: &str = "files";

/// The folder with the records of slices.
const RECORDS: &str = "records";

/// The file that says that all slices were checked, and what their files are.
const CHECKED: &str = "checked";

/// A plan that is cut into slices.
#[derive(Debug)]
pub struct Slices<'p> {
    plan: &'p WritePlan,
    path: PathBuf,
    description: Json,
    digest: String,
    items: Vec<SlicedItem>,
    /// The work of all items.
    work: u64,
    /// The number of pieces.
    pieces: u64,
    /// The bucket of a plan that writes to an object store.
    #[cfg(feature = "http")]
    bucket: Option<WritableBucket>,
}

/// What is written: the header of a file, a tensor, or a part of a file in an object store.
#[derive(Debug)]
struct SlicedItem {
    file: usize,
    what: ItemKind,
    bytes: u64,
    /// How long it takes, in bytes copied.
    work: u64,
    /// The work of all items before it.
    before: u64,
    /// The number of its first piece.
    first: u64,
    /// The number of its pieces.
    pieces: u64,
}

#[derive(Debug)]
enum ItemKind {
    Header,
    /// The tensor at this position in the file.
    Tensor(usize),
    Part(Range<u64>),
}

/// A piece of a slice.
struct SlicePiece<'p> {
    file: usize,
    origin: PieceSource<'p>,
    to: Vec<Range<u64>>,
}

enum PieceSource<'p> {
    Header(&'p [u8]),
    Tensor(&'p PlacedTensor, OutputPiece),
    Part(&'p OutFile),
}

/// What running one slice did.
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

/// How much of a plan is done.
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

impl WritePlan {
    /// Prepares the plan to be run in slices that write to `path`. `others` are files beside the models
    /// that the plan was made from, such as an importance matrix: they belong to its identity.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a plan that writes to a store of blobs, or to an object store other than Amazon S3
    /// and those like it; `Io` if a source cannot be read; same as [`check`](Self::check).
    pub fn slices(
        &self,
        path: &Path,
        others: &[PathBuf],
        options: &WriteOptions<'_>,
    ) -> Result<Slices<'_>> {
        self.check(options)?;
        if let Placement::Store(store) = self.placement {
            let fault = format!("a model in {} cannot be written in slices", store.name);
            return Err(Error::unsupported(fault).advise("write a GGUF file, and create from it"));
        }
        let mut items = Vec::new();
        let in_store = place::scheme(path).is_some();
        #[cfg(feature = "http")]
        let bucket = if in_store { Some(WritableBucket::of(path, options.network)?) } else { None };
        #[cfg(not(feature = "http"))]
        refuse_stores(path)?;
        if !in_store && options.part_bytes.is_some() {
            let error = Error::mismatch("the length of parts is for object stores only");
            return Err(error.advise("leave it out, or write to s3://").in_file(path));
        }
        let (mut before, mut first) = (0u64, 0u64);
        let mut add = |file, what, bytes: u64, work: u64, pieces: u64| {
            items.push(SlicedItem { file, what, bytes, work, before, first, pieces });
            (before, first) = (before.saturating_add(work), first.saturating_add(pieces));
        };
        let mut files = Vec::new();
        for (number, file) in self.files.iter().enumerate() {
            let header = file.header.len() as u64;
            if !in_store {
                add(number, ItemKind::Header, header, header, u64::from(header > 0));
            }
            let mut tensors = Vec::new();
            for (place, placed) in file.tensors.iter().enumerate() {
                if in_store {
                    tensors.push(described(placed, None));
                    continue;
                }
                let pieces = placed.pieces(PIECE)?.len();
                let (what, work) = (ItemKind::Tensor(place), work_of(placed));
                add(number, what, placed.bytes, work, pieces as u64);
                tensors.push(described(placed, Some(pieces)));
            }
            let part = match in_store {
                true => Some(parts::part_bytes(file.len, options.part_bytes)?),
                false => None,
            };
            for (range, work) in parts::parts(file, part)? {
                let len = range.end - range.start;
                add(number, ItemKind::Part(range), len, work, 1);
            }
            files.push(json!({
                "name": file.name,
                "bytes": file.len,
                "part_bytes": part,
                "header_bytes": header,
                "header_sha256": sha256_of(&file.header)?,
                "tensors": tensors,
            }));
        }
        let sources = self.sources.iter().chain(others).map(|path| identity(path));
        let mut sources = sources.collect::<Result<Vec<Json>>>()?;
        sources.extend(self.elsewhere.iter().map(|(path, bytes, version)| {
            json!({
                "path": Text::from_path(path).spelling(),
                "bytes": bytes,
                "version": version,
            })
        }));
        let description = json!({
            "format": self.format,
            "destination": Text::from_path(path).spelling(),
            "directory": self.placement == Placement::Directory,
            "bytes": self.bytes(),
            "pieces": first,
            "piece_bytes": PIECE,
            "sources": sources,
            "files": files,
        });
        let digest = digest_of(&description)?;
        Ok(Slices {
            plan: self,
            path: path.to_path_buf(),
            description,
            digest,
            items,
            work: before,
            pieces: first,
            #[cfg(feature = "http")]
            bucket,
        })
    }
}

#[cfg(not(feature = "http"))]
fn refuse_stores(path: &Path) -> Result<()> {
    let fault = "this build of weighbridge does not write to servers";
    let error = || Error::unsupported(fault).advise("enable the cargo feature `http`");
    place::scheme(path).map_or(Ok(()), |_| Err(error().in_file(path)))
}

/// How long a tensor takes, in bytes copied. Quantizing a value takes as long as copying about 16
/// bytes, converting it as long as copying about 4.
fn work_of(placed: &PlacedTensor) -> u64 {
    let output = &placed.tensor.output;
    let elements = output.producer.view().map_or(0, crate::model::Tensor::elements);
    let each = match output.method {
        Method::Copied | Method::Generated => 0,
        Method::Quantized | Method::Requantized => 16,
        Method::Repacked | Method::Exact | Method::Rounded | Method::Merged => 4,
    };
    placed.bytes.saturating_add(elements.saturating_mul(each))
}

/// The folder for the unfinished files of a plan, beside its destination.
fn folder(path: &Path, digest: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::mismatch("the path does not end in a file name").in_file(path));
    };
    let mut folder = std::ffi::OsString::from(".");
    folder.push(name);
    folder.push(format!(".slices-{}", digest.get(..16).unwrap_or(digest)));
    Ok(path.with_file_name(folder))
}

/// How much of a plan with this description is done, without opening its model. `record` is the path of
/// the record that [`Slices::finish`] leaves: a plan without one is not finished.
///
/// # Errors
///
/// `Io` if the records, or a finished file, cannot be read; `Malformed` if one of the records of slices, or
/// the description, is none.
pub fn slices_status(description: &Json, path: &Path, record: &Path) -> Result<SlicesStatus> {
    let digest = digest_of(description)?;
    let pieces = description["pieces"].as_u64();
    let pieces = pieces.ok_or_else(|| Error::malformed("the plan states no number of pieces"))?;
    #[cfg(feature = "http")]
    if crate::place::scheme(path).is_some() {
        return store::status(path, record, &digest, pieces);
    }
    let folder = folder(path, &digest)?;
    let records = records(&folder)?;
    let state = match folder.exists() {
        true => FinishedState::Unknown,
        false => finished::state(record, &digest, FinishedFile::is_same)?,
    };
    Ok(status_of(records, pieces, state))
}

impl<'p> Slices<'p> {
    /// What is written, from what, in which pieces, as JSON. It is the same whenever it is made from
    /// the same files.
    pub fn description(&self) -> &Json {
        &self.description
    }

    /// The SHA-256 of the description.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Prepares the destination before the first slice: begins the uploads to an object store. It may be
    /// called again.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the destination exists and [`WriteOptions::overwrite`] is not set; `Io` if the store
    /// cannot be reached or refuses access.
    pub fn begin(&self, options: &WriteOptions<'_>) -> Result<()> {
        self.check_place(options)?;
        #[cfg(feature = "http")]
        if let Some(bucket) = &self.bucket {
            return store::begin(self, bucket);
        }
        Ok(())
    }

    /// Checks that the plan is still the one that was described.
    ///
    /// # Errors
    ///
    /// `Mismatch` if a source has changed, or the outputs would be others.
    pub fn check(&self, description: &Json) -> Result<()> {
        if self.description == *description {
            return Ok(());
        }
        check_sources(description)?;
        description::check_versions(description, &self.description)?;
        let fields = ["format", "destination", "bytes", "pieces", "piece_bytes", "files"];
        let field =
            fields.iter().find(|name| self.description.get(*name) != description.get(*name));
        let field = field.copied().unwrap_or("sources");
        let fault = format!("the plan would be another one now: its {field} differ");
        Err(Error::mismatch(fault).advise("make a new plan").in_file(&self.path))
    }

    /// Writes one of `of` slices, counted from 1, unless it is already there. The slices take about
    /// the same time.
    ///
    /// # Errors
    ///
    /// `Mismatch` if there is no such slice, the destination exists and
    /// [`WriteOptions::overwrite`] is not set, or a source changes meanwhile; `Io` if a file cannot be
    /// read or written, or the disk is full; `Cancelled`. After an error the slice can be run again.
    pub fn run(&self, slice: u64, of: u64, options: &WriteOptions<'_>) -> Result<SliceReport> {
        if slice == 0 || slice > of {
            let fault = format!("slice {slice} of {of}: slices count from 1");
            return Err(Error::mismatch(fault));
        }
        self.check_place(options)?;
        // Of all pieces those whose work starts in this part of all work.
        let place = |number: u64| {
            let all = u128::from(self.work) * u128::from(number);
            u64::try_from(all.div_ceil(u128::from(of))).unwrap_or(u64::MAX)
        };
        let (numbers, pieces) = self.select(place(slice - 1)..place(slice), 0..self.pieces)?;
        let bytes = pieces.iter().flat_map(|piece| &piece.to).map(|to| to.end - to.start).sum();
        let mut report =
            SliceReport { slice, of, pieces: numbers.end - numbers.start, bytes, was_done: false };
        #[cfg(feature = "http")]
        if let Some(bucket) = &self.bucket {
            return store::run(self, bucket, (numbers, pieces), report, options);
        }
        let folder = folder(&self.path, &self.digest)?;
        let record = folder.join(RECORDS).join(SliceRecord::file_name(&numbers));
        if numbers.is_empty() || record.exists() {
            report.was_done = true;
            return Ok(report);
        }
        for folder in [folder.join(FILES), folder.join(RECORDS)] {
            let failed = |error| Error::io("cannot create the folder", error).in_file(&folder);
            std::fs::create_dir_all(&folder).map_err(failed)?;
        }
        let open = self.open(&folder, &pieces)?;
        let done = AtomicU64::new(0);
        let checksums = threads::in_order(
            options.threads,
            pieces.into_iter(),
            || SliceBench::new(options),
            |bench, piece| {
                let (checksum, written) = piece.write(&open, bench)?;
                let done = done.fetch_add(written, Ordering::Relaxed) + written;
                progress::report(options.watch, done, bytes)?;
                Ok(checksum)
            },
        )?;
        open.values().try_for_each(OpenFile::sync)?;
        // What was read may have changed meanwhile.
        check_sources(&self.description)?;
        let name = format!("{slice}/{of}");
        let checksum = Checksum::of_all(&checksums);
        let text = SliceRecord { name, pieces: numbers, checksum, tags: Vec::new() }.to_json();
        put(&record, text.as_bytes())?;
        Ok(report)
    }

    /// Refuses a destination that exists or belongs to the source.
    fn check_place(&self, options: &WriteOptions<'_>) -> Result<()> {
        #[cfg(feature = "http")]
        if let Some(bucket) = &self.bucket {
            return store::check_place(self, bucket, options);
        }
        let folder = folder(&self.path, &self.digest)?;
        // Files may be in their places, if a run was ended while it moved them.
        let begun = folder.join(CHECKED).exists();
        match self.plan.placement {
            Placement::Directory if begun && !folder.join(FILES).exists() => Ok(()),
            Placement::Directory => {
                self.plan.check_target(&self.path)?;
                target::check_directory(&self.path, options.overwrite, &self.plan.files)
            }
            Placement::Files | Placement::Store(_) => {
                self.plan.file_paths(&self.path).iter().try_for_each(|path| {
                    self.plan.check_target(path)?;
                    target::check_file(path, options.overwrite || begun)
                })
            }
        }
    }

    /// The pieces with these numbers whose work starts in this range, and their numbers, which are
    /// consecutive.
    fn select(
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
    fn part_number(&self, piece: &SlicePiece<'_>) -> u64 {
        let own = self.items.iter().filter(|item| item.file == piece.file);
        let start = piece.to.first().map_or(0, |to| to.start);
        let before =
            |item: &&SlicedItem| matches!(&item.what, ItemKind::Part(range) if range.start < start);
        own.filter(before).count() as u64 + 1
    }

    /// The path of an unfinished file. Those of a plan that writes no directory have numbers.
    fn unfinished(&self, folder: &Path, number: usize, file: &OutFile) -> PathBuf {
        let files = folder.join(FILES);
        match self.plan.placement {
            Placement::Directory => files.join(&file.name),
            Placement::Files | Placement::Store(_) => files.join(number.to_string()),
        }
    }

    /// Opens the unfinished files of some pieces, and reserves their space.
    fn open(&self, folder: &Path, pieces: &[SlicePiece<'_>]) -> Result<OpenFiles> {
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
    fn check_records(&self, records: &[SliceRecord]) -> Result<()> {
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
type OpenFiles = BTreeMap<usize, OpenFile>;

impl SlicePiece<'_> {
    fn len(&self) -> u64 {
        self.to.iter().map(|range| range.end - range.start).sum()
    }

    /// The file that the piece is in.
    fn file<'o>(&self, open: &'o OpenFiles) -> Result<&'o OpenFile> {
        open.get(&self.file).ok_or_else(|| Error::mismatch("a piece that belongs to no file"))
    }

    /// Produces the piece.
    fn make<'b>(&'b self, bench: &'b mut SliceBench) -> Result<&'b [u8]> {
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
    fn write(&self, open: &OpenFiles, bench: &mut SliceBench) -> Result<(Checksum, u64)> {
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
    fn read(&self, open: &OpenFiles, buffer: &mut Option<AlignedBytes>) -> Result<(Checksum, u64)> {
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

/// What a thread reuses from piece to piece.
#[derive(Default)]
struct SliceBench {
    producing: ProducerBuffers,
    buffer: Option<AlignedBytes>,
    /// A part of a file in an object store.
    part: Option<AlignedBytes>,
}

impl SliceBench {
    fn new(options: &WriteOptions<'_>) -> Self {
        Self { producing: ProducerBuffers::new(options), ..Self::default() }
    }
}

/// Produces a piece of a tensor.
fn produced<'b>(
    placed: &PlacedTensor,
    piece: &OutputPiece,
    buffer: &'b mut Option<AlignedBytes>,
    producing: &mut ProducerBuffers,
) -> Result<&'b [u8]> {
    let out = sized(buffer, piece.len())?;
    let tensor = &placed.tensor;
    let made = tensor.output.producer.make(piece, out, producing);
    made.map_err(|error| error.in_tensor(&tensor.name))?;
    Ok(out)
}

/// A buffer of `len` bytes.
fn sized(buffer: &mut Option<AlignedBytes>, len: u64) -> Result<&mut [u8]> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
        *buffer = Some(room(len as u64)?);
    }
    let found = buffer.as_deref_mut().and_then(|buffer| buffer.get_mut(..len));
    found.ok_or_else(|| Error::mismatch("a buffer that is too short"))
}

/// Writes a small file that appears complete or not at all.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("cannot write the file", error).in_file(path);
    put_by(&own_path(path), path, &[bytes], true).map_err(failed)
}
