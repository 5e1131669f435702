//! Tensors: names, shapes, bytes, values, DLPack.

use std::borrow::Cow;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};

use weighbridge_dlpack::{Array, ManagedTensorVersioned, PrivateMaps, decode_rows, rows};
use weighbridge_rs::{DType, Part, Result, Tensor};

use crate::fault::{checked, gives, quietly};
use crate::{WbStr, beyond, give, given, null, usage};

/// A tensor. It keeps what it needs of its model. Any number of threads may use it at the same time.
#[derive(Debug)]
pub struct WbTensor {
    tensor: Tensor,
    dtype: String,
    maps: Option<Arc<PrivateMaps>>,
    /// Bytes that could not be borrowed from a map: they live as long as the tensor.
    own: Mutex<Vec<(Part, Arc<[u8]>)>>,
}

/// The dtype of values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
#[expect(non_camel_case_types, reason = "C's names")]
pub enum WbDType {
    /// As stored: packed if the tensor is quantized.
    WB_STORED = 0,
    /// 32-bit floats.
    WB_F32 = 1,
    /// 16-bit floats with 5 bits of exponent.
    WB_F16 = 2,
    /// 16-bit floats with 8 bits of exponent.
    WB_BF16 = 3,
}

/// The dtype of a number; `None` as stored.
pub(crate) fn dtype(number: i32) -> Result<Option<DType>> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(DType::F32)),
        2 => Ok(Some(DType::F16)),
        3 => Ok(Some(DType::BF16)),
        other => Err(usage(format!("the dtype is {other}, not one of wb_dtype"))),
    }
}

/// The bytes of an argument.
///
/// # Safety
///
/// The pointer is null or points to `len` bytes that are valid while they are used.
#[expect(clippy::disallowed_methods, reason = "an argument of C: bytes, no structs")]
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, len: usize, what: &str) -> Result<&'a [u8]> {
    match (pointer.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null(what)),
        // SAFETY: as the caller promises.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, len) }),
    }
}

impl WbTensor {
    pub(crate) fn boxed(tensor: Tensor, maps: Option<Arc<PrivateMaps>>) -> Box<Self> {
        Box::new(Self::new(tensor, maps))
    }

    pub(crate) fn new(tensor: Tensor, maps: Option<Arc<PrivateMaps>>) -> Self {
        let dtype = tensor.dtype_label();
        Self { tensor, dtype, maps, own: Mutex::default() }
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The bytes of a part, valid as long as the tensor.
    fn data(&self, part: Part) -> Result<(*const u8, usize)> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = own.iter().find(|(other, _)| *other == part) {
            return Ok((bytes.as_ptr(), bytes.len()));
        }
        match self.tensor.bytes(part)? {
            // Borrowed from the map or the memory of the model, which the tensor keeps open.
            Cow::Borrowed(bytes) => Ok((bytes.as_ptr(), bytes.len())),
            Cow::Owned(bytes) => {
                let bytes: Arc<[u8]> = bytes.into();
                let found = (bytes.as_ptr(), bytes.len());
                own.push((part, bytes));
                Ok(found)
            }
        }
    }
}

/// Frees a tensor. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_free(tensor: Option<Box<WbTensor>>) {
    quietly(|| drop(tensor));
}

/// The name by which the tensor was requested. Valid as long as the tensor. Empty for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_name(tensor: Option<&WbTensor>) -> WbStr {
    WbStr::new(tensor.map_or("", |tensor| tensor.tensor.name()).as_bytes())
}

/// The dtype: "F32", "Q4_K"; "Q4_K+Q6_K" for a tensor that is stored in several. Valid as long as the
/// tensor. Empty for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_dtype(tensor: Option<&WbTensor>) -> WbStr {
    WbStr::new(tensor.map_or("", |tensor| tensor.dtype.as_str()).as_bytes())
}

/// The type code of ggml of the dtype, such as 12 for Q4_K; -1 for NULL, for a dtype that ggml lacks, and for
/// a tensor that is stored in several.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_ggml_type(tensor: Option<&WbTensor>) -> i32 {
    let dtype = tensor.and_then(|tensor| tensor.tensor.dtype().ok());
    let code = dtype.and_then(|dtype| dtype.descriptor().ggml);
    code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1)
}

/// The dimensions, outermost first. Returns their number, and in *shape a pointer to them that is
/// valid as long as the tensor. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_shape(
    tensor: Option<&WbTensor>,
    shape: Option<&mut MaybeUninit<*const u64>>,
) -> usize {
    let dims = tensor.map_or(&[][..], |tensor| tensor.tensor.shape());
    if let Some(shape) = shape {
        shape.write(dims.as_ptr());
    }
    dims.len()
}

/// The number of elements. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_elements(tensor: Option<&WbTensor>) -> u64 {
    tensor.map_or(0, |tensor| tensor.tensor.elements())
}

/// The number of rows: runs of the last dimension, counted over all others. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_rows(tensor: Option<&WbTensor>) -> u64 {
    tensor.map_or(0, |tensor| rows(&tensor.tensor))
}

/// Returns a sentence that says why the tensor has no packed bytes, or an empty text if it has them.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_why_computed(tensor: Option<&WbTensor>) -> WbStr {
    let why = tensor.and_then(|tensor| tensor.tensor.why_computed());
    WbStr::new(why.unwrap_or("").as_bytes())
}

