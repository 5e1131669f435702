//! JSON: values of documents that keep the order of their keys, a parser, a printer, and a scanner that builds
//! nothing.
//!
//! ```
//! use weighbridge::json::{Json, json};
//!
//! # fn main() -> weighbridge::Result<()> {
//! let config = Json::parse(br#"{"model_type": "llama", "rope_theta": 1e4, "tied": null}"#)?;
//! assert_eq!(config["rope_theta"].as_f64(), Some(10_000.0));
//! assert_eq!(json!({"layers": [0, config["tied"]]}).to_string(), r#"{"layers":[0,null]}"#);
//! # Ok(())
//! # }
//! ```
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod map;
mod parse;
mod print;
mod scanner;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

#[doc(no_inline)]
pub use crate::json_value as json;
pub use map::{Entry, Iter, IterMut, Map};
pub(crate) use parse::{Words, parse};
pub(crate) use scanner::{JsonSpan, Scanner, plain_ascii};

/// A JSON value. Prints as compact text, or with `{:#}` as indented text.
#[derive(Clone, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(String),
    /// A list.
    Array(Vec<Self>),
    /// An object.
    Object(Map<String, Self>),
}

/// The value of a key that an object does not have.
static NULL: Json = Json::Null;

/// A number: an integer of 64 bits with all its digits, or a finite float.
///
/// An integer and a float are different numbers, even if they have the same value.
#[derive(Clone, Copy, PartialEq)]
pub struct Number(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Positive(u64),
    /// Below 0.
    Negative(i64),
    Float(f64),
}

impl Number {
    /// The number, if it is a non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        match self.0 {
            Kind::Positive(number) => Some(number),
            _ => None,
        }
    }

    /// The number, if it is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Kind::Positive(number) => number.try_into().ok(),
            Kind::Negative(number) => Some(number),
            Kind::Float(_) => None,
        }
    }

    /// The number as a float, rounded to nearest.
    #[expect(clippy::cast_precision_loss, reason = "rounding is documented")]
    pub fn as_f64(&self) -> f64 {
        match self.0 {
            Kind::Positive(number) => number as f64,
            Kind::Negative(number) => number as f64,
            Kind::Float(number) => number,
        }
    }

    /// Whether the number is written with a point or an exponent.
    pub fn is_float(&self) -> bool {
        matches!(self.0, Kind::Float(_))
    }
}

impl Json {
    /// The value of a key, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    /// The value of a key, if this is an object that has it, for changing it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(key)
    }

    /// The value at a path of keys and positions: `/layers/0/name`. RFC 6901 without its escapes.
    pub fn pointer(&self, path: &str) -> Option<&Self> {
        path.split('/').skip(1).try_fold(self, |json, step| match json {
            Self::Array(list) => list.get(step.parse::<usize>().ok()?),
            _ => json.get(step),
        })
    }

    /// The flag, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The number, if this is a non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number, if this is an integer that fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The number as a float, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::as_f64)
    }

    /// The number, if this is one.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if this is a list.
    pub fn as_array(&self) -> Option<&Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The elements, if this is a list, for changing them.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Self>> {
        match self {
            Self::Array(list) => Some(list),
            _ => None,
        }
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&Map<String, Self>> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The members, if this is an object, for changing them.
    pub fn as_object_mut(&mut self) -> Option<&mut Map<String, Self>> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether this is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    /// Whether this is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, Self::String(_))
    }

    /// Whether this is a list.
    pub fn is_array(&self) -> bool {
        matches!(self, Self::Array(_))
    }

    /// Whether this is an object.
    pub fn is_object(&self) -> bool {
        matches!(self, Self::Object(_))
    }

    /// Takes the value, and leaves `null`.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// The value of a key; `null` if there is none.
impl Index<&str> for Map<String, Json> {
    type Output = Json;

    fn index(&self, key: &str) -> &Json {
        self.get(key).unwrap_or(&NULL)
    }
}

/// The value of a key, added as `null` if it is missing.
impl IndexMut<&str> for Map<String, Json> {
    fn index_mut(&mut self, key: &str) -> &mut Json {
        self.entry(key).or_insert(Json::Null)
    }
}

/// The value of a key; `null` if this is no object, or has no such key.
impl Index<&str> for Json {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(&NULL)
    }
}

/// The element at a position; `null` if this is no list, or too short.
impl Index<usize> for Json {
    type Output = Self;

    fn index(&self, at: usize) -> &Self {
        self.as_array().and_then(|list| list.get(at)).unwrap_or(&NULL)
    }
}

/// The value of a key, added as `null` if it is missing. What is no object becomes one.
impl IndexMut<&str> for Json {
    fn index_mut(&mut self, key: &str) -> &mut Self {
        if !self.is_object() {
            *self = Self::Object(Map::new());
        }
        match self {
            Self::Object(map) => map.entry(key).or_insert(Self::Null),
            other => other,
        }
    }
}

/// Values that have a form in JSON. [`json!`](json) calls it for each expression.
pub trait ToJson {
    /// Copies the value.
    fn to_json(&self) -> Json;
}

macro_rules! to_json {
    ($($type:ty: |$value:ident| $json:expr),* $(,)?) => {
        $(
            impl ToJson for $type {
                fn to_json(&self) -> Json {
                    let $value = *self;
                    $json
                }
            }

            impl From<$type> for Json {
                fn from(value: $type) -> Self {
                    value.to_json()
                }
            }

            impl PartialEq<$type> for Json {
                fn eq(&self, other: &$type) -> bool {
                    *self == other.to_json()
                }
            }
        )*
    };
}

