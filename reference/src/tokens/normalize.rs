//! Steps that change a text before it is split.

use std::borrow::Cow;

use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};
use weighbridge::json::Json;
use weighbridge::tokenizer::byte_letters;

use super::aligned::Aligned;
use super::class::{CharacterClass, MARKS, NONSPACING_MARKS, OTHERS};
use super::document::{text, unsupported};
use super::pattern::Pattern;
use super::unigram::Replacements;
use crate::error::Result;

/// A step.
#[derive(Debug)]
pub(super) enum Normalizer {
    Prepend(String),
    Replace(Pattern, String),
    /// Spaces at the start and at the end of a text are dropped.
    Strip {
        start: bool,
        end: bool,
    },
    Precompiled(Replacements),
    Lowercase,
    /// One of Unicode's normal forms.
    Form(Form),
    /// Nonspacing marks are dropped.
    StripAccents,
    /// SentencePiece's older cleaning: control characters are dropped, other spaces become spaces.
    Nmt,
    /// Bytes become letters.
    Letters(Vec<char>),
    Bert(Bert),
}

/// The steps of BERT's normalizer that are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bert {
    cleans: bool,
    spaces_ideographs: bool,
    strips_accents: bool,
    lowers: bool,
}

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    Composed,
    Decomposed,
    CompatiblyComposed,
    CompatiblyDecomposed,
}

impl Normalizer {
    pub(super) fn of(json: &Json) -> Result<Self> {
        let flag = |key: &str| json.get(key).and_then(Json::as_bool);
        Ok(match json.get("type").and_then(Json::as_str) {
            Some("Prepend") => Self::Prepend(text(json, "prepend").unwrap_or_default()),
            Some("Replace") => {
                let content = text(json, "content").unwrap_or_default();
                Self::Replace(Pattern::of(json, "normalizer")?, content)
            }
            Some("Strip") => Self::Strip {
                start: flag("strip_left").unwrap_or(true),
                end: flag("strip_right").unwrap_or(true),
            },
            Some("Precompiled") => Self::Precompiled(Replacements::of(json)?),
            Some("BertNormalizer") => {
                let lowers = flag("lowercase").unwrap_or(true);
                Self::Bert(Bert {
                    cleans: flag("clean_text").unwrap_or(true),
                    spaces_ideographs: flag("handle_chinese_chars").unwrap_or(true),
                    strips_accents: flag("strip_accents").unwrap_or(lowers),
                    lowers,
                })
            }
            Some("Lowercase") => Self::Lowercase,
            Some("StripAccents") => Self::StripAccents,
            Some("Nmt") => Self::Nmt,
            Some("ByteLevel") => Self::Letters(letters()),
            Some("NFC") => Self::Form(Form::Composed),
            Some("NFD") => Self::Form(Form::Decomposed),
            Some("NFKC") => Self::Form(Form::CompatiblyComposed),
            Some("NFKD") => Self::Form(Form::CompatiblyDecomposed),
            _ => return Err(unsupported("normalizer", json)),
        })
    }

    pub(super) fn apply(&self, aligned: &mut Aligned<'_>) -> Result<()> {
        match self {
            Self::Prepend(_) if aligned.text().is_empty() => {}
            Self::Prepend(before) => aligned.edit(|editor| editor.insert(before)),
            Self::Replace(pattern, with) => {
                let found = pattern.matches(aligned.text())?;
                if !found.is_empty() {
                    aligned.edit(|editor| {
                        for found in found {
                            editor.keep(found.start);
                            editor.replace(found.end, with);
                        }
                    });
                }
            }
            Self::Strip { start, end } => {
                let text = aligned.text();
                let first = text.len() - text.trim_start().len();
                let first = if *start { first } else { 0 };
                let last = if *end { text.trim_end().len().max(first) } else { text.len() };
                if first > 0 || last < text.len() {
                    aligned.edit(|editor| {
                        editor.replace(first, "");
                        editor.keep(last);
                        editor.replace(editor.old.len(), "");
                    });
                }
            }
            Self::Precompiled(replacements) => replacements.apply(aligned),
            Self::Lowercase => lower(aligned),
            Self::StripAccents => strip_accents(aligned, &MARKS),
            Self::Form(form) => form.apply(aligned),
            Self::Nmt => aligned.edit_characters(|c| match u32::from(c) {
                1..=8 | 0x0b | 0x0e..=0x1f | 0x7f | 0x8f | 0x9f => Some(Cow::Borrowed("")),
                9
                | 0x0a
                | 0x0c
                | 0x0d
                | 0x1680
                | 0x200b..=0x200f
                | 0x2028
                | 0x2029
                | 0x2581
                | 0xfeff
                | 0xfffd => Some(Cow::Borrowed(" ")),
                _ => None,
            }),
            Self::Letters(letters) => aligned.edit_characters(|c| spelled(c, letters)),
            Self::Bert(bert) => bert.apply(aligned),
        }
        Ok(())
    }
}

