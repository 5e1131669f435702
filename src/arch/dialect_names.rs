//! The inverse of name resolution: what a dialect calls the tensors that hold canonical ones.

use std::collections::{HashMap, HashSet};

use super::rule::{NameRule, Rename, StoredForm, expand, pattern};
use super::{Architecture, Dialect, RowOrder, Transform};

/// A tensor as a dialect stores it.
#[derive(Debug)]
pub(crate) struct DialectTensor {
    /// Its name, with `{e}` for the expert number if each expert has a tensor of its own.
    pub(crate) name: String,
    /// The canonical tensors that it holds, each with its transform.
    pub(crate) parts: Vec<(String, Transform)>,
}

/// A form in which a dialect stores a canonical tensor: the name, and all canonical tensors under
/// that name.
struct NameCandidate {
    name: &'static str,
    holds: Vec<(&'static str, Transform)>,
    /// Whether the canonical tensors are all the same stored tensor.
    holds_one: bool,
}

/// The dialect's tensors that hold these canonical tensors, in order, and the canonical tensors
/// that the dialect has no name for.
///
/// Of several forms, uses the first one in the tables whose parts are all present. Experts have one
/// tensor each in Hugging Face's files, and a common one elsewhere. `named` is the model's own name
/// for its architecture. `one` tells whether two canonical tensors are the same stored tensor, such
/// as a norm that is used twice.
pub(crate) fn dialect_tensors(
    architecture: &'static Architecture,
    named: &str,
    dialect: Dialect,
    canonical: &[&str],
    one: impl Fn(&str, &str) -> bool,
) -> (Vec<DialectTensor>, Vec<String>) {
    // mlx-lm's classes of DeepSeek 3 and later store the latent matrices separately, that of DeepSeek
    // 2 does not. Only the former have this tensor.
    let split_latent = canonical.iter().any(|name| name.ends_with(".ffn.router.correction_bias"));
    let joined = architecture.joined_experts.contains(&named);
    let forms = candidates(architecture, Habits { dialect, split_latent, joined });
    let has = |required: &str| match required.contains("{n}") {
        true => canonical.iter().any(|name| pattern(name).layers == required),
        false => canonical.contains(&required),
    };
    let of_these = |row: &&Rename| {
        row.dialects.contains(&dialect)
            && (row.requires.is_empty() || has(row.requires))
            && (row.lacks.is_empty() || !has(row.lacks))
            && (row.models.is_empty() || row.models.contains(&named))
    };
    let renames: Vec<&Rename> = architecture.renames.iter().filter(of_these).collect();
    let present: HashSet<&str> = canonical.iter().copied().collect();
    let mut mapped: HashSet<String> = HashSet::new();
    let mut used: HashSet<String> = HashSet::new();
    let (mut tensors, mut unnamed) = (Vec::new(), Vec::new());
    for &name in canonical {
        if mapped.contains(name) {
            continue;
        }
        let found = pattern(name);
        let layer = found.layer;
        let parts = |form: &NameCandidate| {
            let parts =
                form.holds.iter().map(|(name, transform)| (expand(name, layer), *transform));
            parts.collect::<Vec<_>>()
        };
        let complete = |form: &&NameCandidate| {
            let free = !used.contains(&expand(form.name, layer));
            let part = |(part, _): &(String, _)| {
                let one = form.holds_one && one(name, part);
                present.contains(&**part) && !mapped.contains(part) && (one || !form.holds_one)
            };
            free && parts(form).iter().all(part)
        };
        let forms = forms.get(found.layers.as_str()).map_or(&[][..], Vec::as_slice);
        match forms.iter().find(complete) {
            Some(form) => {
                let mut parts = parts(form);
                mapped.extend(parts.iter().map(|(part, _)| part.clone()));
                parts.truncate(if form.holds_one { 1 } else { parts.len() });
                used.insert(expand(form.name, layer));
                let put = |row: &&Rename| {
                    Some(row.replacement.to_owned() + form.name.strip_prefix(row.prefix)?)
                };
                let renamed = renames.iter().find_map(put);
                let name = expand(renamed.as_deref().unwrap_or(form.name), layer);
                tensors.push(DialectTensor { name, parts });
            }
            None => unnamed.push(name.to_owned()),
        }
    }
    (tensors, unnamed)
}

/// The forms of each canonical pattern, the best one first.
fn candidates(
    architecture: &'static Architecture,
    habits: Habits,
) -> HashMap<&'static str, Vec<NameCandidate>> {
    let dialect = habits.dialect;
    let (publisher, mlx) = (&[architecture.publisher][..], &[architecture.mlx][..]);
    let also = &[architecture.conditional_rules][..];
    let tables = match dialect {
        Dialect::Publisher => [publisher, &[], &[]],
        Dialect::Mlx => [mlx, also, architecture.rules],
        Dialect::Gguf | Dialect::HuggingFace => [&[], also, architecture.rules],
    };
    let stored = |rule: &NameRule| if dialect == Dialect::Gguf { rule.gguf } else { rule.hf };
    let mut forms: HashMap<&'static str, Vec<NameCandidate>> = HashMap::new();
    let mut used: HashSet<&'static str> = HashSet::new();
    for &table in tables.into_iter().flatten() {
        let rules = || table.iter().filter(|rule| !stored(rule).name.is_empty());
        let mut these: HashMap<&'static str, Vec<NameCandidate>> = HashMap::new();
        for rule in rules() {
            let StoredForm { name, .. } = stored(rule);
            // A name belongs to the earliest table that has it.
            if used.contains(name) {
                continue;
            }
            let same = rules().filter(|other| stored(other).name == name);
            let holds = same.map(|other| (other.canonical, stored(other).transform));
            let holds: Vec<(&str, Transform)> = holds.collect();
            let forms = these.entry(rule.canonical).or_default();
            // If no part has rows of its own, the parts are copies: norms that a family uses once
            // or twice.
            let holds_one = holds.len() > 1 && stored(rule).transform.rows == RowOrder::All;
            if holds_one {
                let own = vec![(rule.canonical, stored(rule).transform)];
                forms.push(NameCandidate { name, holds: own, holds_one: false });
            }
            forms.push(NameCandidate { name, holds, holds_one });
        }
        if !std::ptr::eq(table, architecture.conditional_rules) {
            used.extend(rules().map(|rule| stored(rule).name));
        }
        for (canonical, mut found) in these {
            found.sort_by_key(|form| (!form.holds_one, habits.rank(form)));
            forms.entry(canonical).or_default().extend(found);
        }
    }
    let either = dialect == Dialect::HuggingFace && !architecture.joined_experts.is_empty();
    if dialect == Dialect::Mlx || either {
        // The preferred form of experts may be in any table, unless the family says what mlx-lm's is.
        let stated = |name: &str| architecture.mlx.iter().any(|rule| rule.canonical == name);
        let free = |(name, _): &(&&str, &mut Vec<_>)| dialect != Dialect::Mlx || !stated(name);
        let found = forms.iter_mut().filter(free).map(|(_, found)| found);
        found.for_each(|found| found.sort_by_key(|form| habits.rank(form)));
    }
    forms
}

