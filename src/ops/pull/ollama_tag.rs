//! The manifest of a model in Ollama's store.

use std::path::PathBuf;
use std::time::SystemTime;

use crate::bytes::{own_path, put_by};
use crate::error::{Error, Result};

/// The manifest of a model, written when its blobs are there.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) store: PathBuf,
    pub(super) path: PathBuf,
    pub(super) manifest: Vec<u8>,
    pub(super) blobs: Vec<PathBuf>,
}

impl Tag {
    /// Writes the manifest.
    pub(super) fn write(&self) -> Result<()> {
        for blob in &self.blobs {
            // A server that starts deletes blobs that are older than an hour and of no model.
            let missing =
                |error| Error::io("another program deleted the blob", error).in_file(blob);
            let file = std::fs::File::open(blob).map_err(missing)?;
            let _ = file.set_modified(SystemTime::now());
        }
        let failed = |error| Error::io("cannot write the manifest", error).in_file(&self.path);
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        // Beside the tree of manifests: Ollama takes every file in it for one.
        let own = own_path(&self.store.join("manifest"));
        put_by(&own, &self.path, &[&self.manifest], true).map_err(failed)?;
        // A rename is durable only after its folder has been synced.
        for folder in self.path.ancestors().skip(1).take(5) {
            if let Ok(folder) = std::fs::File::open(folder) {
                let _ = folder.sync_all();
            }
        }
        Ok(())
    }
}
