//! The row of a container, and what it detects and opens.

use std::path::{Path, PathBuf};

use super::options::OpenOptions;
#[cfg(feature = "write")]
use super::writer::Writer;
use crate::bytes::Source;
use crate::error::{Error, Result};
use crate::store::Store;

/// A format in which models are stored on disk.
///
/// A container is a function: files in, `Store` out. Once parsed, all containers are the same data,
/// so there is no trait to implement.
#[derive(Debug)]
pub struct Container {
    /// The name, as in `weighbridge list containers`.
    pub name: &'static str,
    /// A description in one sentence.
    pub summary: &'static str,
    /// Whether a path is this container, judged by its content.
    pub(super) detect: fn(&Probe<'_>) -> bool,
    /// Opens a path that was detected as this container.
    pub(super) open: fn(DetectedPath, &OpenOptions) -> Result<Store>,
    /// The writer of models in this container, if there is one.
    #[cfg(feature = "write")]
    pub(super) write: Option<&'static Writer>,
}

/// Containers are the same if they have the same name.
impl PartialEq for Container {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Container {}

#[cfg(feature = "write")]
impl Container {
    /// A summary of what is written into this container; `None` if it is only read.
    pub fn written_as(&self) -> Option<&'static str> {
        self.write.map(|writer| writer.summary)
    }

    /// The writer of models in this container.
    pub(crate) fn writer(&self) -> Result<&'static Writer> {
        self.write.ok_or_else(|| {
            Error::unsupported(format!("{} can be read, but not written", self.name))
        })
    }
}

/// A path after detection.
pub(crate) enum DetectedPath {
    /// A file, whose header has not been parsed.
    File(Source),
    /// A directory, with its sorted file names.
    Directory(PathBuf, Vec<String>),
}

/// The facts about a path that detection uses.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) path: &'a Path,
    /// The first bytes of the file.
    pub(crate) head: &'a [u8],
    /// The length of the file.
    pub(crate) len: u64,
    /// The file, if the path is that of one.
    pub(crate) source: Option<&'a Source>,
    /// The sorted file names, if the path is a directory.
    pub(crate) directory: Option<&'a [String]>,
    /// The options and limits of files that detection reads.
    pub(crate) options: &'a OpenOptions,
}

impl Probe<'_> {
    pub(super) const HEAD: usize = 1024;
}
