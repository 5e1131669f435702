//! Verbs on whole models. Each returns its report as JSON, which `weighbridge/_verbs.py` wraps.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pyo3::prelude::*;
use serde::Serialize;
use weighbridge::adapter::Adapter;
use weighbridge::container::{CONTAINERS, Container, MLX, OLLAMA, SAFETENSORS, Shards, ollama};
use weighbridge::ops::{
    self, ConvertOptions, CreateOptions, DiffOptions, HashOptions, InspectOptions,
    QuantizationRules, VerifyOptions,
};
use weighbridge::recipe::llama_cpp::LlamaOptions;
use weighbridge::recipe::mlx_lm::{MlxMode, MlxOptions};
use weighbridge::recipe::ollama::QuantType;
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::{DType, Error, ErrorKind, Result, WriteOptions, WritePlan};

use crate::fault::{OrRaise, usage};
use crate::model::Model;
use crate::watch::{Watch, watched};

fn json(report: &impl Serialize) -> Result<String> {
    serde_json::to_string(report).map_err(|error| {
        Error::new(ErrorKind::Unsupported, format!("the report cannot be written: {error}"))
    })
}

fn dtype(name: &str) -> PyResult<DType> {
    DType::from_name(name).ok_or_else(|| usage(format!("\"{name}\" is not a dtype")))
}

/// A container by its name.
pub(crate) fn container(name: &str) -> PyResult<&'static Container> {
    let found = CONTAINERS.iter().find(|row| row.name == name).copied();
    found.ok_or_else(|| usage(format!("no container is named \"{name}\"")))
}

/// How a model is written: keyword arguments that all verbs share.
#[derive(FromPyObject)]
pub(crate) struct Writing {
    overwrite: bool,
    allow_incomplete: bool,
    dry_run: bool,
    threads: usize,
    max_memory: Option<u64>,
}

/// Runs a plan, and returns its report.
pub(crate) fn run(plan: &WritePlan, path: &Path, args: &Writing, watch: &Watch) -> Result<String> {
    let report = |progress| watch.report(progress);
    let mut options = WriteOptions::new()
        .overwrite(args.overwrite)
        .allow_incomplete(args.allow_incomplete)
        .threads(args.threads)
        .progress(&report);
    if let Some(bytes) = args.max_memory {
        options = options.memory(bytes);
    }
    plan.check(&options)?;
    let mut planned = plan.report();
    if !args.dry_run {
        let start = Instant::now();
        let written = plan.run(path, &options)?;
        planned.ran(&written, start.elapsed().as_secs_f64());
    }
    json(&planned)
}

#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, model: &Model) -> PyResult<String> {
    py.detach(|| json(&ops::inspect(&model.model, &InspectOptions::new())?)).or_raise()
}

#[pyfunction]
pub(crate) fn config(py: Python<'_>, model: &Model) -> PyResult<String> {
    py.detach(|| json(&ops::config(&model.model)?)).or_raise()
}

#[pyfunction]
#[pyo3(signature = (model, values, threads, progress))]
pub(crate) fn hash(
    py: Python<'_>,
    model: &Model,
    values: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = HashOptions::new().values(values).threads(threads).progress(&report);
        json(&ops::hash(&model.model, &options)?)
    })
}

#[pyfunction]
#[pyo3(signature = (path, strictness, no_map, all_files, deep, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    strictness: &str,
    no_map: bool,
    all_files: bool,
    deep: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let open = crate::model::options(strictness, no_map, threads, all_files)?;
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = VerifyOptions::new().deep(deep).threads(threads).progress(&report);
        json(&ops::verify(path, &open, &options)?)
    })
}

