//! Writing tensors and metadata of the caller.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weighbridge_rs::bytes::{ReadAt, Source, Text};
use weighbridge_rs::container::SAFETENSORS;
use weighbridge_rs::metadata::{KeyValues, Value};
use weighbridge_rs::ops::{EditOutcome, MetadataEdit};
use weighbridge_rs::{Builder, DType, Model, Result, Tensor, WriteOptions};

use crate::fault::{checked, gives, quietly};
use crate::model::WbModel;
use crate::tensor::{WbTensor, bytes};
use crate::verbs::{WbWriteOptions, named, run};
use crate::{WbStr, given, null, path, text, usage};

/// A model that is being built: its tensors, metadata and documents. One thread uses it at a time.
#[derive(Debug)]
pub struct WbBuilder {
    builder: Mutex<Builder>,
    /// Keys that wb_metadata_edit removes.
    removed: Mutex<Vec<String>>,
}

impl WbBuilder {
    fn with(&self) -> MutexGuard<'_, Builder> {
        self.builder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a key.
    ///
    /// # Safety
    ///
    /// The key is null or valid.
    unsafe fn set(
        builder: Option<&mut Self>,
        key: *const c_char,
        put: impl FnOnce(&str, &mut KeyValues) -> Result<()>,
    ) -> Result<()> {
        let builder = given(builder, "builder")?;
        // SAFETY: as the caller promises.
        let key = unsafe { text(key, "key")? };
        put(key, builder.with().metadata()).map_err(|error| error.in_key(key))
    }
}

/// Memory of the caller.
#[derive(Debug)]
struct Borrowed {
    data: *const u8,
    len: usize,
}

// SAFETY: the header says that the memory stays valid and unchanged until the builder is freed.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl ReadAt for Borrowed {
    fn size(&self) -> u64 {
        self.len as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let outside = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        // SAFETY: the caller promised `len` bytes.
        let all = unsafe { bytes(self.data, self.len, "data") }.map_err(std::io::Error::other)?;
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(out.len()).ok_or_else(outside)?;
        out.copy_from_slice(all.get(start..end).ok_or_else(outside)?);
        Ok(())
    }
}

/// Starts a model without tensors for a container: "gguf", "mlx", or "safetensors" for one file. Free *out
/// with wb_builder_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_new(
    container: *const c_char,
    out: Option<&mut MaybeUninit<Box<WbBuilder>>>,
) -> i32 {
    gives(out, || {
        // SAFETY: the caller passes NULL or valid pointers.
        let container = unsafe { named(container)? };
        let container = given(container, "container")?;
        let mut builder = Builder::new(container)?;
        if *container == SAFETENSORS {
            builder.one_file();
        }
        Ok(Box::new(WbBuilder { builder: builder.into(), removed: Mutex::default() }))
    })
}

/// Frees a builder. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn wb_builder_free(builder: Option<Box<WbBuilder>>) {
    quietly(|| drop(builder));
}

/// Copies all metadata of a model, of the same container.
#[unsafe(no_mangle)]
pub extern "C" fn wb_builder_copy_metadata(
    builder: Option<&mut WbBuilder>,
    model: Option<&WbModel>,
) -> i32 {
    checked(|| {
        let (builder, model) = (given(builder, "builder")?, given(model, "model")?);
        let mut builder = builder.with();
        for (key, value) in KeyValues::of(model.model.metadata()).iter() {
            builder.metadata().set(&key.spelling(), value);
        }
        Ok(())
    })
}

/// Sets a key to a string of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_set_string(
    builder: Option<&mut WbBuilder>,
    key: *const c_char,
    string: *const c_char,
    len: usize,
) -> i32 {
    checked(|| {
        // SAFETY: the caller passes NULL or valid pointers.
        let string = unsafe { bytes(string.cast(), len, "string")? };
        let put = |key: &str, keys: &mut KeyValues| {
            keys.set(key, Value::String(Text::new(string)));
            Ok(())
        };
        // SAFETY: as above.
        unsafe { WbBuilder::set(builder, key, put) }
    })
}

