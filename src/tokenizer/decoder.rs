//! Text from tokens: the steps of the `decoder` of `tokenizer.json`.
//!
//! GGUF and SentencePiece's files state no decoder. The one of their kind of tokenizer is in
//! [`usual`], in the same form, so the text of a token does not depend on the container.

use std::collections::HashMap;

use super::kinds::{BLOCK, TokenKind, TokenizerKind};
use super::tokens::{Tokenizer, Tokens};
use super::vocabulary::Vocabulary;
use crate::error::{Error, Result};
use crate::json::{Json, json};

/// The decoder of a kind of tokenizer, as `tokenizer.json` states it. `adds_space` says whether a
/// space is put before a text, which the decoder then removes.
pub(crate) fn usual(kind: &TokenizerKind, adds_space: bool, has_bytes: bool) -> Json {
    match kind {
        TokenizerKind::Bpe => json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
        }),
        TokenizerKind::WordPiece => json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        TokenizerKind::Unigram if !has_bytes => json!({
            "type": "Metaspace", "replacement": BLOCK, "split": true,
            "prepend_scheme": if adds_space { "always" } else { "never" },
        }),
        TokenizerKind::SentencePiece | TokenizerKind::Unigram => from_blocks(adds_space),
        TokenizerKind::Other(_) => from_blocks(false),
    }
}

/// GPT-2's letter for each byte: the byte's own character if it is visible in Latin-1, else one from
/// U+0100 on.
pub fn byte_letters() -> impl Iterator<Item = (char, u8)> {
    let visible = |byte: u8| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256u32;
    (0..=255u8).filter_map(move |byte| {
        let code = if visible(byte) {
            u32::from(byte)
        } else {
            next = next.saturating_add(1);
            next.saturating_sub(1)
        };
        char::from_u32(code).map(|letter| (letter, byte))
    })
}

/// The text of tokens: decodes them by the steps of the tokenizer's decoder.
///
/// Special and unused tokens have no text. Bytes that are not UTF-8 become U+FFFD. An added token has the text that the file
/// states, where `tokenizers` since 0.23 gives what the normalizer makes of it, and does not skip it then.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    steps: Vec<Step>,
    letters: HashMap<char, u8>,
    tokens: Vec<Spelling>,
}

/// The number of tokens in a vocabulary, at most.
const MOST: usize = 1 << 24;

impl Tokenizer<'_> {
    /// The decoder of tokens to text.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a decoder in `tokenizer.json` with an unknown step, or one that replaces by a
    /// regular expression; `Malformed` for a step without its settings.
    pub fn detokenizer(&self) -> Result<Detokenizer> {
        Detokenizer::new(self).map_err(|error| error.in_key(&self.kind.source))
    }

    /// The decoder as `tokenizer.json` states it; for other files, the usual one of the kind.
    pub(crate) fn decoder(&self) -> Json {
        if let Tokens::File(Vocabulary { decoder: Some(decoder), .. }) = &self.tokens {
            return decoder.clone();
        }
        let has_bytes = || self.tokens().any(|token| token.kind == Some(TokenKind::Byte));
        let has_bytes = self.kind.value == TokenizerKind::Unigram && has_bytes();
        usual(&self.kind.value, self.adds_space, has_bytes)
    }
}

impl Detokenizer {
    /// Reads the decoder and the tokens of a tokenizer.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a decoder with an unknown step; `Malformed` for a step without its settings.
    pub(crate) fn new(tokenizer: &Tokenizer<'_>) -> Result<Self> {
        let mut steps = Vec::new();
        match tokenizer.decoder() {
            Json::Null => steps.push(Step::Spaces),
            decoder => read(&decoder, &mut steps)?,
        }
        let simple = |step: &Step| matches!(step, Step::Strip { stop: 0, .. });
        for place in 0..steps.len() {
            let streams = steps.iter().skip(place.saturating_add(1)).all(simple);
            if let Some(Step::Fuse { waits }) = steps.get_mut(place) {
                *waits = !streams;
            }
        }
        let is_gguf = matches!(tokenizer.tokens, Tokens::Arrays { .. });
        let marks_starts = is_gguf && tokenizer.kind.value == TokenizerKind::WordPiece;
        let mut tokens: Vec<Spelling> = Vec::new();
        for token in tokenizer.tokens() {
            let place = usize::try_from(token.id).unwrap_or(usize::MAX);
            // Vocabularies list their tokens in order; a number that is left out is no token.
            if place >= tokens.len() && place < MOST {
                tokens.resize(place.saturating_add(1), Spelling::Silent);
            }
            let text = token.text.into_owned();
            let spelling = match token.kind {
                Some(TokenKind::Control | TokenKind::Unused | TokenKind::Unknown) => continue,
                Some(TokenKind::UserDefined) => Spelling::Plain(text),
                _ if marks_starts => Spelling::Encoded(of_word_piece(&text)),
                _ => Spelling::Encoded(text),
            };
            if let Some(slot) = tokens.get_mut(place) {
                *slot = spelling;
            }
        }
        Ok(Self { steps, letters: byte_letters().collect(), tokens })
    }

