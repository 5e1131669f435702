//! Options of an inventory.

use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::progress::Progress;
use crate::remote;
use crate::setters::setters;
use crate::threads::Threads;

/// The search for models with the same content.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum DuplicateSearch {
    /// By the digests that stores and the index have. No weights are read, and nothing is advised.
    #[default]
    Known,
    /// By the digests of files. Files of equal size are read, once: the index keeps their digests.
    /// The names that stores give to files are not trusted, but compared with the digests.
    Content,
    /// Also by the digests of canonical names, shapes and values, which are equal in every
    /// container and however the model is split. Models that may be equal are read.
    Values,
}

/// A stage of an inventory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum InventoryStage {
    /// It opens models. The progress counts models.
    Opening,
    /// It reads weights to compare them. The progress counts bytes.
    Reading,
}

/// A callback for the progress of an inventory; `Break` cancels it.
pub(super) type StageCallback<'w> =
    &'w (dyn Fn(InventoryStage, Progress) -> ControlFlow<()> + Sync);

/// Options of [`inventory`](super::inventory).
#[derive(Clone)]
#[non_exhaustive]
pub struct InventoryOptions<'w> {
    pub(super) roots: Vec<PathBuf>,
    pub(super) programs: bool,
    pub(super) only: &'w [&'w str],
    pub(super) names: Option<&'w (dyn Fn(&str) -> bool + Sync)>,
    pub(super) duplicates: DuplicateSearch,
    pub(super) index: Option<PathBuf>,
    pub(super) threads: Threads,
    pub(super) progress: Option<StageCallback<'w>>,
}

impl Default for InventoryOptions<'_> {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            programs: true,
            only: &[],
            names: None,
            duplicates: DuplicateSearch::Known,
            index: remote::own_cache(),
            threads: Threads::default(),
            progress: None,
        }
    }
}

impl fmt::Debug for InventoryOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InventoryOptions")
            .field("roots", &self.roots)
            .field("programs", &self.programs)
            .field("duplicates", &self.duplicates)
            .field("index", &self.index)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

impl<'w> InventoryOptions<'w> {
    /// The defaults: the folders of all programs, an index in `WEIGHBRIDGE_CACHE`, a thread for
    /// each processor, and no weights are read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds folders that belong to no program.
    #[must_use]
    pub fn roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.roots.extend(roots);
        self
    }

    setters! {
        /// Sets whether the folders of [`PROGRAMS`](super::PROGRAMS) are looked at too.
        programs: bool;
        /// Lists, of the models in folders of programs, only those of the programs with these names.
        only: &'w [&'w str];
        /// Lists only models whose names pass. Others are not opened.
        names: &'w (dyn Fn(&str) -> bool + Sync);
        /// Sets how models with the same content are found.
        duplicates: DuplicateSearch;
        /// Sets the folder of the index, which keeps what was found out; `None` keeps nothing.
        index: Option<PathBuf>;
        /// Sets the threads that share folders and models.
        threads: impl Into<Threads>;
        /// Sets a callback for the progress. `Break` cancels the inventory.
        progress: StageCallback<'w>;
    }

    pub(super) fn report(&self, stage: InventoryStage, done: u64, total: u64) -> Result<()> {
        match self.progress.map(|call| call(stage, Progress { done, total })) {
            Some(ControlFlow::Break(())) => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
            _ => Ok(()),
        }
    }
}
