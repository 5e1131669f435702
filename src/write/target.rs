//! What is written appears under its name when it is whole, and not before.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::bytes::is_content_addressed;
use crate::error::{Error, ErrorKind, Result};

/// A file or directory that is being written under another name, beside its own.
///
/// The other name is the same each time, `.NAME.partial`, and locked while it is in use. So what a
/// killed run leaves behind is known for what it is by the next one, and is taken away.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    partial: PathBuf,
    /// Held until the end: for a directory, a file inside it would be one file too many.
    lock: File,
    kind: Kind,
    /// Whether the partial one still lies there.
    pending: bool,
    overwrite: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    File,
    Directory,
}

impl Target {
    /// Begins a file.
    pub(crate) fn file(path: &Path, overwrite: bool) -> Result<Self> {
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {
                Err(Error::mismatch("a directory, but a file is to be written").in_file(path))
            }
            // A link counts as what lies there, wherever it leads and whether anything is there.
            Ok(_) if !overwrite => Err(exists(path)),
            _ => Self::begin(path, Kind::File, overwrite),
        }
    }

    /// Begins a directory.
    pub(crate) fn directory(path: &Path, overwrite: bool) -> Result<Self> {
        match path.metadata() {
            Ok(found) if !found.is_dir() => {
                Err(Error::mismatch("a file, but a directory is to be written").in_file(path))
            }
            Ok(_) => {
                let entries = std::fs::read_dir(path);
                let entries = entries
                    .map_err(|error| Error::io("cannot look into it", error).in_file(path))?;
                if !overwrite && entries.count() > 0 {
                    return Err(exists(path));
                }
                check_replaceable(path)?;
                Self::begin(path, Kind::Directory, overwrite)
            }
            // A link that leads nowhere.
            Err(_) if path.is_symlink() && !overwrite => Err(exists(path)),
            Err(_) => Self::begin(path, Kind::Directory, overwrite),
        }
    }

    fn begin(path: &Path, kind: Kind, overwrite: bool) -> Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(Error::mismatch("it ends in no name to write to").in_file(path));
        };
        if is_content_addressed(path) {
            let fault = "the name is the digest of the file's content, so nothing else may be \
                         written under it";
            return Err(Error::mismatch(fault).advise("write to another name").in_file(path));
        }
        let path = path.to_path_buf();
        let mut partial = OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let partial = path.with_file_name(partial);
        let lock = claimed(&partial, || match kind {
            Kind::File => open_or_create(&partial),
            Kind::Directory => std::fs::create_dir(&partial)
                .or_else(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(error),
                })
                .and_then(|()| File::open(&partial)),
        })?;
        let this = Self { path, partial, lock, kind, pending: true, overwrite };
        let failed = |error| Error::io("cannot take away what an earlier run left", error);
        this.clear().map_err(failed).map_err(|error| error.in_file(&this.partial))?;
        Ok(this)
    }

    /// Takes away what a killed run has left.
    fn clear(&self) -> std::io::Result<()> {
        if self.kind == Kind::File {
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

    /// Where a file lies until the end.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        match self.kind {
            Kind::File => self.partial.clone(),
            Kind::Directory => self.partial.join(name),
        }
    }

    /// The file to write, with `len` bytes reserved. `name` is ignored where the target is a file.
    pub(crate) fn create(&self, name: &str, len: u64) -> Result<File> {
        let path = self.place(name);
        let here = |error: Error| error.in_file(&path);
        let file =
            open_or_create(&path).map_err(|error| here(Error::io("cannot create it", error)))?;
        reserve(&file, len).map_err(here)?;
        Ok(file)
    }

    /// Gives what was written its name. All files must be on the disk by now.
    pub(crate) fn finish(mut self) -> Result<()> {
        let failed = |error| Error::io("cannot give it its name", error);
        self.take_place().map_err(failed).map_err(|error| error.in_file(&self.path))?;
        self.pending = false;
        // The name itself is on the disk only when its directory is.
        if let Some(Ok(folder)) = self.path.parent().map(folder) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    fn take_place(&self) -> std::io::Result<()> {
        if let (Kind::File, Ok(old)) = (self.kind, self.path.metadata()) {
            // Who may read it stays the same. Where that cannot be kept, it is the user's default.
            let _ = std::fs::set_permissions(&self.partial, old.permissions());
        }
        match self.kind {
            // A name that has come into being meanwhile is not this program's to replace.
            Kind::File if !self.overwrite => rename_to_new(&self.partial, &self.path),
            Kind::File => std::fs::rename(&self.partial, &self.path),
            Kind::Directory => {
                self.lock.sync_all()?;
                exchange(&self.partial, &self.path)
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.pending {
            // What cannot be taken away now, the next run takes away.
            let _ = match self.kind {
                Kind::File => std::fs::remove_file(&self.partial),
                Kind::Directory => std::fs::remove_dir_all(&self.partial),
            };
        }
    }
}

/// What `open` opens at a path, locked for as long as it is held.
pub(super) fn claimed(path: &Path, open: impl Fn() -> std::io::Result<File>) -> Result<File> {
    loop {
        let opened = open().map_err(|error| Error::io("cannot create it", error));
        let file = opened.map_err(|error| error.in_file(path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let fault = "another program is writing it at this moment";
                return Err(Error::new(ErrorKind::Io, fault).in_file(path));
            }
            // A file system without locks: nothing is known of others then.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
        // Whoever held the lock may have given the file its name, or have taken it away.
        if is_same(&file, path) {
            return Ok(file);
        }
    }
}

/// A file to write to, with whatever it holds already.
pub(super) fn open_or_create(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

pub(super) fn exists(path: &Path) -> Error {
    Error::new(ErrorKind::Mismatch, "it is there already")
        .advise("give another name, or --overwrite to replace it when the new one is whole")
        .in_file(path)
}

/// Makes the file begin with `bytes`, if what changes lies within one page of it: the system writes a
/// page as a whole or not at all, whatever becomes of the program. Else does nothing, and gives
/// `false`.
pub(crate) fn overwrite_within_a_page(path: &Path, bytes: &[u8]) -> Result<bool> {
    const PAGE: usize = 4096;
    let failed = |doing| move |error| Error::io(doing, error).in_file(path);
    let file = File::options().read(true).write(true).open(path);
    let mut file = file.map_err(failed("cannot open it to change it"))?;
    let mut old = crate::bytes::try_zeroed(bytes.len())?;
    file.read_exact(&mut old).map_err(failed("cannot read it"))?;
    let differs = |(old, new): (&u8, &u8)| old != new;
    let Some(start) = old.iter().zip(bytes).position(differs) else { return Ok(true) };
    let end = old.iter().zip(bytes).rposition(differs).map_or(start, |last| last + 1);
    let Some(change) = bytes.get(start..end).filter(|_| start / PAGE == (end - 1) / PAGE) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(start as u64)).map_err(failed("cannot change it"))?;
    file.write_all(change).map_err(failed("cannot change it"))?;
    file.sync_all().map_err(failed("cannot bring it to the disk"))?;
    Ok(true)
}

/// A directory is replaced whole, so what is in it must be a model and nothing else.
fn check_replaceable(path: &Path) -> Result<()> {
    let failed = |error| Error::io("cannot look into it", error).in_file(path);
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
        let known = matches!(
            ending,
            Some("json" | "safetensors" | "npz" | "model" | "txt" | "jinja" | "md" | "gguf")
        );
        let file = entry.file_type().is_ok_and(|kind| !kind.is_dir());
        if !(known && file) {
            let fault = format!(
                "a directory that holds \"{}\", which is no part of a model",
                name.to_string_lossy()
            );
            return Err(Error::mismatch(fault).advise("give another name").in_file(path));
        }
    }
    Ok(())
}

pub(super) fn folder(path: &Path) -> std::io::Result<File> {
    File::open(if path.as_os_str().is_empty() { Path::new(".") } else { path })
}

#[cfg(unix)]
pub(super) fn is_same(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(path)) => id(file) == id(path),
        _ => false,
    }
}

