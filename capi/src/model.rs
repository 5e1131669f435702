//! Models: opening, names, tensors, config.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::{Arc, OnceLock};

use weighbridge_dlpack::PrivateMaps;
use weighbridge_rs::arch::FamilyFile;
use weighbridge_rs::ops::{self, ReportedField};
use weighbridge_rs::{Error, ErrorKind, Model, OpenOptions, Result, Strictness};

use crate::fault::{checked, gives, quietly};
use crate::tensor::WbTensor;
use crate::{Options, WbStr, beyond, given, null, path, text};

/// An opened model. Any number of threads may use it at the same time; one of them frees it when no
/// other uses it any more. Tensors and loaded weights keep what they need: they may outlive it.
#[derive(Debug)]
pub struct WbModel {
    pub(crate) model: Model,
    /// `None` if the files are not to be mapped.
    pub(crate) maps: Option<Arc<PrivateMaps>>,
    fields: OnceLock<Result<Vec<(ReportedField, String)>>>,
    stored: OnceLock<StoredTensors>,
}

/// The stored tensors in file order, and their positions by name.
#[derive(Debug)]
struct StoredTensors {
    tensors: Vec<WbTensor>,
    positions: HashMap<Vec<u8>, usize>,
    /// The position of the first byte of tensor data in the first file.
    data_start: u64,
}

impl WbModel {
    fn boxed(model: Model, options: &WbOpenOptions) -> Box<Self> {
        let maps = (options.no_map == 0).then(Arc::default);
        Box::new(Self { model, maps, fields: OnceLock::new(), stored: OnceLock::new() })
    }

    fn stored(&self) -> &StoredTensors {
        self.stored.get_or_init(|| {
            let tensor = |tensor| WbTensor::new(tensor, self.maps.clone());
            let tensors: Vec<WbTensor> = self.model.stored_tensors().map(tensor).collect();
            let name = |tensor: &WbTensor| tensor.tensor().raw_name().as_bytes().to_vec();
            let positions = tensors.iter().map(name).zip(0..).collect();
            let segments = || tensors.iter().flat_map(|tensor| tensor.tensor().segments());
            let file = segments().next().map(|segment| segment.path);
            let own = segments().filter(|segment| Some(segment.path) == file);
            let data_start = own.map(|segment| segment.range.start).min().unwrap_or(0);
            StoredTensors { data_start, tensors, positions }
        })
    }
}

/// Options of wb_open.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbOpenOptions {
    /// sizeof(wb_open_options).
    pub size: usize,
    /// 0: broken rules that leave one safe interpretation become notes. 1: apply the strictest
    /// reader's rules. 2: also accept what only MLX and whisper.cpp accept.
    pub strictness: u32,
    /// Other than 0: read tensor data into memory instead of mapping the files.
    pub no_map: u32,
    /// The number of threads; 0 means one for each processor.
    pub threads: u32,
    /// Other than 0: open every weight file of a directory, not only those that its index names.
    pub all_files: u32,
}

// SAFETY: 0 stands for the default of each member.
unsafe impl Options for WbOpenOptions {}

impl WbOpenOptions {
    #[cfg(feature = "reports")]
    pub(crate) fn is_strict(&self) -> bool {
        self.strictness == 1
    }

    pub(crate) fn options(&self) -> Result<OpenOptions> {
        let strictness = match self.strictness {
            0 => Strictness::Default,
            1 => Strictness::Strict,
            2 => Strictness::Lenient,
            other => return Err(crate::usage(format!("strictness is {other}, not 0, 1 or 2"))),
        };
        let options = OpenOptions::new().strictness(strictness).all_files(self.all_files != 0);
        let options = match self.threads {
            0 => options,
            threads => options.threads(threads as usize),
        };
        Ok(if self.no_map != 0 { options.read() } else { options })
    }
}

/// Opens a file, a directory, or a model in Ollama's store by its name. The format is detected from
/// the content. Reads headers only. `options` may be NULL. Free *out with wb_model_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_open(
    path: *const c_char,
    options: *const WbOpenOptions,
    out: Option<&mut MaybeUninit<Box<WbModel>>>,
) -> i32 {
    gives(out, || {
        // SAFETY: the caller passes NULL or valid pointers.
        let (path, options) = unsafe { (crate::path(path, "path")?, crate::options(options)?) };
        Ok(WbModel::boxed(options.options()?.open(path)?, &options))
    })
}

