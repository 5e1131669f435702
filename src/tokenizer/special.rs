//! Special tokens, chat templates, and whether a text starts or ends with a special token.

use super::kinds::{TokenKind, TokenizerKind};
use super::template::ChatTemplate;
use super::tokens::{Tokenizer, Tokens};
use crate::arch::{ConfigValue, Field, FieldSource};
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::metadata::Value;
use crate::place::choice::TEMPLATES;
use crate::store::{Attachment, CompanionFiles, Encoding, Store};

/// The purposes of special tokens, here and in GGUF's `tokenizer.ggml.` keys. llama.cpp writes
/// `seperator`, the GGUF document `separator`.
const GGUF: [(&str, &str); 17] = [
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("eot", "eot_token_id"),
    ("eom", "eom_token_id"),
    ("unk", "unknown_token_id"),
    ("sep", "seperator_token_id"),
    ("sep", "separator_token_id"),
    ("pad", "padding_token_id"),
    ("cls", "cls_token_id"),
    ("mask", "mask_token_id"),
    ("fim_prefix", "fim_pre_token_id"),
    ("fim_suffix", "fim_suf_token_id"),
    ("fim_middle", "fim_mid_token_id"),
    ("fim_pad", "fim_pad_token_id"),
    ("fim_repository", "fim_rep_token_id"),
    ("fim_separator", "fim_sep_token_id"),
    ("fim_prefix", "prefix_token_id"),
];

/// The tokens around a text that llama.cpp assumes where a file with SentencePiece's tokens has no key for them
/// (src/llama-vocab.cpp).
const ASSUMED: [(&str, u32); 2] = [("bos", 1), ("eos", 2)];

/// The GGUF key of a special token, given by its purpose: `eos` is `tokenizer.ggml.eos_token_id`.
pub fn special_token_key(purpose: &str) -> Option<String> {
    let row = GGUF.iter().find(|(name, _)| *name == purpose)?;
    Some(format!("tokenizer.ggml.{}", row.1))
}

/// Whether a GGUF key holds the number of a special token.
pub fn is_special_token_key(key: &str) -> bool {
    let name = key.strip_prefix("tokenizer.ggml.");
    name.is_some_and(|name| GGUF.iter().any(|(_, key)| *key == name))
}

/// Like [`GGUF`], for `tokenizer_config.json` and `special_tokens_map.json`, where tokens are given
/// by text; and with the suffix `_id` for `config.json`, where they are given by number.
const NAMES: [(&str, &str); 7] = [
    ("bos", "bos_token"),
    ("eos", "eos_token"),
    ("unk", "unk_token"),
    ("sep", "sep_token"),
    ("pad", "pad_token"),
    ("cls", "cls_token"),
    ("mask", "mask_token"),
];

/// The texts of the special tokens that `tokenizer_config.json` names. transformers adds those that no list of added
/// tokens has, in this order.
pub(crate) fn named_texts(config: &Json) -> Vec<&str> {
    let extra = config.get("extra_special_tokens");
    let mut tokens: Vec<&Json> = NAMES.iter().filter_map(|(_, key)| config.get(key)).collect();
    match extra {
        Some(Json::Array(list)) => tokens.extend(list),
        extra => {
            let other = config.get("additional_special_tokens").and_then(Json::as_array);
            tokens.extend(other.into_iter().flatten());
            tokens.extend(extra.and_then(Json::as_object).into_iter().flat_map(|map| map.values()));
        }
    }
    let texts = tokens.into_iter().map(|token| token.get("content").unwrap_or(token).as_str());
    texts.flatten().filter(|text| !text.is_empty()).collect()
}

pub(super) fn gather(store: &Store, tokenizer: &mut Tokenizer<'_>) -> Result<()> {
    if store.encoding() == Encoding::Gguf {
        of_metadata(store, tokenizer)?;
    } else {
        of_documents(store, tokenizer)?;
    }
    if let Tokens::File(vocabulary) = &tokenizer.tokens {
        for (name, id) in vocabulary.special.clone() {
            if tokenizer.special(name).is_none() {
                let source = tokenizer.kind.source.clone();
                tokenizer.special.push((name.to_owned(), Field { value: id, source }));
            }
        }
    }
    Ok(())
}

/// The fault of a GGUF key whose value has the wrong type.
fn wrong_type(store: &Store, key: &str, value: Value<'_>, allowed: &str) -> Error {
    let fault = format!("{}, but {allowed} is needed", ConfigValue::Metadata(value));
    Error::malformed(fault).in_file(store.path()).in_key(key)
}

