//! Text as tokens, by the steps of a `tokenizer.json`: normalize, split, merge, put around.
//!
//! The library gives that document of every container, so that the same text has the same tokens in
//! every container. Steps that are not here are `Unsupported`.

mod added;
mod aligned;
mod bpe;
mod class;
mod document;
mod found;
mod normalize;
mod pattern;
mod split;
mod unigram;
mod word_piece;

use std::ops::Range;

use serde::Serialize;
use weighbridge::json::Json;
use weighbridge::tokenizer::TokenizerTables;
use weighbridge::{Limits, Model, translate};

use crate::error::{Error, Result};
use added::{AddedToken, AddedTokens, Part};
use aligned::Aligned;
use bpe::Bpe;
use document::{id, steps, text, unsupported};
use found::Found;
use normalize::Normalizer;
use split::Splitter;
use unigram::Unigram;
use word_piece::WordPiece;

/// Turns text into the tokens of a model.
#[derive(Debug)]
pub struct TextTokens {
    /// Tokens that are matched in the text as it is, and in the normalized text.
    added: [AddedTokens; 2],
    normalizers: Vec<Normalizer>,
    splitters: Vec<Splitter>,
    model: TokenizerModel,
    /// Tokens before and after a text.
    around: [Vec<u32>; 2],
}

/// A token of a text.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TextToken {
    /// The number of the token.
    pub id: u32,
    /// The bytes of the text that the token stands for, in whole characters. Empty for a token that the
    /// tokenizer puts around the text.
    pub range: Range<usize>,
    /// Whether the token stands for no text: the start of a text, the end of a turn.
    pub special: bool,
}

/// The algorithm that divides a piece of text into tokens.
#[derive(Debug)]
enum TokenizerModel {
    Bpe(Bpe),
    WordPiece(WordPiece),
    Unigram(Unigram),
}

impl TextTokens {
    /// The tokenizer of a model.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the model has no tokenizer, or one with steps that are not here; `Model` if its
    /// files cannot be read, or its tokenizer cannot be translated.
    pub fn new(model: &Model) -> Result<Self> {
        let tables = translate::tokenizer_tables(model)?;
        let lacks = || {
            Error::Unsupported(
                "text for a model without a tokenizer: put its tokenizer.json next to it, or give the \
                 numbers of the tokens"
                    .to_owned(),
            )
        };
        Self::of_tables(tables.ok_or_else(lacks)?)
    }

    /// The tokenizer that a `tokenizer.json` describes.
    ///
    /// # Errors
    ///
    /// `Unsupported` if it has steps that are not here; `Model` if it is malformed.
    pub fn parse(tokenizer_json: &[u8]) -> Result<Self> {
        Self::of_tables(TokenizerTables::parse(tokenizer_json, &Limits::default())?)
    }

    fn of_tables(tables: TokenizerTables) -> Result<Self> {
        let json = &tables.settings;
        let part = |key: &str, list: &str| {
            let mut found = Vec::new();
            json.get(key).into_iter().for_each(|json| steps(json, list, &mut found));
            found
        };
        let normalizers = part("normalizer", "normalizers").into_iter().map(Normalizer::of);
        let normalizers: Vec<Normalizer> = normalizers.collect::<Result<_>>()?;
        let listed = part("pre_tokenizer", "pretokenizers");
        let last = listed.len();
        let splitters = (1..).zip(listed).map(|(place, step)| Splitter::of(step, place == last));
        let splitters: Vec<Splitter> = splitters.collect::<Result<_>>()?;
        let has_bytes = matches!(splitters.last(), Some(Splitter::Bytes { letters: None, .. }));
        let mut around = [Vec::new(), Vec::new()];
        for step in part("post_processor", "processors") {
            template(step, &mut around)?;
        }
        let (mut normalized, plain): (Vec<AddedToken>, Vec<AddedToken>) =
            AddedToken::of(json).partition(|token| token.is_normalized);
        for token in &mut normalized {
            let mut text = Aligned::new(&token.text, 0..token.text.len(), false);
            normalizers.iter().try_for_each(|step| step.apply(&mut text))?;
            token.text = text.text().to_owned();
        }
        normalized.retain(|token| !token.text.is_empty());
        let kind = json.get("model").and_then(|model| model.get("type")).and_then(Json::as_str);
        Ok(Self {
            added: [AddedTokens::new(plain)?, AddedTokens::new(normalized)?],
            model: match kind {
                Some("WordPiece") => TokenizerModel::WordPiece(WordPiece::new(tables, true)?),
                Some("WordLevel") => TokenizerModel::WordPiece(WordPiece::new(tables, false)?),
                Some("Unigram") => TokenizerModel::Unigram(Unigram::new(tables)),
                _ => TokenizerModel::Bpe(Bpe::new(tables, has_bytes)?),
            },
            normalizers,
            splitters,
            around,
        })
    }

