//! Values that lie on a grid, as those of codes with zero points do: groups of MLX hold them exactly,
//! whatever packed the codes. The scale is the step of the grid, the bias its lowest value.

use crate::GroupParts;

/// Codes of more bits than this have no group dtype.
const LARGEST: f64 = 255.0;

/// Values of `scale * code + bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    scale: f32,
    bias: f32,
    /// The largest code.
    last: u8,
}

impl Grid {
    /// The coarsest grid that holds all values of a group exactly, with at most 256 points.
    fn of(values: &[f32]) -> Option<Self> {
        let low = values.iter().copied().reduce(f32::min)?;
        let high = values.iter().copied().reduce(f32::max)?;
        let range = f64::from(high) - f64::from(low);
        if range == 0.0 {
            return low.is_finite().then_some(Self { scale: 1.0, bias: low, last: 0 });
        }
        let mut step = range;
        for value in values {
            step = common(step, f64::from(*value) - f64::from(low), range / (LARGEST + 0.5))?;
        }
        let last = narrow(range / step)?;
        #[expect(clippy::cast_possible_truncation, reason = "what was lost is found below")]
        let grid = Self { scale: step as f32, bias: low, last };
        values.iter().all(|value| grid.holds(*value)).then_some(grid)
    }

    /// The code of a value.
    fn code(&self, value: f32) -> Option<u8> {
        narrow((f64::from(value) - f64::from(self.bias)) / f64::from(self.scale))
    }

    /// Whether a code gives back the value, with a product that is not rounded: then it does not matter
    /// whether the sum is fused with it.
    fn holds(&self, value: f32) -> bool {
        let Some(code) = self.code(value) else { return false };
        let product = f32::from(code) * self.scale;
        f64::from(product) == f64::from(code) * f64::from(self.scale)
            && product + self.bias == value
    }
}

/// The greatest common divisor of two numbers, if it is at least `least`.
fn common(mut one: f64, mut other: f64, least: f64) -> Option<f64> {
    while other > 0.0 {
        if other < least {
            return None;
        }
        (one, other) = (other, one % other);
    }
    (other == 0.0).then_some(one)
}

/// The nearest code.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
fn narrow(code: f64) -> Option<u8> {
    let code = code.round();
    (0.0..=LARGEST).contains(&code).then_some(code as u8)
}

/// The largest code that groups of `size` values need if each holds its values exactly. `None` if a
/// group does not lie on a grid of 256 points.
///
/// ```
/// use weighbridge_quant::largest_grid_code;
///
/// assert_eq!(largest_grid_code(&[-0.5, 0.0, 0.25, 1.0], 4), Some(6));
/// assert_eq!(largest_grid_code(&[-0.5, 0.0, 0.3, 1.0], 4), None);
/// ```
pub fn largest_grid_code(values: &[f32], size: usize) -> Option<u8> {
    let mut largest = 0;
    for group in values.chunks(size.max(1)) {
        largest = largest.max(Grid::of(group)?.last);
    }
    Some(largest)
}

/// Packs groups of `size` values, each of which lies on a grid, as codes of `bits` bits with scales and
/// biases of `f32`. `None` if a group does not fit.
pub fn pack_grids(values: &[f32], size: usize, bits: u32, to: GroupParts<'_>) -> Option<()> {
    let GroupParts { weight, scale, bias } = to;
    let mut weight = weight.iter_mut();
    let (mut stream, mut filled) = (0_u64, 0);
    let numbers = scale.as_chunks_mut::<4>().0.iter_mut().zip(bias.as_chunks_mut::<4>().0);
    for (group, (scale, bias)) in values.chunks(size.max(1)).zip(numbers) {
        let grid = Grid::of(group).filter(|grid| u64::from(grid.last) < 1 << bits)?;
        (*scale, *bias) = (grid.scale.to_le_bytes(), grid.bias.to_le_bytes());
        for value in group {
            stream |= u64::from(grid.code(*value)?) << filled;
            filled += bits;
            while filled >= 8 {
                let [byte, ..] = stream.to_le_bytes();
                *weight.next()? = byte;
                stream >>= 8;
                filled -= 8;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Float, Global, Packed, Rounding, Stores};

    /// Values of codes with zero points and `f16` scales, as of GPTQ and AWQ.
    fn centred(codes: u8, zero: u8, scale: f32) -> Vec<f32> {
        let code = |number: u8| number.wrapping_mul(37) % codes;
        (0..128).map(|n| scale * (f32::from(code(n)) - f32::from(zero))).collect()
    }

    #[test]
    fn values_of_codes_with_zero_points_come_back_exactly() {
        let bits = [(DType::MLX_AFFINE2, 2), (DType::MLX_AFFINE3, 3), (DType::MLX_AFFINE4, 4)];
        let more = [(DType::MLX_AFFINE5, 5), (DType::MLX_AFFINE6, 6), (DType::MLX_AFFINE8, 8)];
        for (dtype, bits) in bits.into_iter().chain(more) {
            let last = u8::MAX >> (8 - bits);
            let mut values = centred(last, last / 2, 0.013_916_016);
            values.extend(centred(last, 1, -0.25));
            values.extend(centred(1, 0, 1.0));
            assert!(largest_grid_code(&values, 128).is_some_and(|code| code <= last));
            let mut weight = vec![0; values.len() * bits as usize / 8];
            let (mut scale, mut bias) = ([0; 12], [0; 12]);
            let to = GroupParts { weight: &mut weight, scale: &mut scale, bias: &mut bias };
            pack_grids(&values, 128, bits, to).expect("all groups fit");
            let packed = Packed {
                weight: &weight,
                scale: &scale,
                bias: &bias,
                formats: (Float::F32, Float::F32),
                group_size: 128,
                global: Global::None,
            };
            let Some(crate::Decoder::Runs(runs)) = dtype.descriptor().codec.map(|codec| &codec.0)
            else {
                panic!("{dtype} is decoded in runs");
            };
            let mut now = vec![f32::NAN; values.len()];
            runs.decode::<f32>(&packed, &mut now, Rounding::F32, Stores::Cached);
            assert_eq!(now, values, "{dtype}");
        }
    }

    #[test]
    fn values_that_lie_on_no_grid_are_told() {
        let grid = |values: &[f32]| largest_grid_code(values, values.len());
        assert_eq!(grid(&[0.1, 0.2, 0.7, 0.9]), None);
        assert_eq!(grid(&[0.0, 1.0, 256.0]), None);
        assert_eq!(grid(&[0.0, 1.0, 255.0]), Some(255));
        for other in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(grid(&[0.0, other, 1.0]), None);
            assert_eq!(grid(&[other, other]), None);
        }
        // The range is too wide for any number of the smallest steps.
        assert_eq!(grid(&[f32::MIN_POSITIVE, f32::MAX, 1.0]), None);
        assert_eq!(grid(&[f32::MIN, f32::MAX]), None);
    }
}
