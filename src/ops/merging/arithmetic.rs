//! The arithmetic of merging methods, on chunks of tensors in `f32`.

use std::ops::Range;

use half::{bf16, f16};
use zerocopy::{FromBytes, IntoBytes};

use super::keep::{Kept, Settled};
use super::methods::MergeMethod;
use super::rows::TokenRows;
use crate::bytes::Scratch;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::rounding::f32_of;
use crate::store::tensor::DecodeOptions;

/// The number of values that are merged at a time: few enough that those of several models are in the
/// processor's cache together.
const CHUNK: u64 = 1 << 17;

/// A tensor that is merged, with its settings.
#[derive(Debug)]
pub(super) struct Input {
    tensor: Tensor,
    /// The rows in another order, for a tensor with a row for each token.
    rows: Option<TokenRows>,
    pub(super) weight: f64,
    pub(super) density: f64,
    pub(super) scale: f64,
}

impl Input {
    pub(super) fn new(tensor: Tensor, rows: Option<TokenRows>) -> Self {
        Self { tensor, rows, weight: 1.0, density: 1.0, scale: 1.0 }
    }

    pub(super) fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The elements of a row that is decoded as a whole.
    fn width(&self) -> u64 {
        match &self.rows {
            Some(rows) => rows.width,
            None => self.tensor.gathered_shape().1,
        }
    }

    /// Reads some values. The buffer is kept for the next call.
    fn read(&self, range: &Range<u64>, out: &mut Vec<f32>, scratch: &mut Scratch) -> Result<()> {
        let width = self.width().max(1);
        let rows = range.start / width..range.end.div_ceil(width);
        let at = |element: u64| usize::try_from(element).unwrap_or(usize::MAX);
        match &self.rows {
            Some(tokens) => {
                out.clear();
                tokens.read(rows.clone(), out)?;
            }
            None => {
                let count = at((rows.end - rows.start).saturating_mul(width));
                if out.capacity() < count {
                    *out = crate::bytes::try_vec(count)?;
                }
                out.resize(count, 0.0);
                let decoding = DecodeOptions::new();
                self.tensor.decode_bulk(rows.clone(), out, &decoding, scratch)?;
            }
        }
        let before = range.start - rows.start * width;
        out.truncate(at(before.saturating_add(range.end - range.start)));
        out.drain(..at(before).min(out.len()));
        Ok(())
    }
}

/// The method and the settings by which one tensor is merged.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) method: MergeMethod,
    pub(super) base: Option<Input>,
    pub(super) inputs: Vec<Input>,
    pub(super) normalize: bool,
    /// Whether what is left of a difference is scaled to the sum of magnitudes before.
    pub(super) rescale: bool,
    pub(super) lambda: f64,
    pub(super) t: f64,
    pub(super) elements: u64,
}

/// The buffers of one thread.
#[derive(Debug, Default)]
pub(super) struct MergeBuffers {
    scratch: Scratch,
    /// The values of the base or of the first input, which become the result.
    pub(super) out: Vec<f32>,
    /// Those of the other inputs, or their differences from the base.
    pub(super) others: Vec<Vec<f32>>,
    /// The result in its dtype.
    encoded: Vec<u16>,
}

impl MergeBuffers {
    /// The bytes of the result in a dtype: F16, BF16, else F32.
    pub(super) fn encoded(&mut self, dtype: DType) -> Result<&[u8]> {
        let (values, count) = (self.out.as_bytes(), self.out.len());
        if !matches!(dtype, DType::F16 | DType::BF16) {
            return Ok(values);
        }
        self.encoded.resize(count, 0);
        let torn = || Error::mismatch("numbers of another width");
        let room = self.encoded.as_mut_bytes();
        match dtype {
            DType::F16 => {
                let room = <[f16]>::mut_from_bytes(room).map_err(|_| torn())?;
                DType::F32.dequantize_rows(values, count, room)?;
            }
            _ => {
                let room = <[bf16]>::mut_from_bytes(room).map_err(|_| torn())?;
                DType::F32.dequantize_rows(values, count, room)?;
            }
        }
        Ok(self.encoded.as_bytes())
    }
}

/// Weights whose sum is smaller are not divided by.
pub(super) const LEAST_SUM: f64 = 1e-8;

impl Merge {
    pub(super) fn check(&self) -> Result<()> {
        let fault = match (self.method, self.inputs.len()) {
            (MergeMethod::Slerp, 1) if self.base.is_some() => return Ok(()),
            (MergeMethod::Slerp, _) => "slerp merges a base and one other model",
            (MergeMethod::Passthrough, 1) => return Ok(()),
            (MergeMethod::Passthrough, _) => "passthrough takes each tensor from one model",
            (method, _) if method.needs_base() && self.base.is_none() => {
                return Err(Error::mismatch(format!("{} requires a base model", method.name())));
            }
            _ => return Ok(()),
        };
        Err(Error::mismatch(fault))
    }

