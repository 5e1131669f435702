//! Steps of a tokenizer that llama.cpp does not do.

use super::files::{self, TokenizerFiles, step_kind};
use crate::arch::habits::Exceptions;
use crate::bytes::Text;
use crate::json::Json;
use crate::metadata::{KeyValues, Value};
use crate::tokenizer::TokenizerKind::{self, Bpe, SentencePiece, Unigram, WordPiece};
use crate::tokenizer::special_token_key;

/// The length of words above which WordPiece takes the unknown token in most files. llama.cpp has no such length.
const USUAL_LENGTH: u64 = 100;

/// The number of added tokens that a note names.
const NAMED: usize = 4;

/// A note on the parts of the files that GGUF has no place for, or that llama.cpp does otherwise.
///
/// `kind` is the kind that llama.cpp takes it for.
pub(super) fn note(
    files: &TokenizerFiles,
    kind: &TokenizerKind,
    exceptions: Exceptions,
    out: &KeyValues,
) -> Option<String> {
    let is = |key: &str| out.get(key).and_then(|flag| flag.to_bool()) == Some(true);
    let own = Own {
        kind,
        collapses: is("tokenizer.ggml.remove_extra_whitespaces"),
        prefixes: out.get("tokenizer.ggml.add_space_prefix").and_then(|flag| flag.to_bool())
            != Some(false),
        has_charsmap: out.get("tokenizer.ggml.precompiled_charsmap").is_some(),
    };
    let mut parts = Vec::new();
    let normalizer = files.steps("normalizer", "normalizers").into_iter();
    let other = |step: &&Json| !own.normalizes(step);
    parts.extend(normalizer.filter(other).map(|step| format!("normalizer {}", step_kind(step))));
    let splitter = files.steps("pre_tokenizer", "pretokenizers").into_iter();
    parts.extend(splitter.filter_map(|step| own.lacks(step)));
    // transformers' class then puts a space before the first word alone.
    let is_first = files::prepend_scheme(&files.config) == Some("first");
    if *kind == SentencePiece && own.prefixes && is_first && files.tokenizer.is_none() {
        let source = match files.config.get("legacy") {
            Some(_) => "legacy false",
            None => "legacy unstated, which is false in transformers 5",
        };
        parts.push(format!("{source}, without a space after special tokens"));
    }
    if *kind == WordPiece {
        let length = files.json_value(&["model", "max_input_chars_per_word"]);
        let length = length.and_then(Json::as_u64).filter(|length| *length != USUAL_LENGTH);
        parts.extend(length.map(|length| format!("max_input_chars_per_word {length}")));
    }
    for flag in ["lstrip", "rstrip", "single_word"] {
        // llama.cpp knows some models by their names.
        if flag != "rstrip" || !exceptions.has("strips_after") {
            parts.extend(added(files, flag, |_| true));
        }
    }
    let ends = ["<unk>", "<s>", "</s>"];
    parts.extend(added(files, "normalized", |text| {
        !ends.contains(&text) && is_normalized_to_another(files, text)
    }));
    (!parts.is_empty()).then(|| {
        format!(
            "llama.cpp does not have these parts of the tokenizer, and makes other tokens of some texts: {}",
            parts.join(", ")
        )
    })
}

/// llama.cpp's steps for a tokenizer.
struct Own<'k> {
    kind: &'k TokenizerKind,
    /// Whether several spaces become one, and those at the ends are left out.
    collapses: bool,
    /// Whether a space is put before a text, and after each special token.
    prefixes: bool,
    /// Whether a table of characters makes spaces of other white space.
    has_charsmap: bool,
}

