//! The folder of a plan, in which slices write until it is finished.

use std::path::{Path, PathBuf};

use crate::bytes::{own_path, put_by};
use crate::error::{Error, Result};

/// Bytes of the largest piece, unless one row is longer. It is fixed, since every process must cut
/// the same pieces.
pub(super) const PIECE: u64 = 4 << 20;

/// The folder with the unfinished files, in that of a plan.
pub(super) const FILES: &str = "files";

/// The folder with the records of slices.
pub(super) const RECORDS: &str = "records";

/// The file that says that all slices were checked, and what their files are.
pub(super) const CHECKED: &str = "checked";

/// The folder for the unfinished files of a plan, beside its destination.
pub(super) fn folder(path: &Path, digest: &str) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::mismatch("the path does not end in a file name").in_file(path));
    };
    let mut folder = std::ffi::OsString::from(".");
    folder.push(name);
    folder.push(format!(".slices-{}", digest.get(..16).unwrap_or(digest)));
    Ok(path.with_file_name(folder))
}

/// Writes a small file that appears complete or not at all.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error| Error::io("cannot write the file", error).in_file(path);
    put_by(&own_path(path), path, &[bytes], true).map_err(failed)
}
