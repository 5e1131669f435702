//! The tokenizer as Hugging Face's files, from GGUF keys or a model of SentencePiece.
//!
//! `tokenizer.json` is complete: with it, programs based on Hugging Face's tokenizers split text as
//! llama.cpp does with the GGUF file. The other files name the special tokens and the chat
//! templates.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::added::{KeptFields, by_type, is_added};
use super::{files, pre};
use crate::arch::{ConfigValue, family};
use crate::error::{Error, Result};
use crate::json::{Json, Map, json};
use crate::metadata::Value;
use crate::store::{Encoding, Store};
use crate::tokenizer::tables::pairs;
use crate::tokenizer::{
    BLOCK, MergedPair, Token, TokenKind, Tokenizer, TokenizerKind, TokenizerTables, VocabularyTable,
};

/// The files of a tokenizer: names and contents.
pub(crate) type TokenizerDocuments = Vec<(&'static str, Json)>;

/// A token in `tokenizer.json`.
struct JsonToken {
    id: u32,
    text: String,
    score: f64,
    kind: TokenKind,
}

/// The parts of `tokenizer.json` that normalize, split, merge and decode text.
struct TokenizerParts {
    normalizer: Json,
    pre_tokenizer: Json,
    /// Without vocabulary and merges.
    model: Json,
    vocabulary: VocabularyTable,
    merges: Vec<MergedPair>,
    decoder: Json,
    /// Whether texts start and end with a token if the file does not state it.
    usual: (bool, bool),
}

/// The tokens that `tokenizer.json` matches before all others, as `tokenizer_config.json` has them.
type AddedTokens = Vec<(u32, Map<String, Json>)>;

/// The tables of a model's tokenizer. `None` if it has no tokenizer.
///
/// # Errors
///
/// Same as [`files`].
pub(crate) fn tables(store: &Store) -> Result<Option<TokenizerTables>> {
    let Some(tokenizer) = Tokenizer::of(store)? else { return Ok(None) };
    let entries = entries(store, &tokenizer)?;
    let (mut tables, _) = translated(store, &tokenizer, &entries)?;
    if lists_merges(&tokenizer) {
        let merges = pairs(&tables.vocabulary, tokenizer.merges(), "");
        tables.merges = merges.map_err(|error| error.in_key("tokenizer.ggml.merges"))?;
    }
    Ok(Some(tables))
}

/// The files of a model's tokenizer. Empty if it has no tokenizer.
///
/// # Errors
///
/// `Unsupported` for a kind of tokenizer or a pre-tokenizer that cannot be translated, and for a
/// token that is not UTF-8; `Malformed` as for [`Tokenizer::of`].
pub(crate) fn files(store: &Store, longest: Option<u32>) -> Result<TokenizerDocuments> {
    let Some(tokenizer) = Tokenizer::of(store)? else { return Ok(TokenizerDocuments::new()) };
    let entries = entries(store, &tokenizer)?;
    let (tables, added) = translated(store, &tokenizer, &entries)?;
    let text = text_of(&tokenizer, &entries);
    let mut whole = tables.into_json();
    let model = whole.get_mut("model").and_then(Json::as_object_mut);
    if let Some(model) = model.filter(|_| lists_merges(&tokenizer)) {
        model.insert("merges", listed(&tokenizer)?);
    }
    let mut map = Map::new();
    for name in ["bos", "eos", "unk", "sep", "pad", "cls", "mask"] {
        // llama.cpp has names of its own for the tokens around BERT's texts.
        let other = match name {
            "cls" if is_bert(&tokenizer) || is_doubled(store, &tokenizer) => text("bos"),
            _ => None,
        };
        if let Some(text) = text(name).or(other) {
            map.insert(format!("{name}_token"), text.into());
        }
    }
    let added = added.into_iter().map(|(id, token)| (id.to_string(), Json::Object(token)));
    let mut config = Map::new();
    config.insert("added_tokens_decoder".to_owned(), Json::Object(added.collect()));
    config.extend(map.clone());
    add_settings(store, &tokenizer, longest, &mut config);
    config.extend(chat_template(&tokenizer).map(|template| ("chat_template".to_owned(), template)));
    Ok(vec![
        ("tokenizer.json", whole),
        ("tokenizer_config.json", Json::Object(config)),
        ("special_tokens_map.json", Json::Object(map)),
    ])
}

fn is_bert(tokenizer: &Tokenizer<'_>) -> bool {
    tokenizer.kind.value == TokenizerKind::WordPiece
}

/// Whether two texts are separated by the end token of the first and the start token of the second.
fn is_doubled(store: &Store, tokenizer: &Tokenizer<'_>) -> bool {
    !is_bert(tokenizer) && key_flag(store, "add_sep_token").unwrap_or(false)
}

/// The text of a special token, by its purpose.
fn text_of<'e>(
    tokenizer: &Tokenizer<'_>,
    entries: &'e [JsonToken],
) -> impl Fn(&str) -> Option<&'e str> {
    move |name: &str| {
        let id = tokenizer.special(name)?;
        entries.iter().find(|entry| entry.id == id).map(|entry| entry.text.as_str())
    }
}

