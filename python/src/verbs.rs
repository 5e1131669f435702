//! Verbs on whole models. Each returns its report as JSON, which `weighbridge/_verbs.py` wraps.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pyo3::prelude::*;
use serde::Serialize;
use weighbridge::adapter::Adapter;
use weighbridge::container::{CONTAINERS, Container, MLX, OLLAMA, SAFETENSORS, Shards, ollama};
use weighbridge::load::Fusion;
use weighbridge::ollama::{Modelfile, QuantType};
use weighbridge::ops::{
    self, ConvertOptions, CreateOptions, DiffOptions, HashList, HashOptions, InspectOptions,
    QuantizationRules, TensorPairs, VerifyOptions,
};
use weighbridge::recipe::llama_cpp::{LlamaOptions, MetadataSetting, TensorType};
use weighbridge::recipe::mlx_lm::{Mix, MlxMode, MlxOptions};
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::{DType, Error, ErrorKind, Result, Strictness, WriteOptions, WritePlan};
use wildmatch::WildMatch;

use crate::fault::{OrRaise, usage};
use crate::model::Model;
use crate::watch::{Watch, watched};

pub(crate) fn json(report: &impl Serialize) -> Result<String> {
    serde_json::to_string(report).map_err(|error| {
        Error::new(ErrorKind::Unsupported, format!("the report cannot be written: {error}"))
    })
}

pub(crate) fn dtype(name: &str) -> PyResult<DType> {
    DType::from_name(name).ok_or_else(|| usage(format!("\"{name}\" is not a dtype")))
}

/// A fusion by its name.
fn fusion(name: &str) -> PyResult<&'static Fusion> {
    Fusion::named(name).ok_or_else(|| usage(format!("no fusion is named \"{name}\"")))
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
    allow_nonfinite: bool,
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
        .allow_nonfinite(args.allow_nonfinite)
        .threads(args.threads)
        .progress(&report);
    if let Some(bytes) = args.max_memory {
        options = options.memory(bytes);
    }
    let mut planned = plan.report_at(path, &options)?;
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
#[pyo3(signature = (model, values, list, threads, progress))]
pub(crate) fn hash(
    py: Python<'_>,
    model: &Model,
    values: bool,
    list: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = HashOptions::new().values(values).threads(threads).progress(&report);
        let report = ops::hash(&model.model, &options.parts(list))?;
        match list {
            true => Ok(HashList::new(&report, values).to_string()),
            false => json(&report),
        }
    })
}

#[pyfunction]
#[pyo3(signature = (path, strictness, no_map, all_files, deep, sha256, hub, against, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    strictness: &str,
    no_map: bool,
    all_files: bool,
    deep: bool,
    sha256: Option<&str>,
    hub: Option<&str>,
    against: Option<PathBuf>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let strict = strictness == "strict";
    let opened = if strict { "default" } else { strictness };
    let open = crate::model::options(opened, no_map, threads, all_files)?;
    let rules = if strict { Strictness::Strict } else { Strictness::Default };
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let list = against.map(HashList::open).transpose()?;
        let options = VerifyOptions::new().deep(deep).threads(threads).strictness(rules);
        let options = sha256.into_iter().fold(options, VerifyOptions::sha256);
        let options = hub.into_iter().fold(options, VerifyOptions::hub);
        let options = list.iter().fold(options, VerifyOptions::against);
        json(&ops::verify(&open.open(path)?, &options.progress(&report))?)
    })
}

