//! The tokens that begin and end a text, for llama.cpp.

use std::collections::HashMap;

use super::files::TokenizerFiles;
use crate::bytes::Text;
use crate::error::Result;
use crate::json::Json;
use crate::metadata::{KeyValues, Value};
use crate::store::Store;
use crate::tokenizer::{Token, TokenKind, Tokenizer, TokenizerKind, special_token_key};

/// Special tokens: their names in the files and in GGUF.
pub(super) const SPECIAL: [(&str, &str); 6] = [
    ("bos", "bos_token_id"),
    ("eos", "eos_token_id"),
    ("unk", "unknown_token_id"),
    ("sep", "seperator_token_id"),
    ("pad", "padding_token_id"),
    ("mask", "mask_token_id"),
];

/// The texts of tokens at which llama.cpp ends a text without a key (src/llama-vocab.cpp).
const ENDS: [&str; 19] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
];

/// The further tokens that end a text, of which `generation_config.json` or `config.json` has a list, and the one that
/// is `named` as end token, which llama.cpp does not know by their texts: it has two more keys for such tokens.
pub(super) fn further(
    store: &Store,
    config: Option<&Json>,
    named: Option<u32>,
    out: &mut KeyValues,
) -> Result<()> {
    let generation = store.read_document("generation_config.json")?;
    let of = |json: Option<&Json>| json?.get("eos_token_id").filter(|ids| !ids.is_null()).cloned();
    let ids = of(generation.as_deref()).or_else(|| of(config)).unwrap_or_default();
    let ids = ids.as_array().cloned().unwrap_or_else(|| vec![ids]);
    let ids = ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).chain(named);
    let key = |name: &str| format!("tokenizer.ggml.{name}_token_id");
    let eos = out.get(&key("eos")).and_then(|value| value.to_u64());
    let texts = out.get("tokenizer.ggml.tokens").and_then(|value| value.to_array());
    let text = |id: u32| texts.as_ref()?.texts()?.nth(id as usize);
    let unknown = |id: &u32| {
        let known = |text: Text<'_>| ENDS.iter().any(|end| text == *end);
        eos.is_some() && eos != Some(u64::from(*id)) && text(*id).is_some_and(|text| !known(text))
    };
    let mut unknown: Vec<u32> = ids.filter(unknown).collect();
    unknown.dedup();
    for (name, id) in ["eot", "eom"].into_iter().zip(unknown) {
        if out.get(&key(name)).is_none() {
            out.set(&key(name), Value::U32(id));
        }
    }
    Ok(())
}

/// llama.cpp ends the texts of Unigram tokenizers unless the file says otherwise, as T5 does.
pub(super) fn of_unigram(tokenizer: &Tokenizer<'_>, out: &mut KeyValues) {
    let key = "tokenizer.ggml.add_eos_token";
    let unended = tokenizer.add_eos.as_ref().is_some_and(|flag| !flag.value);
    if tokenizer.kind.value == TokenizerKind::Unigram && out.get(key).is_none() && unended {
        out.set(key, Value::Bool(false));
    }
}

/// The token of unknown characters, where llama.cpp takes a number of its own for it: 2 for Unigram tokenizers, 100
/// for WordPiece.
pub(super) fn unknown(tokenizer: &Tokenizer<'_>, files: &TokenizerFiles, out: &mut KeyValues) {
    let key = "tokenizer.ggml.unknown_token_id";
    let assumes = matches!(tokenizer.kind.value, TokenizerKind::Unigram | TokenizerKind::WordPiece);
    if !assumes || out.get(key).is_some() {
        return;
    }
    let stated = files.json_value(&["model", "unk_id"]).and_then(Json::as_u64);
    let stated = stated.and_then(|id| u32::try_from(id).ok());
    let text = files.json_value(&["model", "unk_token"]).and_then(Json::as_str);
    let found = || {
        let is = |token: &Token<'_>| match text {
            Some(text) => *token.text == *text.as_bytes(),
            None => token.kind == Some(TokenKind::Unknown),
        };
        tokenizer.tokens().find(is).map(|token| token.id)
    };
    if let Some(id) = stated.or_else(|| tokenizer.special("unk")).or_else(found) {
        out.set(key, Value::U32(id));
    }
}

/// The tokens around a text of a `tokenizer.model`, if no other file gives their numbers and they are not
/// those that llama.cpp assumes.
pub(super) fn unusual(store: &Store, rows: Option<u32>, out: &mut KeyValues) -> Result<()> {
    let ends =
        [("bos", 1), ("eos", 2)].map(|(name, assumed)| (name, special_token_key(name), assumed));
    if ends.iter().flat_map(|(_, key, _)| key).all(|key| out.get(key).is_some()) {
        return Ok(());
    }
    let Some(tokenizer) = Tokenizer::of(store)? else { return Ok(()) };
    for (name, key, assumed) in ends {
        let id = tokenizer.special(name).filter(|id| *id != assumed);
        if let (Some(key), Some(id)) = (key, id.filter(|id| rows.is_none_or(|rows| *id < rows)))
            && out.get(&key).is_none()
        {
            out.set(&key, Value::U32(id));
        }
    }
    Ok(())
}

