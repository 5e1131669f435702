//! The sections, lines and words of a file of families. `families/README.md` describes the format.

use std::fmt;

/// A fault in a file of families: the line, counted from 1, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) line: usize,
    pub(super) text: String,
}

pub(super) type Parsed<T> = std::result::Result<T, Fault>;

/// A word of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) text: &'static str,
    /// Whether the file has it between quotation marks.
    pub(super) is_quoted: bool,
}

/// A line that is neither empty nor a comment. It has at least one word.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    /// Its first word.
    pub(super) keyword: &'static str,
    /// The words after that.
    pub(super) words: Vec<Word>,
    text: &'static str,
}

/// A line in brackets, and the lines up to the next one.
#[derive(Debug)]
pub(super) struct Section {
    /// The line in brackets. Its first word is the kind of the section.
    pub(super) head: Line,
    pub(super) lines: Vec<Line>,
}

impl Line {
    /// A fault in this line.
    pub(super) fn fault(&self, text: impl fmt::Display) -> Fault {
        Fault { line: self.number, text: format!("{}: {text}", self.keyword) }
    }

    /// A word after the first one, by its number from 0.
    pub(super) fn word(&self, index: usize) -> Parsed<&'static str> {
        let word = self.words.get(index).map(|word| word.text);
        word.ok_or_else(|| {
            let needed = index.saturating_add(1);
            self.fault(format!("{} values, but at least {needed} are needed", self.words.len()))
        })
    }

    /// All words, from the first one.
    pub(super) fn all(&self) -> impl Iterator<Item = Word> {
        let first = Word { text: self.keyword, is_quoted: false };
        std::iter::once(first).chain(self.words.iter().copied())
    }

    /// All words after the first ones.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = &'static str> {
        self.words.iter().skip(first).map(|word| word.text)
    }

    /// All words after the first ones, as a list that is never freed.
    pub(super) fn list(&self, first: usize) -> &'static [&'static str] {
        self.from(first).collect::<Vec<_>>().leak()
    }

    /// The exact number of words after the first one.
    pub(super) fn words<const N: usize>(&self) -> Parsed<[&'static str; N]> {
        let words: Vec<&'static str> = self.from(0).collect();
        let count = words.len();
        <[&'static str; N]>::try_from(words)
            .map_err(|_| self.fault(format!("{count} values, but {N} are needed")))
    }

    /// The text after the first words, as it stands.
    pub(super) fn text_from(&self, first: usize) -> &'static str {
        let skip = |text: &'static str, _| {
            let (_, after) = first_word(text.trim_ascii_start());
            after
        };
        (0..=first).fold(self.text, skip).trim()
    }
}

/// Splits a text into sections.
pub(super) fn sections(text: &'static str) -> Parsed<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let line = line(number, inner.unwrap_or(text))?;
        match (inner, sections.last_mut()) {
            (Some(_), _) => sections.push(Section { head: line, lines: Vec::new() }),
            (None, Some(section)) => section.lines.push(line),
            (None, None) => return Err(line.fault("a line before the first section")),
        }
    }
    Ok(sections)
}

fn line(number: usize, text: &'static str) -> Parsed<Line> {
    let (mut keyword, mut words) = (None, Vec::new());
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() || rest.starts_with("# ") {
            break;
        }
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_word(quoted).ok_or_else(|| {
                let text = "a quotation mark that no other one closes".to_owned();
                Fault { line: number, text }
            })?,
            None => {
                let (text, after) = first_word(rest);
                (Word { text, is_quoted: false }, after)
            }
        };
        match keyword {
            Some(_) => words.push(word),
            None => keyword = Some(word.text),
        }
        rest = after;
    }
    let fault = || Fault { line: number, text: "an empty section name".to_owned() };
    Ok(Line { number, keyword: keyword.ok_or_else(fault)?, words, text })
}

/// The text up to the first space, and what follows it.
fn first_word(text: &'static str) -> (&'static str, &'static str) {
    text.split_at(text.bytes().position(|byte| byte.is_ascii_whitespace()).unwrap_or(text.len()))
}

/// The word before the closing quotation mark, and the text after it.
fn quoted_word(text: &'static str) -> Option<(Word, &'static str)> {
    let mut chars = text.char_indices();
    let mut unescaped: Option<String> = None;
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                let word = unescaped.map_or(text.get(..at)?, |word| word.leak());
                return Some((Word { text: word, is_quoted: true }, text.get(at + 1..)?));
            }
            '\\' => {
                let start = text.get(..at)?;
                let word = unescaped.get_or_insert_with(|| start.to_owned());
                word.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                });
            }
            _ => unescaped.iter_mut().for_each(|word| word.push(c)),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        let text = "# a comment\n[family  x]\nkey \"a b\" \"\" \"<|\\\"|>\" c # why\n\nsummary Two  words.\n";
        let sections = sections(text).unwrap();
        let [section] = sections.as_slice() else { panic!("{sections:?}") };
        assert_eq!((section.head.number, section.head.keyword), (2, "family"));
        let words: Vec<&str> = section.lines[0].from(0).collect();
        assert_eq!(words, ["a b", "", "<|\"|>", "c"]);
        assert_eq!(section.lines[1].text_from(0), "Two  words.");
        assert_eq!(section.lines[1].number, 5);
    }

    #[test]
    fn faults_have_lines() {
        assert_eq!(sections("[a]\nx \"y\n").unwrap_err().line, 2);
        assert_eq!(sections("\nx y\n").unwrap_err().line, 2);
        assert_eq!(sections("[]\n").unwrap_err().line, 1);
    }
}
