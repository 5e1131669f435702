//! The end of a plan: all slices are checked, and their files move to their places.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::cut::Slices;
use super::description::array;
use super::finished::{self, FinishedFile, FinishedState};
use super::layout::{CHECKED, FILES, RECORDS, folder, put};
use super::records::{Checksum, SliceRecord, records};
#[cfg(feature = "http")]
use super::store;
use crate::bytes::{Access, Source, Text, open_or_create};
use crate::container::writer::Placement;
use crate::error::{Error, Result};
use crate::json::{Json, json};
use crate::threads::Threads;
use crate::write::set::{self, Move};
use crate::write::target::{self, claimed, open_in_folder};
use crate::write::{WriteOptions, WriteReport, directory};

/// The result of checking all slices.
#[derive(Debug)]
struct Checked {
    /// The identity of the unfinished directory, if it can be exchanged with an old one.
    directory: Option<String>,
    /// The checksum of each file.
    checksums: Vec<Checksum>,
}

impl Checked {
    fn to_json(&self) -> String {
        let checksums: Vec<String> = self.checksums.iter().map(Checksum::to_string).collect();
        json!({ "directory": self.directory, "xxh3_128": checksums }).to_string()
    }

    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(CHECKED);
        let text = Source::open(&path, Access::Read)?;
        let text = text.bytes(0..text.len())?;
        let json: Json = Json::parse(&text).unwrap_or_default();
        let checksums = array(&json, "xxh3_128").iter().map(|text| text.as_str()?.parse().ok());
        let checksums: Option<Vec<Checksum>> = checksums.collect();
        let malformed = || Error::malformed("no list of checksums").advise("delete it");
        let checksums = checksums.filter(|_| json.is_object()).ok_or_else(malformed);
        let checksums = checksums.map_err(|error| error.in_file(&path))?;
        Ok(Self {
            directory: json.get("directory").and_then(Json::as_str).map(str::to_owned),
            checksums,
        })
    }
}

