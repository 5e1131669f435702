//! Reads the tokenizer of a model.

use std::borrow::Cow;

use super::kinds::TokenizerKind;
use super::tokens::{Tokenizer, Tokens};
use super::{files, json, special};
use crate::arch::{ConfigValue, Field, FieldSource};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::metadata::{Array, Value};
use crate::store::Store;

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
                let kind =
                    Field { value: vocabulary.kind.clone(), source: FieldSource::file(source) };
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
        let kind = Field { value: vocabulary.kind.clone(), source: FieldSource::key(key) };
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
    let of_scores =
        array(scores, "numbers", |array| array.floats().is_some() || array.integers().is_some())?;
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
    Ok(Some((Field { value: kind, source: FieldSource::key(key) }, tokens)))
}