/// GPT-2's letters, by byte.
pub(super) fn letters() -> Vec<char> {
    let mut all: Vec<(u8, char)> = byte_letters().map(|(letter, byte)| (byte, letter)).collect();
    all.sort_by_key(|(byte, _)| *byte);
    all.into_iter().map(|(_, letter)| letter).collect()
}

/// The letters of a character's bytes.
pub(super) fn spelled(character: char, letters: &[char]) -> Option<Cow<'static, str>> {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).bytes();
    let letter = |byte: u8| letters.get(usize::from(byte)).copied();
    Some(Cow::Owned(bytes.filter_map(letter).collect()))
}

/// Each character by itself, whatever it stands next to.
fn lower(aligned: &mut Aligned<'_>) {
    aligned.edit_characters(|c| {
        let mut lower = c.to_lowercase();
        match (lower.next(), lower.next()) {
            (Some(same), None) if same == c => None,
            _ => Some(Cow::Owned(c.to_lowercase().collect())),
        }
    });
}

fn strip_accents(aligned: &mut Aligned<'_>, marks: &CharacterClass) {
    if !aligned.text().is_ascii() {
        aligned.edit_characters(|c| marks.contains(c).then_some(Cow::Borrowed("")));
    }
}

impl Form {
    fn apply(self, aligned: &mut Aligned<'_>) {
        let text = aligned.text();
        let is_quick = |is: IsNormalized| is == IsNormalized::Yes;
        let is_same = match self {
            Self::Composed => is_quick(is_nfc_quick(text.chars())),
            Self::CompatiblyComposed => is_quick(is_nfkc_quick(text.chars())),
            Self::Decomposed | Self::CompatiblyDecomposed => text.is_ascii(),
        };
        if is_same {
            return;
        }
        aligned.edit(|editor| {
            let starts = editor.old.char_indices().filter(|(_, c)| self.starts(*c));
            let mut ends: Vec<usize> = starts.map(|(place, _)| place).collect();
            ends.push(editor.old.len());
            let mut start = 0;
            for end in ends {
                let part = editor.old.get(start..end).unwrap_or_default();
                let normal = self.of(part);
                match normal == part {
                    true => editor.keep(end),
                    false => editor.replace(end, &normal),
                }
                start = end;
            }
        });
    }

    /// Whether the form of a text that starts with this character does not depend on the text before.
    fn starts(self, character: char) -> bool {
        let alone = std::iter::once(character);
        let (first, is_composed) = match self {
            Self::Composed => (alone.nfd().next(), true),
            Self::Decomposed => (alone.nfd().next(), false),
            Self::CompatiblyComposed => (alone.nfkd().next(), true),
            Self::CompatiblyDecomposed => (alone.nfkd().next(), false),
        };
        first.is_none_or(|first| {
            let may_compose = || is_nfc_quick(std::iter::once(first)) != IsNormalized::Yes;
            canonical_combining_class(first) == 0 && !(is_composed && may_compose())
        })
    }

