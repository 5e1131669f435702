//! Tensors that only some of the models to be merged have.

use std::path::Path;

use crate::error::Error;

/// The number of names that are shown.
const SHOWN: usize = 3;

/// The name of a tensor with `*` for each number in it.
pub(super) fn pattern(name: &str) -> String {
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    let parts = name.split('.').map(|part| if is_number(part) { "*" } else { part });
    parts.collect::<Vec<&str>>().join(".")
}

/// The names, with a pattern for those that differ in numbers only.
fn patterns(names: &[&str]) -> Vec<String> {
    let mut found: Vec<(String, &str, bool)> = Vec::new();
    for name in names {
        let pattern = pattern(name);
        match found.iter_mut().find(|(other, ..)| *other == pattern) {
            Some((.., several)) => *several = true,
            None => found.push((pattern, name, false)),
        }
    }
    let shown = |(pattern, name, several): (String, &str, bool)| match several {
        true => pattern,
        false => name.to_owned(),
    };
    found.into_iter().map(shown).collect()
}

/// A model that lacks tensors which another one has.
#[derive(Debug)]
pub(super) struct Lacking<'l> {
    /// The path of the model.
    pub(super) without: &'l Path,
    /// Whether it lacks tensors that its architecture requires.
    pub(super) is_incomplete: bool,
    /// The path of the other model.
    pub(super) with: &'l Path,
    /// The names, at least one.
    pub(super) names: &'l [&'l str],
    /// Those among them that have no place in the architecture, so that they can be left out of a copy.
    pub(super) extra: &'l [&'l str],
}

impl Lacking<'_> {
    pub(super) fn error(&self) -> Error {
        let patterns = patterns(self.names);
        let mut shown = patterns.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        if let more @ 1.. = patterns.len().saturating_sub(SHOWN) {
            shown += &format!(" and {more} more");
        }
        let (count, have) = match self.names.len() {
            1 => (String::new(), "has it"),
            number => (format!(" ({number} tensors)"), "has them"),
        };
        let with = self.with.display();
        let fault = format!("the model lacks {shown}{count}, but {with} {have}");
        let error = Error::mismatch(fault).in_file(self.without);
        if !self.extra.is_empty() {
            let options = self::patterns(self.extra).into_iter();
            let options = options.map(|pattern| format!("--leave-out '{pattern}'"));
            let options = options.collect::<Vec<_>>().join(" ");
            return error.advise(format!(
                "if that model works without it, merge a copy that lacks it: convert MODEL OUT --to safetensors {options}"
            ));
        }
        error.advise(match self.is_incomplete {
            true => "it needs these tensors, so that its files are incomplete: get the whole model, then merge",
            false => {
                "merge models whose layers have the same tensors: these are parts of the model, which cannot be left out"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_a_pattern() {
        let names = ["layers.0.q_norm.weight", "norm.weight", "layers.11.q_norm.weight"];
        assert_eq!(patterns(&names), ["layers.*.q_norm.weight", "norm.weight"]);
        assert_eq!(patterns(&["layers.0.extra"]), ["layers.0.extra"]);
    }
}
