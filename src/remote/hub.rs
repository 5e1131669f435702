//! Repositories of the Hugging Face hub: `hf://org/name[@revision][/file]`, `hf://org/name:Q4_K_M`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RemoteModel;
use super::address::escaped;
use super::cache::{self, Version};
use super::client::{Answer, Client, refused};
use super::file::RemoteFiles;
use crate::bytes::{FileSystem, Source, Text};
use crate::digest::FileDigest;
use crate::error::{Error, ErrorKind, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::place::choice;
use crate::place::hub::{HubName, is_other, is_word};

/// A repository at one commit.
#[derive(Debug)]
pub(crate) struct Repository {
    files: RemoteFiles,
    /// The path that stands for the repository: `hf://org/name@revision`.
    root: PathBuf,
    /// The address of the files at this commit.
    address: String,
    pub(crate) commit: String,
    pub(crate) listed: BTreeMap<String, ListedFile>,
}

/// A file as the hub lists it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListedFile {
    pub(crate) size: Option<u64>,
    /// The SHA-256 of a file that the hub keeps outside of git, the blob id of another.
    pub(crate) digest: Option<FileDigest>,
}

impl Repository {
    /// Asks the hub for the files of a repository.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unsupported` for a repository that holds no model; `Io` if access is refused or the hub cannot be
    /// reached; `Malformed` if its answer is not understood.
    pub(crate) fn list(name: &HubName, client: &Arc<Client>) -> Result<Self> {
        name.check_kind()?;
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
            commit: commit.to_owned(),
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

fn listed(sibling: &Json) -> Option<(String, ListedFile)> {
    let name = sibling.get("rfilename")?.as_str()?;
    // A name becomes part of paths when the repository is downloaded.
    let inside = name.split('/').all(|step| !matches!(step, "" | "." | ".."));
    let drive = cfg!(windows) && name.contains(':');
    let plain = !drive && !name.contains(['\\', '\0']) && name.len() <= 1024;
    let lfs = sibling.get("lfs");
    let hex = |json: Option<&Json>, key: &str, len: usize| {
        let text = json?.get(key)?.as_str()?;
        let is_hex = text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| text.to_ascii_lowercase())
    };
    let large = hex(lfs, "sha256", 64).map(FileDigest::Sha256);
    let small = || hex(Some(sibling), "blobId", 40).map(FileDigest::GitBlob);
    let file = ListedFile {
        size: sibling.get("size").and_then(Json::as_u64),
        digest: large.or_else(small),
    };
    (inside && plain).then(|| (name.to_owned(), file))
}

impl FileSystem for Repository {
    fn open(&self, path: &Path) -> Result<Source> {
        let name = self.name(path).filter(|name| self.listed.contains_key(*name));
        let Some(name) = name else {
            return Err(Error::not_found("no such file in the repository").in_file(path));
        };
        let digest = self.listed.get(name).and_then(|file| file.digest.clone());
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
            .advise("write hf://ORG/NAME, with @REVISION, :QUANTIZATION or /FILE after it")
    })?;
    model(&parsed, client)
}

fn model(name: &HubName, client: &Arc<Client>) -> Result<RemoteModel> {
    let repository = Repository::list(name, client)?;
    let names = || repository.listed.keys();
    let is = |ending: &'static str| move |name: &&String| name.ends_with(ending);
    let only_gguf = names().any(|name| is(".gguf")(&name))
        && !names().any(|name| is(".safetensors")(&name) || is(".npz")(&name));
    let file = match (&name.tag, &name.file) {
        (None, Some(file)) => Some(file.clone()),
        (None, None) if !only_gguf => None,
        (tag, _) => Some(choice::gguf(names(), tag.as_deref())?.clone()),
    };
    let path = repository.path(file.as_deref());
    Ok(RemoteModel { path, files: Arc::new(repository) })
}

/// Finds the model of an address of the hub's pages or files; `None` for any other address.
pub(super) fn locate_page(address: &str, client: &Arc<Client>) -> Option<Result<RemoteModel>> {
    page(address, client).map(|name| model(&name, client))
}

/// The repository, and the file, of an address of the hub's pages or files, also where a mirror stands for the hub.
pub(crate) fn page(address: &str, client: &Client) -> Option<HubName> {
    let hubs = [client.network.hub.as_str(), "https://huggingface.co", "https://hf.co"];
    let path = hubs.iter().find_map(|hub| address.strip_prefix(hub)?.strip_prefix('/'))?;
    if path.split_once('/').is_some_and(|(owner, _)| is_other(owner)) {
        return HubName::parse(path.split(['?', '#']).next()?.trim_matches('/'));
    }
    let mut steps = path.split(['?', '#']).next()?.trim_matches('/').splitn(5, '/');
    let (owner, name) = (steps.next()?, steps.next()?);
    let name = name.strip_suffix(".git").unwrap_or(name);
    let text = match (steps.next(), steps.next(), steps.next()) {
        (None, ..) => format!("{owner}/{name}"),
        (Some("tree"), Some(revision), None) => format!("{owner}/{name}@{revision}"),
        (Some("tree" | "blob" | "resolve"), Some(revision), Some(file)) => {
            format!("{owner}/{name}@{revision}/{file}")
        }
        _ => return None,
    };
    HubName::parse(&text)
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
        _ => refused(answer),
    }
}