/// The tokenizer in the terms of `tokenizer.json`, without merges that are listed, and the tokens that are
/// matched first.
fn translated(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    entries: &[JsonToken],
) -> Result<(TokenizerTables, AddedTokens)> {
    let parts = match &tokenizer.kind.value {
        TokenizerKind::Bpe => byte_level(store, tokenizer, entries)?,
        TokenizerKind::SentencePiece => sentencepiece(store, tokenizer, entries)?,
        TokenizerKind::WordPiece => wordpiece(store, tokenizer, entries)?,
        TokenizerKind::Unigram => unigram(store, tokenizer, entries)?,
        TokenizerKind::Other(name) if has_merges(name) => bpe_with_bytes(tokenizer, entries)?,
        other => {
            let fault = format!("unsupported kind of tokenizer: {}", other.name());
            return Err(Error::unsupported(fault)
                .in_file(store.path())
                .in_key(&tokenizer.kind.source));
        }
    };
    let text = text_of(tokenizer, entries);
    let flag = |stated: &Option<crate::arch::Field<bool>>, usual| {
        stated.as_ref().map_or(usual, |f| f.value)
    };
    let bert = is_bert(tokenizer);
    let around = (
        text(if bert && tokenizer.special("cls").is_some() { "cls" } else { "bos" })
            .filter(|_| flag(&tokenizer.add_bos, parts.usual.0)),
        text(if bert { "sep" } else { "eos" }).filter(|_| flag(&tokenizer.add_eos, parts.usual.1)),
    );
    let id_of = |text: &str| entries.iter().find(|entry| entry.text == text).map(|entry| entry.id);
    let kept = KeptFields::of(store);
    // Such tokens are matched as in llama.cpp: before spaces are replaced.
    let plain = parts.normalizer.is_null() && tokenizer.kind.value != TokenizerKind::SentencePiece;
    let added: AddedTokens = entries
        .iter()
        .filter(|entry| is_added(entry.kind))
        .map(|entry| (entry.id, added_token(entry, plain, &kept)))
        .collect();
    let with_id = |(id, token): &(u32, Map<String, Json>)| {
        let mut whole = Map::from_iter([("id".to_owned(), (*id).into())]);
        whole.extend(token.clone());
        Json::Object(whole)
    };
    let added_tokens: Vec<Json> = added.iter().map(with_id).collect();
    let doubled = is_doubled(store, tokenizer);
    let settings = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added_tokens,
        "normalizer": parts.normalizer, "pre_tokenizer": parts.pre_tokenizer,
        "post_processor": post_processor(around, doubled, id_of, &parts.decoder),
        "decoder": parts.decoder, "model": parts.model,
    });
    let TokenizerParts { vocabulary, merges, .. } = parts;
    Ok((TokenizerTables { settings, vocabulary, merges }, added))
}

/// A token that is matched before all others; `plain` if the text is not normalized before.
fn added_token(entry: &JsonToken, plain: bool, kept: &KeptFields) -> Map<String, Json> {
    let mut token = Map::new();
    token.insert("content".to_owned(), entry.text.clone().into());
    for field in ["single_word", "lstrip", "rstrip", "normalized", "special"] {
        let value = match field {
            "normalized" => plain && entry.kind == TokenKind::UserDefined,
            field => by_type(field, entry.kind),
        };
        token.insert(field.to_owned(), value.into());
    }
    kept.set(entry.id, &mut token);
    token
}

