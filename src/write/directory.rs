//! Directories at a destination: which may be replaced, and how a new one takes the place of an old one.
//!
//! ```text
//!  .NAME.partial    the new directory in the making
//!  .NAME.replaced   the old one, from the exchange until its files are deleted
//! ```
//!
//! Only a directory that holds one model and nothing else is replaced. That is checked before the first
//! byte is written, again before the exchange, and once more before the files of the old directory are
//! deleted, one by one. A run that is killed leaves either model whole, and the next run with the same
//! destination [settles](settle) what is left.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::OutFile;
use super::rename::exists;
use crate::bytes::{Access, Source, Text, open_folder};
use crate::container::safetensors::indexed_files;
use crate::error::{Error, ErrorKind, Result};
use crate::place::choice::is_folder_of_model;
use crate::store::folder;

/// The most names that an error lists.
const SHOWN: usize = 8;

/// The file with all weights of a model.
const WEIGHTS: &str = "model.safetensors";

/// The file that names the files with the weights.
const INDEX: &str = "model.safetensors.index.json";

/// The file that describes the model.
const CONFIG: &str = "config.json";

/// The content of a directory, as a model. Paths are relative, with `/` between names.
#[derive(Debug, Default)]
struct Content {
    /// The files of the model: weights first, so that a model that is half deleted is not whole.
    files: Vec<String>,
    /// The folders of the model, outermost first.
    folders: Vec<String>,
    /// Everything else.
    foreign: Vec<String>,
    /// The parts that a whole model would also have, as the end of a sentence.
    lacks: Option<String>,
}

/// The files of a directory that one with the files `new` may replace, as relative paths. An empty
/// directory has none, and may be replaced without `overwrite`.
///
/// # Errors
///
/// `Mismatch` if the directory is not one model, naming what else it has or what it lacks; `Io` if it
/// cannot be listed.
pub(super) fn replaceable(path: &Path, new: &[OutFile], overwrite: bool) -> Result<Vec<String>> {
    // A symbolic link whose target does not exist.
    if path.is_symlink() && !path.exists() {
        return if overwrite { Ok(Vec::new()) } else { Err(exists(path)) };
    }
    let Content { files, foreign, lacks, .. } = Content::of(path, new)?;
    if files.is_empty() && foreign.is_empty() {
        return Ok(files);
    }
    let (fault, advice) = match (foreign.as_slice(), lacks) {
        ([], None) if overwrite => return Ok(files),
        ([], None) => return Err(exists(path)),
        ([], Some(lacks)) => (lacks, "delete it, or give another name"),
        (foreign, _) => (
            format!("it also has {}", listed(foreign)),
            "move these files away, or give another name",
        ),
    };
    let exists = if overwrite { "" } else { "already exists, and " };
    let fault = format!("{exists}only a directory that is one model is replaced: {fault}");
    Err(Error::mismatch(fault).advise(advice).in_file(path))
}

/// The hidden name of what the file or directory at `path` replaces.
pub(super) fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.replaced"))
}

/// The identity of a directory whatever its name, on systems that can exchange directories.
#[cfg(unix)]
pub(super) fn identity(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let found = path.symlink_metadata().ok()?;
    Some(format!("{}:{}", found.dev(), found.ino()))
}

#[cfg(not(unix))]
pub(super) fn identity(_: &Path) -> Option<String> {
    None
}

/// Restores or deletes the directory that a killed run was replacing.
///
/// # Errors
///
/// `Io` if another program is replacing it now, or the directory cannot be renamed or deleted;
/// `Mismatch` if it has files that are not of the model.
pub(super) fn settle(path: &Path, new: &[OutFile]) -> Result<()> {
    let aside = aside(path);
    if aside.symlink_metadata().is_err() {
        return Ok(());
    }
    let lock = open_folder(&aside);
    if let Ok(Err(TryLockError::WouldBlock)) = lock.as_ref().map(File::try_lock) {
        let fault = "another program is writing this directory";
        return Err(Error::new(ErrorKind::Io, fault).in_file(path));
    }
    let half_deleted = || {
        let content = Content::of(&aside, new)?;
        Ok::<_, Error>(content.foreign.is_empty() && content.lacks.is_some())
    };
    match path.symlink_metadata().is_err() && (aside.is_symlink() || !half_deleted()?) {
        true => std::fs::rename(&aside, path).map_err(failed("rename", &aside)),
        false => delete(&aside, new),
    }
}