#[pyfunction]
#[pyo3(signature = (a, b, tolerance, threads, progress))]
pub(crate) fn diff(
    py: Python<'_>,
    a: &Model,
    b: &Model,
    tolerance: f64,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(bool, String)> {
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = DiffOptions::new().tolerance(tolerance).threads(threads).progress(&report);
        let diff = ops::diff(&a.model, &b.model, &options)?;
        Ok((diff.is_equal(), json(&diff.report())?))
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, to, one_file, dtype, lossless, max_shard_size, loras, extra_keys, store, writing, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn convert(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    to: &str,
    one_file: bool,
    dtype: Option<&str>,
    lossless: bool,
    max_shard_size: Option<u64>,
    loras: Vec<(PathBuf, f64)>,
    extra_keys: bool,
    store: Option<PathBuf>,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let to = container(to)?;
    let mut options = ConvertOptions::new(to)
        .lossless(lossless)
        .one_file(one_file && *to == SAFETENSORS)
        .extra_keys(extra_keys)
        .allow_unloadable(writing.allow_incomplete);
    if let Some(name) = dtype {
        options = options.dtype(self::dtype(name)?);
    }
    if let Some(bytes) = max_shard_size {
        options = options.shard_bytes(bytes);
    }
    for (path, scale) in loras {
        options = options.adapter(Adapter::open(path).or_raise()?, scale);
    }
    let place = match *to == OLLAMA {
        true => ollama::place(&path.to_string_lossy(), store.as_deref()).or_raise()?,
        false => path,
    };
    watched(py, progress, |watch| {
        run(&ops::convert(&model.model, &options)?, &place, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, file_type, imatrix, pure, allow_requantize, leave_output, output, token_embedding, mlx, writing, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn quantize(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    file_type: &str,
    imatrix: Option<PathBuf>,
    pure: bool,
    allow_requantize: bool,
    leave_output: bool,
    output: Option<&str>,
    token_embedding: Option<&str>,
    mlx: Option<(String, Option<u32>, Option<u32>)>,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    if let Some((mode, group_size, bits)) = mlx {
        let found = MlxMode::from_name(&mode);
        let mode = found.ok_or_else(|| usage(format!("mlx-lm has no mode \"{mode}\"")))?;
        let rules = MlxOptions { mode, group_size, bits, mix: None };
        let options = ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(rules));
        return watched(py, progress, |watch| {
            run(&ops::convert(&model.model, &options)?, &path, &writing, watch)
        });
    }
    let found = FileType::from_name(file_type);
    let found = found.ok_or_else(|| usage(format!("\"{file_type}\" is not a file type")))?;
    let mut options = LlamaOptions::new(found);
    options.pure = pure;
    options.allow_requantize = allow_requantize;
    options.leave_output = leave_output;
    options.output = output.map(dtype).transpose()?;
    options.token_embedding = token_embedding.map(dtype).transpose()?;
    options.allow_unloadable = writing.allow_incomplete;
    watched(py, progress, |watch| {
        let matrix = imatrix.as_ref().map(ImportanceMatrix::open).transpose()?;
        let options = match (&matrix, &imatrix) {
            (Some(matrix), Some(path)) => options.with_importance(matrix, &path.to_string_lossy()),
            _ => options,
        };
        let plan = ops::quantize(&model.model, &options, matrix.as_ref(), &path)?;
        run(&plan, &path, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, max_size, max_tensors, writing, progress))]
pub(crate) fn split(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    max_size: Option<u64>,
    max_tensors: u64,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let shards = max_size.map_or(Shards::Tensors(max_tensors), Shards::Bytes);
    watched(py, progress, |watch| {
        run(&ops::split(&model.model, shards, &path)?, &path, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, align, writing, progress))]
pub(crate) fn merge(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    align: Option<u64>,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| run(&ops::merge(&model.model, align)?, &path, &writing, watch))
}

#[pyfunction]
#[pyo3(signature = (model, name, quantize, template, system, parameters, store, writing, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn create(
    py: Python<'_>,
    model: &Model,
    name: &str,
    quantize: Option<&str>,
    template: Option<String>,
    system: Option<String>,
    parameters: Vec<(String, String)>,
    store: Option<PathBuf>,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = CreateOptions::new();
    if let Some(name) = quantize {
        let found = QuantType::from_name(name);
        let unknown = || usage(format!("Ollama has no quantization \"{name}\""));
        options = options.quantize(found.ok_or_else(unknown)?);
    }
    if let Some(text) = template {
        options = options.template(text).or_raise()?;
    }
    if let Some(text) = system {
        options = options.system(text);
    }
    for (name, value) in parameters {
        options = options.parameter(&name, &value).or_raise()?;
    }
    let place = ollama::place(name, store.as_deref()).or_raise()?;
    watched(py, progress, |watch| {
        run(&ops::create(&model.model, options)?, &place, &writing, watch)
    })
}
