//! Text as tokens, by the steps of a `tokenizer.json`: normalize, split, merge, put around.
//!
//! The library gives that document of every container, so that the same text has the same tokens
//! whichever file the model lies in. Tokenizers that merge pairs (BPE) are here, those of nearly all
//! language models, those of BERT (WordPiece), and those of T5 and XLM-RoBERTa (Unigram); others are
//! `Unsupported`.

mod bpe;
mod document;
mod split;
mod unigram;
mod word_piece;

use fancy_regex::Regex;
use unicode_normalization::UnicodeNormalization;
use weighbridge::json::Json;
use weighbridge::{Model, translate};

use crate::error::{Error, Result};
use bpe::Bpe;
use document::{id, steps, text, unsupported};
use split::Splitter;
use unigram::{Replacements, Unigram};
use word_piece::WordPiece;

/// Turns text into the tokens of a model.
#[derive(Debug)]
pub struct TextTokens {
    added: Vec<Added>,
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    vocabulary: Vocabulary,
    /// Tokens before and behind a text.
    around: [Vec<u32>; 2],
}

/// How a piece of text becomes tokens.
#[derive(Debug)]
enum Vocabulary {
    Bpe(Bpe),
    WordPiece(WordPiece),
    Unigram(Unigram),
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
    ReplaceMatches(Regex, String),
    /// Spaces before and behind a text are dropped.
    Strip {
        before: bool,
        behind: bool,
    },
    Precompiled(Replacements),
    Lowercase,
    Composed,
    Decomposed,
    CompatiblyComposed,
    CompatiblyDecomposed,
    /// BERT's: which of its four steps are made.
    Bert {
        cleans: bool,
        spaces_ideographs: bool,
        strips_accents: bool,
        lowers: bool,
    },
}

impl TextTokens {
    /// The tokenizer of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model has no tokenizer, or one with steps that are not here; `Model` if its
    /// files cannot be read, or its tokenizer cannot be translated.
    pub fn new(model: &Model) -> Result<Self> {
        let json = translate::tokenizer_json(model)?;
        let lacks = || Error::Unsupported("text for a model without a tokenizer".to_owned());
        Self::of_document(&json.ok_or_else(lacks)?)
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
            vocabulary: match model.get("type").and_then(Json::as_str) {
                Some("WordPiece") => Vocabulary::WordPiece(WordPiece::of(model)?),
                Some("Unigram") => Vocabulary::Unigram(Unigram::of(model)?),
                _ => Vocabulary::Bpe(Bpe::of(model)?),
            },
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
        out.extend(self.of_rendered(text)?);
        out.extend(behind);
        Ok(out)
    }

    /// The tokens of a text that already contains all special tokens, as a rendered chat template
    /// does.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn of_rendered(&self, text: &str) -> Result<Vec<u32>> {
        let mut out = Vec::new();
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
        let text =
            self.normalizers.iter().try_fold(text.to_owned(), |text, step| step.of_text(&text))?;
        if text.is_empty() {
            return Ok(());
        }
        let mut pieces = vec![text];
        for splitter in &self.splitters {
            pieces = splitter.of_pieces(pieces, first)?;
        }
        for piece in &pieces {
            match &self.vocabulary {
                Vocabulary::Bpe(bpe) => bpe.tokens(piece, out)?,
                Vocabulary::WordPiece(words) => words.tokens(piece, out),
                Vocabulary::Unigram(pieces) => pieces.tokens(piece, out)?,
            }
        }
        Ok(())
    }
}

impl Normalizer {
    fn of(json: &Json) -> Result<Self> {
        Ok(match json.get("type").and_then(Json::as_str) {
            Some("Prepend") => Self::Prepend(text(json, "prepend").unwrap_or_default()),
            Some("Replace")
                if let Some(pattern) = json.get("pattern").and_then(|p| text(p, "Regex")) =>
            {
                Self::ReplaceMatches(
                    split::regex(&pattern)?,
                    text(json, "content").unwrap_or_default(),
                )
            }
            Some("Strip") => {
                let flag = |key: &str| json.get(key).and_then(Json::as_bool).unwrap_or(true);
                Self::Strip { before: flag("strip_left"), behind: flag("strip_right") }
            }
            Some("Precompiled") => Self::Precompiled(Replacements::of(json)?),
            Some("Replace") => {
                let pattern = json.get("pattern").and_then(|pattern| text(pattern, "String"));
                let pattern = pattern.filter(|pattern| !pattern.is_empty());
                let pattern = pattern.ok_or_else(|| unsupported("normalizer", json))?;
                Self::Replace(pattern, text(json, "content").unwrap_or_default())
            }
            Some("BertNormalizer") => {
                let flag = |key: &str| json.get(key).and_then(Json::as_bool);
                let lowers = flag("lowercase").unwrap_or(true);
                Self::Bert {
                    cleans: flag("clean_text").unwrap_or(true),
                    spaces_ideographs: flag("handle_chinese_chars").unwrap_or(true),
                    strips_accents: flag("strip_accents").unwrap_or(lowers),
                    lowers,
                }
            }
            Some("Lowercase") => Self::Lowercase,
            Some("NFC") => Self::Composed,
            Some("NFD") => Self::Decomposed,
            Some("NFKC") => Self::CompatiblyComposed,
            Some("NFKD") => Self::CompatiblyDecomposed,
            _ => return Err(unsupported("normalizer", json)),
        })
    }

