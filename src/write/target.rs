//! Targets: files and directories that appear under their names only once they are complete.

use std::ffi::OsString;
use std::fs::{File, FileType, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::rename::exists;
use super::set::{self, Move};
use super::{OutFile, directory};
use crate::bytes::{Text, is_content_addressed, is_same, open_folder, open_or_create};
use crate::error::{AdvisedOption, Error, ErrorKind, Result};

/// A file or directory that is being written under a temporary name beside its own.
///
/// The temporary name is always `.NAME.partial`, and it is locked while it is in use. The next run
/// therefore recognizes the files of a killed run and deletes them.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    path: PathBuf,
    partial: PathBuf,
    /// The lock, held until the end. For a directory it lies beside it, because a file inside it
    /// would become part of the model.
    lock: File,
    kind: TargetKind,
    /// Whether the temporary file or directory still exists.
    pending: bool,
    overwrite: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TargetKind {
    File,
    Directory,
}

impl WriteTarget {
    /// Begins a file.
    pub(crate) fn file(path: &Path, overwrite: bool) -> Result<Self> {
        check_file(path, ExistingFile::of(overwrite))?;
        Self::begin(path, TargetKind::File, overwrite)
    }

    /// Begins a directory that will have these files.
    pub(super) fn directory(path: &Path, overwrite: bool, files: &[OutFile]) -> Result<Self> {
        check_directory(path, overwrite, files)?;
        let this = Self::begin(path, TargetKind::Directory, overwrite)?;
        directory::settle(path, files)?;
        // An old directory may have been restored.
        check_directory(path, overwrite, files)?;
        Ok(this)
    }

    fn begin(path: &Path, kind: TargetKind, overwrite: bool) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::mismatch("the path does not end in a file name").in_file(path));
        };
        if is_content_addressed(path) {
            let fault = "the name is the digest of the file's content, so nothing else may be \
                         written under it";
            return Err(Error::mismatch(fault).advise("write to another name").in_file(path));
        }
        check_folder(path)?;
        let path = path.to_path_buf();
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let partial = path.with_file_name(partial);
        let lock = claimed(&partial, || match kind {
            TargetKind::File => open_or_create(&partial),
            TargetKind::Directory => std::fs::create_dir(&partial)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                })
                .and_then(|()| open_folder(&partial)),
        })?;
        let this = Self { path, partial, lock, kind, pending: true, overwrite };
        let failed =
            |error| Error::io("cannot delete the unfinished files of an earlier run", error);
        this.clear().map_err(failed).map_err(|error| error.in_file(&this.partial))?;
        Ok(this)
    }

    /// Deletes the files of a killed run.
    fn clear(&self) -> std::io::Result<()> {
        if self.kind == TargetKind::File {
            return self.lock.set_len(0);
        }
        for entry in std::fs::read_dir(&self.partial)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// The temporary path of a file.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        match self.kind {
            TargetKind::File => self.partial.clone(),
            TargetKind::Directory => self.partial.join(name),
        }
    }

    /// The file to write, with `len` bytes reserved. `name` is ignored where the target is a file.
    pub(crate) fn create(&self, name: &str, len: u64) -> Result<File> {
        let path = self.place(name);
        let here = |error: Error| match self.kind {
            // The hidden file is not what was asked for.
            TargetKind::File => error.in_file(&self.path),
            TargetKind::Directory => error.in_file(&self.path.join(name)),
        };
        let file = open_in_folder(&path)
            .map_err(|error| here(Error::io("cannot create the file", error)))?;
        reserve(&file, len).map_err(here)?;
        Ok(file)
    }

    /// Renames a file to its final name. It must have been synced.
    pub(crate) fn finish(self) -> Result<Vec<PathBuf>> {
        finish_all(vec![self])
    }

    /// Renames a directory, which has these files, to its final name. All of them must have been synced.
    /// Returns what was deleted.
    pub(super) fn finish_directory(mut self, files: &[OutFile]) -> Result<Vec<PathBuf>> {
        let failed = |error| Error::io("cannot sync the directory to the disk", error);
        // Windows syncs files alone.
        let synced = if cfg!(windows) { Ok(()) } else { self.lock.sync_all() };
        synced.map_err(failed).map_err(|error| error.in_file(&self.partial))?;
        let installed = directory::install(&self.partial, &self.path, files, self.overwrite);
        // The directory has its final name, or there is an error and the old one is in its place.
        self.pending = self.partial.exists();
        synced_parent(&self.path);
        installed
    }
}

