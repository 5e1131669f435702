//! What is going to be written, all of it known before the first byte is.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::blobs::Blobs;
use super::{Loss, OutFile, PlannedTensor, Target, WriteOptions, pipeline};
use crate::arch::Resolution;
use crate::bytes::Text;
use crate::container::writer::Placement;
use crate::error::{Error, Result};
use crate::store::{Part, Store};

/// Files that are going to be written, and what becomes of each tensor. Nothing is written before it
/// is [run](Self::run), and no more read than tells whether another packing is exact.
#[derive(Debug)]
pub struct WritePlan {
    /// What it does with each tensor, in the order in which they are written.
    pub tensors: Vec<PlannedTensor>,
    /// What a reader should know of what is left out, or was guessed.
    pub notes: Vec<String>,
    /// Canonical names of tensors that the architecture requires and the model lacks. A plan with any is
    /// not run unless [`WriteOptions::allow_incomplete`] says so.
    pub missing: Vec<String>,
    files: Vec<OutFile>,
    placement: Placement,
    /// A manifest of Ollama's in which the only file replaces the weights.
    replaces: Option<Json>,
    /// The files that are read, which are never written to.
    sources: Vec<PathBuf>,
}

/// What writing came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The paths that were written: a file, a directory, shards, or a manifest.
    pub paths: Vec<PathBuf>,
    /// Symbolic links that were replaced, each with what it led to. What they led to is unchanged.
    pub replaced_links: Vec<(PathBuf, PathBuf)>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Tensors that have lost something when they were rounded, or quantized a second time.
    pub lost: Vec<(String, Loss)>,
}

impl WritePlan {
    pub(crate) fn new(
        placement: Placement,
        files: Vec<OutFile>,
        tensors: Vec<PlannedTensor>,
        notes: Vec<String>,
        sources: Vec<PathBuf>,
    ) -> Self {
        Self { tensors, notes, missing: Vec::new(), files, placement, replaces: None, sources }
    }

    /// The plan that puts its only file in the place of the weights of a stored manifest.
    pub(crate) fn replacing(mut self, manifest: Json) -> Self {
        self.replaces = Some(manifest);
        self
    }

    /// All bytes before the first tensor, if every tensor would lie where it lies in the only file of
    /// `store`.
    pub(crate) fn header_in_place(&self, store: &Store) -> Option<Vec<u8>> {
        let [file] = self.files.as_slice() else { return None };
        let places = file.tensors.iter().map(|placed| placed.offsets.first().copied());
        let found = store.tensors().map(|tensor| Some(tensor.place(Part::Weight)?.1));
        let alone = file.tensors.iter().all(|placed| placed.offsets.len() == 1);
        let first = file.tensors.first()?.offsets.first().copied()?;
        // A file of the other byte order has its tensors in that order, too.
        let swapped = store.tensors().any(|tensor| tensor.is_big_endian());
        if swapped || !alone || !places.eq(found) {
            return None;
        }
        let mut bytes = file.header.clone();
        bytes.resize(usize::try_from(first).ok()?, 0);
        Some(bytes)
    }

    /// The plan of a model that should be whole: says what it lacks, and which of its tensors have no
    /// meaning that is known.
    pub(crate) fn of_whole_model(mut self, resolution: &Resolution) -> Self {
        self.missing.clone_from(&resolution.missing);
        if let (Some(architecture), [_, ..]) = (resolution.architecture, &*resolution.unknown) {
            let shown = shortened(&resolution.unknown);
            let shown = Text::new(shown.as_bytes()).brief();
            self.notes.push(format!("unknown to {}: {shown}", architecture.name));
        }
        self
    }

