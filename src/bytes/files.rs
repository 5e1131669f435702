//! The place of a model's files: this machine, a file system that a program supplies, or none.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, BrokenLink, Source, dangling, hub_link};
use crate::error::{Error, ErrorKind, Result};

/// Files that a program reaches in its own way: on a server, in an archive, in a browser.
///
/// A model is opened from such files by [`OpenOptions::files`](crate::OpenOptions::files). Every
/// file of the model is then opened here, when the model is opened and later. Paths begin with the
/// path that was opened; what they mean is up to the implementation. Several threads open files at
/// the same time.
pub trait FileSystem: fmt::Debug + Send + Sync {
    /// Opens a file, mostly with [`Source::custom`].
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file; any other error ends the opening of the model.
    fn open(&self, path: &Path) -> Result<Source>;

    /// The names of the files that lie directly in a folder, in any order.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such folder.
    fn names(&self, folder: &Path) -> Result<Vec<String>>;

    /// Whether there is a file with this path.
    fn exists(&self, path: &Path) -> bool;
}

/// The files among which a model lies.
#[derive(Clone, Debug, Default)]
pub(crate) enum Files {
    /// Those of this machine.
    #[default]
    Disk,
    /// None: the model is a single source of bytes.
    Absent,
    /// Those of a program's own.
    Custom(Arc<dyn FileSystem>),
}

impl Files {
    /// Opens a file. `access` applies to the files of this machine.
    pub(crate) fn open(&self, path: &Path, access: Access) -> Result<Source> {
        match self {
            Self::Disk => Source::open(path, access),
            Self::Absent => Err(Error::not_found("no such file").in_file(path)),
            Self::Custom(files) => files.open(path),
        }
    }

    /// The names in a folder that are UTF-8, sorted. More than `most` names are an error.
    pub(crate) fn names(&self, folder: &Path, most: usize) -> Result<Vec<String>> {
        let cannot = |error| Error::io("cannot list", error).in_file(folder);
        let mut names = Vec::new();
        let mut add = |name: String| {
            if names.len() == most {
                let found = names.len() as u64 + 1;
                let what = "files in one directory";
                return Err(Error::limit(what, found, most as u64, "shards").in_file(folder));
            }
            names.push(name);
            Ok(())
        };
        match self {
            Self::Disk => {
                // The folder of a file's name alone is the working directory.
                let is_here = folder.as_os_str().is_empty();
                let folder = if is_here { Path::new(".") } else { folder };
                for entry in std::fs::read_dir(folder).map_err(cannot)? {
                    let name = entry.map_err(cannot)?.file_name().into_string();
                    name.map_or(Ok(()), &mut add)?;
                }
            }
            Self::Absent => {}
            Self::Custom(files) => files.names(folder)?.into_iter().try_for_each(add)?,
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether the path is a folder.
    pub(crate) fn is_folder(&self, path: &Path) -> bool {
        match self {
            Self::Disk => path.is_dir(),
            Self::Absent => false,
            Self::Custom(files) => !files.exists(path) && files.names(path).is_ok(),
        }
    }

    /// Whether there is a file, or on this machine anything, with this path.
    pub(crate) fn exists(&self, path: &Path) -> bool {
        match self {
            Self::Disk => path.exists() || self.is_in_own_blobs(path),
            Self::Absent => false,
            Self::Custom(files) => files.exists(path),
        }
    }

    /// Whether there is a file with this path.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        match self {
            Self::Disk => path.is_file() || self.is_in_own_blobs(path),
            Self::Absent | Self::Custom(_) => self.exists(path),
        }
    }

    fn is_in_own_blobs(&self, path: &Path) -> bool {
        self.broken_link(path).is_some_and(|link| link.blob.is_some())
    }

    /// The link at a path of this machine, if its target does not exist.
    pub(crate) fn broken_link(&self, path: &Path) -> Option<BrokenLink> {
        matches!(self, Self::Disk).then(|| hub_link::broken(path))?
    }

    /// Checks that a path of this machine is no link to a file that does not exist.
    ///
    /// # Errors
    ///
    /// `NotFound`, with the target.
    pub(crate) fn check_link(&self, path: &Path) -> Result<()> {
        match self.broken_link(path) {
            Some(BrokenLink { target, blob: None }) => Err(dangling(&target).in_file(path)),
            _ => Ok(()),
        }
    }

    /// The target of a symbolic link of this machine; `None` if the path exists and is no link.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such file.
    pub(crate) fn link_target(&self, path: &Path) -> Result<Option<PathBuf>> {
        match self {
            Self::Disk => match std::fs::read_link(path) {
                Ok(target) => Ok(Some(target)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(Error::new(ErrorKind::NotFound, "no such file").in_file(path))
                }
                Err(_) => Ok(None),
            },
            _ if self.exists(path) => Ok(None),
            _ => Err(Error::not_found("no such file").in_file(path)),
        }
    }

    /// The length of a file in bytes; 0 if there is none.
    pub(crate) fn len(&self, path: &Path) -> u64 {
        match self {
            Self::Disk => path.metadata().map_or(0, |found| found.len()),
            _ => self.open(path, Access::Read).map_or(0, |source| source.len()),
        }
    }
}
