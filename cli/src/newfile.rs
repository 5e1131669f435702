//! Files that appear under their path only once they are complete.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use weighbridge::write::check_file;
use weighbridge::{AdvisedOption, Error, ErrorKind};

use crate::{Stop, failure, writing};

/// A file that is being written. Ctrl-C ends that, and the file is removed.
pub(crate) struct NewFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Begins a file. An existing file is replaced only if `replaceable` says so.
    pub(crate) fn create(
        path: &Path,
        replaceable: impl FnOnce(&Path) -> Result<bool, Stop>,
    ) -> Result<Self, Stop> {
        // A pipe is not opened to see what it holds.
        check_file(path, true).map_err(|error| match error.option() {
            // What is not a model has no plan.
            Some(AdvisedOption::DryRun) => {
                Error::new(error.kind(), "a device is not replaced by a file")
                    .advise("give the path of a file")
                    .in_file(path)
            }
            _ => error,
        })?;
        let replaces = path.symlink_metadata().is_ok() && replaceable(path)?;
        check_file(path, replaces)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            let fault = format!("the folder {} does not exist", crate::print::shown(folder));
            let error = Error::new(ErrorKind::NotFound, fault);
            return Err(error.advise("create it, or choose another path").in_file(path).into());
        }
        // Before the file exists: without a handler, the system would end the program and leave it.
        check_interrupted().map_err(|error| failure::io(path, WRITE, error))?;
        let mut builder = tempfile::Builder::new();
        // The permissions of any new file, instead of the owner's only.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.prefix(".weighbridge-").tempfile_in(folder);
        let file = file.map_err(|error| not_created(path, &error))?;
        Ok(Self { path: path.to_path_buf(), file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Gives the file its path.
    pub(crate) fn finish(self) -> Result<(), Stop> {
        let Self { path, file } = self;
        let failed = |error| failure::io(&path, WRITE, error);
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.as_file().sync_all().map_err(failed)?;
        check_interrupted().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(())
    }
}

/// The error of a file that cannot be written.
const WRITE: &str = "cannot write the file";

/// An error if the user pressed Ctrl-C. Its kind is not the one after which a write is repeated.
fn check_interrupted() -> std::io::Result<()> {
    match writing::interrupted() {
        true => Err(std::io::Error::other(Error::new(
            ErrorKind::Cancelled,
            "interrupted; nothing was written",
        ))),
        false => Ok(()),
    }
}

/// The error of a file that cannot be created, without the name that it would have had until it is complete.
fn not_created(path: &Path, error: &std::io::Error) -> Error {
    let said = error.to_string();
    let said = said.split(" at path ").next().unwrap_or_default().to_owned();
    let plain = std::io::Error::new(error.kind(), said);
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
        check_interrupted()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
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
    }
}
