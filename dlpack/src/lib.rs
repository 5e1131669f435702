//! Tensors as arrays in host memory that other programs use through [DLPack].
//!
//! An [`Array`] owns its memory or shares a private memory map of the model's file. A consumer may
//! write to it: no write reaches the file.
//!
//! [DLPack]: https://dmlc.github.io/dlpack/latest/c_api.html
#![allow(unsafe_code, reason = "DLPack passes ownership through raw pointers and a deleter")]
#![deny(missing_docs)]

mod abi;
mod element;

use std::any::Any;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use half::{bf16, f16};
use memmap2::{MmapOptions, MmapRaw};
use weighbridge::bytes::AlignedBytes;
use weighbridge::model::DecodeOptions;
use weighbridge::{DType, Error, ErrorKind, Part, Result, Tensor};

pub use abi::{ManagedTensor, ManagedTensorVersioned, delete, delete_versioned};
pub use element::Element;

/// The private memory maps of a model's files, one for each file.
///
/// The pages are copied when they are written to. Arrays that share a map see each other's writes;
/// the file and other readers do not.
#[derive(Debug, Default)]
pub struct PrivateMaps {
    files: Mutex<HashMap<PathBuf, Arc<MmapRaw>>>,
}

impl PrivateMaps {
    /// No map yet. A file is mapped when the first of its tensors is requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// The map of the file that holds a part, and the part's bytes in it. `None` if the part cannot
    /// be mapped: it is in memory, in another byte order or not stored in one piece.
    fn of(&self, tensor: &Tensor, part: Part) -> Result<Option<(Arc<MmapRaw>, usize, usize)>> {
        let Some((path, place)) = tensor.place(part) else { return Ok(None) };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let (range, map) = match files.get(path) {
            // `file` checks what a map cannot know: the byte order.
            Some(map) if tensor.is_little_endian() => (place, Arc::clone(map)),
            _ => {
                let (file, range) = match tensor.file(part) {
                    Ok(found) => found,
                    Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
                    Err(error) => return Err(error),
                };
                // Pages that are never written to need no memory of their own: without
                // `no_reserve_swap`, the system refuses maps that exceed the memory.
                //
                // SAFETY: no reference to the mapped bytes is ever made: they are read and written
                // through raw pointers only, as `Access::Map` documents for changed files.
                let map = unsafe { MmapOptions::new().no_reserve_swap().map_copy(&file) };
                let map = map.map_err(|error| Error::io("cannot map", error));
                let map = Arc::new(MmapRaw::from(map.map_err(|e| e.in_file(path))?));
                files.insert(path.to_path_buf(), Arc::clone(&map));
                (range, map)
            }
        };
        let (start, end) = (usize::try_from(range.start), usize::try_from(range.end));
        let (Ok(start), Ok(end)) = (start, end) else { return Ok(None) };
        // The file may have become longer or shorter since it was opened.
        Ok((start <= end && end <= map.len()).then(|| (map, start, end - start)))
    }
}

/// An array in host memory: dense, row after row, little-endian as the machine.
#[derive(Debug)]
pub struct Array {
    /// The map or the bytes, which keep the memory valid until they are dropped.
    _owner: Box<dyn Any + Send + Sync>,
    mapped: bool,
    data: *mut u8,
    bytes: usize,
    element: Element,
    shape: Vec<i64>,
}

// SAFETY: the array owns its memory or shares a map that lives as long as it; nothing in it is bound
// to a thread.
unsafe impl Send for Array {}
// SAFETY: a shared array gives out only its address. Who writes through it must order the writes, as
// DLPack requires of all consumers.
unsafe impl Sync for Array {}

