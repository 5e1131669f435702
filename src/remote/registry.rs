//! Models of Ollama's registry: `ollama://[host/][namespace/]model[:tag]`.
//!
//! The files are shown where Ollama's store would have them, so that the same code opens both.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RemoteModel;
use super::client::Client;
use super::file::RemoteFiles;
use crate::bytes::{FileSystem, Source};
use crate::digest::FileDigest;
use crate::error::{Error, Result};
use crate::place::ollama::{ModelName, name_of_manifest};

/// One model of a registry.
#[derive(Debug)]
pub(crate) struct RegistryModel {
    files: RemoteFiles,
    /// The path that stands for the store: `ollama://host`.
    store: PathBuf,
    /// The path of the manifest in it.
    manifest: PathBuf,
    /// The address of the model: `https://registry.ollama.ai/v2/library/llama3.2`.
    address: String,
    tag: String,
}

/// Finds the model that a name means.
pub(super) fn locate(name: &str, client: &Arc<Client>) -> Result<RemoteModel> {
    let parsed = ModelName::parse(name).ok_or_else(|| {
        Error::mismatch("not a name of Ollama's registry")
            .advise("write ollama://MODEL[:TAG] or ollama://HOST/NAMESPACE/MODEL[:TAG]")
    })?;
    let found = RegistryModel::of(&parsed, client);
    Ok(RemoteModel { path: found.manifest.clone(), files: Arc::new(found) })
}

impl RegistryModel {
    /// The model that a name means. Nothing is requested yet.
    pub(crate) fn of(name: &ModelName, client: &Arc<Client>) -> Self {
        let ModelName { host, namespace, model, tag } = name;
        let base = match name.is_public() {
            true => client.network.registry.clone(),
            false => format!("https://{host}"),
        };
        let store = PathBuf::from(format!("ollama://{host}"));
        let manifest = store.join("manifests").join(host).join(namespace).join(model).join(tag);
        Self {
            files: RemoteFiles::new(client),
            store,
            manifest,
            address: format!("{base}/v2/{namespace}/{model}"),
            tag: tag.clone(),
        }
    }

    /// The path of the manifest.
    pub(crate) fn manifest(&self) -> &Path {
        &self.manifest
    }

    /// The address of the blob with this SHA-256.
    pub(crate) fn blob(&self, hex: &str) -> String {
        format!("{}/blobs/sha256:{hex}", self.address)
    }
}

impl RegistryModel {
    /// The address of a file of the store, and its SHA-256.
    fn address(&self, path: &Path) -> Option<(String, Option<FileDigest>)> {
        if path == self.manifest {
            return Some((format!("{}/manifests/{}", self.address, self.tag), None));
        }
        let name = path.strip_prefix(self.store.join("blobs")).ok()?.to_str()?;
        let hex = name.strip_prefix("sha256-")?;
        let valid = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| (self.blob(hex), Some(FileDigest::Sha256(hex.to_ascii_lowercase()))))
    }
}

impl FileSystem for RegistryModel {
    fn open(&self, path: &Path) -> Result<Source> {
        let Some((address, digest)) = self.address(path) else {
            return Err(Error::not_found("no such file in the registry").in_file(path));
        };
        // The manifest stands for the model, whose name users know.
        self.files.open(&address, path, digest).map_err(|error| match name_of_manifest(path) {
            Some(name) if path == self.manifest => {
                error.without_path().in_file(&PathBuf::from(format!("ollama://{name}")))
            }
            _ => error,
        })
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        Err(Error::not_found("a registry lists no files").in_file(folder))
    }

    fn exists(&self, path: &Path) -> bool {
        self.address(path).is_some() && self.open(path).is_ok()
    }
}
