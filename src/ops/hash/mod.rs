//! The `hash` verb: the SHA-256 of every tensor.

mod list;

use super::odd_name;
use crate::digest::Hasher;
use crate::error::{Error, ErrorKind, Result};
use crate::model::{Model, Tensor};
use crate::progress::{Callback, Meter, Watch};
use crate::setters::setters;
use crate::store::Part;
use crate::threads::Threads;

pub use list::{HashLine, HashList};

/// Options of [`hash`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct HashOptions<'w> {
    values: bool,
    parts: bool,
    threads: Threads,
    progress: Watch<'w>,
}

impl<'w> HashOptions<'w> {
    /// The defaults: hash only the bytes of the weight part, with one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Also hashes the values, as little-endian `f32` in row-major order.
        values: bool;
        /// Also hashes the bytes of the other parts, such as scales and biases. A [`HashList`] requires
        /// them.
        parts: bool;
        /// Sets the threads that share the tensors.
        threads: impl Into<Threads>;
        /// Sets a callback that is called after every megabyte. `Break` cancels the hashing.
        progress: Callback<'w>;
    }

    /// The bytes that are read of a tensor. Bytes that are also decoded count twice.
    pub(super) fn bytes(&self, tensor: &Tensor) -> u64 {
        let wanted = tensor.segments().filter(|segment| self.parts || segment.part == Part::Weight);
        let raw = wanted.map(|segment| segment.range.end - segment.range.start);
        let values = if self.values { tensor.stored_bytes() } else { 0 };
        raw.fold(values, u64::saturating_add)
    }
}

/// The hashes of a model's tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HashReport {
    /// The name of the container: `gguf`, `safetensors`.
    pub container: &'static str,
    /// The stored tensors, in the order of the files.
    pub tensors: Vec<TensorHash>,
}

/// The hashes of one tensor, in lower-case hexadecimal.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorHash {
    /// The stored name; if it is not UTF-8, its [spelling](crate::bytes::Text::spelling).
    pub name: String,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name_hex: Option<String>,
    /// The name of the dtype, or `ggml:43` for an unknown type code.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The hash of the weight part's bytes in the file.
    pub raw_sha256: Option<String>,
    /// The hash of the other parts' bytes, one after another; absent unless requested.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub parts_sha256: Option<String>,
    /// The hash of the values; absent unless requested.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub f32_sha256: Option<Option<String>>,
    /// The reason why a requested hash is missing.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::ops::serialize::reason",
            rename = "reason"
        )
    )]
    pub error: Option<Error>,
    /// The bytes of the stored name.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub raw_name: Vec<u8>,
}

/// Hashes every stored tensor, in constant memory for each thread.
///
/// A tensor whose bytes or values cannot be read has an [`error`](TensorHash::error) in the report.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let report = ops::hash(&model, &ops::HashOptions::new().values(true))?;
/// assert_eq!(report.tensors.len(), model.len());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Cancelled` if the progress callback cancels.
pub fn hash(model: &Model, options: &HashOptions<'_>) -> Result<HashReport> {
    let tensors: Vec<Tensor> = model.stored_tensors().collect();
    let bytes = tensors.iter().map(|tensor| options.bytes(tensor)).fold(0, u64::saturating_add);
    let meter = Meter::new(bytes, options.progress);
    let work = |(): &mut (), tensor: Tensor| TensorHash::of(&tensor, options, &meter);
    let tensors = options.threads.in_order(tensors.into_iter(), || (), work)?;
    Ok(HashReport { container: model.container(), tensors })
}

impl TensorHash {
    pub(super) fn of(
        tensor: &Tensor,
        options: &HashOptions<'_>,
        meter: &Meter<'_>,
    ) -> Result<Self> {
        let mut first = None;
        let mut keep = |digest: Result<Option<String>>| match digest {
            Ok(digest) => Ok(digest),
            Err(error) if error.kind() == ErrorKind::Cancelled => Err(error),
            Err(error) => {
                first.get_or_insert(error);
                Ok(None)
            }
        };
        let weight = |part: Part| part == Part::Weight;
        let raw_sha256 = keep(of_bytes(tensor, weight, meter))?;
        let parts_sha256 = match options.parts {
            true => keep(of_bytes(tensor, |part| !weight(part), meter))?,
            false => None,
        };
        let f32_sha256 = match options.values {
            true => Some(keep(of_values(tensor, meter).map(Some))?),
            false => None,
        };
        Ok(Self {
            name: tensor.name().to_owned(),
            name_hex: odd_name(tensor.raw_name()),
            dtype: tensor.dtype_label(),
            shape: tensor.shape().to_vec(),
            raw_sha256,
            parts_sha256,
            f32_sha256,
            error: first,
            raw_name: tensor.raw_name().as_bytes().to_vec(),
        })
    }
}

/// The hash of the bytes of these parts, one after another; `None` if the tensor has none of them.
fn of_bytes(
    tensor: &Tensor,
    wanted: impl Fn(Part) -> bool,
    meter: &Meter<'_>,
) -> Result<Option<String>> {
    let mut parts: Vec<Part> = tensor.segments().map(|segment| segment.part).collect();
    if parts.is_empty() && wanted(Part::Weight) {
        // The error names the unknown type code.
        parts.push(Part::Weight);
    }
    parts.retain(|part| wanted(*part));
    if parts.is_empty() {
        return Ok(None);
    }
    let mut hasher = Hasher::new()?;
    for part in parts {
        tensor.for_each_raw_piece(part, |piece| {
            hasher.update(piece);
            meter.add(piece.len() as u64)
        })?;
    }
    Ok(Some(hasher.finish()))
}

/// The hash of the values as little-endian `f32`.
pub(crate) fn of_values(tensor: &Tensor, meter: &Meter<'_>) -> Result<String> {
    let mut hasher = Hasher::new()?;
    let mut bytes = Vec::new();
    tensor.for_each_values(|values: &[f32]| {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        hasher.update(&bytes);
        meter.add(0)
    })?;
    meter.add(tensor.stored_bytes())?;
    Ok(hasher.finish())
}
