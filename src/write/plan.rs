//! What is going to be written, all of it known before the first byte is.

use std::path::{Path, PathBuf};

use super::blobs::Blobs;
use super::{Fate, Loss, OutFile, Target, WriteOptions, pipeline};
use crate::error::{Error, Result};
use crate::store::WeightStore;

/// Files that are going to be written, and what becomes of each tensor. Nothing is written before it
/// is [run](Self::run), and no more read than tells whether another packing is exact.
#[derive(Debug)]
pub struct WritePlan<'a> {
    /// What becomes of each tensor, in the order in which they are written.
    pub fates: Vec<Fate>,
    /// What a reader should know of what is left out, or was guessed.
    pub notes: Vec<String>,
    files: Vec<OutFile<'a>>,
    kind: Kind,
    /// The files that are read, which are never written to.
    sources: Vec<PathBuf>,
}

/// What a plan writes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// One file.
    File,
    /// A directory, which appears whole.
    Directory,
    /// Files beside each other, named after the path that is given, each of which appears whole:
    /// the first of them last, since readers begin with it.
    Shards,
    /// A model in Ollama's store: a blob for each file, of these kinds in Ollama's words, and a
    /// manifest, which is the path that is given and appears last.
    Blobs(Vec<String>),
}

/// What writing came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The paths that were written: a file, a directory, shards, or a manifest.
    pub paths: Vec<PathBuf>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Tensors that have lost something when they were rounded, or quantized a second time.
    pub lost: Vec<(String, Loss)>,
}

impl<'a> WritePlan<'a> {
    pub(crate) fn new(
        kind: Kind,
        files: Vec<OutFile<'a>>,
        fates: Vec<Fate>,
        notes: Vec<String>,
        source: &WeightStore,
    ) -> Self {
        let sources = source.files().map(Path::to_path_buf).collect();
        Self { fates, notes, files, kind, sources }
    }

    /// Bytes of all files: the room that is needed on the disk, beside what is replaced.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(OutFile::len).fold(0, u64::saturating_add)
    }

    /// The names of the files and their bytes, in a directory or as shards; of one file, its bytes.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.files.iter().map(|file| (file.name.as_str(), file.len()))
    }

    /// Writes all of it. Until it is whole, what lies at `path` stays as it is; the files that are
    /// read are never written to.
    ///
    /// # Errors
    ///
    /// `Mismatch` if something lies at `path` and is not to be [replaced](WriteOptions::overwrite),
    /// or belongs to the model that is read; `Io` if a file cannot be read or written, or room is
    /// short; `Cancelled`. Whatever the error, nothing half-written is left.
    pub fn run(&self, path: &Path, options: &WriteOptions<'_>) -> Result<Written> {
        let written = |paths, lost| Written { paths, bytes: self.bytes(), lost };
        match &self.kind {
            Kind::File => {
                self.check_target(path)?;
                let target = Target::file(path, options.overwrite)?;
                let lost = pipeline::run(&self.files, &target, options)?;
                target.finish()?;
                Ok(written(vec![path.to_path_buf()], lost))
            }
            Kind::Directory => {
                self.check_target(path)?;
                let target = Target::directory(path, options.overwrite)?;
                let lost = pipeline::run(&self.files, &target, options)?;
                target.finish()?;
                Ok(written(vec![path.to_path_buf()], lost))
            }
            Kind::Shards => {
                let folder = path.parent().unwrap_or(Path::new(""));
                let paths: Vec<PathBuf> =
                    self.files.iter().map(|file| folder.join(&file.name)).collect();
                paths.iter().try_for_each(|path| self.check_target(path))?;
                let targets = paths.iter().map(|path| Target::file(path, options.overwrite));
                let targets = targets.collect::<Result<Vec<Target>>>()?;
                let lost = pipeline::run_each(&self.files, &targets, options)?;
                targets.into_iter().rev().try_for_each(Target::finish)?;
                Ok(written(paths, lost))
            }
            Kind::Blobs(kinds) => {
                let mut blobs = Blobs::begin(path, options.overwrite)?;
                let lost = blobs.write(&self.files, options)?;
                let names = self.files.iter().map(|file| file.name.as_str());
                blobs.finish(kinds.iter().map(String::as_str).zip(names))?;
                Ok(written(vec![path.to_path_buf()], lost))
            }
        }
    }

    /// Writes the only file over the one that is read, which is whole until the new one is.
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
