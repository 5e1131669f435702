//! Files that appear under their path only once they are complete.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use weighbridge::write::{ExistingFile, check_file};
use weighbridge::{AdvisedOption, Error, ErrorKind};

use crate::interrupt::Watch;
use crate::{Stop, failure};

/// A file that is being written. Ctrl-C ends that, and the file is removed.
pub(crate) struct NewFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    watch: Watch,
}

impl NewFile {
    /// Begins a file. An existing file is replaced only if `replaceable` says so.
    pub(crate) fn create(
        path: &Path,
        replaceable: impl FnOnce(&Path) -> Result<bool, Stop>,
    ) -> Result<Self, Stop> {
        // A pipe is not opened to see what it holds.
        check_file(path, ExistingFile::Overwrite).map_err(|error| match error.option() {
            // What is not a model has no plan.
            Some(AdvisedOption::DryRun) => {
                Error::new(error.kind(), "a device is not replaced by a file")
                    .advise("give the path of a file")
                    .in_file(path)
            }
            _ => error,
        })?;
        let replaces = path.symlink_metadata().is_ok() && replaceable(path)?;
        let existing = if replaces { ExistingFile::Overwrite } else { ExistingFile::Refuse };
        check_file(path, existing)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let fault = format!("the folder {} does not exist", crate::print::shown(folder));
            let error = Error::new(ErrorKind::NotFound, fault);
            return Err(error.advise("create it, or choose another path").in_file(path).into());
        }
        // Before the file exists: Ctrl-C would end the program and leave it.
        let watch = Watch::new();
        let mut builder = tempfile::Builder::new();
        // The permissions of any new file, instead of the owner's only.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".weighbridge-").tempfile_in(folder);
        let file = file.map_err(|error| not_created(path, &error))?;
        Ok(Self { path: path.to_path_buf(), file: BufWriter::with_capacity(1 << 16, file), watch })
    }

    /// Gives the file its path.
    pub(crate) fn finish(self) -> Result<(), Stop> {
        let Self { path, file, watch } = self;
        let failed = |error| failure::io(&path, WRITE, plain(error));
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        check_interrupted(&watch).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// The error of a file that cannot be written.
const WRITE: &str = "cannot write the file";

/// An error if the user pressed Ctrl-C. Its kind is not the one after which a write is repeated.
fn check_interrupted(watch: &Watch) -> std::io::Result<()> {
    match watch.is_interrupted() {
        true => Err(std::io::Error::other(Error::new(
            ErrorKind::Cancelled,
            "interrupted; nothing was written",
        ))),
        false => Ok(()),
    }
}

/// The same error without the name that a file has until it is complete.
fn without_path(error: &std::io::Error) -> std::io::Error {
    let said = error.to_string();
    let said = said.split(" at path ").next().unwrap_or_default().to_owned();
    std::io::Error::new(error.kind(), said)
}

/// The error of a write, with advice if the disk is full. One that says all itself stays: the user pressed Ctrl-C.
fn plain(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            let full = Error::io(WRITE, without_path(&error));
            std::io::Error::other(full.advise("free some space, or write to another disk"))
        }
        _ if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => error,
        _ => without_path(&error),
    }
}

/// The error of a file that cannot be created, without the name that it would have had until it is complete.
fn not_created(path: &Path, error: &std::io::Error) -> Error {
    let plain = without_path(error);
    let denied = error.kind() == std::io::ErrorKind::PermissionDenied
        || error.kind() == std::io::ErrorKind::ReadOnlyFilesystem;
    let found = Error::io("cannot create the file", plain).in_file(path);
    match denied {
        true => found.advise("choose a folder that can be written"),
        false => found,
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        check_interrupted(&self.watch)?;
        self.file.write(bytes).map_err(plain)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush().map_err(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_file_that_is_asked_for() {
        let builder = tempfile::Builder::new();
        let error = builder.tempfile_in("no such folder").expect_err("no folder");
        let said = not_created(Path::new("hashes.json"), &error);
        assert_eq!(said.advice(), None);
        let said = said.to_string();
        assert!(said.starts_with("hashes.json: cannot create the file: "), "{said}");
        assert!(!said.contains("no such folder") && said.ends_with("(os error 2)"), "{said}");
        let denied = std::io::ErrorKind::PermissionDenied.into();
        let advice = not_created(Path::new("hashes.json"), &denied).advice().map(str::to_owned);
        assert_eq!(advice.as_deref(), Some("choose a folder that can be written"));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let stop = failure::io(Path::new("hashes.json"), WRITE, plain(full));
        let Stop::Library(said) = stop else { panic!("an error of the library") };
        assert!(said.to_string().starts_with("hashes.json: cannot write the file: "), "{said}");
        assert!(said.advice().is_some_and(|it| it.contains("another disk")), "{said}");
    }
}
