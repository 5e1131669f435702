//! A scanner for JSON text that builds nothing: safetensors headers and tokenizers reach tens of
//! megabytes.

use std::borrow::Cow;
use std::ops::Range;

use super::{Kind, Number};
use crate::error::{Error, Result};

/// The deepest nesting that is skipped, as in the JSON library of the reference crate.
const DEPTH: u32 = 128;

/// Byte order marks that editors write and JSON does not allow.
const MARKS: [(&[u8], &str); 3] =
    [(b"\xef\xbb\xbf", "UTF-8"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")];

/// The error of a text that starts with a byte order mark.
pub(super) fn marked(text: &[u8]) -> Option<Error> {
    let (_, encoding) = MARKS.iter().find(|(mark, _)| text.starts_with(mark))?;
    let fault = format!("not valid JSON: the text starts with the byte order mark of {encoding}");
    Some(Error::malformed(fault).advise("save the file as UTF-8 without a byte order mark"))
}

/// A position in JSON text that is valid UTF-8.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    pos: usize,
    /// The offset of the text in its file.
    base: u64,
}

/// A string in the text: its range, without the quotes.
#[derive(Clone, Debug)]
pub(crate) struct JsonSpan {
    pub(crate) range: Range<usize>,
    /// Whether the string contains escapes, so that its characters differ from the text.
    pub(crate) escaped: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], base: u64) -> Self {
        Self { text, pos: 0, base }
    }

    /// The offset of the text in its file.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The position in the file.
    pub(crate) fn at(&self) -> u64 {
        self.base + self.pos as u64
    }

    pub(crate) fn error(&self, fault: impl Into<Cow<'static, str>>) -> Error {
        Error::malformed(fault).at(self.at())
    }

    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.text.get(self.pos).copied()
    }

    #[inline(always)]
    pub(crate) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.pos += 1;
        }
    }

    /// The next byte that is not white space.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.byte()
    }

    /// Skips `wanted` if it comes next.
    #[inline(always)]
    pub(crate) fn eat(&mut self, wanted: u8) -> bool {
        // Writers rarely put white space here, so check before skipping it.
        if self.byte() != Some(wanted) && self.peek() != Some(wanted) {
            return false;
        }
        self.pos += 1;
        true
    }

    /// Skips exactly this text if it comes next: the form that a known writer produces.
    #[inline(always)]
    pub(crate) fn eat_text<const N: usize>(&mut self, wanted: &[u8; N]) -> bool {
        let same = self.text.get(self.pos..).and_then(|rest| rest.first_chunk()) == Some(wanted);
        if same {
            self.pos += N;
        }
        same
    }

    #[inline(always)]
    pub(crate) fn expect(&mut self, wanted: u8) -> Result<()> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{}'", wanted as char)))
        }
    }

    #[cold]
    pub(crate) fn unexpected(&self, wanted: &str) -> Error {
        if let Some(error) = marked(self.text).filter(|_| self.pos == 0) {
            return error;
        }
        match self.byte() {
            Some(byte) => self.error(format!(
                "not valid JSON: {wanted} expected here, found '{}'",
                byte.escape_ascii()
            )),
            None => self.error(format!("not valid JSON: the text ends where {wanted} is expected")),
        }
    }

    /// Whether only white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The remaining text.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Continues at `rest`, a suffix of [`rest`](Self::rest).
    #[inline(always)]
    pub(crate) fn continue_at(&mut self, rest: &[u8]) {
        self.pos = self.text.len() - rest.len();
    }

    /// Consumes a string. Its escapes are checked only by [`unescape`](Self::unescape).
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<JsonSpan> {
        if !self.eat(b'"') {
            return Err(self.unexpected("a string"));
        }
        let start = self.pos;
        let mut escaped = false;
        loop {
            self.pos += plain_bytes(self.text.get(self.pos..).unwrap_or_default());
            match self.byte() {
                Some(b'"') => {
                    let range = start..self.pos;
                    self.pos += 1;
                    return Ok(JsonSpan { range, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    // The escaped character may be a quote; `unescape` checks the rest.
                    self.pos = (self.pos + 2).min(self.text.len());
                }
                Some(_) => {
                    return Err(self.error("not valid JSON: a control character in a string"));
                }
                None => return Err(self.error("not valid JSON: a string is not terminated")),
            }
        }
    }

    /// The bytes of a string, with its escapes.
    pub(crate) fn raw(&self, span: &JsonSpan) -> &'a [u8] {
        self.text.get(span.range.clone()).unwrap_or_default()
    }

    /// The characters of a string, unescaped.
    pub(crate) fn unescape(&self, span: &JsonSpan) -> Result<Cow<'a, [u8]>> {
        if !span.escaped {
            return Ok(Cow::Borrowed(self.raw(span)));
        }
        let (raw, mut text) = (self.raw(span), Vec::new());
        let mut rest = raw;
        while let Some((plain, escape)) =
            rest.iter().position(|byte| *byte == b'\\').and_then(|at| rest.split_at_checked(at))
        {
            text.extend_from_slice(plain);
            let (character, after) = escaped(escape).ok_or_else(|| {
                let at = span.range.start + raw.len() - escape.len();
                Error::malformed("not valid JSON: a string with an invalid escape")
                    .at(self.base + at as u64)
            })?;
            text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            rest = after;
        }
        text.extend_from_slice(rest);
        Ok(Cow::Owned(text))
    }

    /// Consumes a number without sign, point or exponent that fits in 64 bits.
    #[inline(always)]
    pub(crate) fn integer(&mut self) -> Result<u64> {
        if !self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.skip_space();
        }
        let start = self.pos;
        let mut number = 0u64;
        while let Some(digit @ b'0'..=b'9') = self.byte() {
            let next = number.checked_mul(10).and_then(|n| n.checked_add((digit - b'0').into()));
            number = next.ok_or_else(|| self.error("a number exceeds 64 bits"))?;
            self.pos += 1;
        }
        let leading_zero = self.pos - start > 1 && self.text.get(start) == Some(&b'0');
        if self.pos == start || leading_zero {
            self.pos = start;
            return Err(self.unexpected("a non-negative integer"));
        }
        Ok(number)
    }

    /// Consumes a non-negative integer that may be written with a point or an exponent. The flag
    /// says whether it was.
    pub(crate) fn whole_number(&mut self) -> Result<(u64, bool)> {
        let start = self.pos;
        let number = self.integer()?;
        if !matches!(self.byte(), Some(b'.' | b'e' | b'E')) {
            return Ok((number, false));
        }
        while self.byte().is_some_and(|b| b.is_ascii_digit() || b".eE+-".contains(&b)) {
            self.pos += 1;
        }
        let text = self.text.get(start..self.pos).unwrap_or_default().trim_ascii();
        let float = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        // Below 2^53, every integer has an exact float.
        match float.filter(|float| float.fract() == 0.0 && *float < 9e15) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            Some(float) => Ok((float as u64, true)),
            None => {
                self.pos = start;
                Err(self.unexpected("a non-negative integer"))
            }
        }
    }

    /// Skips any value.
    pub(crate) fn skip_value(&mut self) -> Result<()> {
        let mut open = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(bracket @ (b'{' | b'[')) => {
                    if open.len() == DEPTH as usize {
                        return Err(self.error(format!("JSON nested deeper than {DEPTH} levels")));
                    }
                    self.pos += 1;
                    let close = bracket + 2;
                    if !self.eat(close) {
                        open.push(close);
                        if bracket == b'{' {
                            self.string()?;
                            self.expect(b':')?;
                        }
                        continue;
                    }
                }
                Some(b'-' | b'0'..=b'9') => drop(self.number()?),
                _ => {
                    let word = self.eat_text(b"true") || self.eat_text(b"null");
                    if !word && !self.eat_text(b"false") {
                        return Err(self.unexpected("a value"));
                    }
                }
            }
            // A value has ended, and with it perhaps the lists and objects in which it is the last.
            loop {
                let Some(&close) = open.last() else { return Ok(()) };
                if self.eat(b',') {
                    if close == b'}' {
                        self.string()?;
                        self.expect(b':')?;
                    }
                    break;
                }
                self.expect(close)?;
                open.pop();
            }
        }
    }

    /// Consumes a number.
    pub(super) fn number(&mut self) -> Result<Number> {
        let start = self.pos;
        let negative = self.eat_text(b"-");
        let first = self.byte();
        let whole = self.digits();
        if whole == 0 || whole > 1 && first == Some(b'0') {
            self.pos = start;
            return Err(self.unexpected("a number"));
        }
        let integer = self.text.get(start..self.pos).unwrap_or_default();
        let mut is_integer = true;
        if self.eat_text(b".") {
            is_integer = false;
            if self.digits() == 0 {
                return Err(self.unexpected("a digit"));
            }
        }
        if let Some(b'e' | b'E') = self.byte() {
            is_integer = false;
            self.pos += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.pos += 1;
            }
            if self.digits() == 0 {
                return Err(self.unexpected("a digit"));
            }
        }
        if is_integer && let Some(number) = exact(integer, negative) {
            return Ok(number);
        }
        let text = self.text.get(start..self.pos).and_then(|text| std::str::from_utf8(text).ok());
        let float = text.and_then(|text| text.parse().ok()).filter(|float: &f64| float.is_finite());
        float.map(|float| Number(Kind::Float(float))).ok_or_else(|| {
            self.pos = start;
            self.error("not valid JSON: a number beyond the range of 64-bit floats")
        })
    }

    /// Skips digits, and returns how many there were.
    fn digits(&mut self) -> usize {
        let rest = self.rest();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.pos += count;
        count
    }
}

