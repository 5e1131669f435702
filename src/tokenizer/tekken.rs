//! Mistral's `tekken.json`, in the terms of `tokenizer.json`.
//!
//! It lists the bytes of each token by rank. Control tokens come before the others.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::json::{end, id, is_null, keep, list, object, start};
use super::ranks::{AddedToken, BYTES, RankedTokens};
use super::vocabulary::push;
use crate::error::{Error, Result};
use crate::json::{Json, Map, Scanner};
use crate::limits::Limits;

/// The control tokens of files that list none, of which the others are `<SPECIAL_20>` and so on (mistral_common 1.13).
const CONTROL: [&str; 20] = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
];

/// The content of a file.
#[derive(Default)]
struct Tekken {
    config: Map<String, Json>,
    /// The bytes of each token, by rank.
    tokens: Vec<Vec<u8>>,
    control: Vec<String>,
}

/// The `tokenizer.json` that has the tokens and merges of a `tekken.json`.
///
/// # Errors
///
/// `Malformed` if the file breaks its format; `LimitExceeded`.
pub(super) fn tokenizer_json(bytes: &[u8], limits: &Limits) -> Result<Vec<u8>> {
    let mut scanner = start(bytes)?;
    let mut file = Tekken::default();
    let mut parts = Map::new();
    object(&mut scanner, |scanner, key| match &*key {
        b"config" => keep(scanner, &key, &mut parts, limits),
        b"vocab" => list(scanner, |scanner| file.add_token(scanner, limits)),
        b"special_tokens" if !is_null(scanner) => {
            list(scanner, |scanner| file.add_control(scanner))
        }
        b"special_tokens" => Ok(()),
        _ => scanner.skip_value(),
    })?;
    end(&mut scanner)?;
    if let Some(Json::Object(config)) = parts.remove("config") {
        file.config = config;
    }
    file.ranked().map(|ranked| ranked.tokenizer_json())
}

impl Tekken {
    fn add_token(&mut self, scanner: &mut Scanner<'_>, limits: &Limits) -> Result<()> {
        let (mut rank, mut token) = (None, None);
        object(scanner, |scanner, key| {
            match &*key {
                b"rank" => rank = Some(id(scanner)?),
                b"token_bytes" => {
                    let text = scanner.string()?;
                    let bytes = BASE64_STANDARD.decode(scanner.unescape(&text)?);
                    let fault =
                        |error| scanner.error(format!("token_bytes is not base64: {error}"));
                    token = Some(bytes.map_err(fault)?);
                }
                _ => scanner.skip_value()?,
            }
            Ok(())
        })?;
        let due = self.tokens.len();
        match (rank, token) {
            (Some(rank), Some(token)) if rank as usize == due && token.len() <= BYTES => {
                push(&mut self.tokens, token, limits)
            }
            (Some(rank), Some(token)) => Err(scanner.error(format!(
                "token {rank} of {} bytes, but token {due} of at most {BYTES} is required here",
                token.len()
            ))),
            _ => Err(scanner.error("this token has no rank or no token_bytes")),
        }
    }

    fn add_control(&mut self, scanner: &mut Scanner<'_>) -> Result<()> {
        let (mut rank, mut text) = (None, None);
        object(scanner, |scanner, key| {
            match &*key {
                b"rank" => rank = Some(id(scanner)?),
                b"token_str" => {
                    let spelled = scanner.string()?;
                    let spelled = scanner.unescape(&spelled)?.into_owned();
                    text = String::from_utf8(spelled).ok();
                }
                _ => scanner.skip_value()?,
            }
            Ok(())
        })?;
        let due = self.control.len();
        match (rank, text) {
            (Some(rank), Some(text)) if rank as usize == due => {
                self.control.push(text);
                Ok(())
            }
            _ => Err(scanner
                .error(format!("this special token is not number {due}, or has no token_str"))),
        }
    }

    fn number(&self, key: &str) -> Result<usize> {
        let number = self.config.get(key).and_then(Json::as_u64);
        let number = number.and_then(|number| usize::try_from(number).ok());
        number
            .ok_or_else(|| Error::malformed("a number is required").in_key(format!("config.{key}")))
    }

    /// The texts of all control tokens.
    fn controls(&self, count: usize) -> Vec<String> {
        let stated: Vec<String> = match self.control.is_empty() {
            true => CONTROL.map(str::to_owned).to_vec(),
            false => self.control.clone(),
        };
        let more = (stated.len()..count).map(|number| format!("<SPECIAL_{number}>"));
        stated.into_iter().chain(more).take(count).collect()
    }

    fn ranked(&self) -> Result<RankedTokens<'_>> {
        // The control tokens that are not listed are counted by the file alone.
        let (size, first) =
            (self.number("default_vocab_size")?, self.number("default_num_special_tokens")?);
        let count = size.checked_sub(first).filter(|count| *count <= self.tokens.len());
        let tokens = count.and_then(|count| self.tokens.get(..count)).ok_or_else(|| {
            let fault = format!(
                "{size} tokens of which {first} are special, but vocab has {}",
                self.tokens.len()
            );
            Error::malformed(fault).in_key("config.default_vocab_size")
        })?;
        let added = (0..).zip(self.controls(first));
        Ok(RankedTokens {
            pattern: self.config.get("pattern").cloned().unwrap_or(Json::Null),
            composed: false,
            first,
            tokens,
            added: added.map(|(id, text)| AddedToken { id, text, special: true }).collect(),
            start: Some("<s>"),
        })
    }
}
