//! Files and tensors to be written.

use super::planned::{Method, PlannedTensor};
use super::producer::{OutputPiece, Producer};
use crate::bytes::Origin;
use crate::container::writer::NewTensor;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::{Model, Tensor};
use crate::store::tensor::StoredTensor;

/// An output tensor: how it is produced, how that changes its values, the dtype that it could not have, and the reason.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) producer: Producer,
    pub(crate) method: Method,
    pub(crate) unsuited: Option<DType>,
    pub(crate) reason: Option<String>,
}

impl Output {
    pub(crate) fn new(producer: Producer, method: Method) -> Self {
        // What a plan would copy may itself be computed when it is read.
        let origins = producer.view().into_iter().flat_map(Tensor::stored_tensors);
        let origin = origins.map(|stored| stored.origin()).find(|origin| *origin != Origin::Stored);
        let method = match origin {
            Some(Origin::Merged) if method.is_lossless() => Method::Merged,
            Some(Origin::Generated) if method.is_lossless() => Method::Generated,
            _ => method,
        };
        Self { producer, method, unsuited: None, reason: None }
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
            unsuited: self.output.unsuited,
            reason: self.output.reason.clone(),
        }
    }
}

/// A file to be written: its header, and the position of each tensor's parts.
#[derive(Debug)]
pub(crate) struct OutFile {
    /// Its name in the directory or beside the given path; empty for the given path itself.
    pub(super) name: String,
    /// Its role in the model: `model`, `tensor`, `config`, `json`, `license`.
    pub(super) role: String,
    pub(super) header: Vec<u8>,
    pub(super) len: u64,
    /// Bytes of all parts of all tensors.
    pub(super) data: u64,
    pub(super) tensors: Vec<PlacedTensor>,
}

/// A tensor, its length in bytes, and the offset of each of its parts in the file.
#[derive(Debug)]
pub(super) struct PlacedTensor {
    pub(super) tensor: OutTensor,
    pub(super) bytes: u64,
    pub(super) offsets: Vec<u64>,
}

impl PlacedTensor {
    /// Its pieces, of at most `most` bytes, unless one row is longer.
    pub(super) fn pieces(&self, most: u64) -> Result<Vec<OutputPiece>> {
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