/// An integer, unless it exceeds 64 bits. -0 is a float.
fn exact(text: &[u8], negative: bool) -> Option<Number> {
    let text = std::str::from_utf8(text).ok()?;
    let kind = match negative {
        true => Kind::Negative(text.parse().ok().filter(|number| *number != 0)?),
        false => Kind::Positive(text.parse().ok()?),
    };
    Some(Number(kind))
}

/// The character of an escape, and the text after it.
fn escaped(escape: &[u8]) -> Option<(char, &[u8])> {
    let (code, rest) = match escape.split_at_checked(2)? {
        (b"\\u", rest) => code_unit(rest)?,
        ([_, letter], rest) => {
            let character = match letter {
                b'"' | b'\\' | b'/' => char::from(*letter),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                _ => return None,
            };
            return Some((character, rest));
        }
        _ => return None,
    };
    // A character beyond 16 bits is two escapes: a high surrogate, then a low one.
    let (0xd800..0xdc00, Some(low)) = (code, rest.strip_prefix(b"\\u")) else {
        return Some((char::from_u32(code)?, rest));
    };
    let (low, rest) = code_unit(low)?;
    let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x1_0000 + ((code - 0xd800) << 10) + low)?, rest))
}

/// Four hexadecimal digits, and the text after them.
fn code_unit(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<4>()?;
    let add = |code, digit: &u8| Some(code * 16 + char::from(*digit).to_digit(16)?);
    Some((digits.iter().try_fold(0, add)?, rest))
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number of bytes before the first quote, backslash or control character.
#[inline(always)]
fn plain_bytes(text: &[u8]) -> usize {
    let special = |word: u64| {
        let quote = word ^ (ONES * 0x22);
        let backslash = word ^ (ONES * 0x5c);
        (quote.wrapping_sub(ONES) & !quote)
            | (backslash.wrapping_sub(ONES) & !backslash)
            | (word.wrapping_sub(ONES * 0x20) & !word)
    };
    before(text, special, |byte| byte == b'"' || byte == b'\\' || byte < 0x20)
}

/// The number of bytes before the first that is a quote, a backslash, a control character or not ASCII.
#[inline(always)]
pub(crate) fn plain_ascii(text: &[u8]) -> usize {
    // Below a byte that is not ASCII, subtracting sets the high bit of the special bytes alone.
    let special = |word: u64| {
        let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES);
        let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES);
        quote | backslash | word.wrapping_sub(ONES * 0x20) | word
    };
    before(text, special, |byte| byte == b'"' || byte == b'\\' || !(0x20..0x80).contains(&byte))
}

