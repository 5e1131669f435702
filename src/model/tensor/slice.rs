//! Parts of a tensor: ranges of its rows, columns and outer arrays.

use std::ops::Range;

use super::{RUNS, RowRun, Tensor};
use crate::dtype::Packing;
use crate::error::{Error, Result};
use crate::model::sharding::{Rank, equal_part};
use crate::shape;

/// The axis along which [`Tensor::shard`] splits a tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Axis {
    /// By outputs: the rows of each matrix.
    Rows,
    /// By inputs: the columns of each row.
    Columns,
}

impl Tensor {
    /// Selects rows of each matrix, or elements of a vector.
    ///
    /// # Errors
    ///
    /// Same as [`slice_axis`](Self::slice_axis).
    pub fn slice_rows(self, rows: Range<u64>) -> Result<Self> {
        let axis = self.row_axis();
        self.slice_axis(axis, [rows])
    }

    /// Marks the tensor as a rank's part, of which only the bytes that it uses are read.
    pub(in crate::model) fn into_share(self) -> Self {
        Self { is_share: true, ..self }
    }

    /// Selects ranges along one axis, in this order, and keeps the axis. Axis 0 is the outermost.
    ///
    /// ```
    /// use weighbridge::Model;
    ///
    /// # fn main() -> weighbridge::Result<()> {
    /// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
    /// let embedding = model.tensor("token_embedding.weight")?;
    /// let rows = embedding.slice_axis(0, [7..8, 0..2])?;
    /// assert_eq!(rows.shape(), [3, 256]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `Mismatch` if the axis does not exist, or a range exceeds it or does not start and end at
    /// block boundaries; `Unsupported` for several ranges of the columns of matrices.
    pub fn slice_axis<I>(self, axis: usize, ranges: I) -> Result<Self>
    where
        I: IntoIterator<Item = Range<u64>, IntoIter: Clone>,
    {
        let mut ranges = ranges.into_iter();
        if axis >= self.shape.len() {
            let fault = format!("axis {axis} does not exist in shape {:?}", self.shape);
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        }
        let tensor = if self.has_byte_aligned_elements() { self.by_rows() } else { self };
        let is_one_row = matches!(tensor.shape.as_slice(), [_] if tensor.width() != 1);
        if axis <= tensor.row_axis() && !is_one_row {
            return tensor.slice_rows_axis(axis, ranges);
        }
        let first = ranges.next().unwrap_or(0..0);
        if ranges.next().is_some() || (is_one_row && tensor.shape != [tensor.width()]) {
            let fault = format!("several ranges along axis {axis} of shape {:?}", tensor.shape);
            return Err(Error::unsupported(fault)
                .in_tensor(&tensor.name)
                .advise("select one range, or load the values"));
        }
        tensor.take_columns(first)
    }

    /// Like [`slice_axis`](Self::slice_axis), for an axis that gathered rows are counted along.
    fn slice_rows_axis(
        mut self,
        axis: usize,
        ranges: impl Iterator<Item = Range<u64>> + Clone,
    ) -> Result<Self> {
        let row_axis = self.row_axis();
        let (arrays, all) = shape::arrays(&self.shape, axis);
        // If each element is a row, a block is several rows.
        let unit = if self.columns == 1 { self.column_unit().unwrap_or(1) } else { 1 };
        let whole = |row: u64| row.is_multiple_of(unit) || row == all;
        let what = if axis == row_axis { "rows" } else { "arrays" };
        for Range { start, end } in ranges.clone() {
            let fault = if start > end || end > all {
                format!("{what} {start}..{end} exceed the {all} {what}")
            } else if axis == row_axis && !(whole(start) && whole(end)) {
                format!(
                    "elements {start}..{end} of {all}, which can be split only at multiples of {unit}"
                )
            } else {
                continue;
            };
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        }
        // The rows of one step along the axis.
        let inner = self.shape.get(axis + 1..=row_axis);
        let each = inner.map_or(Some(1), shape::elements).unwrap_or(0);
        let mut runs = Vec::new();
        for (array, range) in (0..arrays).flat_map(|array| ranges.clone().map(move |r| (array, r)))
        {
            let first = array * all;
            let spans = self.spans((first + range.start) * each..(first + range.end) * each);
            runs.extend(spans.map(|(source, span)| RowRun::of(source, span.into())));
            if runs.len() > RUNS {
                break;
            }
        }
        self.runs = runs;
        self.check_runs()?;
        if let Some(count) = self.shape.get_mut(axis) {
            *count = ranges.map(|range| range.end - range.start).sum();
        }
        Ok(self.tidy())
    }

    /// Selects columns of each row.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the columns or does not start and end at block boundaries.
    pub fn slice_columns(self, columns: Range<u64>) -> Result<Self> {
        if self.shape.len() < 2 {
            let fault = format!("shape {:?} has no columns", self.shape);
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        }
        self.take_columns(columns)
    }

    fn take_columns(mut self, columns: Range<u64>) -> Result<Self> {
        let unit = self.column_unit()?;
        let whole = |column: u64| column.is_multiple_of(unit) || column == self.width();
        let Range { start, end } = columns;
        if start > end || end > self.width() || !whole(start) || !whole(end) {
            let what = if self.shape.len() == 1 { "elements" } else { "columns" };
            let fault = format!(
                "{what} {start}..{end} of {}, which can be split only at multiples of {unit}",
                self.width()
            );
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        }
        self.taken = self.taken.start + start..self.taken.start + end;
        if let Some(last) = self.shape.last_mut() {
            *last = end - start;
        }
        Ok(self)
    }

    /// Removes an axis of length 1.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the axis has another length or does not exist.
    pub fn squeeze(mut self, axis: usize) -> Result<Self> {
        if self.shape.get(axis) != Some(&1) {
            let fault = format!("axis {axis} of shape {:?} does not have length 1", self.shape);
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        }
        self.shape.remove(axis);
        Ok(self)
    }

    /// The number of columns in the smallest unit into which a row can be split: a block or a
    /// group.
    pub(super) fn column_unit(&self) -> Result<u64> {
        let mut unit = 1;
        for source in &self.sources {
            let row = source.tensor().dtype()?.descriptor();
            let blocks = u64::from(row.block_len);
            let group = u64::from(source.tensor().group_size().unwrap_or(1));
            let each = match row.packing {
                _ if source.transposed.is_some() => 1,
                Packing::Plain => blocks,
                // A group fills a whole number of words at any bit width.
                _ if row.row_head == 0 => blocks.max(group),
                _ => self.columns,
            };
            unit = unit.max(each);
        }
        Ok(unit.max(1))
    }

    /// Returns part `rank` of `of` equal parts, for engines that split a tensor between devices by
    /// rows (outputs) or columns (inputs).
    ///
    /// # Errors
    ///
    /// `Mismatch` if the tensor cannot be divided evenly, or only inside a block.
    pub fn shard(self, axis: Axis, rank: u64, of: u64) -> Result<Self> {
        let all = match axis {
            Axis::Rows => self.arrays().1,
            Axis::Columns => self.width(),
        };
        let Some(range) = equal_part(all, Rank { index: rank, count: of }) else {
            let what = if axis == Axis::Rows { "rows" } else { "columns" };
            let fault = format!("cannot take part {rank} of {of} equal parts of {all} {what}");
            return Err(Error::mismatch(fault).in_tensor(&self.name));
        };
        match axis {
            Axis::Rows => self.slice_rows(range),
            Axis::Columns => self.slice_columns(range),
        }
    }
}
