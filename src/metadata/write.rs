//! Metadata for writing, in the encoding of GGUF version 3.

use std::sync::Arc;

use super::{Array, HeaderEncoding, Item, ItemKind, Metadata, Value, ValueType, decode};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::rounding::f32_of;

/// Metadata for writing: unique keys, in the order in which they were first set.
///
/// ```
/// use weighbridge::metadata::{KeyValues, Value};
///
/// let mut keys = KeyValues::new();
/// keys.set("llama.block_count", Value::U32(32));
/// keys.set_array("tokenizer.ggml.scores", [0.5f32, -1.0]);
/// assert_eq!(keys.get("llama.block_count"), Some(Value::U32(32)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct KeyValues {
    items: Vec<KeyValue>,
}

#[derive(Clone, Debug)]
struct KeyValue {
    key: Vec<u8>,
    value_type: ValueType,
    /// The value, without its type code.
    bytes: Vec<u8>,
}

/// The encoding that this crate writes: version 3, little-endian.
const WRITTEN: HeaderEncoding = HeaderEncoding { wide: true, swap: false };

impl KeyValues {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies all keys and values of a model's file, without texts that the container stores in
    /// separate files, such as Ollama's templates.
    pub fn of(metadata: &Metadata) -> Self {
        let item = |(key, value): (Text<'_>, Value<'_>)| {
            let mut bytes = Vec::new();
            encode(&value, &mut bytes);
            KeyValue { key: key.as_bytes().to_vec(), value_type: value.value_type(), bytes }
        };
        Self { items: metadata.stored().map(item).collect() }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sets a key to a value. An existing key keeps its position.
    pub fn set(&mut self, key: &str, value: Value<'_>) {
        let mut bytes = Vec::new();
        encode(&value, &mut bytes);
        self.put(key, value.value_type(), bytes);
    }

    /// Sets a key to a text.
    pub fn set_text(&mut self, key: &str, text: impl AsRef<[u8]>) {
        self.set(key, Value::String(Text::new(text.as_ref())));
    }

    /// Sets a key to an array. The element type determines the encoding.
    pub fn set_array<T: Scalar>(&mut self, key: &str, elements: impl IntoIterator<Item = T>) {
        let mut bytes = T::TYPE.code().to_le_bytes().to_vec();
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 8]);
        let mut count = 0u64;
        for element in elements {
            element.encode(&mut bytes);
            count = count.saturating_add(1);
        }
        if let Some(len) = bytes.get_mut(start..).and_then(|rest| rest.first_chunk_mut()) {
            *len = count.to_le_bytes();
        }
        self.put(key, ValueType::Array, bytes);
    }

    fn put(&mut self, key: &str, value_type: ValueType, bytes: Vec<u8>) {
        match self.items.iter_mut().find(|item| item.key == key.as_bytes()) {
            Some(item) => (item.value_type, item.bytes) = (value_type, bytes),
            None => self.items.push(KeyValue { key: key.into(), value_type, bytes }),
        }
    }

    /// Removes the elements of an array that `keep` does not accept, by their index.
    pub(crate) fn retain_elements(&mut self, key: &str, keep: impl Fn(u64) -> bool) {
        let Some(Value::Array(array)) = self.get(key) else { return };
        let kept = (0..).zip(array.values()).filter(|(index, _)| keep(*index));
        let (mut elements, mut count) = (Vec::new(), 0u64);
        for (_, value) in kept {
            encode(&value, &mut elements);
            count = count.saturating_add(1);
        }
        let mut bytes = array.element_type().code().to_le_bytes().to_vec();
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.append(&mut elements);
        self.put(key, ValueType::Array, bytes);
    }

    /// Gives a number, or each number of an array, another type. Floats are rounded. Returns whether the type
    /// holds them.
    pub(crate) fn set_type(&mut self, key: &str, wanted: ValueType) -> bool {
        let (bytes, value_type) = {
            let Some(value) = self.get(key) else { return false };
            let mut bytes = Vec::new();
            let all_fit = match &value {
                Value::Array(array) => {
                    bytes.extend_from_slice(&wanted.code().to_le_bytes());
                    bytes.extend_from_slice(&array.len().to_le_bytes());
                    array.values().all(|value| encode_as(&value, wanted, &mut bytes).is_some())
                }
                value => encode_as(value, wanted, &mut bytes).is_some(),
            };
            if !all_fit {
                return false;
            }
            (bytes, if let Value::Array(_) = value { ValueType::Array } else { wanted })
        };
        self.put(key, value_type, bytes);
        true
    }

    /// Removes a key and returns whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.items.len();
        self.items.retain(|item| item.key != key.as_bytes());
        self.items.len() < before
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        let item = self.items.iter().find(|item| item.key == key.as_bytes())?;
        decode(item.value_type, &item.bytes, WRITTEN)
    }

    /// Keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Text<'_>, Value<'_>)> {
        self.items.iter().filter_map(|item| {
            Some((Text::new(&item.key), decode(item.value_type, &item.bytes, WRITTEN)?))
        })
    }

    /// Appends the keys and values in the encoding of a GGUF header, where they follow the counts
    /// and precede the tensor entries.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for item in &self.items {
            put_text(&item.key, out);
            out.extend_from_slice(&item.value_type.code().to_le_bytes());
            out.extend_from_slice(&item.bytes);
        }
    }

    /// The keys and values as those of an opened model.
    ///
    /// # Errors
    ///
    /// `Unsupported` for more than 4 GiB of them.
    pub(crate) fn to_metadata(&self) -> Result<Metadata> {
        let (mut header, mut items) = (Vec::new(), Vec::new());
        let mut put = |bytes: &[u8]| {
            let start = header.len();
            header.extend_from_slice(bytes);
            let span = u32::try_from(start).ok().zip(u32::try_from(header.len()).ok());
            span.ok_or_else(|| Error::unsupported("more than 4 GiB of metadata"))
        };
        for item in &self.items {
            let (key, value) = (put(&item.key)?, put(&item.bytes)?);
            items.push(Item { key, value, kind: ItemKind::Gguf(item.value_type) });
        }
        Ok(Metadata::new(Arc::new(header), WRITTEN, items)?.0)
    }

    /// Checks for values that llama.cpp would refuse.
    pub(crate) fn check(&self) -> Result<()> {
        for item in &self.items {
            let key = || Text::new(&item.key).spelling().into_owned();
            if item.key.is_empty() {
                return Err(Error::mismatch("the metadata key is empty"));
            }
            if item.value_type == ValueType::Array
                && let Some(Value::Array(array)) = decode(ValueType::Array, &item.bytes, WRITTEN)
                && array.element_type() == ValueType::Array
            {
                return Err(Error::unsupported(
                    "an array of arrays, which llama.cpp does not support",
                )
                .in_key(key()));
            }
        }
        Ok(())
    }
}

