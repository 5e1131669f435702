//! Tensors.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use weighbridge::{DType, Part, Result, Threads};
use weighbridge_dlpack::{Array as Memory, PrivateMaps, decode_rows, rows};

use crate::array::Array;
use crate::fault::{OrRaise, usage};
use crate::watch::{Watch, watched};

/// A tensor of an opened model.
#[pyclass(frozen, module = "weighbridge._native")]
pub(crate) struct Tensor {
    pub(crate) tensor: weighbridge::Tensor,
    /// `None` if the model's files are not to be mapped.
    pub(crate) maps: Option<Arc<PrivateMaps>>,
}

/// A stored array of a tensor: part, stored name, dtype, shape, path, offset, bytes.
type Segment = (&'static str, String, &'static str, Vec<u64>, PathBuf, u64, u64);

/// The dtype of values by its name; `None` as stored.
pub(crate) fn float(name: Option<&str>) -> PyResult<Option<DType>> {
    let Some(name) = name else { return Ok(None) };
    let found = match name.to_ascii_lowercase().as_str() {
        "float32" | "f32" => DType::F32,
        "float16" | "f16" => DType::F16,
        "bfloat16" | "bf16" => DType::BF16,
        other => {
            let fault = format!("the dtype is \"{other}\", not float32, float16 or bfloat16");
            return Err(usage(fault));
        }
    };
    Ok(Some(found))
}

/// From this many values on, work gets a thread of its own, so that Ctrl-C is seen.
const LONG: u64 = 1 << 22;

impl Tensor {
    fn part(&self, name: &str) -> PyResult<Part> {
        let parts = self.tensor.segments().map(|segment| segment.part);
        let found = parts.chain([Part::Weight]).find(|part| part.name() == name);
        found.ok_or_else(|| {
            let fault = format!("the tensor has no {name}");
            let error = weighbridge::Error::new(weighbridge::ErrorKind::NotFound, fault);
            crate::fault::lookup(&error.in_tensor(self.tensor.name()))
        })
    }
}

