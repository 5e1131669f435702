//! Refuses to quantize what no block holds: NaN, infinities, and values beyond the range of a block's
//! scale.
//!
//! As llama-quantize does, it checks the values before they are quantized and the scales afterwards. Both
//! checks compare bits, so that they cost less than reading the values.

use std::num::Wrapping;
use std::ops::{BitAnd, BitOr, Not, Range, Sub};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::bytes::try_vec;
use crate::dtype::DType;
use crate::error::{AdvisedOption, Error, ErrorKind, Result};
use crate::model::Tensor;
use crate::quant::{Float, bf16, f16};
use crate::shape;
use crate::store::tensor::{DecodeOptions, odd_block};

/// Values of a tensor that are being quantized.
#[derive(Clone, Debug)]
pub(super) struct QuantizedRows<'a> {
    pub(super) view: &'a Tensor,
    /// Its gathered rows.
    pub(super) rows: Range<u64>,
    /// The dtype of the output.
    pub(super) dtype: DType,
}

/// The largest magnitude of dtypes whose scales saturate, and the magnitude from which on they clip
/// values by more than they round others.
const SATURATING: &[(DType, f32, f32)] =
    &[(DType::NVFP4, 2688.0, 3136.0), (DType::MLX_NVFP4, 2688.0, 3136.0)];

/// Dtypes whose scales are computed from sums of squares, and the magnitude from which on these overflow, so that a block
/// would be zeros. It is far beyond the range of their scales.
const OVERFLOWING: [DType; 3] = [DType::Q3_K, DType::Q6_K, DType::IQ4_XS];
const SQUARES: f32 = 1e18;

/// Values that stay in a core's cache between two checks.
const CACHED: usize = 16 << 10;

impl QuantizedRows<'_> {
    /// Quantizes whole rows of `columns` values to blocks, and checks both unless `checks` is false.
    ///
    /// # Errors
    ///
    /// As [`check_values`](Self::check_values) and [`DType::quantize_rows`].
    pub(super) fn quantize(
        &self,
        values: &[f32],
        columns: usize,
        importance: Option<&[f32]>,
        out: &mut [u8],
        checks: bool,
    ) -> Result<()> {
        let rows = values.len().checked_div(columns).unwrap_or(0);
        let row_bytes = out.len().checked_div(rows).unwrap_or(0);
        let step = CACHED.checked_div(columns).unwrap_or(0).max(1);
        if !checks || row_bytes == 0 {
            return Ok(self.dtype.quantize_rows(values, columns, importance, out)?);
        }
        let values = values.chunks(step.saturating_mul(columns));
        let blocks = out.chunks_mut(step.saturating_mul(row_bytes));
        let mut first = 0usize;
        for (values, blocks) in values.zip(blocks) {
            self.check_values(values.as_bytes(), DType::F32, first)?;
            self.dtype.quantize_rows(values, columns, importance, blocks)?;
            self.check_blocks(blocks, first)?;
            first = first.saturating_add(values.len());
        }
        Ok(())
    }

    /// Checks values before they are quantized. `bytes` are native numbers of the plain dtype `values`;
    /// `first` is the place of the first of them.
    ///
    /// # Errors
    ///
    /// `Malformed` for NaN and infinities, `Unsupported` for finite values that the dtype would clip.
    pub(super) fn check_values(&self, bytes: &[u8], values: DType, first: usize) -> Result<()> {
        let limit = SATURATING.iter().find(|(dtype, ..)| *dtype == self.dtype);
        let overflows = OVERFLOWING.contains(&self.dtype);
        let limit = limit.map(|(.., from)| *from).or(overflows.then_some(SQUARES));
        let half = |most| first_above(cast(bytes), Wrapping(0x7fff_u16), Wrapping(most));
        let found = match values {
            DType::F16 => {
                half(limit.map_or(0x7bff, |from| f16::from_f32(from).to_bits().min(0x7bff)))
            }
            DType::BF16 => half(limit.map_or(0x7f7f, |from| bf16::from_f32(from).to_bits())),
            _ => {
                let most = limit.map_or(0x7f7f_ffff, f32::to_bits);
                first_above(cast(bytes), Wrapping(0x7fff_ffff_u32), Wrapping(most))
            }
        };
        let Some(place) = found else { return Ok(()) };
        let place = first.saturating_add(place);
        Err(self.refused(place..place.saturating_add(1)))
    }

    /// Checks the scales of quantized blocks. `first` is the place of the first value.
    ///
    /// # Errors
    ///
    /// `Unsupported` if a scale is not finite, because it is beyond the range of its format.
    fn check_blocks(&self, blocks: &[u8], first: usize) -> Result<()> {
        let Some(number) = odd_block(self.dtype, blocks) else { return Ok(()) };
        self.refuse_group(number, self.dtype.descriptor().block_len as usize, first)
    }

    /// Checks the scales or biases of quantized groups.
    ///
    /// # Errors
    ///
    /// As [`check_blocks`](Self::check_blocks).
    pub(super) fn check_groups(&self, numbers: &[u8], format: Float, group: usize) -> Result<()> {
        let odd = |bytes: &[u8]| !format.number(bytes).is_finite();
        match numbers.chunks_exact(format.bytes()).position(odd) {
            Some(number) => self.refuse_group(number, group, 0),
            None => Ok(()),
        }
    }

    fn refuse_group(&self, number: usize, len: usize, first: usize) -> Result<()> {
        let start = first.saturating_add(number.saturating_mul(len));
        Err(self.refused(start..start.saturating_add(len)))
    }

    /// The error for the worst of some values, which are counted from the first of these rows.
    #[cold]
    fn refused(&self, places: Range<usize>) -> Error {
        self.fault(places).unwrap_or_else(|error| error)
    }

    fn fault(&self, places: Range<usize>) -> Result<Error> {
        let (_, width) = self.view.gathered_shape();
        let count = self.rows.end.saturating_sub(self.rows.start).saturating_mul(width);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut values: Vec<f32> = try_vec(count)?;
        values.resize(count, 0.0);
        self.view.decode(self.rows.clone(), &mut values, &DecodeOptions::new())?;
        let of_range = values.get(places.clone()).unwrap_or_default();
        let found = of_range.iter().position(|value| !value.is_finite()).or_else(|| {
            let largest = of_range.iter().map(|value| value.abs()).fold(0.0, f32::max);
            of_range.iter().position(|value| value.abs() == largest)
        });
        let place = places.start.saturating_add(found.unwrap_or(0));
        let value = values.get(place).copied().unwrap_or(f32::NAN);
        let element = self.rows.start.saturating_mul(width).saturating_add(place as u64);
        let (name, at) = self.origin(value).unwrap_or_else(|| {
            (self.view.name().to_owned(), coordinates(self.view.shape(), element))
        });
        let dtype = self.dtype;
        let saturating = SATURATING.iter().find(|(row, ..)| *row == dtype);
        let allow = AdvisedOption::AllowNonfinite;
        let (kind, fault, advice, option) = match (value.is_finite(), saturating) {
            (false, _) => (
                ErrorKind::Malformed,
                format!("{at} is {value}, which {dtype} cannot hold"),
                "{} quantizes them all the same",
                AdvisedOption::FindNonfinite,
            ),
            (true, Some((_, most, from))) if value.abs() > *from => (
                ErrorKind::Unsupported,
                format!("{at} is {value}, but {dtype} holds at most {most}"),
                "quantize this tensor to another dtype, or clip its values with {}",
                allow,
            ),
            (true, _) => (
                ErrorKind::Unsupported,
                format!("{at} is {value}: the scale of its block is beyond the range of {dtype}"),
                "quantize this tensor to another dtype; {} writes the useless block",
                allow,
            ),
        };
        let error = Error::new(kind, fault).in_tensor(name).advise_option(advice, option);
        Ok(match self.view.stored_tensors().next() {
            Some(tensor) => error.in_file(tensor.model()),
            None => error,
        })
    }

    /// The stored tensor that has this value, and the place there: rows may be in another order.
    fn origin(&self, value: f32) -> Option<(String, String)> {
        let same =
            |other: &f32| other.to_bits() == value.to_bits() || other.is_nan() && value.is_nan();
        for tensor in self.view.stored_tensors() {
            let (mut seen, mut found) = (0u64, None);
            let read = tensor.for_each_values(|values: &[f32]| {
                if let (None, Some(place)) = (found, values.iter().position(same)) {
                    found = seen.checked_add(place as u64);
                }
                seen = seen.saturating_add(values.len() as u64);
                Ok::<_, Error>(())
            });
            if let (Ok(_), Some(place)) = (read, found) {
                return Some((
                    tensor.name().spelling().into_owned(),
                    coordinates(tensor.shape(), place),
                ));
            }
        }
        None
    }
}

