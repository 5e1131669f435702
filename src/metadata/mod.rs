//! Metadata: typed keys and values, decoded from the header on request.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

#[cfg(feature = "serde")]
pub(crate) mod serialize;
mod write;

use std::fmt;
use std::sync::Arc;

use crate::bytes::Text;
use crate::error::Result;
use crate::index::{NameIndex, hash};

pub(crate) use write::put_text;
pub use write::{KeyValues, Scalar};

/// The type of a metadata value, numbered like GGUF's type codes.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The type with this GGUF code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The GGUF code.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name used in GGUF's documentation, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }

    /// Bytes of a value, for types of a fixed size.
    pub(crate) const fn fixed_bytes(self) -> Option<u64> {
        match self {
            Self::U8 | Self::I8 | Self::Bool => Some(1),
            Self::U16 | Self::I16 => Some(2),
            Self::U32 | Self::I32 | Self::F32 => Some(4),
            Self::U64 | Self::I64 | Self::F64 => Some(8),
            Self::String | Self::Array => None,
        }
    }
}

/// A metadata value. Strings and arrays borrow from the header.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names say it")]
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    /// Any byte other than 0 is true; writers store 0 or 1.
    Bool(bool),
    String(Text<'a>),
    Array(Array<'a>),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl<'a> Value<'a> {
    /// The value's type.
    pub const fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// The value of an integer of any width, because writers use different widths.
    pub fn to_i128(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The value of a non-negative integer of any width, if it fits in 64 bits.
    pub fn to_u64(&self) -> Option<u64> {
        u64::try_from(self.to_i128()?).ok()
    }

    /// The value of a float or an integer, as `f64`.
    pub fn to_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            _ => self.to_i128().map(|v| v as f64),
        }
    }

    /// The value of a boolean.
    pub const fn to_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(v) => Some(v),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub const fn to_text(&self) -> Option<Text<'a>> {
        match *self {
            Self::String(v) => Some(v),
            _ => None,
        }
    }

    /// The array, if it is one.
    pub const fn to_array(&self) -> Option<Array<'a>> {
        match *self {
            Self::Array(v) => Some(v),
            _ => None,
        }
    }
}

/// The encoding of numbers and lengths in a GGUF file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct HeaderEncoding {
    /// Lengths take 8 bytes; in version 1 they take 4.
    pub(crate) wide: bool,
    /// Numbers are big-endian.
    pub(crate) swap: bool,
}

/// Decodes values from bytes whose bounds were checked when the file was opened. Returns `None` at
/// the end, and for bytes that such a check would have refused.
struct ValueDecoder<'a> {
    rest: &'a [u8],
    encoding: HeaderEncoding,
}

impl<'a> ValueDecoder<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        let mut bytes = *head;
        if self.encoding.swap {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn length(&mut self) -> Option<u64> {
        if self.encoding.wide {
            self.array().map(u64::from_le_bytes)
        } else {
            self.array().map(|bytes| u32::from_le_bytes(bytes).into())
        }
    }

    fn value(&mut self, value_type: ValueType) -> Option<Value<'a>> {
        Some(match value_type {
            ValueType::U8 => Value::U8(u8::from_le_bytes(self.array()?)),
            ValueType::I8 => Value::I8(i8::from_le_bytes(self.array()?)),
            ValueType::U16 => Value::U16(u16::from_le_bytes(self.array()?)),
            ValueType::I16 => Value::I16(i16::from_le_bytes(self.array()?)),
            ValueType::U32 => Value::U32(u32::from_le_bytes(self.array()?)),
            ValueType::I32 => Value::I32(i32::from_le_bytes(self.array()?)),
            ValueType::F32 => Value::F32(f32::from_le_bytes(self.array()?)),
            ValueType::Bool => Value::Bool(u8::from_le_bytes(self.array()?) != 0),
            ValueType::U64 => Value::U64(u64::from_le_bytes(self.array()?)),
            ValueType::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            ValueType::F64 => Value::F64(f64::from_le_bytes(self.array()?)),
            ValueType::String => {
                let len = usize::try_from(self.length()?).ok()?;
                let (text, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Value::String(Text::new(text))
            }
            ValueType::Array => {
                let array = self.array_to_the_end()?;
                // A nested array: find its end by the element size if that is fixed, else element
                // by element.
                match array.element_type.fixed_bytes() {
                    Some(size) => {
                        let size = usize::try_from(array.len.checked_mul(size)?).ok()?;
                        self.rest = self.rest.get(size..)?;
                    }
                    None => {
                        for _ in 0..array.len {
                            self.value(array.element_type)?;
                        }
                    }
                }
                let used = array.bytes.len().checked_sub(self.rest.len())?;
                Value::Array(Array { bytes: array.bytes.get(..used)?, ..array })
            }
        })
    }

    /// The array that starts here. It owns all bytes that are left.
    fn array_to_the_end(&mut self) -> Option<Array<'a>> {
        let element_type = ValueType::from_code(self.array().map(u32::from_le_bytes)?)?;
        let len = self.length()?;
        Some(Array { element_type, len, bytes: self.rest, encoding: self.encoding })
    }
}

