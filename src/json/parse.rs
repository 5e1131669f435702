//! Parses JSON text.

use super::scanner::marked;
use super::{Json, Map, Scanner};
use crate::error::{Error, Result};

/// The deepest nesting that is parsed, as in the JSON library of the reference crate.
const DEPTH: u32 = 127;

/// Whether `NaN`, `Infinity` and `-Infinity` are values: Python's `json` writes them for numbers that JSON cannot
/// hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Words {
    Json,
    /// They are parsed to `{"__float__": "NaN"}`.
    Python,
}

impl Map<String, Json> {
    /// Parses an object.
    ///
    /// # Errors
    ///
    /// `Malformed` if the text is not JSON, or its value is not an object.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::of(Json::parse(text)?)
    }

    /// Parses an object of a document that Python may have written.
    pub(crate) fn parse_python(text: &[u8]) -> Result<Self> {
        Self::of(parse(text, Words::Python)?)
    }

    fn of(json: Json) -> Result<Self> {
        match json {
            Json::Object(map) => Ok(map),
            other => Err(other.no_object()),
        }
    }
}

impl Json {
    /// Parses JSON text. If a key of an object occurs twice, the last value counts.
    ///
    /// # Errors
    ///
    /// `Malformed` if the text is not JSON, nests deeper than 127 levels or has a number beyond the range of `f64`.
    /// The message has the line, and the column in bytes.
    pub fn parse(text: &[u8]) -> Result<Self> {
        parse(text, Words::Json)
    }

    /// The error of a value that should be an object.
    pub(crate) fn no_object(&self) -> Error {
        let kind = match self {
            Self::Null => "null",
            Self::Bool(_) | Self::Number(_) => "a number or a boolean",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        };
        Error::malformed(format!("{kind}, but a JSON object is required"))
    }
}

pub(crate) fn parse(text: &[u8], words: Words) -> Result<Json> {
    let mut parser = Parser { scanner: Scanner::new(text, 0), depth: 0, words };
    let parsed = parser.value().and_then(|json| match parser.scanner.at_end() {
        true => Ok(json),
        false => Err(parser.scanner.unexpected("the end")),
    });
    parsed.map_err(|error| {
        if let Some(error) = marked(text) {
            return error;
        }
        let offset = error.offset().and_then(|offset| usize::try_from(offset).ok());
        let before = offset.and_then(|offset| text.get(..offset)).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Error::malformed(format!("{} at line {line} column {column}", error.fault()))
    })
}

struct Parser<'t> {
    scanner: Scanner<'t>,
    depth: u32,
    words: Words,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Json> {
        let python = self.words == Words::Python;
        match self.scanner.peek() {
            Some(b'"') => self.string().map(Json::String),
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b't') if self.scanner.eat_text(b"true") => Ok(Json::Bool(true)),
            Some(b'f') if self.scanner.eat_text(b"false") => Ok(Json::Bool(false)),
            Some(b'n') if self.scanner.eat_text(b"null") => Ok(Json::Null),
            Some(b'N') if python && self.scanner.eat_text(b"NaN") => Ok(float("NaN")),
            Some(b'I') if python && self.scanner.eat_text(b"Infinity") => Ok(float("Infinity")),
            Some(b'-') if python && self.scanner.eat_text(b"-Infinity") => Ok(float("-Infinity")),
            Some(b'-' | b'0'..=b'9') => self.scanner.number().map(Json::Number),
            _ => Err(self.scanner.unexpected("a value")),
        }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Result<Json>) -> Result<Json> {
        if self.depth == DEPTH {
            let fault = format!("not valid JSON: nested deeper than {DEPTH} levels");
            return Err(self.scanner.error(fault));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn object(&mut self) -> Result<Json> {
        let mut map = Map::new();
        self.scanner.expect(b'{')?;
        if self.scanner.eat(b'}') {
            return Ok(Json::Object(map));
        }
        loop {
            let key = self.string()?;
            self.scanner.expect(b':')?;
            map.insert(key, self.value()?);
            if !self.scanner.eat(b',') {
                self.scanner.expect(b'}')?;
                return Ok(Json::Object(map));
            }
        }
    }

    fn array(&mut self) -> Result<Json> {
        let mut list = Vec::new();
        self.scanner.expect(b'[')?;
        if self.scanner.eat(b']') {
            return Ok(Json::Array(list));
        }
        loop {
            list.push(self.value()?);
            if !self.scanner.eat(b',') {
                self.scanner.expect(b']')?;
                return Ok(Json::Array(list));
            }
        }
    }

    fn string(&mut self) -> Result<String> {
        let span = self.scanner.string()?;
        let text = self.scanner.unescape(&span)?.into_owned();
        String::from_utf8(text)
            .map_err(|_| self.scanner.error("not valid JSON: this string is not UTF-8"))
    }
}

/// A number that JSON cannot hold.
fn float(word: &str) -> Json {
    Json::Object(Map::from([("__float__", Json::from(word))]))
}
