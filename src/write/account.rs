//! An account of everything that a plan reads: each item has one outcome.

use std::collections::HashSet;

/// The outcome of each stored tensor and its parts, each metadata key, each key of `config.json`
/// and each file next to the weights. What a plan refuses is an error, for which there is no plan.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[non_exhaustive]
pub struct Account {
    /// The items, in the order of the source's files.
    pub items: Vec<AccountedItem>,
    #[cfg_attr(feature = "serde", serde(skip))]
    known: HashSet<(ItemKind, String)>,
}

/// Something that was read, and its outcome.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct AccountedItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// Its name in the files of the source.
    pub name: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The place where it is written, what is derived from it, or the reason why it is left out.
    pub detail: String,
}

/// The kind of an [`AccountedItem`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ItemKind {
    /// A stored tensor.
    Tensor,
    /// An array of a stored tensor that has several: codes, scales.
    Part,
    /// A key of the metadata in the header of a file.
    Key,
    /// A key of `config.json`. Those of a language model's own config have its name before them.
    ConfigKey,
    /// A file next to the weights.
    File,
}

/// The outcome of an [`AccountedItem`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Outcome {
    /// It is written, possibly under another name or in another dtype.
    Written,
    /// Something else that is written is derived from it.
    Derived,
    /// It is left out.
    LeftOut,
}

impl Account {
    /// Adds an item. The first outcome of an item counts.
    pub(crate) fn add(
        &mut self,
        kind: ItemKind,
        name: impl Into<String>,
        outcome: Outcome,
        detail: impl Into<String>,
    ) {
        let name = name.into();
        if self.known.insert((kind, name.clone())) {
            self.items.push(AccountedItem { kind, name, outcome, detail: detail.into() });
        }
    }
}