/// A stored array of a tensor: its elements, or the scales and other parts of a quantized tensor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbSegment {
    /// Its kind: "weight", "scale", "bias", "zero_point" and others.
    pub part: WbStr,
    /// Its own name in the file.
    pub name: WbStr,
    /// Its own dtype.
    pub dtype: WbStr,
    /// Its own dimensions, outermost first.
    pub shape: *const u64,
    /// The number of dimensions.
    pub rank: usize,
    /// The file that holds it.
    pub path: WbStr,
    /// The position of its first byte in the file.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The number of stored arrays that the tensor is made of. 0 for NULL, and for an unknown dtype.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_segment_count(tensor: Option<&WbTensor>) -> usize {
    tensor.map_or(0, |tensor| tensor.tensor.segments().count())
}

/// The stored array at a position, 0 first. Pointers in it are valid as long as the tensor.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_segment(
    tensor: Option<&WbTensor>,
    position: usize,
    out: Option<&mut MaybeUninit<WbSegment>>,
) -> i32 {
    gives(out, || {
        let tensor = &given(tensor, "tensor")?.tensor;
        let found = tensor.segments().nth(position);
        let count = || tensor.segments().count();
        let found = found.ok_or_else(|| beyond("segments", position, count()))?;
        let segment = WbSegment {
            part: WbStr::new(found.part.name().as_bytes()),
            name: WbStr::new(found.name.as_bytes()),
            dtype: WbStr::new(found.dtype.name().as_bytes()),
            shape: found.shape.as_ptr(),
            rank: found.shape.len(),
            path: WbStr::new(found.path.as_os_str().as_encoded_bytes()),
            offset: found.range.start,
            bytes: found.range.end - found.range.start,
        };
        Ok(segment)
    })
}

/// The packed bytes of one of the tensor's parts, little-endian; `part` is a name such as "weight"
/// or "scale", and NULL means "weight". They are borrowed from the memory map where possible, and
/// valid as long as the tensor. They may be unaligned. Do not write to them. `len` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_tensor_data(
    tensor: Option<&WbTensor>,
    part: *const std::ffi::c_char,
    data: Option<&mut MaybeUninit<*const c_void>>,
    len: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    checked(|| {
        let tensor = given(tensor, "tensor")?;
        let part = match part.is_null() {
            true => Part::Weight,
            false => {
                // SAFETY: the caller passes a valid string.
                let name = unsafe { crate::text(part, "part")? };
                let found = tensor.tensor.segments().map(|s| s.part).find(|p| p.name() == name);
                found.ok_or_else(|| {
                    let fault = format!("the tensor has no {name}");
                    let error =
                        weighbridge_rs::Error::new(weighbridge_rs::ErrorKind::NotFound, fault);
                    error.in_tensor(tensor.tensor.name())
                })?
            }
        };
        let (bytes, count) = tensor.data(part)?;
        give(data, bytes.cast(), "data")?;
        if let Some(len) = len {
            len.write(count);
        }
        Ok(())
    })
}

/// Rows first..end of the tensor as a tensor of their own. Nothing is read. Free *out with
/// wb_tensor_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_slice(
    tensor: Option<&WbTensor>,
    first: u64,
    end: u64,
    out: Option<&mut MaybeUninit<Box<WbTensor>>>,
) -> i32 {
    gives(out, || {
        let tensor = given(tensor, "tensor")?;
        let rows = tensor.tensor.clone().slice_rows(first..end)?;
        Ok(WbTensor::boxed(rows, tensor.maps.clone()))
    })
}

/// Writes the values of rows first..end to `out`, in a dtype of wb_dtype other than WB_STORED. `len`
/// is the length of `out` in bytes: it must be that of the values. wb_tensor_rows counts the rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_tensor_dequantize(
    tensor: Option<&WbTensor>,
    first: u64,
    end: u64,
    dtype: i32,
    out: *mut c_void,
    len: usize,
) -> i32 {
    checked(|| {
        let tensor = &given(tensor, "tensor")?.tensor;
        let wanted = self::dtype(dtype)?;
        let wanted = wanted.ok_or_else(|| usage("values have no dtype WB_STORED".to_owned()))?;
        let out: &mut [u8] = match (out.is_null(), len) {
            (_, 0) => &mut [],
            (true, _) => return Err(null("out")),
            // SAFETY: the caller's memory has `len` bytes.
            (false, _) => unsafe { std::slice::from_raw_parts_mut(out.cast(), len) },
        };
        decode_rows(tensor, first..end, wanted, out, &|| true)
    })
}

/// The tensor as a DLPack array in host memory, in a dtype of wb_dtype. WB_STORED shares the memory
/// of the file where possible: a write to it stays in this process and never reaches the file. Call
/// the deleter of *out when done.
#[unsafe(no_mangle)]
pub extern "C" fn wb_tensor_dlpack(
    tensor: Option<&WbTensor>,
    dtype: i32,
    out: Option<&mut MaybeUninit<*mut ManagedTensorVersioned>>,
) -> i32 {
    checked(|| {
        let WbTensor { tensor, maps, .. } = given(tensor, "tensor")?;
        let out = given(out, "out")?;
        let array = match self::dtype(dtype)? {
            None if tensor.why_computed().is_none() => {
                Array::packed(tensor, Part::Weight, maps.as_deref())?
            }
            dtype => Array::load(tensor, dtype, maps.as_deref(), &|| true)?,
        };
        out.write(array.into_dlpack());
        Ok(())
    })
}
