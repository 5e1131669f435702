//! Models.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use weighbridge::arch::Dialect;
use weighbridge::metadata::{Array, Value};
use weighbridge::model::{Convention, Sharding};
use weighbridge::tokenizer::TokenKind;
use weighbridge::{OpenOptions, Strictness, Tokenizer, ops, translate};
use weighbridge_dlpack::PrivateMaps;

use crate::fault::{OrRaise, lookup, usage};
use crate::tensor::Tensor;

/// An opened model.
#[pyclass(frozen, module = "weighbridge._native")]
pub(crate) struct Model {
    pub(crate) model: weighbridge::Model,
    /// `None` with `no_map`.
    pub(crate) maps: Option<Arc<PrivateMaps>>,
}

/// The options of opening.
pub(crate) fn options(
    strictness: &str,
    no_map: bool,
    threads: usize,
    all_files: bool,
) -> PyResult<OpenOptions> {
    let strictness = match strictness {
        "default" => Strictness::Default,
        "strict" => Strictness::Strict,
        "lenient" => Strictness::Lenient,
        other => {
            let fault = format!("strictness is \"{other}\", not default, strict or lenient");
            return Err(usage(fault));
        }
    };
    let options = OpenOptions::new().strictness(strictness).all_files(all_files).threads(threads);
    Ok(if no_map { options.read() } else { options })
}

impl Model {
    fn wrap(&self, tensor: weighbridge::Tensor) -> Tensor {
        Tensor { tensor, maps: self.maps.clone() }
    }
}

/// The dialect with this name.
fn named(dialect: &str) -> PyResult<Dialect> {
    match dialect {
        "huggingface" => Ok(Dialect::HuggingFace),
        "mlx" => Ok(Dialect::Mlx),
        "gguf" => Ok(Dialect::Gguf),
        other => {
            let names = "canonical, stored, huggingface, mlx or gguf";
            Err(usage(format!("names is \"{other}\", not {names}")))
        }
    }
}

/// Text of a file as Python's; as bytes if it is not UTF-8.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into_bound_py_any(py),
        Err(_) => Ok(PyBytes::new(py, bytes).into_any()),
    }
}

/// A metadata value as Python's. Text that is not UTF-8 becomes bytes.
fn python<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::String(value) => text(py, value.as_bytes()),
        Value::F32(value) => value.into_bound_py_any(py),
        Value::F64(value) => value.into_bound_py_any(py),
        Value::Array(array) => list(py, &array),
        other => other.to_i128().into_bound_py_any(py),
    }
}

fn list<'py>(py: Python<'py>, array: &Array<'_>) -> PyResult<Bound<'py, PyAny>> {
    let list = PyList::empty(py);
    for value in array.values() {
        list.append(python(py, value)?)?;
    }
    Ok(list.into_any())
}

