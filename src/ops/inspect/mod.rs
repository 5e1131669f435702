//! The `inspect` verb: reports a model's container, names, metadata and tensors.

mod summary;
mod tensors;

use std::borrow::Cow;

use crate::adapter::Adapter;
use crate::arch::Resolution;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::model::Model;
use crate::setters::setters;
use crate::store::Attachment;

pub use summary::{ModelSummary, summarize};
pub(crate) use summary::{file_type, main_dtype};
pub use tensors::{
    AuxiliaryTensor, CanonicalTensor, InspectedPart, InspectedParts, InspectedTensor,
    InspectedTensors,
};

/// The names under which [`inspect`] lists tensors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum InspectNames {
    /// By stored name, with the canonical name beside it. Names that cannot be resolved are not an
    /// error.
    #[default]
    Both,
    /// By stored name only; names are not resolved.
    Stored,
    /// By canonical name, with how each tensor is derived from stored tensors.
    Canonical,
}

/// Options of [`inspect`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct InspectOptions {
    names: InspectNames,
}

impl InspectOptions {
    /// Lists tensors by stored name, with the canonical name beside it.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the names under which tensors are listed.
        names: InspectNames;
    }
}

/// The contents of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct InspectReport<'m> {
    /// The name of the container: `gguf`, `safetensors`.
    pub container: &'static str,
    /// The headline facts: name, file type, context, license.
    pub summary: ModelSummary,
    /// The files that hold tensors or metadata.
    pub files: Vec<Cow<'m, str>>,
    /// Their bytes.
    pub file_bytes: u64,
    /// The number of stored tensors.
    pub tensor_count: usize,
    /// The number of their elements. For tensors of unknown types, the number is only what the file
    /// claims.
    pub weight_count: u64,
    /// The bytes of all their parts, without tensors of unknown types.
    pub stored_bytes: u64,
    /// The resolution of the names; absent unless requested.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub names: Option<NamesReport<'m>>,
    /// The LoRA adapter, if the files are one.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub adapter: Option<AdapterReport>,
    /// Notes from opening the model, each with its file.
    pub notes: Vec<String>,
    /// The files that belong to the model beside its weights.
    pub attachments: Vec<AttachmentReport<'m>>,
    /// Keys and values.
    pub metadata: &'m Metadata,
    /// The tensors.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub tensors: InspectedTensors<'m>,
}

/// The resolution of a model's names.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NamesReport<'m> {
    /// The name of the architecture, if known.
    pub architecture: Option<&'static str>,
    /// The reason why this architecture was chosen, or none was; or the fault of the names.
    pub architecture_reason: Cow<'m, str>,
    /// Whether canonical names were derived from stored names and shapes: no family describes the model.
    pub by_structure: bool,
    /// The order in which rows of Q and K are stored, if the architecture is known.
    pub rope_layout: Option<&'static str>,
    /// Canonical names of tensors that the architecture requires and the model lacks.
    pub missing: &'m [String],
    /// The fault of the names.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub error: Option<Error>,
}

/// A LoRA adapter: see [`Adapter`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AdapterReport {
    /// `peft` or `gguf`.
    pub format: &'static str,
    /// The kind of adapter: `LoRA`, or what its config states instead, such as `IA3`.
    pub kind: String,
    /// The model that it was trained on, if stated.
    pub base_model: Option<String>,
    /// The distinct ranks, ascending.
    pub ranks: Vec<u64>,
    /// The factor of products, which is divided by the rank or its square root.
    pub alpha: Option<f64>,
    /// Whether alpha is divided by the square root of the rank.
    pub rank_stabilized: bool,
    /// The number of matrices that it changes.
    pub matrix_count: usize,
    /// The kinds of these matrices.
    pub targets: Vec<String>,
    /// The reason why the adapter cannot be merged; `None` if it can.
    pub obstacle: Option<String>,
    /// The same on one line.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub summary: String,
}

