//! A tokenizer in the terms of `tokenizer.json`, with vocabulary and merges as tables.
//!
//! As JSON values, half a million merges take hundreds of megabytes. Here all texts are in one buffer, and
//! a merge is three numbers.

use std::borrow::Cow;

use super::json;
use super::special::named_texts;
use crate::error::{Error, Result};
use crate::index::{NameIndex, hash};
use crate::json::{Json, json};
use crate::limits::Limits;

/// A tokenizer as `tokenizer.json` describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenizerTables {
    /// The document without the vocabulary and the merges of its `model`.
    pub settings: Json,
    /// The vocabulary of the model.
    pub vocabulary: VocabularyTable,
    /// The merges of the model, highest priority first. Empty for models without merges.
    pub merges: Vec<MergedPair>,
}

/// Two tokens that become one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MergedPair {
    /// The number of the left token.
    pub first: u32,
    /// The number of the right token.
    pub second: u32,
    /// The number of the token that both become.
    pub whole: u32,
}

/// The tokens of a vocabulary, by text and by number.
#[derive(Clone, Debug, Default)]
pub struct VocabularyTable {
    texts: Vec<u8>,
    /// In the order of their numbers.
    rows: Vec<Row>,
    index: NameIndex,
    longest: usize,
}

/// A token of a vocabulary: its number, and the end of its text in the buffer.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: u32,
    start: u32,
    len: u32,
    score: f64,
}

/// A token to be put into a table: number, text and score.
pub(crate) type NewToken<'t> = (u32, Cow<'t, [u8]>, f64);

impl VocabularyTable {
    /// Collects tokens, which have scores in some tokenizers. If several tokens have the same text,
    /// [`id`](Self::id) finds the last.
    ///
    /// # Errors
    ///
    /// `Unsupported` for texts of more than 4 GiB; `Io` without memory.
    pub fn new<'t>(tokens: impl Iterator<Item = NewToken<'t>>) -> Result<Self> {
        let mut table = Self::default();
        for (id, text, score) in tokens {
            let place = (u32::try_from(table.texts.len()), u32::try_from(text.len()));
            let (Ok(start), Ok(len)) = place else {
                return Err(Error::unsupported("the vocabulary is larger than 4 GiB"));
            };
            table.longest = table.longest.max(text.len());
            table.texts.extend_from_slice(&text);
            table.rows.push(Row { id, start, len, score });
        }
        table.rows.sort_by_key(|row| row.id);
        let mut index = NameIndex::with_room(table.rows.len())?;
        for number in 0..u32::try_from(table.rows.len()).unwrap_or(u32::MAX) {
            let name = |row: u32| table.text_at(row);
            let text = name(number);
            let same = |other: u32| name(other) == text;
            if index.insert(hash(text), number, same, |row| hash(name(row))).is_some() {
                index.replace(text, number, name);
            }
        }
        table.index = index;
        Ok(table)
    }

    /// The number of tokens.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The bytes of the longest text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The number of the token with this text.
    pub fn id(&self, text: &[u8]) -> Option<u32> {
        self.row(text).map(|row| row.id)
    }

    /// The number and the score of the token with this text.
    pub fn scored(&self, text: &[u8]) -> Option<(u32, f64)> {
        self.row(text).map(|row| (row.id, row.score))
    }

    /// The text of a token.
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        let place = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get(place).map(|row| self.text_of(*row))
    }

    /// Numbers, texts and scores, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], f64)> {
        self.rows.iter().map(|row| (row.id, self.text_of(*row), row.score))
    }

    fn row(&self, text: &[u8]) -> Option<&Row> {
        let found = self.index.find(text, |row| self.text_at(row))?;
        self.rows.get(found as usize)
    }

    fn text_at(&self, row: u32) -> &[u8] {
        self.rows.get(row as usize).map_or(&[], |row| self.text_of(*row))
    }

    fn text_of(&self, row: Row) -> &[u8] {
        let (start, len) = (row.start as usize, row.len as usize);
        self.texts.get(start..start.saturating_add(len)).unwrap_or_default()
    }
}