    fn of_text(&self, text: &str) -> Result<String> {
        Ok(match self {
            Self::Prepend(before) => format!("{before}{text}"),
            Self::Replace(pattern, by) => text.replace(pattern.as_str(), by),
            Self::ReplaceMatches(pattern, by) => {
                let by = fancy_regex::NoExpand(by);
                let replaced = pattern.try_replacen(text, 0, by);
                replaced.map_err(split::not_matched)?.into_owned()
            }
            Self::Strip { before, behind } => {
                let text = if *before { text.trim_start() } else { text };
                if *behind { text.trim_end() } else { text }.to_owned()
            }
            Self::Precompiled(replacements) => replacements.of_text(text),
            Self::Lowercase => text.to_lowercase(),
            Self::Composed => text.nfc().collect(),
            Self::Decomposed => text.nfd().collect(),
            Self::CompatiblyComposed => text.nfkc().collect(),
            Self::CompatiblyDecomposed => text.nfkd().collect(),
            Self::Bert { cleans, spaces_ideographs, strips_accents, lowers } => {
                let mut text = text.to_owned();
                if *cleans {
                    text.retain(|letter| !is_dropped(letter));
                    text = text.replace(char::is_whitespace, " ");
                }
                if *spaces_ideographs {
                    text = spaced_ideographs(&text);
                }
                if *strips_accents {
                    text = text.nfd().filter(|letter| !is_accent(*letter)).collect();
                }
                if *lowers { text.to_lowercase() } else { text }
            }
        })
    }
}

/// Control characters, which BERT's normalizer drops.
fn is_dropped(letter: char) -> bool {
    let kept = matches!(letter, '\t' | '\n' | '\r');
    letter == '\u{fffd}' || letter.is_control() && !kept || is_format(letter)
}

/// Invisible characters of the Unicode category Cf that occur in texts.
fn is_format(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{feff}')
}

/// Whether the character is a mark above or below another (Unicode category Mn).
fn is_accent(letter: char) -> bool {
    unicode_normalization::char::is_combining_mark(letter)
}

/// Puts spaces around ideographs, by the blocks that BERT's own tokenizer names.
fn spaced_ideographs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        let ideograph = matches!(u32::from(letter), 0x4e00..=0x9fff | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff | 0x2f800..=0x2fa1f);
        match ideograph {
            true => out.extend([' ', letter, ' ']),
            false => out.push(letter),
        }
    }
    out
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
            let of = |key: &str| json.get(key).and_then(|pair| id(&pair[1]));
            before.extend(of("cls"));
            behind.extend(of("sep"));
        }
        _ => return Err(unsupported("post-processor", json)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weighbridge::json::{Map, json};

    use super::*;

    /// As tokenizers of Llama 2 are: spaces are letters, and bytes stand for unknown characters.
    fn of_blocks() -> TextTokens {
        let pieces = "▁ t w o m i l tw two ▁two ▁m il ▁mil ▁mill";
        let mut vocabulary = Map::new();
        for text in ["<unk>", "<s>", "</s>"] {
            vocabulary.insert(text.to_owned(), vocabulary.len().into());
        }
        for byte in 0..=255u8 {
            vocabulary.insert(format!("<0x{byte:02X}>"), vocabulary.len().into());
        }
        for text in pieces.split(' ') {
            vocabulary.insert(text.to_owned(), vocabulary.len().into());
        }
        let added = |id: u32, text: &str| json!({"id": id, "content": text});
        let json = json!({
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

    /// The numbers are those of Hugging Face's tokenizers 0.23.
    #[test]
    fn words_of_bert_are_cut_from_the_front() {
        let words = "[PAD] [UNK] [CLS] [SEP] the un ##aff ##able mill ##s . , 山 cafe ! ##! a";
        let vocabulary: Map =
            words.split(' ').zip(0u32..).map(|(word, id)| (word.to_owned(), id.into())).collect();
        let json = json!({
            "added_tokens": [{"id": 2, "content": "[CLS]"}, {"id": 3, "content": "[SEP]"}],
            "normalizer": {"type": "BertNormalizer", "clean_text": true,
                "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]",
                "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
                "vocab": vocabulary},
        });
        let tokens = TextTokens::of_document(&json).expect("a tokenizer");
        let of = |text: &str| tokens.of(text).expect("tokens");
        assert_eq!(of("The unaffable Mills."), [2, 4, 5, 6, 7, 8, 9, 10, 3]);
        assert_eq!(of("a\tcafé,山!! x\u{200b}"), [2, 16, 13, 11, 12, 14, 14, 1, 3]);
        assert_eq!(of("millsmills mill[SEP]mill"), [2, 1, 8, 3, 8, 3]);
    }

    #[test]
    fn steps_that_are_not_here_are_named() {
        let json = json!({"normalizer": {"type": "Nmt"}, "model": {}});
        let error = TextTokens::of_document(&json).expect_err("a step that is not here");
        assert_eq!(error.to_string(), "unsupported: a tokenizer with the normalizer Nmt");
    }
}
