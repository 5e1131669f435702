//! Writing models of one's own.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use weighbridge::bytes::{ReadAt, Source};
use weighbridge::dtype::Packing;
use weighbridge::metadata::Value;
use weighbridge::{DType, Error, ErrorKind, Result};

use crate::fault::{OrRaise, exception};
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
    builder: Mutex<Option<weighbridge::Builder>>,
}

/// A metadata value of Python.
#[derive(FromPyObject)]
enum Given {
    Flag(bool),
    Integer(i64),
    Natural(u64),
    Float(f64),
    Text(String),
    Flags(Vec<bool>),
    Integers(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
}

impl Builder {
    fn with<T>(&self, change: impl FnOnce(&mut weighbridge::Builder) -> Result<T>) -> PyResult<T> {
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        let builder = builder.as_mut().ok_or_else(finished)?;
        change(builder).or_raise()
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the model was written before")
}

#[pymethods]
impl Builder {
    #[new]
    fn new(to: &str, one_file: bool) -> PyResult<Self> {
        let mut builder = weighbridge::Builder::new(container(to)?).or_raise()?;
        if one_file {
            builder.one_file();
        }
        Ok(Self { builder: Some(builder).into() })
    }

    /// Sets a metadata value: integers as i32 or u32 where they fit, floats as f32.
    fn set(&self, key: &str, value: Given) -> PyResult<()> {
        self.with(|builder| {
            let metadata = builder.metadata();
            match value {
                Given::Flag(value) => metadata.set(key, Value::Bool(value)),
                Given::Integer(value) => metadata.set(
                    key,
                    match (u32::try_from(value), i32::try_from(value)) {
                        (Ok(value), _) => Value::U32(value),
                        (_, Ok(value)) => Value::I32(value),
                        _ => Value::I64(value),
                    },
                ),
                Given::Natural(value) => metadata.set(key, Value::U64(value)),
                #[expect(clippy::cast_possible_truncation, reason = "GGUF's floats are f32")]
                Given::Float(value) => metadata.set(key, Value::F32(value as f32)),
                Given::Text(value) => metadata.set_text(key, value),
                Given::Flags(values) => metadata.set_array(key, values),
                Given::Integers(values) => {
                    let small = values.iter().map(|value| i32::try_from(*value));
                    match small.collect::<std::result::Result<Vec<i32>, _>>() {
                        Ok(values) => metadata.set_array(key, values),
                        Err(_) => metadata.set_array(key, values),
                    }
                }
                #[expect(clippy::cast_possible_truncation, reason = "GGUF's floats are f32")]
                Given::Floats(values) => {
                    metadata.set_array(key, values.into_iter().map(|value| value as f32));
                }
                Given::Texts(values) => {
                    metadata.set_array(key, values.iter().map(String::as_str));
                }
            }
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
            let fault = format!("{dtype} stores codes and scales in separate arrays, but one is given");
            let error = Error::new(ErrorKind::Unsupported, fault).in_tensor(name);
            return Err(exception(&error.advise("add a tensor of an opened model")));
        }
        let tensor = borrowed(name, dtype, &shape, (address, nbytes, owner))?;
        self.with(|builder| builder.add_copied(name, &tensor))
    }

    /// Writes the model, and returns the report as JSON.
    #[pyo3(signature = (path, writing, progress))]
    fn write(
        &self,
        py: Python<'_>,
        path: PathBuf,
        writing: Writing,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let taken = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let builder = taken.ok_or_else(finished)?;
        watched(py, progress, |watch| verbs::run(&builder.plan()?, &path, &writing, watch))
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
