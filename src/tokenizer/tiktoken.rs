//! Files of tiktoken, which list the bytes of each token and its rank in lines, in the terms of `tokenizer.json`.
//!
//! The files state no pattern and no special tokens: these are in the code of the models' tokenizers.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::ranks::{AddedToken, BYTES, RankedTokens};
use super::vocabulary::push;
use crate::bytes::Text;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::Limits;

/// The pattern of Qwen's models (`tokenization_qwen.py` of Qwen-7B).
pub(crate) const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The pattern of Kimi's models, which splits Chinese characters from other letters (`tokenization_kimi.py` of Kimi-K2-Instruct).
pub(crate) const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What the code of a tokenizer adds to its file.
pub(super) struct TiktokenFile {
    pub(super) name: &'static str,
    pattern: &'static str,
    /// Whether a text is first normalized to Unicode's form C.
    composed: bool,
    /// The special tokens that follow those of the file: first these texts, then texts with numbers.
    special: &'static [&'static str],
    numbered: Numbered,
}

/// Special tokens whose texts have a number.
struct Numbered {
    /// The text before the number; `|>` follows it.
    before: &'static str,
    count: usize,
    /// Whether the number in a text is that of the token. Otherwise the texts are counted from 0.
    own: bool,
}

pub(super) const FILES: [TiktokenFile; 2] = [
    TiktokenFile {
        name: "tiktoken.model",
        pattern: KIMI,
        composed: false,
        special: &[],
        numbered: Numbered { before: "<|reserved_token_", count: 256, own: true },
    },
    TiktokenFile {
        name: "qwen.tiktoken",
        pattern: QWEN,
        composed: true,
        special: &["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        numbered: Numbered { before: "<|extra_", count: 205, own: false },
    },
];

impl TiktokenFile {
    /// The `tokenizer.json` that has the tokens and merges of a file. `config` is `tokenizer_config.json`, whose added tokens count
    /// first; the code's own are left out beyond the `rows` of the embedding.
    ///
    /// # Errors
    ///
    /// `Malformed` if a line is not a token and its rank; `LimitExceeded`.
    pub(super) fn tokenizer_json(
        &self,
        bytes: &[u8],
        config: Option<&Json>,
        rows: Option<u64>,
        limits: &Limits,
    ) -> Result<Vec<u8>> {
        let tokens = tokens(bytes, limits)?;
        let listed = config.and_then(|json| json.get("added_tokens_decoder")?.as_object());
        let listed = listed.into_iter().flatten().filter_map(|(id, token)| {
            let special = token.get("special").and_then(Json::as_bool) == Some(true);
            Some((id.parse().ok()?, (token.get("content")?.as_str()?.to_owned(), special)))
        });
        let mut added: BTreeMap<usize, (String, bool)> =
            listed.filter(|(id, _)| *id >= tokens.len()).collect();
        let has_row = |id: usize| rows.is_none_or(|rows| (id as u64) < rows);
        let own = (tokens.len()..).zip(self.special_texts(tokens.len()));
        for (id, text) in own.filter(|(id, _)| has_row(*id)) {
            added.entry(id).or_insert((text, true));
        }
        let added = added.into_iter().map(|(id, (text, special))| AddedToken { id, text, special });
        let ranked = RankedTokens {
            pattern: self.pattern.into(),
            composed: self.composed,
            tokens: &tokens,
            first: 0,
            added: added.collect(),
            start: None,
        };
        Ok(ranked.tokenizer_json())
    }

    /// The texts of the special tokens, of which the first has the number `first`.
    fn special_texts(&self, first: usize) -> impl Iterator<Item = String> {
        let Numbered { before, count, own } = self.numbered;
        let from = if own { first } else { 0 };
        let numbers = (from..).take(count).map(move |number| format!("{before}{number}|>"));
        self.special.iter().map(|text| (*text).to_owned()).chain(numbers)
    }
}

/// The bytes of each token by rank.
fn tokens(bytes: &[u8], limits: &Limits) -> Result<Vec<Vec<u8>>> {
    let mut tokens = Vec::new();
    let lines = (1..).zip(bytes.split(|&byte| byte == b'\n'));
    for (number, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let fault = || {
            let line = Text::new(line);
            let due = tokens.len();
            Error::malformed(format!(
                "line {number} is \"{}\", but the bytes of a token in base64, at most {BYTES}, and its rank {due} are required",
                line.brief()
            ))
        };
        let mut words = line.trim_ascii().splitn(2, |&byte| byte == b' ');
        let token = words.next().and_then(|word| BASE64_STANDARD.decode(word).ok());
        let token = token.filter(|token| token.len() <= BYTES).ok_or_else(fault)?;
        let rank = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        if rank != Some(tokens.len()) {
            return Err(fault());
        }
        push(&mut tokens, token, limits)?;
    }
    Ok(tokens)
}
