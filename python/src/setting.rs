//! Metadata values that Python sets.

use pyo3::prelude::*;
use weighbridge::bytes::Text;
use weighbridge::metadata::{KeyValues, Scalar, Value};

use crate::fault::usage;

/// A metadata value of one of GGUF's types.
pub(crate) struct Setting(Box<dyn Fn(&str, &mut KeyValues) + Send + Sync>);

impl Setting {
    /// The value of a type: `u32`, `string`, `array[f32]`.
    pub(crate) fn of(kind: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(element) = kind.strip_prefix("array[").and_then(|rest| rest.strip_suffix(']')) {
            return Self::array(element, value);
        }
        macro_rules! scalar {
            ($type:ty, $variant:ident) => {{
                let value: $type = value.extract()?;
                Self(Box::new(move |key, keys| keys.set(key, Value::$variant(value))))
            }};
        }
        Ok(match kind {
            "bool" => scalar!(bool, Bool),
            "u8" => scalar!(u8, U8),
            "i8" => scalar!(i8, I8),
            "u16" => scalar!(u16, U16),
            "i16" => scalar!(i16, I16),
            "u32" => scalar!(u32, U32),
            "i32" => scalar!(i32, I32),
            "u64" => scalar!(u64, U64),
            "i64" => scalar!(i64, I64),
            "f32" => scalar!(f32, F32),
            "f64" => scalar!(f64, F64),
            "string" => {
                let text = text(value)?;
                Self(Box::new(move |key, keys| keys.set(key, Value::String(Text::new(&text)))))
            }
            other => return Err(unknown(other)),
        })
    }

    fn array(element: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        fn of<'py, T>(value: &Bound<'py, PyAny>) -> PyResult<Setting>
        where
            T: Scalar
                + Clone
                + Send
                + Sync
                + for<'a> FromPyObject<'a, 'py, Error = PyErr>
                + 'static,
        {
            let values: Vec<T> = value.extract()?;
            Ok(Setting(Box::new(move |key, keys| keys.set_array(key, values.iter().cloned()))))
        }
        match element {
            "bool" => of::<bool>(value),
            "u8" => of::<u8>(value),
            "i8" => of::<i8>(value),
            "u16" => of::<u16>(value),
            "i16" => of::<i16>(value),
            "u32" => of::<u32>(value),
            "i32" => of::<i32>(value),
            "u64" => of::<u64>(value),
            "i64" => of::<i64>(value),
            "f32" => of::<f32>(value),
            "f64" => of::<f64>(value),
            "string" => {
                let texts = value.try_iter()?.map(|one| text(&one?));
                let texts = texts.collect::<PyResult<Vec<Vec<u8>>>>()?;
                Ok(Self(Box::new(move |key, keys| {
                    keys.set_array(key, texts.iter());
                })))
            }
            other => Err(unknown(other)),
        }
    }

    /// Sets the value under a key.
    pub(crate) fn put(&self, key: &str, keys: &mut KeyValues) {
        (self.0)(key, keys);
    }
}

/// Checks that a value fits a type.
#[pyfunction]
pub(crate) fn check_setting(kind: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    Setting::of(kind, value).map(|_| ())
}

/// The bytes of a text, or bytes.
fn text(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match value.extract::<String>() {
        Ok(text) => Ok(text.into_bytes()),
        Err(_) => value.extract(),
    }
}

fn unknown(kind: &str) -> PyErr {
    let known =
        "bool, u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, string, or array[...] of one";
    usage(format!("the type of the value is \"{kind}\", not {known}"))
}