impl TokenizerTables {
    /// Parses a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is no such document, or a merge names a token that is not in the vocabulary;
    /// `LimitExceeded`.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        let settings = json::rest(bytes, limits)?;
        let model = json::model(bytes, limits)?;
        let vocabulary = VocabularyTable::new(model.rows())?;
        let prefix = settings.pointer("/model/continuing_subword_prefix").and_then(Json::as_str);
        let merges = pairs(&vocabulary, model.merges(), prefix.unwrap_or_default())?;
        Ok(Self { settings, vocabulary, merges })
    }

    /// Adds the tokens that `tokenizer_config.json` lists or names and `tokenizer.json` lacks, as transformers does.
    pub(crate) fn add_tokens(&mut self, config: &Json) {
        let listed = config.get("added_tokens_decoder").and_then(Json::as_object);
        let Some(settings) = self.settings.as_object_mut() else { return };
        let added = settings.entry("added_tokens".to_owned()).or_insert(Json::Null);
        if added.is_null() {
            *added = Json::Array(Vec::new());
        }
        let Json::Array(added) = added else { return };
        let content = |token: &Json| token.get("content").and_then(Json::as_str).map(str::to_owned);
        let mut known: Vec<Option<String>> = added.iter().map(content).collect();
        for (id, token) in listed.into_iter().flatten() {
            let (Ok(id), Json::Object(token), text) = (id.parse::<u32>(), token, content(token))
            else {
                continue;
            };
            let text_of = self.vocabulary.text(id);
            let free =
                text_of.is_none_or(|other| Some(other) == text.as_deref().map(str::as_bytes));
            if free && text.is_some() && !known.contains(&text) {
                let mut token = token.clone();
                token.insert("id".to_owned(), id.into());
                added.push(Json::Object(token));
                known.push(text);
            }
        }
        let number = |token: &Json| u32::try_from(token.get("id")?.as_u64()?).ok();
        let numbers = added.iter().filter_map(number).chain(self.vocabulary.iter().map(|t| t.0));
        let mut next = numbers.max().map_or(0, |id| id.saturating_add(1));
        for text in named_texts(config) {
            if known.iter().flatten().any(|known| known == text) {
                continue;
            }
            let id = self.vocabulary.id(text.as_bytes()).unwrap_or(next);
            next = next.max(id.saturating_add(1));
            added.push(json!({"id": id, "content": text, "normalized": false, "special": true}));
            known.push(Some(text.to_owned()));
        }
    }

    /// The whole document.
    pub(crate) fn into_json(self) -> Json {
        let Self { mut settings, vocabulary, merges } = self;
        let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes).into_owned());
        let of = |id: u32| text(vocabulary.text(id).unwrap_or_default());
        let Some(Json::Object(model)) = settings.get_mut("model") else { return settings };
        let scored = model.get("type").and_then(Json::as_str) == Some("Unigram");
        let listed: Json = match scored {
            true => vocabulary
                .iter()
                .map(|(_, t, score)| Json::Array(vec![text(t), json!(score)]))
                .collect(),
            false => Json::Object(
                vocabulary
                    .iter()
                    .map(|(id, t, _)| (String::from_utf8_lossy(t).into_owned(), id.into()))
                    .collect(),
            ),
        };
        model.insert("vocab", listed);
        if model.get("type").and_then(Json::as_str) == Some("BPE") {
            let pair = |merge: &MergedPair| Json::Array(vec![of(merge.first), of(merge.second)]);
            let merges = merges.iter().map(pair).collect();
            model.insert("merges", Json::Array(merges));
        }
        settings
    }
}

/// The numbers of listed merges. `prefix` is the text that tokens within a word start with.
pub(crate) fn pairs<'m>(
    vocabulary: &VocabularyTable,
    merges: impl Iterator<Item = super::Merge<'m>>,
    prefix: &str,
) -> Result<Vec<MergedPair>> {
    let mut text = Vec::new();
    let mut pair = |(first, second): &super::Merge<'m>| {
        text.clear();
        text.extend_from_slice(first);
        text.extend_from_slice(second.strip_prefix(prefix.as_bytes()).unwrap_or(second));
        Some(MergedPair {
            first: vocabulary.id(first)?,
            second: vocabulary.id(second)?,
            whole: vocabulary.id(&text)?,
        })
    };
    let numbered = |(rank, merge): (usize, super::Merge<'m>)| {
        pair(&merge).ok_or_else(|| {
            let shown = |text: &[u8]| crate::bytes::Text::new(text).brief().to_string();
            let (first, second) = (shown(&merge.0), shown(&merge.1));
            Error::malformed(format!(
                "merge {rank} is \"{first}\" and \"{second}\": these two, or both as one text, are not in the vocabulary"
            ))
        })
    };
    merges.enumerate().map(numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = r#"{"added_tokens":[{"id":4,"content":"<s>","special":true}],"model":{"type":"BPE",
        "vocab":{"a":0,"b":1,"ab":3,"<s>":4},"merges":["a b"],"unk_token":null}}"#;

    #[test]
    fn a_document_is_taken_apart_and_put_together() {
        let tables =
            TokenizerTables::parse(DOCUMENT.as_bytes(), &Limits::default()).expect("tables");
        assert_eq!(tables.merges, [MergedPair { first: 0, second: 1, whole: 3 }]);
        assert_eq!(tables.vocabulary.id(b"ab"), Some(3));
        assert_eq!(tables.vocabulary.id(b"c"), None);
        assert_eq!(tables.vocabulary.text(1), Some(&b"b"[..]));
        assert_eq!(tables.vocabulary.text(2), None);
        assert_eq!(tables.settings["model"].get("vocab"), None);
        let mut whole = Json::parse(DOCUMENT.as_bytes()).expect("JSON");
        whole["model"]["merges"] = json!([["a", "b"]]);
        assert_eq!(tables.into_json(), whole);
    }

    #[test]
    fn merges_are_of_tokens() {
        let wrong = DOCUMENT.replace("a b", "b a");
        let error = TokenizerTables::parse(wrong.as_bytes(), &Limits::default());
        let error = error.expect_err("a merge of no tokens").to_string();
        assert!(error.contains("merge 0 is \"b\" and \"a\""), "{error}");
    }

    #[test]
    fn scores_of_a_document_have_64_bits() {
        let text = r#"{"model":{"type":"Unigram","vocab":[["a",-3.00000000001],["b",-3.0]]}}"#;
        let tables = TokenizerTables::parse(text.as_bytes(), &Limits::default()).expect("tables");
        let [a, b] = [b"a", b"b"].map(|text| tables.vocabulary.scored(text).expect("a token"));
        assert!(a.1 < b.1, "{a:?} {b:?}");
    }

    #[test]
    fn the_last_of_equal_texts_counts() {
        let token = |id, text: &'static str| (id, Cow::Borrowed(text.as_bytes()), 0.5);
        let table = [token(2, "x"), token(0, "x"), token(1, "yy")];
        let table = VocabularyTable::new(table.into_iter()).expect("a table");
        assert_eq!((table.scored(b"x"), table.longest()), (Some((2, 0.5)), 2));
        assert_eq!(table.text(0), Some(&b"x"[..]));
    }
}