/// Puts the complete directory `new`, which has these files, at `path`. Returns the files of the old
/// directory, which are deleted; for a symbolic link, nothing else than the link.
///
/// # Errors
///
/// As [`replaceable`] for the old directory, which then stays; `Io` if a directory cannot be renamed, or the
/// old one cannot be deleted.
pub(super) fn install(
    new: &Path,
    path: &Path,
    files: &[OutFile],
    overwrite: bool,
) -> Result<Vec<PathBuf>> {
    let renamed = failed("rename", path);
    if path.symlink_metadata().is_err() {
        std::fs::rename(new, path).map_err(renamed)?;
        return Ok(Vec::new());
    }
    replaceable(path, files, overwrite)?;
    let aside = aside(path);
    // Another run does not settle what this one is exchanging.
    let _lock = open_folder(new).ok().filter(|new| new.try_lock().is_ok());
    exchange(new, &aside, path).map_err(renamed)?;
    // Files may have appeared until the exchange.
    let deleted = match replaceable(&aside, files, overwrite) {
        Ok(names) => names,
        Err(error) => {
            let undone = std::fs::rename(path, new).and_then(|()| std::fs::rename(&aside, path));
            undone.map_err(failed("rename", &aside))?;
            return Err(error);
        }
    };
    let is_link = aside.is_symlink();
    delete(&aside, files)?;
    Ok(match is_link {
        true => vec![path.to_path_buf()],
        false => deleted.iter().map(|name| path.join(name)).collect(),
    })
}

impl Content {
    fn of(path: &Path, new: &[OutFile]) -> Result<Self> {
        let mut this = Self::default();
        let mut found = Vec::new();
        this.walk(path, "", &mut found)?;
        let (weights, lacks) = weights(path, &found);
        this.lacks = lacks;
        let writes_config = new.iter().any(|file| file.name == CONFIG);
        if writes_config && !found.iter().any(|name| name == CONFIG) {
            this.lacks = Some(format!("it has no {CONFIG}"));
        }
        for name in found {
            let is_weights = weights.contains(&name);
            let is_known = is_weights || name == INDEX || folder::is_document(&name);
            match is_known || new.iter().any(|file| is_same(&path.join(&name), &name, file)) {
                true => this.files.push(name),
                false => this.foreign.push(name),
            }
        }
        // The config and the index are the last to be deleted.
        let rank = |name: &String| match name.as_str() {
            CONFIG => 3,
            INDEX => 2,
            _ => u8::from(!weights.contains(name)),
        };
        this.files.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
        this.foreign.sort();
        Ok(this)
    }

    /// Lists files. Only folders in which a model has documents are entered.
    fn walk(&mut self, path: &Path, within: &str, found: &mut Vec<String>) -> Result<()> {
        let failed = |error| Error::io("cannot list the directory", error).in_file(path);
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let shown = format!("{within}{}", name.to_string_lossy());
            // A symbolic link to a folder is a file: its target is not entered.
            let is_folder = entry.file_type().map_err(failed)?.is_dir();
            match (name.to_str(), is_folder) {
                (Some(_), false) => found.push(shown),
                (Some(_), true) if is_folder_of_model(&shown) => {
                    self.folders.push(shown.clone());
                    self.walk(&entry.path(), &format!("{shown}/"), found)?;
                }
                (_, true) => self.foreign.push(format!("{shown}/")),
                (None, false) => self.foreign.push(shown),
            }
        }
        Ok(())
    }
}

/// The weights among the files of a directory, and what they lack to be those of one model: those that the
/// index names, else `model.safetensors`, else the files of all ranks.
fn weights(path: &Path, files: &[String]) -> (Vec<String>, Option<String>) {
    let has = |name: &str| files.iter().any(|file| file == name);
    if has(INDEX) {
        let named = match indexed_files(&path.join(INDEX)) {
            Ok(named) => named,
            Err(error) => return (Vec::new(), Some(format!("{INDEX} cannot be read: {error}"))),
        };
        let weights: Vec<String> =
            named.into_iter().filter(|name| name.ends_with(".safetensors")).collect();
        let missing = weights.iter().find(|name| !has(name));
        let lacks = match (weights.as_slice(), missing) {
            ([], _) => Some(format!("{INDEX} names no weights")),
            (_, Some(name)) => Some(format!(
                "it has no \"{}\", which {INDEX} names",
                Text::new(name.as_bytes()).brief()
            )),
            _ => None,
        };
        return (weights, lacks);
    }
    if has(WEIGHTS) {
        return (vec![WEIGHTS.to_owned()], None);
    }
    let ranks: Vec<&String> = files.iter().filter(|name| rank_and_part(name).is_some()).collect();
    let lacks = match ranks.is_empty() {
        true => Some(format!("it has neither {WEIGHTS} nor {INDEX}")),
        false => missing_part(&ranks).map(|name| format!("it has no {name}")),
    };
    (ranks.into_iter().cloned().collect(), lacks)
}

