//! Tokens that are matched in a text before all others.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use weighbridge::json::Json;

use super::class::WORD;
use super::document::{id, text};
use crate::error::{Error, Result};

/// A token that is matched as a whole.
#[derive(Clone, Debug)]
pub(super) struct AddedToken {
    pub(super) text: String,
    pub(super) id: u32,
    /// Whether it stands for no text: the start of a turn, padding.
    pub(super) is_special: bool,
    /// Whether it is matched in the normalized text.
    pub(super) is_normalized: bool,
    /// Whether spaces before and after it belong to it.
    strips: (bool, bool),
    /// Whether it is only matched between characters of no word.
    is_word: bool,
}

/// Finds the tokens of a set; of several that start at one place the longest.
#[derive(Debug)]
pub(super) struct AddedTokens {
    tokens: Vec<AddedToken>,
    finder: Option<AhoCorasick>,
}

/// A part of a text.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    Token(Range<usize>, &'a AddedToken),
    Text(Range<usize>),
}

impl AddedToken {
    /// The added tokens of a `tokenizer.json`.
    pub(super) fn of(json: &Json) -> impl Iterator<Item = Self> {
        let listed = json.get("added_tokens").and_then(Json::as_array).into_iter().flatten();
        let read = |token: &Json| {
            let flag = |key: &str| token.get(key).and_then(Json::as_bool).unwrap_or(false);
            Some(Self {
                text: text(token, "content").filter(|text| !text.is_empty())?,
                id: id(token.get("id")?)?,
                is_special: flag("special"),
                is_normalized: flag("normalized"),
                strips: (flag("lstrip"), flag("rstrip")),
                is_word: flag("single_word"),
            })
        };
        listed.filter_map(read)
    }
}

impl AddedTokens {
    pub(super) fn new(tokens: Vec<AddedToken>) -> Result<Self> {
        let texts = tokens.iter().map(|token| &token.text);
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(texts);
        let finder = finder.map_err(|error| {
            Error::Unsupported(format!("{} added tokens: {error}", tokens.len()))
        })?;
        Ok(Self { finder: (!tokens.is_empty()).then_some(finder), tokens })
    }

    /// The parts of a text, in order; empty texts are left out.
    pub(super) fn parts(&self, text: &str) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        let mut done = 0;
        for found in self.finder.iter().flat_map(|finder| finder.find_iter(text)) {
            let Some(token) = self.tokens.get(found.pattern().as_usize()) else { continue };
            let (mut start, mut end) = (found.start(), found.end());
            let before = text.get(done..start).unwrap_or_default();
            let after = text.get(end..).unwrap_or_default();
            let in_word = |c: Option<char>| c.is_some_and(|c| WORD.contains(c));
            let all_before = text.get(..start).unwrap_or_default();
            let inside = in_word(all_before.chars().next_back()) || in_word(after.chars().next());
            if token.is_word && inside {
                continue;
            }
            if token.strips.0 {
                start = if done <= start { done + before.trim_end().len() } else { done };
            }
            if token.strips.1 {
                end = text.len() - after.trim_start().len();
            }
            // The spaces that a token takes may be a token too, unless that takes the spaces before it.
            parts.extend((done < start).then_some(Part::Text(done..start)));
            parts.extend((start < end).then_some(Part::Token(start..end, token)));
            done = end;
        }
        parts.extend((done < text.len()).then_some(Part::Text(done..text.len())));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        parts_by(
            &weighbridge::json::json!({"added_tokens": [
                {"id": 1, "content": "<s>"}, {"id": 2, "content": "<s>x"},
                {"id": 3, "content": "<m>", "lstrip": true, "rstrip": true},
                {"id": 4, "content": "one", "single_word": true},
                {"id": 5, "content": "--  ", "rstrip": true}, {"id": 6, "content": "\t"},
            ]}),
            text,
        )
    }

    fn parts_by(json: &Json, text: &str) -> Vec<String> {
        let added = AddedTokens::new(AddedToken::of(json).collect()).expect("tokens");
        let shown = |part: &Part<'_>| match part {
            Part::Token(range, token) => format!("{}={}", &text[range.clone()], token.id),
            Part::Text(range) => text[range.clone()].to_owned(),
        };
        added.parts(text).iter().map(shown).collect()
    }

    #[test]
    fn the_longest_token_takes_its_spaces() {
        assert_eq!(parts("a<s>x<s>y"), ["a", "<s>x=2", "<s>=1", "y"]);
        assert_eq!(parts("a  <m>  b"), ["a", "  <m>  =3", "b"]);
        assert_eq!(parts("one (one) ones"), ["one=4", " (", "one=4", ") ones"]);
        assert_eq!(parts("--  \t \tx"), ["--  \t \t=5", "\t=6", " ", "\t=6", "x"]);
        assert!(parts("").is_empty());
    }

    /// As `tokenizers` 0.23 finds them.
    #[test]
    fn tokens_of_spaces() {
        let spaces = |flag: &str| {
            let mut token = weighbridge::json::json!({"id": 1, "content": "  "});
            flag.split(' ').for_each(|flag| token[flag] = true.into());
            weighbridge::json::json!({"added_tokens": [token]})
        };
        assert_eq!(parts_by(&spaces("lstrip rstrip"), "a    "), ["a", "    =1"]);
        let word = spaces("single_word");
        assert_eq!(parts_by(&word, "e\u{301}  "), ["e\u{301}  "]);
        assert_eq!(parts_by(&word, "\u{200d}  "), ["\u{200d}  "]);
        assert_eq!(parts_by(&word, ".  "), [".", "  =1"]);
    }
}