/// Adds the settings of `tokenizer_config.json` that are no tokens.
fn add_settings(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    longest: Option<u32>,
    config: &mut Map<String, Json>,
) {
    for (key, stated) in
        [("add_bos_token", &tokenizer.add_bos), ("add_eos_token", &tokenizer.add_eos)]
    {
        if let Some(flag) = stated {
            config.insert(key.to_owned(), flag.value.into());
        }
    }
    if let Some(flag) = key_flag(store, "add_space_prefix") {
        config.insert("add_prefix_space".to_owned(), flag.into());
    }
    config.insert("clean_up_tokenization_spaces".to_owned(), false.into());
    if let Some(longest) = longest {
        config.insert("model_max_length".to_owned(), longest.into());
    }
    // Without this, transformers gives both texts of a pair the same type.
    if store.metadata().u64("tokenizer.ggml.token_type_count").is_some_and(|count| count > 1) {
        let names = json!(["input_ids", "token_type_ids", "attention_mask"]);
        config.insert("model_input_names".to_owned(), names);
    }
    // The class that takes all its settings from tokenizer.json.
    config.insert("tokenizer_class".to_owned(), "PreTrainedTokenizerFast".into());
}

/// The chat template as `tokenizer_config.json` has it: a text, or a list of named ones.
fn chat_template(tokenizer: &Tokenizer<'_>) -> Option<Json> {
    match tokenizer.chat_templates.as_slice() {
        [] => None,
        [one] if one.name.is_none() => Some(one.text.value.clone().into()),
        several => {
            // Some readers expect the default template first.
            let mut sorted: Vec<_> = several.iter().collect();
            sorted.sort_by_key(|template| template.name.is_some());
            let each = sorted.into_iter().map(|template| {
                let name = template.name.as_deref().unwrap_or("default");
                json!({"name": name, "template": template.text.value})
            });
            Some(each.collect())
        }
    }
}

/// The tokens, without those that only pad the embedding.
fn entries(store: &Store, tokenizer: &Tokenizer<'_>) -> Result<Vec<JsonToken>> {
    let is_gguf = store.encoding() == Encoding::Gguf;
    let unstated = |id: u32| {
        let named = tokenizer.special.iter().filter(|_| !is_gguf);
        let mut named = named.filter(|(_, token)| token.value == id);
        match named.next() {
            Some((name, _)) if name == "unk" => TokenKind::Unknown,
            Some(_) => TokenKind::Control,
            None => TokenKind::Normal,
        }
    };
    let entry = |token: Token<'_>| {
        let kind = token.kind.unwrap_or_else(|| unstated(token.id));
        let fills = format!("[PAD{}]", token.id);
        if kind == TokenKind::Unused && *token.text == *fills.as_bytes() {
            return None;
        }
        let text = String::from_utf8(token.text.into_owned()).map_err(|error| {
            let shown = crate::bytes::Text::new(error.as_bytes()).brief();
            Error::unsupported(format!("token {} is \"{shown}\", which is not UTF-8", token.id))
                .in_file(store.path())
                .in_key("tokenizer.ggml.tokens")
        });
        // Tokens that are matched in a text before its spaces are replaced have spaces themselves.
        // GGUF stores them so, and SentencePiece does not.
        let is_matched = kind == TokenKind::UserDefined && tokenizer.normalizer().is_some();
        let text = text.map(|text| if is_matched { text.replace(BLOCK, " ") } else { text });
        let score = token.score.unwrap_or(0.0).into();
        Some(text.map(|text| JsonToken { id: token.id, text, score, kind }))
    };
    tokenizer.tokens().filter_map(entry).collect()
}

/// All tokens by text. Special tokens are included, since they would be renumbered otherwise.
fn vocabulary(entries: &[JsonToken]) -> Result<VocabularyTable> {
    let tokens = entries.iter().map(|entry| (entry.id, entry.text.as_bytes().into(), entry.score));
    VocabularyTable::new(tokens)
}

