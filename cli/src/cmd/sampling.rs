//! The choice of tokens by `generate`, and the settings of a model of Ollama's store for it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use weighbridge::container::OLLAMA;
use weighbridge::json::Json;
use weighbridge::{Model, ops};
use weighbridge_reference::{likeliest, probabilities};

use crate::args::run::Generate;
use crate::{Stop, note};

/// The settings of a model in Ollama's store; none of other models.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) system: Option<String>,
    /// The messages that a conversation begins with: roles and texts.
    pub(super) messages: Vec<(String, String)>,
    pub(super) stop: Vec<String>,
    /// The most tokens to print.
    pub(super) most: Option<u64>,
    temperature: Option<f32>,
    top_k: Option<usize>,
    top_p: Option<f32>,
    seed: Option<i64>,
    /// The kind of prompt template that Ollama uses, and `generate` does not.
    template: Option<&'static str>,
    /// Parameters that are not applied.
    others: Vec<String>,
}

/// Parameters that change where a model runs, and no token.
const ELSEWHERE: [&str; 8] = [
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "use_mmap",
    "num_thread",
    "num_keep",
    "draft_num_predict",
];

impl Stored {
    pub(super) fn of(model: &Model) -> Result<Self, Stop> {
        if model.container() != OLLAMA.name {
            return Ok(Self::default());
        }
        let shown = ops::show(model)?;
        let mut stored = Self::set(&shown.settings);
        let own = model.tokenizer()?;
        let own = own.as_ref().and_then(|tokenizer| tokenizer.chat_template());
        let is_plain = shown.template.trim() == "{{ .Prompt }}" || own == Some(&shown.template);
        stored.template = match (shown.renderer.as_str(), is_plain, own) {
            ("", true, _) => None,
            ("", false, Some(_)) => Some("TEMPLATE (instead, the file's chat template)"),
            ("", false, None) => Some("TEMPLATE"),
            _ => Some("RENDERER"),
        };
        stored.system = Some(shown.system).filter(|system| !system.is_empty());
        stored.messages = shown.messages.into_iter().map(|it| (it.role, it.content)).collect();
        Ok(stored)
    }

    /// The parameters that this program has.
    #[expect(clippy::cast_possible_truncation, reason = "the parameters are stored as f32")]
    fn set(settings: &BTreeMap<String, Json>) -> Self {
        let mut stored = Self::default();
        for (name, value) in settings {
            let number = value.as_f64().map(|number| number as f32);
            let whole = || value.as_u64().and_then(|number| usize::try_from(number).ok());
            match name.as_str() {
                "temperature" => stored.temperature = number.filter(|it| *it >= 0.0),
                "top_p" => stored.top_p = number.filter(|it| *it > 0.0 && *it <= 1.0),
                "top_k" => stored.top_k = whole(),
                "seed" => stored.seed = value.as_i64(),
                // Negative ones are no limit.
                "num_predict" => stored.most = Some(value.as_u64().unwrap_or(u64::MAX)),
                "stop" => {
                    let words = value.as_array().into_iter().flatten().filter_map(Json::as_str);
                    stored.stop = words.map(str::to_owned).collect();
                }
                name if ELSEWHERE.contains(&name) => {}
                name => stored.others.push(name.to_owned()),
            }
        }
        stored
    }

    /// Says what is not applied, with a chat template or without one.
    pub(super) fn tell(&self, has_template: bool) {
        let system = self.system.as_ref().filter(|_| !has_template).map(|_| "SYSTEM");
        let messages = (!has_template && !self.messages.is_empty()).then_some("MESSAGE");
        let texts = [self.template, system, messages].into_iter().flatten();
        let names: Vec<&str> = texts.chain(self.others.iter().map(String::as_str)).collect();
        if !names.is_empty() {
            note(&format!("not applied of the model's Modelfile: {}", names.join(", ")));
        }
    }
}

/// Chooses tokens.
pub(super) struct Sampler {
    temperature: f32,
    top_k: usize,
    top_p: f32,
    random: Random,
}

impl Sampler {
    /// The settings of options, else of the model.
    pub(super) fn new(args: &Generate, stored: &Stored) -> Self {
        let seed = match args.seed.or(stored.seed).unwrap_or(0) {
            -1 => RandomState::new().hash_one(0),
            seed => seed.cast_unsigned(),
        };
        let temperature = args.temp.or(stored.temperature).unwrap_or(0.0);
        let given = [
            ("--top-k", args.top_k.is_some()),
            ("--top-p", args.top_p.is_some()),
            ("--seed", args.seed.is_some()),
        ];
        if let Some((option, _)) =
            given.iter().find(|(_, is_given)| *is_given && temperature <= 0.0)
        {
            let given = if args.temp.is_some() { "with --temp 0" } else { "without --temp" };
            note(&format!("{option} has no effect {given}: the most likely token is taken"));
        }
        Self {
            temperature,
            top_k: args.top_k.or(stored.top_k).unwrap_or(0),
            top_p: args.top_p.or(stored.top_p).unwrap_or(1.0),
            random: Random(seed),
        }
    }

