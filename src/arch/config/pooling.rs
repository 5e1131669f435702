//! The pooling of an embedding model's outputs, from the files of sentence-transformers next to the
//! model.

use crate::error::{Error, Result};
use crate::json::Json;
use crate::store::Store;

/// Poolings by their old key, their new name, and their number in GGUF.
pub(crate) const MODES: [(&str, &str, u32); 3] = [
    ("pooling_mode_mean_tokens", "mean", 1),
    ("pooling_mode_cls_token", "cls", 2),
    ("pooling_mode_lasttoken", "lasttoken", 3),
];

/// The number of the pooling in GGUF and the file that states it; `None` if the model is not one of
/// sentence-transformers.
///
/// # Errors
///
/// `Unsupported` if the pooling is none of these, or its config is missing.
pub(crate) fn stated(store: &Store) -> Result<Option<(u32, String)>> {
    let modules = store.modules()?;
    let Some(module) = modules.iter().find(|module| module.kind == "Pooling") else {
        return Ok(None);
    };
    let file = format!("{}/config.json", module.folder);
    let here = |error: Error| error.in_file(store.path()).in_key(&file);
    let Some(config) = store.module_config(module)? else {
        let fault = "modules.json names this file of the pooling, which is missing";
        return Err(here(Error::unsupported(fault)));
    };
    let is = |key: &str| config.get(key).and_then(Json::as_bool) == Some(true);
    let named = config.get("pooling_mode").and_then(Json::as_str).unwrap_or_default();
    let mode = MODES.iter().find(|(key, ..)| is(key));
    let Some((.., number)) = mode.or_else(|| MODES.iter().find(|(_, name, _)| *name == named))
    else {
        let fault = "unsupported pooling: mean, cls and lasttoken are supported";
        return Err(here(Error::unsupported(fault)));
    };
    Ok(Some((*number, file)))
}
