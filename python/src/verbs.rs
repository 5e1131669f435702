//! Verbs on whole models. Each returns its report as JSON, which `weighbridge/_verbs.py` wraps.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pyo3::prelude::*;
use serde::Serialize;
use weighbridge::adapter::{Adapter, ScaledAdapter};
use weighbridge::container::{CONTAINERS, Container, MLX, OLLAMA, SAFETENSORS, Shards, ollama};
use weighbridge::load::Fusion;
use weighbridge::ollama::{Modelfile, QuantType};
use weighbridge::ops::{
    self, ConvertOptions, CreateOptions, DiffOptions, HashList, HashOptions, InspectOptions,
    QuantizationRules, TensorPairs, VerifyOptions, VerifyReport,
};
use weighbridge::recipe::llama_cpp::{LlamaOptions, MetadataSetting, TensorType};
use weighbridge::recipe::mlx_lm::{Mix, MlxMode, MlxOptions};
use weighbridge::recipe::{FileType, ImportanceMatrix};
use weighbridge::{DType, Error, ErrorKind, Result, Strictness, WriteOptions, WritePlan};
use weighbridge_reference::Trial;
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

/// Keyword arguments of all verbs that write a model.
#[derive(FromPyObject)]
pub(crate) struct Writing {
    overwrite: bool,
    allow_incomplete: bool,
    allow_nonfinite: bool,
    dry_run: bool,
    threads: usize,
    max_memory: Option<u64>,
}

/// Keyword arguments of `convert` and `quantize` that change a model before it is written.
#[derive(FromPyObject)]
struct Changes {
    lora: Vec<(PathBuf, f64)>,
    leave_out: Vec<String>,
}

impl Changes {
    /// The model with the adapters merged, and without the tensors to leave out.
    fn applied(&self, model: &weighbridge::Model) -> Result<weighbridge::Model> {
        let globs: Vec<WildMatch> =
            self.leave_out.iter().map(|glob| WildMatch::new(glob)).collect();
        let model = match globs.is_empty() {
            true => model.clone(),
            false => model.leave_out(|name| globs.iter().any(|glob| glob.matches(name)))?,
        };
        if self.lora.is_empty() {
            return Ok(model);
        }
        let opened = self.lora.iter().map(|(path, scale)| {
            Ok(ScaledAdapter { adapter: Adapter::open(path)?, factor: *scale })
        });
        Adapter::merged(&model, &opened.collect::<Result<Vec<_>>>()?)
    }
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
            true => Ok(HashList::new(&report).to_string()),
            false => json(&report),
        }
    })
}

#[pyfunction]
#[pyo3(signature = (model, strict, deep, sha256, hub, against, run, threads, progress))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of the Python function")]
pub(crate) fn verify(
    py: Python<'_>,
    model: &Model,
    strict: bool,
    deep: bool,
    sha256: Option<&str>,
    hub: Option<&str>,
    against: Option<PathBuf>,
    run: bool,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let model = &model.model;
    let rules = if strict { Strictness::Strict } else { Strictness::Default };
    watched(py, progress, |watch| {
        let report = |progress| watch.report(progress);
        let list = against.map(HashList::open).transpose()?;
        let options = VerifyOptions::new().deep(deep).threads(threads).strictness(rules);
        let options = sha256.into_iter().fold(options, VerifyOptions::sha256);
        let options = hub.into_iter().fold(options, VerifyOptions::hub);
        let options = list.iter().fold(options, VerifyOptions::against);
        let report = ops::verify(model, &options.progress(&report))?;
        // A model with faults may not run, and the faults say why.
        let trial = (run && report.is_fine()).then(|| Trial::run(model)).transpose()?;
        json(&Verified { report, run: trial })
    })
}