/// The first number whose magnitude is above `most`. `magnitude` has all bits but the sign.
fn first_above<W>(words: &[W], magnitude: W, most: W) -> Option<usize>
where
    W: BitAnd<Output = W>
        + BitOr<Output = W>
        + Copy
        + Not<Output = W>
        + PartialEq
        + Sub<Output = W>,
{
    const RUN: usize = 1024;
    let sign = !magnitude;
    let zero = magnitude & sign;
    // The difference is negative if the number is above. Without comparisons, a run is a few instructions
    // for each vector.
    let under = |word: W| most - (word & magnitude);
    let any = |run: &[W]| run.iter().fold(zero, |all, word| all | under(*word)) & sign != zero;
    let start = words.chunks(RUN).position(any)?.checked_mul(RUN)?;
    let above = |word: &W| under(*word) & sign != zero;
    words.get(start..)?.iter().position(above)?.checked_add(start)
}

/// The bytes of native numbers as words.
fn cast<W: FromBytes + Immutable>(bytes: &[u8]) -> &[W] {
    <[W]>::ref_from_bytes(bytes).unwrap_or_default()
}

/// The place of an element in a tensor.
fn coordinates(shape: &[u64], element: u64) -> String {
    let columns = shape::columns(shape).max(1);
    let (row, column) = (element / columns, element % columns);
    match shape {
        [] | [_] => format!("element {element}"),
        [_, _] => format!("row {row}, column {column}"),
        [outer @ .., rows, _] => {
            let rows = (*rows).max(1);
            let (mut rest, mut places) = (row / rows, vec![row % rows, column]);
            for size in outer.iter().rev() {
                places.insert(0, rest % (*size).max(1));
                rest /= (*size).max(1);
            }
            format!("element {places:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_odd_number_is_found() {
        let mut values = vec![1.5f32; 5000];
        let first = |values: &[f32]| {
            first_above(cast(values.as_bytes()), Wrapping(0x7fff_ffff), Wrapping(0x7f7f_ffff))
        };
        values[7] = f32::MAX;
        values[8] = -0.0;
        assert_eq!(first(&values), None);
        values[4999] = f32::NEG_INFINITY;
        assert_eq!(first(&values), Some(4999));
        values[1024] = f32::NAN;
        assert_eq!(first(&values), Some(1024));
    }

    #[test]
    fn places_are_counted_in_rows_and_columns() {
        assert_eq!(coordinates(&[8], 5), "element 5");
        assert_eq!(coordinates(&[4, 8], 21), "row 2, column 5");
        assert_eq!(coordinates(&[2, 4, 8], 53), "element [1, 2, 5]");
    }
}
