//! Names and strings as stored in files: bytes that are nearly always UTF-8.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// A name or string from a file: bytes that should be UTF-8, but may not be.
///
/// `Display` gives one line that is safe on a terminal: control characters and bytes that are not
/// UTF-8 are written as `\n`, `\u{1b}`, `\xff`. [`to_str`](Self::to_str) gives the text itself if
/// it is UTF-8, and [`spelling`](Self::spelling) gives one string in all cases.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// Wraps bytes of any content.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Wraps a path. Its [`spelling`](Self::spelling) is what reports in JSON say: a path that is not
    /// UTF-8 has no other form there.
    pub fn from_path(path: &'a Path) -> Self {
        Self(path.as_os_str().as_encoded_bytes())
    }

    /// The bytes as stored.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text, if it is UTF-8.
    pub fn to_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }

    /// The text if it is UTF-8; otherwise the text with `\xHH` for each byte that is not part of a
    /// character. The second form is for people and for JSON, which marks it as such.
    pub fn spelling(self) -> Cow<'a, str> {
        match self.to_str() {
            Some(text) => Cow::Borrowed(text),
            None => {
                let mut out = String::new();
                for chunk in self.0.utf8_chunks() {
                    out.push_str(chunk.valid());
                    for byte in chunk.invalid() {
                        out.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                Cow::Owned(out)
            }
        }
    }
}

/// The number of bytes that a message shows of each end of a long text.
const END: usize = 256;

impl Text<'_> {
    /// Whether there are only visible characters of ASCII, and spaces.
    fn is_plain(self) -> bool {
        self.0.iter().all(|byte| matches!(byte, b' '..=b'~'))
    }

    /// The text for a message: of a long text, which a file could make arbitrarily long, both ends
    /// with the number of bytes between them.
    pub fn brief(self) -> String {
        if let Some(text) = self.to_str().filter(|text| text.len() <= END && self.is_plain()) {
            return text.to_owned();
        }
        // The continuation bytes of a character, of which there are at most 3.
        let inside = |at: usize| self.0.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let first = END.saturating_sub((0..3).take_while(|back| inside(END - back)).count());
        let last = self.0.len().saturating_sub(END);
        let last = last + (0..3).take_while(|on| inside(last + on)).count();
        match (self.0.get(..first), self.0.get(first..last), self.0.get(last..)) {
            (Some(start), Some(between), Some(end)) if !between.is_empty() => format!(
                "{}\u{2026} {} more bytes \u{2026}{}",
                Text(start),
                between.len(),
                Text(end)
            ),
            _ => self.to_string(),
        }
    }

    /// Compares names in natural order: runs of digits by their value, so that layer 2 comes before
    /// layer 10, and everything else by its bytes.
    pub fn natural_cmp(self, other: Text<'_>) -> std::cmp::Ordering {
        // What both start with has no influence, except for digits before the difference.
        let same = common_start(self.0, other.0);
        let common = self.0.get(..same).unwrap_or_default();
        let start = common.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
        let mut a = self.0.get(start..).unwrap_or_default();
        let mut b = other.0.get(start..).unwrap_or_default();
        loop {
            let (digits_a, digits_b) = (digits(a), digits(b));
            if !digits_a.is_empty() && !digits_b.is_empty() {
                let (value_a, value_b) = (without_zeros(digits_a), without_zeros(digits_b));
                let order = value_a.len().cmp(&value_b.len()).then(value_a.cmp(value_b));
                if order.is_ne() {
                    return order;
                }
                a = a.get(digits_a.len()..).unwrap_or_default();
                b = b.get(digits_b.len()..).unwrap_or_default();
                continue;
            }
            match (a.split_first(), b.split_first()) {
                (Some((x, rest_a)), Some((y, rest_b))) if x == y => (a, b) = (rest_a, rest_b),
                // Equal except for leading zeros: any consistent order will do.
                (None, None) => return self.0.cmp(other.0),
                _ => return a.cmp(b),
            }
        }
    }
}

/// The number of bytes with which both texts start.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let start = words.take_while(|(a, b)| a == b).count() * 8;
    let rests = a.iter().zip(b).skip(start);
    start + rests.take_while(|(a, b)| a == b).count()
}