/// Adds the model families of a file to the built-in ones, for the whole process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_add_families(path: *const c_char) -> i32 {
    checked(|| {
        // SAFETY: the caller passes NULL or a valid string.
        let path = unsafe { crate::path(path, "path")? };
        FamilyFile::open(path)?.add();
        Ok(())
    })
}

/// Opens a GGUF, safetensors or whisper.cpp file that is in memory. The bytes are copied. `name`
/// stands for the path in messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_open_memory(
    name: *const c_char,
    bytes: *const c_void,
    len: usize,
    options: *const WbOpenOptions,
    out: Option<&mut MaybeUninit<Box<WbModel>>>,
) -> i32 {
    gives(out, || {
        // SAFETY: the caller passes NULL or valid pointers.
        let (name, options) = unsafe { (path(name, "name")?, crate::options(options)?) };
        // SAFETY: the caller passes `len` bytes.
        let bytes = unsafe { crate::tensor::bytes(bytes.cast(), len, "bytes")? };
        let model = options.options()?.open_memory(name, bytes.to_vec())?;
        Ok(WbModel::boxed(model, &options))
    })
}

/// Frees a model. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_free(model: Option<Box<WbModel>>) {
    quietly(|| drop(model));
}

/// The container: "gguf", "safetensors", "mlx", "ollama" or "whisper-ggml". Empty for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_container(model: Option<&WbModel>) -> WbStr {
    WbStr::new(model.map_or("", |model| model.model.container()).as_bytes())
}

/// The number of stored tensors. Scales and other parts of a tensor do not count. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_tensor_count(model: Option<&WbModel>) -> usize {
    model.map_or(0, |model| model.model.len())
}

/// Bytes of all stored tensors. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_stored_bytes(model: Option<&WbModel>) -> u64 {
    model.map_or(0, |model| model.model.stored_bytes())
}

/// The number of names that wb_model_tensor accepts: canonical names, then the stored names of
/// tensors without a canonical one.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_name_count(
    model: Option<&WbModel>,
    out: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    gives(out, || {
        let names = given(model, "model")?.model.resolution()?;
        Ok(names.mapped.len() + names.unknown.len())
    })
}

/// The name at a position, 0 first. Valid as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_name(
    model: Option<&WbModel>,
    position: usize,
    out: Option<&mut MaybeUninit<WbStr>>,
) -> i32 {
    gives(out, || {
        let names = given(model, "model")?.model.resolution()?;
        let all = names.mapped.len() + names.unknown.len();
        let unknown = || names.unknown.get(position.checked_sub(names.mapped.len())?);
        let mapped = names.mapped.get(position).map(|mapping| &mapping.canonical);
        let name = mapped.or_else(unknown).ok_or_else(|| beyond("names", position, all))?;
        Ok(WbStr::new(name.as_bytes()))
    })
}

/// The tensor with a canonical name, such as "layers.0.attention.q.weight": its rows and values are
/// those of the Hugging Face checkpoint. Free *out with wb_tensor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_model_tensor(
    model: Option<&WbModel>,
    name: *const c_char,
    out: Option<&mut MaybeUninit<Box<WbTensor>>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or a valid string.
        let name = unsafe { text(name, "name")? };
        let tensor = model.model.tensor(name)?;
        Ok(WbTensor::boxed(tensor, model.maps.clone()))
    })
}

/// The tensor with a stored name, the one in the file: with the file's rows and values. Free *out
/// with wb_tensor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_model_stored_tensor(
    model: Option<&WbModel>,
    name: *const c_char,
    out: Option<&mut MaybeUninit<Box<WbTensor>>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or a valid string.
        let name = unsafe { text(name, "name")? };
        let tensor = model.model.stored_tensor(name)?;
        Ok(WbTensor::boxed(tensor, model.maps.clone()))
    })
}

/// The stored tensor at a position in file order, 0 first. Free *out with wb_tensor_free.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_stored_tensor_at(
    model: Option<&WbModel>,
    position: usize,
    out: Option<&mut MaybeUninit<Box<WbTensor>>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        let tensor = model.model.stored_tensor_at(position);
        let tensor = tensor.ok_or_else(|| beyond("tensors", position, model.model.len()))?;
        Ok(WbTensor::boxed(tensor, model.maps.clone()))
    })
}

/// The stored tensor at a position in file order, 0 first; NULL if there is none. It belongs to the model:
/// do not free it. It is valid as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_stored_at(
    model: Option<&WbModel>,
    position: usize,
) -> Option<&WbTensor> {
    let mut found = None;
    quietly(|| found = model.and_then(|model| model.stored().tensors.get(position)));
    found
}

