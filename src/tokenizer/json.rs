//! `tokenizer.json` of Hugging Face's tokenizers library, and the older `vocab.json`.

use std::borrow::Cow;

use super::kinds::{TokenKind, TokenizerKind};
use super::vocabulary::{MergeEntry, TextRange, Vocabulary, VocabularyEntry, push};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::{Json, Map, Scanner};
use crate::limits::Limits;
use crate::store::document;

/// Iterates over an object; `member` consumes each value.
pub(super) fn object<'a>(
    scanner: &mut Scanner<'a>,
    mut member: impl FnMut(&mut Scanner<'a>, Cow<'a, [u8]>) -> Result<()>,
) -> Result<()> {
    scanner.expect(b'{')?;
    if scanner.eat(b'}') {
        return Ok(());
    }
    loop {
        let key = scanner.string()?;
        scanner.expect(b':')?;
        let key = scanner.unescape(&key)?;
        member(scanner, key)?;
        if !scanner.eat(b',') {
            return scanner.expect(b'}');
        }
    }
}

/// Iterates over a list; `element` consumes each value.
pub(super) fn list<'a>(
    scanner: &mut Scanner<'a>,
    mut element: impl FnMut(&mut Scanner<'a>) -> Result<()>,
) -> Result<()> {
    scanner.expect(b'[')?;
    if scanner.eat(b']') {
        return Ok(());
    }
    loop {
        element(scanner)?;
        if !scanner.eat(b',') {
            return scanner.expect(b']');
        }
    }
}

pub(super) fn id(scanner: &mut Scanner<'_>) -> Result<u32> {
    let number = scanner.integer()?;
    u32::try_from(number)
        .map_err(|_| scanner.error(format!("token number {number}, but it must fit in 32 bits")))
}

fn place(scanner: &mut Scanner<'_>) -> Result<TextRange> {
    let span = scanner.string()?;
    TextRange::of(scanner, &span)
}

fn number(scanner: &mut Scanner<'_>) -> Result<f64> {
    let before = scanner.rest();
    scanner.skip_value()?;
    let used = before.len().saturating_sub(scanner.rest().len());
    let text = std::str::from_utf8(before.get(..used).unwrap_or_default().trim_ascii());
    text.ok().and_then(|text| text.parse().ok()).ok_or_else(|| scanner.unexpected("a number"))
}

pub(super) fn is_null(scanner: &mut Scanner<'_>) -> bool {
    scanner.skip_space();
    scanner.eat_text(b"null")
}

pub(super) fn start(bytes: &[u8]) -> Result<Scanner<'_>> {
    if let Err(error) = std::str::from_utf8(bytes) {
        let at = error.valid_up_to() as u64;
        return Err(Error::malformed("not valid JSON: not UTF-8").at(at));
    }
    Ok(Scanner::new(bytes, 0))
}

pub(super) fn end(scanner: &mut Scanner<'_>) -> Result<()> {
    if scanner.at_end() {
        return Ok(());
    }
    Err(scanner.unexpected("its end"))
}

/// Tokens keyed by their text: `{"the": 5}`.
fn table(
    scanner: &mut Scanner<'_>,
    pieces: &mut Vec<VocabularyEntry>,
    limits: &Limits,
) -> Result<()> {
    scanner.expect(b'{')?;
    if scanner.eat(b'}') {
        return Ok(());
    }
    loop {
        let place = place(scanner)?;
        scanner.expect(b':')?;
        let piece = VocabularyEntry { id: id(scanner)?, place, score: f64::NAN, kind: None };
        push(pieces, piece, limits)?;
        if !scanner.eat(b',') {
            return scanner.expect(b'}');
        }
    }
}

/// Tokens in order, with their scores: `[["the", -3.5]]`.
fn scored(
    scanner: &mut Scanner<'_>,
    pieces: &mut Vec<VocabularyEntry>,
    limits: &Limits,
) -> Result<()> {
    list(scanner, |scanner| {
        scanner.expect(b'[')?;
        let place = place(scanner)?;
        scanner.expect(b',')?;
        let score = number(scanner)?;
        scanner.expect(b']')?;
        let id = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        push(pieces, VocabularyEntry { id, place, score, kind: None }, limits)
    })
}

