//! Values of arrays and tensors: quantizing, dequantizing, statistics.

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use weighbridge::dtype::DTYPES;
use weighbridge::ops::{self, StatisticsOptions};
use weighbridge::recipe::FILE_TYPES;
use weighbridge::{Error, ErrorKind};
use weighbridge_dlpack::Array as Memory;

use crate::array::Array;
use crate::fault::{OrRaise, usage};
use crate::tensor::{Tensor, float};
use crate::verbs::{dtype, json};
use crate::watch::watched;

/// The dtypes: name, number of bytes of a block, number of its elements, ggml's code.
#[pyfunction]
pub(crate) fn dtypes() -> Vec<(&'static str, u32, u32, Option<u32>)> {
    DTYPES.iter().map(|row| (row.name, row.block_bytes, row.block_len, row.ggml)).collect()
}

/// The file types of llama.cpp that have a number: name and number.
#[pyfunction]
pub(crate) fn file_types() -> Vec<(&'static str, u32)> {
    let types = FILE_TYPES.iter().filter_map(|row| Some((row.name, row.number?)));
    types.collect()
}

/// Quantizes rows of 32-bit floats, given as their bytes.
#[pyfunction]
pub(crate) fn quantize_array<'py>(
    py: Python<'py>,
    values: PyBackedBytes,
    columns: usize,
    name: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let dtype = dtype(name)?;
    let bytes = py.detach(|| {
        let values: Vec<f32> = values
            .chunks_exact(4)
            .map(|bytes| bytes.try_into().map_or(0.0, f32::from_le_bytes))
            .collect();
        let rows = values.len().checked_div(columns).unwrap_or(0) as u64;
        let row = dtype.row_bytes(columns as u64);
        let length = row.and_then(|row| usize::try_from(row.checked_mul(rows)?).ok());
        let fault = || format!("rows of {columns} values do not divide into blocks of {dtype}");
        let length = length.ok_or_else(|| Error::new(ErrorKind::Mismatch, fault()))?;
        let mut out = vec![0; length];
        dtype.quantize_rows(&values, columns, None, &mut out)?;
        Ok(out)
    });
    Ok(PyBytes::new(py, &bytes.or_raise()?))
}

/// The values of packed bytes of a dtype and shape.
#[pyfunction]
pub(crate) fn dequantize_array(
    py: Python<'_>,
    bytes: PyBackedBytes,
    name: &str,
    shape: Vec<u64>,
    into: &str,
) -> PyResult<Array> {
    let dtype = dtype(name)?;
    let into = float(Some(into))?.ok_or_else(|| usage("no dtype is given".to_owned()))?;
    let made = py.detach(|| {
        let tensor = weighbridge::Tensor::new("array", dtype, &shape, bytes.to_vec())?;
        Memory::values(&tensor, into, &|| true)
    });
    Ok(Array::new(made.or_raise()?))
}

/// Statistics of the values of tensors, as JSON.
#[pyfunction]
#[pyo3(signature = (tensors, bins, threads, progress))]
pub(crate) fn statistics(
    py: Python<'_>,
    tensors: Vec<Py<Tensor>>,
    bins: usize,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let tensors: Vec<_> = tensors.iter().map(|tensor| tensor.get().tensor.clone()).collect();
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = StatisticsOptions::new().bins(bins).threads(threads).progress(&report);
        json(&ops::statistics(&tensors, &options)?)
    })
}
