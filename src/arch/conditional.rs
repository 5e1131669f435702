//! Names that depend on the other tensors of a model.

use std::collections::HashSet;

use super::{Mapping, rule};

/// Canonical names that tensors have instead of others, in a model that has a third tensor or lacks it.
#[derive(Debug)]
pub(crate) struct ConditionalName {
    /// The third tensor's canonical name; `{n}` stands for the number of the tensor's own layer.
    pub(crate) beside: &'static str,
    /// Whether the model must have it.
    pub(crate) present: bool,
    /// The start of the names in the tables; `{n}` stands for the layer number.
    pub(crate) usual: &'static str,
    /// The start of the names in such a model, unless it stores a tensor under one of them.
    pub(crate) name: &'static str,
}

impl ConditionalName {
    pub(super) fn apply(&self, mapped: &mut [Mapping]) {
        let patterns: Vec<_> = mapped.iter().map(|m| rule::pattern(&m.canonical)).collect();
        let is_usual = |name: &str| name.starts_with(self.usual);
        let (mut beside, mut taken) = (HashSet::new(), HashSet::new());
        for rule::Pattern { layers: name, layer, .. } in &patterns {
            if name == self.beside {
                beside.insert(*layer);
            }
            if name.starts_with(self.name) && !is_usual(name) {
                taken.insert(*layer);
            }
        }
        let in_layers = self.beside.contains("{n}");
        let renamed: Vec<_> = patterns
            .iter()
            .map(|pattern| {
                let rest = pattern.layers.strip_prefix(self.usual)?;
                let layer = if in_layers { pattern.layer } else { None };
                if beside.contains(&layer) != self.present || taken.contains(&pattern.layer) {
                    return None;
                }
                Some(rule::expand(&format!("{}{rest}", self.name), pattern.layer))
            })
            .collect();
        for (mapping, name) in mapped.iter_mut().zip(renamed) {
            mapping.canonical = name.unwrap_or_else(|| std::mem::take(&mut mapping.canonical));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::transform::SAME;
    use super::*;

    #[test]
    fn a_layer_is_named_by_its_own_tensors() {
        let names = [
            "layers.0.ffn_norm.weight",
            "layers.0.linear_attention.a_log",
            "layers.1.ffn_norm.weight",
            "output_norm.weight",
        ];
        let mut mapped = names.map(|name| Mapping {
            canonical: name.to_owned(),
            stored: Vec::new(),
            stacked: false,
            transform: SAME,
        });
        let row = ConditionalName {
            beside: "layers.{n}.linear_attention.a_log",
            present: false,
            usual: "layers.{n}.ffn_norm.",
            name: "layers.{n}.post_attention_norm.",
        };
        row.apply(&mut mapped);
        let found = mapped.map(|mapping| mapping.canonical);
        let [first, second, _, last] = names;
        assert_eq!(found, [first, second, "layers.1.post_attention_norm.weight", last]);
    }
}
