//! Names of the models in Ollama's stores, and the locations of the stores.

use std::fmt;
use std::path::{Path, PathBuf};

/// A name of the form `[host/][namespace/]model[:tag]`. Each part is validated, so that it can
/// become part of a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ModelName {
    pub(crate) host: String,
    pub(crate) namespace: String,
    pub(crate) model: String,
    pub(crate) tag: String,
}

/// The host of models whose name has no host (types/model/name.go).
const HOST: &str = "registry.ollama.ai";

/// The names of the public host; the second tree of manifests uses the second.
const PUBLIC: [&str; 2] = [HOST, "ollama.com"];

const NAMESPACE: &str = "library";
const TAG: &str = "latest";

impl ModelName {
    /// Returns `None` if the text is not a name in Ollama's grammar.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        // A tag follows the last colon, unless a slash comes after it: hosts have ports.
        let (path, tag) = match text.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (text, TAG),
        };
        let (rest, model) = path.rsplit_once('/').map_or(("", path), |(rest, model)| (rest, model));
        let named = !rest.is_empty() || path.contains('/');
        let (host, namespace) = match rest.rsplit_once('/') {
            Some((host, namespace)) => (host, namespace),
            None if named => (HOST, rest),
            None => (HOST, NAMESPACE),
        };
        let valid = is_part(host, 350, b".-_:")
            && is_part(namespace, 80, b"-_")
            && is_part(model, 80, b".-_")
            && is_part(tag, 80, b".-_");
        valid.then(|| Self {
            host: host.to_owned(),
            namespace: namespace.to_owned(),
            model: model.to_owned(),
            tag: tag.to_owned(),
        })
    }

    /// Whether the model is in Ollama's own registry.
    #[cfg(feature = "http")]
    pub(crate) fn is_public(&self) -> bool {
        PUBLIC.contains(&self.host.to_ascii_lowercase().as_str())
    }

    /// The path to which the manifest is written. Existing folders and files keep their upper or
    /// lower case.
    pub(crate) fn place(&self, store: &Path) -> PathBuf {
        let parts = [&self.host, &self.namespace, &self.model, &self.tag];
        let found = |at: PathBuf, part: &String| entry(&at, part).unwrap_or_else(|| at.join(part));
        parts.into_iter().fold(store.join(WRITTEN), found)
    }

    /// The path of the manifest in one of the store's trees, found without regard to case.
    pub(crate) fn find(&self, store: &Path) -> Option<PathBuf> {
        let hosts: Vec<&str> = if PUBLIC.contains(&self.host.to_ascii_lowercase().as_str()) {
            PUBLIC.to_vec()
        } else {
            vec![&self.host]
        };
        for tree in TREES {
            for host in &hosts {
                // The second tree escapes colons, which Windows does not allow in names.
                for host in [(*host).to_owned(), host.replace(':', "%3A")] {
                    let parts = [host.as_str(), &self.namespace, &self.model, &self.tag];
                    let found =
                        parts.iter().try_fold(store.join(tree), |at, part| entry(&at, part));
                    if let Some(found) = found.filter(|path| path.is_file()) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }
}

/// The name of the model with a manifest at `path`, as Ollama shows it; `None` if the path is not
/// that of a model name.
pub(crate) fn name_of_manifest(path: &Path) -> Option<String> {
    let mut parts = path.iter().rev().filter_map(|part| part.to_str());
    let (tag, model) = (parts.next()?, parts.next()?);
    let (namespace, host) = (parts.next()?, parts.next()?.replace("%3A", ":"));
    ModelName::parse(&format!("{host}/{namespace}/{model}:{tag}"))?;
    Some(match (host.as_str(), namespace) {
        ("registry.ollama.ai" | "ollama.com", "library") => format!("{model}:{tag}"),
        ("registry.ollama.ai" | "ollama.com", namespace) => format!("{namespace}/{model}:{tag}"),
        (host, namespace) => format!("{host}/{namespace}/{model}:{tag}"),
    })
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, namespace, model, tag } = self;
        write!(f, "ollama://{host}/{namespace}/{model}:{tag}")
    }
}

/// The trees of manifests in a store. The first takes precedence.
pub(crate) const TREES: [&str; 2] = ["manifests-v2", WRITTEN];

/// The tree for writing: servers that do not know the other tree would delete its blobs.
pub(crate) const WRITTEN: &str = "manifests";

/// The path of the entry with this name, in the case of the existing entry.
fn entry(folder: &Path, name: &str) -> Option<PathBuf> {
    let exact = folder.join(name);
    if exact.exists() {
        return Some(exact);
    }
    let entries = std::fs::read_dir(folder).ok()?;
    let same =
        |other: &std::ffi::OsString| other.to_str().is_some_and(|o| o.eq_ignore_ascii_case(name));
    entries.flatten().map(|entry| entry.file_name()).find(same).map(|other| folder.join(other))
}

/// Whether a part starts with a letter, digit or underscore, continues with those or `more`, and
/// has at most `longest` bytes.
fn is_part(part: &str, longest: usize, more: &[u8]) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    part.len() <= longest
        && part.bytes().next().is_some_and(word)
        && part.bytes().all(|byte| word(byte) || more.contains(&byte))
}

/// The possible locations of stores: `OLLAMA_MODELS`, else the user's folder and that of the Linux
/// package.
pub(crate) fn stores() -> Vec<PathBuf> {
    if let Some(set) = set_store() {
        return vec![set];
    }
    let package = PathBuf::from("/usr/share/ollama/.ollama/models");
    own_store().into_iter().chain([package]).collect()
}

/// The store of this user's Ollama: `OLLAMA_MODELS`, or a folder in the home directory.
pub(crate) fn own_store() -> Option<PathBuf> {
    set_store().or_else(|| Some(std::env::home_dir()?.join(".ollama/models")))
}

fn set_store() -> Option<PathBuf> {
    let set = std::env::var_os("OLLAMA_MODELS")?;
    let text = set.to_string_lossy();
    let text = text.trim().trim_matches(['"', '\'']);
    (!text.is_empty()).then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_ollama_reads_them() {
        let parts = |text: &str| {
            ModelName::parse(text)
                .map(|n| format!("{} {} {} {}", n.host, n.namespace, n.model, n.tag))
        };
        let cases = [
            ("llama3", "registry.ollama.ai library llama3 latest"),
            ("hf.co/u/m:Q4_K_M", "hf.co u m Q4_K_M"),
            ("http://localhost:5000/ns/m:t", "localhost:5000 ns m t"),
            ("ns/m", "registry.ollama.ai ns m latest"),
            ("_x:_y", "registry.ollama.ai library _x _y"),
            ("a.b-c:1.0", "registry.ollama.ai library a.b-c 1.0"),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text).as_deref(), Some(expected), "{text}");
        }
        let long = "a".repeat(81);
        let wrong = [
            "x:-y",
            "m:",
            ":t",
            "/m",
            "a/../b:c",
            "../../etc",
            "m@sha256:aa",
            "\u{e9}",
            &long,
            "",
            "a/b/c/d",
            ".hidden",
            "a b",
            "a\\b",
            "n.s/m",
        ];
        for text in wrong {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
