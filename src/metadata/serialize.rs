//! Metadata as JSON and the like.
//!
//! Integers keep all their digits, those beyond 2^53 too. Floats that JSON cannot hold are the strings
//! `"NaN"`, `"Infinity"` and `"-Infinity"`. A string that is not UTF-8 is an object of its
//! [spelling](crate::bytes::Text::spelling) and its bytes in hexadecimal. An array of more than 16 elements is
//! an object of its type, its length and its first 8 elements.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Metadata, Value};
use crate::bytes::Text;
use crate::digest::hex;

/// Arrays longer than this are given by their length and first elements.
const ARRAY_SHOWN: u64 = 16;

/// Elements that are given of a longer array.
const FIRST: usize = 8;

/// A float; one that JSON cannot hold is a string.
pub(crate) fn float<S: Serializer>(float: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *float {
        float if float.is_nan() => serializer.serialize_str("NaN"),
        f64::INFINITY => serializer.serialize_str("Infinity"),
        f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
        float => serializer.serialize_f64(float),
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::U8(v) => serializer.serialize_u8(*v),
            Self::I8(v) => serializer.serialize_i8(*v),
            Self::U16(v) => serializer.serialize_u16(*v),
            Self::I16(v) => serializer.serialize_i16(*v),
            Self::U32(v) => serializer.serialize_u32(*v),
            Self::I32(v) => serializer.serialize_i32(*v),
            Self::U64(v) => serializer.serialize_u64(*v),
            Self::I64(v) => serializer.serialize_i64(*v),
            Self::Bool(v) => serializer.serialize_bool(*v),
            Self::F32(v) if v.is_finite() => serializer.serialize_f32(*v),
            Self::F32(v) => float(&f64::from(*v), serializer),
            Self::F64(v) => float(v, serializer),
            Self::String(text) => match text.to_str() {
                Some(text) => serializer.serialize_str(text),
                None => {
                    let mut map = serializer.serialize_map(Some(2))?;
                    map.serialize_entry("text", &text.spelling())?;
                    map.serialize_entry("hex", &hex(text.as_bytes()))?;
                    map.end()
                }
            },
            Self::Array(array) if array.len() <= ARRAY_SHOWN => {
                serializer.collect_seq(array.values())
            }
            Self::Array(array) => {
                let first: Vec<Self> = array.values().take(FIRST).collect();
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("array", array.element_type().name())?;
                map.serialize_entry("length", &array.len())?;
                map.serialize_entry("first", &first)?;
                map.end()
            }
        }
    }
}

/// A list of `{key, type, value}`: a key may occur twice, and need not be UTF-8.
impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(key, value)| KeyEntry { key, value }))
    }
}

struct KeyEntry<'a> {
    key: Text<'a>,
    value: Value<'a>,
}

impl Serialize for KeyEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("key", &self.key.spelling())?;
        if self.key.to_str().is_none() {
            map.serialize_entry("key_hex", &hex(self.key.as_bytes()))?;
        }
        map.serialize_entry("type", self.value.value_type().name())?;
        map.serialize_entry("value", &self.value)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of two arrays: of 16 and of 17 numbers, the second with a key that is not UTF-8.
    #[test]
    fn long_arrays_are_shortened_and_odd_keys_spelled() {
        let mut file = b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0".to_vec();
        for (key, len) in [(b"ab", 16u64), (b"a\xff", 17)] {
            file.extend(2u64.to_le_bytes());
            file.extend(key);
            // An array of bytes.
            file.extend([9, 0, 0, 0, 0, 0, 0, 0]);
            file.extend(len.to_le_bytes());
            file.extend(1..=u8::try_from(len).unwrap());
        }
        let options = crate::OpenOptions::new().strictness(crate::container::Strictness::Lenient);
        let model = options.open_memory("file", file).unwrap();
        let json = serde_json::to_value(model.metadata()).unwrap();
        let sixteen: Vec<u8> = (1..=16).collect();
        assert_eq!((&json[0]["key"], &json[0]["value"]), (&"ab".into(), &sixteen.into()));
        assert_eq!(json[0].get("key_hex"), None);
        let shortened =
            serde_json::json!({"array": "u8", "length": 17, "first": [1, 2, 3, 4, 5, 6, 7, 8]});
        assert_eq!((&json[1]["key_hex"], &json[1]["value"]), (&"61ff".into(), &shortened));
    }

    #[test]
    fn numbers_survive() {
        let json = |value: Value<'_>| serde_json::to_string(&value).unwrap();
        assert_eq!(json(Value::U64(u64::MAX)), "18446744073709551615");
        assert_eq!(json(Value::I64(i64::MIN)), "-9223372036854775808");
        assert_eq!(json(Value::F32(f32::NAN)), "\"NaN\"");
        assert_eq!(json(Value::F64(f64::NEG_INFINITY)), "\"-Infinity\"");
        assert_eq!(json(Value::F32(-0.0)), "-0.0");
        assert_eq!(json(Value::F32(1e-5)), "0.00001");
        assert_eq!(json(Value::String(Text::new(b"a\xff"))), r#"{"text":"a\\xff","hex":"61ff"}"#);
    }
}
