//! Writes Ollama stores: blobs, and manifests that name them. Only tests depend on the crate that
//! computes digests, so the fuzz targets do not use this file.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use weighbridge::Model;

use crate::support::{Safetensors, put, told, without_path};

/// An Ollama store to which blobs are added.
#[derive(Debug)]
pub(crate) struct Store(TempDir);

impl Store {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds a blob to the store, and returns its digest.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        put(self.path(), &format!("blobs/sha256-{hex}"), bytes);
        hex
    }

    /// Adds a blob to the store, and returns the manifest's layer for it.
    pub(crate) fn layer(&self, kind: &str, name: &str, bytes: &[u8]) -> String {
        let (digest, size) = (self.blob(bytes), bytes.len());
        format!(
            "{{\"mediaType\":\"application/vnd.ollama.image.{kind}\",\"digest\":\"sha256:{digest}\",\
             \"size\":{size},\"name\":\"{name}\"}}"
        )
    }

    pub(crate) fn tensor(&self, name: &str, file: &Safetensors) -> String {
        self.layer("tensor", name, &file.build())
    }

    /// Writes a manifest with these layers under a name, and returns its path.
    pub(crate) fn manifest(&self, name: &str, layers: &[String]) -> PathBuf {
        let file = format!("manifests/registry.ollama.ai/library/{name}");
        put(self.path(), &file, manifest(layers));
        self.path().join(file)
    }

    pub(crate) fn refused(&self, manifest: &Path) -> String {
        match Model::open(manifest) {
            Ok(store) => format!("opened, with {} tensors", store.len()),
            Err(error) => without_path(&told(&error), self.path()),
        }
    }
}

/// The text of a manifest with these layers.
pub(crate) fn manifest(layers: &[String]) -> String {
    format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\
         \"layers\":[{}]}}\n",
        layers.join(",")
    )
}