impl Array {
    /// The stored bytes of a part: with the part's own dtype and shape if an array can have it,
    /// otherwise as bytes. They are shared with the file's private map where possible. Otherwise, and
    /// without `maps`, they are copied.
    ///
    /// # Errors
    ///
    /// Same as [`Tensor::copy_bytes`].
    pub fn packed(tensor: &Tensor, part: Part, maps: Option<&PrivateMaps>) -> Result<Self> {
        let segment = tensor.segments().find(|segment| segment.part == part);
        let own = segment.filter(|_| tensor.is_stored());
        // The tensor's shape may have more or fewer axes of length 1 than the stored one.
        let is_own = |dtype: &DType| own.as_ref().is_none_or(|own| own.dtype == *dtype);
        let plain = tensor.dtype().ok().filter(is_own);
        let plain = plain.and_then(Element::of).filter(|_| part == Part::Weight);
        let typed = plain.and_then(|plain| Some((plain, dimensions(tensor.shape())?)));
        let typed = typed.or_else(|| {
            own.as_ref().and_then(|own| Some((Element::of(own.dtype)?, dimensions(own.shape)?)))
        });
        let mapped = maps.map(|maps| maps.of(tensor, part)).transpose()?.flatten();
        if let Some((map, start, bytes)) = mapped {
            let (element, shape) = typed.clone().unwrap_or((Element::U8, vec![length(bytes)?]));
            let data = map.as_mut_ptr().wrapping_add(start);
            if bytes > 0 && data.align_offset(element.bytes()) == 0 {
                return Ok(Self {
                    _owner: Box::new(map),
                    mapped: true,
                    data,
                    bytes,
                    element,
                    shape,
                });
            }
        }
        let is_empty = typed.as_ref().is_some_and(|(_, shape)| shape.contains(&0));
        // No part of a file belongs to rows of an empty tensor.
        let own = if is_empty { AlignedBytes::zeroed(0)? } else { tensor.copy_bytes(part)? };
        let (element, shape) = typed.unwrap_or((Element::U8, vec![length(own.len())?]));
        Ok(Self::owned(own, element, shape))
    }

    /// The values in `dtype`, which is `F32`, `F16` or `BF16`. `go_on` is asked every few megabytes;
    /// the decoding is cancelled when it returns false.
    ///
    /// # Errors
    ///
    /// `Unsupported` for another dtype; `Cancelled`; same as [`Tensor::dequantize`].
    pub fn values(tensor: &Tensor, dtype: DType, go_on: &dyn Fn() -> bool) -> Result<Self> {
        let too_large = || Error::new(ErrorKind::Unsupported, "the values exceed the memory");
        let element = value_element(dtype)?;
        let shape = dimensions(tensor.shape()).ok_or_else(too_large)?;
        let bytes = tensor.elements().checked_mul(element.bytes() as u64).ok_or_else(too_large)?;
        tensor.check_decodable()?;
        let mut own = AlignedBytes::zeroed(bytes)?;
        decode(tensor, dtype, &mut own, go_on)?;
        Ok(Self::owned(own, element, shape))
    }

    /// The tensor in `dtype`, or without one as it is stored. If it has the dtype already, it is
    /// [`packed`](Self::packed). Quantized tensors become `F32` unless another dtype is requested, and integers
    /// stay integers.
    ///
    /// # Errors
    ///
    /// Same as [`packed`](Self::packed) and [`values`](Self::values).
    pub fn load(
        tensor: &Tensor,
        dtype: Option<DType>,
        maps: Option<&PrivateMaps>,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let stored = tensor.dtype().ok().filter(|stored| Element::of(*stored).is_some());
        let packed = tensor.why_computed().is_none();
        match stored.filter(|_| packed) {
            // A plain dtype may have scales as other parts; then its elements are no values.
            Some(stored)
                if tensor.segments().all(|segment| segment.part == Part::Weight)
                    && (dtype.is_none_or(|dtype| dtype == stored) || !is_float(stored)) =>
            {
                Self::packed(tensor, Part::Weight, maps)
            }
            _ => {
                let dtype = dtype.unwrap_or(match tensor.why_computed() {
                    Some(_) => tensor.values_dtype(),
                    None => DType::F32,
                });
                Self::values(tensor, dtype, go_on)
            }
        }
    }

    fn owned(mut own: AlignedBytes, element: Element, shape: Vec<i64>) -> Self {
        let (data, bytes) = (own.as_mut_ptr(), own.len());
        Self { _owner: Box::new(own), mapped: false, data, bytes, element, shape }
    }

    /// The same memory, with unsigned integers of the same width as elements: for consumers that do
    /// not know BF16 and floats of 8 bits.
    #[must_use]
    pub fn as_integers(mut self) -> Self {
        self.element = Element { code: 1, ..self.element };
        self
    }

    /// The same memory as one row of bytes: for dtypes that a consumer has, and DLPack has not.
    #[must_use]
    pub fn as_bytes(mut self) -> Self {
        self.element = Element::U8;
        self.shape = vec![i64::try_from(self.bytes).unwrap_or(i64::MAX)];
        self
    }

    /// The address of the first element.
    pub fn data(&self) -> *mut u8 {
        self.data
    }

