//! The links of a snapshot in the hub's cache.

use std::path::{Path, PathBuf};

use crate::bytes::{Access, Source, own_path, put_by};
use crate::error::{Error, Result};

/// The links of a snapshot, and the reference to it, which are written after the blobs.
#[derive(Debug)]
pub(super) struct Links {
    /// The folder `models--ORG--NAME`.
    pub(super) repository: PathBuf,
    pub(super) commit: String,
    /// The branch or tag that was asked for.
    pub(super) reference: Option<String>,
    /// Each download.
    pub(super) linked: Vec<Linked>,
    /// Whether the snapshot gets the files themselves.
    pub(super) are_files: bool,
}

/// The names of the files that a download is for.
#[derive(Debug)]
pub(super) struct Linked {
    pub(super) digest: String,
    /// Whether the blob was not there. Snapshots of other commits may have links to one that was.
    pub(super) is_new: bool,
    pub(super) names: Vec<String>,
}

impl Links {
    /// Makes the links to the blob of a download, or moves it to their place.
    pub(super) fn make(&self, number: usize) -> Result<()> {
        let Some(Linked { digest, is_new, names }) = self.linked.get(number) else {
            return Ok(());
        };
        for (place, name) in names.iter().enumerate() {
            let link = self.repository.join("snapshots").join(&self.commit).join(name);
            let failed = |error| Error::io("cannot create the link", error).in_file(&link);
            if let Some(folder) = link.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            if self.are_files {
                let blob = self.repository.join("blobs").join(digest);
                let is_last = place + 1 == names.len();
                self.put(&blob, &link, *is_new && is_last).map_err(failed)?;
                continue;
            }
            // From snapshots/COMMIT, and from each folder in it.
            let up = "../".repeat(name.split('/').count() + 1);
            self.link(&format!("{up}blobs/{digest}"), &link).map_err(failed)?;
        }
        Ok(())
    }

    /// Puts a file in the place of a link, as the client does without links (huggingface_hub 2.4, file_download.py): a new
    /// blob is moved, and one that other snapshots may have links to is copied.
    fn put(&self, blob: &Path, place: &Path, is_moved: bool) -> std::io::Result<()> {
        let length = blob.metadata()?.len();
        // A link of an earlier run may stay.
        if !is_moved && place.metadata().is_ok_and(|found| found.len() == length) {
            return Ok(());
        }
        let own = own_path(place);
        let from = if is_moved { blob } else { &own };
        if !is_moved {
            std::fs::copy(blob, &own)?;
        }
        std::fs::rename(from, place)
    }

    fn link(&self, target: &str, link: &Path) -> std::io::Result<()> {
        if std::fs::read_link(link).is_ok_and(|found| found == Path::new(target)) {
            return Ok(());
        }
        #[cfg(unix)]
        match std::os::unix::fs::symlink(target, link) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        // A link to another blob is replaced as a whole. Another process may do the same: each has a
        // name of its own until it is renamed.
        let own = own_path(link);
        let _ = std::fs::remove_file(&own);
        #[cfg(unix)]
        std::os::unix::fs::symlink(target, &own)?;
        // Without the right to make links, the client has a copy in the snapshot.
        #[cfg(windows)]
        if std::os::windows::fs::symlink_file(target.replace('/', "\\"), &own).is_err() {
            std::fs::copy(link.with_file_name(target), &own)?;
        }
        std::fs::rename(own, link)
    }

    /// Writes the commit of the branch, last of all: the branch then has a whole snapshot.
    pub(super) fn refer(&self) -> Result<()> {
        let Some(reference) = &self.reference else { return Ok(()) };
        let path = self.repository.join("refs").join(reference);
        // The hub's client takes every file in `refs` for the commit of a branch.
        replace(&self.repository.join(".ref.partial"), &path, self.commit.as_bytes())?;
        // Programs that make copies of a disk leave out folders with this file (bford.info/cachedir).
        let tag = self.repository.with_file_name("CACHEDIR.TAG");
        if tag.exists() {
            return Ok(());
        }
        let own = tag.with_file_name(".CACHEDIR.TAG.partial");
        replace(&own, &tag, b"Signature: 8a477f597d28d172789f06886806bc55\n")
    }
}

/// Writes a small file as a whole. `own` is its name until then, the same in every run, so that
/// nothing is left of a run that was killed.
fn replace(own: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("cannot write the file", error).in_file(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    match put_by(own, path, &[bytes], false) {
        // Another run has written the same in the meantime, and renamed the file.
        Err(_) if is_text(path, bytes) => Ok(()),
        written => written.map_err(failed),
    }
}

/// Whether a file has these bytes.
fn is_text(path: &Path, bytes: &[u8]) -> bool {
    let source = Source::open(path, Access::Read);
    source.is_ok_and(|source| {
        source.bytes(0..source.len().min(1 << 10)).is_ok_and(|found| *found == *bytes)
    })
}