#[pyfunction]
#[pyo3(signature = (a, b, tolerance, filter, threads, progress))]
pub(crate) fn diff(
    py: Python<'_>,
    a: &Model,
    b: &Model,
    tolerance: f64,
    filter: Option<&str>,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<(bool, String)> {
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let options = DiffOptions::new().tolerance(tolerance).threads(threads).progress(&report);
        let mut pairs = TensorPairs::new(&a.model, &b.model)?;
        if let Some(filter) = filter {
            let pattern = WildMatch::new(filter);
            pairs.retain(|tensor| pattern.matches(tensor.name()));
        }
        let diff = pairs.compare(&options)?;
        Ok((diff.is_equal(), json(&diff.report())?))
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, to, one_file, dtype, lossless, max_shard_size, shards, fuse, loras, extra_keys, store, writing, progress))]
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
    shards: Option<&str>,
    fuse: Vec<String>,
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
    if let Some(mesh) = shards {
        options = options.shares(mesh.parse().or_raise()?);
    }
    let fusions = fuse.iter().map(|name| fusion(name)).collect::<PyResult<Vec<_>>>()?;
    options = options.fuse(&fusions);
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

/// What a GGUF file is quantized to: keyword arguments of `quantize`.
#[derive(FromPyObject)]
pub(crate) struct Quantization {
    file_type: String,
    imatrix: Option<PathBuf>,
    include_weights: Vec<String>,
    exclude_weights: Vec<String>,
    pure: bool,
    allow_requantize: bool,
    leave_output_tensor: bool,
    output_tensor_type: Option<String>,
    token_embedding_type: Option<String>,
    tensor_type: Vec<String>,
    prune_layers: Vec<u64>,
    keep_split: bool,
    override_kv: Vec<String>,
    extra_keys: bool,
}

impl Quantization {
    fn options(&self) -> PyResult<LlamaOptions> {
        let name = &self.file_type;
        let found = FileType::from_name(name);
        let found = found.ok_or_else(|| usage(format!("\"{name}\" is not a file type")))?;
        let types = self.tensor_type.iter().map(|text| TensorType::parse(text));
        let settings = self.override_kv.iter().map(|text| MetadataSetting::parse(text));
        let mut options = LlamaOptions::new(found);
        options.pure = self.pure;
        options.allow_requantize = self.allow_requantize;
        options.leave_output = self.leave_output_tensor;
        options.output = self.output_tensor_type.as_deref().map(dtype).transpose()?;
        options.token_embedding = self.token_embedding_type.as_deref().map(dtype).transpose()?;
        options.tensor_types = types.collect::<Result<_>>().or_raise()?;
        options.pruned = self.prune_layers.iter().copied().collect();
        options.keep_split = self.keep_split;
        options.overrides = settings.collect::<Result<_>>().or_raise()?;
        options.extra_keys = self.extra_keys;
        Ok(options)
    }

    /// The entries of the importance matrix that are used.
    fn importance(&self) -> Result<Option<ImportanceMatrix>> {
        let Some(path) = &self.imatrix else { return Ok(None) };
        let mut matrix = ImportanceMatrix::open(path)?;
        let named = |names: &[String], name: &str| names.iter().any(|part| name.contains(part));
        if !self.include_weights.is_empty() {
            matrix.retain(|name| named(&self.include_weights, name));
        }
        matrix.retain(|name| !named(&self.exclude_weights, name));
        Ok(Some(matrix))
    }
}

