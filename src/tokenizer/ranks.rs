//! Vocabularies that list the bytes of their tokens by rank, as tiktoken does, in the terms of `tokenizer.json`: of two
//! neighbors, those are merged first whose token has the lower rank.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::byte_letters;
use crate::json::Json;

/// The longest token that is taken apart. Those of Mistral have at most 78 bytes.
pub(super) const BYTES: usize = 1024;

/// A token that is matched in a text before it is split.
pub(super) struct AddedToken {
    pub(super) id: usize,
    pub(super) text: String,
    pub(super) special: bool,
}

/// A vocabulary.
pub(super) struct RankedTokens<'a> {
    /// The regular expression by which a text is split.
    pub(super) pattern: Json,
    /// Whether a text is first normalized to Unicode's form C.
    pub(super) composed: bool,
    /// The bytes of the tokens by rank, and the number of the first.
    pub(super) tokens: &'a [Vec<u8>],
    pub(super) first: usize,
    pub(super) added: Vec<AddedToken>,
    /// The added token that starts a text, if there is one of this name.
    pub(super) start: Option<&'a str>,
}

impl RankedTokens<'_> {
    /// The `tokenizer.json` that has these tokens, and all merges that lead to one of them.
    pub(super) fn tokenizer_json(&self) -> Vec<u8> {
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
        for (number, AddedToken { id, text, special }) in self.added.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let text = Json::from(text.clone());
            // Writing to a string cannot fail.
            let _ = write!(
                out,
                "{comma}{{\"id\":{id},\"content\":{text},\"single_word\":false,\"lstrip\":false,\
                 \"rstrip\":false,\"normalized\":false,\"special\":{special}}}"
            );
        }
        let bytes = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}"#;
        let normalizer = if self.composed { r#"{"type":"NFC"}"# } else { "null" };
        let pattern = &self.pattern;
        let _ = write!(
            out,
            "],\"normalizer\":{normalizer},\"pre_tokenizer\":{{\"type\":\"Sequence\",\"pretokenizers\":[{{\"type\":\"Split\",\
             \"pattern\":{{\"Regex\":{pattern}}},\"behavior\":\"Isolated\",\"invert\":false}},{bytes}]}},\
             \"post_processor\":{},\"decoder\":{bytes},\
             \"model\":{{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{{",
            self.post_processor()
        );
        let added = self.added.iter().map(|token| (token.id, token.text.clone().into()));
        let tokens = (self.first..).zip(self.tokens).map(|(id, token)| (id, spelled(token)));
        for (number, (id, text)) in added.chain(tokens).enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{text}:{id}");
        }
        out.push_str("},\"merges\":[");
        for (number, (left, right)) in self.merges().into_iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            let _ = write!(out, "{comma}[{},{}]", spelled(left), spelled(right));
        }
        out.push_str("]}}");
        out.into_bytes()
    }

    /// The step of `tokenizer.json` that puts the start token before a text.
    fn post_processor(&self) -> Json {
        let is_start = |token: &&AddedToken| Some(token.text.as_str()) == self.start;
        let Some(AddedToken { id, text, .. }) = self.added.iter().find(is_start) else {
            return Json::Null;
        };
        let steps = r#"{"type":"TemplateProcessing",
            "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
            "pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},
                    {"SpecialToken":{"id":"<s>","type_id":1}},{"Sequence":{"id":"B","type_id":1}}],
            "special_tokens":{"<s>":{"id":"<s>","ids":[ID],"tokens":["<s>"]}}}"#;
        let steps = steps.replace("ID", &id.to_string()).replace("<s>", text);
        Json::parse(steps.as_bytes()).unwrap_or(Json::Null)
    }

    /// All pairs of tokens that are a token together, in the order of its rank.
    fn merges(&self) -> Vec<(&[u8], &[u8])> {
        let by_rank = self.tokens.iter().enumerate();
        let ranks: HashMap<&[u8], usize> =
            by_rank.map(|(rank, token)| (token.as_slice(), rank)).collect();
        let mut merges = Vec::new();
        for token in self.tokens {
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
}