fn bpe(unknown: Option<&JsonToken>, fallback: bool, ignore_merges: bool) -> Json {
    json!({
        "type": "BPE", "dropout": null, "unk_token": unknown.map(|entry| &entry.text),
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": unknown.is_some(), "byte_fallback": fallback,
        "ignore_merges": ignore_merges,
    })
}

/// Whether merges are listed, and do not follow from scores.
fn lists_merges(tokenizer: &Tokenizer<'_>) -> bool {
    matches!(tokenizer.kind.value, TokenizerKind::Bpe | TokenizerKind::Other(_))
}

/// The merges that the file lists, as they are.
fn listed(tokenizer: &Tokenizer<'_>) -> Result<Json> {
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).map(Json::from);
        text.map_err(|_| {
            Error::unsupported("a merge that is not UTF-8").in_key("tokenizer.ggml.merges")
        })
    };
    let merges = tokenizer.merges();
    let pair = |(first, second): crate::tokenizer::Merge<'_>| {
        Ok(Json::Array(vec![text(&first)?, text(&second)?]))
    };
    merges.map(pair).collect::<Result<Vec<Json>>>().map(Json::Array)
}

/// A flag among the tokenizer's GGUF keys.
fn key_flag(store: &Store, name: &str) -> Option<bool> {
    store.metadata().get(&format!("tokenizer.ggml.{name}"))?.to_bool()
}

fn byte_level(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    entries: &[JsonToken],
) -> Result<TokenizerParts> {
    if let Some(class) = files::class(store, tokenizer)? {
        return Ok(TokenizerParts {
            normalizer: class.normalizer.clone(),
            pre_tokenizer: class.pre_tokenizer.clone(),
            model: bpe(None, false, false),
            merges: Vec::new(),
            vocabulary: vocabulary(entries)?,
            decoder: tokenizer.decoder(),
            usual: (class.surrounds, class.surrounds),
        });
    }
    let name = tokenizer.pre.as_ref().map_or("default", |pre| pre.value.as_str());
    let pre = pre::by_name(name).ok_or_else(|| {
        let fault = format!(
            "unsupported pre-tokenizer \"{name}\": the steps that split text are not known"
        );
        Error::unsupported(fault).in_file(store.path()).in_key("tokenizer.ggml.pre")
    })?;
    let normalizer = if pre.composed { json!({"type": "NFC"}) } else { Json::Null };
    let vocabulary = vocabulary(entries)?;
    Ok(TokenizerParts {
        normalizer,
        pre_tokenizer: pre.json(),
        model: bpe(None, false, pre.ignore_merges),
        merges: Vec::new(),
        vocabulary,
        decoder: tokenizer.decoder(),
        // llama.cpp's flag for these pre-tokenizers, whatever the file states.
        usual: (matches!(pre.name, "llama-bpe" | "tekken"), false),
    })
}

fn to_blocks() -> Json {
    json!({"type": "Replace", "pattern": {"String": " "}, "content": BLOCK})
}

fn unknown<'e>(tokenizer: &Tokenizer<'_>, entries: &'e [JsonToken]) -> Option<&'e JsonToken> {
    let named = tokenizer.special("unk");
    let is = |entry: &&JsonToken| match named {
        Some(id) => entry.id == id,
        None => entry.kind == TokenKind::Unknown,
    };
    entries.iter().find(is)
}

fn sentencepiece(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    entries: &[JsonToken],
) -> Result<TokenizerParts> {
    let config = match store.encoding() {
        Encoding::Gguf => None,
        _ => store.read_document("tokenizer_config.json")?,
    };
    let scheme = config.as_ref().and_then(|config| files::prepend_scheme(config.as_object()?));
    let (normalizer, pre_tokenizer) = match (tokenizer.adds_space, scheme) {
        (true, Some(scheme)) => (
            Json::Null,
            json!({"type": "Metaspace", "replacement": BLOCK, "prepend_scheme": scheme, "split": false}),
        ),
        (true, None) => {
            let prepend = json!({"type": "Prepend", "prepend": BLOCK});
            let normalizers = json!({"type": "Sequence", "normalizers": [prepend, to_blocks()]});
            (normalizers, Json::Null)
        }
        (false, _) => (to_blocks(), Json::Null),
    };
    let vocabulary = vocabulary(entries)?;
    Ok(TokenizerParts {
        normalizer,
        pre_tokenizer,
        model: bpe(unknown(tokenizer, entries), true, false),
        merges: of_scores(entries, &vocabulary),
        vocabulary,
        decoder: tokenizer.decoder(),
        usual: (true, false),
    })
}

