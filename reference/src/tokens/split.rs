//! Steps that split text into pieces, each of which becomes tokens by itself.

use std::borrow::Cow;
use std::ops::Range;

use weighbridge::json::Json;

use super::aligned::Aligned;
use super::class::{PUNCTUATION, WORD};
use super::document::{text, unsupported};
use super::normalize::{letters, spelled};
use super::pattern::Pattern;
use crate::error::Result;

/// GPT-2's pattern: endings, words, numbers and other characters, each with the space before it.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// A step.
#[derive(Debug)]
pub(super) enum Splitter {
    Pattern {
        pattern: Pattern,
        matches: Matches,
    },
    /// Runs of characters of one kind are pieces.
    Runs {
        kind: fn(char) -> Kind,
    },
    /// Pieces of this number of characters.
    Length(usize),
    /// Words, with or without a space before each piece.
    Bytes {
        prefix: bool,
        words: Option<Pattern>,
        /// The letters of bytes, if later steps see letters; else the vocabulary has bytes.
        letters: Option<Vec<char>>,
    },
    /// Spaces become a letter, which starts a piece.
    Spaces {
        letter: String,
        prefix: Prefix,
        split: bool,
    },
}

/// The use of a character to a step of runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Part of a run with neighbors of this number.
    Run(u8),
    /// A piece by itself.
    Single,
    Dropped,
}

/// The use of the matches of a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Matches {
    /// Each is a piece.
    Isolated,
    /// Matches without text between them are one piece.
    Contiguous,
    /// Dropped.
    Removed,
    /// The ends of the pieces before them.
    WithPrevious,
    /// The starts of the pieces after them.
    WithNext,
    /// The pieces; the text between is dropped.
    Kept,
}

/// The texts that get a space in front if they have none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefix {
    Never,
    First,
    Always,
}

impl Splitter {
    /// Reads a step. `is_last` says whether no step follows.
    pub(super) fn of(json: &Json, is_last: bool) -> Result<Self> {
        let flag = |key: &str, usual: bool| json.get(key).and_then(Json::as_bool).unwrap_or(usual);
        let behavior = json.get("behavior").and_then(Json::as_str);
        Ok(match json.get("type").and_then(Json::as_str) {
            Some("ByteLevel") => Self::Bytes {
                prefix: flag("add_prefix_space", true),
                words: flag("use_regex", true).then(|| Pattern::regex(WORDS)).transpose()?,
                letters: (!is_last).then(letters),
            },
            Some("Split") => Self::Pattern {
                pattern: Pattern::of(json, "splitter")?,
                matches: match (behavior, flag("invert", false)) {
                    (Some("Isolated"), _) => Matches::Isolated,
                    (Some("Contiguous"), _) => Matches::Contiguous,
                    (Some("Removed"), false) => Matches::Removed,
                    (Some("Removed"), true) => Matches::Kept,
                    (Some("MergedWithPrevious"), false) => Matches::WithPrevious,
                    (Some("MergedWithNext"), false) => Matches::WithNext,
                    _ => return Err(unsupported("splitter", json)),
                },
            },
            Some("CharDelimiterSplit") => Self::Pattern {
                pattern: match text(json, "delimiter").filter(|text| !text.is_empty()) {
                    Some(delimiter) => Pattern::Text(delimiter),
                    None => return Err(unsupported("splitter", json)),
                },
                matches: Matches::Removed,
            },
            Some("FixedLength") => {
                let length = json.get("length").map_or(Some(5), Json::as_u64);
                let length = length.and_then(|length| usize::try_from(length).ok());
                match length.filter(|length| *length > 0) {
                    Some(length) => Self::Length(length),
                    None => return Err(unsupported("splitter", json)),
                }
            }
            Some("Metaspace") => Self::Spaces {
                letter: text(json, "replacement").unwrap_or_else(|| "\u{2581}".to_owned()),
                prefix: match json.get("prepend_scheme").and_then(Json::as_str) {
                    Some("never") => Prefix::Never,
                    Some("first") => Prefix::First,
                    Some(_) => Prefix::Always,
                    None if flag("add_prefix_space", true) => Prefix::Always,
                    None => Prefix::Never,
                },
                split: flag("split", true),
            },
            kind => Self::Runs { kind: runs(kind, behavior, json)? },
        })
    }