impl Own<'_> {
    /// Whether it has this step of a normalizer.
    fn normalizes(&self, step: &Json) -> bool {
        let is = |key: &str| step.get(key).and_then(Json::as_bool) == Some(true);
        let text = |path: &str| step.pointer(path).and_then(Json::as_str);
        match (self.kind, step_kind(step)) {
            (WordPiece, "BertNormalizer") => is("clean_text") && is("handle_chinese_chars"),
            (WordPiece, "Lowercase" | "StripAccents") => true,
            // Spaces become blocks, and the first word begins with one.
            (SentencePiece, "Prepend") => text("/prepend") == Some("▁"),
            (SentencePiece, "Replace") => {
                (text("/pattern/String"), text("/content")) == (Some(" "), Some("▁"))
            }
            // Files made from SentencePiece's collapse spaces with this step, and strip them.
            (Unigram, "Replace") => text("/pattern/Regex") == Some(" {2,}"),
            (Unigram, "Precompiled") => true,
            (Unigram, "Strip") => self.collapses,
            _ => false,
        }
    }

    /// The part of a step that splits text which it lacks. The steps of merged tokenizers have a name of their own.
    fn lacks(&self, step: &Json) -> Option<String> {
        let flag = |key: &str| step.get(key).and_then(Json::as_bool);
        let kind = step_kind(step);
        let scheme = step.get("prepend_scheme").and_then(Json::as_str);
        let has = match (self.kind, kind) {
            (Bpe, "ByteLevel") if flag("add_prefix_space") == Some(true) => {
                return Some("add_prefix_space of ByteLevel".to_owned());
            }
            (Unigram | SentencePiece, "Metaspace")
                if (self.prefixes || *self.kind == Unigram) && scheme == Some("first") =>
            {
                return Some("prepend_scheme first of Metaspace".to_owned());
            }
            (Unigram, "Metaspace") => {
                if flag("split") == Some(false) {
                    return Some("Metaspace that does not split".to_owned());
                }
                if scheme != Some("never") && !self.collapses {
                    return Some("Metaspace that puts no second space before a text".to_owned());
                }
                true
            }
            (Unigram, "WhitespaceSplit") => self.has_charsmap,
            (WordPiece, "BertPreTokenizer") | (SentencePiece, "Metaspace") => true,
            // Gemma's, which finds none: the normalizer has replaced them.
            (SentencePiece, "Split") => {
                step.pointer("/pattern/String").and_then(Json::as_str) == Some(" ")
            }
            (Bpe, _) => true,
            _ => false,
        };
        (!has).then(|| format!("pre-tokenizer {kind}"))
    }
}

/// Whether the normalizer makes another text of an added token, which llama.cpp looks for as it is written.
fn is_normalized_to_another(files: &TokenizerFiles, text: &str) -> bool {
    files.steps("normalizer", "normalizers").into_iter().any(|step| match step_kind(step) {
        "Prepend" => true,
        "Lowercase" => text.chars().any(char::is_uppercase),
        "Replace" => {
            let from = step.pointer("/pattern/String").and_then(Json::as_str);
            from.is_some_and(|from| text.contains(from))
        }
        _ => false,
    })
}

/// The added tokens, of those that `counts` chooses by their texts, with a flag that llama.cpp does not heed.
fn added(files: &TokenizerFiles, flag: &str, counts: impl Fn(&str) -> bool) -> Option<String> {
    let listed = files.json_value(&["added_tokens"]).and_then(Json::as_array).into_iter().flatten();
    let content = |token: &Json| Some(token.get("content")?.as_str()?.to_owned());
    let flagged = listed.filter(|token| token.get(flag).and_then(Json::as_bool) == Some(true));
    let texts: Vec<String> = flagged.filter_map(content).filter(|text| counts(text)).collect();
    let shown = |text: &String| Text::new(text.as_bytes()).brief();
    let named: Vec<String> = texts.iter().take(NAMED).map(shown).collect();
    let more = texts.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!texts.is_empty()).then(|| format!("{flag} of added tokens ({}{more})", named.join(", ")))
}

/// llama.cpp puts two tokens around the texts of WordPiece tokenizers, whatever the flags say: those that it knows as the
/// first one and as the separator. The last token of the steps is named as the separator; a note tells of other steps.
pub(super) fn around_words(files: &TokenizerFiles, out: &mut KeyValues) -> Option<String> {
    let is = |key: &str| out.get(&format!("tokenizer.ggml.{key}"));
    let adds = |key: &str| is(key).and_then(|flag| flag.to_bool()).unwrap_or(!files.states_ends());
    let (first, last) =
        (is("bos_token_id").is_some(), is("eos_token_id").and_then(|id| id.to_u64()));
    let last = last.and_then(|id| u32::try_from(id).ok());
    let separator = special_token_key("sep")?;
    if first
        && adds("add_bos_token")
        && adds("add_eos_token")
        && let Some(last) = last
    {
        out.set(&separator, Value::U32(last));
        return None;
    }
    Some(
        "llama.cpp puts two tokens around the texts of this kind of tokenizer, and its steps add others".to_owned(),
    )
}
