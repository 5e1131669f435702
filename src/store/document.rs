//! JSON documents beside the weights.

use std::path::Path;

use super::Document;
use crate::bytes::{Access, Files};
use crate::error::{Error, Result};
use crate::json::{self, Json, Words};
use crate::limits::Limits;

/// Reads and parses a JSON document.
pub(crate) fn read(files: &Files, path: &Path, name: &str, limits: &Limits) -> Result<Document> {
    let source = files.open(path, Access::Read)?;
    if source.len() > limits.document_bytes {
        let limit = limits.document_bytes;
        return Err(
            Error::limit("bytes of JSON", source.len(), limit, "document_bytes").in_file(path)
        );
    }
    let bytes = source.bytes(0..source.len())?;
    let json = parse(&bytes, limits).map_err(|error| error.in_file(path))?;
    Ok(Document { name: name.to_owned(), json })
}

/// Reads a JSON document whose top level must be an object, as in every document of a model.
pub(crate) fn read_object(
    files: &Files,
    path: &Path,
    name: &str,
    limits: &Limits,
) -> Result<Document> {
    let document = read(files, path, name, limits)?;
    if document.json.is_object() {
        return Ok(document);
    }
    let error = document.json.no_object();
    Err(error.advise("fetch the file again, or correct it").in_file(path))
}

/// Parses JSON, including the bare words `NaN` and `Infinity` that Python writes.
pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Json> {
    let most = limits.document_values;
    // No byte weighs more than 12, so a short text need not be weighed.
    if (bytes.len() as u64).saturating_mul(12) >= most {
        let values = weight(bytes);
        if values > most {
            return Err(Error::limit("values of JSON", values, most, "document_values"));
        }
    }
    let parsed = json::parse(bytes, Words::Python);
    parsed.map_err(|error| {
        let start = bytes.trim_ascii_start();
        if error.advice().is_some() {
            error
        } else if start.is_empty() {
            error.advise("the file is empty: fetch or copy it again")
        } else if start.starts_with(b"<") {
            error.advise("this looks like an HTML page saved under the file's name: fetch it again")
        } else {
            error.advise("correct the file or fetch it again")
        }
    })
}

/// The size of a text's values once they are parsed, in units of [`Limits::document_values`].
fn weight(bytes: &[u8]) -> u64 {
    let (mut values, mut in_string, mut escaped) = (1u64, false, false);
    for &byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b',' => values = values.saturating_add(1),
            b':' => values = values.saturating_add(3),
            b'[' => values = values.saturating_add(4),
            b'{' => values = values.saturating_add(8),
            // The words for numbers that JSON cannot hold become objects.
            b'N' | b'I' => values = values.saturating_add(11),
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_floats_parse() {
        let text =
            br#"{"a": [0.0, Infinity, -Infinity], "b": NaN, "say \"NaN\"": "NaN, Infinity"}"#;
        let json = parse(text, &Limits::default()).unwrap();
        assert_eq!(json["a"][2]["__float__"], "-Infinity");
        assert_eq!(json["b"]["__float__"], "NaN");
        assert_eq!(json["say \"NaN\""], "NaN, Infinity");
    }

    #[test]
    fn integers_keep_every_digit() {
        let json = parse(
            b"[18446744073709551615, -9223372036854775808, 9007199254740993]",
            &Limits::default(),
        )
        .unwrap();
        assert_eq!(
            json.to_string(),
            "[18446744073709551615,-9223372036854775808,9007199254740993]"
        );
    }

    #[test]
    fn what_is_in_a_text_is_no_value() {
        // One value, an object, its key and its value; two elements.
        assert_eq!(weight(br#"{"a": 1}"#), 1 + 8 + 3);
        assert_eq!(weight(br#"["a", "b"]"#), 1 + 4 + 1);
        assert_eq!(weight(br#""{[,:\"{[,:""#), 1);
        assert_eq!(weight(br#"["\\",2]"#), 1 + 4 + 1);
    }

    #[test]
    fn deep_nesting_is_refused() {
        assert!(parse(&b"[".repeat(100_000), &Limits::default()).is_err());
    }
}
