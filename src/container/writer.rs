//! What a container's row says about writing: what the container can hold, and how a model is laid
//! out in its files.
//!
//! A layout is computed from names, dtypes, shapes and lengths alone; [`crate::write`] then produces
//! the bytes.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use crate::bytes::Source;
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::metadata::KeyValues;
use crate::store::Part;

/// How models are written into a container.
#[derive(Debug)]
pub(crate) struct Writer {
    /// The container's name in messages.
    pub(crate) name: &'static str,
    /// What is written, in a few words.
    pub(crate) summary: &'static str,
    /// Whose names, shapes and orders of rows its tensors have.
    pub(crate) dialect: Dialect,
    /// Where its files are put.
    pub(crate) placement: Placement,
    /// Metadata that its files have in any case.
    pub(crate) metadata: &'static [(&'static str, &'static str)],
    /// Bytes of tensors in a shard at most, unless the caller chooses; `None` for one file.
    pub(crate) shard_bytes: Option<u64>,
    /// Whether it holds a tensor of that dtype which has those parts.
    pub(crate) holds: fn(DType, &[Part]) -> bool,
    /// Which quantized dtypes codes are repacked to, where the container does not hold their own.
    pub(crate) repacks_to: fn(DType) -> bool,
    /// How it scales a whole tensor: by its largest magnitude or by a factor.
    pub(crate) global: Part,
    /// The quantized dtype, and its group size, for tensors that have no lossless equivalent; `None`
    /// stands for F16.
    pub(crate) fallback: Option<(DType, u32)>,
    /// Whether readers refuse plain dtypes that it does not hold, so that their values are widened.
    pub(crate) widens_plain: bool,
    /// Whether a checkpoint's own quantization scheme is kept as it is stored.
    pub(crate) keeps_schemes: bool,
    /// Whether it keeps the files that belong to a model beside its weights: every JSON document, and
    /// templates, parameters, licenses.
    pub(crate) keeps_attachments: bool,
    /// Which names belong to one expert of several that the container stores stacked.
    pub(crate) expert: Option<fn(&str) -> Option<ExpertName<'_>>>,
    /// Lays a model out in files.
    pub(crate) layout: fn(NewModel<'_>) -> Result<Vec<NewFile>>,
}

/// Where a container's files are put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Placement {
    /// One file at the given path, or shards beside it. Each appears whole; the first shard appears
    /// last, since readers begin with it.
    Files,
    /// A directory, which appears whole.
    Directory,
    /// Ollama's store: each file becomes a blob, and the given path is that of the manifest, which is
    /// written once all blobs are in place.
    Store,
}

/// The name of one expert's tensor, in parts: `model.layers.0.mlp.experts`, 7, `up_proj.weight`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ExpertName<'n> {
    pub(crate) group: &'n str,
    pub(crate) number: u64,
    pub(crate) projection: &'n str,
}

/// How the tensors of a model are distributed over files.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Shards {
    /// At most so many tensors in each file, as llama-gguf-split counts.
    Tensors(u64),
    /// At most so many bytes of tensors in each file, unless one tensor has more.
    Bytes(u64),
    /// Exactly so many tensors in the first file, the second, and so on.
    Counts(Vec<usize>),
}