    /// The text of some tokens.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut stream = self.stream();
        let mut text: String = tokens.iter().map(|token| stream.push(*token)).collect();
        text.push_str(&stream.finish());
        text
    }

    /// Decodes tokens one at a time.
    pub fn stream(&self) -> TextStream<'_> {
        let states = self.steps.iter().map(|_| State::default()).collect();
        TextStream { detokenizer: self, states, bytes: Vec::new() }
    }

    /// The bytes of one token within a text; a character may consist of several tokens. Empty for a
    /// token that the vocabulary does not have.
    pub fn token(&self, token: u32) -> Vec<u8> {
        let Some(mut item) = self.item(token) else { return Vec::new() };
        for step in &self.steps {
            match (step, byte_of(&item.text)) {
                (Step::ByteFallback, Some(byte)) => return vec![byte],
                // What is removed at the start of a text.
                (Step::Strip { .. }, _) => {}
                (Step::Suffix(suffix), _) => item.text = replaced(&item.text, suffix, " "),
                _ => step.map(&mut item, false, &self.letters),
            }
        }
        item.text
    }

    fn item(&self, token: u32) -> Option<Item> {
        let place = usize::try_from(token).ok()?;
        let (text, is_plain) = match self.tokens.get(place)? {
            Spelling::Silent => return None,
            Spelling::Encoded(text) => (text, false),
            Spelling::Plain(text) => (text, true),
        };
        Some(Item { text: text.clone(), is_plain, continues: false })
    }
}

/// Decodes tokens one at a time. Text is held back while a later token can change it: an incomplete
/// character, a run of byte tokens.
#[derive(Debug)]
pub struct TextStream<'d> {
    detokenizer: &'d Detokenizer,
    states: Vec<State>,
    /// The bytes of an incomplete character.
    bytes: Vec<u8>,
}

impl TextStream<'_> {
    /// Adds a token, and returns the text that is now complete.
    pub fn push(&mut self, token: u32) -> String {
        match self.detokenizer.item(token) {
            Some(item) => self.run(0, vec![item]),
            None => String::new(),
        }
    }

    /// Returns the text that was held back.
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        for (place, step) in self.detokenizer.steps.iter().enumerate() {
            let mut rest = Vec::new();
            if let Some(state) = self.states.get_mut(place) {
                step.finish(state, &mut rest);
            }
            text.push_str(&self.run(place.saturating_add(1), rest));
        }
        text.push_str(&self.take(true));
        text
    }

    /// Applies the steps from one on, and returns the complete characters.
    fn run(&mut self, from: usize, mut items: Vec<Item>) -> String {
        let Detokenizer { steps, letters, .. } = self.detokenizer;
        for (step, state) in steps.iter().zip(&mut self.states).skip(from) {
            let mut results = Vec::new();
            for item in items {
                step.push(state, item, letters, &mut results);
            }
            items = results;
        }
        for item in items {
            self.bytes.extend(item.text);
        }
        self.take(false)
    }

    /// Takes the complete characters, or all bytes.
    fn take(&mut self, all: bool) -> String {
        let mut text = String::new();
        while let Err(error) = std::str::from_utf8(&self.bytes) {
            let (valid, rest) = self.bytes.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(valid));
            let skipped = match error.error_len() {
                Some(len) => len,
                None if all => rest.len(),
                None => {
                    self.bytes = rest.to_vec();
                    return text;
                }
            };
            text.push(char::REPLACEMENT_CHARACTER);
            self.bytes = rest.get(skipped..).unwrap_or_default().to_vec();
        }
        text.push_str(&String::from_utf8_lossy(&self.bytes));
        self.bytes.clear();
        text
    }
}

/// A token in a vocabulary.
#[derive(Clone, Debug)]
enum Spelling {
    /// No text.
    Silent,
    /// As the decoder expects it.
    Encoded(Vec<u8>),
    /// Text that is matched as it is, without letters for bytes.
    Plain(Vec<u8>),
}

/// llama.cpp marks tokens that start a word, BERT tokens within a word.
fn of_word_piece(text: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix(BLOCK)) {
        Some(word) => word.as_bytes().to_vec(),
        None => [b"##", text].concat(),
    }
}