    /// Splits the pieces of a text, which may change.
    pub(super) fn apply(
        &self,
        aligned: &mut Aligned<'_>,
        pieces: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        match self {
            Self::Bytes { prefix, words, letters } => {
                if *prefix {
                    prepend(aligned, pieces, " ", |text, _| !text.starts_with(' '));
                }
                if let Some(words) = words {
                    split_all(words, Matches::Isolated, aligned.text(), pieces)?;
                }
                if let Some(letters) = letters {
                    aligned.edit_pieces(pieces, |c| spelled(c, letters));
                }
            }
            Self::Pattern { pattern, matches } => {
                split_all(pattern, *matches, aligned.text(), pieces)?;
            }
            Self::Runs { kind } => split_runs(*kind, aligned.text(), pieces),
            Self::Length(length) => {
                let text = aligned.text();
                let mut done = Vec::new();
                for piece in pieces.drain(..) {
                    let whole = text.get(piece.clone()).unwrap_or_default();
                    let starts = whole.char_indices().step_by(*length);
                    let mut starts: Vec<usize> = starts.map(|(at, _)| piece.start + at).collect();
                    starts.push(piece.end);
                    done.extend(
                        starts.windows(2).filter_map(|two| Some(*two.first()?..*two.last()?)),
                    );
                }
                *pieces = done;
            }
            Self::Spaces { letter, prefix, split } => {
                if aligned.text().contains(' ') {
                    let letter = letter.as_str();
                    aligned.edit_pieces(pieces, |c| (c == ' ').then_some(Cow::Borrowed(letter)));
                }
                if *prefix != Prefix::Never {
                    prepend(aligned, pieces, letter, |text, is_first| {
                        (*prefix == Prefix::Always || is_first)
                            && !text.starts_with(letter.as_str())
                    });
                }
                if *split {
                    let pattern = Pattern::Text(letter.clone());
                    split_all(&pattern, Matches::WithNext, aligned.text(), pieces)?;
                }
            }
        }
        Ok(())
    }
}

/// The kinds of characters of a step that needs no pattern.
fn runs(kind: Option<&str>, behavior: Option<&str>, json: &Json) -> Result<fn(char) -> Kind> {
    let each_digit = json.get("individual_digits").and_then(Json::as_bool).unwrap_or(false);
    Ok(match (kind, behavior) {
        (Some("WhitespaceSplit"), _) => |c: char| match c.is_whitespace() {
            true => Kind::Dropped,
            false => Kind::Run(0),
        },
        (Some("Whitespace"), _) => |c: char| match (c.is_whitespace(), WORD.contains(c)) {
            (true, _) => Kind::Dropped,
            (false, is_word) => Kind::Run(u8::from(is_word)),
        },
        (Some("Digits"), _) if each_digit => |c: char| match c.is_numeric() {
            true => Kind::Single,
            false => Kind::Run(0),
        },
        (Some("Digits"), _) => |c: char| Kind::Run(u8::from(c.is_numeric())),
        (Some("Punctuation"), Some("Contiguous")) => {
            |c: char| Kind::Run(u8::from(PUNCTUATION.contains(c)))
        }
        (Some("Punctuation"), Some("Removed")) => |c: char| match PUNCTUATION.contains(c) {
            true => Kind::Dropped,
            false => Kind::Run(0),
        },
        (Some("Punctuation"), None | Some("Isolated")) => |c: char| match PUNCTUATION.contains(c) {
            true => Kind::Single,
            false => Kind::Run(0),
        },
        (Some("BertPreTokenizer"), _) => {
            |c: char| match (c.is_whitespace(), PUNCTUATION.contains(c)) {
                (true, _) => Kind::Dropped,
                (_, true) => Kind::Single,
                _ => Kind::Run(0),
            }
        }
        _ => return Err(unsupported("splitter", json)),
    })
}

fn split_runs(kind: fn(char) -> Kind, text: &str, pieces: &mut Vec<Range<usize>>) {
    let mut done = Vec::new();
    for piece in pieces.drain(..) {
        // The start of the piece so far, and the kind of its characters.
        let mut open: Option<(usize, Kind)> = None;
        for (place, c) in text.get(piece.clone()).unwrap_or_default().char_indices() {
            let (place, kind) = (piece.start + place, kind(c));
            if let Some((start, last)) = open
                && (last != kind || kind == Kind::Single)
            {
                done.push(start..place);
                open = None;
            }
            if open.is_none() && kind != Kind::Dropped {
                open = Some((place, kind));
            }
        }
        done.extend(open.map(|(start, _)| start..piece.end));
    }
    *pieces = done;
}

/// Puts a text before those pieces for which `needs` says so, given the piece and whether it starts the
/// whole text.
fn prepend(
    aligned: &mut Aligned<'_>,
    pieces: &mut [Range<usize>],
    before: &str,
    needs: impl Fn(&str, bool) -> bool,
) {
    let text = aligned.text();
    let is_needed = |piece: &Range<usize>| {
        needs(text.get(piece.clone()).unwrap_or_default(), aligned.is_first && piece.start == 0)
    };
    if !pieces.iter().any(is_needed) {
        return;
    }
    let needed: Vec<bool> = pieces.iter().map(is_needed).collect();
    aligned.edit(|editor| {
        for (piece, is_needed) in pieces.iter_mut().zip(needed) {
            let end = piece.end;
            editor.keep(piece.start);
            piece.start = editor.len();
            if is_needed {
                editor.insert(before);
            }
            editor.keep(end);
            piece.end = editor.len();
        }
    });
}

