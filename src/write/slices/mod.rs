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

mod cut;
mod description;
mod finish;
mod finished;
mod layout;
mod parts;
mod produce;
mod records;
#[cfg(feature = "http")]
mod store;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::pipeline::OpenFile;
use super::{OutFile, WriteOptions, WritePlan, target};
use crate::bytes::Text;
use crate::container::writer::Placement;
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::json::{Json, json};
use crate::place;
#[cfg(feature = "http")]
use crate::remote::WritableBucket;
use cut::{ItemKind, SlicedItem};
use description::{described, digest_of, identity};
use finished::{FinishedFile, FinishedState, status_of};
use layout::{CHECKED, FILES, PIECE, RECORDS, folder, put};
use produce::{SliceBench, work_of};
use records::{Checksum, SliceRecord, records};

pub use cut::{SliceReport, Slices, SlicesStatus};
pub use description::check_sources;

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
        let in_store = place::scheme(path).is_some();
        #[cfg(feature = "http")]
        let bucket = if in_store { Some(WritableBucket::of(path, options.network)?) } else { None };
        #[cfg(not(feature = "http"))]
        refuse_stores(path)?;
        if !in_store && options.part_bytes.is_some() {
            let error = Error::mismatch("the length of parts is for object stores only");
            return Err(error.advise("leave it out, or write to s3://").in_file(path));
        }
        let mut items = ItemList::default();
        let files = self.files.iter().enumerate().map(|(number, file)| match in_store {
            true => items.add_parts(number, file, options.part_bytes),
            false => items.add_tensors(number, file),
        });
        let files = files.collect::<Result<Vec<Json>>>()?;
        let description = json!({
            "format": self.format,
            "destination": Text::from_path(path).spelling(),
            "directory": self.placement == Placement::Directory,
            "bytes": self.bytes(),
            "pieces": items.pieces,
            "piece_bytes": PIECE,
            "sources": self.described_sources(others)?,
            "files": files,
        });
        let digest = digest_of(&description)?;
        Ok(Slices {
            plan: self,
            path: path.to_path_buf(),
            description,
            digest,
            items: items.items,
            work: items.work,
            pieces: items.pieces,
            #[cfg(feature = "http")]
            bucket,
        })
    }

    /// The files that the plan reads, with what identifies their content.
    fn described_sources(&self, others: &[PathBuf]) -> Result<Vec<Json>> {
        let sources = self.sources.iter().chain(others).map(|path| identity(path));
        let mut sources = sources.collect::<Result<Vec<Json>>>()?;
        sources.extend(self.elsewhere.iter().map(|(path, bytes, version)| {
            json!({
                "path": Text::from_path(path).spelling(),
                "bytes": bytes,
                "version": version,
            })
        }));
        Ok(sources)
    }
}

/// The items of a plan, as they are counted.
#[derive(Default)]
struct ItemList {
    items: Vec<SlicedItem>,
    /// The work of all items.
    work: u64,
    /// The number of their pieces.
    pieces: u64,
}

impl ItemList {
    fn add(&mut self, file: usize, what: ItemKind, bytes: u64, work: u64, pieces: u64) {
        let (before, first) = (self.work, self.pieces);
        self.items.push(SlicedItem { file, what, bytes, work, before, first, pieces });
        self.work = before.saturating_add(work);
        self.pieces = first.saturating_add(pieces);
    }

    /// Adds the header and the tensors of a file, and describes it.
    fn add_tensors(&mut self, number: usize, file: &OutFile) -> Result<Json> {
        let header = file.header.len() as u64;
        self.add(number, ItemKind::Header, header, header, u64::from(header > 0));
        let mut tensors = Vec::new();
        for (place, placed) in file.tensors.iter().enumerate() {
            let pieces = placed.pieces(PIECE)?.len();
            let (what, work) = (ItemKind::Tensor(place), work_of(placed));
            self.add(number, what, placed.bytes, work, pieces as u64);
            tensors.push(described(placed, Some(pieces)));
        }
        described_file(file, None, tensors)
    }

    /// Adds the parts of a file in an object store, and describes it.
    fn add_parts(&mut self, number: usize, file: &OutFile, part: Option<u64>) -> Result<Json> {
        let tensors = file.tensors.iter().map(|placed| described(placed, None)).collect();
        let part = parts::part_bytes(file.len, part)?;
        for (range, work) in parts::parts(file, part)? {
            let len = range.end - range.start;
            self.add(number, ItemKind::Part(range), len, work, 1);
        }
        described_file(file, Some(part), tensors)
    }
}

fn described_file(file: &OutFile, part: Option<u64>, tensors: Vec<Json>) -> Result<Json> {
    Ok(json!({
        "name": file.name,
        "bytes": file.len,
        "part_bytes": part,
        "header_bytes": file.header.len(),
        "header_sha256": sha256_of(&file.header)?,
        "tensors": tensors,
    }))
}

#[cfg(not(feature = "http"))]
fn refuse_stores(path: &Path) -> Result<()> {
    let fault = "this build of weighbridge does not write to servers";
    let error = || Error::unsupported(fault).advise("enable the cargo feature `http`");
    place::scheme(path).map_or(Ok(()), |_| Err(error().in_file(path)))
}

/// The progress of a plan with this description, without opening its model. `record` is the path of the record that
/// [`Slices::finish`] leaves: a plan without one is not finished.
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
        let field = fields.iter().find(|name| self.description.get(name) != description.get(name));
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
        let checksums = options.threads.in_order(
            pieces.into_iter(),
            || SliceBench::new(options),
            |bench, piece| {
                let (checksum, written) = piece.write(&open, bench)?;
                let done = done.fetch_add(written, Ordering::Relaxed) + written;
                options.progress.report(done, bytes)?;
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
                    let existing = target::ExistingFile::of(options.overwrite || begun);
                    target::check_file(path, existing)
                })
            }
        }
    }
}