/// The number of bytes before the first for which `is_special`, counted eight at a time: `special` sets
/// the high bit of such bytes in a word, exactly up to the lowest of them.
#[inline(always)]
fn before(text: &[u8], special: impl Fn(u64) -> u64, is_special: impl Fn(u8) -> bool) -> usize {
    let (chunks, tail) = text.as_chunks::<8>();
    for (number, chunk) in chunks.iter().enumerate() {
        let found = special(u64::from_le_bytes(*chunk)) & HIGH;
        if found != 0 {
            return number * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let last = tail.iter().position(|&byte| is_special(byte)).unwrap_or(tail.len());
    text.len() - tail.len() + last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_bytes_finds_the_first(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let plain = |&byte: &u8| byte != b'"' && byte != b'\\' && byte >= 0x20;
            let expected = text.iter().position(|byte| !plain(byte)).unwrap_or(text.len());
            prop_assert_eq!(plain_bytes(&text), expected);
            let expected = text.iter().position(|byte| !plain(byte) || !byte.is_ascii());
            prop_assert_eq!(plain_ascii(&text), expected.unwrap_or(text.len()));
        }

        #[test]
        fn skip_value_agrees_with_serde_json(text in r#"[\[\]{}:,"a\\0-9.eE+ tfn-]{0,12}"#) {
            let ours = {
                let mut scanner = Scanner::new(text.as_bytes(), 0);
                let skipped = scanner.skip_value();
                skipped.is_ok() && scanner.at_end()
            };
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            // A skipped string may contain wrong escapes, and a skipped number may be huge.
            if theirs.is_ok() || !(text.contains('\\') || text.contains(['e', 'E'])) {
                prop_assert_eq!(ours, theirs.is_ok());
            }
        }
    }
}
