//! Finds the file beside the weights that holds the vocabulary.

use std::borrow::Cow;

use super::kinds::TokenKind;
use super::vocabulary::Vocabulary;
use super::{json, lines, sentencepiece, tekken, tiktoken};
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::Limits;
use crate::store::{CompanionFiles, Store};

/// Parses a vocabulary from the content of its file.
type Parse = fn(Cow<'static, [u8]>, &Limits) -> Result<Vocabulary<'static>>;

/// The name of a SentencePiece model whose pieces the model numbers in fairseq's order.
pub(crate) const FAIRSEQ: &str = "sentencepiece.bpe.model";

/// The files that may hold a vocabulary if there is none of [`of_library`], the most complete first.
const FILES: [(&str, Parse); 10] = [
    ("tokenizer.model", sentencepiece::tokenizer),
    // Mistral's, which its programs look for in this order.
    ("tokenizer.model.v7m1", sentencepiece::tokenizer),
    ("tokenizer.model.v7", sentencepiece::tokenizer),
    ("tokenizer.model.v3", sentencepiece::tokenizer),
    ("tokenizer.model.v2", sentencepiece::tokenizer),
    ("tokenizer.model.v1", sentencepiece::tokenizer),
    (FAIRSEQ, sentencepiece::tokenizer),
    ("spiece.model", sentencepiece::tokenizer),
    ("vocab.json", json::vocabulary),
    ("vocab.txt", lines::vocabulary),
];

/// Mistral's own form.
const TEKKEN: &str = "tekken.json";

/// The purposes and texts of the special tokens that a file of this name does not state.
pub(crate) fn unstated_texts(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        TEKKEN => &[("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"), ("pad", "<pad>")],
        "qwen.tiktoken" => &[("bos", "<|endoftext|>"), ("eos", "<|endoftext|>")],
        _ => &[],
    }
}

/// The SentencePiece model of a Llama's or Mistral's tokenizer. Next to a `tokenizer.json` or `tekken.json`, only the usual
/// name counts.
pub(crate) fn pieces(store: &Store) -> Result<Option<CompanionFiles>> {
    let limit = (store.limits().vocabulary_bytes, "vocabulary_bytes");
    let has_json =
        ["tokenizer.json", TEKKEN].iter().any(|name| store.companion_path(name).is_some());
    let is_one = |name: &&str| match has_json {
        true => *name == "tokenizer.model",
        false => name.starts_with("tokenizer.model"),
    };
    let mut names = FILES.iter().map(|(name, _)| *name).filter(is_one);
    let name = names.find(|name| store.companion_path(name).is_some());
    name.map_or(Ok(None), |name| store.read_companion(name, limit))
}

/// The `tokenizer.json` beside the weights, or that which a file of ranked tokens amounts to; and the name of the file.
pub(crate) fn of_library(store: &Store) -> Result<Option<(CompanionFiles, &'static str)>> {
    let limits = store.limits();
    let limit = (limits.vocabulary_bytes, "vocabulary_bytes");
    let name = "tokenizer.json";
    if let Some(file) = store.read_companion(name, limit)? {
        return Ok(Some((file, name)));
    }
    let made = |file: CompanionFiles, bytes: Result<Vec<u8>>, name| {
        let bytes = bytes.map_err(|error| error.in_file(&file.path))?;
        Ok(Some((CompanionFiles { bytes, ..file }, name)))
    };
    if let Some(file) = store.read_companion(TEKKEN, limit)? {
        let bytes = tekken::tokenizer_json(&file.bytes, limits);
        return made(file, bytes, TEKKEN);
    }
    for kind in &tiktoken::FILES {
        if let Some(file) = store.read_companion(kind.name, limit)? {
            let config = store.read_document("tokenizer_config.json")?;
            let bytes = kind.tokenizer_json(&file.bytes, config.as_deref(), rows(store)?, limits);
            return made(file, bytes, kind.name);
        }
    }
    Ok(None)
}

