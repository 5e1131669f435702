//! The part of YAML that recipes use: mappings and lists, by indentation or in brackets, and scalars in one
//! line. Anchors, tags, documents after the first and texts of several lines are refused.

use crate::error::{Error, Result};
use crate::json::{Json, Map};

/// Recipes are small; a deeper one is an attack.
const DEPTH: usize = 32;

/// A line without comment, and its indentation.
#[derive(Clone, Copy)]
struct Line<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

/// Parses a document.
pub(super) fn parse(text: &str) -> Result<Json> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let content = without_comment(line).trim_end();
        let text = content.trim_start();
        if text.is_empty() || (text == "---" && lines.is_empty()) {
            continue;
        }
        let indent = content.len() - text.len();
        if content.get(..indent).is_some_and(|space| space.contains('\t')) {
            return Err(fault(number, "tabs do not indent"));
        }
        lines.push(Line { number, indent, text });
    }
    let mut parser = Parser { lines, next: 0 };
    let Some(first) = parser.peek() else { return Ok(Json::Null) };
    let value = parser.block(first.indent, 0)?;
    match parser.peek() {
        Some(line) => Err(fault(line.number, "the line is not indented as those before it")),
        None => Ok(value),
    }
}

fn fault(line: usize, what: &str) -> Error {
    Error::malformed(format!("line {line}: {what}"))
}

/// A line up to a comment.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (place, letter) in line.char_indices() {
        match quote {
            Some(end) if letter == end => quote = None,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            None if letter == '#' && before.is_whitespace() => {
                return line.get(..place).unwrap_or(line);
            }
            _ => {}
        }
        before = letter;
    }
    line
}

struct Parser<'t> {
    lines: Vec<Line<'t>>,
    next: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Line<'t>> {
        self.lines.get(self.next).copied()
    }

    /// The mapping or list whose lines have this indentation.
    fn block(&mut self, indent: usize, depth: usize) -> Result<Json> {
        let Some(line) = self.peek() else { return Ok(Json::Null) };
        if depth > DEPTH {
            return Err(fault(line.number, "the nesting is too deep"));
        }
        match line.text == "-" || line.text.starts_with("- ") {
            true => self.list(indent, depth),
            false if key(line.text).is_some() => self.mapping(indent, depth),
            false => {
                self.next += 1;
                scalar(line.text, line.number)
            }
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Result<Json> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some(rest) = line.text.strip_prefix('-') else { break };
            let text = rest.trim_start();
            let inner = indent + (line.text.len() - text.len());
            if text.is_empty() {
                self.next += 1;
                items.push(self.nested(indent, depth)?);
                continue;
            }
            // The rest of the line is the first line of a block.
            if let Some(own) = self.lines.get_mut(self.next) {
                *own = Line { number: line.number, indent: inner, text };
            }
            items.push(self.block(inner, depth + 1)?);
        }
        Ok(Json::Array(items))
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Result<Json> {
        let mut keys = Map::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some((name, rest)) = key(line.text) else {
                return Err(fault(line.number, "a key and a colon are expected"));
            };
            self.next += 1;
            let value = match rest {
                "" => self.nested(indent, depth)?,
                rest => scalar(rest, line.number)?,
            };
            if keys.insert(name, value).is_some() {
                return Err(fault(line.number, "the key occurs twice"));
            }
        }
        Ok(Json::Object(keys))
    }

    /// The block below a line: indented more, or a list with the same indentation.
    fn nested(&mut self, indent: usize, depth: usize) -> Result<Json> {
        match self.peek() {
            Some(line) if line.indent > indent => self.block(line.indent, depth + 1),
            Some(line) if line.indent == indent && line.text.starts_with("- ") => {
                self.list(indent, depth + 1)
            }
            _ => Ok(Json::Null),
        }
    }
}

/// The key of a line, and what follows the colon.
fn key(text: &str) -> Option<(String, &str)> {
    if text.starts_with(['[', '{']) {
        return None;
    }
    if text.starts_with(QUOTES) {
        let (name, rest) = quoted(text)?;
        return Some((name, rest.trim_start().strip_prefix(':')?.trim()));
    }
    let (name, rest) = match text.split_once(": ") {
        Some((name, rest)) => (name, rest.trim()),
        None => (text.strip_suffix(':')?, ""),
    };
    Some((name.trim().to_owned(), rest))
}

const QUOTES: [char; 2] = ['"', '\''];

/// The text in quotation marks at the start, and what follows them. Between double ones, the escapes are
/// those of JSON; between single ones, two of them are one.
fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|letter| QUOTES.contains(letter))?;
    let mut escaped = false;
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((place, letter)) = letters.next() {
        let doubled = quote == '\'' && letters.peek().is_some_and(|(_, next)| *next == quote);
        if escaped {
            escaped = false;
        } else if letter == quote && !doubled {
            let (whole, rest) = text.split_at_checked(place.saturating_add(1))?;
            let inner = whole.get(1..place)?;
            let parsed = || Json::parse(whole.as_bytes()).ok()?.as_str().map(str::to_owned);
            let inner = if quote == '"' { parsed()? } else { inner.replace("''", "'") };
            return Some((inner, rest));
        } else {
            escaped = (letter == '\\' && quote == '"') || (letter == quote && doubled);
        }
    }
    None
}

