//! Repositories of the Hugging Face hub: `hf://org/name[@revision][/file]`, `hf://org/name:Q4_K_M`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use super::RemoteModel;
use super::cache::{self, Version};
use super::client::{Answer, Client, escaped, origin, refused};
use super::file::RemoteFiles;
use crate::bytes::{FileSystem, Source, Text};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::Limits;

/// A name of the hub, taken apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HubName {
    /// `org/name`.
    pub(crate) repository: String,
    /// A branch, a tag or a commit.
    pub(crate) revision: String,
    /// A file or a folder in the repository.
    pub(crate) file: Option<String>,
    /// Which of several GGUF files: `Q4_K_M`.
    pub(crate) tag: Option<String>,
}

impl HubName {
    /// Takes `org/name[@revision][:tag][/file]` apart; `None` if it is no such name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '/');
        let (owner, rest, file) = (parts.next()?, parts.next()?, parts.next());
        let (rest, tag) = match rest.split_once(':') {
            Some((rest, tag)) if file.is_none() => (rest, Some(tag)),
            _ => (rest, None),
        };
        // A revision with a slash, such as refs/pr/1, is written with %2F.
        let (name, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let file = file.filter(|file| !file.is_empty());
        let steps_out = |path: &str| path.split('/').any(|step| matches!(step, "" | "." | ".."));
        let valid = is_word(owner)
            && is_word(name)
            && is_word(&revision.replace("%2F", "_"))
            && tag.is_none_or(is_word)
            && file.is_none_or(|file| !steps_out(file));
        valid.then(|| Self {
            repository: format!("{owner}/{name}"),
            revision: revision.replace("%2F", "/"),
            file: file.map(str::to_owned),
            tag: tag.map(str::to_owned),
        })
    }
}

/// Whether a part of a name is one: letters, digits, `-`, `_` and `.`, but not dots alone.
fn is_word(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=96).contains(&part.len())
        && part.bytes().all(allowed)
        && !part.bytes().all(|byte| byte == b'.')
}

/// A repository at one commit.
#[derive(Debug)]
pub(crate) struct Repository {
    files: RemoteFiles,
    /// The path that stands for the repository: `hf://org/name@revision`.
    root: PathBuf,
    /// The address of the files at this commit.
    address: String,
    pub(crate) listed: BTreeMap<String, ListedFile>,
}

/// A file as the hub lists it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListedFile {
    /// The SHA-256, of a file that the hub keeps outside of git.
    pub(crate) sha256: Option<String>,
}

impl Repository {
    /// Asks the hub for the files of a repository.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Io` if access is refused or the hub cannot be reached; `Malformed` if its
    /// answer is not understood.
    pub(crate) fn list(name: &HubName, client: &Arc<Client>) -> Result<Self> {
        let HubName { repository, revision, .. } = name;
        let hub = &client.network.hub;
        let json = crate::store::document::parse(&listing(name, client)?, &Limits::default())?;
        let commit = json.get("sha").and_then(Json::as_str).filter(|sha| is_word(sha));
        let siblings = json.get("siblings").and_then(Json::as_array);
        let (Some(commit), Some(siblings)) = (commit, siblings) else {
            return Err(Error::malformed("the hub's answer lists no files"));
        };
        let root = format!("hf://{repository}@{}", revision.replace('/', "%2F"));
        Ok(Self {
            files: RemoteFiles::new(client),
            root: PathBuf::from(root),
            address: format!("{hub}/{repository}/resolve/{commit}"),
            listed: siblings.iter().filter_map(listed).collect(),
        })
    }

    /// The path of a file or folder of the repository.
    pub(crate) fn path(&self, file: Option<&str>) -> PathBuf {
        file.map_or_else(|| self.root.clone(), |file| self.root.join(file))
    }

    /// The address of a file.
    pub(crate) fn address(&self, file: &str) -> String {
        format!("{}/{}", self.address, escaped(file))
    }

    /// The GGUF file that a tag such as `Q4_K_M` means; of a split one the first shard.
    ///
    /// # Errors
    ///
    /// `NotFound` with the tags that exist.
    pub(crate) fn tagged(&self, tag: &str) -> Result<String> {
        let models = gguf_files(self.listed.keys());
        let upper = tag.to_ascii_uppercase();
        let fits = |file: &&&String| quantization(file).is_some_and(|found| found == upper);
        let found: Vec<&&String> = models.iter().filter(fits).collect();
        match found.as_slice() {
            [one] => return Ok((**one).clone()),
            // `latest` is what Ollama adds where no tag is given.
            [] if upper == "LATEST" => {
                let usual = ["Q4_K_M", "Q4_0", "Q8_0"];
                let choice = usual.iter().find_map(|wanted| {
                    models.iter().find(|file| quantization(file).as_deref() == Some(wanted))
                });
                if let Some(choice) = choice.or(models.first()) {
                    return Ok((*choice).clone());
                }
            }
            [] => {}
            several => {
                let list: Vec<&str> = several.iter().map(|file| file.as_str()).collect();
                let fault = format!("several files are {tag}: {}", list.join(", "));
                let error = Error::mismatch(fault);
                return Err(error.advise("give the file: hf://ORG/NAME/FILE"));
            }
        }
        let mut tags: Vec<String> = models.iter().filter_map(|file| quantization(file)).collect();
        tags.sort();
        tags.dedup();
        let error = Error::not_found(format!("no GGUF file of the repository is {tag}"));
        Err(match tags.is_empty() {
            true => error.advise("it has no GGUF files"),
            false => error.advise(format!("it has {}", tags.join(", "))),
        })
    }
}