/// Renames files to their final names, the first as the last. They must have been synced. Returns the files
/// that were replaced.
pub(super) fn finish_all(mut targets: Vec<WriteTarget>) -> Result<Vec<PathBuf>> {
    for target in &targets {
        if let Ok(old) = target.path.metadata() {
            // The permissions of the old file are kept where possible; otherwise the user's
            // defaults apply.
            let _ = std::fs::set_permissions(&target.partial, old.permissions());
        }
    }
    let overwrite = targets.iter().any(|target| target.overwrite);
    let moves: Vec<Move> = targets
        .iter()
        .map(|target| Move { from: target.partial.clone(), to: target.path.clone() })
        .collect();
    let replaced = set::place(&moves, overwrite)?;
    targets.iter_mut().for_each(|target| target.pending = false);
    targets.first().into_iter().for_each(|target| synced_parent(&target.path));
    Ok(replaced)
}

/// Syncs the folder of a path: only then a rename is durable.
pub(super) fn synced_parent(path: &Path) {
    if let Some(Ok(folder)) = path.parent().map(open_folder) {
        let _ = folder.sync_all();
    }
}

impl Drop for WriteTarget {
    fn drop(&mut self) {
        if self.pending {
            // Files that cannot be deleted now are deleted by the next run.
            let _ = match self.kind {
                TargetKind::File => std::fs::remove_file(&self.partial),
                TargetKind::Directory => std::fs::remove_dir_all(&self.partial),
            };
        }
    }
}

/// What happens to a file that exists where one is to be written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ExistingFile {
    /// It stays, and nothing is written.
    #[default]
    Refuse,
    /// The new file replaces it.
    Overwrite,
}

impl ExistingFile {
    /// What [`WriteOptions::overwrite`](super::WriteOptions::overwrite) says.
    pub(super) fn of(overwrite: bool) -> Self {
        if overwrite { Self::Overwrite } else { Self::Refuse }
    }
}

/// Checks that a file may be written at a path: nothing exists there, or a file or a link to one that may be overwritten.
///
/// # Errors
///
/// `Mismatch` if a file, a directory, a device, a pipe or a socket is in the way.
pub fn check_file(path: &Path, existing: ExistingFile) -> Result<()> {
    check_kind(path)?;
    match path.symlink_metadata() {
        Ok(found) if found.is_dir() => {
            Err(Error::mismatch("a directory exists here, but a file is to be written")
                .in_file(path))
        }
        // A link counts as existing, whether or not its target exists.
        Ok(_) if existing == ExistingFile::Refuse => Err(exists(path)),
        _ => Ok(()),
    }
}

/// Checks that a directory with these files may be written here.
pub(super) fn check_directory(path: &Path, overwrite: bool, files: &[OutFile]) -> Result<()> {
    check_kind(path)?;
    match path.metadata() {
        Ok(found) if !found.is_dir() => {
            Err(Error::mismatch("a file exists here, but a directory is to be written")
                .in_file(path))
        }
        Ok(_) => directory::replaceable(path, files, overwrite).map(|_| ()),
        // A link whose target does not exist.
        Err(_) if path.is_symlink() && !overwrite => Err(exists(path)),
        Err(_) => Ok(()),
    }
}

/// Refuses a device, a pipe or a socket, and a link to one: the rename that replaces a file would delete it.
fn check_kind(path: &Path) -> Result<()> {
    let Ok(found) = path.metadata() else { return Ok(()) };
    let kind = match found.is_file() || found.is_dir() {
        true if !is_open_file(path) => return Ok(()),
        true => "an open file of a process",
        false => special_kind(found.file_type()),
    };
    let error = Error::mismatch(format!("this is {kind}, which is not replaced by a file"));
    let error = match kind == DEVICE {
        true => error.advise_option(
            "{} writes nothing; give the path of a file to write one",
            AdvisedOption::DryRun,
        ),
        false => error.advise(
            "give the path of a file: its parts are written in any order, and it gets its name when it is complete",
        ),
    };
    Err(error.in_file(path))
}

/// A device that takes bytes, such as `/dev/null`.
const DEVICE: &str = "a device";

/// The kind of what is neither a file nor a directory.
#[cfg(unix)]
fn special_kind(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        _ => DEVICE,
    }
}

#[cfg(not(unix))]
fn special_kind(_: FileType) -> &'static str {
    DEVICE
}

/// Whether a path stands for an open file of a process: `/dev/stdout` is a link to one, whatever that is.
fn is_open_file(path: &Path) -> bool {
    // Linux follows at most 40 links.
    const MOST: usize = 40;
    let links = std::iter::successors(Some(path.to_path_buf()), |link| {
        Some(link.parent()?.join(std::fs::read_link(link).ok()?))
    });
    let mut folders = links.take(MOST).filter_map(|link| link.parent()?.canonicalize().ok());
    folders.any(|folder| ["/dev/fd", "/proc"].iter().any(|it| folder.starts_with(it)))
}