/// The text of a token on its way through the steps.
#[derive(Clone, Debug)]
struct Item {
    text: Vec<u8>,
    /// Whether the text has no letters for bytes.
    is_plain: bool,
    /// Whether it continues the item before it, with which it was fused.
    continues: bool,
}

impl Item {
    fn new(text: Vec<u8>) -> Self {
        Self { text, is_plain: false, continues: false }
    }
}

/// A step of a decoder.
#[derive(Clone, Debug)]
enum Step {
    Replace {
        from: String,
        to: String,
    },
    /// `<0x0A>` is a byte. Bytes that are together no UTF-8 become U+FFFD each.
    ByteFallback,
    /// Joins all tokens; `waits` if a later step needs them as one.
    Fuse {
        waits: bool,
    },
    Strip {
        content: String,
        start: usize,
        stop: usize,
    },
    Metaspace {
        replacement: String,
        drops_first: bool,
    },
    ByteLevel,
    WordPiece {
        prefix: String,
        cleanup: bool,
    },
    /// A token ends with the suffix if a space follows it.
    Suffix(String),
    Ctc {
        pad: String,
        delimiter: String,
        cleanup: bool,
    },
    /// Puts a space between tokens, as for a tokenizer without a decoder.
    Spaces,
}

/// The state of a step after the tokens before.
#[derive(Clone, Debug, Default)]
struct State {
    /// Whether there were any.
    has_begun: bool,
    /// The bytes of a run, or the text that waits.
    held: Vec<u8>,
    last: Option<Vec<u8>>,
    /// The number of characters that may still be removed from the start of the current item.
    strips: usize,
}

impl Step {
    fn push(
        &self,
        state: &mut State,
        mut item: Item,
        letters: &HashMap<char, u8>,
        results: &mut Vec<Item>,
    ) {
        let is_first = !std::mem::replace(&mut state.has_begun, true);
        match self {
            Self::ByteFallback => match byte_of(&item.text) {
                Some(byte) => state.held.push(byte),
                None => {
                    self.finish(state, results);
                    results.push(item);
                }
            },
            Self::Fuse { waits: true } => state.held.extend(item.text),
            Self::Fuse { waits: false } => {
                results.push(Item { continues: !is_first, is_plain: false, ..item });
            }
            Self::Strip { content, start, stop } => {
                if !item.continues {
                    state.strips = *start;
                }
                strip_start(&mut item.text, content, &mut state.strips);
                for _ in 0..*stop {
                    if let Some(rest) = item.text.strip_suffix(content.as_bytes()) {
                        item.text.truncate(rest.len());
                    }
                }
                results.push(item);
            }
            Self::Suffix(suffix) => {
                let last = state.last.replace(item.text);
                results.extend(last.map(|last| Item::new(replaced(&last, suffix, " "))));
            }
            Self::Ctc { .. } => {
                if state.last.as_ref() != Some(&item.text) {
                    state.last = Some(item.text.clone());
                    self.map(&mut item, is_first, letters);
                    results.extend(Some(item).filter(|item| !item.text.is_empty()));
                }
            }
            _ => {
                self.map(&mut item, is_first, letters);
                results.push(item);
            }
        }
    }

    /// Changes the text of one token, which depends on no other.
    fn map(&self, item: &mut Item, is_first: bool, letters: &HashMap<char, u8>) {
        let text = &item.text;
        item.text = match self {
            Self::Replace { from, to } => replaced(text, from, to),
            Self::Metaspace { replacement, drops_first } => {
                replaced(text, replacement, if is_first && *drops_first { "" } else { " " })
            }
            Self::ByteLevel if !item.is_plain => of_letters(text, letters),
            Self::WordPiece { prefix, cleanup } => {
                let text = match text.strip_prefix(prefix.as_bytes()) {
                    _ if is_first => text.clone(),
                    Some(rest) => rest.to_vec(),
                    None => [b" ", text.as_slice()].concat(),
                };
                if *cleanup { cleaned(text) } else { text }
            }
            Self::Ctc { pad, delimiter, cleanup } => {
                let text = replaced(text, pad, "");
                if *cleanup { replaced(&cleaned(text), delimiter, " ") } else { text }
            }
            Self::Spaces if !is_first => [b" ", text.as_slice()].concat(),
            _ => return,
        };
    }

    /// Gives what was held back.
    fn finish(&self, state: &mut State, results: &mut Vec<Item>) {
        let held = std::mem::take(&mut state.held);
        match self {
            Self::ByteFallback if std::str::from_utf8(&held).is_err() => {
                let mark = char::REPLACEMENT_CHARACTER.to_string().into_bytes();
                results.extend(held.iter().map(|_| Item::new(mark.clone())));
            }
            Self::ByteFallback | Self::Fuse { .. } if !held.is_empty() => {
                results.push(Item::new(held));
            }
            Self::Suffix(suffix) => {
                let last = state.last.take();
                results.extend(last.map(|last| Item::new(replaced(&last, suffix, ""))));
            }
            _ => {}
        }
    }
}

