//! Files that belong to a model besides its weights, read on request.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::{Store, document};
use crate::bytes::{Access, Files};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::place::choice::is_companion;

/// A file beside the weights.
#[derive(Debug)]
pub(crate) struct CompanionFiles {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Store {
    /// Sets where the files lie that are read later, and their limits.
    pub(crate) fn among(mut self, files: &Files, limits: &Limits) -> Self {
        self.place = files.clone();
        self.limits = limits.clone();
        self
    }

    /// Whether the model was opened as a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.place.is_folder(&self.path)
    }

    /// The folder of the files next to the weights, for containers that have one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The place of the model's files.
    pub(crate) fn place(&self) -> &Files {
        &self.place
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The path of a file beside the weights: in their folder, or as the manifest names it. `name`
    /// must never come from a file, since it becomes part of a path.
    pub(crate) fn companion_path(&self, name: &str) -> Option<PathBuf> {
        let attached = self.attachments.iter().find(|attachment| attachment.name == name);
        let path = match attached {
            Some(attachment) => attachment.path.clone(),
            None => {
                let other = self.tokenizer_folder.as_ref().filter(|_| is_of_tokenizer(name));
                let other = other.map(|folder| folder.join(name));
                let other = other.filter(|path| self.place.is_file(path));
                other.or_else(|| Some(self.folder.as_ref()?.join(name)))?
            }
        };
        self.place.is_file(&path).then_some(path)
    }

    /// Reads a file beside the weights. `field` names the limit that bounds its size.
    pub(crate) fn read_companion(
        &self,
        name: &'static str,
        limit: (u64, &str),
    ) -> Result<Option<CompanionFiles>> {
        self.companion_path(name).map(|path| self.read_file(path, limit)).transpose()
    }

    /// Reads a file of the model. `field` names the limit that bounds its size.
    pub(crate) fn read_file(
        &self,
        path: PathBuf,
        (most, field): (u64, &str),
    ) -> Result<CompanionFiles> {
        let source = self.place.open(&path, Access::Read)?;
        if source.len() > most {
            return Err(Error::limit("bytes", source.len(), most, field).in_file(&path));
        }
        let bytes = source.bytes(0..source.len())?.into_owned();
        Ok(CompanionFiles { path, bytes })
    }

    /// Reads the documents that make a directory a model, with their names there: config,
    /// tokenizer, chat template. The index of weights is not among them, because the written model
    /// gets a new one.
    ///
    /// # Errors
    ///
    /// `LimitExceeded`; `Io` if a file cannot be read.
    pub(crate) fn read_companions(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for attachment in &self.attachments {
            found.push((attachment.name.clone(), attachment.path.clone()));
        }
        if let Some(folder) = &self.folder {
            for name in self.place.names(folder, usize::MAX)? {
                found.push((name.clone(), folder.join(name)));
            }
        }
        found.retain(|(name, path)| is_companion(name) && self.place.is_file(path));
        found.sort();
        found.dedup_by(|a, b| a.0 == b.0);
        let mut companions = Vec::new();
        let mut left = self.limits.vocabulary_bytes;
        for (name, path) in found {
            let source = self.place.open(&path, Access::Read)?;
            left = left.checked_sub(source.len()).ok_or_else(|| {
                Error::limit("bytes", source.len(), left, "vocabulary_bytes").in_file(&path)
            })?;
            companions.push((name, source.bytes(0..source.len())?.into_owned()));
        }
        Ok(companions)
    }

    /// Reads a JSON document that lies beside the weights. Returns `None` if there is none. A
    /// document that opening the model read is not read again.
    ///
    /// # Errors
    ///
    /// `Malformed` if the file is not valid JSON; `LimitExceeded`; `Io` if it cannot be read.
    pub(crate) fn read_document(&self, name: &str) -> Result<Option<Cow<'_, Json>>> {
        if let Some(json) = self.document(name) {
            return Ok(Some(Cow::Borrowed(json)));
        }
        let Some(path) = self.companion_path(name) else { return Ok(None) };
        let read = document::read(&self.place, &path, name, &self.limits)?;
        Ok(Some(Cow::Owned(read.json)))
    }
}

/// Whether a document belongs to a tokenizer: its tokens, its settings, its chat template.
fn is_of_tokenizer(name: &str) -> bool {
    const STARTS: [&str; 7] = [
        "tokenizer",
        "special_tokens_map",
        "added_tokens",
        "vocab",
        "merges",
        "chat_template",
        "spiece",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
}
