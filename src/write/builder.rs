//! Builds a model from tensors, metadata and documents, for any container that can be written.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::method::{Precision, check_encodable, choose, encoded, grouped};
use super::{
    Account, Method, OutFile, OutTensor, Output, PlacedTensor, PlannedModel, PlannedTensor,
    Producer, WritePlan,
};
use crate::bytes::Text;
use crate::container::writer::{
    FileContent, NewDocument, NewFile, NewModel, NewTensor, Placement, Shards, Writer,
};
use crate::container::{Container, default_group_size};
use crate::dialect::Dialect;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::json::{Json, Map};
use crate::metadata::KeyValues;
use crate::model::{Model, Tensor};
use crate::recipe::FileType;
use crate::store::{Part, Store};

/// Gathers tensors, metadata and documents into a model for one container.
///
/// Tensors come from an open [`Model`](crate::Model), under any name, or are the caller's own
/// arrays ([`Tensor::new`]). No tensor is read until the [plan](Self::plan) is run. Running the
/// plan streams the tensors in bounded memory into files that appear complete or not at all.
///
/// ```
/// use weighbridge::container::GGUF;
/// use weighbridge::metadata::Value;
/// use weighbridge::{Builder, DType, Model, Tensor, WriteOptions};
///
/// # fn main() -> weighbridge::Result<()> {
/// let values: Vec<u8> = (0..512).flat_map(|n| (n as f32).to_le_bytes()).collect();
/// let tensor = Tensor::new("embedding", DType::F32, &[2, 256], values)?;
///
/// let mut model = Builder::new(&GGUF)?;
/// model.metadata().set_text("general.architecture", "mine");
/// model.metadata().set("mine.width", Value::U32(256));
/// model.add("embedding.weight", &tensor)?;
/// model.add_as("small.weight", &tensor, DType::Q4_K)?;
///
/// # let folder = std::env::temp_dir().join(format!("weighbridge-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("mine.gguf");
/// model.plan()?.run(&path, &WriteOptions::new())?;
/// assert_eq!(Model::open(&path)?.stored_tensor("small.weight")?.dtype()?, DType::Q4_K);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    writer: &'static Writer,
    placement: Placement,
    metadata: KeyValues,
    tensors: Vec<OutTensor>,
    documents: Vec<NewDocument>,
    quantization: Option<Json>,
    shards: Option<Shards>,
    stem: String,
    weights: &'static str,
    alignment: Option<u64>,
    notes: Vec<String>,
    /// Names of tensors and documents that are left out, each with the reason.
    left_out: Vec<(String, String)>,
    account: Account,
    /// The models that are read; their files are never written to.
    stores: Vec<Arc<Store>>,
}

impl Builder {
    /// Starts an empty model for a container.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a container that cannot be written.
    pub fn new(container: &Container) -> Result<Self> {
        Ok(Self::with_writer(container.writer()?))
    }

    pub(crate) fn with_writer(writer: &'static Writer) -> Self {
        let mut metadata = KeyValues::new();
        for (key, text) in writer.metadata {
            metadata.set_text(key, text);
        }
        Self {
            writer,
            placement: writer.placement,
            metadata,
            tensors: Vec::new(),
            documents: Vec::new(),
            quantization: None,
            shards: writer.shard_bytes.map(Shards::Bytes),
            stem: "model".to_owned(),
            weights: "model",
            alignment: None,
            notes: Vec::new(),
            left_out: Vec::new(),
            account: Account::default(),
            stores: Vec::new(),
        }
    }

    /// The same, written to another place.
    pub(crate) fn written_by(mut self, writer: &'static Writer) -> Self {
        (self.writer, self.placement) = (writer, writer.placement);
        self.shards = writer.shard_bytes.map(Shards::Bytes);
        self
    }

    /// The metadata of the header: typed keys and values in GGUF files, strings in safetensors
    /// files.
    pub fn metadata(&mut self) -> &mut KeyValues {
        &mut self.metadata
    }

