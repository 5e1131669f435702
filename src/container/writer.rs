//! The writing half of a container's row: what the container can hold, and how a model is laid out
//! in its files.
//!
//! A layout is computed from names, dtypes, shapes and lengths alone; [`crate::write`] then produces
//! the bytes.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::bytes::Source;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::metadata::KeyValues;
use crate::store::Part;

/// The writer of a container's models.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The name of the container in messages.
    pub(crate) name: &'static str,
    /// A short description of what is written.
    pub(crate) summary: &'static str,
    /// The dialect of its tensors: their names, shapes and row order.
    pub(crate) dialect: Dialect,
    /// The place of its files.
    pub(crate) placement: Placement,
    /// Metadata that all of its files have.
    pub(crate) metadata: &'static [(&'static str, &'static str)],
    /// The default maximum of tensor bytes in a shard; `None` for a single file.
    pub(crate) shard_bytes: Option<u64>,
    /// Whether it can hold a tensor with this dtype and these parts.
    pub(crate) holds: fn(DType, &[Part]) -> bool,
    /// Whether codes may be repacked to a quantized dtype, if the container cannot hold the stored
    /// one.
    pub(crate) repacks_to: fn(DType) -> bool,
    /// The part that stores a global scale: the largest magnitude or a factor.
    pub(crate) global: Part,
    /// Whether the container's reader takes a global scale for a tensor of this shape.
    pub(crate) takes_global: fn(&[u64]) -> bool,
    /// Whether a divisor of compressed-tensors may become the factor `1/divisor` although it is
    /// rounded.
    pub(crate) rounds_divisors: bool,
    /// The dtype and group size for quantized tensors without a lossless equivalent; `None` for
    /// F16.
    pub(crate) fallback: Option<(DType, u32)>,
    /// Whether plain dtypes that it cannot hold are converted to a dtype that holds their values.
    pub(crate) widens_plain: bool,
    /// Whether a checkpoint's own quantization scheme is copied unchanged.
    pub(crate) keeps_schemes: bool,
    /// The files next to the weights that it holds.
    pub(crate) documents: DocumentKinds,
    /// Whether `config.json` states how tensors are quantized; otherwise the files with the tensors
    /// do.
    pub(crate) quantization_in_config: bool,
    /// Splits the name of an expert's tensor, if the container stores experts stacked.
    pub(crate) expert: Option<fn(&str) -> Option<ExpertName<'_>>>,
    /// Lays a model out in files.
    pub(crate) layout: fn(NewModel<'_>) -> Result<Vec<NewFile>>,
}

/// The place of a container's files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Placement {
    /// One file at the given path, or shards beside it. Each file appears once it is complete; the
    /// first shard appears last, because readers start with it.
    Files,
    /// A directory, which appears once it is complete.
    Directory,
    /// A store. Each file becomes a blob; the given path is that of the manifest, which is written
    /// after all blobs.
    Store(&'static BlobStore),
}

/// A store of blobs, which are files named by their SHA-256, and of manifests, each of which lists the
/// blobs of a model.
#[derive(Debug)]
pub(crate) struct BlobStore {
    /// The name of the store in messages.
    pub(crate) name: &'static str,
    /// The folder of the blobs.
    pub(crate) blobs: &'static str,
    /// Derives the folder of the store from the path of a manifest.
    pub(crate) root: fn(&Path) -> Result<PathBuf>,
    /// The path of a blob: from the folder of the store, and the digest in hexadecimal.
    pub(crate) blob: fn(&Path, &str) -> PathBuf,
    /// Serializes the manifest of a new model.
    pub(crate) manifest: fn(&[NewBlob<'_>]) -> Vec<u8>,
    /// Serializes a stored manifest with a blob in place of the weights.
    pub(crate) with_weights: fn(&Json, &NewBlob<'_>) -> Vec<u8>,
}

/// Stores are the same if they have the same name.
impl PartialEq for BlobStore {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for BlobStore {}

/// A blob that has just been written, with its entry in the manifest.
#[derive(Debug)]
pub(crate) struct NewBlob<'b> {
    /// Its role: `config`, `model`, `tensor`, `json`, `license`.
    pub(crate) role: &'b str,
    pub(crate) name: &'b str,
    /// Its SHA-256 in hexadecimal.
    pub(crate) digest: &'b str,
    pub(crate) size: u64,
}

/// The files next to the weights that a container holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DocumentKinds {
    /// None: the keys of the header state what such files contain.
    None,
    /// All files that belong to a model, in folders too. They are translated for the readers of the
    /// container.
    All,
    /// JSON documents that are in no folder, unchanged.
    Json,
}

/// The name of an expert's tensor, split into parts: `model.layers.0.mlp.experts`, 7,
/// `up_proj.weight`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ExpertName<'n> {
    pub(crate) group: &'n str,
    pub(crate) number: u64,
    pub(crate) projection: &'n str,
}

/// The distribution of a model's tensors over files.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Shards {
    /// At most this many tensors in each file, as llama-gguf-split counts them.
    Tensors(u64),
    /// At most this many bytes of tensors in each file, unless a single tensor has more.
    Bytes(u64),
    /// The exact number of tensors in each file.
    Counts(Vec<usize>),
}