/// The special tokens of a `sentencepiece.bpe.model`, and those around a text: no file states them,
/// since transformers' classes for such tokenizers always write `<s> text </s>`, and a second text
/// as `</s> text </s>`.
pub(super) fn surrounding(tokenizer: &Tokenizer<'_>, out: &mut KeyValues) {
    for (name, key) in SPECIAL {
        let key = format!("tokenizer.ggml.{key}");
        if let (None, Some(id)) = (out.get(&key), tokenizer.special(name)) {
            out.set(&key, Value::U32(id));
        }
    }
    for key in ["add_bos_token", "add_eos_token", "add_sep_token"] {
        out.set(&format!("tokenizer.ggml.{key}"), Value::Bool(true));
    }
}

/// The tokens that the last step of a `tokenizer.json` adds around a text.
pub(super) fn added_around(
    files: &TokenizerFiles,
    texts: &mut HashMap<&str, String>,
    begins: Option<String>,
) -> Vec<(&'static str, bool)> {
    let mut adds: Vec<(&'static str, bool)> = Vec::new();
    let Some(last) = files.json_value(&["post_processor"]) else { return adds };
    let list = match last.get("processors").and_then(Json::as_array) {
        Some(list) => list.iter().collect(),
        None => vec![last],
    };
    let mut set = |name: &'static str, flag: bool, over: bool| match adds
        .iter_mut()
        .find(|(other, _)| *other == name)
    {
        Some(entry) if over => entry.1 = flag,
        Some(_) => {}
        None => adds.push((name, flag)),
    };
    for step in list {
        match step.get("type").and_then(Json::as_str) {
            Some("ByteLevel") => ["bos", "eos"].iter().for_each(|name| set(name, false, false)),
            Some("RobertaProcessing") => {
                ["bos", "eos", "sep"].iter().for_each(|name| set(name, true, true));
            }
            Some("TemplateProcessing") => {
                let side = |key: &str| -> Vec<Option<&str>> {
                    let list = step.get(key).and_then(Json::as_array);
                    list.into_iter()
                        .flatten()
                        .map(|item| item.get("SpecialToken")?.get("id")?.as_str())
                        .collect()
                };
                let single = side("single");
                let (mut first, mut last) = (None, None);
                if single.len() > 1 {
                    first = single.first().copied().flatten();
                    last = single.last().copied().flatten();
                }
                if let Some(first) = first {
                    let start = texts.entry("bos").or_insert_with(|| first.to_owned());
                    set("bos", start == first || begins.as_deref() == Some(first), true);
                }
                if let Some(last) = last {
                    texts.insert("eos", last.to_owned());
                    set("eos", true, true);
                }
                let pair = side("pair");
                let between = pair.get(usize::from(first.is_some())..).unwrap_or_default();
                let between = match last {
                    Some(_) => between.split_last().map_or(between, |(_, rest)| rest),
                    None => between,
                };
                // A text, a separator, another text.
                if let [None, parts @ .., None] = between
                    && let Some(Some(first)) = parts.first()
                {
                    let known = [texts.get("sep"), texts.get("eos")];
                    let is = |token: &str| known.iter().flatten().any(|text| *text == token);
                    let second = parts.get(1).copied().flatten().is_some_and(is);
                    set("sep", (is(first) && last.is_none()) || second, true);
                }
            }
            _ => {}
        }
    }
    adds
}

/// The result of [`flags_contradicted`] for a directory. Files that cannot be read are faults of their own.
pub(crate) fn contradicted_flags(store: &Store) -> Vec<String> {
    TokenizerFiles::of(store).map(|files| flags_contradicted(&files)).unwrap_or_default()
}

/// The flags of `tokenizer_config.json` that the steps of `tokenizer.json` contradict, one sentence for each. transformers 5.24
/// follows the steps in every class, llama.cpp's converter the flags.
pub(super) fn flags_contradicted(files: &TokenizerFiles) -> Vec<String> {
    let text = |name: &str| files.special_text(name);
    let mut texts = text("bos").map(|text| ("bos", text)).into_iter().collect();
    let adds = added_around(files, &mut texts, text("cls"));
    let fault = |(name, place): (&str, &str)| {
        let key = format!("add_{name}_token");
        let stated = files.config.get(&key)?.as_bool()?;
        let added = adds.iter().any(|(other, flag)| *other == name && *flag);
        let (steps, instead) = match added {
            true => ("add one", "does so"),
            false => ("add none", "adds none"),
        };
        (stated != added).then(|| {
            format!(
                "{key} in tokenizer_config.json is {stated}, but the steps of tokenizer.json {steps} {place} a text: \
                 transformers 5 {instead}, llama.cpp's converter follows {key}"
            )
        })
    };
    let known = files.states_ends();
    [("bos", "before"), ("eos", "after")].into_iter().filter(|_| known).filter_map(fault).collect()
}
