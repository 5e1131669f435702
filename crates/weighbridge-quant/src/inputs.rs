//! The inputs of products with packed rows.

use std::sync::OnceLock;

use super::kernel::{KernelBody, KernelSignature, Kernels};
use super::simd::{Digits, Simd};

/// One row of inputs, prepared once for products with many packed rows.
///
/// ```
/// use weighbridge_quant::{Codec, DType, Decoder, Inputs, PackedRows};
///
/// let Some(Codec(Decoder::Runs(runs))) = DType::F32.descriptor().codec else { unreachable!() };
/// let (row, inputs) = ([2.0f32; 16], [0.5; 16]);
/// let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
/// let mut out = [0.0];
/// assert!(runs.multiply(PackedRows { bytes: &bytes, step: 1 }, &Inputs::new(&inputs), &mut out));
/// assert_eq!(out, [16.0]);
/// ```
#[derive(Debug)]
pub struct Inputs<'a> {
    values: &'a [f32],
    lines: Vec<Line>,
    blocks: OnceLock<Vec<InputBlock>>,
}

/// 16 numbers in one line of the cache: reading them across two would take twice as long.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [f32; 16]);

/// Lines of a block.
const LINES: usize = 16;

/// 256 inputs as integers, whose products with codes of weights are exact.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct InputBlock {
    /// The numbers, each at most 2^20, in three digits of seven bits.
    pub(crate) digits: [Digits; 4],
    /// The sums of each 16 numbers; and 8 zeros, then the sums of each 32.
    pub(crate) sums: [[f32; 16]; 2],
    /// The input that the number 1 stands for, a power of two. NaN if an input is not finite.
    pub(crate) scale: f32,
}

impl<'a> Inputs<'a> {
    /// Prepares a row.
    pub fn new(values: &'a [f32]) -> Self {
        let line = |values: &[f32]| {
            let mut line = Line([0.0; 16]);
            line.0.iter_mut().zip(values).for_each(|(to, value)| *to = *value);
            line
        };
        Self { values, lines: values.chunks(16).map(line).collect(), blocks: OnceLock::new() }
    }

    /// The numbers themselves.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Whole blocks of 256.
    pub(crate) fn blocks(&self) -> &[InputBlock] {
        static KERNELS: Kernels<Rounding> = Kernels::of::<Rounding>();
        self.blocks.get().unwrap_or_else(|| {
            // Threads that need them at once round for themselves: that takes less time than to sleep until
            // another one has done it.
            let blocks = KERNELS.run(&self.lines);
            self.blocks.get_or_init(|| blocks)
        })
    }
}

/// Rounds inputs to integers.
struct Rounding;

impl KernelSignature for Rounding {
    type Input<'a> = &'a [Line];
    type Output = Vec<InputBlock>;
}

impl KernelBody<Self> for Rounding {
    #[inline(always)]
    fn run<S: Simd>(_: S, lines: &[Line]) -> Vec<InputBlock> {
        lines.as_chunks::<LINES>().0.iter().map(rounded).collect()
    }
}

/// 2^23 + 2^22: the sum with a smaller number has it, rounded to an integer, as its lowest bits.
const ROUNDER: f32 = 12_582_912.0;

#[inline(always)]
fn rounded(lines: &[Line; LINES]) -> InputBlock {
    let mut largest = [0; 16];
    for line in lines {
        for (largest, value) in largest.iter_mut().zip(line.0) {
            // As bits, NaN is larger than infinity, and that larger than all numbers.
            *largest = value.abs().to_bits().max(*largest);
        }
    }
    let exponent = largest.into_iter().max().unwrap_or(0) >> 23;
    // The largest becomes 2^19 to 2^20. What is rounded of very small ones is less than 2^-126.
    let exponent = exponent.max(20);
    let factor = f32::from_bits((273 - exponent) << 23);
    let mut block = InputBlock {
        digits: [[[0; 64]; 3]; 4],
        sums: [[0.0; 16]; 2],
        scale: f32::from_bits((exponent - 19) << 23),
    };
    if exponent == 255 {
        return InputBlock { scale: f32::NAN, ..block };
    }
    for (number, line) in lines.iter().enumerate() {
        let (digits, at) = (&mut block.digits[number / 4], 16 * (number % 4));
        let mut sum = 0;
        for lane in 0..16 {
            let number = (line.0[lane] * factor + ROUNDER).to_bits().cast_signed();
            let number = number - ROUNDER.to_bits().cast_signed();
            let last = lowest(number);
            let rest = (number - last) >> 7;
            let middle = lowest(rest);
            digits[0][at + lane] = byte((rest - middle) >> 7);
            digits[1][at + lane] = byte(middle);
            digits[2][at + lane] = byte(last);
            sum += number;
        }
        // Exact: at most 2^24.
        let sum = sum as f32;
        block.sums[0][number] = sum;
        block.sums[1][8 + number / 2] += sum;
    }
    block
}

/// The lowest seven bits as a number from -64 to 63.
#[inline(always)]
fn lowest(number: i32) -> i32 {
    ((number + 64) & 127) - 64
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
fn byte(digit: i32) -> i8 {
    digit as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_21_bits() {
        for (scale, step) in [(1.0f32, 2f32.powi(-19)), (3e38, 2f32.powi(108)), (1e-40, 0.0)] {
            let values: Vec<f32> =
                (0..512i32).map(|n| scale * ((n * 7919 % 1013) as f32 / 506.0 - 1.0)).collect();
            let inputs = Inputs::new(&values);
            for (block, values) in inputs.blocks().iter().zip(values.chunks(256)) {
                let mut sums = [0.0f64; 16];
                for (at, value) in values.iter().enumerate() {
                    let [high, middle, low] =
                        block.digits[at / 64].map(|digits| i32::from(digits[at % 64]));
                    let number = (high << 14) + (middle << 7) + low;
                    sums[at / 16] += f64::from(number);
                    let off = (number as f32 * block.scale - value).abs();
                    assert!(off <= step.max(1e-38) / 2.0, "{number} for {value}");
                }
                assert_eq!(block.sums[0].map(f64::from), sums);
                let pairs: Vec<f64> = sums.chunks(2).map(|pair| pair[0] + pair[1]).collect();
                assert_eq!(block.sums[1].map(f64::from)[8..], pairs);
            }
            assert_eq!(inputs.blocks().len(), 2);
        }
        for bad in [f32::NAN, f32::NEG_INFINITY] {
            let mut values = [1.0; 256];
            values[77] = bad;
            assert!(Inputs::new(&values).blocks()[0].scale.is_nan());
        }
        // A number with 20 bits, the sums of 16 of the largest, and zeros are exact.
        let inputs = Inputs::new(&[1_048_575.0; 256]);
        let block = &inputs.blocks()[0];
        assert_eq!(block.sums[0].map(|sum| sum * block.scale), [16.0 * 1_048_575.0; 16]);
        assert_eq!(Inputs::new(&[0.0; 256]).blocks()[0].digits, [[[0; 64]; 3]; 4]);
    }
}