/// Merges, written as `"t h"` or `["t", "h"]`.
fn merges(scanner: &mut Scanner<'_>, merges: &mut Vec<MergeEntry>, limits: &Limits) -> Result<()> {
    list(scanner, |scanner| {
        let merge = if scanner.eat(b'[') {
            let first = place(scanner)?;
            scanner.expect(b',')?;
            let second = place(scanner)?;
            scanner.expect(b']')?;
            MergeEntry::Apart(first, second)
        } else {
            MergeEntry::Joined(place(scanner)?)
        };
        push(merges, merge, limits)
    })
}

/// Added tokens, which are matched before the model runs. Each is treated as new.
fn added(
    scanner: &mut Scanner<'_>,
    pieces: &mut Vec<(VocabularyEntry, bool)>,
    limits: &Limits,
) -> Result<()> {
    list(scanner, |scanner| {
        let (mut number, mut text, mut special) = (None, None, false);
        object(scanner, |scanner, key| {
            match &*key {
                b"id" => number = Some(id(scanner)?),
                b"content" => text = Some(place(scanner)?),
                b"special" => {
                    scanner.skip_space();
                    special = scanner.eat_text(b"true");
                    if !special {
                        scanner.skip_value()?;
                    }
                }
                _ => scanner.skip_value()?,
            }
            Ok(())
        })?;
        let (Some(id), Some(place)) = (number, text) else {
            return Err(scanner.error("this added token has no id or no content"));
        };
        let kind = Some(if special { TokenKind::Control } else { TokenKind::UserDefined });
        push(pieces, (VocabularyEntry { id, place, score: f64::NAN, kind }, true), limits)
    })
}

/// The parts of the `model` object.
#[derive(Default)]
struct JsonModel {
    name: Option<Vec<u8>>,
    pieces: Vec<VocabularyEntry>,
    merges: Vec<MergeEntry>,
    unknown: Option<u32>,
    unknown_text: Option<Vec<u8>>,
}

impl JsonModel {
    fn parse(scanner: &mut Scanner<'_>, limits: &Limits) -> Result<Self> {
        let mut this = Self::default();
        object(scanner, |scanner, key| {
            match &*key {
                b"type" => {
                    let name = scanner.string()?;
                    this.name = Some(scanner.unescape(&name)?.into_owned());
                }
                b"vocab" if scanner.peek() == Some(b'[') => {
                    scored(scanner, &mut this.pieces, limits)?;
                }
                b"vocab" => table(scanner, &mut this.pieces, limits)?,
                b"merges" => merges(scanner, &mut this.merges, limits)?,
                b"unk_id" if !is_null(scanner) => this.unknown = Some(id(scanner)?),
                b"unk_token" if !is_null(scanner) => {
                    let text = scanner.string()?;
                    this.unknown_text = Some(scanner.unescape(&text)?.into_owned());
                }
                // The value was null and has been skipped.
                b"unk_id" | b"unk_token" => {}
                _ => scanner.skip_value()?,
            }
            Ok(())
        })?;
        Ok(this)
    }

    fn kind(&self) -> TokenizerKind {
        match self.name.as_deref() {
            Some(b"BPE") => TokenizerKind::Bpe,
            Some(b"Unigram") => TokenizerKind::Unigram,
            Some(b"WordPiece") => TokenizerKind::WordPiece,
            Some(other) => TokenizerKind::Other(Text::new(other).spelling().into_owned()),
            // Files written before 2022 do not name the model type.
            None if !self.merges.is_empty() => TokenizerKind::Bpe,
            None if self.pieces.iter().any(|piece| !piece.score.is_nan()) => TokenizerKind::Unigram,
            None => TokenizerKind::WordPiece,
        }
    }
}

