//! The parameters of a question, as the query of a URL has them.

use std::ops::Range;

use weighbridge::Result;

use crate::fault::mismatch;

/// Names and values.
#[derive(Clone, Debug, Default)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses the query of a URL: `name=value&name=value`, with `%` before the hexadecimal digits of a
    /// byte. Bytes that are not UTF-8 become U+FFFD.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Self(pairs.map(pair).collect())
    }

    /// The value of a parameter.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn parsed<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = |_| mismatch(format!("parameter {name} is \"{text}\", which is no number"));
        text.parse().map(Some).map_err(wrong)
    }

    /// A number that must be given.
    pub(crate) fn index(&self, name: &str) -> Result<usize> {
        let missing = || mismatch(format!("parameter {name} is missing"));
        self.parsed(name)?.ok_or_else(missing)
    }

    /// A number that may be given.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.parsed(name)
    }

    /// A range, written `first-end`.
    pub(crate) fn range(&self, name: &str) -> Result<Option<Range<u64>>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let ends = text.split_once('-');
        let range = ends.and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
        let wrong = || mismatch(format!("parameter {name} is \"{text}\", which is no range"));
        range.map(Some).ok_or_else(wrong)
    }
}

/// Replaces `%` and two hexadecimal digits by the byte that they stand for, and `+` by a space.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, later)) = rest.split_first() {
        let digit = |at: usize| char::from(*later.get(at)?).to_digit(16);
        let escaped = digit(0).zip(digit(1)).filter(|_| first == b'%');
        match escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = later.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(if first == b'+' { b' ' } else { first });
                rest = later;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_apart() {
        let found = Parameters::parse("a=1&name=a%2eb%20c+d&odd=%zz%&rows=3-9&empty=&flag&x=%ff");
        let texts = ["a", "name", "odd", "empty", "flag", "x", "none"].map(|name| found.text(name));
        let expected =
            [Some("1"), Some("a.b c d"), Some("%zz%"), Some(""), Some(""), Some("\u{fffd}"), None];
        assert_eq!(texts, expected);
        assert_eq!(found.index("a").unwrap(), 1);
        assert_eq!(found.range("rows").unwrap(), Some(3..9));
        assert_eq!(found.number::<f64>("none").unwrap(), None);
        for (error, message) in [
            (found.index("none").unwrap_err(), "parameter none is missing"),
            (found.index("name").unwrap_err(), "parameter name is \"a.b c d\", which is no number"),
            (found.range("a").unwrap_err(), "parameter a is \"1\", which is no range"),
        ] {
            assert_eq!(error.to_string(), message);
        }
    }
}
