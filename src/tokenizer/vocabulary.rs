//! A vocabulary in a separate file: the file's bytes, and the location of each token in them.

use std::borrow::Cow;
use std::ops::Range;

use super::kinds::{Merge, Token, TokenKind, TokenizerKind};
use crate::error::{Error, Result};
use crate::json::{Json, JsonSpan, Scanner};
use crate::limits::Limits;

/// A range of the file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TextRange {
    start: u32,
    len: u32,
}

/// Set in `len` if the text contains JSON escapes.
const ESCAPED: u32 = 1 << 31;

impl TextRange {
    pub(crate) fn new(range: Range<usize>, escaped: bool) -> Result<Self> {
        let len = range.end.saturating_sub(range.start);
        match (u32::try_from(range.start), u32::try_from(len)) {
            (Ok(start), Ok(len)) if len < ESCAPED => {
                Ok(Self { start, len: if escaped { len | ESCAPED } else { len } })
            }
            _ => Err(Error::unsupported("the vocabulary is larger than 4 GiB")),
        }
    }

    /// The location of a JSON string. Its escapes are validated here.
    pub(crate) fn of(scanner: &Scanner<'_>, span: &JsonSpan) -> Result<Self> {
        scanner.unescape(span)?;
        Self::new(span.range.clone(), span.escaped)
    }

    pub(super) fn bytes(self, file: &[u8]) -> Cow<'_, [u8]> {
        let (start, len) = (self.start as usize, (self.len & !ESCAPED) as usize);
        let raw = file.get(start..start.saturating_add(len)).unwrap_or_default();
        if self.len & ESCAPED == 0 {
            return Cow::Borrowed(raw);
        }
        let span = JsonSpan { range: 0..raw.len(), escaped: true };
        Scanner::new(raw, 0)
            .unescape(&span)
            .map_or(Cow::Borrowed(raw), |text| Cow::Owned(text.into_owned()))
    }
}

/// A token before its text is decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VocabularyEntry {
    pub(crate) id: u32,
    pub(crate) place: TextRange,
    /// NaN if there is no score. Those of `tokenizer.json` have 64 bits.
    pub(crate) score: f64,
    pub(crate) kind: Option<TokenKind>,
}

/// Two tokens: in one text with a space between them, or in two texts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MergeEntry {
    Joined(TextRange),
    Apart(TextRange, TextRange),
}

/// The tokens and merges of a file.
#[derive(Debug)]
pub(crate) struct Vocabulary<'a> {
    pub(crate) kind: TokenizerKind,
    bytes: Cow<'a, [u8]>,
    /// The content of `merges.txt`, which is a separate file.
    merge_bytes: Option<Vec<u8>>,
    /// Ordered by id.
    pieces: Vec<VocabularyEntry>,
    merges: Vec<MergeEntry>,
    /// Special tokens that the file itself names.
    pub(crate) special: Vec<(&'static str, u32)>,
    /// SentencePiece's normalization of a text.
    pub(crate) normalizer: Option<Normalizer>,
    /// The `decoder` of `tokenizer.json`, which may be null; `None` for other files.
    pub(crate) decoder: Option<Json>,
}

/// SentencePiece's normalization of a text.
#[derive(Clone, Debug)]
pub(crate) struct Normalizer {
    /// Whether a space is put before a text.
    pub(crate) adds_space: bool,
    /// Whether spaces around a text are dropped, and several in a row become one.
    pub(crate) removes_spaces: bool,
    /// The compiled table of characters to replace; empty if there is none.
    pub(crate) charsmap: Vec<u8>,
}

impl<'a> Vocabulary<'a> {
    /// Takes pieces in any order, each with a unique id.
    pub(crate) fn new(
        kind: TokenizerKind,
        bytes: Cow<'a, [u8]>,
        mut pieces: Vec<VocabularyEntry>,
        merges: Vec<MergeEntry>,
    ) -> Result<Self> {
        pieces.sort_by_key(|piece| piece.id);
        let twice = pieces.windows(2).find(|pair| matches!(pair, [a, b] if a.id == b.id));
        if let Some([first, second]) = twice {
            let name = |piece: &VocabularyEntry| {
                crate::bytes::Text::new(&piece.place.bytes(&bytes)).brief()
            };
            let (a, b) = (name(first), name(second));
            return Err(Error::malformed(format!(
                "two tokens have the number {}: \"{a}\" and \"{b}\"",
                first.id
            )));
        }
        let special = Vec::new();
        let (merge_bytes, normalizer, decoder) = (None, None, None);
        Ok(Self { kind, bytes, merge_bytes, pieces, merges, special, normalizer, decoder })
    }

    /// Adds merges that are stored in a separate file.
    pub(crate) fn with_merges(mut self, merges: Vec<MergeEntry>, bytes: Vec<u8>) -> Self {
        (self.merges, self.merge_bytes) = (merges, Some(bytes));
        self
    }