#[cfg(not(unix))]
pub(super) fn is_same(_: &File, path: &Path) -> bool {
    path.exists()
}

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

/// The same in two steps, where the system cannot do it in one.
fn rename_if_new(from: &Path, to: &Path) -> std::io::Result<()> {
    match to.symlink_metadata().is_ok() {
        true => Err(std::io::ErrorKind::AlreadyExists.into()),
        false => std::fs::rename(from, to),
    }
}

/// Puts a directory under a name in one step, and takes away what lay there.
#[cfg(target_os = "linux")]
fn exchange(new: &Path, path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if path.symlink_metadata().is_err() {
        return std::fs::rename(new, path);
    }
    match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => std::fs::remove_dir_all(new),
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => replace(new, path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(new: &Path, path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata().is_err() {
        return std::fs::rename(new, path);
    }
    replace(new, path)
}

/// The same in two steps, where the system cannot do it in one: between them the old one lies
/// under another name.
fn replace(new: &Path, path: &Path) -> std::io::Result<()> {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    std::fs::rename(path, &old)?;
    std::fs::rename(new, path)?;
    std::fs::remove_dir_all(old)
}

/// Makes a file that long, so that room is short now and not at its end.
pub(super) fn reserve(file: &File, len: u64) -> Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getrlimit};
        // Going beyond it would end the program with a signal.
        if let Some(most) = getrlimit(Resource::Fsize).current.filter(|most| *most < len) {
            let fault = format!("{len} bytes, but this process may write files of {most}");
            return Err(Error::new(ErrorKind::Io, fault).advise("raise it with `ulimit -f`"));
        }
        use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
        use rustix::io::Errno;
        if len == 0 {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => {
                let free =
                    fstatvfs(file).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
                let free = free.map_or(String::new(), |free| format!(", {free} bytes are free"));
                let fault = format!("no room for {len} bytes{free}");
                return Err(Error::new(ErrorKind::Io, fault));
            }
            Err(error) => return Err(Error::io("cannot make it as long as needed", error.into())),
        }
    }
    file.set_len(len).map_err(|error| Error::io("cannot make it as long as needed", error))
}
