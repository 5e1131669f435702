//! Mistral's `tekken.json`, in the terms of `tokenizer.json`.
//!
//! It lists the bytes of each token in the order in which they are merged, as tiktoken does: of two neighbors, those
//! are merged first whose token has the lower rank. Control tokens come before the others.

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::byte_letters;
use super::json::{end, id, is_null, keep, list, object, start};
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

/// The longest token that is taken apart. Those of Mistral have at most 78 bytes.
const BYTES: usize = 1024;

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
    file.written().map(String::into_bytes)
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

    fn written(&self) -> Result<String> {
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
        let pattern = self.config.get("pattern").cloned().unwrap_or(Json::Null);
        let controls = self.controls(first);
        let mut letters = ['\0'; 256];
        for (letter, byte) in byte_letters() {
            if let Some(place) = letters.get_mut(usize::from(byte)) {
                *place = letter;
            }
        }
        let spelled = |bytes: &[u8]| -> Json {
            let letter = |byte: &u8| letters.get(usize::from(*byte)).copied();
            bytes.iter().filter_map(letter).collect::<String>().into()
        };
        let mut out = String::from("{\"added_tokens\":[");
        for (number, text) in controls.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let text = Json::from(text.clone());
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "{comma}{{\"id\":{number},\"content\":{text},\"single_word\":false,\"lstrip\":false,\
                 \"rstrip\":false,\"normalized\":false,\"special\":true}}"
            );
        }
        let bytes = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}"#;
        let _ = write!(
            out,
            "],\"normalizer\":null,\"pre_tokenizer\":{{\"type\":\"Sequence\",\"pretokenizers\":[{{\"type\":\"Split\",\
             \"pattern\":{{\"Regex\":{pattern}}},\"behavior\":\"Isolated\",\"invert\":false}},{bytes}]}},\
             \"post_processor\":{},\"decoder\":{bytes},\
             \"model\":{{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{{",
            starts(&controls)
        );
        for (number, text) in controls.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}:{number}", Json::from(text.clone()));
        }
        for (number, token) in (first..).zip(tokens) {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}:{number}", spelled(token));
        }
        out.push_str("},\"merges\":[");
        for (number, (left, right)) in merges(tokens).into_iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}[{},{}]", spelled(left), spelled(right));
        }
        out.push_str("]}}");
        Ok(out)
    }
}

/// The step of `tokenizer.json` that puts the start token before a text.
fn starts(controls: &[String]) -> Json {
    let Some(number) = controls.iter().position(|text| text == "<s>") else { return Json::Null };
    let text = r#"{"type":"TemplateProcessing",
        "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
        "pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                {"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}],
        "special_tokens":{"<s>":{"id":"<s>","ids":[ID],"tokens":["<s>"]}}}"#;
    Json::parse(text.replace("ID", &number.to_string()).as_bytes()).unwrap_or(Json::Null)
}

/// All pairs of tokens that are a token together, in the order of its rank.
fn merges(tokens: &[Vec<u8>]) -> Vec<(&[u8], &[u8])> {
    let ranks: HashMap<&[u8], usize> =
        tokens.iter().enumerate().map(|(rank, token)| (token.as_slice(), rank)).collect();
    let mut merges = Vec::new();
    for token in tokens {
        let mut pairs: Vec<(usize, usize, &[u8], &[u8])> = (1..token.len())
            .filter_map(|at| {
                let (left, right) = token.split_at_checked(at)?;
                Some((*ranks.get(left)?, *ranks.get(right)?, left, right))
            })
            .collect();
        pairs.sort_unstable();
        merges.extend(pairs.into_iter().map(|(.., left, right)| (left, right)));
    }
    merges
}