/// Sets a key to `count` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_set_strings(
    builder: Option<&mut WbBuilder>,
    key: *const c_char,
    strings: *const WbStr,
    count: usize,
) -> i32 {
    checked(|| {
        if strings.is_null() && count > 0 {
            return Err(null("strings"));
        }
        let string = |number| {
            // SAFETY: the caller passes `count` strings.
            let string = unsafe { strings.add(number).read() };
            // SAFETY: as above.
            unsafe { bytes(string.data.cast(), string.len, "strings") }.map(<[u8]>::to_vec)
        };
        let all = (0..count).map(string).collect::<Result<Vec<Vec<u8>>>>()?;
        let put = |key: &str, keys: &mut KeyValues| {
            keys.set_array(key, &all);
            Ok(())
        };
        // SAFETY: as above.
        unsafe { WbBuilder::set(builder, key, put) }
    })
}

/// Decodes numbers of the caller, and passes them on: one, or an array.
macro_rules! numbers {
    ($value_type:expr, $data:expr, $count:expr, $key:expr, $keys:expr; $($code:literal $type:ty, $variant:ident);*) => {
        match $value_type {
            $($code => {
                const WIDTH: usize = size_of::<$type>();
                // SAFETY: the caller passes the elements of an array of this type.
                let all = unsafe { bytes($data.cast(), $count.unwrap_or(1).saturating_mul(WIDTH), "data")? };
                let number = |one: &[u8]| one.try_into().map_or(Default::default(), <$type>::from_ne_bytes);
                let numbers = all.chunks_exact(WIDTH).map(number);
                match $count {
                    Some(_) => $keys.set_array($key, numbers),
                    None => numbers.for_each(|number| $keys.set($key, Value::$variant(number))),
                }
            })*
            7 => {
                // SAFETY: as above.
                let all = unsafe { bytes($data.cast(), $count.unwrap_or(1), "data")? };
                let flags = all.iter().map(|byte| *byte != 0);
                match $count {
                    Some(_) => $keys.set_array($key, flags),
                    None => flags.for_each(|flag| $keys.set($key, Value::Bool(flag))),
                }
            }
            other => return Err(usage(format!("the type is {other}, not a number or boolean of wb_value_type"))),
        }
    };
}

/// Sets numbers or booleans, which the caller has in memory.
fn put(
    key: &str,
    keys: &mut KeyValues,
    value_type: u32,
    data: *const c_void,
    count: Option<usize>,
) -> Result<()> {
    numbers! { value_type, data, count, key, keys;
        0 u8, U8; 1 i8, I8; 2 u16, U16; 3 i16, I16; 4 u32, U32; 5 i32, I32; 6 f32, F32; 10 u64, U64;
        11 i64, I64; 12 f64, F64
    }
    Ok(())
}

/// Sets a key to a number or boolean. `data` points to one of the type of wb_value_type: a uint32_t for
/// WB_VALUE_U32, a byte for WB_VALUE_BOOL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_set_number(
    builder: Option<&mut WbBuilder>,
    key: *const c_char,
    value_type: u32,
    data: *const c_void,
) -> i32 {
    let put = |key: &str, keys: &mut KeyValues| put(key, keys, value_type, data, None);
    // SAFETY: the caller passes NULL or valid pointers.
    checked(|| unsafe { WbBuilder::set(builder, key, put) })
}

/// Sets a key to an array of `count` numbers or booleans of the type of wb_value_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_set_array(
    builder: Option<&mut WbBuilder>,
    key: *const c_char,
    value_type: u32,
    data: *const c_void,
    count: usize,
) -> i32 {
    let put = |key: &str, keys: &mut KeyValues| put(key, keys, value_type, data, Some(count));
    // SAFETY: the caller passes NULL or valid pointers.
    checked(|| unsafe { WbBuilder::set(builder, key, put) })
}

/// Removes a key: from the builder, and from the file that wb_metadata_edit changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_remove(
    builder: Option<&mut WbBuilder>,
    key: *const c_char,
) -> i32 {
    checked(|| {
        let builder = given(builder, "builder")?;
        // SAFETY: the caller passes NULL or a valid string.
        let key = unsafe { text(key, "key")? };
        builder.with().metadata().remove(key);
        let mut removed = builder.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.push(key.to_owned());
        Ok(())
    })
}

/// Adds a file of `len` bytes beside the weights, such as "config.json".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_document(
    builder: Option<&mut WbBuilder>,
    name: *const c_char,
    content: *const c_void,
    len: usize,
) -> i32 {
    checked(|| {
        let builder = given(builder, "builder")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let name = unsafe { text(name, "name")? };
        // SAFETY: as above.
        let content = unsafe { bytes(content.cast(), len, "content")? };
        builder.with().document(name, content.to_vec())
    })
}