#[pymethods]
impl Tensor {
    #[getter]
    fn name(&self) -> &str {
        self.tensor.name()
    }

    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.tensor.shape().to_vec()
    }

    /// The dtypes of the stored tensors: `Q4_K`, `Q4_K+Q6_K`.
    #[getter]
    fn dtype(&self) -> String {
        self.tensor.dtype_label()
    }

    /// The name of the dtype that the values have as an array: that of plain numbers, else `F32`.
    #[getter]
    fn value_dtype(&self) -> &'static str {
        let plain = self.tensor.dtype().ok();
        let plain = plain.filter(|dtype| weighbridge_dlpack::Element::of(*dtype).is_some());
        match plain.filter(|_| self.tensor.segments().all(|s| s.part == Part::Weight)) {
            Some(dtype) if self.tensor.why_computed().is_none() => dtype.name(),
            _ if self.tensor.why_computed().is_some() => self.tensor.values_dtype().name(),
            _ => DType::F32.name(),
        }
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.stored_bytes()
    }

    #[getter]
    fn elements(&self) -> u64 {
        self.tensor.elements()
    }

    #[getter]
    fn rows(&self) -> u64 {
        rows(&self.tensor)
    }

    #[getter]
    fn why_computed(&self) -> Option<&'static str> {
        self.tensor.why_computed()
    }

    /// The stored arrays that the tensor is made of.
    fn segments(&self) -> Vec<Segment> {
        let segments = self.tensor.segments().map(|segment| {
            let bytes = segment.range.end - segment.range.start;
            (
                segment.part.name(),
                segment.name.spelling().into_owned(),
                segment.dtype.name(),
                segment.shape.to_vec(),
                segment.path.to_path_buf(),
                segment.range.start,
                bytes,
            )
        });
        segments.collect()
    }

    /// Selects `count` indices along an axis, from `start`, `step` apart, without reading the others.
    fn select(&self, axis: usize, start: u64, step: i64, count: u64) -> PyResult<Self> {
        let tensor = self.tensor.clone();
        let selected = match step {
            1 => tensor.slice_axis(axis, std::iter::once(start..start.saturating_add(count))),
            _ => {
                let first = i128::from(start);
                let at = move |number: u64| first + i128::from(number) * i128::from(step);
                let at = move |number| u64::try_from(at(number)).unwrap_or(u64::MAX);
                let one = move |number| at(number)..at(number).saturating_add(1);
                tensor.slice_axis(axis, (0..count).map(one))
            }
        };
        Ok(Self { tensor: selected.or_raise()?, maps: self.maps.clone() })
    }

    /// Removes an axis of length 1.
    fn squeeze(&self, axis: usize) -> PyResult<Self> {
        let tensor = self.tensor.clone().squeeze(axis).or_raise()?;
        Ok(Self { tensor, maps: self.maps.clone() })
    }

    /// The stored bytes of a part.
    fn packed(&self, py: Python<'_>, part: &str) -> PyResult<Array> {
        let part = self.part(part)?;
        py.detach(|| Memory::packed(&self.tensor, part, self.maps.as_deref()))
            .or_raise()
            .map(Array::new)
    }

    /// The values in a dtype, or as they are stored if they are plain numbers. If `own`, a write to the
    /// array is seen in no other one; with `copy`, the array is in new memory.
    #[pyo3(signature = (dtype, own=false, copy=false))]
    fn load(&self, py: Python<'_>, dtype: Option<&str>, own: bool, copy: bool) -> PyResult<Array> {
        let dtype = float(dtype)?;
        let Self { tensor, maps } = self;
        let new = PrivateMaps::new();
        // A map of its own costs more than a copy of some rows.
        let is_copied = copy || own && !tensor.is_stored();
        let maps = maps.as_deref().map(|maps| if own { &new } else { maps });
        let maps = maps.filter(|_| !is_copied);
        let array = match tensor.elements() < LONG {
            true => py.detach(|| Memory::load(tensor, dtype, maps, &|| true)).or_raise()?,
            false => {
                watched(py, None, |watch| Memory::load(tensor, dtype, maps, &|| watch.goes_on()))?
            }
        };
        Ok(Array::new(array))
    }

    /// Writes the values of some rows to memory of the caller, which keeps it alive.
    fn decode_into(
        &self,
        py: Python<'_>,
        first: u64,
        end: u64,
        dtype: &str,
        address: usize,
        nbytes: usize,
    ) -> PyResult<()> {
        let dtype = float(Some(dtype))?.unwrap_or(DType::F32);
        if address == 0 && nbytes > 0 {
            return Err(PyValueError::new_err("the address is 0"));
        }
        let out: &mut [u8] = match nbytes {
            0 => &mut [],
            // SAFETY: the Python module passes the address and the length of a writable, contiguous
            // array that it holds during the call.
            _ => unsafe { std::slice::from_raw_parts_mut(address as *mut u8, nbytes) },
        };
        let tensor = &self.tensor;
        if tensor.elements() < LONG {
            return py.detach(|| decode_rows(tensor, first..end, dtype, out, &|| true)).or_raise();
        }
        watched(py, None, |watch| decode_rows(tensor, first..end, dtype, out, &|| watch.goes_on()))
    }
}

/// Loads several tensors, several at a time: see `Tensor.load`. With `copy`, none shares the memory of
/// the file.
#[pyfunction]
#[pyo3(signature = (tensors, dtype, copy, threads, progress))]
pub(crate) fn load(
    py: Python<'_>,
    tensors: Vec<Py<Tensor>>,
    dtype: Option<&str>,
    copy: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Array>> {
    let dtype = float(dtype)?;
    let tensors: Vec<&Tensor> = tensors.iter().map(|tensor| tensor.get()).collect();
    // Maps of their own: a write to the arrays of one call is seen in no other array.
    let maps = PrivateMaps::new();
    let maps = Some(&maps).filter(|_| !copy);
    let loaded = watched(py, progress, |watch| load_all(&tensors, dtype, maps, threads, watch))?;
    Ok(loaded.into_iter().map(Array::new).collect())
}

fn load_all(
    tensors: &[&Tensor],
    dtype: Option<DType>,
    own: Option<&PrivateMaps>,
    threads: usize,
    watch: &Watch,
) -> Result<Vec<Memory>> {
    watch.of(tensors.iter().map(|tensor| tensor.tensor.elements()).sum());
    let load = |(): &mut (), Tensor { tensor, maps }: &Tensor| {
        let maps = own.filter(|_| maps.is_some());
        let array = Memory::load(tensor, dtype, maps, &|| watch.goes_on())?;
        watch.add(tensor.elements());
        Ok(array)
    };
    Threads::new(threads).in_order(tensors.iter().copied(), || (), load)
}
