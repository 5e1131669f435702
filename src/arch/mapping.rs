//! The stored tensors that hold a canonical one.

use std::collections::BTreeSet;

use super::transform::{Axes, Transform};
use crate::store::Store;

/// A canonical tensor and the stored tensors that hold it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mapping {
    /// The name that engines ask for.
    pub canonical: String,
    /// The names in the file: one name, or one for each expert in order.
    pub stored: Vec<String>,
    /// Whether each expert has a stored tensor of its own. Together they form one canonical tensor
    /// with an additional axis.
    pub stacked: bool,
    /// The change from the canonical tensor, or from its expert's part of it, to each stored
    /// tensor.
    pub transform: Transform,
}

/// The layers that predict further tokens and whose tensors have names, by number. They follow those of
/// the language model.
pub(super) fn next_layers(mapped: &[Mapping]) -> BTreeSet<u32> {
    let next = |mapping: &Mapping| {
        let (layer, rest) = mapping.canonical.strip_prefix("layers.")?.split_once('.')?;
        layer.parse::<u32>().ok().filter(|_| rest.starts_with("nextn."))
    };
    let layers: BTreeSet<u32> = mapped.iter().filter_map(next).collect();
    if layers.contains(&0) { BTreeSet::new() } else { layers }
}

/// Decides how matrices of experts are stored whose own shapes do not say it, since they are square: as the others, which are
/// not. A model has all of them in one layout.
pub(super) fn settle_square_matrices(mapped: &mut [Mapping], store: &Store) {
    let matrix = |mapping: &Mapping| {
        let axes = mapping.transform.axes;
        let by_width = matches!(axes, Axes::WidthLast | Axes::WidthFirst);
        let tensor = by_width.then(|| store.tensor(mapping.stored.first()?).ok()).flatten()?;
        tensor.shape().last_chunk::<2>().map(|sides| (axes, *sides))
    };
    let square = |mapping: &Mapping| matrix(mapping).filter(|(_, [a, b])| a == b);
    let Some((_, [width, _])) = mapped.iter().find_map(square) else { return };
    let is_swapped = |mapping: &Mapping| match matrix(mapping) {
        Some((Axes::WidthLast, [first, last])) => first == width && last != width,
        Some((_, [first, last])) => last == width && first != width,
        None => false,
    };
    if !mapped.iter().any(is_swapped) {
        return;
    }
    for mapping in mapped {
        if square(mapping).is_some() {
            mapping.transform.axes = Axes::Transposed;
        }
    }
}
