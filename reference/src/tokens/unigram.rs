//! Pieces with scores: a text is cut where the sum of its pieces' scores is highest (Kudo, "Subword
//! Regularization", 2018).

use std::ops::Range;

use weighbridge::json::Json;
use weighbridge::tokenizer::{TokenizerTables, VocabularyTable};

use super::aligned::Aligned;
use super::document::{id, text};
use super::found::{Found, byte_tokens};
use crate::error::{Error, Result};

/// The score of a character without a piece, below the least score.
const PENALTY: f64 = 10.0;

/// A vocabulary of pieces.
#[derive(Debug)]
pub(super) struct Unigram {
    pieces: VocabularyTable,
    unknown: Option<u32>,
    unknown_score: f64,
    /// Tokens of bytes, which stand for characters without a piece.
    bytes: Option<Vec<u32>>,
}

impl Unigram {
    pub(super) fn new(tables: TokenizerTables) -> Self {
        let pieces = tables.vocabulary;
        let json = tables.settings.get("model").unwrap_or(&Json::Null);
        let scores = pieces.iter().map(|(_, _, score)| score);
        let falls_back = json.get("byte_fallback").and_then(Json::as_bool).unwrap_or(false);
        Self {
            unknown_score: scores.fold(f64::INFINITY, f64::min) - PENALTY,
            bytes: falls_back.then(|| byte_tokens(&pieces)).flatten(),
            unknown: json.get("unk_id").and_then(id),
            pieces,
        }
    }

    /// Appends the tokens of a piece of a text.
    pub(super) fn tokens(
        &self,
        text: &str,
        range: Range<usize>,
        out: &mut Vec<Found>,
    ) -> Result<()> {
        let mut unknown_before = false;
        let piece = text.get(range.clone()).unwrap_or_default();
        for (part, token) in self.best(piece) {
            let text = piece.get(part.clone()).unwrap_or_default();
            let range = range.start + part.start..range.start + part.end;
            match (token, &self.bytes, self.unknown) {
                (Some(id), ..) => out.push(Found { id, range }),
                (None, Some(bytes), _) => {
                    for (byte, start) in text.bytes().zip(range.start..) {
                        let id = bytes.get(usize::from(byte)).copied();
                        out.extend(id.map(|id| Found { id, range: start..start + 1 }));
                    }
                }
                // Neighbors are one unknown token.
                (None, None, Some(_)) if unknown_before => {
                    if let Some(last) = out.last_mut() {
                        last.range.end = range.end;
                    }
                }
                (None, None, Some(id)) => out.push(Found { id, range }),
                (None, None, None) => {
                    return Err(Error::Input(format!("no token stands for {text:?}")));
                }
            }
            unknown_before = token.is_none();
        }
        Ok(())
    }

    /// The parts with the highest sum of scores, each with its token, if a piece stands for it.
    fn best(&self, text: &str) -> Vec<(Range<usize>, Option<u32>)> {
        // For each end of a part, the best sum up to there, where its last part starts, and its token.
        let mut ends: Vec<Option<(f64, usize, Option<u32>)>> = vec![None; text.len() + 1];
        for (start, letter) in text.char_indices() {
            let so_far = match start {
                0 => 0.0,
                _ => ends.get(start).copied().flatten().map_or(0.0, |(sum, ..)| sum),
            };
            let mut offer = |end: usize, score: f64, token: Option<u32>| {
                let sum = so_far + score;
                if let Some(best) = ends.get_mut(end)
                    && best.is_none_or(|(other, ..)| sum > other)
                {
                    *best = Some((sum, start, token));
                }
            };
            let single = start + letter.len_utf8();
            let mut has_single = false;
            let rest = text.get(start..).unwrap_or_default();
            for (place, letter) in rest.char_indices() {
                let end = place + letter.len_utf8();
                if end > self.pieces.longest() {
                    break;
                }
                let found = rest.get(..end).and_then(|part| self.pieces.scored(part.as_bytes()));
                if let Some((token, score)) = found {
                    offer(start + end, score, Some(token));
                    has_single |= start + end == single;
                }
            }
            if !has_single {
                offer(single, self.unknown_score, None);
            }
        }
        let mut parts = Vec::new();
        let mut end = text.len();
        while let Some((_, start, token)) = ends.get(end).copied().flatten().filter(|_| end > 0) {
            parts.push((start..end, token));
            end = start;
        }
        parts.reverse();
        parts
    }
}

/// Replacements of characters, as sentencepiece compiles them: a trie as a double array (Yata's
/// darts-clone), and the texts that its values are offsets of.
#[derive(Debug)]
pub(super) struct Replacements {
    units: Vec<u32>,
    texts: Vec<u8>,
}

impl Replacements {
    /// Those of a normalizer `Precompiled`.
    pub(super) fn of(json: &Json) -> Result<Self> {
        use base64::Engine;
        let encoded = text(json, "precompiled_charsmap").unwrap_or_default();
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok();
        let read = || {
            let bytes = bytes.as_deref()?;
            if bytes.is_empty() {
                return Some(Self { units: Vec::new(), texts: Vec::new() });
            }
            let (size, rest) = bytes.split_first_chunk::<4>()?;
            let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
            let (trie, texts) = rest.split_at_checked(size)?;
            let (units, _) = trie.as_chunks::<4>();
            let units = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
            Some(Self { units, texts: texts.to_vec() })
        };
        read().ok_or_else(|| {
            Error::Mismatch("tokenizer.json: precompiled_charsmap is malformed".to_owned())
        })
    }

    /// The replacement of the shortest beginning of `part` that has one.
    fn of_start(&self, part: &str) -> Option<&str> {
        let at = |place: u32| self.units.get(usize::try_from(place).ok()?).copied();
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut place = offset(at(0)?);
        for byte in part.bytes() {
            place ^= u32::from(byte);
            let unit = at(place)?;
            if unit & ((1 << 31) | 0xff) != u32::from(byte) {
                return None;
            }
            place ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                let start = usize::try_from(at(place)? & ((1 << 31) - 1)).ok()?;
                let rest = self.texts.get(start..)?;
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                return std::str::from_utf8(rest.get(..end)?).ok();
            }
        }
        None
    }

    /// As Hugging Face's tokenizers apply them: to short clusters of characters as a whole, else to
    /// each character.
    pub(super) fn apply(&self, aligned: &mut Aligned<'_>) {
        use unicode_segmentation::UnicodeSegmentation;
        aligned.edit(|editor| {
            for (start, cluster) in editor.old.grapheme_indices(true) {
                let whole = Some(cluster).filter(|cluster| cluster.len() < 6);
                if let Some(by) = whole.and_then(|cluster| self.of_start(cluster)) {
                    editor.replace(start + cluster.len(), by);
                    continue;
                }
                let mut buffer = [0; 4];
                for (place, letter) in cluster.char_indices() {
                    let end = start + place + letter.len_utf8();
                    match self.of_start(letter.encode_utf8(&mut buffer)) {
                        Some(by) => editor.replace(end, by),
                        None => editor.keep(end),
                    }
                }
            }
        });
    }
}
