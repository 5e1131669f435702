//! Renaming files without replacing others.

use std::path::Path;

use crate::error::{AdvisedOption, Error, ErrorKind};

/// The error of a destination that exists.
pub(super) fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Mismatch, "already exists")
        .advise_option(
            "give another name, or replace it with {} once the new one is complete",
            AdvisedOption::Overwrite,
        )
        .in_file(path)
}

/// Renames a file, unless there is one of the new name.
#[cfg(target_os = "linux")]
pub(super) fn rename_to_new(from: &Path, to: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS) => rename_if_new(from, to),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn rename_to_new(from: &Path, to: &Path) -> std::io::Result<()> {
    rename_if_new(from, to)
}

/// Like `rename_to_new`, in two steps, where the system cannot do it in one.
fn rename_if_new(from: &Path, to: &Path) -> std::io::Result<()> {
    match to.symlink_metadata().is_ok() {
        true => Err(std::io::ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(from, to),
    }
}
