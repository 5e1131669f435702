//! Words in the longest pieces that the vocabulary has, from the front.

use std::collections::HashMap;

use weighbridge::json::Json;

use super::document::{id, text, unsupported};
use crate::error::{Error, Result};

/// A vocabulary of pieces.
#[derive(Debug)]
pub(super) struct WordPiece {
    ids: HashMap<String, u32>,
    /// What pieces within a word start with.
    prefix: String,
    unknown: u32,
    /// The characters of the longest word that is looked up.
    longest: usize,
}

impl WordPiece {
    pub(super) fn of(json: &Json) -> Result<Self> {
        let vocabulary = json.get("vocab").and_then(Json::as_object);
        let vocabulary = vocabulary.ok_or_else(|| unsupported("model", json))?;
        let ids = vocabulary.iter().filter_map(|(text, token)| Some((text.clone(), id(token)?)));
        let ids: HashMap<String, u32> = ids.collect();
        let unknown = text(json, "unk_token").unwrap_or_else(|| "[UNK]".to_owned());
        let unknown = ids.get(&unknown).copied().ok_or_else(|| {
            Error::Mismatch(format!("tokenizer.json: {unknown} is not in the vocabulary"))
        })?;
        let longest = json.get("max_input_chars_per_word").and_then(Json::as_u64);
        Ok(Self {
            ids,
            prefix: text(json, "continuing_subword_prefix").unwrap_or_else(|| "##".to_owned()),
            unknown,
            longest: longest.and_then(|longest| usize::try_from(longest).ok()).unwrap_or(100),
        })
    }

    /// Appends the tokens of a word.
    pub(super) fn tokens(&self, word: &str, out: &mut Vec<u32>) {
        match self.pieces(word) {
            Some(pieces) => out.extend(pieces),
            None => out.push(self.unknown),
        }
    }

    /// The pieces of a word; `None` if it has a part that no piece covers.
    fn pieces(&self, word: &str) -> Option<Vec<u32>> {
        if word.chars().count() > self.longest {
            return None;
        }
        let mut found = Vec::new();
        let mut rest = word;
        while !rest.is_empty() {
            let prefix = if found.is_empty() { "" } else { self.prefix.as_str() };
            let ends = rest.char_indices().map(|(start, letter)| start + letter.len_utf8());
            let longest = ends.rev().find_map(|end| {
                let piece = rest.get(..end)?;
                Some((*self.ids.get(&format!("{prefix}{piece}"))?, end))
            });
            let (token, end) = longest?;
            found.push(token);
            rest = rest.get(end..)?;
        }
        Some(found)
    }
}
