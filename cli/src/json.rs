//! JSON for programs: one document a report, `"schema": 1` first.
//!
//! Integers are written with all their digits, those beyond 2^53 too. Numbers that JSON has not
//! are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. A name or string that is not UTF-8 is
//! written with `\xHH` for each byte that is no character, and its bytes stand beside it in
//! hexadecimal: `name_hex`, or an object with `hex`.

use std::io::Write;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use weighbridge::Text;
use weighbridge::metadata::{Array, Metadata, Value};

/// The version of all reports.
pub(crate) const SCHEMA: u32 = 1;

/// Writes a report to standard output.
pub(crate) fn write(report: &impl Serialize) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, report).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A float that JSON may not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Float(pub(crate) f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            float if float.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            float => serializer.serialize_f64(float),
        }
    }
}

/// The bytes of a text that is not UTF-8, in hexadecimal.
pub(crate) fn hex_if_odd(text: Text<'_>) -> Option<String> {
    text.to_str().is_none().then(|| hex(text.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A metadata value.
#[derive(Debug)]
pub(crate) struct Metadatum<'a>(pub(crate) Value<'a>);

/// Arrays longer than this are given by their length and first elements.
const ARRAY_SHOWN: u64 = 16;

impl Serialize for Metadatum<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::U8(v) => serializer.serialize_u8(v),
            Value::I8(v) => serializer.serialize_i8(v),
            Value::U16(v) => serializer.serialize_u16(v),
            Value::I16(v) => serializer.serialize_i16(v),
            Value::U32(v) => serializer.serialize_u32(v),
            Value::I32(v) => serializer.serialize_i32(v),
            Value::U64(v) => serializer.serialize_u64(v),
            Value::I64(v) => serializer.serialize_i64(v),
            Value::Bool(v) => serializer.serialize_bool(v),
            Value::F32(v) if v.is_finite() => serializer.serialize_f32(v),
            Value::F32(v) => Float(v.into()).serialize(serializer),
            Value::F64(v) => Float(v).serialize(serializer),
            Value::String(text) => match text.to_str() {
                Some(text) => serializer.serialize_str(text),
                None => {
                    let mut map = serializer.serialize_map(Some(2))?;
                    map.serialize_entry("text", &text.spelling())?;
                    map.serialize_entry("hex", &hex(text.as_bytes()))?;
                    map.end()
                }
            },
            Value::Array(array) if array.len() <= ARRAY_SHOWN => {
                serializer.collect_seq(array.values().map(Metadatum))
            }
            Value::Array(array) => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("array", array.element_type().name())?;
                map.serialize_entry("length", &array.len())?;
                map.serialize_entry("first", &First(array))?;
                map.end()
            }
            _ => serializer.serialize_none(),
        }
    }
}

struct First<'a>(Array<'a>);

impl Serialize for First<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for value in self.0.values().take(8) {
            seq.serialize_element(&Metadatum(value))?;
        }
        seq.end()
    }
}

/// A list of `{key, type, value}`: keys may stand twice, and need not be UTF-8.
#[derive(Debug)]
pub(crate) struct MetadataList<'a>(pub(crate) &'a Metadata);

impl Serialize for MetadataList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(key, value)| Entry { key, value }))
    }
}

struct Entry<'a> {
    key: Text<'a>,
    value: Value<'a>,
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.key.spelling())?;
        if let Some(hex) = hex_if_odd(self.key) {
            map.serialize_entry("key_hex", &hex)?;
        }
        map.serialize_entry("type", self.value.value_type().name())?;
        map.serialize_entry("value", &Metadatum(self.value))?;
        map.end()
    }
}

/// Any iterator that can be started anew, as a JSON list that is written as it goes.
pub(crate) struct Each<F>(pub(crate) F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        let json = |value| serde_json::to_string(&Metadatum(value)).unwrap();
        assert_eq!(json(Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(json(Value::I64(i64::MIN)), "-9223372036854775808");
        assert_eq!(json(Value::F32(f32::NAN)), "\"NaN\"");
        assert_eq!(json(Value::F64(f64::NEG_INFINITY)), "\"-Infinity\"");
        assert_eq!(json(Value::F32(-0.0)), "-0.0");
        assert_eq!(json(Value::F32(1e-5)), "0.00001");
        assert_eq!(json(Value::String(Text::new(b"a\xff"))), r#"{"text":"a\\xff","hex":"61ff"}"#);
    }
}