    /// Renumbers SentencePiece's pieces in fairseq's order, which XLM-RoBERTa, mBART and NLLB use:
    /// `<s>`, `<pad>`, `</s>`, `<unk>`, and then the pieces from the fourth on. `rows` is the number
    /// of rows of the embedding, if the config states it: a mask token takes the row after the last
    /// piece if there is exactly one more.
    pub(crate) fn in_order_of_fairseq(mut self, rows: Option<u64>) -> Result<Self> {
        let bytes = self.bytes.to_mut();
        let mut added = |text: &str| {
            let start = bytes.len();
            bytes.extend_from_slice(text.as_bytes());
            TextRange::new(start..bytes.len(), false)
        };
        let mask = u32::try_from(self.pieces.len()).unwrap_or(u32::MAX).saturating_add(1);
        let control = Some(TokenKind::Control);
        let mut first = vec![
            (0, added("<s>")?, control),
            (1, added("<pad>")?, control),
            (2, added("</s>")?, control),
            (3, added("<unk>")?, Some(TokenKind::Unknown)),
        ];
        self.special = vec![("bos", 0), ("eos", 2), ("unk", 3), ("sep", 2), ("pad", 1), ("cls", 0)];
        if rows == Some(u64::from(mask).saturating_add(1)) {
            first.push((mask, added("<mask>")?, control));
            self.special.push(("mask", mask));
        }
        self.pieces.drain(..self.pieces.len().min(3));
        self.pieces.iter_mut().for_each(|piece| piece.id = piece.id.saturating_add(1));
        let entry = |(id, place, kind)| VocabularyEntry { id, place, score: 0.0, kind };
        self.pieces.extend(first.into_iter().map(entry));
        self.pieces.sort_by_key(|piece| piece.id);
        Ok(self)
    }

    /// Adds tokens that another file lists by number, which take the places of others.
    pub(crate) fn with_added<'t>(
        mut self,
        tokens: impl Iterator<Item = (u32, &'t str, TokenKind)>,
    ) -> Result<Self> {
        for (id, text, kind) in tokens {
            let at = self.pieces.binary_search_by_key(&id, |piece| piece.id);
            let listed = at.ok().and_then(|at| self.pieces.get_mut(at));
            let mut listed =
                listed.filter(|piece| *piece.place.bytes(&self.bytes) == *text.as_bytes());
            if let Some(piece) = &mut listed {
                // A file of pieces says more about those that are no text.
                if piece.kind.is_none_or(|kind| kind == TokenKind::Normal) {
                    piece.kind = Some(kind.merged(text.as_bytes()));
                }
                continue;
            }
            let bytes = self.bytes.to_mut();
            let start = bytes.len();
            bytes.extend_from_slice(text.as_bytes());
            let place = TextRange::new(start..bytes.len(), false)?;
            let added = VocabularyEntry { id, place, score: 0.0, kind: Some(kind) };
            match at {
                Ok(at) => self.pieces.get_mut(at).into_iter().for_each(|piece| *piece = added),
                Err(at) => self.pieces.insert(at, added),
            }
        }
        Ok(self)
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn has(&self, id: u32) -> bool {
        self.pieces.binary_search_by_key(&id, |piece| piece.id).is_ok()
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores of other files have 32 bits")]
    pub(crate) fn tokens(&self) -> impl Iterator<Item = Token<'_>> {
        self.pieces.iter().map(|piece| Token {
            id: piece.id,
            text: piece.place.bytes(&self.bytes),
            score: Some(piece.score as f32).filter(|score| !score.is_nan()),
            kind: piece.kind,
        })
    }

    /// Numbers, texts and scores.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, Cow<'_, [u8]>, f64)> {
        self.pieces.iter().map(|piece| {
            let score = if piece.score.is_nan() { 0.0 } else { piece.score };
            (piece.id, piece.place.bytes(&self.bytes), score)
        })
    }

    pub(crate) fn merges(&self) -> impl Iterator<Item = Merge<'_>> {
        let bytes = self.merge_bytes.as_deref().unwrap_or(&self.bytes);
        self.merges.iter().map(move |merge| match merge {
            MergeEntry::Apart(first, second) => (first.bytes(bytes), second.bytes(bytes)),
            MergeEntry::Joined(place) => match place.bytes(bytes) {
                Cow::Borrowed(text) => {
                    let (first, second) = pair(text);
                    (first.into(), second.into())
                }
                Cow::Owned(text) => {
                    let (first, second) = pair(&text);
                    (first.to_vec().into(), second.to_vec().into())
                }
            },
        })
    }
}

/// Splits the text of a merge into two tokens, at the first space that is not the first character.
pub(crate) fn pair(text: &[u8]) -> (&[u8], &[u8]) {
    let space =
        text.iter().skip(1).position(|&byte| byte == b' ').map(|place| place.saturating_add(1));
    let (first, rest) = text.split_at(space.unwrap_or(text.len()));
    (first, rest.get(1..).unwrap_or_default())
}

/// Adds an item, unless the limit is reached.
pub(crate) fn push<T>(items: &mut Vec<T>, item: T, limits: &Limits) -> Result<()> {
    let most = limits.vocabulary_items;
    if items.len() as u64 >= most {
        let found = (items.len() as u64).saturating_add(1);
        return Err(Error::limit("tokens or merges", found, most, "vocabulary_items"));
    }
    items.push(item);
    Ok(())
}
