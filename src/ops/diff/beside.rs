//! The files beside the weights of two models: configs, tokenizers, templates and settings.

use std::collections::BTreeMap;

use crate::bytes::Text;
use crate::error::Result;
use crate::json::Json;
use crate::model::Model;
use crate::store::Encoding;

/// The number of keys of a document that are named.
const SHOWN: usize = 3;
/// Keys that say who wrote a document, and how the weights are stored.
const APART: &[&str] = &[
    "transformers_version",
    "_name_or_path",
    "dtype",
    "torch_dtype",
    "quantization",
    "quantization_config",
];

/// The files beside the weights of two directories that differ, each with the first keys in which a document does:
/// `tokenizer_config.json (eos_token)`. Empty for a file that holds all metadata itself, as GGUF does.
///
/// # Errors
///
/// `LimitExceeded`; `Io` if a file cannot be read.
pub fn differing_files(a: &Model, b: &Model) -> Result<Vec<String>> {
    let is_gguf = |model: &Model| matches!(model.encoding(), Encoding::Gguf | Encoding::Ggml);
    if is_gguf(a) || is_gguf(b) {
        return Ok(Vec::new());
    }
    let files = |model: &Model| {
        let files = model.store().read_companions()?.into_iter();
        Ok::<BTreeMap<_, _>, crate::error::Error>(
            files.filter(|(name, _)| !name.ends_with(".py")).collect(),
        )
    };
    let (of_a, mut of_b) = (files(a)?, files(b)?);
    let mut found = Vec::new();
    for (name, bytes) in &of_a {
        match of_b.remove(name) {
            None => found.push(format!("{name} (only in A)")),
            Some(other) if other == *bytes => {}
            Some(other) => {
                found.extend(document(bytes, &other).map(|keys| format!("{name}{keys}")));
            }
        }
    }
    found.extend(of_b.keys().map(|name| format!("{name} (only in B)")));
    Ok(found)
}

/// The keys in which two documents differ, in parentheses; `None` if they say the same.
fn document(a: &[u8], b: &[u8]) -> Option<String> {
    let (Ok(Json::Object(a)), Ok(Json::Object(b))) = (Json::parse(a), Json::parse(b)) else {
        return Some(String::new());
    };
    let of_a = a.keys().filter(|key| a.get(key) != b.get(key));
    let of_b = b.keys().filter(|key| !a.contains_key(key));
    let keys: Vec<&String> =
        of_a.chain(of_b).filter(|key| !APART.contains(&key.as_str())).collect();
    let brief = |key: &&String| Text::new(key.as_bytes()).brief().to_string();
    let mut shown: Vec<String> = keys.iter().take(SHOWN).map(brief).collect();
    if let more @ 1.. = keys.len().saturating_sub(SHOWN) {
        shown.push(format!("{more} more"));
    }
    (!keys.is_empty()).then(|| format!(" ({})", shown.join(", ")))
}