/// Merges derived from scores. SentencePiece merges the two neighbors whose token has the highest
/// score. So every split of a token into two tokens is a merge, and the merges of a token with a
/// higher score come first. Runs of spaces often have one score: the longest comes first, as SentencePiece finds it.
fn of_scores(entries: &[JsonToken], vocabulary: &VocabularyTable) -> Vec<MergedPair> {
    let mut merged: Vec<&JsonToken> =
        entries.iter().filter(|entry| entry.kind == TokenKind::Normal).collect();
    let last = merged.iter().map(|entry| entry.id as usize).max().unwrap_or(0);
    let mut is_text = vec![false; last.saturating_add(1)];
    for entry in &merged {
        if let Some(slot) = is_text.get_mut(entry.id as usize) {
            *slot = true;
        }
    }
    let id = |text: &str| {
        let id = vocabulary.id(text.as_bytes())?;
        is_text.get(id as usize).copied().unwrap_or(false).then_some(id)
    };
    let order = |a: &&JsonToken, b: &&JsonToken| {
        b.score.total_cmp(&a.score).then(b.text.len().cmp(&a.text.len()))
    };
    merged.sort_by(order);
    let mut merges = Vec::new();
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for entry in merged {
        let splits = entry.text.char_indices().skip(1).filter_map(|(place, _)| {
            let (first, second) = entry.text.split_at(place);
            Some((id(first)?, id(second)?))
        });
        parts.clear();
        parts.extend(splits);
        parts.sort_unstable();
        if let Some(whole) = id(&entry.text).filter(|_| !parts.is_empty()) {
            let pair = |&(first, second): &(u32, u32)| MergedPair { first, second, whole };
            merges.extend(parts.iter().map(pair));
        }
    }
    merges
}

/// Whether this kind of tokenizer, which only one family uses, has merges and byte tokens.
fn has_merges(model: &str) -> bool {
    family::variants().any(|variant| variant.tokenizer.values("merges").first() == Some(&model))
}

fn bpe_with_bytes(tokenizer: &Tokenizer<'_>, entries: &[JsonToken]) -> Result<TokenizerParts> {
    let vocabulary = vocabulary(entries)?;
    Ok(TokenizerParts {
        normalizer: to_blocks(),
        pre_tokenizer: json!({
            "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false,
        }),
        model: bpe(unknown(tokenizer, entries), true, false),
        merges: Vec::new(),
        vocabulary,
        decoder: tokenizer.decoder(),
        usual: (true, false),
    })
}

