//! Values of a `tokenizer.json`.

use weighbridge::json::Json;

use crate::error::Error;

pub(super) fn unsupported(what: &str, json: &Json) -> Error {
    let name = json.get("type").and_then(Json::as_str).unwrap_or("without a type");
    Error::Unsupported(format!("a tokenizer with the {what} {name}"))
}

pub(super) fn text(json: &Json, key: &str) -> Option<String> {
    json.get(key)?.as_str().map(str::to_owned)
}

pub(super) fn id(json: &Json) -> Option<u32> {
    u32::try_from(json.as_u64()?).ok()
}

/// The steps of a part of the document, those of a sequence one after another.
pub(super) fn steps<'j>(json: &'j Json, list: &str, out: &mut Vec<&'j Json>) {
    match json.get("type").and_then(Json::as_str) {
        Some("Sequence") => {
            let inner = json.get(list).and_then(Json::as_array).into_iter().flatten();
            // Sequences of sequences do not occur; one level is enough, and cannot run away.
            out.extend(inner);
        }
        Some(_) => out.push(json),
        None => {}
    }
}
