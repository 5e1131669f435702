//! Pre-tokenizers, which split text before its pieces become tokens: llama.cpp's names, and the
//! equivalent steps of a `tokenizer.json`.
//!
//! The names and their meaning are llama.cpp's (`src/llama-vocab.cpp`), the steps those of the
//! models' own `tokenizer.json`. llama.cpp's converter identifies a pre-tokenizer by the tokens of
//! a test text. This module compares the steps instead; if several names have the same steps, the
//! family decides. The table is not split by family, because names stand for vocabularies.

use crate::arch::family;
use crate::json::{Json, json};
use crate::tokenizer::{KIMI, QWEN as QWEN2};

/// A step, applied to the result of the previous one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Each match of a pattern becomes a separate piece.
    Split(&'static str),
    /// Digits become separate pieces: each digit, or each run of digits.
    Digits(bool),
    /// Each run of punctuation becomes a separate piece.
    Punctuation,
    /// GPT-2's pattern, which is built into the step that maps bytes to letters.
    Words,
}

/// A pre-tokenizer.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    /// `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    /// Other names with the same steps.
    also: &'static [&'static str],
    /// The steps before bytes are mapped to letters.
    steps: &'static [Step],
    /// Whether text is first normalized to Unicode's form C.
    pub(super) composed: bool,
    /// Whether a piece that is itself a token is used as it is, without merges.
    pub(super) ignore_merges: bool,
}

use Step::{Digits, Punctuation, Split, Words};

const GPT4: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";

const IDEOGRAPHS: Step = Split("[一-龥ࠀ-一가-퟿]+");

