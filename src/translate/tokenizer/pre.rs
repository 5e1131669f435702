//! How text is split before its pieces become tokens: llama.cpp's names for it, and the steps of a
//! `tokenizer.json` that they stand for.
//!
//! The names and what tells them apart are llama.cpp's (`src/llama-vocab.cpp`), the steps those of
//! the models' own `tokenizer.json`. llama.cpp's converter finds a name by what the tokenizer makes
//! of a text; here the steps themselves are compared, and where several names have the same steps,
//! the family decides. Names stand for vocabularies and not for families, so the table is here.

use serde_json::{Value as Json, json};

use crate::arch::family;

/// One step, each applied to what the one before it left.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Matches of a pattern stand alone.
    Split(&'static str),
    /// Digits stand alone: each, or each run of them.
    Digits(bool),
    /// Runs of punctuation stand alone.
    Punctuation,
    /// GPT-2's pattern, which the step that makes letters of bytes has with it.
    Words,
}

/// A way to split text.
#[derive(Debug)]
pub(super) struct Pre {
    /// `tokenizer.ggml.pre`.
    pub(super) name: &'static str,
    /// Other names with the same steps.
    also: &'static [&'static str],
    /// The steps before bytes become letters.
    steps: &'static [Step],
    /// Whether text is put into Unicode's normal form C first.
    pub(super) composed: bool,
    /// Whether a piece that is a token as a whole needs no merges.
    pub(super) ignore_merges: bool,
}

use Step::{Digits, Punctuation, Split, Words};

const GPT4: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";

const IDEOGRAPHS: Step = Split("[一-龥ࠀ-一가-퟿]+");

