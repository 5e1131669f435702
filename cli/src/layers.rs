//! Groups tensors that differ only in their layer number into one table row.

use std::collections::HashMap;
use std::hash::Hash;

/// Rows of a table. Tensors are grouped if their names match and their other keys `K` are equal.
pub(crate) struct Rows<K, V> {
    gather: bool,
    rows: Vec<Row<K, V>>,
    places: HashMap<(Pattern, K), usize>,
}

/// A row: tensors that differ only in their layer number.
pub(crate) struct Row<K, V> {
    name: Pattern,
    layers: Vec<u64>,
    pub(crate) alike: K,
    pub(crate) value: V,
}

impl<K: Clone + Eq + Hash, V> Rows<K, V> {
    /// Without `gather`, each tensor gets its own row.
    pub(crate) fn new(gather: bool) -> Self {
        Self { gather, rows: Vec::new(), places: HashMap::new() }
    }

    /// Adds a tensor as a new row, or joins it to an existing row with `join`.
    pub(crate) fn add(&mut self, name: &str, alike: K, value: V, join: impl FnOnce(&mut V, V)) {
        let (name, layer) = Pattern::of(name);
        let layers = layer.into_iter().collect();
        if let (true, Some(layer)) = (self.gather, layer) {
            let key = (name.clone(), alike.clone());
            if let Some(row) = self.places.get(&key).and_then(|&place| self.rows.get_mut(place)) {
                row.layers.push(layer);
                join(&mut row.value, value);
                return;
            }
            self.places.insert(key, self.rows.len());
        }
        self.rows.push(Row { name, layers, alike, value });
    }

    pub(crate) fn into_rows(self) -> Vec<Row<K, V>> {
        self.rows
    }
}

impl<K, V> Row<K, V> {
    /// The name, with the numbers of all layers in the row.
    pub(crate) fn name(&self) -> String {
        self.with_layers(&self.name)
    }

    /// Another name, with the same layers.
    pub(crate) fn with_layers(&self, name: &Pattern) -> String {
        name.with(&runs(&self.layers))
    }
}

/// A name without its layer number.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Pattern {
    before: String,
    /// The text after the number; empty if the name has no number.
    pub(crate) after: String,
}

impl Pattern {
    /// Splits the name at its first dot-separated component that is a number.
    pub(crate) fn of(name: &str) -> (Self, Option<u64>) {
        let mut start = 0;
        for component in name.split('.') {
            let end = start + component.len();
            if let Ok(layer) = component.parse::<u64>()
                && layer.to_string() == component
            {
                let (before, after) = (name[..start].to_owned(), name[end..].to_owned());
                return (Self { before, after }, Some(layer));
            }
            start = end + 1;
        }
        (Self { before: name.to_owned(), after: String::new() }, None)
    }

    fn with(&self, layers: &str) -> String {
        format!("{}{layers}{}", self.before, self.after)
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
    }
}
