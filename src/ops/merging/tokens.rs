//! The tokens of models, and the documents of a tokenizer with other tokens.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use super::recipe::MergeSource;
use crate::arch::config::TEXT_CONFIGS;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::model::{EMBEDDING, Model};
use crate::ops::verify::VOCABULARY_KEYS;
use crate::translate;

/// A token of `tokenizer.json`.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) text: String,
    /// Its entry in the list of added tokens, which are matched before the text is split.
    pub(super) added: Option<Json>,
}

/// The tokens of a model that have rows.
#[derive(Debug)]
pub(super) struct TokenList {
    pub(super) rows: u64,
    by_number: BTreeMap<u64, Token>,
    by_text: HashMap<String, u64>,
    /// Tokens of the file that have no row.
    without_row: Vec<String>,
}

impl TokenList {
    pub(super) fn of(source: &MergeSource) -> Result<Self> {
        let model = &source.model;
        let here = |error: Error| error.in_file(model.path());
        let rows = model.tensor(EMBEDDING)?.shape().first().copied().unwrap_or(0);
        let absent =
            || Error::unsupported("the model has no tokenizer.json, nor what one is made of");
        let json = translate::tokenizer_json(model)?.ok_or_else(|| here(absent()))?;
        let mut list = Self {
            rows,
            by_number: BTreeMap::new(),
            by_text: HashMap::new(),
            without_row: Vec::new(),
        };
        match json.pointer("/model/vocab") {
            Some(Json::Object(vocab)) => {
                for (text, number) in vocab {
                    list.insert(number, text, None).map_err(here)?;
                }
            }
            Some(Json::Array(pieces)) => {
                for (number, piece) in (0u64..).zip(pieces) {
                    let text = piece.as_array().and_then(|piece| piece.first()?.as_str());
                    list.insert(&number.into(), text.unwrap_or_default(), None).map_err(here)?;
                }
            }
            _ => return Err(here(Error::unsupported("tokenizer.json has no vocabulary"))),
        }
        for entry in json.get("added_tokens").and_then(Json::as_array).into_iter().flatten() {
            let text = entry.get("content").and_then(Json::as_str).unwrap_or_default();
            let number = entry.get("id").cloned().unwrap_or_default();
            list.insert(&number, text, Some(entry.clone())).map_err(here)?;
        }
        Ok(list)
    }

    fn insert(&mut self, number: &Json, text: &str, added: Option<Json>) -> Result<()> {
        let number = number.as_u64().ok_or_else(|| {
            let text = Text::new(text.as_bytes());
            Error::malformed(format!("tokenizer.json: the token {text} has the number {number}"))
        })?;
        if number >= self.rows {
            self.without_row.push(text.to_owned());
            return Ok(());
        }
        self.by_text.insert(text.to_owned(), number);
        self.by_number.insert(number, Token { text: text.to_owned(), added });
        Ok(())
    }

    pub(super) fn find(&self, text: &str) -> Option<u64> {
        self.by_text.get(text).copied()
    }

    /// The tokens in order of their numbers.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Token> {
        self.by_number.values()
    }
}

/// The change from the tokens of a model to those of the merged one.
#[derive(Debug)]
pub(super) struct TokenEdit {
    /// The text of each number that stays; `None` for a number without a token.
    kept: Vec<(u64, Option<String>)>,
    removed: BTreeSet<u64>,
    removed_texts: HashSet<String>,
    /// The tokens that are added, with their entries in the list of added tokens.
    added: Vec<(String, Json)>,
    known: HashSet<String>,
}

impl TokenEdit {
    pub(super) fn new(list: &TokenList, removed: &[String]) -> Result<Self> {
        let number = |text: &String| {
            list.find(text).ok_or_else(|| {
                let fault = format!("the vocabulary has no token {}", Text::new(text.as_bytes()));
                Error::not_found(fault).in_key("remove")
            })
        };
        let numbers = removed.iter().map(number).collect::<Result<BTreeSet<_>>>()?;
        let end = list.by_number.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
        let text = |number: u64| list.by_number.get(&number).map(|token| token.text.clone());
        let kept = (0..end).filter(|number| !numbers.contains(number));
        let mut removed_texts: HashSet<String> = removed.iter().cloned().collect();
        removed_texts.extend(list.without_row.iter().cloned());
        let known = list.by_text.keys().cloned().chain(removed.iter().cloned()).collect();
        let kept = kept.map(|number| (number, text(number))).collect();
        Ok(Self { kept, removed: numbers, removed_texts, added: Vec::new(), known })
    }