/// Decodes a value from its encoding.
pub(crate) fn decode(
    value_type: ValueType,
    bytes: &[u8],
    encoding: HeaderEncoding,
) -> Option<Value<'_>> {
    ValueDecoder { rest: bytes, encoding }.value(value_type)
}

/// An array in the header. Elements are decoded during iteration; nothing is allocated for them.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    element_type: ValueType,
    len: u64,
    bytes: &'a [u8],
    encoding: HeaderEncoding,
}

impl<'a> Array<'a> {
    /// The type of every element.
    pub const fn element_type(&self) -> ValueType {
        self.element_type
    }

    /// The number of elements.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements, in order.
    pub fn values(&self) -> impl Iterator<Item = Value<'a>> + use<'a> {
        let (element_type, mut left) = (self.element_type, self.len);
        let mut decoder = ValueDecoder { rest: self.bytes, encoding: self.encoding };
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            decoder.value(element_type)
        })
    }

    /// The bytes of the elements in the header, little-endian and perhaps unaligned. `None` for strings and
    /// arrays, and in a file of the other byte order.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        (self.element_type.fixed_bytes().is_some() && !self.encoding.swap).then_some(self.bytes)
    }

    /// The elements, if they are strings.
    pub fn texts(&self) -> Option<impl Iterator<Item = Text<'a>> + use<'a>> {
        let is = self.element_type == ValueType::String;
        is.then(|| self.values().filter_map(|value| value.to_text()))
    }

    /// The elements, if they are integers of any width.
    pub fn integers(&self) -> Option<impl Iterator<Item = i128> + use<'a>> {
        use ValueType as T;
        let is = !matches!(self.element_type, T::F32 | T::F64 | T::Bool | T::String | T::Array);
        is.then(|| self.values().filter_map(|value| value.to_i128()))
    }

    /// The elements, if they are floats of either width.
    pub fn floats(&self) -> Option<impl Iterator<Item = f64> + use<'a>> {
        let is = matches!(self.element_type, ValueType::F32 | ValueType::F64);
        is.then(|| self.values().filter_map(|value| value.to_f64()))
    }

    /// The elements, if they are booleans.
    pub fn bools(&self) -> Option<impl Iterator<Item = bool> + use<'a>> {
        let is = self.element_type == ValueType::Bool;
        is.then(|| self.values().filter_map(|value| value.to_bool()))
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}; {}]", self.element_type.name(), self.len)
    }
}

/// The location of a key and its value in a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) key: (u32, u32),
    pub(crate) value: (u32, u32),
    pub(crate) kind: ItemKind,
}

/// The encoding of an [`Item`]'s value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemKind {
    /// In GGUF's encoding.
    Gguf(ValueType),
    /// As text, without a length before it.
    Text,
    /// As this number of elements in GGUF's encoding, without the type and the number before them.
    Elements(ValueType, u32),
}

/// Keys and values of a model, in file order: GGUF's metadata, the `__metadata__` of a safetensors
/// header, or the hyperparameters and the vocabulary of a whisper.cpp file.
#[derive(Clone, Default)]
pub struct Metadata {
    header: Arc<Vec<u8>>,
    encoding: HeaderEncoding,
    items: Vec<Item>,
    index: Option<NameIndex>,
    /// Texts that are stored in separate files.
    texts: Vec<(String, Vec<u8>)>,
}