const DEEPSEEK_LLM: &[Step] = &[
    Split(r"[\r\n]"),
    // Letters of scripts with two cases. Those that normalization would change are escaped.
    Split(
        "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u{1f7d}ᾀ-ᾴᾶ-ᾼ\u{1fbe}ῂ-ῄῆ-ῌῐ-\u{1fd3}ῖ-\u{1fdb}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u{2126}ℨ\u{212a}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    ),
    Split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
    Split(r"\s+$"),
    IDEOGRAPHS,
    Digits(true),
];
const DEEPSEEK_CODER: &[Step] =
    &[Split(r"[\r\n]"), Split(r"\s?\p{L}+"), Split(r"\s?\p{P}+"), IDEOGRAPHS, Digits(true)];
const DEEPSEEK_V3: &[Step] = &[
    Split(r"\p{N}{1,3}"),
    Split("[一-龥぀-ゟ゠-ヿ]+"),
    Split(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
    ),
];
const FALCON: &[Step] = &[Punctuation, Words, Digits(false), Split("[0-9][0-9][0-9]")];
/// llama.cpp's default, for files that do not name a pre-tokenizer.
const USUAL: &[Step] =
    &[Split(r"[\p{P}\$\+<=>\^~\|]+"), Words, Split(r"\p{N}+"), Split("[0-9][0-9][0-9]")];
const EACH_DIGIT: &[Step] = &[Digits(true), Words];

/// All known pre-tokenizers. Of several with the same steps, the first applies unless the
/// architecture decides.
#[rustfmt::skip]
static PRES: &[PreTokenizer] = &[
    PreTokenizer { name: "llama-bpe", also: &["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        steps: &[Split(GPT4)], composed: false, ignore_merges: true },
    PreTokenizer { name: "glm4", also: &["glm5"],
        steps: &[Split(GPT4)], composed: false, ignore_merges: true },
    PreTokenizer { name: "chatglm-bpe", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    PreTokenizer { name: "dbrx", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    PreTokenizer { name: "smaug-bpe", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    PreTokenizer { name: "qwen2", also: &["deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        steps: &[Split(QWEN2)], composed: true, ignore_merges: false },
    PreTokenizer { name: "kimi-k2", also: &[],
        steps: &[Split(KIMI)], composed: false, ignore_merges: false },
    PreTokenizer { name: "qwen35", also: &[],
        steps: &[Split(QWEN35)], composed: true, ignore_merges: false },
    PreTokenizer { name: "gpt-4o", also: &["llama4", "kanana2", "talkie", "minimax-m2"],
        steps: &[Split(GPT4O)], composed: false, ignore_merges: false },
    PreTokenizer { name: "tekken", also: &[],
        steps: &[Split(TEKKEN)], composed: false, ignore_merges: true },
    PreTokenizer { name: "seed-coder", also: &[],
        steps: &[Split(SEED_CODER)], composed: false, ignore_merges: false },
    PreTokenizer { name: "deepseek-llm", also: &[],
        steps: DEEPSEEK_LLM, composed: false, ignore_merges: false },
    PreTokenizer { name: "deepseek-coder", also: &[],
        steps: DEEPSEEK_CODER, composed: false, ignore_merges: false },
    PreTokenizer { name: "deepseek-v3", also: &["hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: DEEPSEEK_V3, composed: false, ignore_merges: false },
    PreTokenizer { name: "falcon", also: &[],
        steps: FALCON, composed: false, ignore_merges: false },
    PreTokenizer { name: "smollm", also: &["codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    PreTokenizer { name: "starcoder", also: &[],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    PreTokenizer { name: "refact", also: &[],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    PreTokenizer { name: "command-r", also: &[],
        steps: EACH_DIGIT, composed: true, ignore_merges: false },
    PreTokenizer { name: "gpt-2", also: &["phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "exaone4", "jais", "trillion", "granite-docling"],
        steps: &[Words], composed: false, ignore_merges: false },
    PreTokenizer { name: "olmo", also: &["mpt"],
        steps: &[Words], composed: true, ignore_merges: false },
    PreTokenizer { name: "roberta-bpe", also: &[],
        steps: &[Words], composed: false, ignore_merges: false },
    PreTokenizer { name: "default", also: &[],
        steps: USUAL, composed: false, ignore_merges: false },
];

/// The pre-tokenizer with this name.
pub(super) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    PRES.iter().find(|pre| pre.name == name || pre.also.contains(&name))
}

/// The pre-tokenizer with the steps of this `tokenizer.json`, if there is one. Of several, one that
/// the family uses (`own`) takes precedence.
pub(super) fn with_steps(
    pre_tokenizer: &Json,
    ignore_merges: bool,
    own: &[&str],
) -> Option<&'static PreTokenizer> {
    let steps = flat(pre_tokenizer)?;
    let same = |pre: &&PreTokenizer| {
        let own: Vec<String> = pre.steps.iter().map(|step| step.comparable()).collect();
        own == steps
    };
    let rows = || PRES.iter().filter(same);
    let own = |pre: &&PreTokenizer| own.contains(&pre.name);
    let of_a_family =
        |name| family::variants().any(|variant| variant.tokenizer.values("pre").contains(&name));
    let free = |pre: &&PreTokenizer| !of_a_family(pre.name);
    let alike = |pre: &&PreTokenizer| pre.ignore_merges == ignore_merges;
    rows()
        .filter(own)
        .find(alike)
        .or_else(|| rows().find(own))
        .or_else(|| rows().filter(free).find(alike))
        .or_else(|| rows().find(free))
        .or_else(|| rows().next())
}

impl Step {
    /// The form of a step that is compared.
    fn comparable(self) -> String {
        match self {
            Split(pattern) => format!("split {pattern}"),
            Digits(each) => format!("digits {each}"),
            Punctuation => "punctuation".to_owned(),
            Words => "words".to_owned(),
        }
    }

    fn json(self) -> Json {
        match self {
            Split(pattern) => {
                json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
            }
            Digits(each) => json!({"type": "Digits", "individual_digits": each}),
            Punctuation => json!({"type": "Punctuation", "behavior": "Contiguous"}),
            Words => byte_level(true),
        }
    }
}

/// The step that maps bytes to letters.
pub(super) fn byte_level(words: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words})
}

impl PreTokenizer {
    /// The steps as `tokenizer.json` states them.
    pub(super) fn json(&self) -> Json {
        if let [Words] = self.steps {
            return byte_level(true);
        }
        let mut steps: Vec<Json> = self.steps.iter().map(|step| step.json()).collect();
        if !self.steps.iter().any(|step| matches!(step, Words)) {
            steps.push(byte_level(false));
        }
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// The steps of a `tokenizer.json`, as [`Step::comparable`] formats them. `None` if a step has another
/// type.
fn flat(json: &Json) -> Option<Vec<String>> {
    let mut steps = Vec::new();
    let list = match json.get("pretokenizers") {
        Some(list) => list.as_array()?.iter().collect(),
        None => vec![json],
    };
    let mut bytes = false;
    for step in list {
        let is = |key: &str| step.get(key).and_then(Json::as_bool);
        match step.get("type")?.as_str()? {
            "Split" => {
                let pattern = step.get("pattern")?.get("Regex")?.as_str()?;
                if step.get("behavior")?.as_str()? != "Isolated" || is("invert") == Some(true) {
                    return None;
                }
                // Some files contain the characters themselves, others escapes.
                let pattern = pattern.replace('\r', r"\r").replace('\n', r"\n");
                steps.push(format!("split {pattern}"));
            }
            "Digits" => steps.push(Digits(is("individual_digits")?).comparable()),
            "Punctuation" if step.get("behavior")?.as_str()? == "Contiguous" => {
                steps.push(Punctuation.comparable());
            }
            "ByteLevel" => {
                bytes = true;
                if is("use_regex") != Some(false) {
                    steps.push(Words.comparable());
                }
            }
            _ => return None,
        }
    }
    bytes.then_some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_find_their_own_names() {
        for pre in PRES {
            let mut lists = family::variants().map(|variant| variant.tokenizer.values("pre"));
            let own = lists.find(|own| own.contains(&pre.name)).unwrap_or(&[]);
            let found = with_steps(&pre.json(), pre.ignore_merges, own);
            assert_eq!(found.map(|pre| pre.name), Some(pre.name));
            for name in pre.also {
                assert_eq!(by_name(name).map(|pre| pre.name), Some(pre.name), "{name}");
            }
        }
    }

    #[test]
    fn other_steps_have_no_name() {
        let metaspace = json!({"type": "Metaspace", "replacement": "▁"});
        assert!(with_steps(&metaspace, false, &[]).is_none());
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let sequence =
            |first: Json| json!({"type": "Sequence", "pretokenizers": [first, byte_level(false)]});
        assert!(with_steps(&sequence(split("x+")), false, &[]).is_none());
        let escaped = sequence(split(&QWEN2.replace(r"\r\n", "\r\n")));
        assert_eq!(with_steps(&escaped, false, &[]).map(|pre| pre.name), Some("qwen2"));
    }
}