    /// Adds a tensor in the most exact form that the container can hold: copied unchanged, else
    /// repacked with the same values, else requantized to 8 bits or rounded to F16.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the name is empty; `Unsupported` if its values cannot be decoded; `Io` if they
    /// cannot be read.
    pub fn add(&mut self, name: impl Into<String>, tensor: &Tensor) -> Result<()> {
        let output = choose(tensor, self.writer, Precision::default())?;
        self.push(named(name, output)?);
        Ok(())
    }

    /// Adds a tensor whose packed bytes are copied unchanged.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the container cannot hold the dtype; `Mismatch` if the name is empty;
    /// otherwise same as [`Tensor::bytes`].
    pub fn add_copied(&mut self, name: impl Into<String>, tensor: &Tensor) -> Result<()> {
        let dtype = tensor.dtype()?;
        let parts: Vec<Part> = tensor.packed()?.iter().map(|packed| packed.part).collect();
        if !(self.writer.holds)(dtype, &parts) {
            let fault = format!("{} cannot hold {dtype}", self.writer.name);
            return Err(Error::unsupported(fault)
                .in_tensor(tensor.name())
                .advise("add its values, in a dtype of this container"));
        }
        let output = Output::new(Producer::Packed(tensor.clone()), Method::Copied);
        self.push(named(name, output)?);
        Ok(())
    }

    /// Adds the values of a tensor in another dtype, which may be a quantized one.
    ///
    /// # Errors
    ///
    /// `Unsupported` if no conversion to the dtype exists; `Mismatch` if the tensor's rows do not
    /// fit it, or the name is empty.
    pub fn add_as(&mut self, name: impl Into<String>, tensor: &Tensor, dtype: DType) -> Result<()> {
        let output = match dtype.group_quantizer() {
            Some(_) => grouped(tensor, dtype, default_group_size(dtype), None)?,
            None => {
                check_encodable(dtype)?;
                encoded(tensor, dtype, None, Precision::default())?
            }
        };
        let tensor = named(name, output)?;
        tensor.describe()?;
        self.push(tensor);
        Ok(())
    }

