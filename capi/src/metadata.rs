//! Metadata: the keys and values of a model's files.

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

use weighbridge_rs::metadata::Value;
use weighbridge_rs::{Error, ErrorKind, Result};

use crate::fault::{checked, gives};
use crate::model::WbModel;
use crate::{WbStr, beyond, given, null, text, usage};

/// The type of a metadata value, by its GGUF code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
#[expect(non_camel_case_types, reason = "C's names")]
pub enum WbValueType {
    /// An unsigned integer of 8 bits.
    WB_VALUE_U8 = 0,
    /// A signed integer of 8 bits.
    WB_VALUE_I8 = 1,
    /// An unsigned integer of 16 bits.
    WB_VALUE_U16 = 2,
    /// A signed integer of 16 bits.
    WB_VALUE_I16 = 3,
    /// An unsigned integer of 32 bits.
    WB_VALUE_U32 = 4,
    /// A signed integer of 32 bits.
    WB_VALUE_I32 = 5,
    /// A float of 32 bits.
    WB_VALUE_F32 = 6,
    /// A boolean.
    WB_VALUE_BOOL = 7,
    /// A string.
    WB_VALUE_STRING = 8,
    /// An array.
    WB_VALUE_ARRAY = 9,
    /// An unsigned integer of 64 bits.
    WB_VALUE_U64 = 10,
    /// A signed integer of 64 bits.
    WB_VALUE_I64 = 11,
    /// A float of 64 bits.
    WB_VALUE_F64 = 12,
}

/// A key of the metadata and its value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WbValue {
    /// The key.
    pub key: WbStr,
    /// The type: one of wb_value_type.
    pub value_type: u32,
    /// The type of an array's elements; otherwise that of the value.
    pub element_type: u32,
    /// The number of elements of an array; otherwise 1.
    pub count: u64,
    /// A number or boolean that fits it; otherwise 0.
    pub integer: i64,
    /// A number or boolean as its type lays it out, in the low bytes: an integer of 64 bits without a sign, a
    /// negative integer in two's complement, the bits of a float; otherwise 0.
    pub bits: u64,
    /// A number; otherwise NaN.
    pub number: f64,
    /// A string; otherwise empty.
    pub string: WbStr,
    /// The elements of an array of numbers or booleans in the file's header: `bytes` bytes, little-endian,
    /// perhaps unaligned, valid as long as the model. NULL for other values, and for a file of the other byte
    /// order.
    pub data: *const c_void,
    /// The length of `data`.
    pub bytes: usize,
}

/// A number or boolean in the low bytes.
fn bits(value: &Value<'_>) -> u64 {
    match *value {
        Value::F32(number) => number.to_bits().into(),
        Value::F64(number) => number.to_bits(),
        ref other => {
            let signed = other.to_i128().and_then(|number| i64::try_from(number).ok());
            let unsigned = other.to_u64().or(other.to_bool().map(u64::from));
            unsigned.or(signed.map(i64::cast_unsigned)).unwrap_or(0)
        }
    }
}

impl WbValue {
    fn new(key: &[u8], value: &Value<'_>) -> Self {
        let array = value.to_array();
        let own = value.value_type().code();
        let elements = array.and_then(|array| array.bytes());
        let boolean = value.to_bool().map(i64::from);
        let integer = value.to_i128().and_then(|number| i64::try_from(number).ok()).or(boolean);
        Self {
            key: WbStr::new(key),
            value_type: own,
            element_type: array.map_or(own, |array| array.element_type().code()),
            count: array.map_or(1, |array| array.len()),
            integer: integer.unwrap_or(0),
            bits: bits(value),
            number: value.to_f64().unwrap_or(f64::NAN),
            string: WbStr::new(value.to_text().map_or(&b""[..], |text| text.as_bytes())),
            data: elements.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()),
            bytes: elements.map_or(0, <[u8]>::len),
        }
    }
}

/// The number of metadata keys. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn wb_metadata_count(model: Option<&WbModel>) -> usize {
    model.map_or(0, |model| model.model.metadata().len())
}

/// The key and value at a position in file order, 0 first. Strings are valid as long as the model.
#[unsafe(no_mangle)]
pub extern "C" fn wb_metadata_at(
    model: Option<&WbModel>,
    position: usize,
    out: Option<&mut MaybeUninit<WbValue>>,
) -> i32 {
    gives(out, || {
        let metadata = given(model, "model")?.model.metadata();
        let found = metadata.iter().nth(position);
        let (key, value) = found.ok_or_else(|| beyond("keys", position, metadata.len()))?;
        Ok(WbValue::new(key.as_bytes(), &value))
    })
}