    /// The length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The type of the elements.
    pub fn element(&self) -> Element {
        self.element
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Whether the memory is that of the file's private map.
    pub fn is_mapped(&self) -> bool {
        self.mapped
    }
}

/// Decodes all values to bytes, a few million at a time.
fn decode(tensor: &Tensor, dtype: DType, out: &mut [u8], go_on: &dyn Fn() -> bool) -> Result<()> {
    decode_rows(tensor, 0..rows(tensor), dtype, out, go_on)
}

/// The number of rows: runs of the last dimension.
pub fn rows(tensor: &Tensor) -> u64 {
    tensor.elements().checked_div(columns(tensor)).unwrap_or(0)
}

fn columns(tensor: &Tensor) -> u64 {
    tensor.shape().last().copied().unwrap_or(1)
}

/// The element of values in a dtype.
fn value_element(dtype: DType) -> Result<Element> {
    let float = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    Element::of(dtype).filter(|_| float).ok_or_else(|| {
        let fault = format!("values are given as F32, F16 or BF16, not as {dtype}");
        Error::new(ErrorKind::Unsupported, fault)
    })
}

/// Decodes some rows to bytes in `dtype`, which is `F32`, `F16` or `BF16`. `go_on` is asked every
/// few megabytes; the decoding is cancelled when it returns false.
///
/// # Errors
///
/// `Mismatch` if `out` has another length than the rows, or is not aligned for the dtype;
/// `Unsupported` for another dtype; `Cancelled`; same as [`Tensor::dequantize_rows`].
pub fn decode_rows(
    tensor: &Tensor,
    rows: std::ops::Range<u64>,
    dtype: DType,
    out: &mut [u8],
    go_on: &dyn Fn() -> bool,
) -> Result<()> {
    value_element(dtype)?;
    match dtype {
        DType::F16 => decode_as::<f16>(tensor, rows, out, go_on),
        DType::BF16 => decode_as::<bf16>(tensor, rows, out, go_on),
        _ => decode_as::<f32>(tensor, rows, out, go_on),
    }
}

/// The number of values that are decoded between two questions whether to go on.
const CHUNK: u64 = 1 << 23;

fn decode_as<T: weighbridge::quant::Element>(
    tensor: &Tensor,
    rows: std::ops::Range<u64>,
    out: &mut [u8],
    go_on: &dyn Fn() -> bool,
) -> Result<()> {
    let mismatch = |fault: String| Error::new(ErrorKind::Mismatch, fault).in_tensor(tensor.name());
    let columns = columns(tensor);
    let needed = rows.end.saturating_sub(rows.start).saturating_mul(columns);
    let needed = needed.saturating_mul(size_of::<T>() as u64);
    if out.len() as u64 != needed {
        let fault = format!("the buffer has {} bytes, but the values have {needed}", out.len());
        return Err(mismatch(fault));
    }
    // SAFETY: every bit pattern of these element types is a value (`Element` requires `Pod`).
    let (before, values, after) = unsafe { out.align_to_mut::<T>() };
    if !before.is_empty() || !after.is_empty() {
        let fault = format!("the address of the buffer is not a multiple of {}", align_of::<T>());
        return Err(mismatch(fault));
    }
    let step = (CHUNK / columns.max(1)).max(1);
    let (mut row, mut rest) = (rows.start, values);
    loop {
        if !go_on() {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        let end = rows.end.min(row.saturating_add(step));
        let count = usize::try_from(end.saturating_sub(row).saturating_mul(columns));
        let now;
        (now, rest) = rest.split_at_mut(count.unwrap_or(rest.len()).min(rest.len()));
        tensor.dequantize_rows(row..end, now, &DecodeOptions::new())?;
        row = end;
        if row >= rows.end {
            return Ok(());
        }
    }
}

/// Whether a conversion to another float applies to a dtype: not to integers, booleans and complex
/// numbers.
fn is_float(dtype: DType) -> bool {
    Element::of(dtype).is_none_or(|element| !matches!(element.code, 0 | 1 | 5 | 6))
}

fn dimensions(shape: &[u64]) -> Option<Vec<i64>> {
    shape.iter().map(|dim| i64::try_from(*dim).ok()).collect()
}

fn length(bytes: usize) -> Result<i64> {
    i64::try_from(bytes)
        .map_err(|_| Error::new(ErrorKind::Unsupported, "the bytes exceed the memory"))
}
