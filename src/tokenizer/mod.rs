//! Tokenizers: the tokens, merges and templates of a model, whichever file stores them.
//!
//! This library does not tokenize text; `TextTokens` in the crate `weighbridge-reference` does. A [`Tokenizer`] has what a program needs to do so: the
//! tokens with their scores and kinds, the merges, the special tokens and the chat templates. They
//! are read from GGUF's metadata, or from `tokenizer.json`, `tokenizer.model` (also Mistral's `tokenizer.model.v3` and the like),
//! `tekken.json`, `tiktoken.model`, `qwen.tiktoken`, `sentencepiece.bpe.model`, `spiece.model`, `vocab.json` with `merges.txt`, or `vocab.txt` beside the weights.
#![warn(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

mod decoder;
mod files;
pub(crate) mod json;
mod kinds;
mod lines;
mod ranks;
mod read;
pub(crate) mod sentencepiece;
mod special;
pub(crate) mod tables;
mod tekken;
mod template;
mod tiktoken;
mod tokens;
pub(crate) mod vocabulary;

pub use decoder::{Detokenizer, TextStream, byte_letters};
pub(crate) use files::{FAIRSEQ, of_library, pieces, unstated_texts};
pub(crate) use kinds::BLOCK;
pub use kinds::{Merge, Token, TokenKind, TokenizerKind};
#[cfg(feature = "chat-template")]
pub(crate) use special::chat_templates;
pub(crate) use special::{chat_templates_beside, has_chat_template, named_texts};
pub use special::{is_special_token_key, special_token_key};
pub use tables::{MergedPair, TokenizerTables, VocabularyTable};
pub use template::ChatTemplate;
pub(crate) use tiktoken::{KIMI, QWEN};
pub use tokens::Tokenizer;
