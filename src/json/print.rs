//! Prints JSON text.

use std::fmt::{self, Debug, Display, Formatter, Write};

use super::{Json, Kind, Map, Number};

/// Compact, or indented by two spaces with `{:#}`.
impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { text: String::new(), depth: f.alternate().then_some(0) };
        printer.value(self);
        f.write_str(&printer.text)
    }
}

/// Compact, or indented by two spaces with `{:#}`.
impl Display for Map<String, Json> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { text: String::new(), depth: f.alternate().then_some(0) };
        printer.members(self);
        f.write_str(&printer.text)
    }
}

/// The shortest text that parses to the same number.
impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Positive(number) => write!(f, "{number}"),
            Kind::Negative(number) => write!(f, "{number}"),
            Kind::Float(number) => float(number, f),
        }
    }
}

impl Debug for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Number({self})")
    }
}

impl Debug for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bool(flag) => write!(f, "Bool({flag})"),
            Self::Number(number) => Debug::fmt(number, f),
            Self::String(text) => write!(f, "String({text:?})"),
            Self::Array(list) => {
                f.write_str("Array ")?;
                Debug::fmt(list, f)
            }
            Self::Object(map) => {
                f.write_str("Object ")?;
                Debug::fmt(map, f)
            }
        }
    }
}

struct Printer {
    text: String,
    /// The number of levels by which a line is indented, if there are lines.
    depth: Option<usize>,
}

impl Printer {
    fn value(&mut self, json: &Json) {
        match json {
            Json::Null => self.text.push_str("null"),
            Json::Bool(flag) => self.text.push_str(if *flag { "true" } else { "false" }),
            // A `String` takes all that is written.
            Json::Number(number) => drop(write!(self.text, "{number}")),
            Json::String(text) => self.string(text),
            Json::Object(map) => self.members(map),
            Json::Array(list) => self.items(['[', ']'], list, Self::value),
        }
    }

    fn members(&mut self, map: &Map<String, Json>) {
        self.items(['{', '}'], map, |this, (key, value)| {
            this.string(key);
            this.text.push_str(if this.depth.is_some() { ": " } else { ":" });
            this.value(value);
        });
    }

    /// Prints items between brackets.
    fn items<T>(
        &mut self,
        [open, close]: [char; 2],
        items: impl IntoIterator<Item = T>,
        print: impl Fn(&mut Self, T),
    ) {
        self.text.push(open);
        let outer = self.depth;
        self.depth = outer.map(|depth| depth + 1);
        let mut is_empty = true;
        for item in items {
            if !std::mem::take(&mut is_empty) {
                self.text.push(',');
            }
            self.line();
            print(self, item);
        }
        self.depth = outer;
        if !is_empty {
            self.line();
        }
        self.text.push(close);
    }

    /// Starts a line, if there are lines.
    fn line(&mut self) {
        if let Some(depth) = self.depth {
            self.text.push('\n');
            (0..depth).for_each(|_| self.text.push_str("  "));
        }
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        let mut rest = text;
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        while let Some((plain, special)) =
            rest.bytes().position(is_escaped).and_then(|at| rest.split_at_checked(at))
        {
            self.text.push_str(plain);
            let mut characters = special.chars();
            match characters.next().unwrap_or_default() {
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                character @ ('"' | '\\') => self.text.extend(['\\', character]),
                control => drop(write!(self.text, "\\u{:04x}", u32::from(control))),
            }
            rest = characters.as_str();
        }
        self.text.push_str(rest);
        self.text.push('"');
    }
}

/// Very large and very small numbers have an exponent. All have the fewest digits that parse to the same float; of two
/// such texts that are equally close, the one whose last digit is even, as in other libraries.
fn float(number: f64, f: &mut Formatter<'_>) -> fmt::Result {
    let decimals = |shortest: &str| {
        let digits = shortest.split('e').next().and_then(|digits| digits.split_once('.'));
        digits.map_or(0, |(_, decimals)| decimals.len())
    };
    match number.abs() {
        0.0 | 1e-5..1e16 if number.fract() == 0.0 => write!(f, "{number}.0"),
        0.0 | 1e-5..1e16 => write!(f, "{number:.*}", decimals(&number.to_string())),
        _ => {
            let text = format!("{number:.*e}", decimals(&format!("{number:e}")));
            f.write_str(&if number.abs() < 1.0 { text } else { text.replace('e', "e+") })
        }
    }
}
