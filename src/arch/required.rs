//! The canonical tensors of a family: which of them a complete model requires, and which are small.

use std::collections::{BTreeSet, HashSet};

use super::Architecture;
use super::rule;
use super::tensor::{CanonicalTensor, Need, TensorRow, rows};

/// The matrices of a module that is there as a whole.
const MODULES: [&[&str]; 3] =
    [&["q", "k", "v", "output"], &["kv_a", "kv_a_norm", "k_b", "v_b"], &["gate", "up", "down"]];

/// The module of a tensor of a layer: `attention`. Experts are no such module.
fn module(name: &str) -> Option<&str> {
    let own = name.strip_prefix("layers.{n}.")?;
    let is_nested = own.strip_suffix(".weight").unwrap_or(own).matches('.').count() > 1;
    own.split('.').next().filter(|_| !is_nested)
}

/// The tensors with these names that stand instead of one of another module, with that one.
fn instead_of_others(
    own: &'static [TensorRow],
    names: &HashSet<&'static str>,
) -> Vec<(&'static str, &'static str)> {
    let pair = |row: &'static TensorRow| match row.need {
        Need::InsteadOf(other) => Some((row.name, other)),
        _ => None,
    };
    let pairs = rows(own).filter(|row| names.contains(row.name)).filter_map(pair);
    pairs.filter(|(name, other)| module(name).is_some_and(|of| module(other) != Some(of))).collect()
}

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

    /// The canonical names of the tensors that a layer has if it has another one of the same module: any other one, or
    /// one of these.
    pub(super) fn required_of_modules(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let names = self.rules.iter().copied().flatten().map(|rule| rule.canonical);
        let names: HashSet<&'static str> = names.collect();
        let is_optional = |name: &str| self.optional.contains(&name);
        let rows = rows(self.canonical).filter(|row| matches!(row.need, Need::WithModule));
        let whole = rows.map(|row| row.name);
        let whole = whole.filter(|name| names.contains(name) && !is_optional(name));
        let mut found: Vec<_> = whole.map(|name| (name, Vec::new())).collect();
        let instead = instead_of_others(self.canonical, &names);
        let has_other = |name: &str| instead.iter().any(|(_, other)| *other == name);
        // A tensor that stands instead of one of another module is needed for its own, although that one is optional, or
        // another one stands instead of it too.
        for (name, other) in instead.iter().filter(|(name, _)| !is_optional(name)) {
            if is_optional(other) || instead.iter().filter(|(_, it)| it == other).count() > 1 {
                let own = instead.iter().map(|(own, _)| *own).filter(|own| own != name);
                found.push((*name, own.filter(|own| module(own) == module(name)).collect()));
            }
        }
        // Layers may lack a whole module, of which all tensors are optional then, but not a part of it.
        let modules = names.iter().filter_map(|name| module(name));
        let is_latent =
            |module: &str| names.contains(&*format!("layers.{{n}}.{module}.kv_a.weight"));
        for module in modules.collect::<BTreeSet<_>>() {
            let is_other = |group: &&&[&str]| group.first() == Some(&"q") && is_latent(module);
            for group in MODULES.iter().filter(|group| !is_other(group)) {
                let of_group =
                    group.iter().map(|part| format!("layers.{{n}}.{module}.{part}.weight"));
                let group: Vec<&str> =
                    of_group.filter_map(|name| names.get(&*name).copied()).collect();
                if group.iter().all(|name| is_optional(name) || has_other(name)) {
                    let needed = group.iter().filter(|name| is_optional(name));
                    found.extend(needed.map(|name| (*name, group.clone())));
                }
            }
        }
        found
    }

    /// The canonical names of the tensors outside of layers that a model has if it has their bias.
    pub(super) fn required_with_bias(&self) -> impl Iterator<Item = &'static str> {
        let has = |name: &str| {
            self.rules.iter().copied().flatten().any(|rule| rule.canonical == name)
                && !self.optional.contains(&name)
        };
        let rows = rows(self.canonical).filter(|row| matches!(row.need, Need::WithModule));
        let outside = rows.map(|row| row.name).filter(|name| !name.contains("{n}"));
        outside.filter(move |name| has(name))
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
