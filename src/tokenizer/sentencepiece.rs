//! `tokenizer.model`, `spiece.model` and `sentencepiece.bpe.model`: a protocol buffer of SentencePiece, of which only a few fields are read.
//!
//! ```text
//! ModelProto:    1 pieces (message, repeated), 2 trainer, 3 normalizer (messages), others skipped
//! SentencePiece: 1 piece (bytes), 2 score (32-bit float), 3 type (varint, 1 where it is missing)
//! TrainerSpec:   3 model type (varint: 1 unigram, 2 BPE, 3 words, 4 characters),
//!                40 unk, 41 bos, 42 eos, 43 pad (varints; -1 for none)
//! NormalizerSpec: 2 table of characters (bytes), 3 space before a text,
//!                4 extra spaces removed (varints, 1 where they are missing)
//! ```
//!
//! The field numbers are those of `sentencepiece_model.proto` in google/sentencepiece.

use std::borrow::Cow;
use std::ops::Range;

use super::kinds::{TokenKind, TokenizerKind};
use super::vocabulary::{Normalizer, TextRange, Vocabulary, VocabularyEntry, push};
use crate::error::{Error, Result};
use crate::limits::Limits;

/// A field's value.
enum WireValue {
    Varint(u64),
    Fixed32([u8; 4]),
    /// Eight bytes; no field that is read has this type.
    Fixed64,
    Bytes(Range<usize>),
}

/// A position in a message.
struct Message<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl Message<'_> {
    fn error(&self, fault: impl Into<Cow<'static, str>>) -> Error {
        Error::malformed(fault).at(self.at as u64)
    }

    fn take(&mut self, len: u64) -> Result<Range<usize>> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end.filter(|&end| end <= self.end) {
            Some(end) => {
                let range = self.at..end;
                self.at = end;
                Ok(range)
            }
            None => {
                let left = self.end.saturating_sub(self.at);
                Err(self.error(format!("{len} bytes, but the message ends after {left}")).advise(
                    "the file is incomplete or not a SentencePiece model: download it again",
                ))
            }
        }
    }

    fn byte(&mut self) -> Result<u8> {
        let range = self.take(1)?;
        Ok(self.file.get(range.start).copied().unwrap_or(0))
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits != 0 && bits.leading_zeros() < shift {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.error("the number does not fit in 64 bits"))
    }

    /// Reads the next field's number and value.
    fn next(&mut self) -> Result<Option<(u64, WireValue)>> {
        if self.at == self.end {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                WireValue::Fixed64
            }
            2 => {
                let len = self.varint()?;
                WireValue::Bytes(self.take(len)?)
            }
            5 => {
                let range = self.take(4)?;
                let bytes = self.file.get(range).and_then(|bytes| bytes.first_chunk::<4>());
                WireValue::Fixed32(bytes.copied().unwrap_or_default())
            }
            other => {
                return Err(self.error(format!("unsupported protocol buffer wire type: {other}")));
            }
        };
        Ok(Some((tag >> 3, value)))
    }

    fn inner(&self, range: Range<usize>) -> Self {
        Self { file: self.file, at: range.start, end: range.end }
    }
}

/// Parses a `tokenizer.model`.
pub(crate) fn tokenizer<'a>(bytes: Cow<'a, [u8]>, limits: &Limits) -> Result<Vocabulary<'a>> {
    let mut model = Message { file: &bytes, at: 0, end: bytes.len() };
    let mut pieces = Vec::new();
    // The trainer's defaults for missing fields.
    let mut normalizer =
        Normalizer { adds_space: true, removes_spaces: true, charsmap: Vec::new() };
    let (mut method, mut special) = (1, [("unk", 0), ("bos", 1), ("eos", 2), ("pad", -1)]);
    while let Some((field, value)) = model.next()? {
        match (field, value) {
            (1, WireValue::Bytes(range)) => {
                let id = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
                push(&mut pieces, piece(model.inner(range), id)?, limits)?;
            }
            (2, WireValue::Bytes(range)) => {
                let mut trainer = model.inner(range);
                while let Some((field, value)) = trainer.next()? {
                    let WireValue::Varint(number) = value else { continue };
                    match field {
                        3 => method = number,
                        40..=43 => {
                            let slot = special.get_mut(usize::try_from(field - 40).unwrap_or(0));
                            // Negative numbers are stored as 64-bit numbers.
                            slot.into_iter().for_each(|slot| slot.1 = number.cast_signed());
                        }
                        _ => {}
                    }
                }
            }
            (3, WireValue::Bytes(range)) => {
                let mut spec = model.inner(range);
                while let Some((field, value)) = spec.next()? {
                    match (field, value) {
                        (2, WireValue::Bytes(range)) => {
                            normalizer.charsmap = bytes.get(range).unwrap_or_default().to_vec();
                        }
                        (3, WireValue::Varint(flag)) => normalizer.adds_space = flag != 0,
                        (4, WireValue::Varint(flag)) => normalizer.removes_spaces = flag != 0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if pieces.is_empty() {
        return Err(Error::malformed("no pieces: this is not a SentencePiece model").at(0));
    }
    let kind = match method {
        1 => TokenizerKind::Unigram,
        2 => TokenizerKind::SentencePiece,
        3 => TokenizerKind::Other("words".to_owned()),
        4 => TokenizerKind::Other("characters".to_owned()),
        other => TokenizerKind::Other(other.to_string()),
    };
    if kind == TokenizerKind::SentencePiece {
        for piece in &mut pieces {
            let text = piece.place.bytes(&bytes);
            piece.kind = piece.kind.map(|kind| kind.merged(&text));
        }
    }
    let count = pieces.len();
    let mut vocabulary = Vocabulary::new(kind, bytes, pieces, Vec::new())?;
    let there = |(name, id): (&'static str, i64)| {
        let id = u32::try_from(id).ok().filter(|&id| (id as usize) < count)?;
        Some((name, id))
    };
    vocabulary.normalizer = Some(normalizer);
    vocabulary.special.extend(special.into_iter().filter_map(there));
    Ok(vocabulary)
}

fn piece(mut message: Message<'_>, id: u32) -> Result<VocabularyEntry> {
    let start = message.at;
    let mut piece = VocabularyEntry {
        id,
        place: TextRange::new(start..start, false)?,
        score: 0.0,
        kind: Some(TokenKind::Normal),
    };
    while let Some((field, value)) = message.next()? {
        match (field, value) {
            (1, WireValue::Bytes(range)) => piece.place = TextRange::new(range, false)?,
            (2, WireValue::Fixed32(bytes)) => piece.score = f32::from_le_bytes(bytes).into(),
            (3, WireValue::Varint(code)) => piece.kind = TokenKind::from_code(code.into()),
            (1..=3, _) => {
                return Err(message.error(format!("field {field} has the wrong wire type")));
            }
            _ => {}
        }
    }
    Ok(piece)
}
