//! Writing: which bytes go into which file, and who makes them.
//!
//! ```text
//!  Tensor ──how──▶ Making ──header──▶ OutFile ──pieces──▶ threads ──bounded queue──▶ Target ──rename──▶ file
//! ```
//!
//! Whoever plans decides for each tensor how it is [made](Making); a container's layout says where
//! its parts lie; one pipeline makes and writes the pieces of every container.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod blobs;
mod groups;
mod loss;
mod making;
mod pipeline;
mod plan;
mod target;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::bytes::Source;
use crate::container::layout::{Layout, NewArray};
use crate::container::{gguf, ollama, safetensors};
use crate::dtype::DType;
use crate::error::Result;
use crate::metadata::KeyValues;
use crate::progress::{Progress, Watch};
use crate::store::{Part, Store};
use crate::threads::Threads;

pub(crate) use groups::{Quantizing, Repacking};
pub use loss::Loss;
pub(crate) use making::{Making, NewPart};
pub(crate) use plan::Kind;
pub use plan::{WritePlan, Written};
pub(crate) use target::{Target, overwrite_within_a_page};

/// A tensor to be written.
#[derive(Debug)]
pub(crate) struct OutTensor {
    pub(crate) name: String,
    pub(crate) making: Making,
}

impl OutTensor {
    /// Bytes of all its parts.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let parts = self.making.parts().map_err(|error| error.in_tensor(&self.name))?;
        Ok(parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add))
    }

    /// What becomes of it.
    pub(crate) fn fate(&self, how: How, why: Option<String>) -> Result<Fate> {
        Ok(Fate {
            name: self.name.clone(),
            shape: self.making.shape().to_vec(),
            from: self.making.from(),
            dtype: self.making.dtype().map_err(|error| error.in_tensor(&self.name))?,
            group_size: self.making.group_size(),
            bytes: self.bytes()?,
            how,
            why,
        })
    }
}

/// A file to be written: its header, and where the parts of each tensor go.
#[derive(Debug)]
pub(crate) struct OutFile {
    /// From the directory that is written, or the name of the only file.
    pub(crate) name: String,
    header: Vec<u8>,
    len: u64,
    /// Bytes of all parts.
    data: u64,
    tensors: Vec<(OutTensor, Vec<u64>)>,
}

impl OutFile {
    /// A document.
    pub(crate) fn document(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        Self { name: name.into(), header: bytes, len, data: 0, tensors: Vec::new() }
    }

    /// A GGUF file with those keys and tensors, in that order.
    pub(crate) fn gguf(
        name: impl Into<String>,
        keys: &KeyValues,
        tensors: Vec<OutTensor>,
    ) -> Result<Self> {
        let named = |tensor: &OutTensor, part: Part| match part {
            // A factor of the whole tensor is a tensor by itself.
            Part::GlobalScale => {
                let base = tensor.name.strip_suffix(".weight").unwrap_or(&tensor.name);
                format!("{base}.scale")
            }
            _ => tensor.name.clone(),
        };
        Self::laid(name, tensors, named, |arrays| gguf::write::layout(keys, arrays))
    }

    /// A safetensors file with that metadata and those tensors. `named` says what a part of a
    /// tensor is called.
    pub(crate) fn safetensors(
        name: impl Into<String>,
        metadata: &BTreeMap<String, String>,
        alignment: u64,
        tensors: Vec<OutTensor>,
        named: impl Fn(&OutTensor, Part) -> String,
    ) -> Result<Self> {
        let order = safetensors::write::Order::Crate;
        let layout =
            |arrays: &[NewArray]| safetensors::write::layout(metadata, arrays, alignment, order);
        Self::laid(name, tensors, named, layout)
    }

    /// A blob of Ollama's with those tensors, in that order, as its own writer lays them out.
    pub(crate) fn blob(
        name: impl Into<String>,
        metadata: &BTreeMap<String, String>,
        tensors: Vec<OutTensor>,
    ) -> Result<Self> {
        let named = |tensor: &OutTensor, part: Part| ollama::part_name(&tensor.name, part);
        let order = safetensors::write::Order::Given;
        let layout = |arrays: &[NewArray]| safetensors::write::layout(metadata, arrays, 8, order);
        Self::laid(name, tensors, named, layout)
    }

