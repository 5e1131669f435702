//! How the outputs of an embedding model are pooled, from the files of sentence-transformers beside
//! the model.

use serde_json::Value as Json;

use crate::error::{Error, Result};
use crate::store::Store;

/// The folder and file that sentence-transformers writes.
pub(super) const FILE: &str = "1_Pooling/config.json";

/// Poolings by their old key, their new name, and their number in GGUF.
const MODES: [(&str, &str, u32); 3] = [
    ("pooling_mode_mean_tokens", "mean", 1),
    ("pooling_mode_cls_token", "cls", 2),
    ("pooling_mode_lasttoken", "lasttoken", 3),
];

/// The number of the pooling in GGUF; `None` if the model is not one of sentence-transformers.
///
/// # Errors
///
/// `Unsupported` if the pooling is none of these, or is described elsewhere.
pub(crate) fn stated(store: &Store) -> Result<Option<u32>> {
    let Some(modules) = store.read_document("modules.json")? else { return Ok(None) };
    let pools = |module: &&Json| {
        module.get("type").and_then(Json::as_str).is_some_and(|name| name.ends_with("Pooling"))
    };
    let module = modules.as_array().and_then(|list| list.iter().find(pools));
    let Some(path) = module.and_then(|module| module.get("path")?.as_str()) else {
        return Ok(None);
    };
    let here = path.trim_end_matches('/') == "1_Pooling";
    let Some(config) = here.then(|| store.read_document(FILE)).transpose()?.flatten() else {
        let fault = "modules.json names a pooling module outside of 1_Pooling";
        return Err(Error::unsupported(fault).in_file(store.path()));
    };
    let is = |key: &str| config.get(key).and_then(Json::as_bool) == Some(true);
    let named = config.get("pooling_mode").and_then(Json::as_str).unwrap_or_default();
    let mode = MODES.iter().find(|(key, ..)| is(key));
    let Some((.., number)) = mode.or_else(|| MODES.iter().find(|(_, name, _)| *name == named))
    else {
        let fault = "unsupported pooling: mean, cls and lasttoken are supported";
        return Err(Error::unsupported(fault).in_file(store.path()).in_key(FILE));
    };
    Ok(Some(*number))
}
