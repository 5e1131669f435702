//! Words in the longest pieces that the vocabulary has, from the front; and words as wholes.

use std::ops::Range;

use weighbridge::json::Json;
use weighbridge::tokenizer::{TokenizerTables, VocabularyTable};

use super::document::text;
use super::found::Found;
use crate::error::{Error, Result};

/// A vocabulary of pieces.
#[derive(Debug)]
pub(super) struct WordPiece {
    vocabulary: VocabularyTable,
    /// The text that pieces within a word start with; `None` if words are not cut.
    prefix: Option<String>,
    unknown: u32,
    /// The characters of the longest word that is looked up.
    longest: usize,
}

impl WordPiece {
    /// `are_cut` says whether words are cut into pieces.
    pub(super) fn new(tables: TokenizerTables, are_cut: bool) -> Result<Self> {
        let TokenizerTables { settings, vocabulary, .. } = tables;
        let json = settings.get("model").unwrap_or(&Json::Null);
        let unknown = text(json, "unk_token").unwrap_or_else(|| "[UNK]".to_owned());
        let unknown = vocabulary.id(unknown.as_bytes()).ok_or_else(|| {
            Error::Mismatch(format!(
                "the tokenizer's unknown token {unknown} is not in its vocabulary of {} tokens",
                vocabulary.len()
            ))
        })?;
        let prefix = text(json, "continuing_subword_prefix").unwrap_or_else(|| "##".to_owned());
        let longest = json.get("max_input_chars_per_word").and_then(Json::as_u64);
        let longest = longest.and_then(|longest| usize::try_from(longest).ok()).unwrap_or(100);
        Ok(Self { vocabulary, prefix: are_cut.then_some(prefix), unknown, longest })
    }

    /// Appends the tokens of a word in a text.
    pub(super) fn tokens(&self, text: &str, range: Range<usize>, out: &mut Vec<Found>) {
        let word = text.get(range.clone()).unwrap_or_default();
        let before = out.len();
        let is_whole = match &self.prefix {
            None => match self.vocabulary.id(word.as_bytes()) {
                Some(id) => {
                    out.push(Found { id, range: range.clone() });
                    true
                }
                None => false,
            },
            Some(prefix) => self.pieces(word, prefix, range.start, out),
        };
        if !is_whole {
            out.truncate(before);
            out.push(Found { id: self.unknown, range });
        }
    }

    /// Appends the pieces of a word; false if it has a part that no piece covers.
    fn pieces(&self, word: &str, prefix: &str, base: usize, out: &mut Vec<Found>) -> bool {
        if word.len() > self.longest && word.chars().count() > self.longest {
            return false;
        }
        let mut piece = Vec::new();
        let mut start = 0;
        while start < word.len() {
            piece.clear();
            piece.extend_from_slice(if start > 0 { prefix.as_bytes() } else { b"" });
            let begin = piece.len();
            piece.extend_from_slice(word.as_bytes().get(start..).unwrap_or_default());
            let longest = piece.len().min(self.vocabulary.longest());
            let found = (begin + 1..=longest).rev().find_map(|end| {
                let is_end = word.is_char_boundary(start + end - begin);
                let text = piece.get(..end).filter(|_| is_end)?;
                Some((self.vocabulary.id(text)?, start + end - begin))
            });
            let Some((id, end)) = found else { return false };
            out.push(Found { id, range: base + start..base + end });
            start = end;
        }
        true
    }
}