/// The report of `verify`, as the program writes it.
#[derive(Serialize)]
struct Verified {
    #[serde(flatten)]
    report: VerifyReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Trial>,
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

/// Keyword arguments of `convert` alone.
#[derive(FromPyObject)]
struct Conversion {
    dtype: Option<String>,
    dequantize: bool,
    requantize_merged: bool,
    lossless: bool,
    max_shard_size: Option<u64>,
    shards: Option<String>,
    fuse: Vec<String>,
    extra_keys: bool,
    mmproj: bool,
    store: Option<PathBuf>,
}

impl Conversion {
    fn options(
        &self,
        to: &'static Container,
        one_file: bool,
        path: &Path,
    ) -> PyResult<ConvertOptions> {
        let mut options = ConvertOptions::new(to)
            .lossless(self.lossless)
            .dequantize(self.dequantize)
            .requantize_merged(self.requantize_merged)
            .one_file(one_file && *to == SAFETENSORS)
            .extra_keys(self.extra_keys)
            .projector(self.mmproj);
        if let Some(name) = &self.dtype {
            options = options.dtype(dtype(name)?);
        }
        if let Some(bytes) = self.max_shard_size {
            options = options.shard_bytes(bytes).shard_names(path);
        }
        if let Some(mesh) = &self.shards {
            options = options.shares(mesh.parse().or_raise()?);
        }
        let fusions = self.fuse.iter().map(|name| fusion(name)).collect::<PyResult<Vec<_>>>()?;
        Ok(options.fuse(&fusions))
    }
}

#[pyfunction]
#[pyo3(signature = (model, path, to, one_file, options, progress))]
pub(crate) fn convert(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    to: &str,
    one_file: bool,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (conversion, changes): (Conversion, Changes) = (options.extract()?, options.extract()?);
    let (writing, to): (Writing, _) = (options.extract()?, container(to)?);
    let options =
        conversion.options(to, one_file, &path)?.allow_unloadable(writing.allow_incomplete);
    let place = match *to == OLLAMA {
        true => ollama::place(&path.to_string_lossy(), conversion.store.as_deref()).or_raise()?,
        false => path,
    };
    watched(py, progress, |watch| {
        run(&ops::convert(&changes.applied(&model.model)?, &options)?, &place, &writing, watch)
    })
}

/// Keyword arguments of `quantize` for GGUF files.
#[derive(FromPyObject)]
struct Quantization {
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
    fn options(&self, name: &str) -> PyResult<LlamaOptions> {
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

/// Keyword arguments of `quantize` for MLX directories.
#[derive(FromPyObject)]
struct MlxQuantization {
    mlx: Option<String>,
    group_size: Option<u32>,
    bits: Option<u32>,
    quant_predicate: Option<String>,
}

impl MlxQuantization {
    fn options(&self) -> PyResult<ConvertOptions> {
        let name = self.mlx.as_deref().unwrap_or_default();
        let mode = MlxMode::from_name(name);
        let mode = mode.ok_or_else(|| usage(format!("mlx-lm has no mode \"{name}\"")))?;
        let unknown = |name| usage(format!("mlx-lm has no mix \"{name}\""));
        let known = |name| Mix::from_name(name).ok_or_else(|| unknown(name));
        let mix = self.quant_predicate.as_deref().map(known).transpose()?;
        let rules = MlxOptions { mode, group_size: self.group_size, bits: self.bits, mix };
        Ok(ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(rules)))
    }
}

#[pyfunction]
#[pyo3(signature = (model, path, file_type, options, progress))]
pub(crate) fn quantize(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    file_type: Option<&str>,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (changes, writing): (Changes, Writing) = (options.extract()?, options.extract()?);
    let Some(file_type) = file_type else {
        let options = options.extract::<MlxQuantization>()?.options()?;
        return watched(py, progress, |watch| {
            run(&ops::convert(&changes.applied(&model.model)?, &options)?, &path, &writing, watch)
        });
    };
    let quantization: Quantization = options.extract()?;
    let mut options = quantization.options(file_type)?;
    options.allow_unloadable = writing.allow_incomplete;
    watched(py, progress, |watch| {
        let matrix = quantization.importance()?;
        let options = match (&matrix, &quantization.imatrix) {
            (Some(matrix), Some(path)) => options.with_importance(matrix, &path.to_string_lossy()),
            _ => options,
        };
        let model = changes.applied(&model.model)?;
        run(&ops::quantize(&model, &options, matrix.as_ref(), &path)?, &path, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, options, progress))]
pub(crate) fn split(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let writing: Writing = options.extract()?;
    let max_size: Option<u64> = options.getattr("max_size")?.extract()?;
    let max_tensors = options.getattr("max_tensors")?.extract()?;
    let shards = max_size.map_or(Shards::Tensors(max_tensors), Shards::Bytes);
    watched(py, progress, |watch| {
        run(&ops::split(&model.model, shards, &path)?, &path, &writing, watch)
    })
}

#[pyfunction]
#[pyo3(signature = (model, path, options, progress))]
pub(crate) fn merge(
    py: Python<'_>,
    model: &Model,
    path: PathBuf,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (writing, align): (Writing, _) = (options.extract()?, options.getattr("align")?.extract()?);
    watched(py, progress, |watch| run(&ops::merge(&model.model, align)?, &path, &writing, watch))
}

/// Writes a LoRA adapter, and returns the report and the share of each matrix's change that it holds.
#[pyfunction]
#[pyo3(signature = (base, tuned, path, options, progress))]
pub(crate) fn extract_lora(
    py: Python<'_>,
    base: &Model,
    tuned: &Model,
    path: PathBuf,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Vec<(String, f64)>)> {
    let (writing, rank): (Writing, _) = (options.extract()?, options.getattr("rank")?.extract()?);
    watched(py, progress, |watch| {
        let adapter = ops::extract_adapter(&base.model, &tuned.model, rank)?;
        let report = run(&adapter.plan, &path, &writing, watch)?;
        let kept = adapter.kept().into_iter().map(|(name, share)| (name.to_owned(), share));
        Ok((report, kept.collect()))
    })
}

/// Keyword arguments of `create`: the parts of a model in Ollama's store besides its weights.
#[derive(FromPyObject)]
struct Creation {
    modelfile: Option<PathBuf>,
    quantize: Option<String>,
    template: Option<String>,
    system: Option<String>,
    parameters: Vec<(String, String)>,
    license: Vec<String>,
    message: Vec<(String, String)>,
    adapter: Vec<PathBuf>,
    projector: Vec<PathBuf>,
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
        options = match self.quantize.as_deref().and_then(FileType::from_name) {
            Some(file_type) => options.file_type(file_type),
            None => options.quantize(quant_type(self.quantize.as_deref())?),
        };
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
        for text in self.license {
            options = options.license(text);
        }
        for (role, text) in self.message {
            options = options.message(role, text);
        }
        for file in self.adapter.into_iter().chain(self.projector) {
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
#[pyo3(signature = (model, name, options, progress))]
pub(crate) fn create(
    py: Python<'_>,
    model: Option<&Model>,
    name: &str,
    options: &Bound<'_, PyAny>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let (creation, writing): (Creation, Writing) = (options.extract()?, options.extract()?);
    let place = ollama::place(name, creation.store.as_deref()).or_raise()?;
    let from = model.map(|model| model.model.clone());
    watched(py, progress, |watch| {
        let (model, options) = creation.options(from)?;
        run(&ops::create(&model, options)?, &place, &writing, watch)
    })
}
