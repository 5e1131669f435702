//! Steps that split text into pieces, each of which is merged by itself.

use fancy_regex::Regex;
use weighbridge::json::Json;
use weighbridge::tokenizer::byte_letters;

use super::document::{text, unsupported};
use crate::error::{Error, Result};

/// GPT-2's pattern: endings, words, numbers and other characters, each with the space before it.
const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Punctuation of Unicode, and ASCII's other symbols.
const PUNCTUATION: &str = r"[\p{P}\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e]";

/// A step.
#[derive(Debug)]
pub(super) enum Splitter {
    /// Matches of a pattern.
    Pattern { pattern: Regex, matches: Matches },
    /// Bytes become letters.
    Bytes { letters: Vec<char>, prefix: bool, words: Option<Regex> },
    /// Spaces become a letter, which starts a piece.
    Spaces { letter: String, prefix: Prefix, split: bool },
}

/// What becomes of the matches of a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Matches {
    /// Pieces of their own.
    Isolated,
    /// Dropped.
    Removed,
    /// The ends of the pieces before them.
    WithPrevious,
    /// The starts of the pieces behind them.
    WithNext,
    /// The pieces, and what lies between is dropped.
    Kept,
}

/// Where a space is put before a text that has none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Prefix {
    Never,
    First,
    Always,
}

pub(super) fn regex(pattern: &str) -> Result<Regex> {
    Regex::new(pattern)
        .map_err(|error| Error::Unsupported(format!("the pattern {pattern:?}: {error}")))
}

/// A pattern took too many steps.
pub(super) fn not_matched(error: fancy_regex::Error) -> Error {
    Error::Input(format!("text cannot be split: {error}"))
}

impl Splitter {
    pub(super) fn of(json: &Json) -> Result<Self> {
        let flag = |key: &str, usual: bool| json.get(key).and_then(Json::as_bool).unwrap_or(usual);
        let isolated = |pattern: &str| {
            Ok(Self::Pattern { pattern: regex(pattern)?, matches: Matches::Isolated })
        };
        match json.get("type").and_then(Json::as_str) {
            Some("ByteLevel") => {
                let mut all: Vec<(u8, char)> =
                    byte_letters().map(|(letter, byte)| (byte, letter)).collect();
                all.sort_by_key(|(byte, _)| *byte);
                Ok(Self::Bytes {
                    letters: all.into_iter().map(|(_, letter)| letter).collect(),
                    prefix: flag("add_prefix_space", true),
                    words: flag("use_regex", true).then(|| regex(WORDS)).transpose()?,
                })
            }
            Some("Split") => {
                let pattern = json.get("pattern").unwrap_or(&Json::Null);
                let pattern = match (text(pattern, "Regex"), text(pattern, "String")) {
                    (Some(pattern), _) => regex(&pattern)?,
                    (_, Some(plain)) => regex(&fancy_regex::escape(&plain))?,
                    _ => return Err(unsupported("splitter", json)),
                };
                let behavior = json.get("behavior").and_then(Json::as_str);
                let matches = match (behavior, flag("invert", false)) {
                    (Some("Isolated"), _) => Matches::Isolated,
                    (Some("Removed"), false) => Matches::Removed,
                    (Some("Removed"), true) => Matches::Kept,
                    (Some("MergedWithPrevious"), false) => Matches::WithPrevious,
                    (Some("MergedWithNext"), false) => Matches::WithNext,
                    _ => return Err(unsupported("splitter", json)),
                };
                Ok(Self::Pattern { pattern, matches })
            }
            Some("WhitespaceSplit") => {
                Ok(Self::Pattern { pattern: regex(r"\s+")?, matches: Matches::Removed })
            }
            Some("Digits") if flag("individual_digits", false) => isolated(r"\p{N}"),
            Some("Digits") => isolated(r"\p{N}+"),
            Some("Punctuation") => isolated(PUNCTUATION),
            Some("BertPreTokenizer") => Ok(Self::Pattern {
                pattern: regex(&format!(r"[^\s{PUNCTUATION}]+|{PUNCTUATION}"))?,
                matches: Matches::Kept,
            }),
            Some("Metaspace") => Ok(Self::Spaces {
                letter: text(json, "replacement").unwrap_or_else(|| "\u{2581}".to_owned()),
                prefix: match json.get("prepend_scheme").and_then(Json::as_str) {
                    Some("never") => Prefix::Never,
                    Some("first") => Prefix::First,
                    Some(_) => Prefix::Always,
                    None if flag("add_prefix_space", true) => Prefix::Always,
                    None => Prefix::Never,
                },
                split: flag("split", true),
            }),
            _ => Err(unsupported("splitter", json)),
        }
    }

