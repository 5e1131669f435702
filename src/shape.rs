//! Shapes: dimensions outermost first, as NumPy and PyTorch write them. GGUF's order is turned
//! round when the file is read.

/// The number of elements, or `None` where it overflows 64 bits.
///
/// No dimensions make a scalar: one element. Dimensions multiply in the order written, so
/// `[0, 2^40, 2^40]` is empty while `[2^40, 2^40, 0]` overflows, as in the safetensors crate.
pub fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

/// The last dimension: the length of a row. A scalar is a row of one.
pub fn columns(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(1)
}

/// The arrays that the dimensions before an axis count, and that axis's length. What has no elements
/// counts as one array, whatever its dimensions claim.
pub fn arrays(shape: &[u64], axis: usize) -> (u64, u64) {
    let (outer, inner) = shape.split_at_checked(axis).unwrap_or((&[], shape));
    let length = inner.first().copied().unwrap_or(1);
    match elements(shape) {
        None | Some(0) => (1, length),
        Some(_) => (elements(outer).unwrap_or(1), length),
    }
}