/// A type that arrays of metadata can hold.
pub trait Scalar {
    /// The type in GGUF's encoding.
    const TYPE: ValueType;

    /// Appends the encoded value.
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! scalars {
    ($($number:ty: $kind:ident),*) => {$(
        impl Scalar for $number {
            const TYPE: ValueType = ValueType::$kind;

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

scalars!(u8: U8, i8: I8, u16: U16, i16: I16, u32: U32, i32: I32, f32: F32, u64: U64, i64: I64, f64: F64);

impl Scalar for bool {
    const TYPE: ValueType = ValueType::Bool;

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl<T: AsRef<[u8]> + ?Sized> Scalar for &T {
    const TYPE: ValueType = ValueType::String;

    fn encode(&self, out: &mut Vec<u8>) {
        put_text(self.as_ref(), out);
    }
}

/// Encodes a number in another type; `None` if that does not hold it.
fn encode_as(value: &Value<'_>, wanted: ValueType, out: &mut Vec<u8>) -> Option<()> {
    match wanted {
        ValueType::U32 => u32::try_from(value.to_u64()?).ok()?.encode(out),
        ValueType::I32 => i32::try_from(value.to_i128()?).ok()?.encode(out),
        ValueType::F32 => f32_of(value.to_f64()?).encode(out),
        ValueType::Bool if value.to_u64()? < 2 => out.push(u8::from(value.to_u64()? == 1)),
        _ => return None,
    }
    Some(())
}

pub(crate) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

fn encode(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::U8(v) => v.encode(out),
        Value::I8(v) => v.encode(out),
        Value::U16(v) => v.encode(out),
        Value::I16(v) => v.encode(out),
        Value::U32(v) => v.encode(out),
        Value::I32(v) => v.encode(out),
        Value::F32(v) => v.encode(out),
        Value::Bool(v) => v.encode(out),
        Value::String(text) => put_text(text.as_bytes(), out),
        Value::Array(array) => encode_array(array, out),
        Value::U64(v) => v.encode(out),
        Value::I64(v) => v.encode(out),
        Value::F64(v) => v.encode(out),
    }
}

fn encode_array(array: &Array<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&array.element_type().code().to_le_bytes());
    out.extend_from_slice(&array.len().to_le_bytes());
    for value in array.values() {
        encode(&value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_place_and_values_come_back() {
        let mut keys = KeyValues::new();
        keys.set("a", Value::U32(1));
        keys.set_text("b", "text");
        keys.set_array("c", ["x", "", "yz"]);
        keys.set_array("d", [true, false]);
        keys.set("a", Value::F64(0.5));
        assert!(keys.remove("b") && !keys.remove("b"));
        let found: Vec<(String, Value<'_>)> =
            keys.iter().map(|(key, value)| (key.spelling().into_owned(), value)).collect();
        assert_eq!(found[0], ("a".to_owned(), Value::F64(0.5)));
        let texts = |value: &Value<'_>| -> Vec<String> {
            let array = value.to_array().unwrap();
            array.texts().unwrap().map(|text| text.spelling().into_owned()).collect()
        };
        assert_eq!(texts(&found[1].1), ["x", "", "yz"]);
        assert_eq!(
            found[2].1.to_array().unwrap().bools().unwrap().collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(found.len(), 3);
        let opened = keys.to_metadata().unwrap();
        assert!(keys.iter().eq(opened.iter()));
    }
}