    /// Adds a file beside the weights, such as `config.json`. The fields of a `config.json` that
    /// state dtypes and quantization are filled in when the plan is made.
    ///
    /// # Errors
    ///
    /// `Mismatch` for a name that leads out of the directory; `Malformed` for a `config.json` that is
    /// not a JSON object.
    pub fn document(&mut self, name: impl Into<String>, bytes: Vec<u8>) -> Result<()> {
        let name = name.into();
        let mut parts = Path::new(&name).components();
        if name.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
            let fault = "the name of a document leads out of the directory of the model";
            return Err(Error::mismatch(format!("{fault}: \"{name}\"")));
        }
        let document = match name.as_str() {
            "config.json" => {
                let fault = |error| Error::malformed(format!("config.json: {error}"));
                NewDocument::config(Map::parse_python(&bytes).map_err(fault)?)
            }
            _ => NewDocument::new(name, bytes),
        };
        self.documents.push(document);
        Ok(())
    }

    /// Distributes the tensors over several files. The files of a directory are named `model` and
    /// their number; those of a GGUF model, `stem` and their number.
    pub fn shards(&mut self, shards: Shards, stem: impl Into<String>) {
        self.shards = Some(shards);
        self.stem = stem.into();
    }

    /// Aligns the tensor data to `bytes` bytes.
    pub fn alignment(&mut self, bytes: u64) {
        self.alignment = Some(bytes);
    }

    /// Writes one file at the given path, instead of a directory with documents.
    pub fn one_file(&mut self) {
        (self.placement, self.shards) = (Placement::Files, None);
    }

    pub(crate) fn push(&mut self, tensor: OutTensor) {
        for store in tensor.output.producer.view().into_iter().flat_map(Tensor::stores) {
            self.reads(store);
        }
        self.tensors.push(tensor);
    }

    /// Adds all stored tensors of a model, to be copied unchanged.
    pub(crate) fn push_copies_of(&mut self, model: &Model) {
        OutTensor::copies_of(model).into_iter().for_each(|tensor| self.push(tensor));
    }

    /// Records that a model's files are read, so that the plan never writes to them.
    pub(crate) fn reads(&mut self, store: &Arc<Store>) {
        if !self.stores.iter().any(|other| Arc::ptr_eq(other, store)) {
            self.stores.push(Arc::clone(store));
        }
    }

    pub(crate) fn push_document(&mut self, document: NewDocument) {
        self.documents.push(document);
    }

    /// Sets the start of the names of the files of weights in a directory, which is `model`.
    pub(crate) fn weights_name(&mut self, name: &'static str) {
        self.weights = name;
    }

    /// Sets the `quantization` of `config.json`, instead of deriving it from the tensors.
    pub(crate) fn quantization(&mut self, quantization: Json) {
        self.quantization = Some(quantization);
    }

    /// Adds a note to the plan, unless it has the same one.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Leaves tensors or documents out, with a note for each reason. A tensor is named as its note shall
    /// name it: by its stored or its canonical name.
    pub(crate) fn leave_out(&mut self, items: Vec<(String, String)>) {
        left_out(&items).into_iter().for_each(|note| self.note(note));
        self.left_out.extend(items);
    }

    /// Leaves stored tensors out, for a reason that is noted elsewhere or obvious.
    pub(crate) fn omit(&mut self, tensor: &Tensor, reason: &str) {
        let name = |stored: Text<'_>| (stored.spelling().into_owned(), reason.to_owned());
        self.left_out.extend(tensor.stored_names().map(name));
    }

    /// Tensors and documents that are left out, each with the reason.
    pub(crate) fn left_out(&self) -> &[(String, String)] {
        &self.left_out
    }

    /// The outcome of everything that is read.
    pub(crate) fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    /// The dialect of the tensors.
    pub(crate) fn dialect(&self) -> Dialect {
        self.writer.dialect
    }

    /// Whether a key is in the metadata.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.metadata.get(key).is_some()
    }

    /// Whether the files become blobs of a store.
    pub(crate) fn is_for_store(&self) -> bool {
        matches!(self.placement, Placement::Store(_))
    }

    /// The documents that will be written: none if the model is a single file.
    pub(crate) fn written_documents(&self) -> &[NewDocument] {
        if self.placement == Placement::Files { &[] } else { &self.documents }
    }

    /// The documents so far.
    pub(crate) fn documents(&self) -> &[NewDocument] {
        &self.documents
    }

    /// The tensors so far.
    pub(crate) fn tensors(&self) -> &[OutTensor] {
        &self.tensors
    }

    /// The model that is being built from `source`, before it is written: see [`PlannedModel::open`].
    /// `None` for the shares of ranks, whose tensors have the same names, and for Ollama's store.
    ///
    /// # Errors
    ///
    /// Same as [`PlannedModel::open`].
    pub(crate) fn model(&self, source: &Model) -> Result<Option<Model>> {
        let Self { writer, placement, metadata, tensors, .. } = self;
        let is_share = tensors.iter().any(|tensor| tensor.rank.is_some());
        if is_share || matches!(placement, Placement::Store(_)) {
            return Ok(None);
        }
        let documents = self.written_documents();
        PlannedModel { writer, metadata, tensors, documents }.open(source.store()).map(Some)
    }

    /// Decides where every byte goes. Nothing is written yet.
    ///
    /// # Errors
    ///
    /// `Unsupported` or `Mismatch` for what the container cannot hold: a dtype, a name that is too
    /// long or a duplicate, a document.
    pub fn plan(self) -> Result<WritePlan> {
        let described = self.tensors.iter().map(OutTensor::describe);
        let described = described.collect::<Result<Vec<NewTensor>>>()?;
        let planned = self.tensors.iter().zip(&described);
        let planned: Vec<PlannedTensor> =
            planned.map(|(tensor, described)| tensor.planned(described)).collect();
        let file_type = self.metadata.get("general.file_type").and_then(|value| value.to_u64());
        let file_type = file_type.and_then(|number| u32::try_from(number).ok());
        let model = NewModel {
            metadata: self.metadata,
            tensors: &described,
            documents: self.documents,
            quantization: self.quantization,
            placement: self.placement,
            shards: self.shards,
            stem: &self.stem,
            weights: self.weights,
            alignment: self.alignment,
        };
        let files = (self.writer.layout)(model)?;
        let mut tensors: Vec<Option<OutTensor>> = self.tensors.into_iter().map(Some).collect();
        let placed = |file| out_file(file, &described, &mut tensors);
        let files = files.into_iter().map(placed).collect();
        let mut sources: Vec<PathBuf> = Vec::new();
        for store in &self.stores {
            sources.extend(store.files_on_disk().map(Path::to_path_buf));
        }
        let (format, notes) = (self.writer.name, self.notes);
        let mut plan = WritePlan::new(format, self.placement, files, planned, notes, sources);
        plan.file_type = file_type.and_then(FileType::from_number);
        plan.account = self.account;
        let elsewhere = self.stores.iter().flat_map(|store| store.files_elsewhere());
        plan.elsewhere =
            elsewhere.map(|(path, bytes, version)| (path.to_path_buf(), bytes, version)).collect();
        Ok(plan)
    }
}

