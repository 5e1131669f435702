//! The tokenizer of a model, and its tokens and merges.

use std::borrow::Cow;

use super::kinds::{Merge, Token, TokenKind, TokenizerKind};
use super::template::ChatTemplate;
use super::vocabulary::{self, Normalizer, Vocabulary};
use crate::arch::Field;
use crate::metadata::{Array, Value};

/// The tokenizer of a model. Tokens and merges are decoded during iteration.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tokenizer<'a> {
    /// The algorithm that turns text into tokens.
    pub kind: Field<TokenizerKind>,
    /// llama.cpp's name for the pre-tokenizer, which splits text first (`tokenizer.ggml.pre`).
    pub pre: Option<Field<String>>,
    /// Special tokens by purpose: `bos`, `eos`, `unk`, `pad`, `eot`, `mask`. A number outside the
    /// vocabulary is ignored, as llama.cpp does.
    pub special: Vec<(String, Field<u32>)>,
    /// Whether a text starts with the `bos` token.
    pub add_bos: Option<Field<bool>>,
    /// Whether a text ends with the `eos` token.
    pub add_eos: Option<Field<bool>>,
    /// Templates that format a conversation as text, the unnamed one first.
    pub chat_templates: Vec<ChatTemplate>,
    /// Whether a space is put before a text, for kinds that mark spaces.
    pub(crate) adds_space: bool,
    pub(super) tokens: Tokens<'a>,
}

#[derive(Debug)]
pub(super) enum Tokens<'a> {
    /// GGUF's arrays.
    Arrays {
        texts: Array<'a>,
        scores: Option<Array<'a>>,
        kinds: Option<Array<'a>>,
        merges: Option<Array<'a>>,
    },
    /// A separate file, or text in GGUF's metadata.
    File(Vocabulary<'a>),
}

impl<'a> Tokenizer<'a> {
    /// The number of tokens.
    pub fn len(&self) -> u64 {
        match &self.tokens {
            Tokens::Arrays { texts, .. } => texts.len(),
            Tokens::File(vocabulary) => vocabulary.len() as u64,
        }
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens, in the order of their numbers.
    pub fn tokens(&self) -> Box<dyn Iterator<Item = Token<'_>> + '_> {
        match &self.tokens {
            Tokens::Arrays { texts, scores, kinds, .. } => {
                let mut scores = scores.map(|scores| scores.values());
                let mut kinds = kinds.map(|kinds| kinds.values());
                let is_merged = self.kind.value == TokenizerKind::SentencePiece;
                let texts = texts.texts().into_iter().flatten();
                Box::new((0u32..).zip(texts).map(move |(id, text)| {
                    let next = |values: &mut Option<_>| values.as_mut().and_then(Iterator::next);
                    #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
                    let score = next(&mut scores)
                        .and_then(|value: Value<'_>| value.to_f64())
                        .map(|score| score as f32);
                    let kind = next(&mut kinds).and_then(|value: Value<'_>| value.to_i128());
                    let kind = kind.and_then(TokenKind::from_code).map(|kind| match is_merged {
                        true => kind.merged(text.as_bytes()),
                        false => kind,
                    });
                    Token { id, text: Cow::Borrowed(text.as_bytes()), score, kind }
                }))
            }
            Tokens::File(vocabulary) => Box::new(vocabulary.tokens()),
        }
    }

    /// The merges, highest priority first. Empty for tokenizers that merge by scores.
    pub fn merges(&self) -> Box<dyn Iterator<Item = Merge<'_>> + '_> {
        match &self.tokens {
            Tokens::Arrays { merges, .. } => {
                let texts = merges.and_then(|merges| merges.texts()).into_iter().flatten();
                Box::new(texts.map(|text| {
                    let (first, second) = vocabulary::pair(text.as_bytes());
                    (Cow::Borrowed(first), Cow::Borrowed(second))
                }))
            }
            Tokens::File(vocabulary) => Box::new(vocabulary.merges()),
        }
    }

    /// SentencePiece's normalization of a text, if the file is a model of SentencePiece.
    pub(crate) fn normalizer(&self) -> Option<&Normalizer> {
        match &self.tokens {
            Tokens::Arrays { .. } => None,
            Tokens::File(vocabulary) => vocabulary.normalizer.as_ref(),
        }
    }

    pub(super) fn has(&self, id: u32) -> bool {
        match &self.tokens {
            Tokens::Arrays { texts, .. } => u64::from(id) < texts.len(),
            Tokens::File(vocabulary) => vocabulary.has(id),
        }
    }

    /// The special token for a purpose, such as `bos` or `eos`.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.special.iter().find(|(other, _)| other == name).map(|(_, id)| id.value)
    }

    /// The chat template without a name, or the first if all have names.
    pub fn chat_template(&self) -> Option<&str> {
        let unnamed = self.chat_templates.iter().find(|template| template.name.is_none());
        unnamed.or(self.chat_templates.first()).map(|template| template.text.value.as_str())
    }
}
