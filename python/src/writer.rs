//! Writing models of one's own.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use weighbridge::bytes::{Origin, ReadAt, Source};
use weighbridge::container::Shards;
use weighbridge::dtype::Packing;
use weighbridge::metadata::KeyValues;
use weighbridge::model::Encoding;
use weighbridge::translate::gguf_metadata;
use weighbridge::{DType, Error, ErrorKind, Result};

use crate::fault::{OrRaise, exception, usage};
use crate::model::Model;
use crate::setting::Setting;
use crate::tensor::Tensor;
use crate::verbs::{self, Writing, container};
use crate::watch::watched;

/// The memory of a Python array, which the writer reads when the plan runs.
#[derive(Debug)]
struct Borrowed {
    address: usize,
    len: usize,
    /// Keeps the memory valid.
    _owner: Py<PyAny>,
}

impl ReadAt for Borrowed {
    fn size(&self) -> u64 {
        self.len as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        if end > self.len {
            return Err(outside());
        }
        // SAFETY: the Python module passed the address and length of a contiguous array that `_owner`
        // keeps alive, and the range lies in it.
        unsafe {
            let from = (self.address as *const u8).add(start);
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len());
        }
        Ok(())
    }
}

/// Bytes that a Python function computes when they are first read. They are kept until all are read.
#[derive(Debug)]
struct Computed {
    bytes: u64,
    function: Py<PyAny>,
    made: Mutex<Option<Made>>,
}

/// The result of a function, and how many bytes of it are read.
#[derive(Debug)]
struct Made {
    bytes: Vec<u8>,
    read: u64,
}

impl Computed {
    fn compute(&self) -> std::io::Result<Made> {
        Python::attach(|py| {
            let found = self.function.call0(py)?;
            let bytes = found.extract::<PyBackedBytes>(py)?.to_vec();
            if bytes.len() as u64 != self.bytes {
                let fault = format!("the array has {} bytes, not {}", bytes.len(), self.bytes);
                return Err(PyValueError::new_err(fault));
            }
            Ok(Made { bytes, read: 0 })
        })
        .map_err(std::io::Error::other)
    }
}

impl ReadAt for Computed {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn origin(&self, _offset: u64) -> Origin {
        Origin::Generated
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let mut kept = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(self.compute()?);
        }
        let made = kept.as_mut().ok_or_else(outside)?;
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        out.copy_from_slice(made.bytes.get(start..end).ok_or_else(outside)?);
        made.read = made.read.saturating_add(out.len() as u64);
        if made.read >= self.bytes {
            *kept = None;
        }
        Ok(())
    }
}

/// A tensor in the memory of a Python array: its address, its length and the array.
fn borrowed(
    name: &str,
    dtype: DType,
    shape: &[u64],
    (address, len, owner): (usize, usize, Py<PyAny>),
) -> PyResult<weighbridge::Tensor> {
    let source = Source::custom(name, Borrowed { address, len, _owner: owner });
    weighbridge::Tensor::new(name, dtype, shape, source).or_raise()
}

/// Whether elements of a dtype are codes that become numbers by means of scales.
#[pyfunction]
pub(crate) fn is_quantized(dtype: &str) -> PyResult<bool> {
    Ok(verbs::dtype(dtype)?.is_quantized())
}

/// A model that is being written.
#[pyclass(frozen, module = "weighbridge._native")]
pub(crate) struct Builder {
    builder: Mutex<weighbridge::Builder>,
}

impl Builder {
    fn with<T>(&self, change: impl FnOnce(&mut weighbridge::Builder) -> Result<T>) -> PyResult<T> {
        change(&mut self.builder.lock().unwrap_or_else(PoisonError::into_inner)).or_raise()
    }
}

#[pymethods]
impl Builder {
    #[new]
    fn new(to: &str, one_file: bool) -> PyResult<Self> {
        let mut builder = weighbridge::Builder::new(container(to)?).or_raise()?;
        if one_file {
            builder.one_file();
        }
        Ok(Self { builder: builder.into() })
    }

    /// Sets a metadata value of a type: `u32`, `string`, `array[f32]`.
    fn set(&self, key: &str, kind: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let setting = Setting::of(kind, value)?;
        self.with(|builder| {
            setting.put(key, builder.metadata());
            Ok(())
        })
    }

