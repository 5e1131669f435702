//! The model that a plan describes, before any of its files exists: names, dtypes, shapes, keys and
//! documents, all in memory.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::json::Json;

use super::out::{OutTensor, Output};
use super::producer::Producer;
use crate::bytes::{FileSystem, Files, ReadAt, Source};
use crate::container::writer::{DocumentContent, NewDocument, Writer};
use crate::container::{GGUF, MLX, SAFETENSORS};
use crate::dialect::Dialect;
use crate::error::{Error, Result};
use crate::limits::Limits;
use crate::metadata::KeyValues;
use crate::model::Model;
use crate::store::{DescribedTensor, Document, Encoding, Part, Store, StoreBuilder, document};

/// The parts of a model that is being planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedModel<'p> {
    pub(crate) writer: &'static Writer,
    pub(crate) metadata: &'p KeyValues,
    pub(crate) tensors: &'p [OutTensor],
    pub(crate) documents: &'p [NewDocument],
}

impl PlannedModel<'_> {
    /// The model as it will be opened, under the path of the model that it is made from. A tensor has
    /// values if it is copied or computed.
    ///
    /// # Errors
    ///
    /// `Mismatch` if two tensors have the same name; `Malformed` if `config.json` is not valid JSON.
    pub(crate) fn open(&self, source: &Store) -> Result<Model> {
        let path = source.path();
        let (container, encoding) = match self.writer.dialect {
            Dialect::Gguf => (GGUF.name, Encoding::Gguf),
            Dialect::Mlx => (MLX.name, Encoding::Safetensors),
            Dialect::HuggingFace | Dialect::Publisher => (SAFETENSORS.name, Encoding::Safetensors),
        };
        let mut builder = StoreBuilder::new(container, encoding, path);
        builder.metadata = self.metadata.to_metadata()?;
        let mut files = Files::Absent;
        if !self.documents.is_empty() {
            builder.folder = Some(path.to_path_buf());
            let json = planned_config(self.documents, source.limits())?;
            let name = || CONFIG.to_owned();
            builder.documents.extend(json.map(|json| Document { name: name(), json }));
            files = Files::Custom(Arc::new(PlannedFiles::of(path, self.documents)?));
        }
        let mut described = Vec::new();
        let (mut known, mut end) = (Vec::new(), 0u64);
        for OutTensor { name, output: Output { producer, .. }, shape, .. } in self.tensors {
            let dtype = producer.dtype().map_err(|error| error.in_tensor(name))?;
            let shape = shape.as_deref().unwrap_or_else(|| producer.shape());
            let start = end;
            end = end.saturating_add(dtype.tensor_bytes(shape).unwrap_or(0));
            if matches!(producer, Producer::Packed(_) | Producer::Bytes { .. }) {
                known.push((start..end, producer.clone()));
            }
            let group_size = producer.group_size();
            described.push(DescribedTensor { name, dtype, shape, group_size });
        }
        let data = Source::custom(path, PlannedData { known, len: end });
        let store = builder.described(data, described.into_iter())?;
        Ok(Model::of_store(store.among(&files, source.limits())))
    }
}

/// The `config.json` among documents, without the keys that are set when the plan is made.
///
/// # Errors
///
/// `Malformed` if it is not valid JSON.
pub(crate) fn planned_config(documents: &[NewDocument], limits: &Limits) -> Result<Option<Json>> {
    let named = |document: &&NewDocument| document.name == CONFIG;
    let Some(document) = documents.iter().find(named) else { return Ok(None) };
    match &document.content {
        DocumentContent::Json(keys) | DocumentContent::Config(keys) => {
            Ok(Some(Json::Object(keys.clone())))
        }
        DocumentContent::Bytes(bytes) => document::parse(bytes, limits).map(Some),
        DocumentContent::Copy(_) => Ok(None),
    }
}

const CONFIG: &str = "config.json";

/// The documents of a planned directory. Copies of whole files are not among them.
#[derive(Debug)]
struct PlannedFiles {
    folder: PathBuf,
    documents: Vec<(PathBuf, Vec<u8>)>,
}

impl PlannedFiles {
    fn of(folder: &Path, documents: &[NewDocument]) -> Result<Self> {
        let mut files = Vec::new();
        for NewDocument { name, content, .. } in documents {
            let bytes = match content {
                DocumentContent::Bytes(bytes) => bytes.clone(),
                DocumentContent::Json(json) | DocumentContent::Config(json) => {
                    json.to_string().into_bytes()
                }
                DocumentContent::Copy(_) => continue,
            };
            files.push((folder.join(name), bytes));
        }
        Ok(Self { folder: folder.to_path_buf(), documents: files })
    }
}

impl FileSystem for PlannedFiles {
    fn open(&self, path: &Path) -> Result<Source> {
        let named = self.documents.iter().find(|(name, _)| name == path);
        let (_, bytes) = named.ok_or_else(|| Error::not_found("no such file").in_file(path))?;
        Ok(Source::memory(path, bytes.clone()))
    }

    fn names(&self, folder: &Path) -> Result<Vec<String>> {
        let within = self.documents.iter().filter(|(path, _)| path.parent() == Some(folder));
        let name = |(path, _): &(PathBuf, _)| Some(path.file_name()?.to_str()?.to_owned());
        let names: Vec<String> = within.filter_map(name).collect();
        match names.is_empty() && folder != self.folder {
            true => Err(Error::not_found("no such folder").in_file(folder)),
            false => Ok(names),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.documents.iter().any(|(name, _)| name == path)
    }
}

/// The tensor data of a planned model, as if it were one file.
#[derive(Debug)]
struct PlannedData {
    /// The tensors that are copied or computed, each with its position.
    known: Vec<(Range<u64>, Producer)>,
    len: u64,
}

impl ReadAt for PlannedData {
    fn size(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let unknown = || std::io::Error::other("the values are computed when the model is written");
        let mut known = self.known.iter();
        let found = known.find(|(place, _)| place.contains(&offset)).ok_or_else(unknown)?;
        let (place, producer) = found;
        let bytes = match producer {
            Producer::Packed(tensor) => {
                tensor.bytes(Part::Weight).map_err(std::io::Error::other)?
            }
            Producer::Bytes { bytes, .. } => bytes.as_ref().into(),
            _ => return Err(unknown()),
        };
        let start = usize::try_from(offset.saturating_sub(place.start)).unwrap_or(usize::MAX);
        let wanted = bytes.get(start..start.saturating_add(out.len())).ok_or_else(unknown)?;
        out.copy_from_slice(wanted);
        Ok(())
    }
}
