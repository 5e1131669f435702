//! The keys that arguments mean: in full, or in short.

use weighbridge::Model;
use weighbridge::metadata::ValueType;
use weighbridge::ops::{key_named, required_type};
use weighbridge::tokenizer::special_token_key;

use crate::spelling;

/// The prefixes that short names of keys omit, in the order in which keys are looked up. `{arch}` stands for the
/// model's architecture.
const PREFIXES: [&str; 4] = ["general.", "{arch}.", "tokenizer.", "tokenizer.ggml."];

/// Keys of texts that models may lack. Arrays are those of strings.
const TEXTS: [(&str, ValueType); 19] = [
    ("general.architecture", ValueType::String),
    ("general.author", ValueType::String),
    ("general.basename", ValueType::String),
    ("general.datasets", ValueType::Array),
    ("general.description", ValueType::String),
    ("general.finetune", ValueType::String),
    ("general.languages", ValueType::Array),
    ("general.license", ValueType::String),
    ("general.name", ValueType::String),
    ("general.organization", ValueType::String),
    ("general.size_label", ValueType::String),
    ("general.tags", ValueType::Array),
    ("general.type", ValueType::String),
    ("general.url", ValueType::String),
    ("general.version", ValueType::String),
    ("{arch}.rope.scaling.type", ValueType::String),
    ("tokenizer.chat_template", ValueType::String),
    ("tokenizer.ggml.model", ValueType::String),
    ("tokenizer.ggml.pre", ValueType::String),
];

/// The longest key that is compared with another one.
const LONGEST: usize = 256;

/// The key that an argument means: a key of the file, in full or without its prefix, as `context_length`;
/// else a special token by its purpose, as `eos`; else a known key.
pub(super) fn named(key: &str, model: &Model) -> String {
    let metadata = model.metadata();
    if metadata.get(key).is_some() {
        return key.to_owned();
    }
    let purpose = key.strip_suffix("_token").unwrap_or(key);
    let token = special_token_key(purpose);
    let mut full = PREFIXES.map(|prefix| with_architecture(prefix, model) + key).into_iter();
    let found = full.clone().find(|full| metadata.get(full).is_some());
    // Only GGUF files state their architecture so.
    let is_gguf = metadata.get("general.architecture").is_some();
    let known = || {
        let mut all = std::iter::once(key.to_owned()).chain(&mut full);
        all.find(|full| is_gguf && known_type(full, model).is_some())
    };
    let found = token.or(found).or_else(known).or_else(|| with_dots(key, model));
    let of_config = || key_named(&with_architecture("{arch}", model), key).filter(|_| is_gguf);
    let found = found.or_else(of_config);
    found.unwrap_or_else(|| key.to_owned())
}

/// The key that has dots where this one has other marks: `rope_freq_base`, `chat-template`. Ollama's name for the
/// chat template is `template`, and gguf-py's for what splits words `pre-tokenizer`.
fn with_dots(key: &str, model: &Model) -> Option<String> {
    let plain = |key: &str| key.replace(['.', '-'], "_");
    let typed = match plain(key).as_str() {
        "template" => "chat_template".to_owned(),
        "pre_tokenizer" => "pre".to_owned(),
        other => other.to_owned(),
    };
    let architecture = with_architecture("{arch}.", model);
    let is_it = |full: &String| {
        let short = full.strip_prefix(&architecture).or_else(|| short(full));
        [Some(full.as_str()), short].into_iter().flatten().any(|it| plain(it) == typed)
    };
    known_keys(model).find(is_it)
}

/// The type of a key that the file lacks, if it is known.
pub(super) fn known_type(key: &str, model: &Model) -> Option<ValueType> {
    let is_it = |full: &str| with_architecture(full, model) == key;
    let text = TEXTS.iter().find(|(full, _)| is_it(full)).map(|(_, value_type)| *value_type);
    text.or_else(|| required_type(&with_architecture("{arch}", model), key))
}

/// The key of the file that is spelled most like this one, in full or in short.
pub(super) fn nearest(key: &str, model: &Model) -> Option<String> {
    nearest_of(key, keys(model), model)
}

/// Like [`nearest`], also among the keys that the file lacks and that need no type.
pub(super) fn nearest_or_known(key: &str, model: &Model) -> Option<String> {
    nearest_of(key, known_keys(model), model)
}

/// The keys of the file, and those that need no type.
fn known_keys(model: &Model) -> impl Iterator<Item = String> {
    keys(model).chain(TEXTS.iter().map(|(full, _)| with_architecture(full, model)))
}

fn keys(model: &Model) -> impl Iterator<Item = String> {
    model.metadata().iter().map(|(key, _)| key.spelling().into_owned())
}

fn nearest_of(key: &str, keys: impl Iterator<Item = String>, model: &Model) -> Option<String> {
    let architecture = with_architecture("{arch}.", model);
    let distance_to = |full: &String| {
        let short = full.strip_prefix(&architecture).or_else(|| short(full));
        let short = short.map_or(usize::MAX, |short| spelling::distance(key, short));
        spelling::distance(key, full).min(short)
    };
    if key.len() > LONGEST {
        return None;
    }
    let keys: Vec<String> = keys.filter(|full| full.len() <= LONGEST).collect();
    let longer = keys.iter().find(|full| full.len() > key.len() && full.starts_with(key));
    let near = || spelling::nearest(key, keys.iter().cloned(), distance_to);
    longer.cloned().or_else(near)
}

fn with_architecture(key: &str, model: &Model) -> String {
    let architecture = model.metadata().str("general.architecture").unwrap_or_default();
    key.replace("{arch}", architecture)
}

/// The key without its prefix. The longest prefix counts.
fn short(full: &str) -> Option<&str> {
    PREFIXES.iter().rev().find_map(|prefix| full.strip_prefix(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names() {
        assert_eq!(short("general.name"), Some("name"));
        assert_eq!(short("tokenizer.ggml.pre"), Some("pre"));
        assert_eq!(short("tokenizer.chat_template"), Some("chat_template"));
        assert_eq!(short("{arch}.rope.scaling.type"), Some("rope.scaling.type"));
        assert_eq!(short("other.key"), None);
    }
}