impl fmt::Debug for Metadata {
    /// The keys and values; an array is told by its type and length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// With fewer keys, a linear search is as fast as an index.
const UNINDEXED: usize = 16;

impl Metadata {
    /// Builds the index over `items`. If a key occurs twice, returns the position of its second
    /// item.
    pub(crate) fn new(
        header: Arc<Vec<u8>>,
        encoding: HeaderEncoding,
        items: Vec<Item>,
    ) -> Result<(Self, Option<usize>)> {
        let mut this = Self { header, encoding, items, index: None, texts: Vec::new() };
        let mut twice = None;
        if this.items.len() <= UNINDEXED {
            twice = (1..this.items.len())
                .find(|&n| (0..n).any(|earlier| this.key(earlier) == this.key(n)));
        } else {
            let mut index = NameIndex::with_room(this.items.len())?;
            for (n, number) in (0..this.items.len()).zip(0u32..) {
                let key = this.key(n);
                let same = |other: u32| this.key(other as usize) == key;
                let hash_of = |other: u32| hash(this.key(other as usize));
                if index.insert(hash(key), number, same, hash_of).is_some() {
                    twice.get_or_insert(n);
                }
            }
            this.index = Some(index);
        }
        Ok((this, twice))
    }

    /// Adds a text that is stored in a separate file.
    pub(crate) fn add_text(&mut self, key: String, text: Vec<u8>) {
        self.texts.push((key, text));
    }

    fn span(&self, (start, end): (u32, u32)) -> &[u8] {
        self.header.get(start as usize..end as usize).unwrap_or_default()
    }

    fn key(&self, number: usize) -> &[u8] {
        self.items.get(number).map_or(&[], |item| self.span(item.key))
    }

    /// The key of item `number`, and its offset in the file.
    pub(crate) fn place(&self, number: usize) -> Option<(Text<'_>, u64)> {
        let item = self.items.get(number)?;
        Some((Text::new(self.span(item.key)), item.key.0.into()))
    }

    fn value(&self, item: &Item) -> Option<Value<'_>> {
        let bytes = self.span(item.value);
        let mut decoder = ValueDecoder { rest: bytes, encoding: self.encoding };
        match item.kind {
            ItemKind::Gguf(ValueType::Array) => decoder.array_to_the_end().map(Value::Array),
            ItemKind::Gguf(value_type) => decoder.value(value_type),
            ItemKind::Text => Some(Value::String(Text::new(bytes))),
            ItemKind::Elements(element_type, len) => {
                let (len, encoding) = (len.into(), self.encoding);
                Some(Value::Array(Array { element_type, len, bytes, encoding }))
            }
        }
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.items.len().saturating_add(self.texts.len())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys and values of the file that holds the metadata, in file order, without texts that are
    /// stored in separate files.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (Text<'_>, Value<'_>)> {
        let items = self.items.iter();
        items.filter_map(|item| Some((Text::new(self.span(item.key)), self.value(item)?)))
    }

    /// Keys and values, in file order, then texts that are stored in separate files.
    pub fn iter(&self) -> impl Iterator<Item = (Text<'_>, Value<'_>)> {
        let items = self.stored();
        let texts = self.texts.iter();
        items.chain(
            texts.map(|(key, text)| (Text::new(key.as_bytes()), Value::String(Text::new(text)))),
        )
    }

    /// The value under `key`.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        if let Some((_, text)) = self.texts.iter().find(|(other, _)| other == key) {
            return Some(Value::String(Text::new(text)));
        }
        let key = key.as_bytes();
        let number = match &self.index {
            Some(index) => index.find(key, |n| self.key(n as usize))? as usize,
            None => (0..self.items.len()).find(|&n| self.key(n) == key)?,
        };
        self.value(self.items.get(number)?)
    }

    /// The string under `key`, if there is one and it is UTF-8.
    pub fn str(&self, key: &str) -> Option<&str> {
        self.get(key)?.to_text()?.to_str()
    }

    /// The non-negative integer under `key`, whatever its width.
    pub fn u64(&self, key: &str) -> Option<u64> {
        self.get(key)?.to_u64()
    }

    /// The number under `key`.
    pub fn f64(&self, key: &str) -> Option<f64> {
        self.get(key)?.to_f64()
    }

    /// The array under `key`.
    pub fn array(&self, key: &str) -> Option<Array<'_>> {
        self.get(key)?.to_array()
    }
}