#[pymethods]
impl Model {
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        strictness: &str,
        no_map: bool,
        threads: usize,
        all_files: bool,
    ) -> PyResult<Self> {
        let options = options(strictness, no_map, threads, all_files)?;
        let model = py.detach(|| options.open(path)).or_raise()?;
        Ok(Self { model, maps: (!no_map).then(Arc::default) })
    }

    /// Opens a file that is in memory. `name` stands for the path in messages.
    #[staticmethod]
    fn memory(py: Python<'_>, name: PathBuf, bytes: Vec<u8>, strictness: &str) -> PyResult<Self> {
        let options = options(strictness, true, 0, false)?;
        let model = py.detach(|| options.open_memory(name, bytes)).or_raise()?;
        Ok(Self { model, maps: None })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.model.path().to_path_buf()
    }

    #[getter]
    fn container(&self) -> &'static str {
        self.model.container()
    }

    #[getter]
    fn stored_bytes(&self) -> u64 {
        self.model.stored_bytes()
    }

    #[getter]
    fn files(&self) -> Vec<PathBuf> {
        self.model.files().map(std::path::Path::to_path_buf).collect()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.model.notes().iter().map(|note| note.text.clone()).collect()
    }

    /// The name of the architecture, if it is known.
    #[getter]
    fn architecture(&self) -> PyResult<Option<&'static str>> {
        Ok(self.model.resolution().or_raise()?.architecture.map(|architecture| architecture.name))
    }

    /// The convention of the stored names: `gguf`, `hugging_face`, `mlx`, `publisher`.
    #[getter]
    fn dialect(&self) -> PyResult<&'static str> {
        Ok(self.model.resolution().or_raise()?.dialect.name())
    }

    /// Required tensors that the model lacks.
    #[getter]
    fn missing(&self) -> PyResult<Vec<String>> {
        Ok(self.model.resolution().or_raise()?.missing.clone())
    }

    /// Canonical names, then the stored names of tensors without one.
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| Ok(self.model.names()?.map(str::to_owned).collect())).or_raise()
    }

    fn stored_names(&self) -> Vec<String> {
        self.model.stored_tensors().map(|tensor| tensor.name().to_owned()).collect()
    }

    fn tensor(&self, py: Python<'_>, name: &str) -> PyResult<Tensor> {
        let found = py.detach(|| self.model.tensor(name));
        let found = found.map_err(|error| lookup(&error));
        found.map(|tensor| self.wrap(tensor))
    }

    fn stored_tensor(&self, name: &str) -> PyResult<Tensor> {
        let found = self.model.stored_tensor(name).map_err(|error| lookup(&error));
        found.map(|tensor| self.wrap(tensor))
    }

    /// All tensors in the names, shapes and row order of a dialect.
    fn tensors_in(&self, py: Python<'_>, dialect: &str) -> PyResult<Vec<Tensor>> {
        let dialect = named(dialect)?;
        let translated = py.detach(|| self.model.tensors_in(dialect)).or_raise()?;
        Ok(translated.tensors.into_iter().map(|tensor| self.wrap(tensor)).collect())
    }

    /// A rank's parts of all tensors, in the names of a dialect or by canonical name. Each kind of
    /// parallelism is a rank and the number of ranks.
    fn tensors_of_rank(
        &self,
        py: Python<'_>,
        names: &str,
        tensor: (u64, u64),
        pipeline: (u64, u64),
        expert: (u64, u64),
    ) -> PyResult<Vec<Tensor>> {
        let sharding = Sharding::new()
            .tensor(tensor.0, tensor.1)
            .pipeline(pipeline.0, pipeline.1)
            .expert(expert.0, expert.1);
        let dialect = if names == "canonical" { None } else { Some(named(names)?) };
        let tensors = py.detach(|| match dialect {
            Some(dialect) => Ok(ops::tensors_of_rank(&self.model, dialect, &sharding)?.tensors),
            None => {
                let names = self.model.names_of_rank(&sharding)?.into_iter();
                let order = Convention::HuggingFace;
                names.map(|name| self.model.tensor_of_rank(name, &sharding, order)).collect()
            }
        });
        Ok(tensors.or_raise()?.into_iter().map(|tensor| self.wrap(tensor)).collect())
    }

    fn metadata_keys(&self) -> Vec<String> {
        self.model.metadata().iter().map(|(key, _)| key.spelling().into_owned()).collect()
    }

    /// The value under a key, or None.
    fn metadata_value<'py>(
        &self,
        py: Python<'py>,
        key: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.model.metadata().get(key).map(|value| python(py, value)).transpose()
    }

    /// The type of the value under a key, as in `u32` or `array[string]`, or None.
    fn metadata_type(&self, key: &str) -> Option<String> {
        self.model.metadata().get(key).map(|value| match &value {
            Value::Array(array) => format!("array[{}]", array.element_type().name()),
            other => other.value_type().name().to_owned(),
        })
    }

    /// A JSON document beside the weights that opening the model read, as text, or None.
    fn document(&self, name: &str) -> Option<String> {
        self.model.document(name).map(ToString::to_string)
    }

    /// The documents of the model in a Hugging Face directory, by name: copied from beside the weights, or
    /// made from the metadata.
    fn documents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let made = py.detach(|| translate::hf_documents(&self.model)).or_raise()?;
        let files = PyDict::new(py);
        for (name, bytes) in made.into_files() {
            files.set_item(name, PyBytes::new(py, &bytes))?;
        }
        Ok(files)
    }

    /// The texts of all tokens, in order of their numbers; None without a tokenizer.
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        let Some(tokenizer) = self.model.tokenizer().or_raise()? else { return Ok(None) };
        let list = PyList::empty(py);
        for token in tokenizer.tokens() {
            list.append(text(py, &token.text)?)?;
        }
        Ok(Some(list))
    }

    /// The tokenizer's other values: a score of each token, its kind, the merges, the numbers of special
    /// tokens by purpose, and facts by name.
    fn tokenizer<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(tokenizer) = self.model.tokenizer().or_raise()? else { return Ok(None) };
        facts(py, &tokenizer).map(Some)
    }
}

fn facts<'py>(py: Python<'py>, tokenizer: &Tokenizer<'_>) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(py);
    let scores: Option<Vec<f32>> = tokenizer.tokens().map(|token| token.score).collect();
    let kinds = tokenizer.tokens().map(|token| token.kind.map(kind));
    let kinds: Option<Vec<&str>> = kinds.collect();
    let merges = PyList::empty(py);
    for (first, second) in tokenizer.merges() {
        merges.append((text(py, &first)?, text(py, &second)?))?;
    }
    let special = PyDict::new(py);
    for (purpose, id) in &tokenizer.special {
        special.set_item(purpose, id.value)?;
    }
    found.set_item("scores", scores)?;
    found.set_item("kinds", kinds)?;
    found.set_item("merges", merges)?;
    found.set_item("special", special)?;
    found.set_item("kind", tokenizer.kind.value.name())?;
    found.set_item("add_bos", tokenizer.add_bos.as_ref().map(|field| field.value))?;
    found.set_item("add_eos", tokenizer.add_eos.as_ref().map(|field| field.value))?;
    found.set_item("chat_template", tokenizer.chat_template())?;
    Ok(found)
}

fn kind(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Normal => "normal",
        TokenKind::Unknown => "unknown",
        TokenKind::Control => "control",
        TokenKind::UserDefined => "user_defined",
        TokenKind::Unused => "unused",
        TokenKind::Byte => "byte",
        _ => "other",
    }
}
