//! Names that depend on the other tensors of a model.

use super::{Mapping, rule};

/// Canonical names that tensors have instead of others, in a model that has a third tensor or lacks it.
#[derive(Debug)]
pub(crate) struct ConditionalName {
    /// The third tensor's canonical name; `{n}` stands for the number of any layer.
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
        let layers = || patterns.iter().map(|pattern| pattern.layers.as_str());
        let is_usual = |name: &str| name.starts_with(self.usual);
        if layers().any(|name| name == self.beside) != self.present
            || layers().any(|name| name.starts_with(self.name) && !is_usual(name))
        {
            return;
        }
        let renamed: Vec<_> = patterns
            .iter()
            .map(|pattern| {
                let rest = pattern.layers.strip_prefix(self.usual)?;
                Some(rule::expand(&format!("{}{rest}", self.name), pattern.layer))
            })
            .collect();
        for (mapping, name) in mapped.iter_mut().zip(renamed) {
            mapping.canonical = name.unwrap_or_else(|| std::mem::take(&mut mapping.canonical));
        }
    }
}