/// The dtype of a name; `None` for NULL.
///
/// # Safety
///
/// The pointer is null or valid.
unsafe fn dtype(name: *const c_char, what: &str) -> Result<Option<DType>> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let name = unsafe { text(name, what)? };
    let found = DType::from_name(name);
    found.map(Some).ok_or_else(|| usage(format!("\"{name}\" is not a dtype")))
}

fn add(builder: &WbBuilder, name: &str, tensor: &Tensor, dtype: Option<DType>) -> Result<()> {
    match dtype {
        Some(dtype) => builder.with().add_as(name, tensor, dtype),
        None => builder.with().add(name, tensor),
    }
}

/// Adds a tensor, in the dtype `dtype`, such as "Q4_K", or, if that is NULL, as it is. The builder keeps what
/// it needs of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_add(
    builder: Option<&mut WbBuilder>,
    name: *const c_char,
    tensor: Option<&WbTensor>,
    dtype: *const c_char,
) -> i32 {
    checked(|| {
        let builder = given(builder, "builder")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let name = unsafe { text(name, "name")? };
        let tensor = given(tensor, "tensor")?;
        // SAFETY: as above.
        let dtype = unsafe { self::dtype(dtype, "dtype")? };
        add(builder, name, tensor.tensor(), dtype)
    })
}

/// Adds an array of the caller: `len` bytes of the dtype `stored`, little-endian, packed if it is quantized,
/// with `rank` dimensions, outermost first. It is written in the dtype `dtype`, or, if that is NULL, as it is.
/// The memory is read by wb_builder_write: it must stay valid until the builder is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_add_array(
    builder: Option<&mut WbBuilder>,
    name: *const c_char,
    stored: *const c_char,
    shape: *const u64,
    rank: usize,
    data: *const c_void,
    len: usize,
    dtype: *const c_char,
) -> i32 {
    checked(|| {
        let builder = given(builder, "builder")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let name = unsafe { text(name, "name")? };
        // SAFETY: as above.
        let stored = unsafe { self::dtype(stored, "stored")? };
        let stored = given(stored, "stored")?;
        // SAFETY: as above.
        let dtype = unsafe { self::dtype(dtype, "dtype")? };
        if (shape.is_null() && rank > 0) || (data.is_null() && len > 0) {
            return Err(null("shape or data"));
        }
        // SAFETY: as above.
        let shape: Vec<u64> = (0..rank).map(|axis| unsafe { shape.add(axis).read() }).collect();
        let source = Source::custom(name, Borrowed { data: data.cast(), len });
        add(builder, name, &Tensor::new(name, stored, &shape, source)?, dtype)
    })
}

/// Writes the model to a file, or for "mlx" to a directory. A builder may write several times. `options` may
/// be NULL. *json is a report, to be freed with wb_string_free; `json` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_builder_write(
    builder: Option<&WbBuilder>,
    destination: *const c_char,
    options: *const WbWriteOptions,
    json: Option<&mut MaybeUninit<*mut c_char>>,
) -> i32 {
    checked(|| {
        let builder = given(builder, "builder")?;
        // SAFETY: the caller passes NULL or valid pointers.
        let options = unsafe { crate::options(options)? };
        // SAFETY: as above.
        let destination = unsafe { path(destination, "destination")? };
        let plan = builder.with().clone().plan()?;
        run(&plan, destination, &options, json)
    })
}

/// Changes the metadata of a GGUF file: sets the keys of the builder, and removes those that
/// wb_builder_remove was called with. The file is changed in place where that is safe, else rewritten and
/// replaced. *in_place tells which; it may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_edit(
    path: *const c_char,
    builder: Option<&WbBuilder>,
    in_place: Option<&mut MaybeUninit<i32>>,
) -> i32 {
    checked(|| {
        // SAFETY: the caller passes NULL or a valid string.
        let file = unsafe { crate::path(path, "path")? };
        let builder = given(builder, "builder")?;
        let keys = builder.with().metadata().clone();
        let removed = builder.removed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let edit = MetadataEdit::plan(&Model::open(file)?, |all| {
            for key in &removed {
                all.remove(key);
            }
            keys.iter().for_each(|(key, value)| all.set(&key.spelling(), value));
            Ok(())
        })?;
        let outcome = edit.run(&WriteOptions::new())?;
        if let Some(in_place) = in_place {
            in_place.write((outcome == EditOutcome::InPlace).into());
        }
        Ok(())
    })
}