impl Shards {
    /// The tensors of each file. An empty model has one file.
    ///
    /// # Errors
    ///
    /// `Mismatch` for shards of nothing, or for counts that are not those of the tensors.
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
                        "shards of {end} tensors together, but the model has {}",
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
    /// The metadata of its header.
    pub(crate) metadata: KeyValues,
    pub(crate) tensors: &'m [NewTensor],
    pub(crate) documents: Vec<NewDocument>,
    /// What `config.json` says of quantization, where the caller knows more than the tensors tell.
    pub(crate) quantization: Option<Json>,
    /// Where the files are put.
    pub(crate) placement: Placement,
    /// `None` for one file.
    pub(crate) shards: Option<Shards>,
    /// What the names of shards begin with, where they stand beside each other.
    pub(crate) stem: &'m str,
    /// Alignment of the tensor data, in bytes.
    pub(crate) alignment: Option<u64>,
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewTensor {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    /// Elements that share a scale, for dtypes whose tensors choose the number.
    pub(crate) group_size: Option<u32>,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    /// The arrays that it consists of, the weight first.
    pub(crate) parts: Vec<NewPart>,
    /// The experts that it belongs to, which may share a file.
    pub(crate) experts: Option<String>,
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
    /// Its name in the files that are read, where the tensor keeps its name.
    pub(crate) stored_name: Option<String>,
}

/// A file beside the weights.
#[derive(Debug)]
pub(crate) struct NewDocument {
    pub(crate) name: String,
    /// What it is to the model, in Ollama's words: `json`, `template`, `license`.
    pub(crate) role: String,
    pub(crate) content: Content,
}

impl NewDocument {
    /// A document of a directory.
    pub(crate) fn new(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), role: "json".to_owned(), content: Content::Bytes(bytes) }
    }

    /// A `config.json` that the layout completes with what it says of dtypes.
    pub(crate) fn config(config: Map<String, Json>) -> Self {
        let content = Content::Config(config);
        Self { name: "config.json".to_owned(), role: "json".to_owned(), content }
    }
}

/// What a document contains.
#[derive(Debug)]
pub(crate) enum Content {
    /// These bytes, unchanged.
    Bytes(Vec<u8>),
    /// A copy of a file.
    Copy(Source),
    /// A JSON object, to be serialized.
    Json(Map<String, Json>),
    /// `config.json`, whose statements about dtypes and quantization the layout replaces with those
    /// that are true of the tensors.
    Config(Map<String, Json>),
}

/// A file to be written.
#[derive(Debug)]
pub(crate) struct NewFile {
    /// Its name in the directory, or beside the given path; empty for the given path itself.
    pub(crate) name: String,
    /// What it is to the model, in Ollama's words: `model`, `tensor`, `json`.
    pub(crate) role: String,
    pub(crate) body: Body,
}

/// What a file contains.
#[derive(Debug)]
pub(crate) enum Body {
    Bytes(Vec<u8>),
    Copy(Source),
    /// Tensors by their numbers.
    Tensors {
        layout: Layout,
        tensors: Vec<usize>,
    },
}

impl NewFile {
    /// A document as a file. `complete` fills in what a `config.json` says of dtypes.
    pub(crate) fn document(
        document: NewDocument,
        complete: impl FnOnce(&mut Map<String, Json>),
    ) -> Result<Self> {
        let NewDocument { name, role, content } = document;
        let body = match content {
            Content::Bytes(bytes) => Body::Bytes(bytes),
            Content::Copy(source) => Body::Copy(source),
            Content::Json(json) => Body::Bytes(serialized(&name, &json)?),
            Content::Config(mut config) => {
                complete(&mut config);
                Body::Bytes(serialized(&name, &config)?)
            }
        };
        Ok(Self { name, role, body })
    }

    /// A file of tensors. `part_name` names the arrays of each, `layout` places them.
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
        let body = Body::Tensors { layout, tensors };
        Ok(Self { name: name.into(), role: role.to_owned(), body })
    }
}

fn serialized(name: &str, json: &Map<String, Json>) -> Result<Vec<u8>> {
    let fault = |error| Error::malformed(format!("{name} cannot be written: {error}"));
    serde_json::to_vec_pretty(json).map_err(fault)
}

/// An array, as a file's header lists it.
#[derive(Clone, Debug)]
pub(crate) struct NewArray {
    pub(crate) name: String,
    /// What the header says: for codes that lie beside their scales, the dtype of the words that hold
    /// them.
    pub(crate) dtype: DType,
    /// Dimensions, outermost first.
    pub(crate) shape: Vec<u64>,
    pub(crate) bytes: u64,
}

/// A file except for the bytes of its arrays. Gaps between arrays are zeros.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) header: Vec<u8>,
    /// Where each array starts, in bytes from the start of the file, in the order of the arrays.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the whole file.
    pub(crate) len: u64,
}
