//! The pooling of an embedding model's outputs, from the files of sentence-transformers next to the
//! model.

use super::field::Field;
use super::origin::FieldSource;
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
pub(crate) fn stated(store: &Store) -> Result<Option<Field<u32>>> {
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
    // The older form has a flag for each mode; the vectors of several are concatenated.
    let flags = config.as_object().into_iter().flatten();
    let flags =
        flags.filter(|(key, set)| key.starts_with("pooling_mode_") && **set == Json::Bool(true));
    let named = match config.get("pooling_mode") {
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        name => Vec::from_iter(name.and_then(Json::as_str)),
    };
    let chosen: Vec<&str> = flags.map(|(key, _)| key.as_str()).chain(named).collect();
    let mode = |chosen: &str| MODES.iter().find(|(key, name, _)| [*key, *name].contains(&chosen));
    let number = match chosen.as_slice() {
        [chosen] => mode(chosen).map(|(.., number)| number),
        _ => None,
    };
    let Some(number) = number else {
        let found = if chosen.is_empty() { "none".to_owned() } else { chosen.join(" and ") };
        let fault =
            format!("unsupported pooling: {found}; one of mean, cls and lasttoken is supported");
        return Err(here(Error::unsupported(fault)));
    };
    Ok(Some(Field { value: *number, source: FieldSource::file(file) }))
}