/// The forms that a dialect prefers.
#[derive(Clone, Copy)]
struct Habits {
    dialect: Dialect,
    /// Whether mlx-lm splits the latent matrices of this model.
    split_latent: bool,
    /// Whether transformers' class stores all experts of a layer in one tensor.
    joined: bool,
}

impl Habits {
    /// Rank of a form, lower is better. mlx-lm stacks experts under a name of its own, Hugging Face
    /// stores most families' experts separately, and llama.cpp's converter has split the latent
    /// expansion matrices since April 2025.
    fn rank(self, form: &NameCandidate) -> u32 {
        let switch = form.name.contains(".switch_");
        let apart = form.name.contains("{e}");
        let folded =
            |(_, transform): &(&str, Transform)| matches!(transform.rows, RowOrder::Unfolding(_));
        match self.dialect {
            Dialect::HuggingFace => u32::from(apart == self.joined) + u32::from(switch),
            Dialect::Mlx => {
                let folded = self.split_latent && form.holds.iter().any(folded);
                u32::from(!switch) + u32::from(apart) + u32::from(folded)
            }
            Dialect::Gguf => u32::from(form.holds.iter().any(folded)),
            Dialect::Publisher => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::family::architectures;

    /// A stored tensor is made of its parts in one step: only their rows may differ.
    #[test]
    fn parts_of_one_stored_tensor_differ_in_their_rows_alone() {
        let dialects = [Dialect::Gguf, Dialect::HuggingFace, Dialect::Mlx, Dialect::Publisher];
        for architecture in architectures() {
            for dialect in dialects {
                let habits = Habits { dialect, split_latent: false, joined: false };
                let forms = candidates(architecture, habits);
                for form in forms.values().flatten().filter(|form| !form.holds_one) {
                    let step =
                        |(_, part): &(&str, Transform)| (part.axes, part.columns, part.values);
                    let alike = form.holds.windows(2).all(|two| step(&two[0]) == step(&two[1]));
                    assert!(alike, "{}: {}", architecture.name, form.name);
                }
            }
        }
    }
}
