//! The tokens that end a text, for llama.cpp.

use super::files::{TokenizerFiles, step_kind};
use crate::bytes::Text;
use crate::error::Result;
use crate::json::Json;
use crate::metadata::{KeyValues, Value};
use crate::store::Store;
use crate::tokenizer::{Tokenizer, TokenizerKind, special_token_key};

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

/// The further tokens that end a text, of which `generation_config.json` or `config.json` has a list, and which
/// llama.cpp does not know by their texts: it has two more keys for such tokens.
pub(super) fn further(store: &Store, config: Option<&Json>, out: &mut KeyValues) -> Result<()> {
    let generation = store.read_document("generation_config.json")?;
    let of = |json: Option<&Json>| json?.get("eos_token_id").filter(|ids| !ids.is_null()).cloned();
    let Some(ids) = of(generation.as_deref()).or_else(|| of(config)) else { return Ok(()) };
    let ids = ids.as_array().cloned().unwrap_or_else(|| vec![ids]);
    let ids = ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok());
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

/// llama.cpp ends the texts of Unigram tokenizers unless the file says otherwise, as T5 does, and takes token 2 for
/// unknown characters unless it names another one.
pub(super) fn of_unigram(tokenizer: &Tokenizer<'_>, files: &TokenizerFiles, out: &mut KeyValues) {
    if tokenizer.kind.value != TokenizerKind::Unigram {
        return;
    }
    let key = "tokenizer.ggml.add_eos_token";
    let unended = tokenizer.add_eos.as_ref().is_some_and(|flag| !flag.value);
    // A `tokenizer.json` states all that is added.
    if out.get(key).is_none() && (unended || files.tokenizer.is_some()) {
        out.set(key, Value::Bool(false));
    }
    let key = "tokenizer.ggml.unknown_token_id";
    let stated = files.json_value(&["model", "unk_id"]).and_then(Json::as_u64);
    let unknown = stated.and_then(|id| u32::try_from(id).ok()).or(tokenizer.special("unk"));
    if let (None, Some(id)) = (out.get(key), unknown) {
        out.set(key, Value::U32(id));
    }
}

/// A note on texts to which llama.cpp adds other tokens than a `tokenizer.json`, or none where that has bytes. `adds` says
/// which tokens the `tokenizer.json` adds.
pub(super) fn differences(
    files: &TokenizerFiles,
    adds: &[(&'static str, bool)],
    out: &KeyValues,
) -> Option<String> {
    files.tokenizer.as_ref()?;
    let kind = files.json_value(&["model", "type"]).and_then(Json::as_str);
    let is_unigram = kind == Some("Unigram");
    let has_scores = out.get("tokenizer.ggml.scores").is_some();
    let mut notes = Vec::new();
    let known = ["ByteLevel", "RobertaProcessing", "TemplateProcessing"];
    let steps = files.steps("post_processor", "processors");
    let is_known = steps.iter().all(|step| known.contains(&step_kind(step)));
    for (name, key) in [("bos", "add_bos_token"), ("eos", "add_eos_token")] {
        let added = adds.iter().any(|(other, flag)| *other == name && *flag);
        let stated = out.get(&format!("tokenizer.ggml.{key}")).and_then(|flag| flag.to_bool());
        // Without the key, llama.cpp begins texts of SentencePiece's tokenizers.
        let written = stated.or((has_scores && !is_unigram).then_some(name == "bos"));
        if written.is_some_and(|written| is_known && written != added) {
            let [ours, theirs] = [added, !added].map(|adds| if adds { "one" } else { "no" });
            let why = match files.config.get(key).and_then(Json::as_bool) {
                Some(flag) => format!("{key} is {flag} in tokenizer_config.json"),
                None => "no file says otherwise".to_owned(),
            };
            notes.push(format!(
                "tokenizer.json adds {ours} {name} token to a text, and llama.cpp {theirs}: {why}"
            ));
        }
    }
    let falls_back = files.json_value(&["model", "byte_fallback"]).and_then(Json::as_bool);
    if is_unigram && falls_back == Some(true) {
        notes.push("llama.cpp has no bytes for characters without a token, unlike this tokenizer (byte_fallback)".to_owned());
    }
    notes.into_iter().reduce(|first, second| format!("{first}; {second}"))
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
