//! The canonical tensors of a family: which of them a complete model requires, and which are small.

use std::collections::HashSet;

use super::Architecture;
use super::rule;
use super::tensor::{CanonicalTensor, Need, TensorRow, rows};

impl Architecture {
    /// The tensor with this canonical name, which may be one that only this family has.
    pub(crate) fn canonical_tensor(&self, canonical: &str) -> Option<CanonicalTensor> {
        CanonicalTensor::of(canonical, self.canonical)
    }

    /// Whether llama.cpp's converter writes the tensor with this name in GGUF as `F32` in every file
    /// type: norms, routers, convolutions and tables of positions (`prepare_tensors` in
    /// conversion/base.py).
    pub(crate) fn is_small_in_gguf(&self, name: &str) -> bool {
        let name = rule::pattern(name).layers;
        let mut rules = self.rules.iter().copied().flatten();
        let rule = rules.find(|rule| rule.gguf.name == name);
        let tensor = rule.and_then(|rule| self.canonical_tensor(rule.canonical));
        tensor.is_some_and(|tensor| tensor.is_small())
    }

    /// The canonical names of the tensors that a complete model requires. Each entry has alternatives,
    /// one of which is enough.
    pub fn required(&self) -> Vec<Vec<&'static str>> {
        let rules = self.rules.iter().copied().flatten();
        let names: HashSet<&'static str> = rules.map(|rule| rule.canonical).collect();
        let mut required: Vec<Vec<&'static str>> = Vec::new();
        for TensorRow { name, need, .. } in self.required_rows(&names) {
            let other = match need {
                Need::InsteadOf(other) => names.contains(other).then_some(other),
                Need::Yes | Need::No | Need::WithModule => None,
            };
            match other {
                None => required.push(vec![name]),
                // Without an optional tensor, nothing needs to be there instead of it.
                Some(other) => {
                    let mut all = required.iter_mut();
                    let all = all.find(|names| names.first() == Some(other));
                    all.into_iter().for_each(|names| names.push(name));
                }
            }
        }
        // The tensors of such a name are stored under the usual one.
        for renamed in self.conditional_names {
            for alternatives in &mut required {
                let rest = alternatives.first().and_then(|name| name.strip_prefix(renamed.name));
                let usual = rest.map(|rest| format!("{}{rest}", renamed.usual));
                alternatives.extend(usual.and_then(|usual| names.get(usual.as_str())).copied());
            }
        }
        required
    }

    /// The canonical names of the tensors that a layer has if it has another one of the same module.
    pub(super) fn required_of_modules(&self) -> impl Iterator<Item = &'static str> {
        let rows = rows(self.canonical).filter(|row| matches!(row.need, Need::WithModule));
        let has = |name: &str| {
            self.rules.iter().copied().flatten().any(|rule| rule.canonical == name)
                && !self.optional.contains(&name)
        };
        rows.map(|row| row.name).filter(move |name| has(name))
    }

    /// The rows of the tensors that its models require, of those with these names. In each part of a model, shared
    /// tensors precede its own.
    fn required_rows(&self, names: &HashSet<&'static str>) -> Vec<&'static TensorRow> {
        let is_own = |name: &str| self.canonical.iter().any(|row| row.name == name);
        let is_needed = |row: &TensorRow| matches!(row.need, Need::Yes | Need::InsteadOf(_));
        let others = rows(&[]).filter(|row| is_needed(row) && !is_own(row.name));
        let own = self.canonical.iter().filter(|row| is_needed(row));
        let mut all: Vec<_> = others.chain(own).collect();
        all.retain(|row| names.contains(row.name) && !self.optional.contains(&row.name));
        all.sort_by_key(|row| row.part);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::tensor::{Part, is_required};
    use super::super::{NameRule, architectures};
    use super::*;

    /// The canonical names in the tables of a family, those that depend on other tensors included.
    fn names(architecture: &'static Architecture) -> Vec<String> {
        let rules = architecture.rules.iter().copied().flatten();
        let others = [architecture.mlx, architecture.publisher, architecture.conditional_rules];
        let rules: Vec<&NameRule> = rules.chain(others.into_iter().flatten()).collect();
        let renamed = architecture.conditional_names.iter().flat_map(|renamed| {
            let rests = rules.iter().filter_map(|rule| rule.canonical.strip_prefix(renamed.usual));
            rests.map(|rest| format!("{}{rest}", renamed.name))
        });
        let keyed = architecture.keyed.iter().map(|tensor| tensor.canonical.to_owned());
        renamed.chain(keyed).chain(rules.iter().map(|rule| rule.canonical.to_owned())).collect()
    }

    #[test]
    fn every_canonical_name_has_a_row_and_every_row_a_family() {
        let mut used = HashSet::new();
        for architecture in architectures() {
            for name in names(architecture) {
                let tensor = architecture.canonical_tensor(&name);
                let tensor = tensor.unwrap_or_else(|| panic!("{}: {name}", architecture.name));
                assert_eq!(tensor.part() == Part::Layers, name.contains("layers.{n}"), "{name}");
                used.insert(tensor.row.name);
            }
        }
        let unused = rows(&[]).filter(|row| !used.contains(row.name));
        assert_eq!(unused.map(|row| row.name).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(used.len(), rows(&[]).count(), "two rows have one name");
    }

    #[test]
    fn exceptions_of_families_are_exceptions() {
        for architecture in architectures() {
            let names: HashSet<String> = names(architecture).into_iter().collect();
            for name in architecture.optional {
                let needed = is_required(name, architecture.canonical);
                assert!(needed && names.contains(*name), "{}: {name}", architecture.name);
            }
        }
    }

    #[test]
    fn the_other_tensor_comes_first() {
        let mut seen = HashSet::new();
        for row in rows(&[]) {
            if let Need::InsteadOf(other) = row.need {
                assert!(seen.contains(other), "{}", row.name);
            }
            seen.insert(row.name);
        }
    }
}
