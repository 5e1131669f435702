//! Tokenizers: the tokens, merges and templates of a model, whichever file stores them.
//!
//! This library does not tokenize text. A [`Tokenizer`] has what a program needs to do so: the
//! tokens with their scores and kinds, the merges, the special tokens and the chat templates. They
//! are read from GGUF's metadata, or from `tokenizer.json`, `tokenizer.model`,
//! `sentencepiece.bpe.model`, `spiece.model`, `vocab.json` with `merges.txt`, or `vocab.txt` beside the weights.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod decoder;
mod files;
pub(crate) mod json;
mod lines;
pub(crate) mod sentencepiece;
mod special;
pub(crate) mod vocabulary;

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::arch::{ConfigValue, Field};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::metadata::{Array, Value};
use crate::store::Store;
pub(crate) use decoder::BLOCK;
pub use decoder::{Detokenizer, TextStream, byte_letters};
pub(crate) use files::FAIRSEQ;
pub use special::{ChatTemplate, is_special_token_key, special_token_key};
pub(crate) use special::{chat_templates_beside, has_chat_template};
use vocabulary::{Normalizer, Vocabulary};

/// The algorithm that turns text into tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// Merges pairs in the order of a list (GPT-2).
    Bpe,
    /// Merges pairs by the scores of the resulting tokens (SentencePiece's BPE; Llama).
    SentencePiece,
    /// Chooses the most likely sequence of pieces by their scores (T5).
    Unigram,
    /// Takes the longest matching piece first (BERT).
    WordPiece,
    /// Another algorithm, by the file's name for it.
    Other(String),
}

impl TokenizerKind {
    /// The name in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Bpe => "bpe",
            Self::SentencePiece => "sentencepiece",
            Self::Unigram => "unigram",
            Self::WordPiece => "wordpiece",
            Self::Other(name) => name,
        }
    }
}

/// What a token stands for, numbered as in GGUF and SentencePiece.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[repr(u8)]
pub enum TokenKind {
    /// A piece of text.
    Normal = 1,
    /// Text that no other token covers.
    Unknown = 2,
    /// No text: the start of a turn, padding.
    Control = 3,
    /// Text that is matched before all other tokens.
    UserDefined = 4,
    /// An unused number.
    Unused = 5,
    /// One byte of a character that no other token covers.
    Byte = 6,
}

