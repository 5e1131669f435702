//! An opened model and its tensors: owned, cheap to clone, bound to no device.
//!
//! ```text
//!  path ──container──▶ Store ──arch──▶ Resolution ──▶ Model ──▶ Tensor ──▶ bytes, values
//!                      (stored names)  (canonical names)
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod projector;
mod sharding;
mod tensor;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::arch::{
    ConfigValue, Dialect, DialectTensor, GenerationConfig, KeptDocument, LEFT_OUT, Mapping,
    ModelConfig, Resolution, ZERO_BIAS, canonical_of, computed_config, dialect_tensors, end_tokens,
    model_config, resolve, stated_config, unused_config,
};
use crate::bytes::{Source, Text};
use crate::container::{self, OpenOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{self, NameIndex};
use crate::json::Json;
use crate::metadata::Metadata;
use crate::store::Store;
use crate::store::tensor::nearest;
use crate::threads::Threads;
use crate::tokenizer::Tokenizer;

pub use crate::store::tensor::{
    DecodeOptions, Finding, FindingKind, RowScales, Segment, SubScales,
};
pub use crate::store::{
    Attachment, DTypeSummary, Document, Encoding, Note, Part, QuantizationSummary,
};
pub(crate) use sharding::AxisRanges;
pub use sharding::{Mesh, Rank, Sharding};
pub(crate) use tensor::{
    Adaptation, BufferPiece, PIECE, PackedPart, PieceOrigin, ProductUse, plan_packed, plan_values,
    prefetch,
};
pub use tensor::{Axis, Convention, Derivation, RowReader, Tensor};

/// The canonical names of the embedding and of the output matrix, whose rows are tokens.
pub(crate) const EMBEDDING: &str = "token_embedding.weight";
pub(crate) const OUTPUT: &str = "output.weight";

/// An opened model: the parsed headers of its files, and its tensors under stored and canonical
/// names.
///
/// Cloning is cheap, because clones share what was opened. Tensor data is read when a method of
/// [`Tensor`] requests it, and a tensor keeps its model open. A model is bound to no device;
/// [`WeightProvider`](crate::WeightProvider) loads tensors onto one.
#[derive(Clone)]
pub struct Model {
    inner: Arc<ModelInner>,
}

impl std::fmt::Debug for Model {
    /// Prints the path, without the headers and records, which have megabytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Model");
        shown.field("path", &self.path()).field("container", &self.container());
        shown.field("tensors", &self.len()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct ModelInner {
    store: Arc<Store>,
    /// Resolved when the first canonical name is requested.
    names: OnceLock<Result<ResolvedNames>>,
    config: OnceLock<Result<(ModelConfig, Option<KeptDocument>)>>,
    /// The changes that merged adapters make to the values.
    adaptation: Option<Arc<Adaptation>>,
    /// A note for each adapter that was merged.
    merged: Vec<String>,
    /// Whether the adapters that the container attaches to the model are among them.
    has_attached: bool,
}

/// The resolution of stored names, and an index over the canonical names.
#[derive(Clone, Debug)]
struct ResolvedNames {
    resolution: Resolution,
    /// Maps a canonical name to its position in `resolution.mapped`.
    mapped: NameIndex,
}

impl ResolvedNames {
    fn of(store: &Arc<Store>) -> Result<Self> {
        Self::indexed(resolve(store)?)
    }

    fn indexed(resolution: Resolution) -> Result<Self> {
        let mut mapped = NameIndex::with_room(resolution.mapped.len())?;
        for (place, mapping) in (0..).zip(&resolution.mapped) {
            let name = mapping.canonical.as_bytes();
            let same = |other| canonical(&resolution, other) == name;
            let hash_of = |other| index::hash(canonical(&resolution, other));
            mapped.insert(index::hash(name), place, same, hash_of);
        }
        Ok(Self { resolution, mapped })
    }
}

/// The name of the canonical tensor at position `place`.
fn canonical(resolution: &Resolution, place: u32) -> &[u8] {
    resolution.mapped.get(place as usize).map_or(&[], |mapping| mapping.canonical.as_bytes())
}

impl OpenOptions {
    /// Opens `path` with these options. `path` may also be a model name in Ollama's store; see
    /// [`Model::open`].
    ///
    /// # Errors
    ///
    /// Same as [`Model::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Model> {
        container::open(path.as_ref(), self).map(Model::of_store)
    }

    /// Opens a GGUF, safetensors or whisper.cpp file that is in memory. Messages use `name` as the
    /// path.
    ///
    /// # Errors
    ///
    /// Same as [`Model::open`].
    pub fn open_memory(
        &self,
        name: impl Into<PathBuf>,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Model> {
        container::open_source(Source::memory(name, bytes), self).map(Model::of_store)
    }
}

impl Model {
    /// Opens a model: a file, any shard of a split GGUF, a directory, or a model name in Ollama's
    /// store. The container is detected from the content.
    ///
    /// Opening reads the headers and no tensor data.
    ///
    /// # Errors
    ///
    /// `NotFound` or `Io` if the path cannot be read; `UnknownContainer` or `Unsupported` if this
    /// library does not read the format (the message names the format if it is recognized);
    /// `Malformed` if the file breaks its format, is truncated or contradicts itself;
    /// `LimitExceeded` if it exceeds the [`Limits`](crate::Limits).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// The model of an opened store.
    pub(crate) fn of_store(store: Store) -> Self {
        let (names, config, store) = (OnceLock::new(), OnceLock::new(), Arc::new(store));
        let (adaptation, merged, has_attached) = (None, Vec::new(), false);
        let inner = ModelInner { store, names, config, adaptation, merged, has_attached };
        Self { inner: Arc::new(inner) }
    }

    /// The same model with another store, other names or other changes.
    fn with(&self, change: impl FnOnce(&mut ModelInner)) -> Self {
        let ModelInner { store, names, adaptation, merged, has_attached, .. } = &*self.inner;
        let (store, names, config) = (Arc::clone(store), names.clone(), OnceLock::new());
        let (adaptation, merged, has_attached) =
            (adaptation.clone(), merged.clone(), *has_attached);
        let mut inner = ModelInner { store, names, config, adaptation, merged, has_attached };
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// The same model with some stored tensors, of these names, replaced by those of another store.
    pub(crate) fn with_replaced(&self, store: Store, names: &[String]) -> Self {
        let kept = |changes: &Arc<Adaptation>| {
            Arc::new(names.iter().fold(changes.continued(), |kept, name| kept.without(name)))
        };
        self.with(|inner| {
            (inner.store, inner.adaptation) =
                (Arc::new(store), inner.adaptation.as_ref().map(kept));
        })
    }

    /// The same model with its embedding once more, as the output matrix. `None` if it has an output matrix,
    /// computes logits otherwise, or scales those of its embedding.
    pub(crate) fn untied(&self) -> Result<Option<Self>> {
        let names = self.names_of()?;
        let Resolution { architecture, dialect, .. } = names.resolution;
        let Some(architecture) = architecture.filter(|_| !self.has(OUTPUT)) else {
            return Ok(None);
        };
        let config = self.document("config.json");
        let scales = config.and_then(|config| config.get("is_encoder_decoder")?.as_bool());
        let Some(embedding) = self.mapping(EMBEDDING)?.filter(|_| scales != Some(true)) else {
            return Ok(None);
        };
        let named = self.config().map_or(architecture.name, |config| &config.architecture.value);
        let (found, _) = dialect_tensors(architecture, named, dialect, &[OUTPUT], |_, _| false);
        let ([DialectTensor { name, parts }], [stored]) =
            (found.as_slice(), embedding.stored.as_slice())
        else {
            return Ok(None);
        };
        let [(_, transform)] = parts.as_slice() else { return Ok(None) };
        let store = &self.inner.store;
        let Some(number) = store.find(stored).map(|tensor| tensor.number()) else {
            return Ok(None);
        };
        let is_free = store.find(name).is_none();
        if !(is_free && transform.is_same() && embedding.transform.is_same()) {
            return Ok(None);
        }
        let adaptation = self.inner.adaptation.as_ref();
        let adaptation = adaptation.map(|changes| Arc::new(changes.with_alias(stored, name)));
        let store = store.with_alias(number, name)?;
        let mut names = names.clone();
        let (canonical, stored) = (OUTPUT.to_owned(), vec![name.clone()]);
        let (stacked, transform) = (false, *transform);
        names.resolution.mapped.push(Mapping { canonical, stored, stacked, transform });
        let names = ResolvedNames::indexed(names.resolution)?;
        Ok(Some(self.with(|inner| {
            (inner.store, inner.names) = (Arc::new(store), OnceLock::from(Ok(names)));
            inner.adaptation = adaptation;
        })))
    }

    /// The same model with changed values, and a note on each change.
    pub(crate) fn with_changes(&self, adaptation: Adaptation, merged: Vec<String>) -> Self {
        self.with(|inner| {
            (inner.adaptation, inner.merged) = (Some(Arc::new(adaptation)), merged);
        })
    }

    /// The changes of its values so far, to which others can be added.
    pub(crate) fn changes(&self) -> Adaptation {
        self.inner.adaptation.as_ref().map_or_else(Adaptation::default, |all| all.continued())
    }

    /// The same model with notes of what was merged.
    pub(crate) fn with_notes(&self, merged: Vec<String>) -> Self {
        self.with(|inner| inner.merged = merged)
    }

    /// The same model, with the adapters that its container attaches to it merged.
    pub(crate) fn attached(&self) -> Self {
        self.with(|inner| inner.has_attached = true)
    }

    /// Whether the adapters that the container attaches to the model are merged.
    pub(crate) fn has_attached(&self) -> bool {
        self.inner.has_attached
    }

    /// A note for each adapter that was merged into the model.
    pub(crate) fn merged(&self) -> &[String] {
        &self.inner.merged
    }

    fn changed(&self, tensor: Tensor) -> Tensor {
        match &self.inner.adaptation {
            Some(adaptation) => tensor.adapted(adaptation),
            None => tensor,
        }
    }

    /// The parsed container.
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

    /// The encoding of the files.
    pub fn encoding(&self) -> Encoding {
        self.inner.store.encoding()
    }

    /// The paths of the files that hold tensors or metadata.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.inner.store.files()
    }

    /// The bytes of each of the [`files`](Self::files).
    pub fn file_sizes(&self) -> impl ExactSizeIterator<Item = u64> {
        self.inner.store.file_sizes()
    }

    /// The files that belong to the model besides its weights, as listed in its manifest.
    pub fn attachments(&self) -> &[Attachment] {
        self.inner.store.attachments()
    }

    /// Remarks about a model that opened: broken format rules, files that were ignored.
    pub fn notes(&self) -> &[Note] {
        self.inner.store.notes()
    }

    /// The metadata: the keys and values of GGUF, the `__metadata__` of a safetensors file, or the
    /// hyperparameters of a whisper.cpp file.
    pub fn metadata(&self) -> &Metadata {
        self.inner.store.metadata()
    }

    /// The JSON document with this file name, if opening the model read it: `config.json`,
    /// `params.json`. [`read_document`](Self::read_document) reads other documents.
    pub fn document(&self, file_name: &str) -> Option<&Json> {
        self.inner.store.document(file_name)
    }

    /// Reads a JSON document that lies beside the weights. Returns `None` if there is none. A
    /// document that opening the model read is not read again.
    ///
    /// # Errors
    ///
    /// `Malformed` if the file is not valid JSON; `LimitExceeded`; `Io` if it cannot be read.
    pub fn read_document(&self, name: &str) -> Result<Option<Cow<'_, Json>>> {
        self.inner.store.read_document(name)
    }

    /// The number of stored tensors. Scales and other parts of a tensor do not count.
    pub fn len(&self) -> usize {
        self.inner.store.len()
    }

    /// Whether the model has no tensors, like a GGUF file that holds only metadata or a vocabulary.
    pub fn is_empty(&self) -> bool {
        self.inner.store.is_empty()
    }

    /// Bytes of the files that hold tensors or metadata, as a listing of the folder shows them.
    pub fn file_bytes(&self) -> u64 {
        self.inner.store.file_bytes()
    }

    /// Bytes of all stored tensors with all their parts. Tensors of unknown types do not count.
    pub fn stored_bytes(&self) -> u64 {
        self.inner.store.stored_bytes()
    }

    /// Summarizes how the weights are stored: by dtype and group size.
    pub fn quantization(&self) -> QuantizationSummary {
        self.inner.store.quantization()
    }

    /// The number of files whose SHA-256 is known: the container states it, or the name of the file is its
    /// digest, as in the cache of the Hugging Face hub. Small files there have git's names.
    pub fn digests(&self) -> usize {
        self.inner.store.digests()
    }

    /// Reads every file whose [digest is known](Self::digests), and returns the files that
    /// differ: each with the digest found, or `None` if the file is missing. Threads read different
    /// files. `progress` is called with the bytes read since its last call.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be read, and the errors of `progress`, which end the work.
    pub fn verify_digests(
        &self,
        threads: impl Into<Threads>,
        progress: impl Fn(u64) -> Result<()> + Sync,
    ) -> Result<Vec<(PathBuf, Option<String>)>> {
        self.inner.store.verify_digests(threads.into(), progress)
    }

    /// The result of name resolution: the architecture, and the canonical name of each tensor.
    ///
    /// # Errors
    ///
    /// `Malformed` if the architecture's name is not text, or two tensors have the same canonical
    /// name.
    pub fn resolution(&self) -> Result<&Resolution> {
        self.names_of().map(|names| &names.resolution)
    }

    /// The same model without the tensors whose stored names `matches` accepts. None of them may have a
    /// canonical name: those are unknown, or belong to another model in the same files, such as a vision
    /// tower.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the model needs one of the tensors; `NotFound` if there is none; otherwise same as
    /// [`resolution`](Self::resolution).
    pub fn leave_out(&self, matches: impl Fn(&str) -> bool) -> Result<Self> {
        let mut resolution = self.resolution()?.clone();
        // What a bias of zeros adds is nothing.
        let mut zeros = Vec::new();
        for of in resolution.mapped.iter().filter(|of| of.canonical.ends_with(".bias")) {
            let is_whole = of.stored.iter().all(|stored| matches(stored));
            if is_whole && self.tensor(&of.canonical)?.is_zero()? {
                zeros.push(of.canonical.clone());
            }
        }
        let is_zero = |of: &Mapping| zeros.contains(&of.canonical);
        resolution.unmap(is_zero, LEFT_OUT);
        resolution.leave_out(matches).map_err(|error| error.in_file(self.path()))?;
        self.with_resolution(resolution)
    }

    /// The same model without biases of zeros that the reader of what is written has no place for.
    pub(crate) fn without_biases(&self, is_left: impl Fn(&Mapping) -> bool) -> Result<Self> {
        let mut resolution = self.resolution()?.clone();
        resolution.unmap(is_left, ZERO_BIAS);
        self.with_resolution(resolution)
    }

    fn with_resolution(&self, resolution: Resolution) -> Result<Self> {
        let names = ResolvedNames::indexed(resolution)?;
        Ok(self.with(|inner| inner.names = OnceLock::from(Ok(names))))
    }

    fn names_of(&self) -> Result<&ResolvedNames> {
        let names = self.inner.names.get_or_init(|| ResolvedNames::of(&self.inner.store));
        names.as_ref().map_err(Error::clone)
    }

    /// The model's hyperparameters.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the architecture is not stated, or the model is not a language model;
    /// `Malformed` if a required value is missing or impossible, such as zero heads or a width that
    /// is not an integer; otherwise same as [`resolution`](Self::resolution).
    pub fn config(&self) -> Result<&ModelConfig> {
        self.config_and_kept().map(|(config, _)| config)
    }

    fn config_and_kept(&self) -> Result<&(ModelConfig, Option<KeptDocument>)> {
        let config =
            self.inner.config.get_or_init(|| model_config(&self.inner.store, self.resolution()?));
        config.as_ref().map_err(Error::clone)
    }

    /// The `config.json` that a GGUF file keeps.
    fn kept(&self) -> Option<&KeptDocument> {
        self.config_and_kept().ok()?.1.as_ref()
    }

    /// The value that the files state under a key of `config.json`, or of GGUF after the architecture's
    /// name, whether or not a field of [`ModelConfig`] reads it. A `null` is none.
    pub fn stated_config(&self, key: &str) -> Option<ConfigValue<'_>> {
        stated_config(&self.inner.store, self.kept(), key)
    }

    /// The config's keys and values that no field of [`ModelConfig`] reads.
    pub fn unused_config(&self) -> Vec<(String, ConfigValue<'_>)> {
        unused_config(&self.inner.store, self.kept())
    }

    /// The keys of `config.json` among [`unused_config`](Self::unused_config) that change the logits of transformers'
    /// causal class, and whose values are not its defaults. Empty for a model type without such a class. Of `params.json`,
    /// all that may change logits.
    pub fn computed_config(&self) -> Vec<(String, ConfigValue<'_>)> {
        computed_config(&self.inner.store, self.kept())
    }

    /// The tokenizer, or `None` if no file contains one.
    ///
    /// # Errors
    ///
    /// `Malformed` if the tokenizer's file breaks its format; `LimitExceeded`; `Io` if a file
    /// beside the weights cannot be read.
    pub fn tokenizer(&self) -> Result<Option<Tokenizer<'_>>> {
        Tokenizer::of(&self.inner.store)
    }

    /// The settings for text generation, or `None` if no file contains any.
    ///
    /// # Errors
    ///
    /// `Malformed` if a setting has the wrong type or the file is not valid JSON; `LimitExceeded`;
    /// `Io` if the file cannot be read.
    pub fn generation_config(&self) -> Result<Option<GenerationConfig>> {
        GenerationConfig::of(&self.inner.store)
    }

    /// The tokens that end a text: those that `generation_config.json` states, or else `config.json`, and those of the
    /// tokenizer. A GGUF file states one, and keeps the list of the model that it was written from.
    ///
    /// # Errors
    ///
    /// Same as [`generation_config`](Self::generation_config) and [`tokenizer`](Self::tokenizer).
    pub fn end_tokens(&self) -> Result<Vec<u32>> {
        let mut ends = end_tokens(&self.inner.store)?;
        if let Some(tokenizer) = self.tokenizer()? {
            ends.extend(["eos", "eot"].iter().filter_map(|name| tokenizer.special(name)));
        }
        Ok(ends)
    }

    /// The names that [`tensor`](Self::tensor) accepts: canonical names, then the stored names of
    /// tensors without a canonical one.
    ///
    /// # Errors
    ///
    /// Same as [`resolution`](Self::resolution).
    pub fn names(&self) -> Result<impl Iterator<Item = &str>> {
        let Resolution { mapped, unknown, .. } = self.resolution()?;
        let mapped = mapped.iter().map(|mapping| mapping.canonical.as_str());
        Ok(mapped.chain(unknown.iter().map(String::as_str)))
    }

    /// The error of the first tensor whose values cannot be read, since its quantization scheme is not decoded.
    pub fn unknown_values(&self) -> Option<Error> {
        self.inner.store.check_known().err()
    }

    /// Whether the model has a tensor with this canonical name.
    pub fn has(&self, name: &str) -> bool {
        self.mapping(name).is_ok_and(|mapping| mapping.is_some())
    }

    /// The mapping from stored tensors to this canonical tensor.
    pub(crate) fn mapping(&self, name: &str) -> Result<Option<&Mapping>> {
        let ResolvedNames { resolution, mapped } = self.names_of()?;
        let place = mapped.find(name.as_bytes(), |place| canonical(resolution, place));
        Ok(place.and_then(|place| resolution.mapped.get(place as usize)))
    }

    /// The tensor with this canonical name, or with this stored name if it has no canonical one.
    /// Its rows and values are those of a Hugging Face checkpoint.
    ///
    /// # Errors
    ///
    /// `NotFound` if the model has no such tensor; `Malformed` if the stored tensor contradicts its
    /// name or the model's config; otherwise same as
    /// [`resolution`](Self::resolution).
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.tensor_in(name, Convention::default())
    }

    /// Like [`tensor`](Self::tensor), with an explicit convention.
    ///
    /// # Errors
    ///
    /// Same as [`tensor`](Self::tensor).
    pub fn tensor_in(&self, name: &str, convention: Convention) -> Result<Tensor> {
        let Some(mapping) = self.mapping(name)? else { return self.unmapped(name) };
        let store = &self.inner.store;
        let config = mapping.transform.needs_config().then(|| self.config());
        let known = config.as_ref().and_then(|config| config.as_ref().ok().copied());
        match Tensor::mapped(store, mapping, known, convention) {
            // A faulty config explains the failure better than the tensor does.
            Err(error) => Err(config.and_then(Result::err).unwrap_or(error)),
            Ok(tensor) => Ok(self.changed(tensor)),
        }
    }

    /// All tensors, under the names that [`names`](Self::names) lists.
    ///
    /// # Errors
    ///
    /// Same as [`resolution`](Self::resolution).
    pub fn tensors(&self) -> Result<impl Iterator<Item = Result<Tensor>>> {
        Ok(self.names()?.map(|name| self.tensor(name)))
    }

    /// A tensor that has no canonical name.
    fn unmapped(&self, name: &str) -> Result<Tensor> {
        let holds = |mapping: &&Mapping| mapping.stored.iter().any(|stored| stored == name);
        let mapped = self.resolution()?.mapped.iter();
        let canonical: Vec<&str> = mapped.filter(holds).map(|m| m.canonical.as_str()).collect();
        let advice = match canonical.as_slice() {
            // The arrays of a scheme that is not supported may have none of the names of tensors.
            [] => {
                return self.stored_tensor(name).map_err(|error| match error.kind() {
                    ErrorKind::NotFound => {
                        let known = self.inner.store.check_known();
                        known.err().unwrap_or_else(|| self.nameless(name).unwrap_or(error))
                    }
                    _ => error,
                });
            }
            [one] => format!("its canonical name is \"{one}\""),
            several => format!("it holds \"{}\"", several.join("\", \"")),
        };
        let fault = format!("the model has no tensor \"{}\"", Text::new(name.as_bytes()));
        Err(Error::not_found(fault).advise(advice).in_file(self.path()))
    }

    /// The error of a name that no tensor has, if another name is similar.
    fn nameless(&self, name: &str) -> Option<Error> {
        let advice = match self.translated(name) {
            Some(canonical) => format!("its canonical name is \"{canonical}\""),
            None if ["lm_head.weight", "output.weight"].contains(&name) && self.is_tied() => {
                "the output matrix is the embedding, \"token_embedding.weight\"".to_owned()
            }
            None => {
                let canonical = self.names().ok()?.map(str::to_owned);
                let stored = self.stored_tensors().map(|tensor| tensor.name().to_owned());
                let near = nearest(name, canonical.chain(stored))?;
                format!("the most similar name is \"{near}\"")
            }
        };
        let fault = format!("the model has no tensor \"{}\"", Text::new(name.as_bytes()));
        Some(Error::not_found(fault).advise(advice).in_file(self.path()))
    }

    /// Whether the output matrix is the embedding.
    fn is_tied(&self) -> bool {
        let config = self.config().ok();
        config.and_then(|config| config.tie_embeddings.as_ref()).is_some_and(|tied| tied.value)
    }

    /// The canonical name of a tensor that another dialect stores under this name.
    fn translated(&self, name: &str) -> Option<String> {
        let architecture = self.resolution().ok()?.architecture?;
        let dialects = [Dialect::HuggingFace, Dialect::Gguf, Dialect::Mlx].into_iter();
        let mut found = dialects.flat_map(|dialect| canonical_of(architecture, dialect, name));
        found.find(|found| self.has(&found.canonical)).map(|found| found.canonical)
    }

    /// The stored tensor with this name, with the rows and values of its file. A name that is not
    /// UTF-8 is given in its [spelling](Text::spelling).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; the advice names the most similar tensor.
    pub fn stored_tensor(&self, name: &str) -> Result<Tensor> {
        let store = &self.inner.store;
        store.tensor(name).map(|tensor| self.changed(Tensor::stored(store, tensor)))
    }

    /// The stored tensor at this position in file order, if there are as many.
    pub fn stored_tensor_at(&self, position: usize) -> Option<Tensor> {
        let store = &self.inner.store;
        let tensor = store.tensors().nth(position)?;
        Some(self.changed(Tensor::stored(store, tensor)))
    }

    /// All stored tensors, in file order.
    pub fn stored_tensors(&self) -> impl Iterator<Item = Tensor> {
        let store = &self.inner.store;
        store.tensors().map(|tensor| self.changed(Tensor::stored(store, tensor)))
    }

    /// Fuses several tensors into one whose rows are theirs, one tensor after another: see
    /// [`Tensor::fuse`].
    ///
    /// # Errors
    ///
    /// Same as [`tensor`](Self::tensor) and [`Tensor::fuse`].
    pub fn fused(&self, names: &[&str]) -> Result<Tensor> {
        Tensor::fuse(names.iter().map(|name| self.tensor(name)).collect::<Result<_>>()?)
    }
}

#[cfg(test)]
mod tests;
