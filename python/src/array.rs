//! Arrays in host memory, given to other libraries by DLPack.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use weighbridge_dlpack::{ManagedTensor, ManagedTensorVersioned, delete, delete_versioned};

/// An array that NumPy, PyTorch, JAX and MLX import without a copy, once.
#[pyclass(frozen, module = "weighbridge._native")]
pub(crate) struct Array {
    array: std::sync::Mutex<Option<weighbridge_dlpack::Array>>,
    #[pyo3(get)]
    shape: Vec<i64>,
    #[pyo3(get)]
    nbytes: usize,
    #[pyo3(get)]
    is_mapped: bool,
}

impl Array {
    pub(crate) fn new(array: weighbridge_dlpack::Array) -> Self {
        let (shape, nbytes) = (array.shape().to_vec(), array.bytes());
        let is_mapped = array.is_mapped();
        Self { array: Some(array).into(), shape, nbytes, is_mapped }
    }

    fn take(&self) -> PyResult<weighbridge_dlpack::Array> {
        let mut kept = self.array.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.take().ok_or_else(|| PyRuntimeError::new_err("the array was given away before"))
    }
}

const VERSIONED: &CStr = c"dltensor_versioned";
const LEGACY: &CStr = c"dltensor";

/// Frees an array that nobody took: a consumer renames the capsule.
unsafe extern "C" fn free_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that `__dlpack__` made; the name says whether the
    // pointer in it is still ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            let pointer = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr());
            delete_versioned(pointer.cast::<ManagedTensorVersioned>());
        }
    }
}

/// Like [`free_versioned`], for the capsule without a version.
unsafe extern "C" fn free_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as above.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            let pointer = ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr());
            delete(pointer.cast::<ManagedTensor>());
        }
    }
}

/// The only device of an array: host memory, number 0.
const HOST: (i32, i32) = (1, 0);

#[pymethods]
impl Array {
    /// The same array with unsigned integers of the same width as elements. This one is given away.
    fn as_integers(&self) -> PyResult<Self> {
        Ok(Self::new(self.take()?.as_integers()))
    }

    /// The same memory as one row of bytes. This array is given away.
    fn as_bytes(&self) -> PyResult<Self> {
        Ok(Self::new(self.take()?.as_bytes()))
    }

    /// Gives the array to a consumer. The memory may be written to; no write reaches a file.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<Py<PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let _ = stream;
        if dl_device.is_some_and(|device| device != HOST) {
            return Err(PyBufferError::new_err("the array is in host memory"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("the array is given without a copy only"));
        }
        let array = self.take()?;
        let versioned = max_version.is_some_and(|(major, _)| major >= 1);
        let (pointer, name, free): (*mut c_void, &CStr, ffi::PyCapsule_Destructor) = match versioned
        {
            true => (array.into_dlpack().cast(), VERSIONED, free_versioned),
            false => (array.into_legacy_dlpack().cast(), LEGACY, free_legacy),
        };
        // SAFETY: the pointer is valid, the name is a constant, and the destructor frees what the
        // pointer owns.
        unsafe {
            let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(free));
            Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
        }
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        HOST
    }
}
