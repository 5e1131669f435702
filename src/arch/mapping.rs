//! The stored tensors that hold a canonical one.

use std::collections::BTreeSet;

use super::transform::Transform;

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