#[pyfunction]
#[pyo3(signature = (model, path, quantization, writing, progress))]
pub(crate) fn quantize(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    quantization: Quantization,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let mut options = quantization.options()?;
    options.allow_unloadable = writing.allow_incomplete;
    watched(py, progress, |watch| {
        let matrix = quantization.importance()?;
        let options = match (&matrix, &quantization.imatrix) {
            (Some(matrix), Some(path)) => options.with_importance(matrix, &path.to_string_lossy()),
            _ => options,
        };
        let plan = ops::quantize(&model.model, &options, matrix.as_ref(), &path)?;
        run(&plan, &path, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, mode, group_size, bits, mix, writing, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn quantize_mlx(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    mode: &str,
    group_size: Option<u32>,
    bits: Option<u32>,
    mix: Option<&str>,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let found = MlxMode::from_name(mode);
    let mode = found.ok_or_else(|| usage(format!("mlx-lm has no mode \"{mode}\"")))?;
    let known =
        |name| Mix::from_name(name).ok_or_else(|| usage(format!("mlx-lm has no mix \"{name}\"")));
    let mix = mix.map(known).transpose()?;
    let rules = MlxOptions { mode, group_size, bits, mix };
    let options = ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(rules));
    watched(py, progress, |watch| {
        run(&ops::convert(&model.model, &options)?, &path, &writing, watch)
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

/// Writes a LoRA adapter, and returns the report and the share of each matrix's change that it holds.
#[pyfunction]
#[pyo3(signature = (base, tuned, path, rank, writing, progress))]
pub(crate) fn extract_lora(
    py: Python<'_>,
    base: &Model,
    tuned: &Model,
    path: PathBuf,
    rank: u64,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<(String, f64)>)> {
    watched(py, progress, |watch| {
        let adapter = ops::extract_adapter(&base.model, &tuned.model, rank)?;
        let report = run(&adapter.plan, &path, &writing, watch)?;
        let kept = adapter.kept().into_iter().map(|(name, share)| (name.to_owned(), share));
        Ok((report, kept.collect()))
    })
}

/// What a model in Ollama's store says besides its weights: keyword arguments of `create`.
#[derive(FromPyObject)]
pub(crate) struct Creation {
    modelfile: Option<PathBuf>,
    quantize: Option<String>,
    template: Option<String>,
    system: Option<String>,
    parameters: Vec<(String, String)>,
    licenses: Vec<String>,
    messages: Vec<(String, String)>,
    files: Vec<PathBuf>,
    draft: Option<PathBuf>,
    draft_quantize: Option<String>,
    renderer: Option<String>,
    parser: Option<String>,
    requires: Option<String>,
    store: Option<PathBuf>,
}

fn quant_type(name: Option<&str>) -> Result<Option<QuantType>> {
    let Some(name) = name else { return Ok(None) };
    let fault =
        || Error::new(ErrorKind::Mismatch, format!("Ollama has no quantization \"{name}\""));
    QuantType::from_name(name).map(Some).ok_or_else(fault)
}

impl Creation {
    /// The model to start from, and what is changed.
    fn options(
        self,
        from: Option<weighbridge::Model>,
    ) -> Result<(weighbridge::Model, CreateOptions)> {
        let (model, mut options) = match &self.modelfile {
            Some(file) => {
                let folder = file.parent().unwrap_or(Path::new(""));
                CreateOptions::new().modelfile(&Modelfile::read(file)?, folder, from)?
            }
            None => {
                let fault = "give a model, or a Modelfile that names one";
                let absent = || Error::new(ErrorKind::Mismatch, fault);
                (from.ok_or_else(absent)?, CreateOptions::new())
            }
        };
        options = options.quantize(quant_type(self.quantize.as_deref())?);
        options = options.quantize_draft(quant_type(self.draft_quantize.as_deref())?);
        if let Some(text) = self.template {
            options = options.template(text)?;
        }
        if let Some(text) = self.system {
            options = options.system(text);
        }
        for (name, value) in self.parameters {
            options = options.parameter(&name, &value)?;
        }
        for text in self.licenses {
            options = options.license(text);
        }
        for (role, text) in self.messages {
            options = options.message(role, text);
        }
        for file in self.files {
            options = options.file(file)?;
        }
        if let Some(path) = self.draft {
            options = options.draft(path)?;
        }
        if let Some(name) = self.renderer {
            options = options.renderer(name);
        }
        if let Some(name) = self.parser {
            options = options.parser(name);
        }
        if let Some(version) = self.requires {
            options = options.requires(&version)?;
        }
        Ok((model, options))
    }
}

#[pyfunction]
#[pyo3(signature = (model, name, creation, writing, progress))]
pub(crate) fn create(
    py: Python<'_>,
    model: Option<&Model>,
    name: &str,
    creation: Creation,
    writing: Writing,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let place = ollama::place(name, creation.store.as_deref()).or_raise()?;
    let from = model.map(|model| model.model.clone());
    watched(py, progress, |watch| {
        let (model, options) = creation.options(from)?;
        run(&ops::create(&model, options)?, &place, &writing, watch)
    })
}
