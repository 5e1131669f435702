//! Models of Ollama's registry: `ollama://[host/][namespace/]model[:tag]`.
//!
//! The files are shown where Ollama's store would have them, so that the same code opens both.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RemoteModel;
use super::client::Client;
use super::file::RemoteFiles;
use crate::bytes::{FileSystem, Source};
use crate::error::{Error, Result};

/// One model of a registry.
#[derive(Debug)]
struct RegistryModel {
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
    let parsed = parse(name.strip_prefix("ollama://").unwrap_or(name)).ok_or_else(|| {
        Error::mismatch("not a name of Ollama's registry")
            .advise("write ollama://MODEL[:TAG] or ollama://HOST/NAMESPACE/MODEL[:TAG]")
    })?;
    let [host, namespace, model, tag] = parsed;
    let (base, host) = match host {
        Some(host) => (format!("https://{host}"), host),
        None => (client.network.registry.clone(), "registry.ollama.ai"),
    };
    let store = PathBuf::from(format!("ollama://{host}"));
    let namespace = namespace.unwrap_or("library");
    let model = model.unwrap_or_default();
    let tag = tag.unwrap_or("latest");
    let manifest = store.join("manifests").join(host).join(namespace).join(model).join(tag);
    let found = RegistryModel {
        files: RemoteFiles::new(client),
        store,
        manifest: manifest.clone(),
        address: format!("{base}/v2/{namespace}/{model}"),
        tag: tag.to_owned(),
    };
    Ok(RemoteModel { files: Arc::new(found), path: manifest })
}

/// Host, namespace, model and tag of a name; `None` if it is no name.
fn parse(text: &str) -> Option<[Option<&str>; 4]> {
    let (path, tag) = match text.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (text, None),
    };
    let mut parts = path.rsplitn(3, '/');
    let (model, namespace, host) = (parts.next(), parts.next(), parts.next());
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_part = |part: &str| {
        (1..=350).contains(&part.len())
            && part.bytes().all(allowed)
            && part.bytes().any(|byte| byte.is_ascii_alphanumeric())
    };
    let parts = [host, namespace, model, tag];
    parts.iter().flatten().all(|part| is_part(part)).then_some(parts)
}

impl RegistryModel {
    /// The address of a file of the store, and its SHA-256.
    fn address(&self, path: &Path) -> Option<(String, Option<String>)> {
        if path == self.manifest {
            return Some((format!("{}/manifests/{}", self.address, self.tag), None));
        }
        let name = path.strip_prefix(self.store.join("blobs")).ok()?.to_str()?;
        let hex = name.strip_prefix("sha256-")?;
        let valid = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then(|| (format!("{}/blobs/sha256:{hex}", self.address), Some(hex.to_owned())))
    }
}

impl FileSystem for RegistryModel {
    fn open(&self, path: &Path) -> Result<Source> {
        let Some((address, digest)) = self.address(path) else {
            return Err(Error::not_found("no such file in the registry").in_file(path));
        };
        self.files.open(&address, path, digest.as_deref())
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        Err(Error::not_found("a registry lists no files").in_file(folder))
    }

    fn exists(&self, path: &Path) -> bool {
        self.address(path).is_some() && self.open(path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_registry() {
        assert_eq!(parse("llama3.2"), Some([None, None, Some("llama3.2"), None]));
        assert_eq!(
            parse("host:5000/ns/m:1b"),
            Some([Some("host:5000"), Some("ns"), Some("m"), Some("1b")])
        );
        for wrong in ["", "a//b", "..", "a/../b", "a b", "m:"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