impl Slices<'_> {
    /// Checks that all slices are there and have the bytes that were written, moves the files to their
    /// places, and leaves a [record](super::slices_status) at this path. If the record says that all of this was
    /// done, and the files are still the same, nothing is done.
    ///
    /// # Errors
    ///
    /// `Mismatch` if slices are missing, or bytes differ from those of their slice, which must then be
    /// run again; otherwise same as [`run`](Self::run).
    pub fn finish(&self, record: &Path, options: &WriteOptions<'_>) -> Result<WriteReport> {
        #[cfg(feature = "http")]
        if let Some(bucket) = &self.bucket {
            return Ok(self.report(store::finish(self, bucket, record, options)?, Vec::new()));
        }
        let folder = folder(&self.path, &self.digest)?;
        let state = finished::state(record, &self.digest, FinishedFile::is_same)?;
        if matches!(state, FinishedState::Finished) {
            let _ = std::fs::remove_dir_all(&folder);
            return Ok(self.report(self.written(), Vec::new()));
        }
        if !folder.exists() {
            return Err(self.nothing_to_finish(state));
        }
        self.check_place(options)?;
        let lock = folder.join("lock");
        let _alone = claimed(&lock, || open_or_create(&lock))?;
        // A run that was ended while it moved files goes on.
        let goes_on = folder.join(CHECKED).exists();
        let checked = match goes_on {
            true => Checked::read(&folder)?,
            false => self.check_all(&folder, options)?,
        };
        let replaced = match self.plan.placement {
            Placement::Directory => self.move_directory(&folder, &checked, options.overwrite)?,
            Placement::Files | Placement::Store(_) => {
                let paths = self.plan.file_paths(&self.path).into_iter().enumerate();
                let from = |number: usize| folder.join(FILES).join(number.to_string());
                let moves = paths.map(|(number, to)| Move { from: from(number), to });
                set::place(&moves.collect::<Vec<Move>>(), options.overwrite)?
            }
        };
        let files = self.in_place(&folder, checked, goes_on)?;
        put(record, finished::record_of(&self.digest, &files).as_bytes())?;
        // Files that cannot be deleted now are deleted by the next call.
        let _ = std::fs::remove_dir_all(&folder);
        target::synced_parent(&self.path);
        Ok(self.report(self.written(), replaced))
    }

    fn nothing_to_finish(&self, state: FinishedState) -> Error {
        let fault = match state {
            FinishedState::Changed(path) => {
                let path = Text::from_path(&path).brief();
                format!(
                    "no slice of the plan is there, and {path} has changed since it was finished"
                )
            }
            _ => "no slice of the plan is there".to_owned(),
        };
        Error::not_found(fault).advise("run its slices first").in_file(&self.path)
    }

    /// Checks all slices, and notes that and the checksums of their files.
    fn check_all(&self, folder: &Path, options: &WriteOptions<'_>) -> Result<Checked> {
        self.verify(folder, options)?;
        let (done, total) = (AtomicU64::new(self.plan.bytes()), self.work_of_finishing());
        let progress = |bytes: u64| {
            let done = done.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            options.progress.report(done, total)
        };
        let files = self.plan.files.iter().enumerate();
        let checksums = files.map(|(number, file)| {
            finished::checksum(&self.unfinished(folder, number, file), options.threads, progress)
        });
        let checksums = checksums.collect::<Result<Vec<Checksum>>>()?;
        let directory = directory::identity(&folder.join(FILES));
        let checked = Checked { directory, checksums };
        put(&folder.join(CHECKED), checked.to_json().as_bytes())?;
        Ok(checked)
    }

    /// The bytes that `finish` reads: every piece, then every file.
    fn work_of_finishing(&self) -> u64 {
        self.plan.bytes().saturating_mul(2)
    }

    /// The files in their places. If an earlier run has moved them, they are read again.
    fn in_place(&self, folder: &Path, checked: Checked, reads: bool) -> Result<Vec<FinishedFile>> {
        let paths = match self.plan.placement {
            Placement::Directory => {
                self.plan.files().map(|(name, _)| self.path.join(name)).collect()
            }
            Placement::Files | Placement::Store(_) => self.plan.file_paths(&self.path),
        };
        let files = paths.into_iter().zip(checked.checksums).map(|(path, checksum)| {
            if reads && finished::checksum(&path, Threads::default(), |_| Ok(()))? != checksum {
                // Its slices must be run again.
                let _ = std::fs::remove_dir_all(folder);
                let fault = "the file has changed since it was put into its place";
                let error = Error::mismatch(fault).advise("run the slices of the plan again");
                return Err(error.in_file(&path));
            }
            FinishedFile::new(path, checksum)
        });
        files.collect()
    }

    /// The paths that a finished plan has written.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        match self.plan.placement {
            Placement::Directory => vec![self.path.clone()],
            Placement::Files | Placement::Store(_) => self.plan.file_paths(&self.path),
        }
    }

    /// Moves the finished directory to its place, unless an earlier run did. Returns the files that it
    /// replaced.
    fn move_directory(
        &self,
        folder: &Path,
        checked: &Checked,
        overwrite: bool,
    ) -> Result<Vec<PathBuf>> {
        let files = folder.join(FILES);
        let failed = |error| Error::io("cannot rename the directory", error).in_file(&self.path);
        // A run may have been ended just before the exchange, when the new directory had the name that
        // the old one gets.
        let aside = directory::aside(&self.path);
        let is_new =
            || checked.directory.is_some() && directory::identity(&aside) == checked.directory;
        if !files.exists() && is_new() {
            std::fs::rename(&aside, &files).map_err(failed)?;
        }
        directory::settle(&self.path, &self.plan.files)?;
        match files.exists() {
            true => directory::install(&files, &self.path, &self.plan.files, overwrite),
            false => Ok(Vec::new()),
        }
    }

    fn report(&self, paths: Vec<PathBuf>, replaced: Vec<PathBuf>) -> WriteReport {
        let (replaced_links, lost) = (Vec::new(), Vec::new());
        WriteReport { paths, replaced, replaced_links, bytes: self.plan.bytes(), lost }
    }

    /// Reads every piece back, and compares it with the record of its slice.
    fn verify(&self, folder: &Path, options: &WriteOptions<'_>) -> Result<()> {
        let records = records(folder)?;
        self.check_records(&records)?;
        let mut pieces = Vec::new();
        let mut counts = Vec::new();
        for record in &records {
            let (_, own) = self.select(0..u64::MAX, record.pieces.clone())?;
            counts.push(own.len());
            pieces.extend(own);
        }
        let open = self.open(folder, &pieces)?;
        let done = AtomicU64::new(0);
        let total = self.work_of_finishing();
        let checksums = options.threads.in_order(
            pieces.into_iter(),
            || None,
            |buffer, piece| {
                let (checksum, read) = piece.read(&open, buffer)?;
                let done = done.fetch_add(read, Ordering::Relaxed) + read;
                options.progress.report(done, total)?;
                Ok(checksum)
            },
        )?;
        let mut rest = checksums.as_slice();
        for (record, count) in records.iter().zip(counts) {
            let (own, later) = rest.split_at_checked(count).unwrap_or_default();
            rest = later;
            if Checksum::of_all(own) != record.checksum {
                let name = SliceRecord::file_name(&record.pieces);
                let failed = |error| Error::io("cannot delete the record", error);
                std::fs::remove_file(folder.join(RECORDS).join(name)).map_err(failed)?;
                let fault = format!("slice {} has other bytes than were written", record.name);
                let error = Error::mismatch(fault).advise("run the slice again");
                return Err(error.in_file(&self.path));
            }
        }
        // Files without pieces: nobody has created them.
        for (number, file) in self.plan.files.iter().enumerate().filter(|(_, file)| file.len == 0) {
            let path = self.unfinished(folder, number, file);
            let failed = |error| Error::io("cannot create the file", error).in_file(&path);
            open_in_folder(&path).map_err(failed)?;
        }
        Ok(())
    }
}
