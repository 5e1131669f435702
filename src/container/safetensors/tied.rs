//! Tensors that an index lists and no file holds, because another tensor serves as theirs.

use crate::engines::transformers;
use crate::json::Json;
use crate::store::Indexed;

/// Modules with an embedding, in the classes of transformers.
const EMBEDDINGS: [&str; 6] =
    ["embed_tokens", "embed_in", "tok_embeddings", "word_embeddings", "wte", "shared"];
/// Modules with an output matrix.
const OUTPUTS: [&str; 5] = ["decoder", "embed_out", "lm_head", "output", "proj_out"];
/// Names of a shared embedding in the modules that use it.
const SHARED: [&[u8]; 2] = [b"encoder.embed_tokens.weight", b"decoder.embed_tokens.weight"];

/// The tensor that serves as one that no file holds: T5's published indexes list the names under which its modules share
/// one embedding, those of others the embedding or the output matrix that their config ties to the other one.
pub(super) fn serving(indexed: &Indexed, name: &[u8]) -> Option<String> {
    if SHARED.contains(&name) && indexed.find(b"shared.weight").is_some() {
        return Some("shared.weight".to_owned());
    }
    let others: &[&str] = match module(name)? {
        module if EMBEDDINGS.contains(&module) => &OUTPUTS,
        module if OUTPUTS.contains(&module) => &EMBEDDINGS,
        _ => return None,
    };
    let stored = (0..u32::try_from(indexed.len()).ok()?).filter_map(|number| indexed.get(number));
    let mut names = stored.map(|listed| listed.name.as_bytes());
    let serves = names.find(|name| module(name).is_some_and(|module| others.contains(&module)))?;
    ties(indexed).then(|| String::from_utf8_lossy(serves).into_owned())
}

/// The module whose weight has this name; `None` within a layer.
fn module(name: &[u8]) -> Option<&str> {
    let path = std::str::from_utf8(name).ok()?.strip_suffix(".weight")?;
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if path.split('.').any(is_number) {
        return None;
    }
    path.rsplit('.').next()
}

/// Whether the config, its class, or else the default of all classes ties both matrices.
fn ties(indexed: &Indexed) -> bool {
    let mut documents = indexed.documents().iter();
    let Some(config) = documents.find(|document| document.name == "config.json") else {
        return false;
    };
    let levels = [Some(&config.json), config.json.get("text_config")];
    let stated = |key: &str| levels.into_iter().flatten().find_map(|level| level.get(key));
    let of_class = || {
        let model_type = config.json.get("model_type").and_then(Json::as_str)?;
        transformers::ties_by_default(model_type)
    };
    let stated = stated("tie_word_embeddings").and_then(Json::as_bool);
    stated.or_else(of_class).unwrap_or(true)
}