const DEEPSEEK_LLM: &[Step] = &[
    Split(r"[\r\n]"),
    // Letters of scripts with two cases. Those that normalizing would change are escaped.
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
/// What llama.cpp does where a file does not say.
const USUAL: &[Step] =
    &[Split(r"[\p{P}\$\+<=>\^~\|]+"), Words, Split(r"\p{N}+"), Split("[0-9][0-9][0-9]")];
const EACH_DIGIT: &[Step] = &[Digits(true), Words];

/// Every way that is known. Of those with the same steps, the first is taken where no architecture
/// decides.
#[rustfmt::skip]
static PRES: &[Pre] = &[
    Pre { name: "llama-bpe", also: &["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
        steps: &[Split(GPT4)], composed: false, ignore_merges: true },
    Pre { name: "glm4", also: &["glm5"],
        steps: &[Split(GPT4)], composed: false, ignore_merges: true },
    Pre { name: "chatglm-bpe", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    Pre { name: "dbrx", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    Pre { name: "smaug-bpe", also: &[],
        steps: &[Split(GPT4)], composed: false, ignore_merges: false },
    Pre { name: "qwen2", also: &["deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        steps: &[Split(QWEN2)], composed: true, ignore_merges: false },
    Pre { name: "qwen35", also: &[],
        steps: &[Split(QWEN35)], composed: true, ignore_merges: false },
    Pre { name: "gpt-4o", also: &["llama4", "kanana2", "talkie", "minimax-m2"],
        steps: &[Split(GPT4O)], composed: false, ignore_merges: false },
    Pre { name: "tekken", also: &[],
        steps: &[Split(TEKKEN)], composed: false, ignore_merges: true },
    Pre { name: "seed-coder", also: &[],
        steps: &[Split(SEED_CODER)], composed: false, ignore_merges: false },
    Pre { name: "deepseek-llm", also: &[],
        steps: DEEPSEEK_LLM, composed: false, ignore_merges: false },
    Pre { name: "deepseek-coder", also: &[],
        steps: DEEPSEEK_CODER, composed: false, ignore_merges: false },
    Pre { name: "deepseek-v3", also: &["hunyuan-dense", "joyai-llm", "hy_v4"],
        steps: DEEPSEEK_V3, composed: false, ignore_merges: false },
    Pre { name: "falcon", also: &[],
        steps: FALCON, composed: false, ignore_merges: false },
    Pre { name: "smollm", also: &["codeshell", "exaone", "minerva-7b", "mellum2"],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    Pre { name: "starcoder", also: &[],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    Pre { name: "refact", also: &[],
        steps: EACH_DIGIT, composed: false, ignore_merges: false },
    Pre { name: "command-r", also: &[],
        steps: EACH_DIGIT, composed: true, ignore_merges: false },
    Pre { name: "gpt-2", also: &["phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0", "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "exaone4", "jais", "trillion", "granite-docling"],
        steps: &[Words], composed: false, ignore_merges: false },
    Pre { name: "olmo", also: &["mpt"],
        steps: &[Words], composed: true, ignore_merges: false },
    Pre { name: "roberta-bpe", also: &[],
        steps: &[Words], composed: false, ignore_merges: false },
    Pre { name: "default", also: &[],
        steps: USUAL, composed: false, ignore_merges: false },
];

/// The way of that name.
pub(super) fn named(name: &str) -> Option<&'static Pre> {
    PRES.iter().find(|pre| pre.name == name || pre.also.contains(&name))
}

/// The way that the steps of a `tokenizer.json` are, where it is known; of several, one of those
/// that the family has (`own`).
pub(super) fn of_steps(
    pre_tokenizer: &Json,
    ignore_merges: bool,
    own: &[&str],
) -> Option<&'static Pre> {
    let steps = flat(pre_tokenizer)?;
    let same = |pre: &&Pre| {
        let own: Vec<String> = pre.steps.iter().map(|step| step.spelled()).collect();
        own == steps
    };
    let rows = || PRES.iter().filter(same);
    let own = |pre: &&Pre| own.contains(&pre.name);
    let of_a_family =
        |name| family::variants().any(|variant| variant.tokenizer.pre.contains(&name));
    let free = |pre: &&Pre| !of_a_family(pre.name);
    let alike = |pre: &&Pre| pre.ignore_merges == ignore_merges;
    rows()
        .filter(own)
        .find(alike)
        .or_else(|| rows().find(own))
        .or_else(|| rows().filter(free).find(alike))
        .or_else(|| rows().find(free))
        .or_else(|| rows().next())
}

impl Step {
    /// What is compared.
    fn spelled(self) -> String {
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

/// The step that makes letters of bytes.
pub(super) fn byte_level(words: bool) -> Json {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words})
}

impl Pre {
    /// The steps as a `tokenizer.json` has them.
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

/// The steps of a `tokenizer.json`, spelled as [`Step::spelled`] has them. `None` where one is of
/// another kind.
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
                // Some files have the characters themselves, some their escapes.
                let pattern = pattern.replace('\r', r"\r").replace('\n', r"\n");
                steps.push(format!("split {pattern}"));
            }
            "Digits" => steps.push(Digits(is("individual_digits")?).spelled()),
            "Punctuation" if step.get("behavior")?.as_str()? == "Contiguous" => {
                steps.push(Punctuation.spelled());
            }
            "ByteLevel" => {
                bytes = true;
                if is("use_regex") != Some(false) {
                    steps.push(Words.spelled());
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
            let mut lists = family::variants().map(|variant| variant.tokenizer.pre);
            let own = lists.find(|own| own.contains(&pre.name)).unwrap_or(&[]);
            let found = of_steps(&pre.json(), pre.ignore_merges, own);
            assert_eq!(found.map(|pre| pre.name), Some(pre.name));
            for name in pre.also {
                assert_eq!(named(name).map(|pre| pre.name), Some(pre.name), "{name}");
            }
        }
    }

    #[test]
    fn other_steps_have_no_name() {
        let metaspace = json!({"type": "Metaspace", "replacement": "▁"});
        assert!(of_steps(&metaspace, false, &[]).is_none());
        let split = |pattern: &str| json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        let sequence =
            |first: Json| json!({"type": "Sequence", "pretokenizers": [first, byte_level(false)]});
        assert!(of_steps(&sequence(split("x+")), false, &[]).is_none());
        let escaped = sequence(split(&QWEN2.replace(r"\r\n", "\r\n")));
        assert_eq!(of_steps(&escaped, false, &[]).map(|pre| pre.name), Some("qwen2"));
    }
}
