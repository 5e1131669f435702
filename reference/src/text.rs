//! Tokens as text.

use std::collections::HashMap;

use weighbridge::Tokenizer;
use weighbridge::tokenizer::{TokenKind, TokenizerKind};

/// The text of each token of a vocabulary, as bytes: a character may need several tokens.
#[derive(Clone, Debug)]
pub struct TokenTexts {
    texts: Vec<Vec<u8>>,
}

impl TokenTexts {
    /// Reads them from a tokenizer. Tokens that stand for no text are empty.
    pub fn new(tokenizer: &Tokenizer<'_>) -> Self {
        let letters: HashMap<char, u8> = letters().collect();
        let text = |token: weighbridge::tokenizer::Token<'_>| match token.kind {
            Some(TokenKind::Control | TokenKind::Unused | TokenKind::Unknown) => Vec::new(),
            Some(TokenKind::UserDefined) => token.text.into_owned(),
            _ => match tokenizer.kind.value {
                TokenizerKind::Bpe => of_letters(&token.text, &letters),
                TokenizerKind::WordPiece => of_word_piece(&token.text),
                _ => of_sentencepiece(&token.text, token.kind == Some(TokenKind::Byte)),
            },
        };
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for token in tokenizer.tokens() {
            let place = usize::try_from(token.id).unwrap_or(usize::MAX);
            // Vocabularies list their tokens in order; what lies between two is no token.
            if place >= texts.len() && place < MOST {
                texts.resize(place + 1, Vec::new());
            }
            if let Some(own) = texts.get_mut(place) {
                *own = text(token);
            }
        }
        Self { texts }
    }

    /// The text of a token; nothing for one that the vocabulary does not have.
    pub fn of(&self, token: u32) -> &[u8] {
        let text = usize::try_from(token).ok().and_then(|place| self.texts.get(place));
        text.map_or(&[], Vec::as_slice)
    }
}

/// Tokens of a vocabulary, at most.
const MOST: usize = 1 << 24;

/// GPT-2's letter for each byte: itself where it is visible in Latin-1, else one from U+0100 on.
pub(crate) fn letters() -> impl Iterator<Item = (char, u8)> {
    let visible = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256u32;
    (0..=255u8).filter_map(move |byte| {
        let code = if visible(byte) {
            u32::from(byte)
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).map(|letter| (letter, byte))
    })
}

fn of_letters(text: &[u8], letters: &HashMap<char, u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    let bytes = text.chars().map(|letter| letters.get(&letter).copied());
    // A token that is not spelled in letters stands for itself.
    bytes.collect::<Option<Vec<u8>>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

/// A lower block is a space; `<0x0A>` is a byte.
fn of_sentencepiece(text: &[u8], byte: bool) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    let hex = text.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    if let Some(value) = hex.filter(|hex| byte || hex.len() == 2)
        && let Ok(value) = u8::from_str_radix(value, 16)
    {
        return vec![value];
    }
    text.replace('\u{2581}', " ").into_bytes()
}

/// `##` continues a word, and all else starts one.
fn of_word_piece(text: &[u8]) -> Vec<u8> {
    match text.strip_prefix(b"##") {
        Some(rest) => rest.to_vec(),
        None => [b" ", text].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_bytes() {
        let letters: HashMap<char, u8> = letters().collect();
        assert_eq!(letters.len(), 256);
        assert_eq!(of_letters("Ġtwo".as_bytes(), &letters), b" two");
        assert_eq!(of_letters("ĊÃ©".as_bytes(), &letters), "\né".as_bytes());
        assert_eq!(of_letters("\u{4e00}".as_bytes(), &letters), "\u{4e00}".as_bytes());
    }

    #[test]
    fn blocks_are_spaces_and_bytes_are_bytes() {
        assert_eq!(of_sentencepiece("\u{2581}two".as_bytes(), false), b" two");
        assert_eq!(of_sentencepiece(b"<0x0A>", true), b"\n");
        assert_eq!(of_word_piece(b"##ing"), b"ing");
    }
}
