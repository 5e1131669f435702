//! Names of the Hugging Face hub, and the cache of its client on this machine.
//!
//! The cache's layout (huggingface_hub 2.4, file_download.py): `models--ORG--NAME` has `refs/BRANCH`
//! with the commit, `blobs/DIGEST`, and `snapshots/COMMIT/FILE`, links to the blobs.

use std::path::{Path, PathBuf};

use super::choice;
use crate::bytes::{Access, Files, Source};
use crate::error::{Error, ErrorKind, Result};

/// A name of the hub, taken apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HubName {
    /// `org/name`.
    pub(crate) repository: String,
    /// A branch, a tag or a commit.
    pub(crate) revision: String,
    /// A file or a folder in the repository.
    pub(crate) file: Option<String>,
    /// The quantization that selects one of several GGUF files: `Q4_K_M`.
    pub(crate) tag: Option<String>,
}

/// Repositories of the hub that hold no models: the first part of their names, what they are, and how hf names them
/// (huggingface_hub 2.4, constants.py).
#[cfg(feature = "http")]
const OTHERS: [(&str, &str, &str); 3] = [
    ("datasets", "a data set", "dataset"),
    ("spaces", "a space", "space"),
    ("kernels", "a kernel", "kernel"),
];

/// Whether names that begin so are not those of models.
#[cfg(feature = "http")]
pub(crate) fn is_other(owner: &str) -> bool {
    OTHERS.iter().any(|(start, ..)| *start == owner)
}

impl HubName {
    /// Refuses a name of another kind of repository.
    #[cfg(feature = "http")]
    pub(crate) fn check_kind(&self) -> Result<()> {
        let (owner, name) = self.repository.split_once('/').unwrap_or_default();
        let Some((_, what, kind)) = OTHERS.iter().find(|(start, ..)| *start == owner) else {
            return Ok(());
        };
        let rest = self.file.as_deref().and_then(|file| file.split('/').next());
        let name = rest.map_or_else(|| name.to_owned(), |rest| format!("{name}/{rest}"));
        let error = Error::unsupported(format!("{name} is {what} of the hub, not a model"));
        Err(error.advise(format!("`hf download --repo-type {kind} {name}` downloads it")))
    }

    /// Takes `org/name[@revision][:tag][/file]` apart, also with the tag before the revision, or after the
    /// hub's host; `None` if it is no such name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = without_host(text).splitn(3, '/');
        let (owner, rest, file) = (parts.next()?, parts.next()?, parts.next());
        let end = rest.find(['@', ':']).unwrap_or(rest.len());
        let (name, mut marks) = rest.split_at_checked(end)?;
        let (mut revision, mut tag) = (None, None);
        while let Some(mark) = marks.chars().next() {
            let after = marks.get(1..)?;
            let end = after.find(['@', ':']).unwrap_or(after.len());
            let (word, rest) = after.split_at_checked(end)?;
            let of = if mark == '@' { &mut revision } else { &mut tag };
            if of.replace(word).is_some() {
                return None;
            }
            marks = rest;
        }
        // A revision with a slash, such as refs/pr/1, is written with %2F.
        let revision = revision.unwrap_or("main");
        let file = file.filter(|file| !file.is_empty());
        let steps_out = |path: &str| path.split('/').any(|step| matches!(step, "" | "." | ".."));
        let valid = is_word(owner)
            && is_word(name)
            && is_word(&revision.replace("%2F", "_"))
            && !steps_out(&revision.replace("%2F", "/"))
            && tag.is_none_or(is_word)
            && (tag.is_none() || file.is_none())
            && file.is_none_or(|file| !steps_out(file));
        valid.then(|| Self {
            repository: format!("{owner}/{name}"),
            revision: revision.replace("%2F", "/"),
            file: file.map(str::to_owned),
            tag: tag.map(str::to_owned),
        })
    }

    /// The name of the repository's folder in the cache.
    pub(crate) fn folder(&self) -> String {
        folder(&self.repository)
    }
}