    /// The next token.
    pub(super) fn token(&mut self, logits: &[f32]) -> Result<u32, Stop> {
        match self.temperature > 0.0 {
            true => Ok(self.drawn(logits)),
            false => Ok(likeliest(logits)?),
        }
    }

    /// Draws a token by its probability, from the likeliest ones: `top_k` of them, whose probabilities add up to
    /// `top_p`.
    fn drawn(&mut self, logits: &[f32]) -> u32 {
        let scaled: Vec<f32> = logits.iter().map(|logit| logit / self.temperature).collect();
        let mut all: Vec<(u32, f64)> =
            (0u32..).zip(probabilities(&scaled).into_iter().map(f64::from)).collect();
        let mut total = 1.0;
        if self.top_p < 1.0 || self.top_k > 0 {
            all.sort_by(|(_, a), (_, b)| b.total_cmp(a));
            if self.top_k > 0 {
                all.truncate(self.top_k);
            }
            let kept: f64 = all.iter().map(|(_, probability)| probability).sum();
            let mut sum = 0.0;
            all.retain(|(_, probability)| {
                let before = sum;
                sum += probability;
                self.top_p >= 1.0 || before < f64::from(self.top_p) * kept
            });
            total = all.iter().map(|(_, probability)| probability).sum();
        }
        let mut rest = self.random.next() * total;
        let mut last = 0;
        for (token, probability) in all {
            last = token;
            rest -= probability;
            if rest < 0.0 {
                break;
            }
        }
        last
    }
}

/// Numbers between 0 and 1 (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The texts that end an answer. Text that may begin one of them is held back.
pub(super) struct StopWords<'w> {
    words: &'w [String],
    held: String,
    is_found: bool,
}

impl<'w> StopWords<'w> {
    pub(super) fn new(words: &'w [String]) -> Self {
        Self { words, held: String::new(), is_found: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether one of them occurred.
    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }

    /// The text to print after some more of it.
    pub(super) fn before(&mut self, more: &str) -> String {
        self.held.push_str(more);
        let words = || self.words.iter().filter(|word| !word.is_empty());
        let place = words().filter_map(|word| self.held.find(word.as_str())).min();
        if let Some(place) = place {
            self.held.truncate(place);
            self.is_found = true;
        }
        let starts = |text: &str| words().any(|word| word.starts_with(text));
        let places = self.held.char_indices().map(|(place, _)| place);
        let mut open = places.filter(|place| self.held.get(*place..).is_some_and(starts));
        let end = open.next().filter(|_| !self.is_found).unwrap_or(self.held.len());
        let rest = self.held.split_off(end);
        std::mem::replace(&mut self.held, rest)
    }

    /// The text to print at the end, after the last of it.
    pub(super) fn rest(&mut self, last: &str) -> String {
        if self.is_found {
            return String::new();
        }
        let shown = self.before(last);
        shown + &self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(top_k: usize, top_p: f32) -> Sampler {
        Sampler { temperature: 1.0, top_k, top_p, random: Random(1) }
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let logits = [0.0, 3f32.ln(), f32::NEG_INFINITY];
        let mut all = sampler(0, 1.0);
        let second = (0..4000).filter(|_| all.drawn(&logits) == 1).count();
        assert!((2800..3200).contains(&second), "{second} of 4000, but 3000 are likely");
        assert!((0..100).all(|_| all.drawn(&logits) != 2));
        // The likeliest token alone has three quarters.
        let mut few = sampler(0, 0.75);
        assert!((0..100).all(|_| few.drawn(&logits) == 1));
        let mut more = sampler(0, 0.76);
        let first = (0..4000).filter(|_| more.drawn(&logits) == 0).count();
        assert!((800..1200).contains(&first), "{first} of 4000, but 1000 are likely");
        let mut one = sampler(1, 1.0);
        assert!((0..100).all(|_| one.drawn(&logits) == 1));
        let mut two = sampler(2, 1.0);
        let first = (0..4000).filter(|_| two.drawn(&logits) == 0).count();
        assert!((800..1200).contains(&first), "{first} of 4000, but 1000 are likely");
    }

    /// A text ends before the first stop word, however it is cut into tokens.
    #[test]
    fn stop_words_are_not_printed() {
        let words = ["USER:".to_owned(), "\n\n".to_owned()];
        let text = "One US, two USERS.\nUSER: three";
        for size in 1..=text.len() {
            let mut stop = StopWords::new(&words);
            let mut shown = String::new();
            for piece in text.as_bytes().chunks(size) {
                if !stop.is_found() {
                    shown += &stop.before(std::str::from_utf8(piece).unwrap());
                }
            }
            shown += &stop.rest("");
            assert_eq!(shown, "One US, two USERS.\n", "{size}");
        }
        let mut stop = StopWords::new(&words);
        let shown = stop.before("and US");
        assert_eq!((shown.as_str(), stop.rest("E").as_str()), ("and ", "USE"));
        assert!(!stop.is_found());
    }
}