fn digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    let start = digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len());
    digits.get(start..).unwrap_or_default()
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.to_str().filter(|_| self.is_plain()) {
            return f.pad(line);
        }
        let mut line = String::new();
        for c in self.spelling().chars() {
            // Control characters, and marks that reorder the text on a terminal.
            let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
            if c.is_control() || reorders {
                line.extend(c.escape_default());
            } else {
                line.push(c);
            }
        }
        f.pad(&line)
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_line_for_terminals() {
        let shown = |bytes: &[u8]| Text::new(bytes).to_string();
        assert_eq!(shown(b"blk.0.attn_q.weight"), "blk.0.attn_q.weight");
        assert_eq!(shown(b"a\xff\x1b[31m\n"), "a\\xff\\u{1b}[31m\\n");
        assert_eq!(shown("h\u{e9}\u{202e}".as_bytes()), "h\u{e9}\\u{202e}");
    }

    proptest! {
        #[test]
        fn what_is_common_is_counted_by_words(a in "[ab]{0,20}", b in "[ab]{0,20}") {
            let plain = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(common_start(a.as_bytes(), b.as_bytes()), plain);
            let longer = format!("{a}{b}");
            prop_assert!(common_start(a.as_bytes(), longer.as_bytes()) == a.len());
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        let order = |a: &str, b: &str| Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes()));
        assert!(order("layers.2.q", "layers.10.q").is_lt());
        assert!(order("layers.10.q", "layers.2.q").is_gt());
        // Equal numbers with other zeros do not end the comparison.
        assert!(order("l.01.x2", "l.1.x10").is_lt());
        assert!(order("l.1.x10", "l.01.x2").is_gt());
        assert!(order("l.01", "l.1").is_ne() && order("l.1", "l.1").is_eq());
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let brief = |text: &str| Text::new(text.as_bytes()).brief();
        let (a, b) = ("a".repeat(256), "b".repeat(256));
        assert_eq!(brief(""), "");
        assert_eq!(brief(&a), a);
        assert_eq!(brief(&format!("{a}{b}")), format!("{a}{b}"));
        let cut = format!("{a}\u{2026} 1 more bytes \u{2026}{b}");
        assert_eq!(brief(&format!("{a}-{b}")), cut);
        // A character that does not fit completely is omitted.
        let (euros, more) = ("\u{20ac}".repeat(85), "\u{2026} 270 more bytes \u{2026}");
        assert_eq!(brief(&"\u{20ac}".repeat(260)), format!("{euros}{more}{euros}"));
        // Bytes that are not UTF-8 are cut anywhere.
        let odd = Text::new(&[0x80; 1000]).brief();
        assert_eq!(odd.matches("\\x80").count(), 253 + 253);
        assert!(odd.contains(" 494 more bytes "), "{odd}");
    }

    #[test]
    fn natural_order() {
        let mut names = ["b10", "b9", "a", "b09", "b", "b9.x", "b10.0", "", "ba"];
        names.sort_by(|a, b| Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes())));
        assert_eq!(names, ["", "a", "b", "b09", "b9", "b9.x", "b10", "b10.0", "ba"]);
    }

    /// The natural order without any shortcut: numbers, and the bytes between them.
    fn pieces(text: &str) -> Vec<(u8, usize, &str)> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let end = match first.is_ascii_digit() {
                true => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
                false => 1,
            };
            let (piece, after) = rest.split_at(end);
            let value = piece.trim_start_matches('0');
            pieces.push(match first.is_ascii_digit() {
                true => (b'0', value.len(), value),
                false => (piece.as_bytes()[0], 0, ""),
            });
            rest = after;
        }
        pieces
    }

    proptest::proptest! {
        #[test]
        fn natural_order_is_that_of_its_pieces(a in "[a0-2.]{0,8}", b in "[a0-2.]{0,8}") {
            let expected = pieces(&a).cmp(&pieces(&b)).then_with(|| a.cmp(&b));
            let found = Text::new(a.as_bytes()).natural_cmp(Text::new(b.as_bytes()));
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
