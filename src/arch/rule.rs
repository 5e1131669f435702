//! Name rules: one row gives a tensor's canonical name and what each dialect calls it.

/// One tensor of an architecture under its names. `{n}` stands for the layer's number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct NameRule {
    /// The name that engines ask for.
    pub canonical: &'static str,
    /// The name in GGUF; empty where GGUF has no such tensor.
    pub gguf: &'static str,
    /// The name in Hugging Face and MLX directories; empty where they have no such tensor.
    pub hf: &'static str,
    /// How the values in GGUF differ from those in a Hugging Face checkpoint.
    pub gguf_transform: Transform,
}

/// An exact change of values between dialects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Transform {
    /// The values are the same.
    None,
    /// The rows of each head are reordered, from halves to pairs, so that rotary embeddings apply
    /// to neighbours (llama.cpp's converter for `llama` and its kin).
    PermuteQk,
}

impl Transform {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::PermuteQk => "permute_qk",
        }
    }
}

pub(super) const fn rule(
    canonical: &'static str,
    gguf: &'static str,
    hf: &'static str,
    gguf_transform: Transform,
) -> NameRule {
    NameRule { canonical, gguf, hf, gguf_transform }
}

/// Puts `{n}` for the first path component of `name` that is a number.
///
/// `blk.12.attn_q.weight` gives `blk.{n}.attn_q.weight` and 12. A number with leading zeros, or one
/// beyond 32 bits, is none.
pub(super) fn pattern(name: &str) -> (String, Option<u32>) {
    let mut pattern = String::new();
    let mut layer = None;
    for (place, component) in name.split('.').enumerate() {
        if place > 0 {
            pattern.push('.');
        }
        match component.parse::<u32>() {
            Ok(number) if layer.is_none() && number.to_string() == component => {
                pattern.push_str("{n}");
                layer = Some(number);
            }
            _ => pattern.push_str(component),
        }
    }
    (pattern, layer)
}

/// Puts the layer's number back.
pub(super) fn expand(pattern: &str, layer: Option<u32>) -> String {
    match layer {
        Some(layer) => pattern.replace("{n}", &layer.to_string()),
        None => pattern.to_owned(),
    }
}

/// Sorted numbers in brackets, neighbours joined: `[0-3,7]`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_back() {
        let cases = [
            ("blk.12.attn_q.weight", "blk.{n}.attn_q.weight", Some(12)),
            ("token_embd.weight", "token_embd.weight", None),
            ("a.01.b", "a.01.b", None),
            ("a.4294967296.b", "a.4294967296.b", None),
            ("layers.0.experts.3.w1", "layers.{n}.experts.3.w1", Some(0)),
            ("", "", None),
        ];
        for (name, expected, layer) in cases {
            assert_eq!(pattern(name), (expected.to_owned(), layer));
            assert_eq!(expand(expected, layer), name);
        }
    }
}
