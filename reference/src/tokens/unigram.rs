//! Pieces with scores: a text is cut where the sum of its pieces' scores is highest (Kudo, "Subword
//! Regularization", 2018).

use std::collections::HashMap;

use weighbridge::json::Json;

use super::document::{text, unsupported};
use crate::error::{Error, Result};

/// How much less than the least score a character without a piece counts.
const PENALTY: f64 = 10.0;

/// A vocabulary of pieces.
#[derive(Debug)]
pub(super) struct Unigram {
    pieces: HashMap<String, (u32, f64)>,
    /// Bytes of the longest piece.
    longest: usize,
    unknown: Option<u32>,
    unknown_score: f64,
    /// Tokens of bytes, which stand for characters without a piece.
    bytes: Option<Vec<u32>>,
}

impl Unigram {
    pub(super) fn of(json: &Json) -> Result<Self> {
        let listed = json.get("vocab").and_then(Json::as_array);
        let listed = listed.ok_or_else(|| unsupported("model", json))?;
        let mut pieces = HashMap::new();
        for (piece, token) in listed.iter().zip(0u32..) {
            let read = || Some((piece[0].as_str()?, piece[1].as_f64()?));
            let (text, score) = read().ok_or_else(|| {
                Error::Mismatch(format!("tokenizer.json: piece {token} is no text with a score"))
            })?;
            pieces.insert(text.to_owned(), (token, score));
        }
        let least = pieces.values().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        let falls_back = json.get("byte_fallback").and_then(Json::as_bool).unwrap_or(false);
        let bytes = (0..=255u8).map(|byte| Some(pieces.get(&format!("<0x{byte:02X}>"))?.0));
        Ok(Self {
            longest: pieces.keys().map(String::len).max().unwrap_or(0),
            bytes: if falls_back { bytes.collect() } else { None },
            unknown: json.get("unk_id").and_then(super::id),
            unknown_score: least - PENALTY,
            pieces,
        })
    }

    /// Appends the tokens of a piece of text.
    pub(super) fn tokens(&self, text: &str, out: &mut Vec<u32>) -> Result<()> {
        let mut unknown_before = false;
        for (part, token) in self.best(text) {
            let is_unknown = token.is_none();
            match (token, &self.bytes) {
                (Some(token), _) => out.push(token),
                (None, Some(bytes)) => {
                    let of_byte = |byte: u8| bytes.get(usize::from(byte)).copied();
                    out.extend(part.bytes().filter_map(of_byte));
                }
                // Neighbours are one unknown token.
                (None, None) if unknown_before => {}
                (None, None) => out.push(
                    self.unknown
                        .ok_or_else(|| Error::Input(format!("no token stands for {part:?}")))?,
                ),
            }
            unknown_before = is_unknown;
        }
        Ok(())
    }

    /// The parts with the highest sum of scores, each with its token, if a piece stands for it.
    fn best<'t>(&self, text: &'t str) -> Vec<(&'t str, Option<u32>)> {
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
                if end > self.longest {
                    break;
                }
                if let Some((token, score)) = rest.get(..end).and_then(|part| self.pieces.get(part))
                {
                    offer(start + end, *score, Some(*token));
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
            parts.push((text.get(start..end).unwrap_or_default(), token));
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

    /// What the shortest beginning of `part` that has a replacement is replaced with.
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
    pub(super) fn of_text(&self, text: &str) -> String {
        use unicode_segmentation::UnicodeSegmentation;
        let mut out = String::with_capacity(text.len());
        for cluster in text.graphemes(true) {
            let whole = Some(cluster).filter(|cluster| cluster.len() < 6);
            if let Some(by) = whole.and_then(|cluster| self.of_start(cluster)) {
                out.push_str(by);
                continue;
            }
            let mut buffer = [0; 4];
            for letter in cluster.chars() {
                let letter: &str = letter.encode_utf8(&mut buffer);
                out.push_str(self.of_start(letter).unwrap_or(letter));
            }
        }
        out
    }
}
