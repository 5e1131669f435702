//! The plan of a download, and how it is run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hub_links::Links;
use super::ollama_tag::Tag;
use super::transfer::{self, Download, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::place::hub;
use crate::progress::{Callback, Watch};
use crate::remote::{Client, Network};

/// Decides about a file of a repository: `Some(true)` downloads it, `Some(false)` does not, and `None`
/// leaves it to the usual choice.
pub type Choose = Arc<dyn Fn(&str) -> Option<bool> + Send + Sync>;

/// Options of a download.
#[derive(Clone)]
#[non_exhaustive]
pub struct PullOptions {
    /// The servers, and access to them.
    pub network: Network,
    /// The folder that gets the files of a repository, instead of the hub's cache, or those of a plain
    /// address; for a model of Ollama's registry, the store.
    pub folder: Option<PathBuf>,
    /// The hub's cache. By default `HF_HUB_CACHE`, or `hub` in `HF_HOME`.
    pub hub_cache: Option<PathBuf>,
    /// Whether the snapshots of the hub's cache get links to blobs, and not files. By default they do, unless
    /// `HF_HUB_DISABLE_SYMLINKS` says otherwise.
    pub links: bool,
    /// Ollama's store. By default `OLLAMA_MODELS`, or the one in the home folder.
    pub ollama_store: Option<PathBuf>,
    /// Chooses the files of a repository that are downloaded. Without it: the weights in one form,
    /// and the documents next to them.
    pub choose: Option<Choose>,
    /// The most requests at the same time.
    pub connections: usize,
    /// The longest range that is requested at once, in bytes.
    pub piece: u64,
}

impl PullOptions {
    /// The usual options: 8 requests at a time, each of at most 64 MiB.
    pub fn new(network: Network) -> Self {
        Self {
            network,
            folder: None,
            hub_cache: None,
            links: hub::has_links(),
            ollama_store: None,
            choose: None,
            connections: 8,
            piece: 64 << 20,
        }
    }
}

impl fmt::Debug for PullOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullOptions")
            .field("network", &self.network)
            .field("folder", &self.folder)
            .field("hub_cache", &self.hub_cache)
            .field("links", &self.links)
            .field("ollama_store", &self.ollama_store)
            .field("connections", &self.connections)
            .field("piece", &self.piece)
            .finish_non_exhaustive()
    }
}

/// A planned download.
#[derive(Debug)]
#[non_exhaustive]
pub struct PullPlan {
    /// The name of the model: `hf://org/name@main`, `ollama://registry.ollama.ai/library/model:latest`.
    pub name: String,
    /// The path to open after the download.
    pub path: PathBuf,
    /// The files of the model.
    pub files: Vec<PullFile>,
    /// The files of the repository that the usual choice leaves out. Empty if files or a quantization were asked for.
    pub left_out: Vec<String>,
    /// The reason why the server was not asked. The files are those that the hub's cache has.
    pub note: Option<String>,
    pub(super) client: Arc<Client>,
    pub(super) connections: usize,
    pub(super) piece: u64,
    pub(super) downloads: Vec<Download>,
    pub(super) target: Target,
}

/// A file of a model that is downloaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PullFile {
    /// The name in the repository; of a model in Ollama's registry, the role of the blob.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The bytes that are on this machine already.
    pub present: u64,
}

/// The step that completes a model when its files are there.
#[derive(Debug)]
pub(super) enum Target {
    HubCache(Links),
    OllamaStore(Tag),
    Folder,
}

impl PullPlan {
    /// The size of the model in bytes.
    pub fn bytes(&self) -> u64 {
        match self.downloads.is_empty() {
            true => self.files.iter().map(|file| file.bytes).sum(),
            false => self.downloads.iter().map(|download| download.size).sum(),
        }
    }

    /// The bytes that will be fetched.
    pub fn missing(&self) -> u64 {
        let missing = |download: &Download| download.size.saturating_sub(download.there());
        self.downloads.iter().map(missing).sum()
    }

    /// The bytes of files that are copied from the hub's cache.
    pub fn copied(&self) -> u64 {
        self.downloads.iter().map(Download::copied).sum()
    }

    /// Downloads what is missing. `progress` is called from several threads; `Break` ends the
    /// download, and the next run continues it.
    ///
    /// # Errors
    ///
    /// `Io` if a server fails or the disk is full; `Malformed` for a file that has another digest than
    /// the server states; `Cancelled`.
    pub fn run(&self, progress: Option<Callback<'_>>) -> Result<()> {
        self.check_space()?;
        let finished = |number: usize| match &self.target {
            Target::HubCache(links) => links.make(number),
            Target::OllamaStore(_) | Target::Folder => Ok(()),
        };
        let settings = Settings {
            client: &self.client,
            connections: self.connections,
            piece: self.piece,
            watch: Watch(progress),
            finished: &finished,
        };
        transfer::run(&self.downloads, &settings)?;
        match &self.target {
            Target::HubCache(links) => links.refer(),
            Target::OllamaStore(tag) => tag.write(),
            Target::Folder => Ok(()),
        }
    }

    /// Checks that what is missing fits on the disk.
    fn check_space(&self) -> Result<()> {
        let missing = self.missing().saturating_add(self.copied());
        let Some(folder) = self.downloads.first().and_then(|download| download.place.parent())
        else {
            return Ok(());
        };
        let exists = folder.ancestors().find(|folder| folder.is_dir());
        match exists.and_then(free_space) {
            Some(free) if free < missing => {
                let fault = format!(
                    "not enough space on the disk: {missing} bytes are needed, {free} bytes are free"
                );
                Err(Error::new(ErrorKind::Io, fault).in_file(folder))
            }
            _ => Ok(()),
        }
    }
}

/// The bytes that this user may still write to a file system, where the system tells.
fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let found = rustix::fs::statvfs(folder).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}

/// The name of a file in a folder until it is whole.
pub(super) fn partial_in_folder(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.partial"))
}