/// A value in one line.
fn scalar(text: &str, line: usize) -> Result<Json> {
    if text.starts_with(['&', '*', '!', '|', '>', '@', '`', '%']) {
        return Err(fault(line, "anchors, tags and texts of several lines are not supported"));
    }
    let mut flow = Flow { rest: text, line };
    let value = flow.value(0)?;
    match flow.rest.trim() {
        "" => Ok(value),
        _ => Err(fault(line, "there is more after the value")),
    }
}

/// Values in brackets.
struct Flow<'t> {
    rest: &'t str,
    line: usize,
}

impl Flow<'_> {
    fn value(&mut self, depth: usize) -> Result<Json> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            _ if depth > DEPTH => Err(fault(self.line, "the nesting is too deep")),
            Some('[') => self
                .items(']', depth)
                .map(|items| Json::Array(items.into_iter().map(|(_, value)| value).collect())),
            Some('{') => {
                let mut keys = Map::new();
                for (name, value) in self.items('}', depth)? {
                    let name =
                        name.ok_or_else(|| fault(self.line, "a key and a colon are expected"))?;
                    keys.insert(name, value);
                }
                Ok(Json::Object(keys))
            }
            Some('"' | '\'') => {
                let (text, rest) = quoted(self.rest).ok_or_else(|| {
                    fault(
                        self.line,
                        "the quotation mark has no end, or an escape is not one of JSON",
                    )
                })?;
                self.rest = rest;
                Ok(Json::String(text))
            }
            _ => {
                // A text outside of brackets ends with the line.
                let ends: &[char] = if depth == 0 { &[] } else { &[',', ']', '}'] };
                let end = self.rest.find(ends).filter(|_| depth > 0).unwrap_or(self.rest.len());
                let (text, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
                self.rest = rest;
                Ok(plain(text.trim()))
            }
        }
    }

    /// The key before a colon.
    fn name(&mut self) -> Option<String> {
        let (name, rest) = match quoted(self.rest) {
            Some((name, rest)) => (name, rest.trim_start().strip_prefix(':')?),
            None => self.rest.split_once(':').map(|(name, rest)| (name.trim().to_owned(), rest))?,
        };
        self.rest = rest;
        Some(name)
    }

    /// The items up to a bracket, with their keys if they have some.
    fn items(&mut self, end: char, depth: usize) -> Result<Vec<(Option<String>, Json)>> {
        self.rest = self.rest.get(1..).unwrap_or_default();
        let mut items = Vec::new();
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(end) {
                self.rest = rest;
                return Ok(items);
            }
            let name = match end {
                '}' => self.name(),
                _ => None,
            };
            items.push((name, self.value(depth + 1)?));
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest,
                None if self.rest.starts_with(end) => {}
                None => return Err(fault(self.line, "the bracket has no end in its line")),
            }
        }
    }
}

/// A scalar without quotation marks.
fn plain(text: &str) -> Json {
    match text {
        "" | "~" | "null" => Json::Null,
        "true" | "True" => Json::Bool(true),
        "false" | "False" => Json::Bool(false),
        _ => {
            let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
            let number = text.parse::<f64>().ok().filter(|number| is_number && number.is_finite());
            let whole = Json::parse(text.as_bytes()).ok().filter(|_| is_number);
            let parsed =
                || number.and_then(|number| Json::parse(number.to_string().as_bytes()).ok());
            whole.or_else(parsed).unwrap_or_else(|| Json::String(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes() {
        let text = "# two models\nmerge_method: ties   # by sign\nmodels:\n  - model: org/a\n    \
            parameters:\n      weight: .5\n      density: [1, 0.5]\n  - model: \"b # c\"\nslices:\n- sources:\n  \
            - {model: x, layer_range: [0, 2]}\nparameters:\n  t:\n    - filter: mlp\n      value: 1e-1\n    \
            - value: -2\n  normalize: true\n";
        let expected = br#"{"merge_method":"ties","models":[{"model":"org/a","parameters":{"weight":0.5,
            "density":[1,0.5]}},{"model":"b # c"}],"slices":[{"sources":[{"model":"x","layer_range":[0,2]}]}],
            "parameters":{"t":[{"filter":"mlp","value":0.1},{"value":-2}],"normalize":true}}"#;
        assert_eq!(parse(text).unwrap(), Json::parse(expected).unwrap());
        assert_eq!(parse("").unwrap(), Json::Null);
        let text = "\"<|a: b|>\": {\"x:\\u0041\": \"\\\"\\n\", y: 'it''s'}\n'#': [\"a]\", b]\n";
        let expected = br##"{"<|a: b|>":{"x:A":"\"\n","y":"it's"},"#":["a]","b"]}"##;
        assert_eq!(parse(text).unwrap(), Json::parse(expected).unwrap());
    }

    #[test]
    fn faults() {
        for text in [
            "a: &x 1",
            "a: |\n  b",
            "a: [1, 2",
            "a: 1\na: 2",
            "a:\n\t- b",
            "a: 1\n  b: 2",
            "- a\nb: 1",
            "a: \"b",
            "a: \"\\x\"",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