impl Shards {
    /// Returns the range of tensors in each file. An empty model has one file.
    ///
    /// # Errors
    ///
    /// `Mismatch` for a shard size of 0, or for counts that do not add up to the number of tensors.
    pub(crate) fn ranges(&self, tensors: &[NewTensor]) -> Result<Vec<Range<usize>>> {
        let most = match self {
            Self::Tensors(0) | Self::Bytes(0) => {
                return Err(Error::mismatch("a shard size of 0, but at least 1 is required"));
            }
            Self::Tensors(most) | Self::Bytes(most) => *most,
            Self::Counts(counts) => {
                let mut end = 0usize;
                let next = |count: &usize| {
                    let start = end;
                    end = end.saturating_add(*count);
                    start..end
                };
                let ranges: Vec<Range<usize>> = counts.iter().map(next).collect();
                return match end == tensors.len() {
                    true => Ok(ranges),
                    false => Err(Error::mismatch(format!(
                        "the shards have {end} tensors in total, but the model has {}",
                        tensors.len()
                    ))),
                };
            }
        };
        let (mut ranges, mut start, mut held) = (Vec::new(), 0, 0u64);
        for (number, tensor) in tensors.iter().enumerate() {
            let size = if matches!(self, Self::Tensors(_)) { 1 } else { tensor.bytes() };
            if held > 0 && held.saturating_add(size) > most {
                ranges.push(start..number);
                (start, held) = (number, 0);
            }
            held = held.saturating_add(size);
        }
        ranges.push(start..tensors.len());
        Ok(ranges)
    }
}

/// A model to be laid out.
#[derive(Debug)]
pub(crate) struct NewModel<'m> {
    /// The metadata for the header.
    pub(crate) metadata: KeyValues,
    pub(crate) tensors: &'m [NewTensor],
    pub(crate) documents: Vec<NewDocument>,
    /// The `quantization` of `config.json`, if the caller sets it instead of deriving it from the
    /// tensors.
    pub(crate) quantization: Option<Json>,
    /// The place of the files.
    pub(crate) placement: Placement,
    /// The distribution of tensors over files; `None` for one file.
    pub(crate) shards: Option<Shards>,
    /// The start of the names of shards beside each other.
    pub(crate) stem: &'m str,
    /// The start of the names of the files of weights in a directory.
    pub(crate) weights: &'static str,
    /// Alignment of the tensor data, in bytes.
    pub(crate) alignment: Option<u64>,
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewTensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Elements that share a scale, for dtypes whose group size differs between tensors.
    pub(crate) group_size: Option<u32>,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    /// Its arrays, the weight first.
    pub(crate) parts: Vec<NewPart>,
    /// The expert group that it belongs to; its tensors may share a file.
    pub(crate) experts: Option<String>,
    /// The rank whose share it is part of; tensors of different ranks are in different files.
    pub(crate) rank: Option<u64>,
}

impl NewTensor {
    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }
}

/// An array that a tensor consists of.
#[derive(Clone, Debug)]
pub(crate) struct NewPart {
    pub(crate) part: Part,
    pub(crate) dtype: DType,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
    /// Its stored name, if the tensor keeps its name.
    pub(crate) stored_name: Option<String>,
}