    /// Checks that the plan may be run with these options.
    ///
    /// # Errors
    ///
    /// `Malformed` if the model lacks tensors and that is not [allowed](WriteOptions::allow_incomplete).
    pub fn check(&self, options: &WriteOptions<'_>) -> Result<()> {
        if self.missing.is_empty() || options.allow_incomplete {
            return Ok(());
        }
        let shown = shortened(&self.missing);
        let fault = format!("the model is incomplete: its architecture requires {shown}");
        let error = Error::malformed(fault)
            .advise("fetch the files that are missing; --allow-incomplete writes what is there");
        Err(match self.sources.first() {
            Some(source) => error.in_file(source),
            None => error,
        })
    }

    /// Bytes of all files: the room that is needed on the disk, beside what is replaced.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).fold(0, u64::saturating_add)
    }

    /// The names and lengths in bytes of the files. The name of a file at the given path is empty, as
    /// is that of a blob which Ollama's manifest gives none.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.name.as_str(), file.len))
    }

    /// Writes all of it. Until it is whole, what lies at `path` stays as it is; the files that are
    /// read are never written to.
    ///
    /// # Errors
    ///
    /// `Mismatch` if something lies at `path` and is not to be [replaced](WriteOptions::overwrite),
    /// or belongs to the model that is read; as [`check`](Self::check); `Io` if a file cannot be read or written, or room is
    /// short; `Cancelled`. Whatever the error, nothing half-written is left.
    pub fn run(&self, path: &Path, options: &WriteOptions<'_>) -> Result<Written> {
        self.check(options)?;
        let paths = match self.placement {
            Placement::Files => self.file_paths(path),
            Placement::Directory | Placement::Store => vec![path.to_path_buf()],
        };
        let link = |path: &PathBuf| Some((path.clone(), path.read_link().ok()?));
        let replaced_links = paths.iter().filter_map(link).collect();
        if self.placement != Placement::Store {
            paths.iter().try_for_each(|path| self.check_target(path))?;
        }
        let lost = match self.placement {
            Placement::Files => {
                let targets = paths.iter().map(|path| Target::file(path, options.overwrite));
                let targets = targets.collect::<Result<Vec<Target>>>()?;
                let lost = pipeline::run_each(&self.files, &targets, options)?;
                targets.into_iter().rev().try_for_each(Target::finish)?;
                lost
            }
            Placement::Directory => {
                let target = Target::directory(path, options.overwrite)?;
                let lost = pipeline::run(&self.files, &target, options)?;
                target.finish()?;
                lost
            }
            Placement::Store => {
                let mut blobs = Blobs::begin(path, options.overwrite)?;
                let lost = blobs.write(&self.files, options)?;
                blobs.finish(&self.files, self.replaces.as_ref())?;
                lost
            }
        };
        Ok(Written { paths, replaced_links, bytes: self.bytes(), lost })
    }

    /// Where files are written, of a plan that makes no directory.
    fn file_paths(&self, path: &Path) -> Vec<PathBuf> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let place = |file: &OutFile| match file.name.as_str() {
            "" => path.to_path_buf(),
            name => folder.join(name),
        };
        self.files.iter().map(place).collect()
    }

    /// Replaces the file that is read with the only file of the plan. The old one stays in place
    /// until the new one is complete.
    pub(crate) fn replace(&self, path: &Path, options: &WriteOptions<'_>) -> Result<()> {
        let target = Target::file(path, true)?;
        pipeline::run(&self.files, &target, options)?;
        target.finish()
    }

    /// The source is read while the target is written, and must outlive it.
    fn check_target(&self, path: &Path) -> Result<()> {
        let Ok(target) = path.canonicalize() else { return Ok(()) };
        // A hub's snapshot is links to files that lie elsewhere: it is read as well.
        let within = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&target));
        let own = |source: &PathBuf| {
            within(source)
                || source.parent().is_some_and(|folder| target.is_dir() && within(folder))
        };
        match self.sources.iter().any(own) {
            true => Err(Error::mismatch("it is what is being read")
                .advise("write to another name")
                .in_file(path)),
            false => Ok(()),
        }
    }
}

/// The first names of a list, and how many more there are.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let first = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
