//! Kinds of tokenizers and tokens.

use std::borrow::Cow;

/// SentencePiece's character for a space.
pub(crate) const BLOCK: char = '\u{2581}';

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

/// The kind of a token, numbered as in GGUF and SentencePiece.
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
    pub(crate) fn from_code(code: i128) -> Option<Self> {
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

    /// The kind in a tokenizer that merges by scores. SentencePiece finds user-defined runs of spaces after spaces became
    /// blocks, as merges do, and not in the text itself.
    pub(super) fn merged(self, text: &[u8]) -> Self {
        let is_run =
            || std::str::from_utf8(text).is_ok_and(|text| text.chars().all(|c| c == BLOCK));
        match self {
            Self::UserDefined if is_run() => Self::Normal,
            kind => kind,
        }
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
    /// The kind, if the file states it.
    pub kind: Option<TokenKind>,
}

/// A pair of tokens that are merged into one. The second is empty if the file names only one.
pub type Merge<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);