/// The name of a repository's folder in the cache.
fn folder(repository: &str) -> String {
    format!("models--{}", repository.replace('/', "--"))
}

/// The commits of a repository that the cache has, in order.
pub(crate) fn snapshots(repository: &str) -> Vec<String> {
    let folder = cache().map(|cache| cache.join(folder(repository)).join("snapshots"));
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|name| is_word(name)).collect();
    found.sort();
    found
}

/// A name without the host that browsers, and Ollama, put before it: `hf.co/org/name`.
pub(crate) fn without_host(text: &str) -> &str {
    let hosts = ["hf.co/", "huggingface.co/", "www.huggingface.co/", "hf:"];
    let found = hosts.iter().find_map(|host| text.strip_prefix(host));
    found.filter(|rest| rest.contains('/') && !rest.starts_with('/')).unwrap_or(text)
}

/// Whether a part of a name is one: letters, digits, `-`, `_` and `.`, but not dots alone.
pub(crate) fn is_word(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=96).contains(&part.len())
        && part.bytes().all(allowed)
        && !part.bytes().all(|byte| byte == b'.')
}

/// Whether a revision is a commit, which no reference names.
#[cfg(feature = "http")]
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|set| !set.is_empty()).map(PathBuf::from)
}

/// The folder of the hub's client: `HF_HOME`, else `huggingface` in the user's cache.
pub(crate) fn home() -> Option<PathBuf> {
    set("HF_HOME")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("huggingface")))
        .or_else(|| Some(std::env::home_dir()?.join(".cache/huggingface")))
}

/// The folder of the hub's cache: `HF_HUB_CACHE`, its old name, or `hub` in the client's folder.
pub(crate) fn cache() -> Option<PathBuf> {
    set("HF_HUB_CACHE")
        .or_else(|| set("HUGGINGFACE_HUB_CACHE"))
        .or_else(|| Some(home()?.join("hub")))
}

/// Whether the client makes links in snapshots (huggingface_hub 2.4, constants.py).
#[cfg(feature = "http")]
pub(crate) fn has_links() -> bool {
    let set = std::env::var("HF_HUB_DISABLE_SYMLINKS").unwrap_or_default().to_ascii_uppercase();
    !["1", "ON", "YES", "TRUE"].contains(&set.as_str())
}

/// The folder or file of the cache that a name means; `None` if the repository or the revision is
/// not in it.
///
/// # Errors
///
/// Same as [`choice::gguf`].
pub(crate) fn cached(name: &HubName) -> Result<Option<PathBuf>> {
    let Some(repository) = cache().map(|cache| cache.join(name.folder())) else { return Ok(None) };
    let Some(snapshot) = snapshot(&repository, &name.revision) else { return Ok(None) };
    match &name.file {
        Some(file) => Ok(Some(snapshot.join(file)).filter(|path| Files::Disk.exists(path))),
        None => in_snapshot(snapshot, name.tag.as_deref()).map(Some),
    }
}

/// The snapshot of a repository's folder in the cache, or of a link to it: that of the branch main, else the only
/// one with files. `None` for any other folder.
pub(crate) fn current_snapshot(folder: &Path) -> Option<PathBuf> {
    let has = |name: &str| folder.join(name).is_dir();
    // A path that ends in dots has no name of its own.
    let absolute = std::path::absolute(folder).ok()?;
    let name = absolute.file_name().and_then(|name| name.to_str());
    let is_named = name.is_some_and(|name| name.starts_with("models--"));
    if !(has("snapshots") && (is_named || has("refs") || has("blobs"))) {
        return None;
    }
    let found = snapshot(folder, "main").or_else(|| {
        let found = std::fs::read_dir(folder.join("snapshots")).ok()?.flatten();
        let mut found = found.map(|entry| entry.path()).filter(|path| has_files(path));
        found.next().filter(|_| found.next().is_none())
    })?;
    in_snapshot(found, None).ok()
}

