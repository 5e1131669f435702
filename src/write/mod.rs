//! Writes models: plans which bytes go into which file, and produces them.
//!
//! ```text
//!  Tensor ──method──▶ Producer ─┐
//!  metadata, documents ─────────┴▶ Builder ──layout──▶ WritePlan ──pieces──▶ threads ──▶ files ──rename
//! ```
//!
//! A [`Builder`] gathers tensors, metadata and documents. The container's writer computes headers and
//! offsets. One pipeline, which all containers share, produces the bytes and writes them.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod blobs;
mod builder;
mod directory;
mod finite;
mod groups;
mod loss;
mod method;
mod pipeline;
mod plan;
mod producer;
mod rename;
mod report;
mod set;
mod slices;
mod target;

use std::fmt;

use crate::container::writer::NewTensor;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{Model, Tensor};
use crate::progress::{Progress, Watch};
use crate::remote::Network;
use crate::store::tensor::StoredTensor;
use crate::threads::Threads;

pub use builder::Builder;
pub(crate) use groups::{GroupQuantization, TensorRepack};
pub use loss::Loss;
pub(crate) use method::{Precision, choose, encoded, grouped, grouped_from};
pub use plan::{WritePlan, WriteReport};
use producer::OutputPiece;
pub(crate) use producer::Producer;
pub use report::{PlanReport, ReportedFile, ReportedTensor};
pub use slices::{SliceReport, Slices, SlicesStatus, check_sources, slices_status};
pub(crate) use target::PageChange;
use target::WriteTarget;
#[cfg(feature = "http")]
pub(crate) use target::{is_same, open_or_create};

/// How an output tensor is produced, what that does to its values, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) producer: Producer,
    pub(crate) method: Method,
    pub(crate) reason: Option<String>,
}

impl Output {
    pub(crate) fn new(producer: Producer, method: Method) -> Self {
        Self { producer, method, reason: None }
    }

    /// Adds the reason for the method, where it is not obvious.
    pub(crate) fn with_reason(mut self, reason: Option<String>) -> Self {
        self.reason = reason;
        self
    }
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct OutTensor {
    pub(crate) name: String,
    pub(crate) output: Output,
    /// The expert group that it belongs to; its tensors may share a file.
    pub(crate) experts: Option<String>,
    /// The rank whose share it is part of.
    pub(crate) rank: Option<u64>,
    /// The dimensions in the header, if they are not those of the output.
    pub(crate) shape: Option<Vec<u64>>,
}

impl OutTensor {
    pub(crate) fn new(name: impl Into<String>, output: Output) -> Self {
        Self { name: name.into(), output, experts: None, rank: None, shape: None }
    }

    /// All stored tensors of a model, to be copied unchanged.
    pub(crate) fn copies_of(model: &Model) -> Vec<Self> {
        let copy = |tensor: Tensor| {
            let name = tensor.name().to_owned();
            Self::new(name, Output::new(Producer::Packed(tensor), Method::Copied))
        };
        model.stored_tensors().map(copy).collect()
    }

    /// Describes the tensor to the layout.
    pub(crate) fn describe(&self) -> Result<NewTensor> {
        let producer = &self.output.producer;
        let here = |error: Error| error.in_tensor(&self.name);
        let mut parts = producer.parts().map_err(here)?;
        if let Producer::Packed(view) = producer {
            let own = |stored: &StoredTensor<'_>| stored.name().spelling() == self.name;
            let stored = view.stored_tensors().next().filter(own);
            for segment in stored.iter().flat_map(|tensor| tensor.segments()) {
                let part = parts.iter_mut().find(|part| part.part == segment.part);
                if let Some(part) = part.filter(|part| part.stored_name.is_none()) {
                    part.stored_name = Some(segment.name.spelling().into_owned());
                }
            }
        }
        if let (Some(shape), [part]) = (&self.shape, parts.as_mut_slice()) {
            part.shape.clone_from(shape);
        }
        Ok(NewTensor {
            name: self.name.clone(),
            dtype: producer.dtype().map_err(here)?,
            group_size: producer.group_size(),
            shape: self.shape.clone().unwrap_or_else(|| producer.shape().to_vec()),
            parts,
            experts: self.experts.clone(),
            rank: self.rank,
        })
    }