/// The rank and the part that a file holds, as vLLM names those of `sharded_state`.
fn rank_and_part(name: &str) -> Option<(u64, u64)> {
    let (rank, part) = name.strip_prefix("model-rank-")?.split_once("-part-")?;
    Some((rank.parse().ok()?, part.strip_suffix(".safetensors")?.parse().ok()?))
}

/// The first file that is missing between those of ranks.
fn missing_part(names: &[&String]) -> Option<String> {
    let mut parts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (rank, part) in names.iter().filter_map(|name| rank_and_part(name)) {
        parts.entry(rank).or_default().push(part);
    }
    (0..).zip(parts).find_map(|(number, (rank, mut own))| {
        own.sort_unstable();
        let absent = match rank == number {
            true => (0..).zip(own).find(|(number, part)| number != part).map(|(part, _)| part)?,
            false => 0,
        };
        Some(format!("model-rank-{number}-part-{absent}.safetensors"))
    })
}

/// Whether a file has the bytes of a document that is written under its name, so that nothing is lost.
fn is_same(path: &Path, name: &str, new: &OutFile) -> bool {
    let len = new.header.len() as u64;
    let is_document = new.name == name && new.tensors.is_empty() && new.len == len;
    let is_as_long = || path.metadata().is_ok_and(|found| found.is_file() && found.len() == len);
    is_document
        && is_as_long()
        && Source::open(path, Access::Read)
            .and_then(|source| Ok(*source.bytes(0..source.len())? == *new.header))
            .unwrap_or(false)
}

