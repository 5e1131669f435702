//! Tokenizers: what a model's tokens are and how they are told apart, whatever file says so.
//!
//! Nothing is tokenized here. A [`Tokenizer`] has what a program needs that does: the tokens with
//! their scores and kinds, the merges, the special tokens and the chat templates. They come from
//! GGUF's metadata, or from `tokenizer.json`, `tokenizer.model`, `vocab.json` with `merges.txt`, or
//! `vocab.txt` beside the weights.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod files;
pub(crate) mod json;
mod lines;
pub(crate) mod sentencepiece;
mod special;
pub(crate) mod vocabulary;

use std::borrow::Cow;

use crate::arch::{ConfigValue, Field};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::metadata::{Array, Value};
use crate::store::Store;
pub use special::ChatTemplate;
use vocabulary::Vocabulary;

/// How text becomes tokens.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TokenizerKind {
    /// Pairs are merged in the order of a list (GPT-2).
    Bpe,
    /// Pairs are merged by the scores of what they make (SentencePiece's BPE; Llama).
    SentencePiece,
    /// The likeliest pieces by their scores (T5).
    Unigram,
    /// The longest piece first (BERT).
    WordPiece,
    /// Another, by the file's name for it.
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

/// What a token stands for; the numbers are those of GGUF and SentencePiece.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[repr(u8)]
pub enum TokenKind {
    /// Text.
    Normal = 1,
    /// What no token covers.
    Unknown = 2,
    /// No text: the start of a turn, padding.
    Control = 3,
    /// Text that is found before all else.
    UserDefined = 4,
    /// Nothing.
    Unused = 5,
    /// One byte of a character that no token covers.
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
    /// Its number.
    pub id: u32,
    /// Its spelling, as the file has it: byte-level BPE has a letter for each byte, SentencePiece a
    /// lower block for a space. GGUF promises no encoding.
    pub text: Cow<'a, [u8]>,
    /// Its score, for tokenizers that have them.
    pub score: Option<f32>,
    /// What it stands for, where the file says.
    pub kind: Option<TokenKind>,
}

/// A pair of tokens that are merged into one. The second is empty where a file names but one.
pub type Merge<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The tokenizer of a model. Tokens and merges are decoded as they are iterated over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Tokenizer<'a> {
    /// How text becomes tokens.
    pub kind: Field<TokenizerKind>,
    /// llama.cpp's name for how text is split before (`tokenizer.ggml.pre`).
    pub pre: Option<Field<String>>,
    /// Special tokens by what they are for: `bos`, `eos`, `unk`, `pad`, `eot`, `mask`. A number that
    /// no token has is left out, as llama.cpp does.
    pub special: Vec<(String, Field<u32>)>,
    /// Whether a text starts with the `bos` token.
    pub add_bos: Option<Field<bool>>,
    /// Whether a text ends with the `eos` token.
    pub add_eos: Option<Field<bool>>,
    /// Templates that make one text of a conversation, the unnamed one first.
    pub chat_templates: Vec<ChatTemplate>,
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
    /// A file of its own, or text in GGUF's metadata.
    File(Vocabulary<'a>),
}

impl<'a> Tokenizer<'a> {
    /// The tokenizer of a model, or `None` if no file has one.
    ///
    /// # Errors
    ///
    /// `Malformed` if the file that has it breaks its format; `LimitExceeded`; `Io` if a file
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
        let mut this = Self {
            kind,
            pre: None,
            special: Vec::new(),
            add_bos: None,
            add_eos: None,
            chat_templates: Vec::new(),
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

    /// The tokens, by number.
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

    /// The merges, the first to be made first. None for tokenizers that merge by scores.
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

    fn has(&self, id: u32) -> bool {
        match &self.tokens {
            Tokens::Arrays { texts, .. } => u64::from(id) < texts.len(),
            Tokens::File(vocabulary) => vocabulary.has(id),
        }
    }

    /// The special token for some use, `bos` or `eos`.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.special.iter().find(|(other, _)| other == name).map(|(_, id)| id.value)
    }

    /// The chat template without a name, else the first.
    pub fn chat_template(&self) -> Option<&str> {
        let unnamed = self.chat_templates.iter().find(|template| template.name.is_none());
        unnamed.or(self.chat_templates.first()).map(|template| template.text.value.as_str())
    }
}

type Found<'a> = (Field<TokenizerKind>, Tokens<'a>);

/// The tokenizer in GGUF's metadata: arrays, or the text of a `tokenizer.json`.
fn of_metadata(store: &Store) -> Result<Option<Found<'_>>> {
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
            let fault = format!("{} elements for {} tokens", array.len(), tokens.len());
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