/// Splits pieces by a pattern; empty ones are dropped.
fn split_all(
    pattern: &Pattern,
    matches: Matches,
    text: &str,
    pieces: &mut Vec<Range<usize>>,
) -> Result<()> {
    let mut done = Vec::new();
    for piece in pieces.drain(..) {
        let found = pattern.matches(text.get(piece.clone()).unwrap_or_default())?;
        let mut start = piece.start;
        // Ends a piece, which stays or is dropped.
        let mut cut = |end: usize, stays: bool| {
            if stays && start < end {
                done.push(start..end);
            }
            start = end;
        };
        let mut found =
            found.into_iter().map(|f| piece.start + f.start..piece.start + f.end).peekable();
        while let Some(mut matched) = found.next() {
            while matches == Matches::Contiguous
                && let Some(next) = found.next_if(|next| next.start == matched.end)
            {
                matched.end = next.end;
            }
            match matches {
                Matches::Isolated | Matches::Contiguous => {
                    cut(matched.start, true);
                    cut(matched.end, true);
                }
                Matches::Removed => {
                    cut(matched.start, true);
                    cut(matched.end, false);
                }
                Matches::Kept => {
                    cut(matched.start, false);
                    cut(matched.end, true);
                }
                Matches::WithPrevious => cut(matched.end, true),
                Matches::WithNext => cut(matched.start, true),
            }
        }
        cut(piece.end, matches != Matches::Kept);
    }
    *pieces = done;
    Ok(())
}

#[cfg(test)]
mod tests {
    use weighbridge::json::json;

    use super::*;

    fn pieces(json: Json, text: &str) -> Vec<String> {
        let splitter = Splitter::of(&json, false).expect("a splitter");
        let mut aligned = Aligned::new(text, 0..text.len(), true);
        let mut pieces: Vec<_> = std::iter::once(0..text.len()).collect();
        splitter.apply(&mut aligned, &mut pieces).expect("pieces");
        pieces.iter().map(|piece| aligned.text()[piece.clone()].to_owned()).collect()
    }

    #[test]
    fn words_take_the_space_before_them() {
        let json = json!({"type": "ByteLevel", "add_prefix_space": false});
        assert_eq!(pieces(json, "Two  mills, 12!"), ["Two", "Ġ", "Ġmills", ",", "Ġ12", "!"]);
        assert_eq!(pieces(json!({"type": "ByteLevel"}), "Two é"), ["ĠTwo", "ĠÃ©"]);
    }

    #[test]
    fn matches_go_where_the_behavior_says() {
        let json = |behavior: &str| json!({"type": "Split", "pattern": {"String": "-"}, "behavior": behavior});
        assert_eq!(pieces(json("Isolated"), "a--b"), ["a", "-", "-", "b"]);
        assert_eq!(pieces(json("Contiguous"), "a--b-"), ["a", "--", "b", "-"]);
        assert_eq!(pieces(json("Removed"), "a-b"), ["a", "b"]);
        assert_eq!(pieces(json("MergedWithPrevious"), "a--b"), ["a-", "-", "b"]);
        assert_eq!(pieces(json("MergedWithNext"), "a--b"), ["a", "-", "-b"]);
    }

    #[test]
    fn spaces_become_letters() {
        let json = json!({"type": "Metaspace", "prepend_scheme": "first"});
        assert_eq!(pieces(json, "two mills"), ["\u{2581}two", "\u{2581}mills"]);
    }

    #[test]
    fn characters_of_one_kind_are_runs() {
        let of = |kind: &str, text: &str| pieces(json!({"type": kind}), text);
        assert_eq!(of("WhitespaceSplit", " a, b "), ["a,", "b"]);
        assert_eq!(of("Whitespace", "a_b, c!?"), ["a_b", ",", "c", "!?"]);
        assert_eq!(of("BertPreTokenizer", "a!! b"), ["a", "!", "!", "b"]);
        assert_eq!(of("Digits", "a12 3"), ["a", "12", " ", "3"]);
        assert_eq!(
            pieces(json!({"type": "Digits", "individual_digits": true}), "12a"),
            ["1", "2", "a"]
        );
        assert_eq!(
            pieces(json!({"type": "Punctuation", "behavior": "Contiguous"}), "a!?b"),
            ["a", "!?", "b"]
        );
        assert_eq!(pieces(json!({"type": "FixedLength", "length": 2}), "añb"), ["añ", "b"]);
        assert_eq!(
            pieces(json!({"type": "CharDelimiterSplit", "delimiter": "-"}), "a-b"),
            ["a", "b"]
        );
    }
}
