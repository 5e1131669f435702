//! Reads and writes files at positions.

use std::fs::File;
use std::path::Path;

/// Opens a file without blocking. Opening a pipe normally waits for a program that writes to it.
#[cfg(unix)]
pub(super) fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

#[cfg(not(unix))]
pub(super) fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

/// Opens a folder, to lock or sync it.
pub(crate) fn open_folder(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    // Windows opens folders only with this flag, FILE_FLAG_BACKUP_SEMANTICS.
    #[cfg(windows)]
    std::os::windows::fs::OpenOptionsExt::custom_flags(&mut options, 0x0200_0000);
    // The parent of a name alone is the empty path.
    options.read(true).open(Path::new(".").join(path))
}

/// Opens a file for writing, keeping its content, or creates it.
pub(crate) fn open_or_create(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Whether a path still leads to an opened file.
#[cfg(unix)]
pub(crate) fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(path)) => id(file) == id(path),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(crate) fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(unix)]
pub(crate) fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
pub(crate) fn read_exact_at(
    file: &File,
    mut offset: u64,
    mut out: &mut [u8],
) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !out.is_empty() {
        match file.seek_read(out, offset) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                offset += n as u64;
                out = &mut out[n..];
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fails: on systems without files, a program supplies its own [`FileSystem`](super::FileSystem).
#[cfg(not(any(unix, windows)))]
pub(crate) fn read_exact_at(_: &File, _: u64, _: &mut [u8]) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(unix)]
pub(crate) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                offset += n as u64;
                bytes = &bytes[n..];
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
pub(crate) fn write_all_at(_: &File, _: &[u8], _: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