    /// Adds a token, unless there is one with this text.
    pub(super) fn add(&mut self, text: &str, entry: Option<&Json>) {
        if self.known.insert(text.to_owned()) {
            let plain = || {
                json!({
                    "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                    "normalized": true, "special": false,
                })
            };
            self.added.push((text.to_owned(), entry.cloned().unwrap_or_else(plain)));
        }
    }

    /// The text of each token, and its number before.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (Option<&str>, Option<u64>)> {
        let kept = self.kept.iter().map(|(number, text)| (text.as_deref(), Some(*number)));
        kept.chain(self.added.iter().map(|(text, _)| (Some(text.as_str()), None)))
    }

    /// The number of a token that had another one. `None` if it is removed.
    fn number(&self, before: u64) -> Option<u64> {
        let lower = self.removed.range(..before).count() as u64;
        (!self.removed.contains(&before)).then(|| before.saturating_sub(lower))
    }

    /// The entries of the added tokens, with their numbers.
    fn entries(&self) -> impl Iterator<Item = (u64, Json)> {
        let first = self.kept.len() as u64;
        (first..).zip(&self.added).map(|(number, (_, entry))| {
            let mut entry = entry.clone();
            entry["id"] = number.into();
            (number, entry)
        })
    }

    /// Changes `tokenizer.json`.
    fn tokenizer(&self, json: &mut Json) -> Result<()> {
        let model = &mut json["model"];
        let mut dropped: HashSet<String> = HashSet::new();
        match model.get_mut("vocab") {
            Some(Json::Object(vocab)) => vocab.retain(|text, number| {
                let kept = number.as_u64().filter(|_| !self.removed_texts.contains(text));
                let after = kept.and_then(|before| self.number(before));
                *number = after.into();
                if after.is_none() {
                    dropped.insert(text.clone());
                }
                after.is_some()
            }),
            Some(Json::Array(pieces)) => {
                let mut numbers = 0u64..;
                pieces.retain(|piece| {
                    let before = numbers.next().unwrap_or_default();
                    let text = piece.as_array().and_then(|piece| piece.first()?.as_str());
                    let has_row = text.is_none_or(|text| !self.removed_texts.contains(text));
                    has_row && self.number(before).is_some()
                });
            }
            _ => {}
        }
        let prefix =
            model.get("continuing_subword_prefix").and_then(Json::as_str).map(str::to_owned);
        if let Some(merges) = model.get_mut("merges").and_then(Json::as_array_mut) {
            merges.retain(|merge| !uses(merge, prefix.as_deref().unwrap_or_default(), &dropped));
        }
        if let Some(unknown) = model.get_mut("unk_id") {
            self.one(unknown, "tokenizer.json", "unk_id")?;
        }
        let unknown = model.get("unk_token").and_then(Json::as_str);
        self.check_text(unknown, "tokenizer.json", "unk_token")?;
        let mut added = json["added_tokens"].take();
        let mut entries = std::mem::take(added.as_array_mut().unwrap_or(&mut Vec::new()));
        entries.retain(|entry| {
            let text = entry.get("content").and_then(Json::as_str).unwrap_or_default();
            !self.removed_texts.contains(text)
        });
        for entry in &mut entries {
            entry["id"] = entry["id"].as_u64().and_then(|before| self.number(before)).into();
        }
        entries.extend(self.entries().map(|(_, entry)| entry));
        json["added_tokens"] = Json::Array(entries);
        for part in ["post_processor", "padding"] {
            self.renumber(&mut json[part], "tokenizer.json")?;
        }
        Ok(())
    }

    /// Changes the document `name`, which is `config.json` or one of [`STATING`].
    fn document(&self, name: &str, json: &mut Json) -> Result<()> {
        if let Some(Json::Object(entries)) = json.get_mut("added_tokens_decoder") {
            let before = std::mem::take(entries);
            for (number, entry) in before {
                let kept = number.parse().ok().and_then(|number| self.number(number));
                let text = entry.get("content").and_then(Json::as_str).unwrap_or_default();
                if let Some(number) = kept.filter(|_| !self.removed_texts.contains(text)) {
                    entries.insert(number.to_string(), entry);
                }
            }
            for (number, mut entry) in self.entries() {
                if let Some(keys) = entry.as_object_mut() {
                    keys.remove("id");
                }
                entries.insert(number.to_string(), entry);
            }
        }
        for key in ["additional_special_tokens", "extra_special_tokens"] {
            if let Some(texts) = json.get_mut(key).and_then(Json::as_array_mut) {
                texts.retain(|text| {
                    let text = text.as_str().or(text.get("content").and_then(Json::as_str));
                    text.is_none_or(|text| !self.removed_texts.contains(text))
                });
            }
        }
        let keys = json.as_object().into_iter().flatten();
        for (key, value) in keys.filter(|(key, _)| key.ends_with("_token")) {
            self.check_text(
                value.as_str().or(value.get("content").and_then(Json::as_str)),
                name,
                key,
            )?;
        }
        self.renumber(json, name)
    }

    fn check_text(&self, text: Option<&str>, name: &str, key: &str) -> Result<()> {
        match text.filter(|text| self.removed_texts.contains(*text)) {
            Some(text) => Err(in_use(Text::new(text.as_bytes()), name, key)),
            None => Ok(()),
        }
    }

    /// Changes the numbers of tokens in a document.
    fn renumber(&self, json: &mut Json, name: &str) -> Result<()> {
        if self.removed.is_empty() {
            return Ok(());
        }
        let values: Vec<(&str, &mut Json)> = match json {
            Json::Object(keys) => {
                keys.iter_mut().map(|(key, value)| (key.as_str(), value)).collect()
            }
            Json::Array(items) => items.iter_mut().map(|item| ("", item)).collect(),
            _ => return Ok(()),
        };
        for (key, value) in values {
            let is_pair = ["sep", "cls"].contains(&key);
            match value {
                Json::Array(items) if is_pair => {
                    if let Some(number) = items.get_mut(1) {
                        self.one(number, name, key)?;
                    }
                }
                Json::Array(items) if has_numbers(key) => {
                    let count = items.len();
                    items.retain(|item| item.as_u64().is_none_or(|old| self.number(old).is_some()));
                    if items.is_empty() && count > 0 {
                        return Err(in_use("all of its tokens", name, key));
                    }
                    items.iter_mut().try_for_each(|item| self.one(item, name, key))?;
                }
                Json::Number(_) if has_numbers(key) => self.one(value, name, key)?,
                Json::Array(items) if !items.is_empty() && NESTED.contains(&key) => {
                    let fault = format!("{name}: the numbers in {key} cannot be changed");
                    return Err(Error::unsupported(fault).in_key(key));
                }
                other => self.renumber(other, name)?,
            }
        }
        Ok(())
    }

    fn one(&self, value: &mut Json, name: &str, key: &str) -> Result<()> {
        let Some(before) = value.as_u64() else { return Ok(()) };
        *value = self.number(before).ok_or_else(|| in_use(before, name, key))?.into();
        Ok(())
    }
}

