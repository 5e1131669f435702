//! Files that belong to a model beside its weights, read when they are asked for.

use std::borrow::Cow;
use std::path::PathBuf;

use super::{WeightStore, document};
use crate::bytes::{Access, Source};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// A file beside the weights.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl WeightStore {
    /// Sets what files that are read later may ask for.
    pub(crate) fn with_limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.clone();
        self
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The path of a file beside the weights: in their folder, or as the manifest names it. Never
    /// a name from a file, since it becomes part of a path.
    pub(crate) fn path_beside(&self, name: &'static str) -> Option<PathBuf> {
        let attached = self.attachments.iter().find(|attachment| attachment.name == name);
        let path = match attached {
            Some(attachment) => attachment.path.clone(),
            None => self.folder.as_ref()?.join(name),
        };
        path.is_file().then_some(path)
    }

    /// A file beside the weights, of no more bytes than `field` of the limits says.
    pub(crate) fn read_beside(
        &self,
        name: &'static str,
        (most, field): (u64, &str),
    ) -> Result<Option<Beside>> {
        let Some(path) = self.path_beside(name) else { return Ok(None) };
        let source = Source::open(&path, Access::Read)?;
        if source.len() > most {
            return Err(Error::limit("bytes", source.len(), most, field).in_file(&path));
        }
        let bytes = source.bytes(0..source.len())?.into_owned();
        Ok(Some(Beside { path, bytes }))
    }

    /// A JSON document beside the weights: as it was read when the model was opened, or read now.
    /// `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is no JSON; `LimitExceeded`; `Io` if it cannot be read.
    pub fn read_document(&self, name: &'static str) -> Result<Option<Cow<'_, serde_json::Value>>> {
        if let Some(json) = self.document(name) {
            return Ok(Some(Cow::Borrowed(json)));
        }
        let Some(path) = self.path_beside(name) else { return Ok(None) };
        let read = document::read(&path, name, &self.limits)?;
        Ok(Some(Cow::Owned(read.json)))
    }
}