impl AdapterReport {
    fn new(adapter: &Adapter) -> Self {
        Self {
            format: adapter.format(),
            kind: adapter.kind().to_owned(),
            base_model: adapter.base_model().map(str::to_owned),
            ranks: adapter.ranks(),
            alpha: adapter.alpha(),
            rank_stabilized: adapter.is_rank_stabilized(),
            matrix_count: adapter.len(),
            targets: adapter.targets().into_iter().map(str::to_owned).collect(),
            obstacle: adapter.obstacle().map(ToString::to_string),
            summary: adapter.summary(),
        }
    }
}

/// A file that belongs to a model beside its weights: see [`Attachment`].
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AttachmentReport<'m> {
    /// Its kind: `projector`, `adapter`, `template`.
    pub kind: &'m str,
    /// Its file name, if it has one.
    pub name: &'m str,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its path.
    pub file: Cow<'m, str>,
}

/// Reports what is in a model. Reads no tensor data.
///
/// ```
/// use weighbridge::ops::{InspectOptions, InspectedTensors};
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let report = ops::inspect(&model, &InspectOptions::new())?;
/// let InspectedTensors::Stored { tensors, .. } = report.tensors else { unreachable!() };
/// let embedding = tensors.iter().find(|tensor| tensor.name == "token_embd.weight");
/// let canonical = embedding.and_then(|tensor| tensor.canonical.clone().flatten());
/// assert_eq!(canonical.as_deref(), Some("token_embedding.weight"));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// For [`InspectNames::Canonical`], same as [`Model::resolution`]; for a LoRA adapter, same as
/// [`Adapter::of`].
pub fn inspect<'m>(model: &'m Model, options: &InspectOptions) -> Result<InspectReport<'m>> {
    let resolution = match options.names {
        InspectNames::Stored => None,
        InspectNames::Both => Some(model.resolution()),
        InspectNames::Canonical => Some(Ok(model.resolution()?)),
    };
    let tensors = match (options.names, &resolution) {
        (InspectNames::Canonical, Some(Ok(resolution))) => tensors::canonical(model, resolution),
        (_, None) => tensors::stored(model, None),
        (_, Some(known)) => tensors::stored(model, Some(known.as_ref().ok().copied())),
    };
    let store = &**model.store();
    let weights = store.tensors().map(|tensor| tensor.elements());
    let note = |note: &crate::model::Note| format!("{}: {}", note.path.display(), note.text);
    Ok(InspectReport {
        container: model.container(),
        summary: summarize(model),
        files: model.files().map(|file| Text::from_path(file).spelling()).collect(),
        file_bytes: model.file_bytes(),
        tensor_count: model.len(),
        weight_count: weights.fold(0, u64::saturating_add),
        stored_bytes: model.stored_bytes(),
        names: resolution.map(NamesReport::new),
        adapter: Adapter::of(model)?.as_ref().map(AdapterReport::new),
        notes: model.notes().iter().map(note).collect(),
        attachments: model.attachments().iter().map(AttachmentReport::new).collect(),
        metadata: model.metadata(),
        tensors,
    })
}

impl<'m> NamesReport<'m> {
    fn new(resolution: Result<&'m Resolution>) -> Self {
        match resolution {
            Ok(resolution) => Self {
                architecture: resolution.architecture.map(|architecture| architecture.name),
                architecture_reason: Cow::Borrowed(&resolution.reason),
                by_structure: resolution.is_by_structure(),
                rope_layout: resolution.stored_rope_layout().map(|rope| rope.name()),
                missing: &resolution.missing,
                error: None,
            },
            Err(error) => Self {
                architecture: None,
                architecture_reason: Cow::Owned(error.to_string()),
                by_structure: false,
                rope_layout: None,
                missing: &[],
                error: Some(error),
            },
        }
    }
}

impl<'m> AttachmentReport<'m> {
    fn new(attachment: &'m Attachment) -> Self {
        Self {
            kind: &attachment.kind,
            name: &attachment.name,
            bytes: attachment.bytes,
            file: Text::from_path(&attachment.path).spelling(),
        }
    }
}