impl TokenKind {
    fn from_code(code: i128) -> Option<Self> {
        Some(match code {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// A token of a vocabulary.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Token<'a> {
    /// The token's number.
    pub id: u32,
    /// The token's spelling in the file: byte-level BPE has a letter for each byte, SentencePiece a
    /// lower block for a space. GGUF does not guarantee an encoding.
    pub text: Cow<'a, [u8]>,
    /// The score, for tokenizers that use scores.
    pub score: Option<f32>,
    /// What the token stands for, if the file states it.
    pub kind: Option<TokenKind>,
}

/// A pair of tokens that are merged into one. The second is empty if the file names only one.
pub type Merge<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

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
    tokens: Tokens<'a>,
}

#[derive(Debug)]
enum Tokens<'a> {
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
    /// The tokenizer of a model, or `None` if no file contains one.
    ///
    /// # Errors
    ///
    /// `Malformed` if the tokenizer's file breaks its format; `LimitExceeded`; `Io` if a file
    /// beside the weights cannot be read.
    pub(crate) fn of(store: &'a Store) -> Result<Option<Self>> {
        let found = match of_metadata(store)? {
            Some(found) => Some(found),
            None => files::beside(store)?.map(|(vocabulary, source)| {
                let kind = Field { value: vocabulary.kind.clone(), source: source.into() };
                (kind, Tokens::File(vocabulary))
            }),
        };
        let Some((kind, tokens)) = found else { return Ok(None) };
        let stated = store.metadata().get("tokenizer.ggml.add_space_prefix");
        let stated = stated.and_then(|value| value.to_bool());
        let of_file = match &tokens {
            Tokens::File(vocabulary) => vocabulary.normalizer.as_ref(),
            Tokens::Arrays { .. } => None,
        };
        let adds_space = stated.or(of_file.map(|normalizer| normalizer.adds_space));
        let mut this = Self {
            kind,
            pre: None,
            special: Vec::new(),
            add_bos: None,
            add_eos: None,
            chat_templates: Vec::new(),
            adds_space: adds_space.unwrap_or(true),
            tokens,
        };
        special::gather(store, &mut this)?;
        Ok(Some(this))
    }

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
                let texts = texts.texts().into_iter().flatten();
                Box::new((0u32..).zip(texts).map(move |(id, text)| {
                    let next = |values: &mut Option<_>| values.as_mut().and_then(Iterator::next);
                    #[expect(clippy::cast_possible_truncation, reason = "stored as f32")]
                    let score = next(&mut scores)
                        .and_then(|value: Value<'_>| value.to_f64())
                        .map(|score| score as f32);
                    let kind = next(&mut kinds).and_then(|value: Value<'_>| value.to_i128());
                    let kind = kind.and_then(TokenKind::from_code);
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

    /// How SentencePiece prepares a text, if the file is a model of SentencePiece.
    pub(crate) fn normalizer(&self) -> Option<&Normalizer> {
        match &self.tokens {
            Tokens::Arrays { .. } => None,
            Tokens::File(vocabulary) => vocabulary.normalizer.as_ref(),
        }
    }

    /// What turns tokens into text.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a decoder in `tokenizer.json` with an unknown step, or one that replaces by a
    /// regular expression; `Malformed` for a step without its settings.
    pub fn detokenizer(&self) -> Result<Detokenizer> {
        Detokenizer::new(self).map_err(|error| error.in_key(&self.kind.source))
    }

    /// The decoder as `tokenizer.json` states it; for other files, the usual one of the kind.
    pub(crate) fn decoder(&self) -> Json {
        if let Tokens::File(Vocabulary { decoder: Some(decoder), .. }) = &self.tokens {
            return decoder.clone();
        }
        let has_bytes = || self.tokens().any(|token| token.kind == Some(TokenKind::Byte));
        let has_bytes = self.kind.value == TokenizerKind::Unigram && has_bytes();
        decoder::usual(&self.kind.value, self.adds_space, has_bytes)
    }

    fn has(&self, id: u32) -> bool {
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

type TokenizerSource<'a> = (Field<TokenizerKind>, Tokens<'a>);

/// The tokenizer in GGUF's metadata: arrays, or the text of a `tokenizer.json`.
fn of_metadata(store: &Store) -> Result<Option<TokenizerSource<'_>>> {
    let metadata = store.metadata();
    let key = "tokenizer.ggml.tokens";
    if metadata.get(key).is_none() {
        let key = "tokenizer.huggingface.json";
        let Some(text) = metadata.get(key).and_then(|value| value.to_text()) else {
            return Ok(None);
        };
        let vocabulary = json::tokenizer(Cow::Borrowed(text.as_bytes()), store.limits());
        let vocabulary = vocabulary.map_err(|error| error.in_file(store.path()).in_key(key))?;
        let kind = Field { value: vocabulary.kind.clone(), source: key.into() };
        return Ok(Some((kind, Tokens::File(vocabulary))));
    }
    let array = |key: &str, what: &str, is: fn(&Array<'_>) -> bool| match metadata.get(key) {
        None => Ok(None),
        Some(Value::Array(array)) if is(&array) => Ok(Some(array)),
        Some(value) => Err(Error::malformed(format!(
            "{}, but an array of {what} is needed",
            ConfigValue::Metadata(value)
        ))
        .in_file(store.path())
        .in_key(key)),
    };
    let same = |key: &str, of: Option<Array<'_>>, tokens: &Array<'_>| match of {
        Some(array) if array.len() != tokens.len() => {
            let fault = format!("{} elements, but there are {} tokens", array.len(), tokens.len());
            Err(Error::malformed(fault).in_file(store.path()).in_key(key))
        }
        _ => Ok(()),
    };
    let strings: fn(&Array<'_>) -> bool = |array| array.texts().is_some();
    let texts = array(key, "strings", strings)?;
    let Some(texts) = texts else { return Ok(None) };
    let (scores, kinds) = ("tokenizer.ggml.scores", "tokenizer.ggml.token_type");
    let merges = array("tokenizer.ggml.merges", "strings", strings)?;
    let of_scores = array(scores, "floats", |array| array.floats().is_some())?;
    let of_kinds = array(kinds, "integers", |array| array.integers().is_some())?;
    same(scores, of_scores, &texts)?;
    same(kinds, of_kinds, &texts)?;
    let key = "tokenizer.ggml.model";
    let name = metadata.get(key).and_then(|value| value.to_text());
    let name = name.unwrap_or(Text::new(b"unknown"));
    let kind = match name.as_bytes() {
        b"gpt2" => TokenizerKind::Bpe,
        b"llama" => TokenizerKind::SentencePiece,
        b"bert" => TokenizerKind::WordPiece,
        b"t5" => TokenizerKind::Unigram,
        _ => TokenizerKind::Other(name.spelling().into_owned()),
    };
    let tokens = Tokens::Arrays { texts, scores: of_scores, kinds: of_kinds, merges };
    Ok(Some((Field { value: kind, source: key.into() }, tokens)))
}
