//! Vocabularies and merges as lines of text: BERT's `vocab.txt`, GPT-2's `merges.txt`.

use std::borrow::Cow;
use std::ops::Range;

use super::kinds::TokenizerKind;
use super::vocabulary::{MergeEntry, TextRange, Vocabulary, VocabularyEntry, push};
use crate::error::Result;
use crate::limits::Limits;

/// The ranges of lines, without line endings.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0usize;
    bytes.split_inclusive(|&byte| byte == b'\n').map(move |line| {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let range = start..start.saturating_add(text.len());
        start = start.saturating_add(line.len());
        range
    })
}

/// BERT's special tokens, which `vocab.txt` has under these names.
const SPECIAL: [(&str, &[u8]); 5] = [
    ("unk", b"[UNK]"),
    ("sep", b"[SEP]"),
    ("pad", b"[PAD]"),
    ("cls", b"[CLS]"),
    ("mask", b"[MASK]"),
];

/// Parses a vocabulary with one token per line, numbered from 0.
pub(crate) fn vocabulary<'a>(bytes: Cow<'a, [u8]>, limits: &Limits) -> Result<Vocabulary<'a>> {
    let mut pieces = Vec::new();
    for (id, range) in (0u32..).zip(lines(&bytes)) {
        let place = TextRange::new(range, false)?;
        push(&mut pieces, VocabularyEntry { id, place, score: f64::NAN, kind: None }, limits)?;
    }
    let mut vocabulary = Vocabulary::new(TokenizerKind::WordPiece, bytes, pieces, Vec::new())?;
    let mut special = Vec::new();
    for token in vocabulary.tokens() {
        let row = SPECIAL.iter().find(|(_, text)| *token.text == **text);
        special.extend(row.map(|(name, _)| (*name, token.id)));
    }
    vocabulary.special = special;
    Ok(vocabulary)
}

/// Parses merges, one per line; the first line may state a version.
pub(crate) fn merges(bytes: &[u8], limits: &Limits) -> Result<Vec<MergeEntry>> {
    let mut merges = Vec::new();
    for range in lines(bytes) {
        let text = bytes.get(range.clone()).unwrap_or_default();
        if text.is_empty() || (range.start == 0 && text.starts_with(b"#version")) {
            continue;
        }
        push(&mut merges, MergeEntry::Joined(TextRange::new(range, false)?), limits)?;
    }
    Ok(merges)
}