/// Notes on what is left out, one for each reason.
fn left_out(items: &[(String, String)]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in items {
        match by_reason.iter_mut().find(|(other, _)| other == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let note = |(reason, names): (&str, Vec<&str>)| match names.as_slice() {
        [one] => format!("left out: {one}: {reason}"),
        [first, others @ ..] => format!("left out: {first} and {} more: {reason}", others.len()),
        [] => String::new(),
    };
    by_reason.into_iter().map(note).collect()
}

/// A tensor under a name of the caller's.
fn named(name: impl Into<String>, output: Output) -> Result<OutTensor> {
    let name = name.into();
    if name.is_empty() {
        return Err(Error::mismatch("a tensor cannot be written under an empty name"));
    }
    Ok(OutTensor::new(name, output))
}

/// Combines a laid-out file with the tensors that it contains.
fn out_file(file: NewFile, described: &[NewTensor], tensors: &mut [Option<OutTensor>]) -> OutFile {
    let NewFile { name, role, body } = file;
    let mut out = OutFile { name, role, header: Vec::new(), len: 0, data: 0, tensors: Vec::new() };
    match body {
        FileContent::Bytes(bytes) => {
            out.len = bytes.len() as u64;
            out.header = bytes;
        }
        FileContent::Copy(source) => {
            out.len = source.len();
            out.data = out.len;
            let copy = Output::new(Producer::File(source), Method::Copied);
            let tensor = OutTensor::new(&out.name, copy);
            out.tensors.push(PlacedTensor { tensor, bytes: out.len, offsets: vec![0] });
        }
        FileContent::Tensors { layout, tensors: numbers } => {
            (out.header, out.len) = (layout.header, layout.len);
            let mut offsets = layout.offsets.into_iter();
            for number in numbers {
                let tensor = tensors.get_mut(number).and_then(Option::take);
                let (Some(tensor), Some(described)) = (tensor, described.get(number)) else {
                    continue;
                };
                let bytes = described.bytes();
                out.data = out.data.saturating_add(bytes);
                let offsets = offsets.by_ref().take(described.parts.len()).collect();
                out.tensors.push(PlacedTensor { tensor, bytes, offsets });
            }
        }
    }
    out
}