fn wordpiece(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    entries: &[JsonToken],
) -> Result<TokenizerParts> {
    let config = store.read_document("tokenizer_config.json")?;
    let flag = |name: &str, other: &str| {
        let stated = || config.as_ref()?.get(other)?.as_bool();
        key_flag(store, &format!("normalizer.{name}")).or_else(stated)
    };
    let is_gguf = store.encoding() == Encoding::Gguf;
    // llama.cpp marks tokens that start a word, BERT tokens within a word.
    let marked = |entry: &JsonToken| match entry.text.strip_prefix(BLOCK) {
        _ if !is_gguf => entry.text.clone(),
        Some(word) => word.to_owned(),
        None if entry.kind == TokenKind::Normal => format!("##{}", entry.text),
        None => entry.text.clone(),
    };
    let token = |entry: &JsonToken| (entry.id, marked(entry).into_bytes().into(), entry.score);
    let unknown = unknown(tokenizer, entries).map_or("[UNK]", |entry| &entry.text);
    Ok(TokenizerParts {
        normalizer: json!({
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": flag("strip_accents", "strip_accents"),
            "lowercase": flag("lowercase", "do_lower_case").unwrap_or(true),
        }),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        model: json!({
            "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        }),
        vocabulary: VocabularyTable::new(entries.iter().map(token))?,
        merges: Vec::new(),
        decoder: tokenizer.decoder(),
        usual: (true, true),
    })
}

/// Llama.cpp's T5 tokenizer, in the form of XLM-RoBERTa's files.
fn unigram(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
    entries: &[JsonToken],
) -> Result<TokenizerParts> {
    let metadata = store.metadata();
    let key = "tokenizer.ggml.precompiled_charsmap";
    let precompiled = |bytes: &[u8]| json!({"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(bytes)});
    let normalizer = match (metadata.get(key), tokenizer.normalizer()) {
        (None, Some(stated)) if !stated.charsmap.is_empty() => precompiled(&stated.charsmap),
        (None, _) => Json::Null,
        (Some(value), _) => {
            let integers = match value {
                Value::Array(charsmap) => charsmap.integers(),
                _ => None,
            };
            let integers = integers.ok_or_else(|| {
                let found = ConfigValue::Metadata(value);
                Error::malformed(format!("{found}, but an array of bytes is needed"))
                    .in_file(store.path())
                    .in_key(key)
            })?;
            // Some files store signed bytes.
            precompiled(&integers.map(|byte| byte.to_le_bytes()[0]).collect::<Vec<u8>>())
        }
    };
    let block = json!({
        "type": "Metaspace", "replacement": BLOCK, "split": true,
        "prepend_scheme": if tokenizer.adds_space { "always" } else { "never" },
    });
    let removes = || Some(tokenizer.normalizer()?.removes_spaces);
    let pre_tokenizer = match key_flag(store, "remove_extra_whitespaces").or_else(removes) {
        Some(true) => json!({
            "type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, block],
        }),
        _ => block,
    };
    // Tokens are numbered by their position in the list.
    let last = entries.last().map_or(0, |entry| entry.id);
    let is_absent = |id: &u32| entries.binary_search_by_key(id, |entry| entry.id).is_err();
    let fills = (0..last)
        .filter(is_absent)
        .map(|id| (id, format!("[PAD{id}]").into_bytes().into(), -10_000.0));
    let tokens = entries.iter().map(|entry| (entry.id, entry.text.as_bytes().into(), entry.score));
    Ok(TokenizerParts {
        normalizer,
        pre_tokenizer,
        model: json!({
            "type": "Unigram", "unk_id": unknown(tokenizer, entries).map(|entry| entry.id),
            "byte_fallback": entries.iter().any(|entry| entry.kind == TokenKind::Byte),
        }),
        vocabulary: VocabularyTable::new(tokens.chain(fills))?,
        merges: Vec::new(),
        decoder: tokenizer.decoder(),
        usual: (false, true),
    })
}

/// The step that adds tokens around a text.
fn post_processor(
    (first, last): (Option<&str>, Option<&str>),
    doubled: bool,
    id: impl Fn(&str) -> Option<u32>,
    decoder: &Json,
) -> Json {
    if first.is_none() && last.is_none() {
        let bytes = decoder.get("type").and_then(Json::as_str) == Some("ByteLevel");
        return if bytes { decoder.clone() } else { Json::Null };
    }
    let token = |text: &str, kind: u32| json!({"SpecialToken": {"id": text, "type_id": kind}});
    let sequence = |name: &str, kind: u32| json!({"Sequence": {"id": name, "type_id": kind}});
    let around = |name: &str, kind: u32, first: Option<&str>| -> Vec<Json> {
        let first = first.map(|first| token(first, kind));
        let last = last.map(|last| token(last, kind));
        first.into_iter().chain([sequence(name, kind)]).chain(last).collect()
    };
    let single = around("A", 0, first);
    let second = match doubled {
        // RoBERTa's second text starts with the end token.
        true => around("B", 0, last),
        // BERT's second text follows the end of the first directly.
        false => around("B", 1, first.filter(|_| last.is_none())),
    };
    let pair: Vec<Json> = single.iter().cloned().chain(second).collect();
    let specials = first.into_iter().chain(last).filter_map(|text| {
        Some((text.to_owned(), json!({"id": text, "ids": [id(text)?], "tokens": [text]})))
    });
    json!({
        "type": "TemplateProcessing", "single": single, "pair": pair,
        "special_tokens": Json::Object(specials.collect()),
    })
}
