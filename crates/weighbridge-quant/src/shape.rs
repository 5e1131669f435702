//! Shapes: dimensions in the order of NumPy and PyTorch, outermost first. Reading a GGUF file
//! reverses its order.

/// The number of elements, or `None` if it exceeds 64 bits.
///
/// A shape without dimensions is a scalar: one element. Dimensions are multiplied in the order
/// written, so `[0, 2^40, 2^40]` is empty while `[2^40, 2^40, 0]` overflows, as in the safetensors
/// crate.
#[inline]
pub fn elements(shape: &[u64]) -> Option<u64> {
    shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim))
}

/// The last dimension: the length of a row. A scalar is one row of one element.
#[inline]
pub fn columns(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(1)
}

/// The indices, outermost first, of the element at this position in row-major order.
pub fn indices(position: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = position;
    let mut indices: Vec<u64> = Vec::new();
    for &dim in shape.iter().rev() {
        indices.push(rest % dim.max(1));
        rest /= dim.max(1);
    }
    indices.reverse();
    indices
}

/// The product of the dimensions before `axis`, and the dimension at `axis`. A tensor without
/// elements counts as one array, whatever its dimensions claim.
pub fn arrays(shape: &[u64], axis: usize) -> (u64, u64) {
    let (outer, inner) = shape.split_at_checked(axis).unwrap_or((&[], shape));
    let length = inner.first().copied().unwrap_or(1);
    match elements(shape) {
        None | Some(0) => (1, length),
        Some(_) => (elements(outer).unwrap_or(1), length),
    }
}
