//! Verbs that write models. Each returns its report as JSON, with the members that the program's
//! `--json` has.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Instant;

use weighbridge_rs::container::{CONTAINERS, Container, MLX, Shards, ollama};
use weighbridge_rs::ollama::{Modelfile, QuantType};
use weighbridge_rs::ops::{self, ConvertOptions, CreateOptions, QuantizationRules};
use weighbridge_rs::recipe::llama_cpp::LlamaOptions;
use weighbridge_rs::recipe::mlx_lm::{MlxMode, MlxOptions};
use weighbridge_rs::recipe::{FileType, ImportanceMatrix};
use weighbridge_rs::{Model, Result, WriteOptions, WritePlan};

use crate::fault::checked;
use crate::model::WbModel;
use crate::reports::report;
use crate::{Callback, Options, WbProgress, given, text, usage};

/// Options of the functions that write models.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbWriteOptions {
    /// sizeof(wb_write_options).
    pub size: usize,
    /// wb_convert: the container to write: "gguf", "safetensors", "mlx" or "ollama". NULL: by the ending
    /// of the destination, .gguf or .safetensors.
    pub container: *const c_char,
    /// wb_quantize: the path of an importance matrix, or NULL.
    pub imatrix: *const c_char,
    /// Passed to the callback.
    pub user: *mut c_void,
    /// Called with the progress, or NULL.
    pub progress: WbProgress,
    /// Bytes of memory for buffers; 0 means 256 MiB.
    pub memory: u64,
    /// The number of threads; 0 means one for each processor.
    pub threads: u32,
    /// Other than 0: replace an existing destination once the new one is complete.
    pub overwrite: u32,
    /// Other than 0: write a model although it lacks tensors that its family requires.
    pub allow_incomplete: u32,
    /// Other than 0: plan, but write nothing.
    pub dry_run: u32,
    /// wb_convert, other than 0: any loss of values is an error.
    pub lossless: u32,
    /// wb_quantize, other than 0: quantize tensors that are quantized already.
    pub allow_requantize: u32,
    /// Other than 0: quantize tensors with NaN, infinities, or values beyond the range of a block's scale,
    /// which otherwise are an error.
    pub allow_nonfinite: u32,
}

// SAFETY: 0 stands for the default of each member.
unsafe impl Options for WbWriteOptions {}

/// Converts a model to another container: a file, a directory, or a model in Ollama's store. As
/// `weighbridge convert --json`. `options` may be NULL. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_convert(
    model: Option<&WbModel>,
    destination: *const c_char,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let (options, destination) =
            unsafe { (crate::options(options)?, crate::path(destination, "destination")?) };
        // SAFETY: as above.
        let named = unsafe { named(options.container)? };
        let ending = by_ending(destination);
        let to = named.or(ending).ok_or_else(|| {
            usage("the destination does not end in .gguf or .safetensors: name a container".into())
        })?;
        let convert = ConvertOptions::new(to)
            .lossless(options.lossless != 0)
            .one_file(ending == Some(to))
            .allow_unloadable(options.allow_incomplete != 0);
        let plan = ops::convert(&model.model, &convert)?;
        run(&plan, destination, &options, json)
    })
}

/// Quantizes a model: to a GGUF file as llama-quantize does, with a file type such as "Q4_K_M", or to
/// an MLX directory as mlx-lm does, with "mlx:affine", "mlx:mxfp4" and the like. As
/// `weighbridge quantize --json`. `options` may be NULL. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_quantize(
    model: Option<&WbModel>,
    destination: *const c_char,
    file_type: *const c_char,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let (options, destination) =
            unsafe { (crate::options(options)?, crate::path(destination, "destination")?) };
        // SAFETY: as above.
        let name = unsafe { text(file_type, "file_type")? };
        let plan = match name.strip_prefix("mlx:") {
            Some(mode) => mlx(&model.model, mode)?,
            // SAFETY: as above.
            None => unsafe { llama(&model.model, name, destination, &options)? },
        };
        run(&plan, destination, &options, json)
    })
}

/// Writes the tensors of a model unchanged to several files, each with at most `max_bytes` bytes of
/// tensors or, if that is 0, at most `max_tensors` tensors. A GGUF model becomes shards whose names begin
/// with `destination`, a safetensors model a directory. As `weighbridge split --json`. `options` may be
/// NULL. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_split(
    model: Option<&WbModel>,
    destination: *const c_char,
    max_bytes: u64,
    max_tensors: u64,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let (options, destination) =
            unsafe { (crate::options(options)?, crate::path(destination, "destination")?) };
        let shards = match (max_bytes, max_tensors) {
            (0, 0) => return Err(usage("max_bytes and max_tensors are both 0".to_owned())),
            (0, tensors) => Shards::Tensors(tensors),
            (bytes, _) => Shards::Bytes(bytes),
        };
        let plan = ops::split(&model.model, shards, destination)?;
        run(&plan, destination, &options, json)
    })
}

/// Writes the tensors of a model unchanged to one file, with the tensor data aligned to `alignment` bytes,
/// or as the format requires if that is 0. As `weighbridge merge --json`. `options` may be NULL. Free
/// *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_merge(
    model: Option<&WbModel>,
    destination: *const c_char,
    alignment: u64,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let (options, destination) =
            unsafe { (crate::options(options)?, crate::path(destination, "destination")?) };
        let plan = ops::merge(&model.model, Some(alignment).filter(|bytes| *bytes > 0))?;
        run(&plan, destination, &options, json)
    })
}