    /// The row of a plan's report.
    pub(crate) fn planned(&self, described: &NewTensor) -> PlannedTensor {
        PlannedTensor {
            name: self.name.clone(),
            rank: self.rank,
            shape: described.shape.clone(),
            from: self.output.producer.from(),
            dtype: described.dtype,
            group_size: described.group_size,
            bytes: described.bytes(),
            method: self.output.method,
            reason: self.output.reason.clone(),
        }
    }
}

/// A file to be written: its header, and the position of each tensor's parts.
#[derive(Debug)]
pub(crate) struct OutFile {
    /// Its name in the directory or beside the given path; empty for the given path itself.
    name: String,
    /// Its role in the model: `model`, `tensor`, `config`, `json`, `license`.
    role: String,
    header: Vec<u8>,
    len: u64,
    /// Bytes of all parts of all tensors.
    data: u64,
    tensors: Vec<PlacedTensor>,
}

/// A tensor, its length in bytes, and the offset of each of its parts in the file.
#[derive(Debug)]
struct PlacedTensor {
    tensor: OutTensor,
    bytes: u64,
    offsets: Vec<u64>,
}

impl PlacedTensor {
    /// Its pieces, of at most `most` bytes, unless one row is longer.
    fn pieces(&self, most: u64) -> Result<Vec<OutputPiece>> {
        let here = |error: Error| error.in_tensor(&self.tensor.name);
        let pieces = self.tensor.output.producer.pieces(&self.offsets, most).map_err(here)?;
        // Bytes that no piece fills would silently be zeros, so this is checked.
        let planned = pieces.iter().map(OutputPiece::len).sum::<u64>();
        if planned != self.bytes {
            let fault =
                format!("the pieces have {planned} bytes, but the tensor has {}", self.bytes);
            return Err(here(Error::mismatch(fault)));
        }
        Ok(pieces)
    }
}

/// Options for running a plan.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions<'w> {
    pub(crate) overwrite: bool,
    pub(crate) allow_incomplete: bool,
    allow_nonfinite: bool,
    threads: Threads,
    memory: Option<u64>,
    part_bytes: Option<u64>,
    network: Option<&'w Network>,
    watch: Option<Watch<'w>>,
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { overwrite, threads, memory, .. } = self;
        write!(f, "WriteOptions({threads:?}, memory {memory:?}, overwrite {overwrite})")
    }
}

impl<'w> WriteOptions<'w> {
    /// The defaults: one thread for each processor, 256 MiB of memory, and an error if the target
    /// exists.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces an existing target once the new one is complete.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Writes a model although it lacks tensors that its architecture requires.
    #[must_use]
    pub fn allow_incomplete(mut self, allow: bool) -> Self {
        self.allow_incomplete = allow;
        self
    }

    /// Quantizes tensors with NaN, infinities, or values beyond the range of a block's scale, which
    /// otherwise are an error. No value of such a block is kept.
    #[must_use]
    pub fn allow_nonfinite(mut self, allow: bool) -> Self {
        self.allow_nonfinite = allow;
        self
    }

    /// Sets the threads that share the work.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Sets the bytes of memory for buffers, in addition to the headers. Every thread needs at
    /// least one row of the tensor that it works on.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets the bytes of the parts in which slices are sent to an object store: 5 MiB to 5 GiB. A file has
    /// larger parts if it would have more than 10,000. Every thread holds one part.
    #[must_use]
    pub fn part_bytes(mut self, bytes: u64) -> Self {
        self.part_bytes = Some(bytes);
        self
    }

    /// Sets how an object store is reached. The default is [`Network::from_env`].
    #[must_use]
    pub fn network(mut self, network: &'w Network) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets a callback that is called every few megabytes. `Break` cancels the writing, and no file
    /// is left behind.
    #[must_use]
    pub fn progress(
        mut self,
        watch: &'w (dyn Fn(Progress) -> std::ops::ControlFlow<()> + Sync),
    ) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// What a plan does with one tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Its name in the output.
    pub name: String,
    /// The rank whose share it is part of. Every rank has tensors with the same names.
    pub rank: Option<u64>,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The names of the source dtypes, with their group size where they have one.
    pub from: String,
    /// The dtype in the output.
    pub dtype: DType,
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    pub group_size: Option<u32>,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// How it is produced.
    pub method: Method,
    /// The reason, unless it is obvious.
    pub reason: Option<String>,
}

/// How an output tensor is produced.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// Copied byte for byte, possibly with its rows in another order.
    Copied,
    /// Repacked with exactly the same values.
    Repacked,
    /// Converted to a dtype that holds every value.
    Exact,
    /// Rounded to a plain dtype, or repacked with a rounded global scale.
    Rounded,
    /// Quantized from plain values.
    Quantized,
    /// Quantized from the values of a quantized tensor.
    Requantized,
    /// Computed from the config.
    Generated,
    /// A LoRA adapter was merged in f32, and the result rounded to a plain dtype.
    Merged,
}

impl Method {
    /// Every method, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Copied,
        Self::Repacked,
        Self::Exact,
        Self::Rounded,
        Self::Quantized,
        Self::Requantized,
        Self::Generated,
        Self::Merged,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Repacked => "repacked",
            Self::Exact => "exact",
            Self::Rounded => "rounded",
            Self::Quantized => "quantized",
            Self::Requantized => "requantized",
            Self::Generated => "generated",
            Self::Merged => "merged",
        }
    }

    /// Whether every value stays unchanged.
    pub const fn is_lossless(self) -> bool {
        matches!(self, Self::Copied | Self::Repacked | Self::Exact | Self::Generated)
    }
}
