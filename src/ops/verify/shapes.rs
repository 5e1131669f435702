//! Compares tensor shapes with those that the config determines.

use crate::arch::ModelConfig;
use crate::arch::size::Size;
use crate::arch::tensor::CanonicalTensor;

/// The fault of a canonical tensor whose shape differs from the one that the config determines.
pub(super) fn fault(config: &ModelConfig, canonical: &str, shape: &[u64]) -> Option<String> {
    let tensor = CanonicalTensor::of(canonical)?;
    let layer = tensor.layer.unwrap_or(0);
    let mut expected = Vec::new();
    for sizes in tensor.shapes(Some(config)) {
        // A size that the config does not state is not checked.
        let lengths: Option<Vec<u64>> = sizes.iter().map(|size| size.of(config, layer)).collect();
        let Some(lengths) = lengths else { continue };
        // A vector may be stored as a matrix of one row or one column.
        let squeezed = |shape: &[u64]| -> Vec<u64> {
            shape.iter().copied().filter(|&length| length != 1).collect()
        };
        if squeezed(&lengths) == squeezed(shape) {
            return None;
        }
        expected.push((lengths, sizes));
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