/// `"a", "b" and 3 more`.
fn listed(names: &[String]) -> String {
    let brief = |name: &String| format!("\"{}\"", Text::new(name.as_bytes()).brief());
    let shown: Vec<String> = names.iter().take(SHOWN).map(brief).collect();
    let more = names.len().saturating_sub(SHOWN);
    match (shown.split_last(), more) {
        (Some((last, [])), 0) => last.clone(),
        (Some((last, first)), 0) => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Deletes a directory that was replaced: the files of its model, one by one. Of a symbolic link, only the
/// link is deleted.
fn delete(aside: &Path, new: &[OutFile]) -> Result<()> {
    if aside.is_symlink() {
        return std::fs::remove_file(aside).map_err(failed("delete", aside));
    }
    let Content { files, folders, foreign, .. } = Content::of(aside, new)?;
    if !foreign.is_empty() {
        let fault = format!("the old directory is not deleted: it also has {}", listed(&foreign));
        let advice = "move these files away, then delete the directory or run the command again";
        return Err(Error::mismatch(fault).advise(advice).in_file(aside));
    }
    for name in files {
        gone(std::fs::remove_file(aside.join(name))).map_err(failed("delete", aside))?;
    }
    for name in folders.iter().rev() {
        gone(std::fs::remove_dir(aside.join(name))).map_err(failed("delete", aside))?;
    }
    gone(std::fs::remove_dir(aside)).map_err(failed("delete", aside))
}

/// Success, too, if another program deleted it.
fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn failed<'p>(what: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Error + Copy + 'p {
    let what = match what {
        "rename" => "cannot rename the directory",
        _ => "cannot delete the replaced directory; the new one is in its place",
    };
    move |error| Error::io(what, error).in_file(path)
}

/// Moves the old directory from `path` to `aside`, and the new one to `path`, in one step.
#[cfg(target_os = "linux")]
fn exchange(new: &Path, aside: &Path, path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    // The next run deletes what it finds under the name of unfinished files, so the old directory
    // must never have it.
    std::fs::rename(new, aside)?;
    let exchanged = renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE);
    let Err(error) = exchanged else { return Ok(()) };
    std::fs::rename(aside, new)?;
    match error {
        Errno::INVAL | Errno::NOSYS => exchange_in_steps(new, aside, path),
        error => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(new: &Path, aside: &Path, path: &Path) -> std::io::Result<()> {
    exchange_in_steps(new, aside, path)
}

/// Like `exchange`, in two steps, where the system cannot do it in one. Between them there is no
/// directory at `path`; [`settle`] restores the old one.
fn exchange_in_steps(new: &Path, aside: &Path, path: &Path) -> std::io::Result<()> {
    std::fs::rename(path, aside)?;
    std::fs::rename(new, path).inspect_err(|_| {
        let _ = std::fs::rename(aside, path);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for name in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, name).expect("a file");
        }
        folder
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("an entry").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// If two directories cannot be exchanged in one step, each step that fails is undone.
    #[test]
    fn two_steps_instead_of_an_exchange() {
        let folder = folder(&["m/model.safetensors", ".m.partial/model.safetensors"]);
        let [path, new, aside] = ["m", ".m.partial", ".m.replaced"].map(|n| folder.path().join(n));
        let old = identity(&path);
        exchange_in_steps(&folder.path().join("none"), &aside, &path).expect_err("no such folder");
        assert_eq!(names(folder.path()), [".m.partial", "m"]);
        assert_eq!(identity(&path), old);
        exchange_in_steps(&new, &aside, &path).expect("renamed");
        assert_eq!(names(folder.path()), [".m.replaced", "m"]);
        assert_eq!(identity(&aside), old);
    }

    /// A run that was ended between two renames leaves no directory at the destination.
    #[test]
    fn the_old_directory_is_restored() {
        let folder = folder(&[".m.replaced/model.safetensors", ".m.replaced/notes.txt"]);
        let path = folder.path().join("m");
        settle(&path, &[]).expect("restored");
        assert_eq!(names(&path), ["model.safetensors", "notes.txt"]);
        assert_eq!(names(folder.path()), ["m"]);
    }

    /// The rest of a directory that was replaced is deleted, but no file of anybody else.
    #[test]
    fn a_replaced_directory_is_deleted() {
        let folder =
            folder(&["m/model.safetensors", ".m.replaced/config.json", ".m.replaced/photo.png"]);
        let (path, aside) = (folder.path().join("m"), folder.path().join(".m.replaced"));
        let error = settle(&path, &[]).expect_err("a photo");
        assert!(error.to_string().contains("it also has \"photo.png\""), "{error}");
        assert_eq!(names(&aside), ["config.json", "photo.png"]);
        std::fs::remove_file(aside.join("photo.png")).expect("a photo");
        settle(&path, &[]).expect("deleted");
        assert_eq!(names(folder.path()), ["m"]);
        // Without the new directory, half of an old one is no model to restore.
        std::fs::create_dir(&aside).expect("a folder");
        std::fs::write(aside.join("config.json"), "{}").expect("a file");
        std::fs::remove_file(path.join("model.safetensors")).expect("a file");
        std::fs::remove_dir(&path).expect("a folder");
        settle(&path, &[]).expect("deleted");
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn files_of_ranks_belong_together() {
        let missing = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|name| (*name).to_owned()).collect();
            missing_part(&files.iter().collect::<Vec<_>>())
        };
        let name = |rank, part| format!("model-rank-{rank}-part-{part}.safetensors");
        let [a, b, c] = [name(0, 0), name(0, 1), name(1, 0)];
        assert_eq!(missing(&[&a, &b, &c]), None);
        assert_eq!(missing(&[&c]), Some(a.clone()));
        assert_eq!(missing(&[&b, &c]), Some(a.clone()));
        assert_eq!(missing(&[&a, &name(0, 2)]), Some(b.clone()));
        assert_eq!(missing(&[&a, &name(2, 0)]), Some(c.clone()));
    }

    #[test]
    fn many_names_are_counted() {
        let names: Vec<String> = (0..11).map(|number| number.to_string()).collect();
        assert_eq!(listed(&names[..1]), "\"0\"");
        assert_eq!(listed(&names[..3]), "\"0\", \"1\" and \"2\"");
        assert!(listed(&names).ends_with("\"7\" and 3 more"), "{}", listed(&names));
    }
}
