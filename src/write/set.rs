//! Files that belong together, such as the shards of a GGUF file, and how new ones replace old ones.
//!
//! Several files cannot be renamed in one step. So the first file, without which no reader opens the others,
//! is the first of the old ones to go and the last of the new ones to appear:
//!
//! ```text
//!  old files ──▶ .NAME.replaced,  new files ──▶ NAME,  .NAME.replaced deleted
//! ```
//!
//! A run that is killed in between leaves all old files, and the next one with the same destination
//! [restores](settle) them.

use std::path::{Path, PathBuf};

use super::directory::aside;
use super::rename::rename_to_new;
use crate::error::{AdvisedOption, Error, Result};

/// A complete file, and its final name.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) from: PathBuf,
    pub(super) to: PathBuf,
}

/// Moves files to their places. Files that an earlier call has moved are left out. Returns the files that
/// were replaced.
///
/// # Errors
///
/// `Io` if a file cannot be renamed, or exists and `overwrite` is not set: then all old files are in their
/// places. `Io` if an old file cannot be deleted.
pub(super) fn place(moves: &[Move], overwrite: bool) -> Result<Vec<PathBuf>> {
    let failed = |(path, error): (&Path, std::io::Error)| {
        Error::io("cannot rename the temporary file", error).in_file(path)
    };
    let left = || moves.iter().filter(|file| file.from.exists());
    let mut replaced: Vec<PathBuf> =
        left().filter(|file| overwrite && exists(&file.to)).map(|file| file.to.clone()).collect();
    match (moves, overwrite) {
        ([only], true) => left()
            .try_for_each(|_| std::fs::rename(&only.from, &only.to))
            .map_err(|error| failed((&only.to, error)))?,
        _ => rename_all(&left().collect::<Vec<_>>(), &replaced)
            .inspect_err(|_| undo(moves))
            .map_err(failed)?,
    }
    for file in moves.iter().filter(|file| exists(&aside(&file.to))) {
        let old = aside(&file.to);
        let failed = |error| Error::io("cannot delete the replaced file", error);
        std::fs::remove_file(&old).map_err(failed).map_err(|error| error.in_file(&old))?;
        if !replaced.contains(&file.to) {
            replaced.push(file.to.clone());
        }
    }
    Ok(replaced)
}

/// Moves old files aside, and new ones to their places.
fn rename_all<'m>(
    moves: &[&'m Move],
    replaced: &'m [PathBuf],
) -> std::result::Result<(), (&'m Path, std::io::Error)> {
    for path in replaced {
        std::fs::rename(path, aside(path)).map_err(|error| (path.as_path(), error))?;
    }
    for Move { from, to } in moves.iter().rev() {
        // A file that another program has created in the meantime is not replaced.
        rename_to_new(from, to).map_err(|error| (to.as_path(), error))?;
    }
    Ok(())
}

/// Takes back what [`rename_all`] did before it failed, the first file last. What cannot be moved now is
/// restored by the next run.
fn undo(moves: &[Move]) {
    for Move { from, to } in moves.iter().rev() {
        if !from.exists() {
            let _ = std::fs::rename(to, from);
        }
        if exists(&aside(to)) {
            let _ = rename_to_new(&aside(to), to);
        }
    }
}

