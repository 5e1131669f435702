//! An opened model: owned, cheap to clone, bound to no device.
//!
//! ```text
//!  path ──container──▶ Store ──arch──▶ Resolution ──▶ Model ──▶ Tensor ──▶ bytes, values
//!                      (stored names)  (canonical names)
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod tensor;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use crate::arch::{
    ConfigValue, GenerationConfig, Mapping, ModelConfig, Resolution, model_config, resolve,
};
use crate::bytes::Text;
use crate::container::{self, OpenOptions};
use crate::error::{Error, Result};
use crate::index::{self, NameIndex};
use crate::metadata::Metadata;
use crate::store::{Attachment, Encoding, Note, QuantizationSummary, Store};
use crate::tokenizer::Tokenizer;

pub use tensor::{Axis, Convention, Form, Tensor};
pub(crate) use tensor::{PIECE, PackedPart, Planned, Work, plan_packed, plan_values};

/// An opened model: its files' headers, and its tensors under stored and canonical names.
///
/// A model is cheap to clone: clones share what was opened. Tensor data is read when a [`Tensor`] is
/// asked for it, and a tensor keeps its model open. Nothing is bound to a device; see
/// [`WeightProvider`](crate::WeightProvider) for loading.
#[derive(Clone, Debug)]
pub struct Model {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<Store>,
    /// Found out when a canonical name is asked for.
    names: OnceLock<Result<Names>>,
    config: OnceLock<Result<ModelConfig>>,
}

/// How stored names were understood, and an index over the canonical ones.
#[derive(Debug)]
struct Names {
    resolution: Resolution,
    /// By canonical name, where in the resolution it stands.
    mapped: NameIndex,
}

impl Names {
    fn of(store: &Arc<Store>) -> Result<Self> {
        let resolution = resolve(store)?;
        let mut mapped = NameIndex::with_room(resolution.mapped.len())?;
        for (place, mapping) in (0..).zip(&resolution.mapped) {
            let name = mapping.canonical.as_bytes();
            mapped.insert(name, index::hash(name), place, |place| canonical(&resolution, place));
        }
        Ok(Self { resolution, mapped })
    }
}

/// The name of the canonical tensor in that place.
fn canonical(resolution: &Resolution, place: u32) -> &[u8] {
    resolution.mapped.get(place as usize).map_or(&[], |mapping| mapping.canonical.as_bytes())
}

impl OpenOptions {
    /// Opens `path` with these options, or the model of that name in Ollama's store; see
    /// [`Model::open`].
    ///
    /// # Errors
    ///
    /// As [`Model::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        container::open(path.as_ref(), self).map(Model::of_store)
    }

    /// Opens bytes that are in memory: one GGUF, safetensors or whisper.cpp file. `name` stands for
    /// the path in messages.
    ///
    /// # Errors
    ///
    /// As [`Model::open`].
    pub fn open_memory(
        &self,
        name: impl Into<PathBuf>,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Model> {
        container::open_memory(name.into(), bytes.into(), self).map(Model::of_store)
    }
}