/// The rows of the embedding, as `config.json` states them.
fn rows(store: &Store) -> Result<Option<u64>> {
    let config = store.read_document("config.json")?;
    let stated = |config: &Json| config.get("vocab_size").and_then(Json::as_u64);
    Ok(config.and_then(|config| stated(&config).or_else(|| stated(config.get("text_config")?))))
}

/// The vocabulary beside the weights, and the name of its file.
pub(crate) fn beside(store: &Store) -> Result<Option<(Vocabulary<'static>, &'static str)>> {
    let limits = store.limits();
    let limit = (limits.vocabulary_bytes, "vocabulary_bytes");
    if let Some((file, name)) = of_library(store)? {
        let vocabulary = json::tokenizer(file.bytes.into(), limits);
        let mut vocabulary = vocabulary.map_err(|error| error.in_file(&file.path))?;
        if !unstated_texts(name).is_empty() {
            let number = |text: &str| {
                vocabulary
                    .tokens()
                    .find(|token| *token.text == *text.as_bytes())
                    .map(|token| token.id)
            };
            let special = unstated_texts(name).iter();
            vocabulary.special =
                special.filter_map(|(name, text)| Some((*name, number(text)?))).collect();
        }
        return Ok(Some((vocabulary, name)));
    }
    for (name, parse) in FILES {
        let Some(file) = store.read_companion(name, limit)? else { continue };
        let mut vocabulary =
            parse(file.bytes.into(), limits).map_err(|error| error.in_file(&file.path))?;
        if name == "vocab.json"
            && let Some(file) = store.read_companion("merges.txt", limit)?
        {
            let merges = lines::merges(&file.bytes, limits);
            let merges = merges.map_err(|error| error.in_file(&file.path))?;
            vocabulary = vocabulary.with_merges(merges, file.bytes);
        }
        if name == FAIRSEQ {
            let config = store.read_document("config.json")?;
            let number = |key: &str| config.as_ref()?.get(key)?.as_u64();
            if let Some(bos) = number("bos_token_id").filter(|&bos| bos != 0) {
                let fault = format!(
                    "config.json numbers the first token {bos}, but in fairseq's order it is 0"
                );
                return Err(Error::unsupported(fault)
                    .in_file(&file.path)
                    .advise("save the tokenizer as tokenizer.json with transformers"));
            }
            vocabulary = vocabulary.in_order_of_fairseq(number("vocab_size"))?;
        }
        return Ok(Some((with_added(store, vocabulary)?, name)));
    }
    Ok(None)
}

/// Adds the tokens that `tokenizer_config.json` and `added_tokens.json` list, as `tokenizer.json` has them itself.
fn with_added<'a>(store: &Store, mut vocabulary: Vocabulary<'a>) -> Result<Vocabulary<'a>> {
    let config = store.read_document("tokenizer_config.json")?;
    let listed = config.as_ref().and_then(|json| json.get("added_tokens_decoder")?.as_object());
    let token = |(id, token): (&'_ String, &'_ Json)| {
        let special = token.get("special").and_then(Json::as_bool) == Some(true);
        let kind = if special { TokenKind::Control } else { TokenKind::UserDefined };
        Some((id.parse().ok()?, token.get("content")?.as_str()?.to_owned(), kind))
    };
    let listed: Vec<(u32, String, TokenKind)> =
        listed.into_iter().flatten().filter_map(token).collect();
    vocabulary =
        vocabulary.with_added(listed.iter().map(|(id, text, kind)| (*id, text.as_str(), *kind)))?;
    let Some(added) = store.read_document("added_tokens.json")? else { return Ok(vocabulary) };
    let number = |id: &Json| u32::try_from(id.as_u64()?).ok();
    let all = added.as_object().into_iter().flatten();
    let all =
        all.filter_map(|(text, id)| Some((number(id)?, text.as_str(), TokenKind::UserDefined)));
    let free: Vec<_> = all.filter(|(id, ..)| !vocabulary.has(*id)).collect();
    vocabulary.with_added(free.into_iter())
}
