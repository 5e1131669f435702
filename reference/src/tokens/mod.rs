//! Text as tokens, by the steps of a `tokenizer.json`: normalize, split, merge, put around.
//!
//! The library gives that document of every container, so that the same text has the same tokens
//! whichever file the model lies in. Tokenizers that merge pairs (BPE) are here, those of nearly all
//! language models; others are `Unsupported`.

mod bpe;
mod split;

use serde_json::Value as Json;
use unicode_normalization::UnicodeNormalization;
use weighbridge::{Model, translate};

use crate::error::{Error, Result};
use bpe::Bpe;
use split::Splitter;

/// Turns text into the tokens of a model.
#[derive(Debug)]
pub struct TextTokens {
    added: Vec<Added>,
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    bpe: Bpe,
    /// Tokens before and behind a text.
    around: [Vec<u32>; 2],
}

/// A token that is found before all else.
#[derive(Debug)]
struct Added {
    text: String,
    id: u32,
    /// Whether spaces before and behind belong to it.
    strips: (bool, bool),
}

/// A step that changes text.
#[derive(Debug)]
enum Normalizer {
    Prepend(String),
    Replace(String, String),
    Lowercase,
    Composed,
    Decomposed,
    CompatiblyComposed,
    CompatiblyDecomposed,
}

pub(crate) fn unsupported(what: &str, json: &Json) -> Error {
    let name = json.get("type").and_then(Json::as_str).unwrap_or("without a type");
    Error::Unsupported(format!("a tokenizer with the {what} {name}"))
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.get(key)?.as_str().map(str::to_owned)
}

fn id(json: &Json) -> Option<u32> {
    u32::try_from(json.as_u64()?).ok()
}

/// The steps of a part of the document, those of a sequence one after another.
fn steps<'j>(json: &'j Json, list: &str, out: &mut Vec<&'j Json>) {
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

impl TextTokens {
    /// The tokenizer of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model has no tokenizer, or one with steps that are not here; `Model` if its
    /// files cannot be read, or the library has no `tokenizer.json` for its container.
    pub fn new(model: &Model) -> Result<Self> {
        let documents = translate::hf_documents(model)?;
        let document = documents.others.into_iter().find(|(name, _)| *name == "tokenizer.json");
        let (_, bytes) = document.ok_or_else(|| {
            Error::Unsupported("text for a model without tokenizer.json".to_owned())
        })?;
        let json: Json = serde_json::from_slice(&bytes)
            .map_err(|error| Error::Mismatch(format!("tokenizer.json: {error}")))?;
        Self::of_document(&json)
    }

    /// The tokenizer that a `tokenizer.json` describes.
    ///
    /// # Errors
    ///
    /// `Unsupported` if it has steps that are not here.
    pub fn of_document(json: &Json) -> Result<Self> {
        let part = |key: &str, list: &str| {
            let mut found = Vec::new();
            json.get(key).into_iter().for_each(|json| steps(json, list, &mut found));
            found
        };
        let normalizers = part("normalizer", "normalizers");
        let splitters = part("pre_tokenizer", "pretokenizers");
        let mut around = [Vec::new(), Vec::new()];
        for step in part("post_processor", "processors") {
            template(step, &mut around)?;
        }
        let added = json.get("added_tokens").and_then(Json::as_array).into_iter().flatten();
        let added = added.filter_map(|token| {
            let flag = |key: &str| token.get(key).and_then(Json::as_bool).unwrap_or(false);
            let strips = (flag("lstrip"), flag("rstrip"));
            Some(Added { text: text(token, "content")?, id: id(token.get("id")?)?, strips })
        });
        let mut added: Vec<Added> = added.filter(|token| !token.text.is_empty()).collect();
        // The longest of those that start in one place wins.
        added.sort_by_key(|token| std::cmp::Reverse(token.text.len()));
        let model = json.get("model").unwrap_or(&Json::Null);
        Ok(Self {
            added,
            normalizers: normalizers.into_iter().map(Normalizer::of).collect::<Result<_>>()?,
            splitters: splitters.into_iter().map(Splitter::of).collect::<Result<_>>()?,
            bpe: Bpe::of(model)?,
            around,
        })
    }

    /// The tokens of a text, with those that the tokenizer puts before and behind it.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn of(&self, text: &str) -> Result<Vec<u32>> {
        let [before, behind] = &self.around;
        let mut out = before.clone();
        let mut rest = text;
        let mut first = true;
        while let Some((place, found)) = self.next_added(rest) {
            let (head, tail) = rest.split_at(place);
            let head = if found.strips.0 { head.trim_end() } else { head };
            self.plain(head, first, &mut out)?;
            out.push(found.id);
            rest = tail.get(found.text.len()..).unwrap_or_default();
            rest = if found.strips.1 { rest.trim_start() } else { rest };
            first = false;
        }
        self.plain(rest, first, &mut out)?;
        out.extend(behind);
        Ok(out)
    }

    fn next_added(&self, text: &str) -> Option<(usize, &Added)> {
        let places = self.added.iter().filter_map(|token| Some((text.find(&token.text)?, token)));
        places.min_by_key(|(place, token)| (*place, std::cmp::Reverse(token.text.len())))
    }

    /// Text between added tokens.
    fn plain(&self, text: &str, first: bool, out: &mut Vec<u32>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let text = self.normalizers.iter().fold(text.to_owned(), |text, step| step.of_text(&text));
        let mut pieces = vec![text];
        for splitter in &self.splitters {
            pieces = splitter.of_pieces(pieces, first)?;
        }
        pieces.iter().try_for_each(|piece| self.bpe.tokens(piece, out))
    }
}