impl Model {
    /// Opens a model: a file, any shard of a split GGUF, a directory, or a name in Ollama's store. The
    /// container is detected from the content.
    ///
    /// Opening reads the headers and no tensor data.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if the path cannot be read; `UnknownContainer` or `Unsupported`, with what the
    /// file is instead, if this library does not read it; `Malformed` if it breaks its format, is cut
    /// short or contradicts itself; `LimitExceeded`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    fn of_store(store: Store) -> Self {
        let store = Arc::new(store);
        Self { inner: Arc::new(Inner { store, names: OnceLock::new(), config: OnceLock::new() }) }
    }

    /// What the container was parsed to.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        self.inner.store.path()
    }

    /// The name of the container: `gguf`, `safetensors`.
    pub fn container(&self) -> &'static str {
        self.inner.store.container()
    }

    /// How the files are encoded.
    pub fn encoding(&self) -> Encoding {
        self.inner.store.encoding()
    }

    /// The paths of the files that hold tensors or metadata.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.inner.store.files()
    }

    /// The files that belong to the model beside its weights, as its manifest lists them.
    pub fn attachments(&self) -> &[Attachment] {
        self.inner.store.attachments()
    }

    /// What a reader should know although the model opened: rules that files break, files left aside.
    pub fn notes(&self) -> &[Note] {
        self.inner.store.notes()
    }

    /// Keys and values: GGUF's metadata, the `__metadata__` of a safetensors file, or what stands before
    /// the tensors of a whisper.cpp file.
    pub fn metadata(&self) -> &Metadata {
        self.inner.store.metadata()
    }

    /// The JSON document of that file name, if opening the model read it: `config.json`, `params.json`.
    /// Others are read by [`read_document`](Self::read_document).
    pub fn document(&self, file_name: &str) -> Option<&Json> {
        self.inner.store.document(file_name)
    }

    /// A JSON document beside the weights: as it was read when the model was opened, or read now. `None`
    /// if there is none.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is no JSON; `LimitExceeded`; `Io` if it cannot be read.
    pub fn read_document(&self, name: &'static str) -> Result<Option<Cow<'_, Json>>> {
        self.inner.store.read_document(name)
    }

    /// The number of stored tensors. Scales and the like that belong to another tensor do not count.
    pub fn len(&self) -> usize {
        self.inner.store.len()
    }

    /// Whether there are no tensors: a file of metadata or a vocabulary alone.
    pub fn is_empty(&self) -> bool {
        self.inner.store.is_empty()
    }

    /// Bytes of all stored tensors with all their parts; those of unknown types do not count.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.store.stored_bytes()
    }

    /// What the weights are stored as, by dtype and group size.
    pub fn quantization(&self) -> QuantizationSummary {
        self.inner.store.quantization()
    }

    /// The number of files whose SHA-256 the container gives.
    pub fn digests(&self) -> usize {
        self.inner.store.digests()
    }

    /// Reads every file whose SHA-256 the container gives, and says which have another: each with the
    /// digest found, or `None` where the file is missing. `progress` is told the bytes read.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read.
    pub fn verify_digests(
        &self,
        progress: impl FnMut(u64),
    ) -> Result<Vec<(PathBuf, Option<String>)>> {
        self.inner.store.verify_digests(progress)
    }

    /// How stored names were understood: the architecture, and the canonical name of each tensor.
    ///
    /// # Errors
    ///
    /// `Malformed` if the architecture's name is no text, or two tensors have one canonical name.
    pub fn resolution(&self) -> Result<&Resolution> {
        self.names_of().map(|names| &names.resolution)
    }

    fn names_of(&self) -> Result<&Names> {
        let names = self.inner.names.get_or_init(|| Names::of(&self.inner.store));
        names.as_ref().map_err(Error::clone)
    }

    /// The model's numbers.
    ///
    /// # Errors
    ///
    /// `Malformed` if the model does not say what its architecture is, lacks a number that is required,
    /// or has an impossible one: zero heads, a width that is no integer; as
    /// [`resolution`](Self::resolution).
    pub fn config(&self) -> Result<&ModelConfig> {
        let config =
            self.inner.config.get_or_init(|| model_config(&self.inner.store, self.resolution()?));
        config.as_ref().map_err(Error::clone)
    }

    /// Keys and values of the model's config that no field of [`ModelConfig`] reads.
    pub fn unused_config(&self) -> Vec<(String, ConfigValue<'_>)> {
        ModelConfig::other(&self.inner.store)
    }

    /// The tokenizer, or `None` if no file has one.
    ///
    /// # Errors
    ///
    /// `Malformed` if the file that has it breaks its format; `LimitExceeded`; `Io` if a file beside the
    /// weights cannot be read.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer<'_>>> {
        Tokenizer::of(&self.inner.store)
    }

    /// The settings for generating text, or `None` if no file has any.
    ///
    /// # Errors
    ///
    /// `Malformed` if a setting is of another type than it should be, or the file is no JSON;
    /// `LimitExceeded`; `Io` if it cannot be read.
    pub fn generation_config(&self) -> Result<Option<GenerationConfig>> {
        GenerationConfig::of(&self.inner.store)
    }

    /// The names that [`tensor`](Self::tensor) takes: canonical ones, then stored names that have none.
    ///
    /// # Errors
    ///
    /// As [`resolution`](Self::resolution).
    pub fn names(&self) -> Result<impl Iterator<Item = &str>> {
        let Resolution { mapped, unknown, .. } = self.resolution()?;
        let mapped = mapped.iter().map(|mapping| mapping.canonical.as_str());
        Ok(mapped.chain(unknown.iter().map(String::as_str)))
    }

    /// Whether there is a tensor of that canonical name.
    pub fn has(&self, name: &str) -> bool {
        self.mapping(name).is_ok_and(|mapping| mapping.is_some())
    }

    /// How a canonical tensor is stored.
    pub(crate) fn mapping(&self, name: &str) -> Result<Option<&Mapping>> {
        let Names { resolution, mapped } = self.names_of()?;
        let place = mapped.find(name.as_bytes(), |place| canonical(resolution, place));
        Ok(place.and_then(|place| resolution.mapped.get(place as usize)))
    }

    /// The tensor of that canonical name, or of that stored name if it has no canonical one. Its rows and
    /// values are those of a Hugging Face checkpoint.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has none; `Mismatch` or `Malformed` if the stored tensor is not what its
    /// name and the model's config say; as [`resolution`](Self::resolution).
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.tensor_in(name, Convention::default())
    }

    /// As [`tensor`](Self::tensor), with an explicit convention.
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor).
    pub fn tensor_in(&self, name: &str, convention: Convention) -> Result<Tensor> {
        let Some(mapping) = self.mapping(name)? else { return self.unmapped(name) };
        let store = &self.inner.store;
        if !mapping.transform.needs_config() {
            return Tensor::mapped(store, mapping, None, convention);
        }
        let config = self.config();
        match Tensor::mapped(store, mapping, config.as_ref().ok().copied(), convention) {
            // What is wrong with the config is what is wrong with the tensor.
            Err(error) => Err(config.err().unwrap_or(error)),
            tensor => tensor,
        }
    }

    /// All tensors under the names that [`names`](Self::names) lists.
    ///
    /// # Errors
    ///
    /// As [`resolution`](Self::resolution).
    pub fn tensors(&self) -> Result<impl Iterator<Item = Result<Tensor>>> {
        Ok(self.names()?.map(|name| self.tensor(name)))
    }

    /// A tensor that has no canonical name.
    fn unmapped(&self, name: &str) -> Result<Tensor> {
        let holds = |mapping: &&Mapping| mapping.stored.iter().any(|stored| stored == name);
        let mapped = self.resolution()?.mapped.iter();
        let canonical: Vec<&str> = mapped.filter(holds).map(|m| m.canonical.as_str()).collect();
        let advice = match canonical.as_slice() {
            [] => return self.stored_tensor(name),
            [one] => format!("its canonical name is \"{one}\""),
            several => format!("it holds \"{}\"", several.join("\", \"")),
        };
        let fault = format!("the model has no tensor \"{}\"", Text::new(name.as_bytes()));
        Err(Error::not_found(fault).advise(advice).in_file(self.path()))
    }

    /// The tensor of that stored name, with the rows and values that it has in its file. A name that is
    /// not UTF-8 is given in its [spelling](Text::spelling).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; the advice names the tensor that comes nearest.
    pub fn stored_tensor(&self, name: &str) -> Result<Tensor> {
        let store = &self.inner.store;
        store.tensor(name).map(|tensor| Tensor::stored(tensor.handle(store)))
    }

    /// All stored tensors, in the order of the files.
    pub fn stored_tensors(&self) -> impl Iterator<Item = Tensor> {
        let store = &self.inner.store;
        store.tensors().map(|tensor| Tensor::stored(tensor.handle(store)))
    }

    /// The rows of several tensors one after another, as one: see [`Tensor::fuse`].
    ///
    /// # Errors
    ///
    /// As [`tensor`](Self::tensor) and [`Tensor::fuse`].
    pub fn fused(&self, names: &[&str]) -> Result<Tensor> {
        Tensor::fuse(names.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?)
    }
}
