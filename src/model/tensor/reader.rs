//! Rows of a tensor, a few at a time: decoded, or multiplied with inputs.

use std::ops::Range;

use super::Tensor;
use super::values::ValueReader;
use crate::error::{Error, Result};
use crate::quant::{Element, Inputs, Narrowing, StridedRows, multiply_rows};
use crate::shape;
use crate::store::tensor::DecodeOptions;

/// Rows at most so far apart are multiplied together, and what lies between is read as well: the
/// positional pairs of q and k are two apart in GGUF.
const APART: u64 = 2;

impl Tensor {
    /// A reader of many small ranges of rows. It works out once how the tensor is decoded, and
    /// [`dequantize_rows`](Self::dequantize_rows) each time.
    ///
    /// ```
    /// use weighbridge::Model;
    /// use weighbridge::model::DecodeOptions;
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let embedding = model.tensor("token_embedding.weight")?;
    /// let mut reader = embedding.row_reader()?;
    /// let mut row = vec![0f32; 256];
    /// for token in [1, 422, 419] {
    ///     reader.dequantize_rows(token..token + 1, &mut row, &DecodeOptions::new())?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` for a dtype whose values cannot be read.
    pub fn row_reader(&self) -> Result<RowReader<'_>> {
        self.check_decodable()?;
        Ok(RowReader { reader: ValueReader::new(self), scratch: Vec::new() })
    }
}

/// Decodes ranges of a tensor's rows, one after another: [`Tensor::row_reader`].
pub struct RowReader<'t> {
    reader: ValueReader<'t>,
    /// Values of rows that are multiplied once they are decoded.
    scratch: Vec<f32>,
}

impl std::fmt::Debug for RowReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RowReader").field(&self.reader.tensor.name()).finish()
    }
}

impl RowReader<'_> {
    /// As [`Tensor::dequantize_rows`].
    ///
    /// # Errors
    ///
    /// Same as [`Tensor::dequantize_rows`].
    pub fn dequantize_rows<T: Element>(
        &mut self,
        rows: Range<u64>,
        out: &mut [T],
        decoding: &DecodeOptions,
    ) -> Result<Narrowing> {
        let tensor = self.reader.tensor;
        let gathered = tensor.gathered(&rows)?;
        let needed = (rows.end - rows.start).saturating_mul(shape::columns(tensor.shape()));
        if out.len() as u64 != needed {
            let fault =
                format!("the buffer has room for {} values, but the rows have {needed}", out.len());
            return Err(tensor.located(Error::mismatch(fault)));
        }
        self.reader.decode(gathered, out, decoding)
    }

    /// Fills `out` with the product of each of some rows with `inputs`, which have a number for each
    /// column. Sums are `f32`. The rows of most dtypes are multiplied as they are decoded, and those of
    /// K-quants as integers (see [`Runs::multiply`](crate::quant::Runs::multiply)); those of others, and
    /// rows that are computed from several tensors, are decoded first.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the rows, or `inputs` or `out` have another length; otherwise
    /// same as [`Tensor::dequantize`].
    pub fn multiply_rows(
        &mut self,
        rows: Range<u64>,
        inputs: &Inputs<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let tensor = self.reader.tensor;
        let input = inputs.values();
        let gathered = tensor.gathered(&rows)?;
        let columns = shape::columns(tensor.shape());
        if input.len() as u64 != columns || out.len() as u64 != rows.end - rows.start {
            let fault = format!(
                "{} rows of {columns} are multiplied, but there are {} inputs and {} outputs",
                rows.end - rows.start,
                input.len(),
                out.len()
            );
            return Err(tensor.located(Error::mismatch(fault)));
        }
        if tensor.width() != columns {
            // A vector that is assembled by elements.
            self.scratch.resize(input.len().saturating_mul(out.len()), 0.0);
            self.reader.decode(gathered, &mut self.scratch, &DecodeOptions::new())?;
            multiply_rows(StridedRows::dense(&self.scratch, input.len()), input, out);
            return Ok(());
        }
        let mut rest = out;
        let spans = tensor.spans(gathered);
        let spans = spans
            .flat_map(|(number, span)| span.at_most_apart(APART).map(move |span| (number, span)));
        for (number, span) in spans {
            let Some(source) = tensor.sources.get(number as usize) else { break };
            let count = usize::try_from(span.count).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            rest = later;
            if let Some(elements) = self.reader.stored_elements(source, span) {
                let plan = self.reader.plan(source.tensor())?;
                let step = usize::try_from(span.step).unwrap_or(usize::MAX);
                if let Some((_, plan)) = self.reader.plans.get(plan)
                    && plan.multiply(&elements, step, inputs, now)?
                {
                    continue;
                }
            }
            self.scratch.resize(input.len().saturating_mul(now.len()), 0.0);
            let decoding = DecodeOptions::new();
            self.reader.span(number, source, span, &mut self.scratch, &decoding)?;
            multiply_rows(StridedRows::dense(&self.scratch, input.len()), input, now);
        }
        Ok(())
    }
}