    /// A copy of a file.
    pub(crate) fn copy(name: impl Into<String>, source: Source) -> Self {
        let (name, len) = (name.into(), source.len());
        let making = Making::File(Arc::new(source));
        let tensors = vec![(OutTensor { name: name.clone(), making }, vec![0])];
        Self { name, header: Vec::new(), len, data: len, tensors }
    }

    fn laid(
        name: impl Into<String>,
        tensors: Vec<OutTensor>,
        named: impl Fn(&OutTensor, Part) -> String,
        layout: impl FnOnce(&[NewArray]) -> Result<Layout>,
    ) -> Result<Self> {
        let (mut arrays, mut counts) = (Vec::new(), Vec::new());
        for tensor in &tensors {
            let parts = tensor.making.parts().map_err(|error| error.in_tensor(&tensor.name))?;
            counts.push(parts.len());
            for NewPart { part, dtype, shape, bytes } in parts {
                arrays.push(NewArray { name: named(tensor, part), dtype, shape, bytes });
            }
        }
        let data = arrays.iter().map(|array| array.bytes).fold(0, u64::saturating_add);
        let Layout { header, offsets, len } = layout(&arrays)?;
        let mut offsets = offsets.into_iter();
        let tensors = tensors.into_iter().zip(counts);
        let tensors = tensors
            .map(|(tensor, count)| (tensor, offsets.by_ref().take(count).collect()))
            .collect();
        Ok(Self { name: name.into(), header, len, data, tensors })
    }

    /// All bytes before the first tensor, if every tensor would lie where it lies in the only file
    /// of `store`.
    pub(crate) fn header_in_place(&self, store: &Store) -> Option<Vec<u8>> {
        let places = self.tensors.iter().map(|(_, places)| places.first().copied());
        let found = store.tensors().map(|tensor| Some(tensor.place(Part::Weight)?.1));
        let alone = self.tensors.iter().all(|(_, places)| places.len() == 1);
        let first = self.tensors.first()?.1.first().copied()?;
        // The other byte order is that of the tensors, too.
        let swapped = store.tensors().any(|tensor| tensor.is_big_endian());
        if swapped || !alone || !places.eq(found) {
            return None;
        }
        let mut bytes = self.header.clone();
        bytes.resize(usize::try_from(first).ok()?, 0);
        Some(bytes)
    }

    /// Bytes of the whole file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// How writing goes about it.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct WriteOptions<'w> {
    pub(crate) overwrite: bool,
    pub(crate) allow_incomplete: bool,
    threads: Threads,
    memory: Option<u64>,
    watch: Option<Watch<'w>>,
}

impl fmt::Debug for WriteOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { overwrite, threads, memory, .. } = self;
        write!(f, "WriteOptions({threads:?}, memory {memory:?}, overwrite {overwrite})")
    }
}

impl<'w> WriteOptions<'w> {
    /// A thread for each processor, 256 MiB of memory; what is there already is an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is there already is replaced once the new is whole.
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

    /// Threads that share the work.
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Threads>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Bytes of memory to work in, beside the header's; one row of each tensor that is in work is
    /// needed in any case.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Called with every few megabytes; `Break` ends the writing, and nothing is left of it.
    #[must_use]
    pub fn progress(
        mut self,
        watch: &'w (dyn Fn(Progress) -> std::ops::ControlFlow<()> + Sync),
    ) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// What became of one tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fate {
    /// Its name in what is written.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// What it was: the names of its dtypes, and with groups their size.
    pub from: String,
    /// What it is.
    pub dtype: DType,
    /// Elements that share a scale, for dtypes that leave the number to the tensor (MLX).
    pub group_size: Option<u32>,
    /// Bytes of all its parts.
    pub bytes: u64,
    /// How it was made.
    pub how: How,
    /// Why so, where that is no matter of course.
    pub why: Option<String>,
}

/// How a written tensor comes of a read one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum How {
    /// Byte for byte, perhaps with its rows in another order.
    Copied,
    /// The same values in another packing, exactly.
    Repacked,
    /// Its values, in a dtype that holds each of them.
    Exact,
    /// Its values, rounded to a plain dtype.
    Rounded,
    /// Its values, quantized.
    Quantized,
    /// The values of a quantized tensor, quantized again.
    Requantized,
    /// Computed from the config.
    Generated,
}

impl How {
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
        }
    }

    /// Whether every value is what it was.
    pub const fn is_lossless(self) -> bool {
        matches!(self, Self::Copied | Self::Repacked | Self::Exact | Self::Generated)
    }
}