fn from_blocks(strip: bool) -> Json {
    let mut steps = vec![
        json!({"type": "Replace", "pattern": {"String": BLOCK}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if strip {
        steps.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({"type": "Sequence", "decoders": steps})
}

/// Reads the steps of a decoder.
fn read(decoder: &Json, steps: &mut Vec<Step>) -> Result<()> {
    let name = decoder.get("type").and_then(Json::as_str).unwrap_or_default();
    let missing = |key: &str| {
        let fault = format!("the decoder's step \"{name}\" has no \"{key}\", or not of its type");
        Error::malformed(fault)
    };
    let text = |key: &str| {
        let found = decoder.get(key).and_then(Json::as_str);
        found.map(str::to_owned).ok_or_else(|| missing(key))
    };
    let flag = |key: &str| decoder.get(key).and_then(Json::as_bool);
    let count = |key: &str| {
        let found = decoder.get(key).and_then(Json::as_u64);
        found.and_then(|count| usize::try_from(count).ok()).ok_or_else(|| missing(key))
    };
    steps.push(match name {
        "Sequence" => {
            let inner = decoder.get("decoders").and_then(Json::as_array);
            for step in inner.ok_or_else(|| missing("decoders"))? {
                read(step, steps)?;
            }
            return Ok(());
        }
        "Replace" => {
            let pattern = decoder.get("pattern");
            let literal = pattern.and_then(|pattern| pattern.get("String")).and_then(Json::as_str);
            let from = literal.map(str::to_owned).ok_or_else(|| {
                let found = pattern.unwrap_or(&Json::Null);
                let fault = format!("the decoder replaces {found}, which is no plain text");
                Error::unsupported(fault)
            })?;
            Step::Replace { from, to: text("content")? }
        }
        "ByteFallback" => Step::ByteFallback,
        "Fuse" => Step::Fuse { waits: true },
        "Strip" => {
            Step::Strip { content: text("content")?, start: count("start")?, stop: count("stop")? }
        }
        "Metaspace" => {
            let scheme = decoder.get("prepend_scheme").and_then(Json::as_str);
            // Older files state a flag instead.
            let never = scheme.map_or(flag("add_prefix_space") == Some(false), |is| is == "never");
            Step::Metaspace { replacement: text("replacement")?, drops_first: !never }
        }
        "ByteLevel" => Step::ByteLevel,
        "WordPiece" => {
            Step::WordPiece { prefix: text("prefix")?, cleanup: flag("cleanup").unwrap_or(true) }
        }
        "BPEDecoder" => Step::Suffix(text("suffix")?),
        "CTC" => Step::Ctc {
            pad: text("pad_token")?,
            delimiter: text("word_delimiter_token")?,
            cleanup: flag("cleanup").unwrap_or(true),
        },
        other => return Err(Error::unsupported(format!("the decoder has a step \"{other}\""))),
    });
    Ok(())
}

/// The byte of a token such as `<0x0A>`.
fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.len() == 2)?;
    u8::from_str_radix(digits, 16).ok()
}

fn of_letters(text: &[u8], letters: &HashMap<char, u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(text) else { return text.to_vec() };
    let bytes = text.chars().map(|letter| letters.get(&letter).copied());
    // A token with another character stands for itself.
    bytes.collect::<Option<Vec<u8>>>().unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Replaces a text in valid UTF-8, and in the valid parts of other bytes.
fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    if from.is_empty() {
        return text.to_vec();
    }
    let mut result = Vec::new();
    for chunk in text.utf8_chunks() {
        result.extend(chunk.valid().replace(from, to).into_bytes());
        result.extend(chunk.invalid());
    }
    result
}

fn strip_start(text: &mut Vec<u8>, content: &str, strips: &mut usize) {
    let mut rest = text.as_slice();
    while *strips > 0 {
        match rest.strip_prefix(content.as_bytes()).filter(|_| !content.is_empty()) {
            Some(after) => {
                rest = after;
                *strips = strips.saturating_sub(1);
            }
            // Fused text goes on with the next token.
            None if rest.is_empty() => break,
            None => *strips = 0,
        }
    }
    *text = rest.to_vec();
}

/// Removes the spaces that a split into words put before punctuation and contractions of English.
fn cleaned(text: Vec<u8>) -> Vec<u8> {
    const SPACED: [(&str, &str); 11] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    SPACED.iter().fold(text, |text, (from, to)| replaced(&text, from, to))
}