fn of_metadata(store: &Store, tokenizer: &mut Tokenizer<'_>) -> Result<()> {
    let metadata = store.metadata();
    let wrong = |key: &str, value, allowed: &str| wrong_type(store, key, value, allowed);
    for (name, key) in GGUF {
        let key = format!("tokenizer.ggml.{key}");
        let Some(value) = metadata.get(&key) else { continue };
        let id = value.to_i128().ok_or_else(|| wrong(&key, value, "a token number"))?;
        let id = u32::try_from(id).ok().filter(|&id| tokenizer.has(id));
        if let Some(id) = id.filter(|_| tokenizer.special(name).is_none()) {
            tokenizer
                .special
                .push((name.to_owned(), Field { value: id, source: FieldSource::key(key) }));
        }
    }
    if tokenizer.kind.value == TokenizerKind::SentencePiece {
        let source = FieldSource::from("llama.cpp's numbers for files without the key");
        for (name, id) in ASSUMED {
            let token = tokenizer.tokens().nth(id as usize);
            let fits =
                token.is_some_and(|own| own.kind.is_none_or(|kind| kind == TokenKind::Control));
            if fits && tokenizer.special(name).is_none() {
                let field = Field { value: id, source: source.clone() };
                tokenizer.special.push((name.to_owned(), field));
            }
        }
    }
    let flag = |key: &'static str| match metadata.get(key) {
        None => Ok(None),
        Some(value) => match value.to_bool() {
            Some(flag) => Ok(Some(Field { value: flag, source: FieldSource::key(key) })),
            None => Err(wrong(key, value, "true or false")),
        },
    };
    tokenizer.add_bos = flag("tokenizer.ggml.add_bos_token")?;
    tokenizer.add_eos = flag("tokenizer.ggml.add_eos_token")?;
    let key = "tokenizer.ggml.pre";
    tokenizer.pre =
        metadata.str(key).map(|pre| Field { value: pre.to_owned(), source: FieldSource::key(key) });
    tokenizer.chat_templates = templates_of_keys(store)?;
    Ok(())
}

/// The chat templates in GGUF keys.
fn templates_of_keys(store: &Store) -> Result<Vec<ChatTemplate>> {
    let first = "tokenizer.chat_template";
    let mut templates = Vec::new();
    for (key, value) in store.metadata().iter() {
        let spelled = key.spelling();
        let Some(rest) = spelled.strip_prefix(first) else { continue };
        let name = match rest.strip_prefix('.') {
            Some(name) => Some(name.to_owned()),
            None if rest.is_empty() => None,
            // The value of `tokenizer.chat_templates` is the list of names.
            None => continue,
        };
        let text = value.to_text().and_then(|text| text.to_str());
        let text = text.ok_or_else(|| wrong_type(store, &spelled, value, "text"))?;
        let text = Field { value: text.to_owned(), source: FieldSource::key(spelled.into_owned()) };
        templates.push(ChatTemplate { name, text });
    }
    Ok(templates)
}

fn of_documents(store: &Store, tokenizer: &mut Tokenizer<'_>) -> Result<()> {
    let config = store.read_document("tokenizer_config.json")?;
    let map = store.read_document("special_tokens_map.json")?;
    // The texts first; their numbers follow in a single pass over the vocabulary.
    let mut texts: Vec<(&str, &str, FieldSource)> = Vec::new();
    let documents = [("tokenizer_config.json", &config), ("special_tokens_map.json", &map)];
    for (document, json) in documents {
        let Some(json) = json else { continue };
        for (name, key) in NAMES {
            // A token is given as its text, or as an object that contains the text.
            let found = json.get(key).map(|token| token.get("content").unwrap_or(token));
            let text = found.and_then(Json::as_str);
            if let Some(text) = text.filter(|_| texts.iter().all(|(other, ..)| *other != name)) {
                texts.push((name, text, FieldSource::document(document, key)));
            }
        }
    }
    let mut ids = vec![None; texts.len()];
    for token in tokenizer.tokens() {
        for (id, (_, text, _)) in ids.iter_mut().zip(&texts) {
            if *token.text == *text.as_bytes() {
                *id = Some(token.id);
            }
        }
    }
    let mut special = Vec::new();
    for (id, (name, _, source)) in ids.into_iter().zip(texts) {
        special.extend(id.map(|id| (name.to_owned(), Field { value: id, source })));
    }
    let model = store.document("config.json");
    for (name, key) in NAMES {
        let key = format!("{key}_id");
        let text_config =
            |model: &'_ Json| model.get("text_config").and_then(|c| c.get(&key)).cloned();
        let id = model.and_then(|model| model.get(&key).cloned().or_else(|| text_config(model)));
        // If there are several end tokens, the first is used; generation uses the others.
        let id = id.and_then(|id| id.as_u64().or_else(|| id.as_array()?.first()?.as_u64()));
        let id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| tokenizer.has(id));
        if let Some(value) = id.filter(|_| special.iter().all(|(other, _)| other != name)) {
            let source = FieldSource::document("config.json", &key);
            special.push((name.to_owned(), Field { value, source }));
        }
    }
    tokenizer.special = special;
    let flag = |key: &str| {
        let flag = config.as_ref()?.get(key)?.as_bool()?;
        Some(Field { value: flag, source: FieldSource::document("tokenizer_config.json", key) })
    };
    tokenizer.add_bos = flag("add_bos_token");
    tokenizer.add_eos = flag("add_eos_token").or_else(|| unended(config.as_deref()?));
    tokenizer.chat_templates = templates(store, config.as_deref())?;
    Ok(())
}