/// Parses a `tokenizer.json`.
pub(crate) fn tokenizer<'a>(bytes: Cow<'a, [u8]>, limits: &Limits) -> Result<Vocabulary<'a>> {
    let mut scanner = start(&bytes)?;
    let (mut model, mut more, mut decoder) = (None, Vec::new(), Map::new());
    object(&mut scanner, |scanner, key| match &*key {
        b"model" => {
            model = Some(JsonModel::parse(scanner, limits)?);
            Ok(())
        }
        b"added_tokens" if !is_null(scanner) => added(scanner, &mut more, limits),
        b"added_tokens" => Ok(()),
        b"decoder" => keep(scanner, &key, &mut decoder, limits),
        _ => scanner.skip_value(),
    })?;
    end(&mut scanner)?;
    let Some(mut model) = model else { return Err(scanner.error("the tokenizer has no model")) };
    let kind = model.kind();
    // Added tokens may be in the model's vocabulary too, and then take precedence.
    more.sort_by_key(|(piece, _)| piece.id);
    for piece in &mut model.pieces {
        if let Ok(place) = more.binary_search_by_key(&piece.id, |(added, _)| added.id)
            && let Some((added, is_new)) = more.get_mut(place)
        {
            (piece.place, piece.kind) = (added.place, added.kind);
            *is_new = false;
        }
    }
    for (piece, _) in more.into_iter().filter(|(_, is_new)| *is_new) {
        push(&mut model.pieces, piece, limits)?;
    }
    let mut vocabulary = Vocabulary::new(kind, bytes, model.pieces, model.merges)?;
    let unknown = model.unknown.or_else(|| {
        let text = model.unknown_text?;
        vocabulary.tokens().find(|token| *token.text == *text).map(|token| token.id)
    });
    vocabulary.special.extend(unknown.map(|id| ("unk", id)));
    vocabulary.decoder = Some(decoder.remove("decoder").unwrap_or(Json::Null));
    Ok(vocabulary)
}

/// Parses the vocabulary and the merges of the `model` of a `tokenizer.json`.
pub(crate) fn model<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vocabulary<'a>> {
    let mut scanner = start(bytes)?;
    let mut model = None;
    object(&mut scanner, |scanner, key| match &*key {
        b"model" => {
            model = Some(JsonModel::parse(scanner, limits)?);
            Ok(())
        }
        _ => scanner.skip_value(),
    })?;
    end(&mut scanner)?;
    let Some(model) = model else { return Err(scanner.error("the tokenizer has no model")) };
    Vocabulary::new(model.kind(), bytes.into(), model.pieces, model.merges)
}

/// Parses a `tokenizer.json` without its vocabulary and merges, which are most of its bytes.
pub(crate) fn rest(bytes: &[u8], limits: &Limits) -> Result<Json> {
    let mut scanner = start(bytes)?;
    let mut rest = Map::new();
    object(&mut scanner, |scanner, key| {
        if *key != *b"model" {
            return keep(scanner, &key, &mut rest, limits);
        }
        let mut model = Map::new();
        object(scanner, |scanner, key| match &*key {
            b"vocab" | b"merges" => scanner.skip_value(),
            _ => keep(scanner, &key, &mut model, limits),
        })?;
        rest.insert("model".to_owned(), Json::Object(model));
        Ok(())
    })?;
    end(&mut scanner)?;
    Ok(Json::Object(rest))
}

/// Copies the next value of an object.
pub(super) fn keep(
    scanner: &mut Scanner<'_>,
    key: &[u8],
    into: &mut Map<String, Json>,
    limits: &Limits,
) -> Result<()> {
    let before = scanner.rest();
    scanner.skip_value()?;
    let used = before.len().saturating_sub(scanner.rest().len());
    let value = document::parse(before.get(..used).unwrap_or_default(), limits)?;
    into.insert(String::from_utf8_lossy(key).into_owned(), value);
    Ok(())
}

/// Parses a `vocab.json`, whose merges are stored in a separate file.
pub(crate) fn vocabulary<'a>(bytes: Cow<'a, [u8]>, limits: &Limits) -> Result<Vocabulary<'a>> {
    let mut scanner = start(&bytes)?;
    let mut pieces = Vec::new();
    table(&mut scanner, &mut pieces, limits)?;
    end(&mut scanner)?;
    Vocabulary::new(TokenizerKind::Bpe, bytes, pieces, Vec::new())
}