impl Normalizer {
    fn of(json: &Json) -> Result<Self> {
        Ok(match json.get("type").and_then(Json::as_str) {
            Some("Prepend") => Self::Prepend(text(json, "prepend").unwrap_or_default()),
            Some("Replace") => {
                let pattern = json.get("pattern").and_then(|pattern| text(pattern, "String"));
                let pattern = pattern.filter(|pattern| !pattern.is_empty());
                let pattern = pattern.ok_or_else(|| unsupported("normalizer", json))?;
                Self::Replace(pattern, text(json, "content").unwrap_or_default())
            }
            Some("Lowercase") => Self::Lowercase,
            Some("NFC") => Self::Composed,
            Some("NFD") => Self::Decomposed,
            Some("NFKC") => Self::CompatiblyComposed,
            Some("NFKD") => Self::CompatiblyDecomposed,
            _ => return Err(unsupported("normalizer", json)),
        })
    }

    fn of_text(&self, text: &str) -> String {
        match self {
            Self::Prepend(before) => format!("{before}{text}"),
            Self::Replace(pattern, by) => text.replace(pattern.as_str(), by),
            Self::Lowercase => text.to_lowercase(),
            Self::Composed => text.nfc().collect(),
            Self::Decomposed => text.nfd().collect(),
            Self::CompatiblyComposed => text.nfkc().collect(),
            Self::CompatiblyDecomposed => text.nfkd().collect(),
        }
    }
}

/// Reads what a step puts before and behind a text.
fn template(json: &Json, around: &mut [Vec<u32>; 2]) -> Result<()> {
    let [before, behind] = around;
    match json.get("type").and_then(Json::as_str) {
        Some("ByteLevel") => {}
        Some("TemplateProcessing") => {
            let mut seen = false;
            for part in json.get("single").and_then(Json::as_array).into_iter().flatten() {
                let Some(special) = part.get("SpecialToken") else {
                    seen = true;
                    continue;
                };
                let name = text(special, "id").unwrap_or_default();
                let ids = json.get("special_tokens").and_then(|all| all.get(&name)?.get("ids"));
                let ids = ids.and_then(Json::as_array).into_iter().flatten().filter_map(id);
                if seen { &mut *behind } else { &mut *before }.extend(ids);
            }
        }
        Some("RobertaProcessing" | "BertProcessing") => {
            let of = |key: &str| json.get(key).and_then(|pair| id(pair.get(1)?));
            before.extend(of("cls"));
            behind.extend(of("sep"));
        }
        _ => return Err(unsupported("post-processor", json)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tokenizers of Llama 2 are: spaces are letters, and bytes stand for unknown characters.
    fn of_blocks() -> TextTokens {
        let pieces = "▁ t w o m i l tw two ▁two ▁m il ▁mil ▁mill";
        let mut vocabulary = serde_json::Map::new();
        for text in ["<unk>", "<s>", "</s>"] {
            vocabulary.insert(text.to_owned(), vocabulary.len().into());
        }
        for byte in 0..=255u8 {
            vocabulary.insert(format!("<0x{byte:02X}>"), vocabulary.len().into());
        }
        for text in pieces.split(' ') {
            vocabulary.insert(text.to_owned(), vocabulary.len().into());
        }
        let added = |id: u32, text: &str| serde_json::json!({"id": id, "content": text});
        let json = serde_json::json!({
            "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ]},
            "pre_tokenizer": null,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"ids": [1]}},
            },
            "model": {
                "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
                "vocab": vocabulary,
                "merges": ["t w", "tw o", "▁ two", "▁ m", "i l", "▁m il", "▁mil l"],
            },
        });
        TextTokens::of_document(&json).expect("a tokenizer")
    }

    /// The numbers are those of Hugging Face's tokenizers 0.23.
    #[test]
    fn spaces_are_letters_and_bytes_stand_for_characters() {
        let tokens = of_blocks();
        let of = |text: &str| tokens.of(text).expect("tokens");
        assert_eq!(of("two mill"), [1, 268, 272]);
        assert_eq!(of("two two\nmill é"), [1, 268, 268, 13, 263, 270, 265, 259, 198, 172]);
        assert_eq!(of("two</s> mill"), [1, 268, 2, 259, 272]);
        assert_eq!(of(" two"), [1, 259, 268]);
        assert_eq!(of(""), [1]);
    }

    #[test]
    fn steps_that_are_not_here_are_named() {
        let json = serde_json::json!({"normalizer": {"type": "Precompiled"}, "model": {}});
        let error = TextTokens::of_document(&json).expect_err("a step that is not here");
        assert_eq!(error.to_string(), "unsupported: a tokenizer with the normalizer Precompiled");
    }
}