/// Restores the old files of a run that was killed while it replaced them. If all new ones are in their
/// places, and may be replaced, it deletes the old ones.
///
/// # Errors
///
/// `Mismatch` if another file has the name of an old one and `overwrite` is not set; `Io` if a file cannot be
/// renamed or deleted.
pub(super) fn settle(paths: &[PathBuf], overwrite: bool) -> Result<()> {
    let is_complete = paths.first().is_some_and(|path| exists(path));
    let left = || paths.iter().filter(|path| exists(&aside(path)));
    match (is_complete, overwrite) {
        (true, false) => return Ok(()),
        (false, false) => {
            if let Some(path) = left().find(|path| exists(path)) {
                let fault = "an earlier run was ended while it replaced this file";
                let error = Error::mismatch(fault)
                    .advise_option("run it again, with {}", AdvisedOption::Overwrite);
                return Err(error.in_file(path));
            }
        }
        (_, true) => {}
    }
    // As long as the first file is not restored, a run that is ended is known not to be complete.
    for path in left().rev() {
        let old = aside(path);
        let settled = match (is_complete, overwrite) {
            (true, _) => std::fs::remove_file(&old),
            (false, true) => std::fs::rename(&old, path),
            (false, false) => rename_to_new(&old, path),
        };
        settled.map_err(|error| {
            Error::io("cannot restore or delete the file of an earlier run", error).in_file(&old)
        })?;
    }
    Ok(())
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A folder with three old files, and three new ones.
    fn folder() -> (tempfile::TempDir, Vec<Move>) {
        let folder = tempfile::tempdir().expect("a folder");
        let moves: Vec<Move> = (1..=3)
            .map(|number| {
                let path = |name: &str| folder.path().join(format!("{name}{number}"));
                Move { from: path(".new"), to: path("file") }
            })
            .collect();
        for (number, Move { from, to }) in moves.iter().enumerate() {
            std::fs::write(from, format!("new {number}")).expect("a file");
            std::fs::write(to, format!("old {number}")).expect("a file");
        }
        (folder, moves)
    }

    fn contents(folder: &Path) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let file = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let source = crate::bytes::Source::open(&path, crate::bytes::Access::Read);
            let source = source.expect("a file");
            let bytes = source.bytes(0..source.len()).expect("bytes").into_owned();
            (name, String::from_utf8(bytes).expect("text"))
        };
        entries.map(file).collect()
    }

    /// Renames of a run that is ended after each of its steps: the next one finds all old files.
    #[test]
    fn old_files_are_restored_after_each_step() {
        for steps in 0..6 {
            let (folder, moves) = folder();
            let before = contents(folder.path());
            let aside_first = moves.iter().map(|file| (file.to.clone(), aside(&file.to)));
            let then = moves.iter().rev().map(|file| (file.from.clone(), file.to.clone()));
            for (from, to) in aside_first.chain(then).take(steps) {
                std::fs::rename(from, to).expect("a rename");
            }
            let paths: Vec<PathBuf> = moves.iter().map(|file| file.to.clone()).collect();
            if steps > 3 {
                // Files of the new set have the names of old ones, which only a run that replaces
                // them may delete.
                settle(&paths, false).expect_err("a new file");
            } else {
                settle(&paths, false).expect("restored");
                assert_eq!(contents(folder.path()), before, "{steps}");
            }
            settle(&paths, true).expect("restored");
            let found = contents(folder.path());
            let old = |name: &str| found[name].starts_with("old");
            assert!(["file1", "file2", "file3"].into_iter().all(old), "{steps}: {found:?}");
            assert!(found.keys().all(|name| !name.ends_with(".replaced")), "{steps}: {found:?}");
        }
    }

    #[test]
    fn new_files_take_their_places() {
        let (folder, moves) = folder();
        let before = contents(folder.path());
        // A file that cannot be moved: nothing is.
        std::fs::create_dir(aside(&moves[1].to)).expect("a folder");
        place(&moves, true).expect_err("a folder in the way");
        std::fs::remove_dir(aside(&moves[1].to)).expect("a folder");
        assert_eq!(contents(folder.path()), before);
        place(&moves, false).expect_err("files exist");
        assert_eq!(contents(folder.path()), before);
        let replaced = place(&moves, true).expect("files");
        assert_eq!(replaced.len(), 3);
        let found = contents(folder.path());
        assert_eq!(found.keys().collect::<Vec<_>>(), ["file1", "file2", "file3"]);
        assert!(found.values().all(|text| text.starts_with("new")), "{found:?}");
        // The last steps of a run that was ended once all new files had their places.
        std::fs::write(aside(&moves[2].to), "old 2").expect("a file");
        let paths: Vec<PathBuf> = moves.iter().map(|file| file.to.clone()).collect();
        settle(&paths, true).expect("deleted");
        assert_eq!(contents(folder.path()), found);
    }
}