/// Options of wb_create.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbCreateOptions {
    /// sizeof(wb_create_options).
    pub size: usize,
    /// Ollama's store, or NULL: the folder in the environment variable OLLAMA_MODELS, or Ollama's usual one.
    pub store: *const c_char,
    /// The path of a Modelfile, which sets template, system prompt, parameters and the like, or NULL.
    pub modelfile: *const c_char,
    /// The type of quantized matrices: "int4", "int8", "nvfp4", "mxfp4" or "mxfp8". NULL: as they are.
    pub quantize: *const c_char,
}

// SAFETY: 0 stands for the default of each member.
unsafe impl Options for WbCreateOptions {}

/// Creates a model in Ollama's store. `model` may be NULL if the Modelfile names one. `create` and
/// `options` may be NULL. As `weighbridge create --json`. Free *json with wb_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_create(
    model: Option<&WbModel>,
    name: *const c_char,
    create: *const WbCreateOptions,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        // SAFETY: the caller passes NULL or valid pointers.
        let (name, options) = unsafe { (text(name, "name")?, crate::options(options)?) };
        // SAFETY: as above.
        let create = unsafe { crate::options(create)? };
        let model = model.map(|model| model.model.clone());
        // SAFETY: as above.
        let store = unsafe { path_or_none(create.store)? };
        // SAFETY: as above.
        let (model, mut settings) = match unsafe { path_or_none(create.modelfile)? } {
            Some(file) => {
                let folder = file.parent().unwrap_or(Path::new(""));
                CreateOptions::new().modelfile(&Modelfile::read(file)?, folder, model)?
            }
            None => {
                let absent = || usage("the argument model is NULL, without a Modelfile".to_owned());
                (model.ok_or_else(absent)?, CreateOptions::new())
            }
        };
        if !create.quantize.is_null() {
            // SAFETY: as above.
            let name = unsafe { text(create.quantize, "quantize")? };
            let found = QuantType::from_name(name);
            let unknown = || usage(format!("Ollama has no quantization \"{name}\""));
            settings = settings.quantize(found.ok_or_else(unknown)?);
        }
        let plan = ops::create(&model, settings)?;
        run(&plan, &ollama::place(name, store)?, &options, json)
    })
}

/// A path, or `None` for NULL.
///
/// # Safety
///
/// `pointer` is null or a string.
unsafe fn path_or_none<'a>(pointer: *const c_char) -> Result<Option<&'a Path>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    unsafe { crate::path(pointer, "path") }.map(Some)
}

fn mlx(model: &Model, mode: &str) -> Result<WritePlan> {
    let found = MlxMode::from_name(mode);
    let mode = found.ok_or_else(|| usage(format!("mlx-lm has no mode \"{mode}\"")))?;
    let rules = MlxOptions { mode, group_size: None, bits: None, mix: None };
    ops::convert(model, &ConvertOptions::new(&MLX).quantize(QuantizationRules::MlxLm(rules)))
}

/// # Safety
///
/// `options.imatrix` is null or a string.
unsafe fn llama(
    model: &Model,
    name: &str,
    destination: &Path,
    options: &WbWriteOptions,
) -> Result<WritePlan> {
    let found = FileType::from_name(name);
    let file_type = found.ok_or_else(|| usage(format!("\"{name}\" is not a file type")))?;
    let mut llama = LlamaOptions::new(file_type);
    llama.allow_requantize = options.allow_requantize != 0;
    llama.allow_unloadable = options.allow_incomplete != 0;
    let mut matrix = None;
    // SAFETY: as the caller promises.
    if let Some(path) = unsafe { path_or_none(options.imatrix)? } {
        let opened = ImportanceMatrix::open(path)?;
        llama = llama.with_importance(&opened, &path.to_string_lossy());
        matrix = Some(opened);
    }
    ops::quantize(model, &llama, matrix.as_ref(), destination)
}

pub(crate) fn run(
    plan: &WritePlan,
    destination: &Path,
    options: &WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> Result<()> {
    let callback = Callback { call: options.progress, user: options.user };
    let watch = |progress| callback.report(progress);
    let mut write = WriteOptions::new()
        .overwrite(options.overwrite != 0)
        .allow_incomplete(options.allow_incomplete != 0)
        .allow_nonfinite(options.allow_nonfinite != 0)
        .threads(options.threads as usize)
        .progress(&watch);
    if options.memory > 0 {
        write = write.memory(options.memory);
    }
    let mut planned = plan.report_at(destination, &write)?;
    if options.dry_run == 0 {
        let start = Instant::now();
        let written = plan.run(destination, &write)?;
        planned.ran(&written, start.elapsed().as_secs_f64());
    }
    report(&planned, json)
}

/// A container by name.
///
/// # Safety
///
/// `name` is null or a string.
pub(crate) unsafe fn named(name: *const c_char) -> Result<Option<&'static Container>> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let name = unsafe { text(name, "container")? };
    let found = CONTAINERS.iter().find(|row| row.name == name).copied();
    found.map(Some).ok_or_else(|| usage(format!("no container is named \"{name}\"")))
}

/// The container of a file, by its ending.
fn by_ending(path: &Path) -> Option<&'static Container> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    let file =
        |row: &&&Container| row.name == ending && ["gguf", "safetensors"].contains(&row.name);
    CONTAINERS.iter().find(file).copied().filter(|_| !path.is_dir())
}