    /// The pieces of pieces. `first` says whether they start the text.
    pub(super) fn of_pieces(&self, pieces: Vec<String>, first: bool) -> Result<Vec<String>> {
        let mut out = Vec::new();
        for (place, piece) in pieces.into_iter().enumerate() {
            let first = first && place == 0;
            match self {
                Self::Pattern { pattern, matches } => split(pattern, *matches, &piece, &mut out)?,
                Self::Bytes { letters, prefix, words } => {
                    let before = if *prefix && !piece.starts_with(' ') { " " } else { "" };
                    let piece = format!("{before}{piece}");
                    let mut words_of = Vec::new();
                    match words {
                        Some(words) => split(words, Matches::Isolated, &piece, &mut words_of)?,
                        None => words_of.push(piece),
                    }
                    let spell = |byte: u8| letters.get(usize::from(byte)).copied();
                    out.extend(
                        words_of.iter().map(|word| word.bytes().filter_map(spell).collect()),
                    );
                }
                Self::Spaces { letter, prefix, split: apart } => {
                    let mut piece = piece.replace(' ', letter);
                    let wanted = *prefix == Prefix::Always || *prefix == Prefix::First && first;
                    if wanted && !piece.starts_with(letter.as_str()) {
                        piece.insert_str(0, letter);
                    }
                    match apart {
                        true => {
                            let pattern = regex(&fancy_regex::escape(letter))?;
                            split(&pattern, Matches::WithNext, &piece, &mut out)?;
                        }
                        false => out.push(piece),
                    }
                }
            }
        }
        Ok(out)
    }
}

/// The pieces that a pattern makes of a text; empty ones are dropped.
fn split(pattern: &Regex, matches: Matches, text: &str, out: &mut Vec<String>) -> Result<()> {
    // Where pieces end, and whether the piece that ends there stays.
    let mut ends: Vec<(usize, bool)> = Vec::new();
    for found in pattern.find_iter(text) {
        let found = found.map_err(not_matched)?;
        ends.extend(match matches {
            Matches::Isolated => [(found.start(), true), (found.end(), true)],
            Matches::Removed => [(found.start(), true), (found.end(), false)],
            Matches::Kept => [(found.start(), false), (found.end(), true)],
            Matches::WithPrevious => [(found.end(), true); 2],
            Matches::WithNext => [(found.start(), true); 2],
        });
    }
    ends.push((text.len(), matches != Matches::Kept));
    let mut start = 0;
    for (end, stays) in ends {
        let piece = text.get(start..end).filter(|piece| stays && !piece.is_empty());
        out.extend(piece.map(str::to_owned));
        start = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(json: Json, text: &str) -> Vec<String> {
        let splitter = Splitter::of(&json).expect("a splitter");
        splitter.of_pieces(vec![text.to_owned()], true).expect("pieces")
    }

    #[test]
    fn words_take_the_space_before_them() {
        let json = weighbridge::json::json!({"type": "ByteLevel", "add_prefix_space": false});
        assert_eq!(pieces(json, "Two  mills, 12!"), ["Two", "Ġ", "Ġmills", ",", "Ġ12", "!"]);
    }

    #[test]
    fn matches_go_where_the_behavior_says() {
        let json = |behavior: &str| weighbridge::json::json!({"type": "Split", "pattern": {"String": "-"}, "behavior": behavior});
        assert_eq!(pieces(json("Isolated"), "a-b"), ["a", "-", "b"]);
        assert_eq!(pieces(json("Removed"), "a-b"), ["a", "b"]);
        assert_eq!(pieces(json("MergedWithPrevious"), "a-b"), ["a-", "b"]);
        assert_eq!(pieces(json("MergedWithNext"), "a-b"), ["a", "-b"]);
    }

    #[test]
    fn spaces_become_letters() {
        let json = weighbridge::json::json!({"type": "Metaspace", "prepend_scheme": "first"});
        assert_eq!(pieces(json, "two mills"), ["\u{2581}two", "\u{2581}mills"]);
    }
}
