//! Which tensors belong to the layers that recipes number. Other tensors have numbers of their own: blocks of
//! a vision or audio model, modules of a projector.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The texts before the numbers of the layers of the language model, such as `model.layers.`, and how many
/// numbers follow each other text.
pub(super) struct Layers {
    prefixes: BTreeSet<String>,
    others: BTreeMap<String, u32>,
}

impl Layers {
    /// Those of tensors: names, with the canonical tensors that each holds.
    pub(super) fn of<'t>(tensors: impl Iterator<Item = (&'t str, &'t [String])>) -> Self {
        let (mut prefixes, mut others) = (BTreeSet::new(), BTreeMap::new());
        for (name, roles) in tensors {
            let Some((number, place)) = number_of(name) else { continue };
            let before = name.get(..place.start).unwrap_or_default();
            let count: &mut u32 = others.entry(before.to_owned()).or_default();
            *count = number.saturating_add(1).max(*count);
            let layer =
                |role: &String| role.strip_prefix("layers.")?.split('.').next()?.parse().ok();
            if roles.iter().any(|role| layer(role) == Some(number)) {
                prefixes.insert(before.to_owned());
            }
        }
        Self { prefixes, others }
    }

    /// The layer of a tensor of the language model, and where its number is in the name.
    pub(super) fn layer_of(&self, name: &str) -> Option<(u32, Range<usize>)> {
        number_of(name).filter(|(_, place)| {
            name.get(..place.start).is_some_and(|before| self.prefixes.contains(before))
        })
    }

    /// The place of a tensor among those of its numbers, from 0 to 1, for a language model of so many layers.
    pub(super) fn place_of(&self, name: &str, count: u32) -> f64 {
        let Some((number, place)) = number_of(name) else { return 0.0 };
        let before = name.get(..place.start).unwrap_or_default();
        match self.others.get(before).filter(|_| !self.prefixes.contains(before)) {
            Some(count) => place_of(number, *count),
            None => place_of(number, count),
        }
    }
}

/// The place of a layer among so many, from 0 to 1. A single one is the last.
pub(super) fn place_of(layer: u32, count: u32) -> f64 {
    let last = count.saturating_sub(1);
    if last == 0 { 1.0 } else { f64::from(layer) / f64::from(last) }
}

/// A name with another layer number.
pub(super) fn in_layer(name: &str, place: &Range<usize>, layer: u32) -> String {
    let (before, after) = (name.get(..place.start), name.get(place.end..));
    format!("{}{layer}{}", before.unwrap_or_default(), after.unwrap_or_default())
}

/// The first number in a name, and where it is.
fn number_of(name: &str) -> Option<(u32, Range<usize>)> {
    let mut start = 0;
    for part in name.split('.') {
        let end = start + part.len();
        if let Ok(number) = part.parse() {
            return Some((number, start..end));
        }
        start = end + 1;
    }
    None
}
