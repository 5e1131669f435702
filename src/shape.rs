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