    /// The base and the inputs.
    fn all(&self) -> impl Iterator<Item = &Input> {
        self.base.iter().chain(&self.inputs)
    }

    /// The tensors that are read.
    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.all().map(Input::tensor)
    }

    /// Whether the values are those of a stored tensor in its own dtype.
    pub(super) fn is_copy(&self, dtype: DType) -> bool {
        let unchanged = |input: &Input| {
            let own = input.tensor.dtype().is_ok_and(|own| own == dtype);
            own && input.tensor.values_dtype() == dtype
                && input.rows.is_none()
                && input.scale == 1.0
        };
        self.method == MergeMethod::Passthrough && self.inputs.first().is_some_and(unchanged)
    }

    /// Whether a few values cannot be read without the whole tensor: stored columns are its rows.
    pub(super) fn is_whole(&self) -> bool {
        self.all().any(|input| input.tensor.rows_at_once().is_some())
    }

    /// The chunks of a range, which end between rows of the inputs.
    pub(super) fn chunks(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let width = self.all().map(Input::width).max().unwrap_or(1).max(1);
        let step = (CHUNK / width).max(1).saturating_mul(width);
        let mut start = range.start;
        std::iter::from_fn(move || {
            let end = (start / step).saturating_add(1).saturating_mul(step).min(range.end);
            let chunk = start..end;
            start = end;
            (!chunk.is_empty()).then_some(chunk)
        })
    }

    /// Computes some values, which are then in `out` of the buffers.
    pub(super) fn compute(
        &self,
        range: &Range<u64>,
        settled: &Settled,
        buffers: &mut MergeBuffers,
    ) -> Result<()> {
        match self.method {
            MergeMethod::Linear => self.linear(range, buffers),
            MergeMethod::TaskArithmetic
            | MergeMethod::Ties
            | MergeMethod::DareLinear
            | MergeMethod::DareTies => self.differences(range, settled, buffers),
            MergeMethod::Slerp => {
                self.pair(range, buffers)?;
                let (of_a, of_b) = settled.arc;
                let other = buffers.others.first().map_or(&[][..], Vec::as_slice);
                buffers.out.iter_mut().zip(other).for_each(|(a, b)| *a = of_a * *a + of_b * b);
                Ok(())
            }
            MergeMethod::Passthrough => {
                let Some(input) = self.inputs.first() else { return Ok(()) };
                input.read(range, &mut buffers.out, &mut buffers.scratch)?;
                if input.scale != 1.0 {
                    let scale = f32_of(input.scale);
                    buffers.out.iter_mut().for_each(|value| *value *= scale);
                }
                Ok(())
            }
        }
    }

    fn linear(&self, range: &Range<u64>, buffers: &mut MergeBuffers) -> Result<()> {
        let MergeBuffers { scratch, out, others, .. } = buffers;
        others.resize_with(others.len().max(1), Vec::new);
        let values = others.first_mut().ok_or_else(|| Error::mismatch("no buffer"))?;
        for (number, input) in self.inputs.iter().enumerate() {
            let weight = f32_of(input.weight);
            if number == 0 {
                input.read(range, out, scratch)?;
                out.iter_mut().for_each(|value| *value *= weight);
            } else {
                input.read(range, values, scratch)?;
                out.iter_mut().zip(&*values).for_each(|(sum, value)| *sum += value * weight);
            }
        }
        let total: f64 = self.inputs.iter().map(|input| input.weight).sum();
        if self.normalize && total.abs() >= LEAST_SUM {
            let total = f32_of(total);
            out.iter_mut().for_each(|value| *value /= total);
        }
        Ok(())
    }

    /// Reads values of the base and of the only other model.
    pub(super) fn pair(&self, range: &Range<u64>, buffers: &mut MergeBuffers) -> Result<()> {
        let MergeBuffers { scratch, out, others, .. } = buffers;
        others.resize_with(others.len().max(1), Vec::new);
        if let (Some(base), Some(other), Some(values)) =
            (&self.base, self.inputs.first(), others.first_mut())
        {
            base.read(range, out, scratch)?;
            other.read(range, values, scratch)?;
        }
        Ok(())
    }

    /// Reads values of the base, and the differences of an input from them, which are the values of
    /// `others` with this number.
    pub(super) fn difference(
        &self,
        range: &Range<u64>,
        number: usize,
        buffers: &mut MergeBuffers,
    ) -> Result<()> {
        let MergeBuffers { scratch, out, others, .. } = buffers;
        others.resize_with(others.len().max(number.saturating_add(1)), Vec::new);
        if let (Some(base), Some(input), Some(delta)) =
            (&self.base, self.inputs.get(number), others.get_mut(number))
        {
            // The first difference of a chunk reads the base for all of them.
            if number == 0 || out.is_empty() {
                base.read(range, out, scratch)?;
            }
            input.read(range, delta, scratch)?;
            delta.iter_mut().zip(&*out).for_each(|(value, base)| *value -= base);
        }
        Ok(())
    }

    /// The base plus differences from it.
    fn differences(
        &self,
        range: &Range<u64>,
        settled: &Settled,
        buffers: &mut MergeBuffers,
    ) -> Result<()> {
        buffers.out.clear();
        for (number, (input, kept)) in self.inputs.iter().zip(&settled.kept).enumerate() {
            self.difference(range, number, buffers)?;
            let Some(delta) = buffers.others.get_mut(number) else { continue };
            kept.keep.apply(range.start, delta);
            let weight = f32_of(input.weight);
            let Kept { scale, .. } = *kept;
            delta.iter_mut().for_each(|value| *value = *value * scale * weight);
        }
        let MergeBuffers { out, others, scratch, .. } = buffers;
        if let (true, Some(base)) = (self.inputs.is_empty(), &self.base) {
            base.read(range, out, scratch)?;
        }
        let deltas = others.get(..self.inputs.len()).unwrap_or_default();
        let weights: Vec<f32> = self.inputs.iter().map(|input| f32_of(input.weight)).collect();
        let lambda = f32_of(self.lambda);
        if matches!(self.method, MergeMethod::Ties | MergeMethod::DareTies) {
            add_agreeing(out, deltas, &weights, self.normalize, lambda);
            return Ok(());
        }
        let all: f64 = self.inputs.iter().map(|input| input.weight).sum();
        let divides = self.normalize && all.abs() >= LEAST_SUM;
        let divisor = if divides { f32_of(all) } else { 1.0 };
        for (start, out) in (0..).step_by(BLOCK).zip(out.chunks_mut(BLOCK)) {
            let mut mixed = [0.0f32; BLOCK];
            for delta in deltas {
                let delta = delta.get(start..).unwrap_or_default();
                mixed.iter_mut().zip(delta).for_each(|(sum, value)| *sum += value);
            }
            out.iter_mut().zip(&mixed).for_each(|(out, sum)| *out += sum / divisor * lambda);
        }
        Ok(())
    }
}