/// A file beside the weights.
#[derive(Clone, Debug)]
pub(crate) struct NewDocument {
    pub(crate) name: String,
    /// Its role in the model: `json`, `template`, `license`.
    pub(crate) role: String,
    pub(crate) content: DocumentContent,
}

impl NewDocument {
    /// A document with the role `json`.
    pub(crate) fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), role: "json".to_owned(), content: DocumentContent::Bytes(bytes) }
    }

    /// A `config.json` whose fields about dtypes are set by the layout.
    pub(crate) fn config(config: Map<String, Json>) -> Self {
        let content = DocumentContent::Config(config);
        Self { name: "config.json".to_owned(), role: "json".to_owned(), content }
    }
}

/// The content of a document.
#[derive(Clone, Debug)]
pub(crate) enum DocumentContent {
    /// These bytes, unchanged.
    Bytes(Vec<u8>),
    /// A copy of a file.
    Copy(Arc<Source>),
    /// A JSON object, to be serialized.
    Json(Map<String, Json>),
    /// `config.json`, whose fields about dtypes and quantization the layout sets for the written
    /// tensors.
    Config(Map<String, Json>),
}

/// A file to be written.
#[derive(Debug)]
pub(crate) struct NewFile {
    /// Its name in the directory or beside the given path; empty for the given path itself.
    pub(crate) name: String,
    /// Its role in the model: `model`, `tensor`, `json`.
    pub(crate) role: String,
    pub(crate) body: FileContent,
}

/// The content of a file.
#[derive(Debug)]
pub(crate) enum FileContent {
    Bytes(Vec<u8>),
    Copy(Arc<Source>),
    /// Tensors, by number.
    Tensors {
        layout: Layout,
        tensors: Vec<usize>,
    },
}

impl NewFile {
    /// Makes a file of a document. `complete` sets the fields of a `config.json` that describe
    /// dtypes.
    pub(crate) fn document(
        document: NewDocument,
        complete: impl FnOnce(&mut Map<String, Json>),
    ) -> Result<Self> {
        let NewDocument { name, role, content } = document;
        let body = match content {
            DocumentContent::Bytes(bytes) => FileContent::Bytes(bytes),
            DocumentContent::Copy(source) => FileContent::Copy(source),
            DocumentContent::Json(json) => FileContent::Bytes(format!("{json:#}").into_bytes()),
            DocumentContent::Config(mut config) => {
                complete(&mut config);
                FileContent::Bytes(format!("{config:#}").into_bytes())
            }
        };
        Ok(Self { name, role, body })
    }

    /// Makes a file of tensors. `part_name` names their arrays, and `layout` positions them.
    pub(crate) fn tensors(
        name: impl Into<String>,
        role: &str,
        model: &NewModel<'_>,
        tensors: impl IntoIterator<Item = usize>,
        part_name: fn(&NewTensor, &NewPart) -> String,
        layout: impl FnOnce(&[NewArray]) -> Result<Layout>,
    ) -> Result<Self> {
        let tensors: Vec<usize> = tensors.into_iter().collect();
        let found = tensors.iter().filter_map(|number| model.tensors.get(*number));
        let arrays: Vec<NewArray> = found
            .flat_map(|tensor| {
                tensor.parts.iter().map(|part| NewArray {
                    name: part_name(tensor, part),
                    dtype: part.dtype,
                    shape: part.shape.clone(),
                    bytes: part.bytes,
                })
            })
            .collect();
        let layout = layout(&arrays)?;
        let body = FileContent::Tensors { layout, tensors };
        Ok(Self { name: name.into(), role: role.to_owned(), body })
    }
}

/// An array, as a file's header lists it.
#[derive(Clone, Debug)]
pub(crate) struct NewArray {
    pub(crate) name: String,
    /// The dtype in the header: for packed codes, that of the words that hold them.
    pub(crate) dtype: DType,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
}

/// A file except for the bytes of its arrays. Gaps between arrays are zeros.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: Vec<u8>,
    /// The offset of each array in the file, in the order of the arrays.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the whole file.
    pub(crate) len: u64,
}
