//! Name rules: one row gives a tensor's canonical name and its name in each dialect.

use super::transform::Transform;
use crate::dialect::Dialect;

/// The names of one tensor of an architecture. `{n}` stands for the layer number. `{e}` in a stored
/// name stands for the expert number; the tensors of all experts form one canonical tensor.
///
/// A stored tensor that holds several canonical ones has a row for each. A canonical tensor that
/// may be stored in several forms has a row for each form, the preferred form first.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NameRule {
    /// The canonical name.
    pub canonical: &'static str,
    /// The tensor in GGUF.
    pub gguf: StoredForm,
    /// The tensor in Hugging Face and MLX directories.
    pub hf: StoredForm,
}

/// A tensor's name in a dialect, and its form there.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoredForm {
    /// The name; empty if the dialect has no such tensor.
    pub name: &'static str,
    /// The change from the canonical tensor to the stored one.
    pub transform: Transform,
}

/// A stored name with `{n}` and `{e}` in place of its first numbers.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Pattern {
    /// The name with `{n}` only.
    pub(super) layers: String,
    pub(super) layer: Option<u32>,
    /// The name with `{n}` and `{e}`, if it has two numbers, and the second number.
    pub(super) experts: Option<(String, u32)>,
}

/// Replaces the first path component of `name` that is a number by `{n}`, and the second by `{e}`.
///
/// `blk.12.attn_q.weight` becomes `blk.{n}.attn_q.weight` and 12. A component with leading zeros,
/// or above 32 bits, does not count as a number. `shard_3` counts as one behind that of a layer.
pub(super) fn pattern(name: &str) -> Pattern {
    let mut layers = String::with_capacity(name.len().saturating_add(4));
    let (mut layer, mut experts) = (None, None::<(String, u32)>);
    for (place, component) in name.split('.').enumerate() {
        let dot = if place > 0 { "." } else { "" };
        // Parts of a tensor of a layer have numbers behind a word.
        let part = component.strip_prefix("shard_").filter(|_| layer.is_some());
        let digits = part.unwrap_or(component);
        let number = match digits.as_bytes() {
            [b'0'] | [b'1'..=b'9', ..] => digits.parse::<u32>().ok(),
            _ => None,
        };
        let (mut first, mut second) = (component, component);
        match number {
            Some(number) if layer.is_none() => {
                layer = Some(number);
                (first, second) = ("{n}", "{n}");
            }
            Some(number) if experts.is_none() => {
                experts = Some((layers.clone(), number));
                second = if part.is_some() { "shard_{e}" } else { "{e}" };
            }
            _ => {}
        }
        layers.extend([dot, first]);
        if let Some((experts, _)) = &mut experts {
            experts.extend([dot, second]);
        }
    }
    Pattern { layers, layer, experts }
}

/// Inserts the layer number into a pattern.
pub(super) fn expand(pattern: &str, layer: Option<u32>) -> String {
    match layer.zip(pattern.split_once("{n}")) {
        Some((layer, (before, after))) => [before, &layer.to_string(), after].concat(),
        None => pattern.to_owned(),
    }
}

/// Formats sorted numbers in brackets, consecutive ones joined: `[0-3,7]`.
pub(super) fn runs(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |&(from, to): &(u32, u32)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    };
    format!("[{}]", runs.iter().map(run).collect::<Vec<_>>().join(","))
}

/// A name that a class of a dialect uses instead of the first one in the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rename {
    pub(crate) dialects: &'static [Dialect],
    /// A canonical tensor that a model must have for this rename to apply; empty if it always
    /// applies. `{n}` stands for the number of any layer.
    pub(crate) requires: &'static str,
    /// One that a model must not have, in the same way.
    pub(crate) lacks: &'static str,
    /// The names of models that this rename applies to, as their files state them; empty if it
    /// applies to all.
    pub(crate) models: &'static [&'static str],
    /// The start of the name in the tables; `{n}` stands for the layer number.
    pub(crate) prefix: &'static str,
    /// The start of the name in files of that dialect.
    pub(crate) replacement: &'static str,
}

impl Rename {
    /// A rename without any facts, to build others from.
    pub(crate) const EMPTY: Self =
        Self { dialects: &[], requires: "", lacks: "", models: &[], prefix: "", replacement: "" };
}

/// A tensor of one value in each layer, which GGUF states as a key with a value for each layer.
#[derive(Debug)]
pub(crate) struct KeyedTensor {
    /// The canonical name.
    pub(crate) canonical: &'static str,
    /// The key, which does not follow the architecture's name.
    pub(crate) key: &'static str,
    /// The tensor's shape in Hugging Face's files and mlx-lm's.
    pub(crate) shape: &'static [u64],
}

impl KeyedTensor {
    /// Whether this is the canonical name of such a tensor.
    pub(crate) fn is(&self, canonical: &str) -> bool {
        pattern(canonical).layers == self.canonical
    }
}

/// A tensor and the keys of `config.json` whose numbers it is multiplied by in GGUF and MLX: a line `factor` of a family.
#[derive(Debug)]
pub(crate) struct FactorRule {
    /// The canonical name.
    pub(crate) canonical: &'static str,
    /// `KEY` or `KEY/N`, an element of a list. A list without a number has a factor for each part of the rows.
    pub(crate) keys: &'static [&'static str],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_back() {
        let cases = [
            ("blk.12.attn_q.weight", "blk.{n}.attn_q.weight", Some(12)),
            ("token_embd.weight", "token_embd.weight", None),
            ("a.01.b", "a.01.b", None),
            ("a.+1.b", "a.+1.b", None),
            ("a.4294967296.b", "a.4294967296.b", None),
            ("layers.0.experts.3.w1", "layers.{n}.experts.3.w1", Some(0)),
            ("", "", None),
        ];
        for (name, expected, layer) in cases {
            let found = pattern(name);
            assert_eq!((found.layers.as_str(), found.layer), (expected, layer));
            assert_eq!(expand(expected, layer), name);
        }
        let experts = pattern("layers.0.experts.31.w1.2").experts;
        assert_eq!(experts, Some(("layers.{n}.experts.{e}.w1.2".to_owned(), 31)));
        let parts = pattern("layers.4.ngram.shard_7.weight").experts;
        assert_eq!(parts, Some(("layers.{n}.ngram.shard_{e}.weight".to_owned(), 7)));
        assert_eq!(pattern("shard_7.weight").layers, "shard_7.weight");
        assert_eq!(pattern("blk.12.attn_q.weight").experts, None);
    }
}
