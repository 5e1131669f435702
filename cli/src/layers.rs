//! Groups tensors that differ only in their layer number into one table row.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// Rows of a table. Tensors are grouped if their names match and their other keys `K` are equal.
pub(crate) struct Rows<'n, K, V> {
    gather: bool,
    rows: Vec<Row<'n, K, V>>,
    places: HashMap<(Pattern<'n>, K), usize>,
}

/// A row: tensors that differ only in their layer number.
pub(crate) struct Row<'n, K, V> {
    name: Pattern<'n>,
    layers: Vec<u64>,
    pub(crate) alike: K,
    pub(crate) value: V,
}

impl<'n, K: Clone + Eq + Hash, V> Rows<'n, K, V> {
    /// Without `gather`, each tensor gets its own row.
    pub(crate) fn new(gather: bool) -> Self {
        Self { gather, rows: Vec::new(), places: HashMap::new() }
    }

    /// Adds a tensor as a new row, or joins it to an existing row with `join`.
    pub(crate) fn add(
        &mut self,
        name: impl Into<Cow<'n, str>>,
        alike: K,
        value: V,
        join: impl FnOnce(&mut V, V),
    ) {
        let (name, layer) = Pattern::of(name);
        let layers = layer.into_iter().collect();
        if self.gather && layer.is_some() {
            match self.places.entry((name.clone(), alike.clone())) {
                Entry::Occupied(place) => {
                    if let Some(row) = self.rows.get_mut(*place.get()) {
                        row.layers.extend(layer);
                        join(&mut row.value, value);
                    }
                    return;
                }
                Entry::Vacant(place) => {
                    place.insert(self.rows.len());
                }
            }
        }
        self.rows.push(Row { name, layers, alike, value });
    }

    pub(crate) fn into_rows(self) -> Vec<Row<'n, K, V>> {
        self.rows
    }
}

impl<K, V> Row<'_, K, V> {
    /// The name, with the numbers of all layers in the row.
    pub(crate) fn name(&self) -> String {
        self.with_layers(&self.name)
    }

    /// Another name, with the same layers.
    pub(crate) fn with_layers(&self, name: &Pattern<'_>) -> String {
        name.with(&runs(&self.layers))
    }
}

/// A name and where its layer number is. Names that differ only in that number are equal.
#[derive(Clone, Debug)]
pub(crate) struct Pattern<'n> {
    name: Cow<'n, str>,
    /// The layer's number in the name; for a name without one, its end.
    layer: Range<usize>,
}

impl<'n> Pattern<'n> {
    /// Finds the name's first dot-separated component that is a number.
    pub(crate) fn of(name: impl Into<Cow<'n, str>>) -> (Self, Option<u64>) {
        let name = name.into();
        let mut start = 0;
        for component in name.split('.') {
            let end = start + component.len();
            let is_plain = component == "0" || !component.starts_with(['0', '+']);
            if let Some(layer) = component.parse().ok().filter(|_| is_plain) {
                return (Self { name, layer: start..end }, Some(layer));
            }
            start = end + 1;
        }
        let end = name.len();
        (Self { name, layer: end..end }, None)
    }

    fn before(&self) -> &str {
        &self.name[..self.layer.start]
    }

    /// The text after the number; empty if the name has no number.
    pub(crate) fn after(&self) -> &str {
        &self.name[self.layer.end..]
    }

    fn with(&self, layers: &str) -> String {
        let before = self.before();
        // Joined tensors have two names with one number.
        let joined = format!("+{before}{}.", &self.name[self.layer.clone()]);
        let after = self.after().replace(&joined, &format!("+{before}{layers}."));
        format!("{before}{layers}{after}")
    }
}

impl PartialEq for Pattern<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.before() == other.before() && self.after() == other.after()
    }
}

impl Eq for Pattern<'_> {}

impl Hash for Pattern<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.before(), self.after()).hash(state);
    }
}

/// `0` for one layer, `[0-3,5]` for several.
fn runs(layers: &[u64]) -> String {
    if let [] | [_] = layers {
        return layers.first().map(u64::to_string).unwrap_or_default();
    }
    let mut layers = layers.to_vec();
    layers.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for layer in layers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(layer) => *last = layer,
            _ => runs.push((layer, layer)),
        }
    }
    let run = |&(from, to): &(u64, u64)| {
        if from == to { from.to_string() } else { format!("{from}-{to}") }
    };
    format!("[{}]", runs.iter().map(run).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_in_runs() {
        assert_eq!(runs(&[7]), "7");
        assert_eq!(runs(&[0, 1, 2, 3]), "[0-3]");
        assert_eq!(runs(&[0, 2, 3, 9, u64::MAX]), "[0,2-3,9,18446744073709551615]");
        let (pattern, layer) = Pattern::of("blk.12.attn_q.weight");
        assert_eq!(
            (pattern.with("[0-3]"), layer),
            ("blk.[0-3].attn_q.weight".to_owned(), Some(12))
        );
        let (joined, _) = Pattern::of("layers.0.ffn.gate.weight+layers.0.ffn.up.weight");
        assert_eq!(joined.with("[0-3]"), "layers.[0-3].ffn.gate.weight+layers.[0-3].ffn.up.weight");
    }
}
