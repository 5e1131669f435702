//! Small files that appear whole or not at all.

use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A path in the folder of `path` that no other process or thread uses.
pub(crate) fn own_path(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    path.with_file_name(format!(".{name}.{process}-{count}.partial"))
}

/// Writes a file under another name and renames it. The file may be lost if the machine stops.
///
/// # Errors
///
/// Those of the system. The file of before stays.
pub(crate) fn put(path: &Path, parts: &[&[u8]]) -> Result<()> {
    put_by(&own_path(path), path, parts, false)
}

/// Like [`put`]. `own` is the name of the file until it is whole.
///
/// # Errors
///
/// Those of the system. The file of before stays.
#[cfg(feature = "http")]
pub(crate) fn put_as(own: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    put_by(own, path, &[bytes], false)
}

/// Like [`put`], and the file is on the disk when it gets its name. `own` is the name until then.
///
/// # Errors
///
/// Those of the system. The file of before stays.
pub(crate) fn put_durably(own: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    put_by(own, path, &[bytes], true)
}

fn put_by(own: &Path, path: &Path, parts: &[&[u8]], durable: bool) -> Result<()> {
    let written = File::create(own).and_then(|mut file| {
        parts.iter().try_for_each(|part| file.write_all(part))?;
        if durable {
            file.sync_all()?;
        }
        std::fs::rename(own, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(own);
    }
    written
}
