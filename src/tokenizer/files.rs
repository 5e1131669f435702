//! Finds the file beside the weights that holds the vocabulary.

use std::borrow::Cow;

use super::vocabulary::Vocabulary;
use super::{json, lines, sentencepiece};
use crate::error::Result;
use crate::limits::Limits;
use crate::store::Store;

/// Parses a vocabulary from the content of its file.
type Parse = fn(Cow<'static, [u8]>, &Limits) -> Result<Vocabulary<'static>>;

/// The files that may hold a vocabulary, the most complete first.
const FILES: [(&str, Parse); 4] = [
    ("tokenizer.json", json::tokenizer),
    ("tokenizer.model", sentencepiece::tokenizer),
    ("vocab.json", json::vocabulary),
    ("vocab.txt", lines::vocabulary),
];

/// The vocabulary beside the weights, and the name of its file.
pub(crate) fn beside(store: &Store) -> Result<Option<(Vocabulary<'static>, &'static str)>> {
    let limits = store.limits();
    let limit = (limits.vocabulary_bytes, "vocabulary_bytes");
    for (name, parse) in FILES {
        let Some(file) = store.read_companion(name, limit)? else { continue };
        let mut vocabulary =
            parse(file.bytes.into(), limits).map_err(|error| error.in_file(&file.path))?;
        if name == "vocab.json"
            && let Some(file) = store.read_companion("merges.txt", limit)?
        {
            let merges = lines::merges(&file.bytes, limits);
            let merges = merges.map_err(|error| error.in_file(&file.path))?;
            vocabulary = vocabulary.with_merges(merges, file.bytes);
        }
        return Ok(Some((vocabulary, name)));
    }
    Ok(None)
}
