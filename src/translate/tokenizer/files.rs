//! The files of a directory that describe its tokenizer, besides its tokens.

use std::collections::HashMap;

use crate::engines::transformers::{self, TokenizerClass};
use crate::error::Result;
use crate::json::{Json, Map};
use crate::store::{CompanionFiles, Store};
use crate::tokenizer::{Tokenizer, json, named_texts, of_library, unstated_texts};

/// The content of the files beside the weights, except for the tokens themselves.
pub(super) struct TokenizerFiles {
    /// `tokenizer.json` without vocabulary and merges.
    pub(super) tokenizer: Option<Json>,
    /// `tokenizer_config.json`.
    pub(super) config: Map<String, Json>,
    /// `special_tokens_map.json`.
    special: Map<String, Json>,
    /// The special tokens that these name, which may be missing in [`added`](Self::added).
    pub(super) named: Vec<String>,
    /// Tokens added to the vocabulary: the text, and whether it is a control token.
    pub(super) added: HashMap<u32, (String, bool)>,
}

impl TokenizerFiles {
    pub(super) fn of(store: &Store) -> Result<Self> {
        let library = of_library(store)?;
        let source = library.as_ref().map(|(_, name)| *name);
        let rest = |(file, _): (CompanionFiles, _)| {
            json::rest(&file.bytes, store.limits()).map_err(|error| error.in_file(&file.path))
        };
        let tokenizer = library.map(rest).transpose()?;
        let config = store.read_document("tokenizer_config.json")?;
        let special = store.read_document("special_tokens_map.json")?;
        let special = special.and_then(|map| map.as_object().cloned()).unwrap_or_default();
        let texts = config.as_deref().map(named_texts).unwrap_or_default();
        let named = texts.into_iter().map(str::to_owned).collect();
        let mut config = config.and_then(|config| config.as_object().cloned()).unwrap_or_default();
        for (name, text) in source.map(unstated_texts).unwrap_or_default() {
            config.entry(format!("{name}_token")).or_insert((*text).into());
        }
        let mut added = HashMap::new();
        for (id, token) in stated(tokenizer.as_ref(), &config) {
            let special = token.get("special").and_then(Json::as_bool).unwrap_or(false);
            if let Some(text) = token.get("content").and_then(Json::as_str) {
                added.insert(id, (text.to_owned(), special));
            }
        }
        if let Some(file) = store.read_document("added_tokens.json")? {
            for (text, id) in file.as_object().into_iter().flatten() {
                if let Some(id) = number(id) {
                    added.entry(id).or_insert_with(|| (text.clone(), false));
                }
            }
        }
        Ok(Self { tokenizer, config, special, named, added })
    }

    /// The added tokens as the files state them, each with its number; of several with one number, the last counts.
    pub(super) fn stated(&self) -> impl Iterator<Item = (u32, &Json)> {
        stated(self.tokenizer.as_ref(), &self.config)
    }

    /// The text of a special token such as `eos`.
    pub(super) fn special_text(&self, name: &str) -> Option<String> {
        let key = format!("{name}_token");
        let token = self.config.get(&key).or_else(|| self.special.get(&key))?;
        Some(token.get("content").unwrap_or(token).as_str()?.to_owned())
    }

    /// The value at a path of `tokenizer.json`.
    pub(super) fn json_value(&self, path: &[&str]) -> Option<&Json> {
        let root = self.tokenizer.as_ref()?;
        let found = path.iter().try_fold(root, |json, name| json.get(name))?;
        Some(found).filter(|json| !json.is_null())
    }

    pub(super) fn flag(&self, path: &[&str]) -> bool {
        self.json_value(path).and_then(Json::as_bool).unwrap_or(false)
    }

    /// Whether characters without a token are spelled in bytes.
    pub(super) fn has_bytes(&self) -> bool {
        self.flag(&["model", "byte_fallback"])
    }

    /// Whether a `tokenizer.json` says which tokens are added around a text, in steps that are known here.
    pub(super) fn states_ends(&self) -> bool {
        const KNOWN: [&str; 3] = ["ByteLevel", "RobertaProcessing", "TemplateProcessing"];
        let steps = self.steps("post_processor", "processors");
        self.tokenizer.is_some() && steps.iter().all(|step| KNOWN.contains(&step_kind(step)))
    }

    /// The steps of a part of `tokenizer.json`, in order; `list` is the key of nested steps.
    pub(super) fn steps(&self, part: &str, list: &str) -> Vec<&Json> {
        let mut open: Vec<&Json> = self.json_value(&[part]).into_iter().collect();
        let mut steps = Vec::new();
        while let Some(step) = open.pop() {
            match step.get(list).and_then(Json::as_array) {
                Some(inner) => open.extend(inner.iter().rev()),
                None => steps.push(step),
            }
        }
        steps
    }
}

fn number(json: &Json) -> Option<u32> {
    json.as_u64().and_then(|id| u32::try_from(id).ok())
}

/// The tokens that `tokenizer.json` and `tokenizer_config.json` add.
fn stated<'j>(
    tokenizer: Option<&'j Json>,
    config: &'j Map<String, Json>,
) -> impl Iterator<Item = (u32, &'j Json)> {
    let list = tokenizer.and_then(|json| json.get("added_tokens")?.as_array());
    let list = list.into_iter().flatten();
    let by_number = config.get("added_tokens_decoder").and_then(Json::as_object);
    let by_number = by_number.into_iter().flat_map(|tokens| tokens.iter());
    list.filter_map(|token| Some((number(token.get("id")?)?, token)))
        .chain(by_number.filter_map(|(id, token)| Some((id.parse().ok()?, token))))
}

/// The class that reads a directory's `vocab.json` and `merges.txt`: the one that `tokenizer_config.json` names, otherwise
/// that of the model type.
pub(super) fn class(
    store: &Store,
    tokenizer: &Tokenizer<'_>,
) -> Result<Option<&'static TokenizerClass>> {
    if *tokenizer.kind.source != *"vocab.json" {
        return Ok(None);
    }
    let config = store.read_document("tokenizer_config.json")?;
    let named = |json: Option<&Json>, key: &str| {
        transformers::tokenizer(json?.get(key).and_then(Json::as_str)?)
    };
    let of_model = || named(store.document("config.json"), "model_type");
    Ok(named(config.as_deref(), "tokenizer_class").or_else(of_model))
}

/// The places where transformers' class puts a space if `tokenizer_config.json` says so, or if the class does: before a text alone, or
/// after each added token too. `None` for others, as SentencePiece does.
pub(super) fn prepend_scheme(config: &Map<String, Json>) -> Option<&'static str> {
    let class = config.get("tokenizer_class").and_then(Json::as_str).unwrap_or_default();
    let is_llama = class.trim_end_matches("Fast") == "LlamaTokenizer";
    match config.get("legacy").and_then(Json::as_bool) {
        Some(true) if is_llama => Some("always"),
        Some(false) => Some("first"),
        None if is_llama => Some("first"),
        _ => None,
    }
}

/// The type of a step of `tokenizer.json`.
pub(super) fn step_kind(step: &Json) -> &str {
    step.get("type").and_then(Json::as_str).unwrap_or_default()
}