    /// Copies the metadata of a model, in the form of the container that is written.
    fn set_like(&self, py: Python<'_>, model: &Model, to: &str) -> PyResult<()> {
        let same = model.model.container() == to || to == "safetensors";
        let gguf = to == "gguf" && !same;
        let keys = py.detach(|| {
            if gguf {
                gguf_metadata(&model.model)
            } else {
                Ok(KeyValues::of(model.model.metadata()))
            }
        });
        let keys = keys.or_raise()?;
        // Those of GGUF mean nothing in the header of a safetensors file.
        let copied = to == "gguf" || model.model.encoding() == Encoding::Safetensors;
        self.with(|builder| {
            for (key, value) in keys.iter().filter(|_| copied) {
                let key = key.spelling();
                if !key.starts_with("split.") {
                    builder.metadata().set(&key, value);
                }
            }
            Ok(())
        })
    }

    /// The metadata keys so far.
    fn keys(&self) -> PyResult<Vec<String>> {
        self.with(|builder| {
            Ok(builder.metadata().iter().map(|(key, _)| key.spelling().into_owned()).collect())
        })
    }

    /// Removes a metadata key, and returns whether it was there.
    fn remove(&self, key: &str) -> PyResult<bool> {
        self.with(|builder| Ok(builder.metadata().remove(key)))
    }

    /// Distributes the tensors over files of at most `bytes` bytes of tensors.
    fn shards(&self, bytes: u64, stem: &str) -> PyResult<()> {
        self.with(|builder| {
            builder.shards(Shards::Bytes(bytes), stem);
            Ok(())
        })
    }

    /// Aligns the tensor data to `bytes` bytes.
    fn alignment(&self, bytes: u64) -> PyResult<()> {
        self.with(|builder| {
            builder.alignment(bytes);
            Ok(())
        })
    }

    /// Adds a file beside the weights.
    fn document(&self, name: &str, content: Vec<u8>) -> PyResult<()> {
        self.with(|builder| builder.document(name, content))
    }

    /// Adds a tensor of an opened model.
    fn add(&self, name: &str, tensor: &Tensor, dtype: Option<&str>) -> PyResult<()> {
        self.push(name, &tensor.tensor, dtype)
    }

    /// Adds an array: its memory is read when the model is written.
    #[expect(clippy::too_many_arguments, reason = "the fields of an array")]
    fn add_array(
        &self,
        name: &str,
        stored: &str,
        shape: Vec<u64>,
        address: usize,
        nbytes: usize,
        owner: Py<PyAny>,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        let tensor = borrowed(name, verbs::dtype(stored)?, &shape, (address, nbytes, owner))?;
        self.push(name, &tensor, dtype)
    }

    /// Adds a tensor of `stored` numbers that a function computes when its turn comes: it returns an
    /// object with their bytes.
    fn add_computed(
        &self,
        name: &str,
        stored: &str,
        shape: Vec<u64>,
        function: Py<PyAny>,
        dtype: Option<&str>,
    ) -> PyResult<()> {
        let stored = verbs::dtype(stored)?;
        let bytes = stored.tensor_bytes(&shape);
        let bytes = bytes.ok_or_else(|| usage(format!("the shape {shape:?} is too large")))?;
        let source = Source::custom(name, Computed { bytes, function, made: Mutex::default() });
        let tensor = weighbridge::Tensor::new(name, stored, &shape, source).or_raise()?;
        self.push(name, &tensor, dtype)
    }

    /// Adds the bytes of an array as they are. Its dtype has one part.
    fn add_raw(
        &self,
        name: &str,
        stored: &str,
        shape: Vec<u64>,
        address: usize,
        nbytes: usize,
        owner: Py<PyAny>,
    ) -> PyResult<()> {
        let dtype = verbs::dtype(stored)?;
        if dtype.descriptor().packing == Packing::Group {
            let fault =
                format!("{dtype} stores codes and scales in separate arrays, but one is given");
            let error = Error::new(ErrorKind::Unsupported, fault).in_tensor(name);
            return Err(exception(&error.advise("add a tensor of an opened model")));
        }
        let tensor = borrowed(name, dtype, &shape, (address, nbytes, owner))?;
        self.with(|builder| builder.add_copied(name, &tensor))
    }

    /// Writes the model, and returns the report as JSON.
    #[pyo3(signature = (path, options, progress))]
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        options: Writing,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        watched(py, progress, |watch| verbs::run(&builder.plan()?, &path, &options, watch))
    }
}

impl Builder {
    fn push(&self, name: &str, tensor: &weighbridge::Tensor, dtype: Option<&str>) -> PyResult<()> {
        let dtype = dtype.map(verbs::dtype).transpose()?;
        self.with(|builder| match dtype {
            Some(dtype) => builder.add_as(name, tensor, dtype),
            None => builder.add(name, tensor),
        })
    }
}
