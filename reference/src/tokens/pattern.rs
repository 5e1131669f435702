//! Patterns that are searched for in texts.

use std::ops::Range;

use fancy_regex::Regex;
use regex_automata::{Anchored, Input, meta};
use weighbridge::json::Json;

use super::document::{text, unsupported};
use crate::error::{Error, Result};

/// The end of the patterns of most byte-level tokenizers: white space, whose last character belongs to
/// what follows.
const SPACES: &str = r"|\s+(?!\S)|\s+";

/// A pattern.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Text as it is.
    Text(String),
    /// A pattern without looking ahead or behind, in linear time. `ends_in_spaces` says whether its
    /// second part is the white space of [`SPACES`].
    Linear {
        regex: meta::Regex,
        ends_in_spaces: bool,
    },
    Fancy(Regex),
}

impl Pattern {
    /// The `pattern` of a step of `tokenizer.json`.
    pub(super) fn of(json: &Json, what: &str) -> Result<Self> {
        let pattern = json.get("pattern").unwrap_or(&Json::Null);
        match (text(pattern, "Regex"), text(pattern, "String")) {
            (Some(pattern), _) => Self::regex(&pattern),
            (_, Some(plain)) if !plain.is_empty() => Ok(Self::Text(plain)),
            _ => Err(unsupported(what, json)),
        }
    }

    /// A regular expression.
    pub(super) fn regex(pattern: &str) -> Result<Self> {
        let (head, ends_in_spaces) = match pattern.strip_suffix(SPACES) {
            Some(head) if !head.is_empty() => (head, true),
            _ => (pattern, false),
        };
        if !needs_backtracking(head) {
            let parts: &[&str] = if ends_in_spaces { &[head, r"\s+"] } else { &[head] };
            if let Ok(regex) = meta::Regex::new_many(parts) {
                return Ok(Self::Linear { regex, ends_in_spaces });
            }
        }
        Regex::new(pattern)
            .map(Self::Fancy)
            .map_err(|error| Error::Unsupported(format!("the pattern {pattern:?}: {error}")))
    }

    /// The ranges of all matches in a text.
    pub(super) fn matches(&self, text: &str) -> Result<Vec<Range<usize>>> {
        match self {
            Self::Text(plain) => Ok(text
                .match_indices(plain.as_str())
                .map(|(at, found)| at..at + found.len())
                .collect()),
            Self::Linear { regex, ends_in_spaces: false } => {
                Ok(regex.find_iter(text).map(|found| found.range()).collect())
            }
            Self::Linear { regex, ends_in_spaces: true } => Ok(before_words(regex, text)),
            Self::Fancy(regex) => {
                let found = regex.find_iter(text).map(|found| found.map(|found| found.range()));
                // A pattern took too many steps.
                let failed = |error: fancy_regex::Error| {
                    Error::Input(format!("text cannot be split: {error}"))
                };
                found.collect::<Result<_, _>>().map_err(failed)
            }
        }
    }
}

/// Whether a pattern has what the engine that takes linear time lacks or reads as something else: looking
/// around, groups and repetitions that never give back, references.
fn needs_backtracking(pattern: &str) -> bool {
    const MARKS: [&str; 11] =
        ["(?=", "(?!", "(?<", "(?>", "(?(", "?+", "*+", "++", r"\G", r"\K", r"\X"];
    let starts_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    // `{1,3}+` never gives back, `\p{L}+` does.
    let counts = |(end, _): (usize, &str)| {
        let before = pattern.get(..end).unwrap_or_default();
        before.rsplit_once('{').is_some_and(|(_, inside)| starts_number(inside))
    };
    MARKS.iter().any(|mark| pattern.contains(mark))
        || pattern.split('\\').skip(1).any(starts_number)
        || pattern.match_indices("}+").any(counts)
}

/// The matches of a pattern whose second part is white space: of several characters before a word, the
/// last belongs to the word.
fn before_words(regex: &meta::Regex, text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = Input::new(text).range(at..);
        // Most matches follow each other, and an anchored search need not look for their starts.
        let anchored = regex.search(&rest.clone().anchored(Anchored::Yes));
        let Some(matched) = anchored.or_else(|| regex.search(&rest)) else { break };
        let (start, mut end) = (matched.start(), matched.end());
        if matched.pattern().as_usize() == 1 && end < text.len() {
            let spaces = text.get(start..end).unwrap_or_default();
            let last = spaces.char_indices().next_back().map_or(0, |(place, _)| place);
            end = if last > 0 { start + last } else { end };
        }
        match start < end {
            true => found.push(start..end),
            // An empty match would be found again.
            false => {
                end +=
                    text.get(end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
            }
        }
        at = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fast search finds what the pattern itself finds.
    #[test]
    fn spaces_before_words_are_those_of_the_pattern() {
        let heads = [
            r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
            r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+",
        ];
        let texts = [
            "",
            " ",
            "  ",
            "a  b",
            "  a",
            "a  ",
            "\n\n  x\n",
            " \t\u{3000}é  12 345 !? \r\n\r\n z",
            "x\u{a0}\u{2003}  y's  \u{200b} ",
            "don't  \n   \n\n stop   ",
        ];
        for head in heads {
            let pattern = format!("{head}{SPACES}");
            let fast = Pattern::regex(&pattern).expect("a pattern");
            assert!(matches!(fast, Pattern::Linear { ends_in_spaces: true, .. }));
            let plain = Pattern::Fancy(Regex::new(&pattern).expect("a pattern"));
            for text in texts {
                assert_eq!(
                    fast.matches(text).expect("ranges"),
                    plain.matches(text).expect("ranges"),
                    "{text:?}"
                );
            }
        }
        let possessive = Pattern::regex(r"\p{L}++|\s").expect("a pattern");
        assert!(matches!(possessive, Pattern::Fancy(_)));
    }
}