/// Keys with numbers of tokens in lists of lists.
const NESTED: [&str; 3] = ["forced_decoder_ids", "bad_words_ids", "sequence_bias"];

/// Whether a key has numbers of tokens.
fn has_numbers(key: &str) -> bool {
    let whole = ["pad_id", "ids", "suppress_tokens", "begin_suppress_tokens"];
    let ends = ["token_id", "token_ids", "token_index"];
    whole.contains(&key) || ends.iter().any(|end| key.ends_with(end))
}

fn in_use(token: impl std::fmt::Display, name: &str, key: &str) -> Error {
    Error::mismatch(format!("{name}: {key} needs the token {token}, which is removed"))
        .in_key(key)
        .advise("keep the token, or change the key first")
}

/// Whether a merge reads or makes one of these tokens.
fn uses(merge: &Json, prefix: &str, tokens: &HashSet<String>) -> bool {
    let parts: Vec<&str> = match merge {
        Json::String(joined) => joined.split(' ').collect(),
        Json::Array(parts) => parts.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let (first, rest) = parts.split_first().unwrap_or((&"", &[]));
    let rest = rest.iter().map(|part| part.strip_prefix(prefix).unwrap_or(part));
    let whole: String = std::iter::once(*first).chain(rest).collect();
    parts.iter().any(|part| tokens.contains(*part)) || tokens.contains(&whole)
}

/// Files of a tokenizer whose tokens `tokenizer.json` has, too.
const OTHERS: [&str; 7] = [
    "added_tokens.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
];

/// Documents with texts and numbers of tokens.
const STATING: [&str; 3] =
    ["generation_config.json", "special_tokens_map.json", "tokenizer_config.json"];

/// Whether a document belongs to a tokenizer.
fn is_of_tokenizer(name: &str) -> bool {
    name == "tokenizer.json"
        || OTHERS.contains(&name)
        || STATING.contains(&name)
        || name.contains("chat_template")
}

/// The documents of a model, without `config.json`.
pub(super) type Files = Vec<(String, Vec<u8>)>;

impl TokenEdit {
    /// The documents of the merged model. `keys` are those of its config, `files` its other documents;
    /// `of` is the model whose tokenizer is edited, and `is_other` says that it is not the one whose
    /// documents these are.
    pub(super) fn documents(
        &self,
        of: &Model,
        is_other: bool,
        keys: &mut Map<String, Json>,
        files: &mut Files,
    ) -> Result<()> {
        if is_other {
            let theirs = translate::hf_documents(of)?;
            let stated = theirs.config.keys()?.into_owned();
            keys.retain(|key, _| !has_numbers(key));
            keys.extend(stated.into_iter().filter(|(key, _)| has_numbers(key)));
            files.retain(|(name, _)| !is_of_tokenizer(name));
            let theirs = theirs.others.into_iter().filter(|(name, _)| is_of_tokenizer(name));
            files.extend(theirs.map(|(name, bytes)| (name.to_owned(), bytes)));
        }
        if self.removed_texts.is_empty() && self.added.is_empty() {
            return Ok(());
        }
        files.retain(|(name, _)| name != "tokenizer.json" && !OTHERS.contains(&&**name));
        for (name, bytes) in files.iter_mut().filter(|(name, _)| STATING.contains(&&**name)) {
            let mut json = Json::parse(bytes).map_err(|error| error.in_file(Path::new(&*name)))?;
            self.document(name, &mut json)?;
            *bytes = format!("{json:#}").into_bytes();
        }
        if let Some(mut json) = translate::tokenizer_json(of)? {
            self.tokenizer(&mut json)?;
            files.push(("tokenizer.json".to_owned(), format!("{json:#}").into_bytes()));
        }
        let mut config = Json::Object(std::mem::take(keys));
        self.document("config.json", &mut config)?;
        *keys = config.as_object_mut().map(std::mem::take).unwrap_or_default();
        Ok(())
    }
}

/// States the number of rows in a config.
pub(super) fn set_count(keys: &mut Map<String, Json>, count: u64) {
    let mut is_set = false;
    let mut set = |keys: &mut Map<String, Json>| {
        for name in VOCABULARY_KEYS {
            if let Some(value) = keys.get_mut(name) {
                *value = count.into();
                is_set = true;
            }
        }
    };
    set(keys);
    for inner in TEXT_CONFIGS {
        keys.get_mut(inner).and_then(Json::as_object_mut).into_iter().for_each(&mut set);
    }
    if !is_set {
        keys.insert("vocab_size", count.into());
    }
}
