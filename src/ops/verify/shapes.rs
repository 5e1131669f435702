//! Compares tensor shapes with those that the config determines.

use crate::arch::size::Size;
use crate::arch::{ModelConfig, Resolution};

/// The fault of a canonical tensor whose shape differs from the one that the config determines.
pub(super) fn fault(
    config: &ModelConfig,
    resolution: &Resolution,
    canonical: &str,
    shape: &[u64],
) -> Option<String> {
    let tensor = resolution.canonical_tensor(canonical)?;
    let layer = tensor.layer.unwrap_or(0);
    let mut expected = Vec::new();
    for sizes in tensor.shapes(Some(config)) {
        // A size that the config does not state is not checked.
        let stated = |size: &Size| match size {
            Size::Any => Some(None),
            size => size.of(config, layer).map(Some),
        };
        let Some(stated) = sizes.iter().map(stated).collect::<Option<Vec<_>>>() else { continue };
        if fits(&stated, shape) {
            return None;
        }
        let lengths: Option<Vec<u64>> = stated.into_iter().collect();
        expected.extend(lengths.map(|lengths| (lengths, sizes)));
    }
    // The closest of the allowed shapes is reported.
    let distance = |(lengths, _): &&(Vec<u64>, &[Size])| {
        let same = lengths.iter().zip(shape).filter(|(a, b)| a == b).count();
        (lengths.len() != shape.len(), lengths.len().saturating_sub(same))
    };
    let (lengths, sizes) = expected.iter().min_by_key(distance)?;
    let wrong = sizes.iter().zip(lengths).enumerate();
    let wrong: Vec<String> = wrong
        .filter(|(axis, (_, length))| shape.get(*axis) != Some(length))
        .map(|(_, (size, length))| format!("{} is {length}", size.describe(config)))
        .collect();
    Some(format!("{canonical}: the shape is {shape:?}, but {}", wrong.join(" and ")))
}

/// Whether a shape has the stated lengths; `None` stands for any. A vector may be stored as a matrix of one row or one column.
fn fits(stated: &[Option<u64>], shape: &[u64]) -> bool {
    let stated = stated.iter().filter(|length| **length != Some(1));
    let found: Vec<u64> = shape.iter().copied().filter(|&length| length != 1).collect();
    let same = |(stated, found): (&Option<u64>, &u64)| stated.is_none_or(|stated| stated == *found);
    stated.clone().count() == found.len() && stated.zip(&found).all(same)
}