/// The hub's list of a repository's files; when offline, the one that an earlier run kept.
fn listing(name: &HubName, client: &Arc<Client>) -> Result<Vec<u8>> {
    let network = &client.network;
    let revision = escaped(&name.revision).replace('/', "%2F");
    let address = format!("{}/api/models/{}/revision/{revision}", network.hub, name.repository);
    if network.offline
        && let Some(kept) = cache::read(network, &address)?
    {
        return Ok(kept.start);
    }
    let mut answer = client.get(&format!("{address}?blobs=true"), None)?;
    if answer.status != 200 {
        return Err(refused_by_hub(&answer, name, network.token.is_some()));
    }
    let most = Limits::default().document_bytes;
    let mut text = Vec::new();
    let read = answer.reader().take(most.saturating_add(1)).read_to_end(&mut text);
    read.map_err(|error| Error::io("cannot read the hub's answer", error))?;
    if text.len() as u64 > most {
        return Err(Error::limit("bytes of JSON", text.len() as u64, most, "document_bytes"));
    }
    let version = Version { size: text.len() as u64, ..Version::default() };
    // A cache that cannot be written is no error.
    let _ = cache::write(network, &address, &version, &text);
    Ok(text)
}

/// The GGUF files of models among some names: no projectors, no importance matrices, of shards the
/// first.
fn gguf_files<'n>(names: impl Iterator<Item = &'n String>) -> Vec<&'n String> {
    let is_model = |name: &&String| {
        let lower = name.to_ascii_lowercase();
        let later = lower.contains("-of-") && !lower.contains("-00001-of-");
        lower.ends_with(".gguf")
            && !lower.contains("mmproj")
            && !lower.contains("imatrix")
            && !later
    };
    names.filter(is_model).collect()
}

/// The quantization in the name of a GGUF file: its last part that begins like one.
fn quantization(file: &str) -> Option<String> {
    let stem = file.rsplit('/').next()?.rsplit_once('.')?.0;
    let stem = stem.split("-00001-of-").next()?.to_ascii_uppercase();
    let starts = ["Q", "IQ", "TQ", "BF16", "F16", "F32", "FP16", "MXFP4", "NVFP4"];
    let is_one = |part: &&str| {
        starts.iter().any(|start| {
            let rest = part.strip_prefix(start);
            rest.is_some_and(|rest| {
                let numbered = start.ends_with('Q');
                !numbered && rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit())
            })
        })
    };
    stem.split(['-', '.', ' ']).rfind(is_one).map(str::to_owned)
}

fn listed(sibling: &Json) -> Option<(String, ListedFile)> {
    let name = sibling.get("rfilename")?.as_str()?;
    // A name becomes part of paths when the repository is downloaded.
    let inside = name.split('/').all(|step| !matches!(step, "" | "." | ".."));
    let plain = !name.contains(['\\', '\0']) && name.len() <= 1024;
    let lfs = sibling.get("lfs");
    let text = |json: Option<&Json>, key: &str| json?.get(key)?.as_str().map(str::to_owned);
    let is_hex = |hex: &String| hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let file =
        ListedFile { sha256: text(lfs, "sha256").filter(|hash| hash.len() == 64 && is_hex(hash)) };
    (inside && plain).then(|| (name.to_owned(), file))
}

impl FileSystem for Repository {
    fn open(&self, path: &Path) -> Result<Source> {
        let name = self.name(path).filter(|name| self.listed.contains_key(*name));
        let Some(name) = name else {
            return Err(Error::not_found("no such file in the repository").in_file(path));
        };
        let digest = self.listed.get(name).and_then(|file| file.sha256.as_deref());
        self.files.open(&self.address(name), path, digest)
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let inside = if folder == self.root { Some("") } else { self.name(folder) };
        let prefix =
            inside.map(|name| if name.is_empty() { String::new() } else { format!("{name}/") });
        let below = |file: &String| {
            let rest = file.strip_prefix(prefix.as_deref()?)?;
            (!rest.contains('/')).then(|| rest.to_owned())
        };
        let names: Vec<String> = self.listed.keys().filter_map(below).collect();
        if names.is_empty() {
            return Err(Error::not_found("no such folder in the repository").in_file(folder));
        }
        Ok(names)
    }

