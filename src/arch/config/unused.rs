//! Config keys that are in no field.

use std::borrow::Cow;

use super::defaults::OwnKeys;
use super::field::{ConfigValue, TEXT_CONFIGS};
use super::keys::KEYS;
use super::read::{KeptDocument, documents, in_documents, paths};
use crate::engines::transformers;
use crate::json::Json;
use crate::store::{Encoding, Store};

/// Keys of Mistral's and Meta's `params.json` that change no logits of the language model, or that are read elsewhere.
const ASIDE: [&str; 16] = [
    "attn_bias",
    "ffn_dim_multiplier",
    "llama_4_scaling",
    "max_batch_size",
    "model_type",
    "multimodal",
    "multiple_of",
    "quantization",
    "ragged_attention",
    "tokens_per_second",
    "use_biases",
    "use_cache",
    "vision_encoder",
    "vocab_size",
    "yarn.apply_scale",
    "yarn.type",
];

/// Whether a key of `params.json` may change the logits.
fn may_change_logits(key: &str, value: &ConfigValue<'_>) -> bool {
    let Some(path) = key.strip_prefix("params.json ") else { return false };
    let is_set = match value {
        ConfigValue::Json(Json::Null) => false,
        // Of all flags, one is usually true.
        ConfigValue::Json(Json::Bool(flag)) => *flag != (path == "causal"),
        ConfigValue::Json(_) => true,
        ConfigValue::Metadata(_) => false,
    };
    is_set && !ASIDE.contains(&path)
}

/// The [`unused`] keys of `config.json` that change the logits of transformers' causal class, and whose values are not
/// the class's defaults; of `params.json`, all that may change them.
pub(crate) fn computed<'s>(
    store: &'s Store,
    kept: Option<&'s KeptDocument>,
    unused: Vec<(String, ConfigValue<'s>)>,
) -> Vec<(String, ConfigValue<'s>)> {
    // A `params.json` may state a `model_type` too, which is no class of transformers.
    let is_params = store.document("config.json").is_none() && kept.is_none();
    let named = in_documents(store, kept, "model_type").and_then(Json::as_str);
    let Some(named) = named.filter(|_| !is_params) else {
        return unused.into_iter().filter(|(key, value)| may_change_logits(key, value)).collect();
    };
    let differs =
        |(key, value): &(String, ConfigValue<'_>)| match (key.rsplit(['.', ' ']).next(), value) {
            (Some(key), ConfigValue::Json(value)) => {
                transformers::changes_logits(named, key, value)
            }
            _ => false,
        };
    unused.into_iter().filter(differs).collect()
}

/// Keys and values of a model's config that neither the table nor the family reads, as the files spell them: those of
/// `config.json`, of `params.json`, and in GGUF those of the architecture.
pub(crate) fn unused<'s>(
    store: &'s Store,
    architecture: Option<&str>,
    own_keys: OwnKeys,
    kept: Option<&'s KeptDocument>,
) -> Vec<(String, ConfigValue<'s>)> {
    let mut found = Vec::new();
    let rows = || KEYS.iter().copied().flatten();
    if store.encoding() == Encoding::Gguf {
        let prefix = architecture.map(|name| format!("{name}."));
        let known = |rest: &str| rows().any(|key| key.gguf.contains(&rest));
        for (key, value) in store.metadata().iter() {
            let spelled = key.spelling();
            let rest = prefix.as_ref().and_then(|prefix| spelled.strip_prefix(prefix.as_str()));
            if rest.is_some_and(|rest| !known(rest)) {
                found.push((spelled.into_owned(), ConfigValue::Metadata(value)));
            }
        }
    }
    // Keys that the container has read already, and the architecture's name.
    let read = ["model_type", "quantization", "quantization_config"];
    let known: Vec<Cow<'_, str>> = rows()
        .flat_map(|key| own_keys.and(key.name, key.json).flat_map(paths))
        .chain(read.map(Cow::Borrowed))
        .collect();
    for (document, root) in documents(store, kept) {
        // The recursion ends: it goes no deeper than the paths of the table.
        let mut open = vec![(String::new(), String::new(), root)];
        while let Some((shown, path, json)) = open.pop() {
            for (key, value) in json.as_object().into_iter().flatten() {
                let (shown, path) = (format!("{shown}{key}"), format!("{path}{key}"));
                if shown == *key && TEXT_CONFIGS.contains(&key.as_str()) && value.is_object() {
                    open.push((format!("{shown}."), String::new(), value));
                    continue;
                }
                let inside = format!("{path}.");
                // What GGUF keys give is no key of the file.
                let derived = kept.is_some_and(|kept| !kept.kept.contains_key(key));
                if path == *key && derived {
                    continue;
                }
                if known.iter().any(|known| *known == path) {
                    continue;
                }
                if value.is_object() && known.iter().any(|known| known.starts_with(&inside)) {
                    open.push((format!("{shown}."), inside, value));
                    continue;
                }
                found.push((format!("{document} {shown}"), ConfigValue::Json(value)));
            }
        }
    }
    found
}