/// Classes of tokenizers that add no end token unless their config says so. Those of Unigram files often do.
const UNENDED: [&str; 5] = ["Llama", "CodeLlama", "Gemma", "InternLM", "Qwen"];

/// That a class of tokenizers adds no end token.
fn unended(config: &Json) -> Option<Field<bool>> {
    let class = config.get("tokenizer_class")?.as_str()?;
    let source = FieldSource::document("tokenizer_config.json", "tokenizer_class");
    UNENDED.iter().any(|name| class.starts_with(name)).then_some(Field { value: false, source })
}

/// The chat templates of a model, also of one without a tokenizer.
///
/// # Errors
///
/// `Malformed` if one is not text; `Io` if a file cannot be read.
#[cfg(feature = "chat-template")]
pub(crate) fn chat_templates(store: &Store) -> Result<Vec<ChatTemplate>> {
    if store.encoding() == Encoding::Gguf {
        return templates_of_keys(store);
    }
    let config = store.read_document("tokenizer_config.json")?;
    templates(store, config.as_deref())
}

/// Whether the model has a chat template. A template that cannot be read counts as none.
pub(crate) fn has_chat_template(store: &Store) -> bool {
    let named = |(key, _): (Text<'_>, _)| key.as_bytes().starts_with(b"tokenizer.chat_template");
    let layer = |attachment: &Attachment| attachment.kind == "template";
    if store.metadata().iter().any(named) || store.attachments().iter().any(layer) {
        return true;
    }
    let config = store.read_document("tokenizer_config.json").ok().flatten();
    templates(store, config.as_deref()).is_ok_and(|templates| !templates.is_empty())
}

/// The chat template in `tokenizer_config.json`, if it is one text, and that in
/// `chat_template.jinja`. Empty without one, or if it cannot be read.
pub(crate) fn chat_templates_beside(store: &Store) -> (String, String) {
    let config = store.read_document("tokenizer_config.json").ok().flatten();
    let embedded = config.and_then(|json| Some(json.get("chat_template")?.as_str()?.to_owned()));
    let limit = (store.limits().document_bytes, "document_bytes");
    let standalone = store.read_companion("chat_template.jinja", limit).ok().flatten();
    let standalone = standalone.and_then(|file| String::from_utf8(file.bytes).ok());
    (embedded.unwrap_or_default(), standalone.unwrap_or_default())
}

/// The chat templates in all files that may contain them, the newest kind of file first.
fn templates(store: &Store, config: Option<&Json>) -> Result<Vec<ChatTemplate>> {
    let unnamed = |text: &str, source: FieldSource| ChatTemplate {
        name: None,
        text: Field { value: text.to_owned(), source },
    };
    let text = |found: CompanionFiles| {
        String::from_utf8(found.bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to() as u64;
            Error::malformed("not UTF-8").in_file(&found.path).at(at)
        })
    };
    let mut templates = Vec::new();
    let file = "chat_template.jinja";
    let limit = (store.limits().document_bytes, "document_bytes");
    if let Some(found) = store.read_companion(file, limit)? {
        templates.push(unnamed(&text(found)?, FieldSource::file(file)));
    }
    let file = "chat_template.json";
    if templates.is_empty()
        && let Some(json) = store.read_document(file)?
        && let Some(text) = json.get("chat_template").and_then(Json::as_str)
    {
        templates.push(unnamed(text, FieldSource::file(file)));
    }
    // Transformers 5 saves a file for each template that has a name.
    for (source, path) in store.files_in(TEMPLATES)? {
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
        if path.extension().is_some_and(|ending| ending == "jinja") {
            let name = Some(name.to_owned());
            let value = text(store.read_file(path, limit)?)?;
            templates.push(ChatTemplate {
                name,
                text: Field { value, source: FieldSource::file(source) },
            });
        }
    }
    let source = FieldSource::document("tokenizer_config.json", "chat_template");
    let has = |templates: &[ChatTemplate], name: &Option<String>| {
        templates.iter().any(|template| template.name == *name)
    };
    match config.and_then(|config| config.get("chat_template")) {
        Some(Json::String(text)) if !has(&templates, &None) => {
            templates.push(unnamed(text, source));
        }
        Some(Json::Array(list)) => {
            for template in list {
                let text = |key: &str| template.get(key).and_then(Json::as_str);
                let (Some(name), Some(text)) = (text("name"), text("template")) else { continue };
                let name = Some(name.to_owned()).filter(|name| name != "default");
                if !has(&templates, &name) {
                    let text = Field { value: text.to_owned(), source: source.clone() };
                    templates.push(ChatTemplate { name, text });
                }
            }
        }
        _ => {}
    }
    // Some processors have it in their config alone.
    let file = "processor_config.json";
    if !has(&templates, &None)
        && let Some(json) = store.read_document(file)?
        && let Some(text) = json.get("chat_template").and_then(Json::as_str)
    {
        templates.push(unnamed(text, FieldSource::document(file, "chat_template")));
    }
    Ok(templates)
}