    /// The tokens of a text, with those that the tokenizer puts before and after it.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn of(&self, text: &str) -> Result<Vec<u32>> {
        let [before, after] = &self.around;
        let mut out = before.clone();
        out.extend(self.of_rendered(text)?);
        out.extend(after);
        Ok(out)
    }

    /// The tokens of a text that already contains all special tokens, as a rendered chat template
    /// does.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn of_rendered(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.parts(text, false)?.into_iter().map(|token| token.id).collect())
    }

    /// Like [`of`](Self::of), with at most this many tokens: the last ones of the text are left out, and
    /// those around it stay.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn at_most(&self, text: &str, most: usize) -> Result<Vec<u32>> {
        let [before, after] = &self.around;
        let mut out = before.clone();
        out.extend(self.of_rendered(text)?);
        out.truncate(most.saturating_sub(after.len()).max(before.len()));
        out.extend(after);
        Ok(out)
    }

    /// The number of tokens before those of a text that follows this one, with those that the tokenizer puts there.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn before(&self, text: &str) -> Result<usize> {
        let [before, _] = &self.around;
        Ok(before.len().saturating_add(self.of_rendered(text)?.len()))
    }

    /// Like [`of`](Self::of), with the range of the text that each token stands for.
    ///
    /// # Errors
    ///
    /// `Input` for text that no token stands for.
    pub fn spans(&self, text: &str) -> Result<Vec<TextToken>> {
        let [before, after] = &self.around;
        let around = |ids: &[u32], at: usize| -> Vec<TextToken> {
            ids.iter().map(|id| TextToken { id: *id, range: at..at, special: true }).collect()
        };
        let mut out = around(before, 0);
        out.extend(self.parts(text, true)?);
        out.extend(around(after, text.len()));
        Ok(out)
    }

    /// The tokens of a text; `has_offsets` says whether their ranges are wanted.
    fn parts(&self, text: &str, has_offsets: bool) -> Result<Vec<TextToken>> {
        let mut out = Vec::new();
        let [plain, normalized] = &self.added;
        let mut found = Vec::new();
        for part in plain.parts(text) {
            let range = match part {
                Part::Text(range) => range,
                Part::Token(range, token) => {
                    out.push(TextToken { id: token.id, range, special: token.is_special });
                    continue;
                }
            };
            let mut aligned = Aligned::new(text, range, has_offsets);
            self.normalizers.iter().try_for_each(|step| step.apply(&mut aligned))?;
            for part in normalized.parts(aligned.text()) {
                match part {
                    Part::Text(range) => {
                        let mut part = aligned.part(range);
                        self.plain(&mut part, &mut found)?;
                        out.extend(found.drain(..).map(|token| TextToken {
                            id: token.id,
                            range: whole_characters(text, part.origin(token.range)),
                            special: false,
                        }));
                    }
                    Part::Token(range, token) => out.push(TextToken {
                        id: token.id,
                        range: whole_characters(text, aligned.origin(range)),
                        special: token.is_special,
                    }),
                }
            }
        }
        Ok(out)
    }

    /// Normalized text between added tokens.
    fn plain(&self, aligned: &mut Aligned<'_>, found: &mut Vec<Found>) -> Result<()> {
        // One piece, which the steps split.
        let mut pieces: Vec<_> = std::iter::once(0..aligned.text().len()).collect();
        for splitter in &self.splitters {
            splitter.apply(aligned, &mut pieces)?;
        }
        for piece in pieces {
            match &self.model {
                TokenizerModel::Bpe(bpe) => bpe.tokens(aligned.text(), piece, found)?,
                TokenizerModel::WordPiece(words) => words.tokens(aligned.text(), piece, found),
                TokenizerModel::Unigram(pieces) => pieces.tokens(aligned.text(), piece, found)?,
            }
        }
        Ok(())
    }
}

/// Extends a range to whole characters.
fn whole_characters(text: &str, range: Range<usize>) -> Range<usize> {
    let start = (0..=range.start).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = (range.end..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    start..end
}

/// Reads the tokens that a step puts before and after a text.
fn template(json: &Json, around: &mut [Vec<u32>; 2]) -> Result<()> {
    let [before, after] = around;
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
                if seen { &mut *after } else { &mut *before }.extend(ids);
            }
        }
        Some("RobertaProcessing" | "BertProcessing") => {
            let of = |key: &str| json.get(key).and_then(|pair| id(&pair[1]));
            before.extend(of("cls"));
            after.extend(of("sep"));
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
        TextTokens::parse(json.to_string().as_bytes()).expect("a tokenizer")
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
        let vocabulary: Map<String, Json> =
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
        let tokens = TextTokens::parse(json.to_string().as_bytes()).expect("a tokenizer");
        let of = |text: &str| tokens.of(text).expect("tokens");
        assert_eq!(of("The unaffable Mills."), [2, 4, 5, 6, 7, 8, 9, 10, 3]);
        assert_eq!(of("a\tcafé,山!! x\u{200b}"), [2, 16, 13, 11, 12, 14, 14, 1, 3]);
        assert_eq!(of("millsmills mill[SEP]mill"), [2, 1, 8, 3, 8, 3]);
    }

    #[test]
    fn steps_that_are_not_here_are_named() {
        let json = json!({"normalizer": {"type": "Bold"}, "model": {}});
        let error =
            TextTokens::parse(json.to_string().as_bytes()).expect_err("a step that is not here");
        assert_eq!(error.to_string(), "unsupported: a tokenizer with the normalizer Bold");
    }
}
