//! Produces the pieces of tensors, and estimates how long that takes.

use crate::bytes::AlignedBytes;
use crate::error::{Error, Result};
use crate::write::out::PlacedTensor;
use crate::write::producer::{OutputPiece, ProducerBuffers, room};
use crate::write::{Method, WriteOptions};

/// The estimated work of a tensor, in bytes copied. Quantizing a value takes as long as copying
/// about 16 bytes, converting it as long as copying about 4.
pub(super) fn work_of(placed: &PlacedTensor) -> u64 {
    let output = &placed.tensor.output;
    let elements = output.producer.view().map_or(0, crate::model::Tensor::elements);
    let each = match output.method {
        Method::Copied | Method::Generated => 0,
        Method::Quantized | Method::Requantized => 16,
        Method::Repacked | Method::Exact | Method::Rounded | Method::Merged => 4,
    };
    placed.bytes.saturating_add(elements.saturating_mul(each))
}

/// The buffers that a thread reuses from piece to piece.
#[derive(Default)]
pub(super) struct SliceBench {
    pub(super) producing: ProducerBuffers,
    pub(super) buffer: Option<AlignedBytes>,
    /// A part of a file in an object store.
    pub(super) part: Option<AlignedBytes>,
}

impl SliceBench {
    pub(super) fn new(options: &WriteOptions<'_>) -> Self {
        Self { producing: ProducerBuffers::new(options), ..Self::default() }
    }
}

/// Produces a piece of a tensor.
pub(super) fn produced<'b>(
    placed: &PlacedTensor,
    piece: &OutputPiece,
    buffer: &'b mut Option<AlignedBytes>,
    producing: &mut ProducerBuffers,
) -> Result<&'b [u8]> {
    let out = sized(buffer, piece.len())?;
    let tensor = &placed.tensor;
    let made = tensor.output.producer.make(piece, out, producing);
    made.map_err(|error| error.in_tensor(&tensor.name))?;
    Ok(out)
}

/// A buffer of `len` bytes.
pub(super) fn sized(buffer: &mut Option<AlignedBytes>, len: u64) -> Result<&mut [u8]> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if buffer.as_ref().is_none_or(|buffer| buffer.len() < len) {
        *buffer = Some(room(len as u64)?);
    }
    let found = buffer.as_deref_mut().and_then(|buffer| buffer.get_mut(..len));
    found.ok_or_else(|| Error::mismatch("a buffer that is too short"))
}