/// Values whose sums are computed in registers and on the stack.
const BLOCK: usize = 512;

/// Adds to each value the weighted differences that have the sign of their sum. A sum of 0 counts as
/// positive.
fn add_agreeing(
    out: &mut [f32],
    deltas: &[Vec<f32>],
    weights: &[f32],
    normalize: bool,
    lambda: f32,
) {
    for (start, out) in (0..).step_by(BLOCK).zip(out.chunks_mut(BLOCK)) {
        let (mut total, mut mixed, mut divisor) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let own = || deltas.iter().map(|delta| delta.get(start..).unwrap_or_default());
        for delta in own() {
            total.iter_mut().zip(delta).for_each(|(sum, value)| *sum += value);
        }
        for (delta, weight) in own().zip(weights) {
            let sums = total.iter().zip(&mut mixed).zip(&mut divisor);
            for (((total, mixed), divisor), &value) in sums.zip(delta) {
                let agrees = if *total >= 0.0 { value > 0.0 } else { value < 0.0 };
                *mixed += if agrees { value } else { 0.0 };
                *divisor += if agrees { *weight } else { 0.0 };
            }
        }
        for ((out, mixed), divisor) in out.iter_mut().zip(&mixed).zip(&divisor) {
            let divisor = if normalize && *divisor != 0.0 { *divisor } else { 1.0 };
            *out += mixed / divisor * lambda;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_elected() {
        let of = |values: [f32; 3], normalize| {
            let deltas = values.map(|value| vec![value; BLOCK + 3]);
            let mut out = vec![1.0; BLOCK + 3];
            add_agreeing(&mut out, &deltas, &[1.0, 0.5, 0.25], normalize, 2.0);
            assert!(out.windows(2).all(|pair| pair[0] == pair[1]));
            out[0]
        };
        assert_eq!(of([1.0, -0.5, 2.0], false), 7.0);
        assert_eq!(of([1.0, -0.5, 2.0], true), 1.0 + 3.0 / 1.25 * 2.0);
        assert_eq!(of([1.0, -3.0, 0.0], true), 1.0 - 3.0 / 0.5 * 2.0);
        assert_eq!(of([0.0, 0.0, 0.0], true), 1.0);
    }
}
