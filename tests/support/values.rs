//! Compares values with expected ones, bit for bit.

use weighbridge::Tensor;
use weighbridge::model::DecodeOptions;
use weighbridge::quant::Element;

/// The bits of a number, with all NaN equal.
fn bits(value: f32) -> u32 {
    if value.is_nan() { u32::MAX } else { value.to_bits() }
}

pub(crate) fn same(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(bits(*found), bits(*expected), "{what}: value {place}: {found}, not {expected}");
    }
}

/// Checks values against `expected`, rounded once with the crate `half`.
pub(crate) fn same_rounded<T: Element>(
    what: &str,
    tensor: &Tensor,
    expected: &[f32],
    round: fn(f32) -> T,
    back: fn(T) -> f32,
) {
    let mut out = vec![round(0.0); expected.len()];
    let lost = tensor.dequantize_into(&mut out, &DecodeOptions::new()).expect("values");
    let found: Vec<f32> = out.into_iter().map(back).collect();
    let rounded: Vec<f32> = expected.iter().map(|value| back(round(*value))).collect();
    same(what, &found, &rounded);
    let pairs = || expected.iter().zip(&rounded);
    let over = pairs().filter(|(a, b)| a.is_finite() && b.is_infinite()).count() as u64;
    let under = pairs().filter(|(a, b)| **a != 0.0 && **b == 0.0).count() as u64;
    assert_eq!((lost.overflows, lost.flushes), (over, under), "{what}");
}