    fn exists(&self, path: &Path) -> bool {
        self.name(path).is_some_and(|name| self.listed.contains_key(name))
    }
}

impl Repository {
    /// The name of a file in the repository.
    fn name<'p>(&self, path: &'p Path) -> Option<&'p str> {
        path.to_str()?.strip_prefix(self.root.to_str()?)?.strip_prefix('/')
    }
}

/// Finds the model that a name `hf://…` means.
pub(super) fn locate(name: &str, client: &Arc<Client>) -> Result<RemoteModel> {
    let parsed = HubName::parse(name.strip_prefix("hf://").unwrap_or(name)).ok_or_else(|| {
        Error::mismatch("not a name of the hub")
            .advise("write hf://ORG/NAME, with @REVISION, :QUANTIZATION or /FILE behind it")
    })?;
    model(&parsed, client)
}

fn model(name: &HubName, client: &Arc<Client>) -> Result<RemoteModel> {
    let repository = Repository::list(name, client)?;
    let file = match &name.tag {
        Some(tag) => Some(repository.tagged(tag)?),
        None => name.file.clone(),
    };
    let path = repository.path(file.as_deref());
    Ok(RemoteModel { path, files: Arc::new(repository) })
}

/// Finds the model of an address of the hub's pages or files; `None` for any other address.
pub(super) fn locate_page(address: &str, client: &Arc<Client>) -> Option<Result<RemoteModel>> {
    if origin(address) != origin(&client.network.hub) {
        return None;
    }
    let path = address.get(client.network.hub.len()..)?.split(['?', '#']).next()?;
    let mut steps = path.trim_matches('/').splitn(5, '/');
    let (owner, name) = (steps.next()?, steps.next()?);
    let text = match (steps.next(), steps.next(), steps.next()) {
        (None, ..) => format!("{owner}/{name}"),
        (Some("tree"), Some(revision), None) => format!("{owner}/{name}@{revision}"),
        (Some("tree" | "blob" | "resolve"), Some(revision), Some(file)) => {
            format!("{owner}/{name}@{revision}/{file}")
        }
        _ => return None,
    };
    HubName::parse(&text).map(|name| model(&name, client))
}

/// The hub's refusal in words: it answers 401 both for what is private and for what does not exist.
fn refused_by_hub(answer: &Answer, name: &HubName, has_token: bool) -> Error {
    let HubName { repository, revision, .. } = name;
    let said = answer.any_header("x-error-message").map(|text| Text::new(text.as_bytes()).brief());
    let error = |kind, fault: String| match &said {
        Some(said) => Error::new(kind, format!("{fault} ({said})")),
        None => Error::new(kind, fault),
    };
    let token = if has_token {
        "the token of HF_TOKEN may lack the right to read it"
    } else {
        "if it is private, set HF_TOKEN to a token that may read it"
    };
    match (answer.any_header("x-error-code"), answer.status) {
        (Some("GatedRepo"), _) => {
            error(ErrorKind::Io, format!("{repository} is gated")).advise(format!(
                "accept its conditions on {} with your account, and set HF_TOKEN",
                answer.address.split("/api/").next().unwrap_or_default()
            ))
        }
        (Some("RevisionNotFound"), _) => {
            error(ErrorKind::NotFound, format!("{repository} has no revision {revision}"))
        }
        (Some("RepoNotFound"), _) | (None, 401 | 404) => {
            error(ErrorKind::NotFound, format!("the hub shows no repository {repository}"))
                .advise(format!("check the spelling; {token}"))
        }
        (Some("DisabledRepo"), _) => {
            error(ErrorKind::Io, format!("the hub has disabled {repository}"))
        }
        (None, 403) => {
            error(ErrorKind::Io, format!("the hub refuses access to {repository}")).advise(token)
        }
        _ => refused(answer.status),
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
            ("org/name@dev:q8_0", "org/name dev  q8_0"),
        ];
        for (text, expected) in cases {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["name", "", "a/../b", "org/..", "org/na me", "org/name/../x", "org/n@a b", "/x"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn quantizations_in_names() {
        let cases = [
            ("Llama-3.2-1B-Instruct-Q4_K_M.gguf", Some("Q4_K_M")),
            ("Q8_0/model-Q8_0-00001-of-00002.gguf", Some("Q8_0")),
            ("model.q4_0.gguf", Some("Q4_0")),
            ("gemma-BF16.gguf", Some("BF16")),
            ("qwen-IQ2_XXS.gguf", Some("IQ2_XXS")),
            ("Qwen3-8B.gguf", None),
        ];
        for (file, expected) in cases {
            assert_eq!(quantization(file).as_deref(), expected, "{file}");
        }
    }
}