/// The position of the stored tensor with a name, for wb_model_stored_at. WB_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_model_stored_find(
    model: Option<&WbModel>,
    name: *const c_char,
    out: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        if name.is_null() {
            return Err(null("name"));
        }
        // SAFETY: the caller passes a valid string.
        let name = unsafe { CStr::from_ptr(name) };
        let position = model.stored().positions.get(name.to_bytes()).copied();
        let position = match position {
            Some(position) => position,
            None => {
                // The error suggests a similar name.
                let missing = || Error::new(ErrorKind::NotFound, "no such tensor");
                return Err(match model.model.stored_tensor(&name.to_string_lossy()) {
                    Err(error) => error,
                    Ok(_) => missing().in_file(model.model.path()),
                });
            }
        };
        Ok(position)
    })
}

/// The position of the first byte of tensor data in the first file. 0 for NULL, and for a model without
/// stored tensors.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_data_start(model: Option<&WbModel>) -> u64 {
    let mut start = 0;
    quietly(|| start = model.map_or(0, |model| model.stored().data_start));
    start
}

/// A value of the config.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbField {
    /// The group: "model", "attention", "rope" and others.
    pub group: WbStr,
    /// The name: "dim", "layers".
    pub name: WbStr,
    /// The value as JSON: 4096, "silu", null.
    pub json: WbStr,
    /// The key or file that contains it, or the rule that derived it.
    pub source: WbStr,
    /// The value, if it is a number; otherwise NaN.
    pub number: f64,
}

impl WbModel {
    fn fields(&self) -> Result<&[(ReportedField, String)]> {
        let read = || {
            let fields = ops::config(&self.model)?.config;
            Ok(fields
                .into_iter()
                .map(|field| (field.value.to_string(), field))
                .map(|(j, f)| (f, j))
                .collect())
        };
        self.fields.get_or_init(read).as_ref().map(Vec::as_slice).map_err(Error::clone)
    }
}

fn field((field, json): &(ReportedField, String)) -> WbField {
    WbField {
        group: WbStr::new(field.group.as_bytes()),
        name: WbStr::new(field.name.as_bytes()),
        json: WbStr::new(json.as_bytes()),
        source: WbStr::new(field.source.as_bytes()),
        number: field.value.as_f64().unwrap_or(f64::NAN),
    }
}

/// The number of values of the config: those that an engine needs, whatever the container calls them.
#[unsafe(no_mangle)]
pub extern "C" fn wb_config_count(
    model: Option<&WbModel>,
    out: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    gives(out, || {
        let fields = given(model, "model")?.fields()?;
        Ok(fields.len())
    })
}

/// The config value at a position, 0 first. Its strings are valid as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn wb_config_at(
    model: Option<&WbModel>,
    position: usize,
    out: Option<&mut MaybeUninit<WbField>>,
) -> i32 {
    gives(out, || {
        let fields = given(model, "model")?.fields()?;
        let found = fields.get(position);
        let found = found.ok_or_else(|| beyond("config values", position, fields.len()))?;
        Ok(field(found))
    })
}

/// The config value with a name, such as "dim" or "attention.heads": the group may be left out
/// where the name alone is unique.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_config_find(
    model: Option<&WbModel>,
    name: *const c_char,
    out: Option<&mut MaybeUninit<WbField>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or a valid string.
        let name = unsafe { text(name, "name")? };
        let fits = |(field, _): &&(ReportedField, String)| {
            let rest = name.strip_prefix(field.group).and_then(|rest| rest.strip_prefix('.'));
            field.name == name || rest.is_some_and(|rest| rest == field.name)
        };
        let mut found = model.fields()?.iter().filter(fits);
        let first = found.next().ok_or_else(|| {
            let fault = format!("the config has no value \"{name}\"");
            Error::new(ErrorKind::NotFound, fault).in_file(model.model.path())
        })?;
        if let Some((other, _)) = found.next() {
            let fault = format!("\"{name}\" is a value of {} and {}", first.0.group, other.group);
            return Err(crate::usage(fault));
        }
        Ok(field(first))
    })
}

/// The number of remarks about the model: broken rules of its format, files that were ignored.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_note_count(model: Option<&WbModel>) -> usize {
    model.map_or(0, |model| model.model.notes().len())
}

/// The remark at a position, 0 first; empty if there is none. Valid as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn wb_model_note(model: Option<&WbModel>, position: usize) -> WbStr {
    let note = model.and_then(|model| model.model.notes().get(position));
    WbStr::new(note.map_or(&b""[..], |note| note.text.as_bytes()))
}