/// Opens a file with `open` and locks it for as long as the result is held.
pub(super) fn claimed(path: &Path, open: impl Fn() -> std::io::Result<File>) -> Result<File> {
    loop {
        let failed = |error: std::io::Error| {
            let denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            let error = Error::io("cannot create the file", error).in_file(path);
            let advice =
                "a file gets its own name when it is complete: choose a folder that can be written";
            if denied { error.advise(advice) } else { error }
        };
        let file = open().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let fault = "another program is writing this file";
                return Err(Error::new(ErrorKind::Io, fault).in_file(path));
            }
            // On a file system without locks, other writers cannot be detected.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        // The previous holder of the lock may have renamed or deleted the file.
        if is_same(&file, path) {
            return Ok(file);
        }
    }
}

/// Like [`open_or_create`], and also creates the file's folder in the model's directory.
pub(super) fn open_in_folder(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    open_or_create(path)
}

/// Checks that the folder that a file or directory will be in exists.
pub(super) fn check_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder.filter(|folder| !folder.is_dir()) else { return Ok(()) };
    let shown = Text::from_path(folder).brief();
    Err(match folder.exists() {
        true => Error::mismatch(format!("{shown} is a file, not a folder"))
            .advise("give a path in a folder"),
        false => Error::not_found(format!("the folder {shown} does not exist"))
            .advise("create the folder, or give another path"),
    }
    .in_file(path))
}

/// A change of a few bytes within one page of a file. The system writes a page as a whole or not at
/// all, even if the program is killed.
#[derive(Debug)]
pub(crate) struct PageChange {
    start: u64,
    bytes: Vec<u8>,
}

impl PageChange {
    /// The change that makes the file start with `bytes`, unless it extends over several pages.
    pub(crate) fn to_start_with(path: &Path, bytes: &[u8]) -> Result<Option<Self>> {
        const PAGE: usize = 4096;
        let failed = |doing| move |error| Error::io(doing, error).in_file(path);
        let mut file = File::open(path).map_err(failed("cannot open the file"))?;
        let mut old = crate::bytes::try_zeroed(bytes.len())?;
        file.read_exact(&mut old).map_err(failed("cannot read the file"))?;
        let differs = |(old, new): (&u8, &u8)| old != new;
        let Some(start) = old.iter().zip(bytes).position(differs) else {
            return Ok(Some(Self { start: 0, bytes: Vec::new() }));
        };
        let end = old.iter().zip(bytes).rposition(differs).map_or(start, |last| last + 1);
        let change = bytes.get(start..end).filter(|_| start / PAGE == (end - 1) / PAGE);
        Ok(change.map(|bytes| Self { start: start as u64, bytes: bytes.to_vec() }))
    }

    /// Changes the file.
    pub(crate) fn apply(&self, path: &Path) -> Result<()> {
        let failed = |doing| move |error| Error::io(doing, error).in_file(path);
        if self.bytes.is_empty() {
            return Ok(());
        }
        let file = File::options().write(true).open(path);
        let mut file = file.map_err(failed("cannot open the file for writing"))?;
        file.seek(SeekFrom::Start(self.start)).map_err(failed("cannot change the file"))?;
        file.write_all(&self.bytes).map_err(failed("cannot change the file"))?;
        file.sync_all().map_err(failed("cannot sync the file to the disk"))
    }
}

/// Reserves the file's space, so that a full disk is an error now and not at the end.
pub(super) fn reserve(file: &File, len: u64) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getrlimit};
        use std::fs::Metadata;
        use std::os::unix::fs::MetadataExt;
        // Exceeding it would end the program with a signal.
        if let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < len) {
            let fault = format!("{len} bytes, but this process may write at most {most} to a file");
            return Err(Error::new(ErrorKind::Io, fault).advise("raise the limit with `ulimit -f`"));
        }
        use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
        use rustix::io::Errno;
        // Another slice may have reserved it. File systems in memory would look at each page again.
        let has_space = |found: Metadata| found.len() >= len && found.blocks() >= len.div_ceil(512);
        if file.metadata().is_ok_and(has_space) {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => {
                let free =
                    fstatvfs(file).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
                let free = free.map_or(String::new(), |free| format!(", {free} bytes are free"));
                let fault = format!("not enough space on the disk: {len} bytes are needed{free}");
                let advice = "free space there, or write to another disk";
                return Err(Error::new(ErrorKind::Io, fault).advise(advice));
            }
            Err(error) => {
                return Err(Error::io("cannot reserve the space of the file", error.into()));
            }
        }
    }
    file.set_len(len).map_err(|error| Error::io("cannot reserve the space of the file", error))
}