fn find<'m>(model: &'m WbModel, key: &str) -> Result<Value<'m>> {
    model.model.metadata().get(key).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "the key does not exist")
            .in_key(key)
            .in_file(model.model.path())
    })
}

/// The value under a key. WB_NOT_FOUND if the key does not exist. `key` in the result is empty. Strings are
/// valid as long as the model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_find(
    model: Option<&WbModel>,
    key: *const c_char,
    out: Option<&mut MaybeUninit<WbValue>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or a valid string.
        let key = unsafe { text(key, "key")? };
        Ok(WbValue::new(b"", &find(model, key)?))
    })
}

/// The position of a key, for wb_metadata_at. WB_NOT_FOUND if the key does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_position(
    model: Option<&WbModel>,
    key: *const c_char,
    out: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    gives(out, || {
        let model = given(model, "model")?;
        // SAFETY: the caller passes NULL or a valid string.
        let key = unsafe { text(key, "key")? };
        find(model, key)?;
        let mut keys = model.model.metadata().iter();
        let position = keys.position(|(found, _)| found.as_bytes() == key.as_bytes());
        Ok(position.unwrap_or(0))
    })
}

/// Fills `out` with the elements of an array.
///
/// # Safety
///
/// `out` is null or points to `count` elements.
unsafe fn fill<T>(
    model: Option<&WbModel>,
    key: *const c_char,
    out: *mut T,
    count: usize,
    of: impl Fn(&Value<'_>) -> Option<T>,
    what: &str,
) -> Result<()> {
    let model = given(model, "model")?;
    // SAFETY: the caller passes NULL or a valid string.
    let key = unsafe { text(key, "key")? };
    let here = |fault: String| usage(fault).in_key(key).in_file(model.model.path());
    let array = find(model, key)?.to_array();
    let array = array.ok_or_else(|| here("the value is not an array".to_owned()))?;
    if array.len() != count as u64 {
        return Err(here(format!("the array has {} elements, not {count}", array.len())));
    }
    if out.is_null() && count > 0 {
        return Err(null("out"));
    }
    for (position, value) in array.values().take(count).enumerate() {
        let found = of(&value);
        let found = found.ok_or_else(|| here(format!("element {position} is not {what}")))?;
        // SAFETY: `out` has `count` elements, as the caller promises.
        unsafe { out.add(position).write(found) };
    }
    Ok(())
}

/// Fills `out` with the strings of an array, such as "tokenizer.ggml.tokens". `count` must be the
/// number of its elements. The strings are valid as long as the model; nothing is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_strings(
    model: Option<&WbModel>,
    key: *const c_char,
    out: *mut WbStr,
    count: usize,
) -> i32 {
    let of = |value: &Value<'_>| value.to_text().map(|text| WbStr::new(text.as_bytes()));
    // SAFETY: as the caller promises.
    checked(|| unsafe { fill(model, key, out, count, of, "a string") })
}

/// Fills `out` with the numbers of an array, such as "tokenizer.ggml.scores". `count` must be the
/// number of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_numbers(
    model: Option<&WbModel>,
    key: *const c_char,
    out: *mut f64,
    count: usize,
) -> i32 {
    let of = |value: &Value<'_>| value.to_f64();
    // SAFETY: as the caller promises.
    checked(|| unsafe { fill(model, key, out, count, of, "a number") })
}

/// Fills `out` with the floats of an array, such as "tokenizer.ggml.scores", rounded to 32 bits. `count`
/// must be the number of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_floats(
    model: Option<&WbModel>,
    key: *const c_char,
    out: *mut f32,
    count: usize,
) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "the caller asks for 32 bits")]
    let of = |value: &Value<'_>| value.to_f64().map(|number| number as f32);
    // SAFETY: as the caller promises.
    checked(|| unsafe { fill(model, key, out, count, of, "a number") })
}

/// Fills `out` with the integers or booleans of an array, such as "tokenizer.ggml.token_type".
/// `count` must be the number of its elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wb_metadata_integers(
    model: Option<&WbModel>,
    key: *const c_char,
    out: *mut i64,
    count: usize,
) -> i32 {
    let of = |value: &Value<'_>| {
        let integer = value.to_i128().and_then(|number| i64::try_from(number).ok());
        integer.or(value.to_bool().map(i64::from))
    };
    // SAFETY: as the caller promises.
    checked(|| unsafe { fill(model, key, out, count, of, "an integer of 64 bits") })
}