fn integer(number: i64) -> Json {
    let kind = u64::try_from(number).map_or(Kind::Negative(number), Kind::Positive);
    Json::Number(Number(kind))
}

// A float that JSON cannot hold is null, as in other libraries.
to_json! {
    bool: |flag| Json::Bool(flag),
    i8: |number| integer(number.into()),
    i16: |number| integer(number.into()),
    i32: |number| integer(number.into()),
    i64: |number| integer(number),
    u8: |number| u64::from(number).to_json(),
    u16: |number| u64::from(number).to_json(),
    u32: |number| u64::from(number).to_json(),
    u64: |number| Json::Number(Number(Kind::Positive(number))),
    usize: |number| (number as u64).to_json(),
    f32: |number| f64::from(number).to_json(),
    f64: |number| match number.is_finite() {
        true => Json::Number(Number(Kind::Float(number))),
        false => Json::Null,
    },
    char: |letter| Json::String(letter.into()),
}

impl ToJson for Json {
    fn to_json(&self) -> Json {
        self.clone()
    }
}

impl ToJson for str {
    fn to_json(&self) -> Json {
        Json::String(self.to_owned())
    }
}

impl ToJson for String {
    fn to_json(&self) -> Json {
        self.as_str().into()
    }
}

impl ToJson for Cow<'_, str> {
    fn to_json(&self) -> Json {
        (**self).into()
    }
}

impl ToJson for Map<String, Json> {
    fn to_json(&self) -> Json {
        Json::Object(self.clone())
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, ToJson::to_json)
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self) -> Json {
        Json::Array(self.iter().map(ToJson::to_json).collect())
    }
}

impl<T: ToJson, const N: usize> ToJson for [T; N] {
    fn to_json(&self) -> Json {
        self.as_slice().to_json()
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Json {
        self.as_slice().to_json()
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> Json {
        (**self).to_json()
    }
}

impl<T: ToJson> ToJson for BTreeMap<String, T> {
    fn to_json(&self) -> Json {
        Json::Object(self.iter().map(|(key, value)| (key.clone(), value.to_json())).collect())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        text.to_json()
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Cow<'_, str>> for Json {
    fn from(text: Cow<'_, str>) -> Self {
        Self::String(text.into_owned())
    }
}

impl From<Map<String, Self>> for Json {
    fn from(map: Map<String, Self>) -> Self {
        Self::Object(map)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(list: Vec<T>) -> Self {
        list.into_iter().collect()
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Self::Array(list.into_iter().map(Into::into).collect())
    }
}

impl PartialEq<str> for Json {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Json {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

/// Makes a [`Json`] from JSON text with expressions: `json!({"name": name, "sizes": [rows, 4]})`.
///
/// Expressions are borrowed, and have a type that implements [`ToJson`]. A key is a literal, or an expression in
/// parentheses.
#[macro_export]
#[doc(hidden)]
macro_rules! json_value {
    (@list [$($done:tt)*]) => { $crate::json::Json::Array(vec![$($done)*]) };
    (@list [$($done:tt)*] $value:tt $(, $($rest:tt)*)?) => {
        $crate::json_value!(@list [$($done)* $crate::json_value!($value),] $($($rest)*)?)
    };
    (@list [$($done:tt)*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::json_value!(@list [$($done)* $crate::json_value!($value),] $($($rest)*)?)
    };
    (@members $map:ident) => {};
    (@members $map:ident $key:tt: $value:tt $(, $($rest:tt)*)?) => {
        $map.insert(::std::string::String::from($key), $crate::json_value!($value));
        $crate::json_value!(@members $map $($($rest)*)?);
    };
    (@members $map:ident $key:tt: $value:expr $(, $($rest:tt)*)?) => {
        $map.insert(::std::string::String::from($key), $crate::json_value!($value));
        $crate::json_value!(@members $map $($($rest)*)?);
    };
    (null) => { $crate::json::Json::Null };
    ([$($list:tt)*]) => { $crate::json_value!(@list [] $($list)*) };
    ({}) => { $crate::json::Json::Object($crate::json::Map::new()) };
    ({$($members:tt)*}) => {{
        let mut map = $crate::json::Map::new();
        $crate::json_value!(@members map $($members)*);
        $crate::json::Json::Object(map)
    }};
    ($value:expr) => { $crate::json::ToJson::to_json(&$value) };
}

#[cfg(feature = "serde")]
mod serialize {
    use serde::ser::{Serialize, Serializer};

    use super::{Json, Kind, Map, Number};

    impl Serialize for Json {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self {
                Self::Null => serializer.serialize_unit(),
                Self::Bool(flag) => serializer.serialize_bool(*flag),
                Self::Number(number) => number.serialize(serializer),
                Self::String(text) => serializer.serialize_str(text),
                Self::Array(list) => list.serialize(serializer),
                Self::Object(map) => map.serialize(serializer),
            }
        }
    }

    impl Serialize for Number {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                Kind::Positive(number) => serializer.serialize_u64(number),
                Kind::Negative(number) => serializer.serialize_i64(number),
                Kind::Float(number) => serializer.serialize_f64(number),
            }
        }
    }

    impl Serialize for Map<String, Json> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self)
        }
    }
}