    fn of(self, text: &str) -> String {
        match self {
            Self::Composed => text.nfc().collect(),
            Self::Decomposed => text.nfd().collect(),
            Self::CompatiblyComposed => text.nfkc().collect(),
            Self::CompatiblyDecomposed => text.nfkd().collect(),
        }
    }
}

impl Bert {
    fn apply(self, aligned: &mut Aligned<'_>) {
        if self.cleans {
            aligned.edit_characters(|c| match c {
                '\t' | '\n' | '\r' => Some(Cow::Borrowed(" ")),
                '\0' | char::REPLACEMENT_CHARACTER => Some(Cow::Borrowed("")),
                c if OTHERS.contains(c) => Some(Cow::Borrowed("")),
                ' ' => None,
                c => c.is_whitespace().then_some(Cow::Borrowed(" ")),
            });
        }
        if self.spaces_ideographs && !aligned.text().is_ascii() {
            aligned.edit_characters(|c| is_ideograph(c).then(|| Cow::Owned(format!(" {c} "))));
        }
        if self.strips_accents {
            Form::Decomposed.apply(aligned);
            strip_accents(aligned, &NONSPACING_MARKS);
        }
        if self.lowers {
            lower(aligned);
        }
    }
}

/// Whether a character is in one of the blocks that BERT's own tokenizer names.
fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character), 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df
        | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f | 0x2b920..=0x2ceaf | 0xf900..=0xfaff
        | 0x2f800..=0x2fa1f)
}

#[cfg(test)]
mod tests {
    use weighbridge::json::json;

    use super::*;

    fn normalized(json: Json, text: &str) -> String {
        let step = Normalizer::of(&json).expect("a step");
        let mut aligned = Aligned::new(text, 0..text.len(), true);
        step.apply(&mut aligned).expect("a text");
        aligned.text().to_owned()
    }

    /// Parts of a text have the forms that they have within the whole text.
    #[test]
    fn forms_are_those_of_the_whole_text() {
        let texts = [
            "e\u{301}\u{323} a\u{323}\u{301}",
            "\u{1112}\u{1161}\u{11ab}\u{ac00}\u{11a8}",
            "\u{f71}\u{f72} \u{f40}\u{f73}\u{f71} \u{344}",
            "ﬁ \u{2126} \u{212b} ½ \u{ff76}\u{ff9e} \u{3f4}",
            "\u{9c7}\u{9be} \u{9c7}\u{9d7} \u{1100}\u{1161}\u{3164}\u{ffa1}",
        ];
        for text in texts {
            assert_eq!(normalized(json!({"type": "NFC"}), text), text.nfc().collect::<String>());
            assert_eq!(normalized(json!({"type": "NFD"}), text), text.nfd().collect::<String>());
            assert_eq!(normalized(json!({"type": "NFKC"}), text), text.nfkc().collect::<String>());
            assert_eq!(normalized(json!({"type": "NFKD"}), text), text.nfkd().collect::<String>());
        }
    }

    /// The results are those of Hugging Face's tokenizers 0.23.
    #[test]
    fn bert_drops_marks_without_width_alone() {
        let bert = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true});
        assert_eq!(normalized(bert.clone(), "नमस्ते"), "नमसत");
        assert_eq!(normalized(bert.clone(), "दुनिया"), "दनिया");
        assert_eq!(normalized(bert.clone(), "\u{e000} x\u{ad}y\u{600}"), " xy");
        assert_eq!(normalized(bert.clone(), "a\u{20dd}É\u{3000}山"), "a\u{20dd}e  山 ");
        assert_eq!(normalized(bert, "ΟΔΟΣ"), "οδοσ");
    }

    #[test]
    fn spaces_around_a_text_are_dropped() {
        let strip = |left: bool, right: bool| json!({"type": "Strip", "strip_left": left, "strip_right": right});
        assert_eq!(normalized(strip(true, true), " a b "), "a b");
        assert_eq!(normalized(strip(false, true), " a b "), " a b");
        assert_eq!(normalized(strip(true, false), "  "), "");
        let replace = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
        assert_eq!(normalized(replace, "a   b  c d"), "a b c d");
    }
}