/// Whether a folder has files. A download that was interrupted early leaves a snapshot without any.
pub(crate) fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// The folder of a revision: of a branch or tag that a reference names, or of a commit, which may be
/// shortened to 7 digits.
pub(crate) fn snapshot(repository: &Path, revision: &str) -> Option<PathBuf> {
    let snapshots = repository.join("snapshots");
    let read = || {
        let source = Source::open(&repository.join("refs").join(revision), Access::Read).ok()?;
        let text = source.bytes(0..source.len().min(64)).ok()?;
        let commit = str::from_utf8(text.trim_ascii()).ok()?;
        is_word(commit).then(|| snapshots.join(commit))
    };
    if let Some(found) = read().filter(|path| path.is_dir()) {
        return Some(found);
    }
    let short = (7..=40).contains(&revision.len());
    if !short || !revision.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let starts = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(revision))
    };
    let mut found = std::fs::read_dir(snapshots).ok()?.flatten().map(|entry| entry.path());
    found.find(starts)
}

/// The model of a snapshot: the folder, or one of its GGUF files if a tag is given or nothing else is
/// there.
fn in_snapshot(snapshot: PathBuf, tag: Option<&str>) -> Result<PathBuf> {
    let names = files(&snapshot);
    let has = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    if tag.is_none() && (!has(".gguf") || has(".safetensors") || has(".npz")) {
        return Ok(snapshot);
    }
    choice::gguf(names.iter(), tag)
        .map(|name| snapshot.join(name))
        .map_err(|error| of_cache(error, tag).in_file(&snapshot))
}

/// The error of a file that only the cache is known to lack.
fn of_cache(error: Error, tag: Option<&str>) -> Error {
    match (tag, error.advice()) {
        (Some(tag), Some(advice)) if error.kind() == ErrorKind::NotFound => {
            let fault = format!("the cache has no GGUF file of the repository that is {tag}");
            Error::not_found(fault).advise(format!("{advice}; others must be downloaded first"))
        }
        _ => error,
    }
}

/// The names of the files of a snapshot, in order.
pub(crate) fn files(snapshot: &Path) -> Vec<String> {
    let mut names = Vec::new();
    list(snapshot, "", 0, &mut names);
    names.sort();
    names
}

/// The names of the files of a snapshot, with their folders.
fn list(folder: &Path, before: &str, depth: usize, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        // Files are links; a folder is none.
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true if depth < 4 => {
                list(&entry.path(), &format!("{before}{name}/"), depth + 1, names);
            }
            true => {}
            false => names.push(format!("{before}{name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_hub() {
        let shown = |text: &str| {
            let name = HubName::parse(text)?;
            let (file, tag) = (name.file.unwrap_or_default(), name.tag.unwrap_or_default());
            Some(format!("{} {} {file} {tag}", name.repository, name.revision))
        };
        let cases = [
            ("org/name", "org/name main  "),
            ("org/name@v1.0", "org/name v1.0  "),
            ("org/name@refs%2Fpr%2F1/a/b.gguf", "org/name refs/pr/1 a/b.gguf "),
            ("org/name:Q4_K_M", "org/name main  Q4_K_M"),
            ("org/name@dev:Q4_K_M", "org/name dev  Q4_K_M"),
            ("org/name:Q4_K_M@dev", "org/name dev  Q4_K_M"),
            ("org/name/", "org/name main  "),
            ("hf.co/org/name:Q4_K_M", "org/name main  Q4_K_M"),
            ("huggingface.co/org/name/a.gguf", "org/name main a.gguf "),
            ("hf:org/name", "org/name main  "),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "name",
            "org/",
            "/name",
            "org/..",
            "org/name/../x",
            "org/name/a//b",
            "org/na me",
            "org/name@",
            "org/name@..",
            "org/name@..%2F..%2Fx",
            "org/name@a@b",
            "org/name:Q4/file",
        ] {
            assert_eq!(HubName::parse(wrong), None, "{wrong}");
        }
    }
}
