//! Parts of a tensor: ranges of its rows, columns and outer arrays.

use std::ops::Range;

use super::{PIECES, RowRun, Tensor};
use crate::dtype::Packing;
use crate::error::{Error, Result};
use crate::model::sharding::equal_part;
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
    /// `Mismatch` if the range exceeds the rows.
    pub fn slice_rows(self, rows: Range<u64>) -> Result<Self> {
        let view = self.by_rows();
        let axis = view.row_axis();
        view.slice_axis(axis, std::slice::from_ref(&rows))
    }

    /// Marks the tensor as a rank's part, of which only the bytes that it uses are read.
    pub(in crate::model) fn into_share(self) -> Self {
        Self { is_share: true, ..self }
    }

    /// Selects ranges along one axis, in this order.
    ///
    /// # Errors
    ///
    /// `Mismatch` if a range exceeds the axis, or does not start and end at block boundaries.
    pub(in crate::model) fn slice_axis(self, axis: usize, ranges: &[Range<u64>]) -> Result<Self> {
        let mut view = self.by_rows();
        let row_axis = view.row_axis();
        if axis > row_axis {
            let [columns] = ranges else {
                let fault = format!("axis {axis} of shape {:?} cannot be divided so", view.shape);
                return Err(Error::mismatch(fault).in_tensor(&view.name));
            };
            return view.slice_columns(columns.clone());
        }
        let (arrays, all) = shape::arrays(&view.shape, axis);
        let exceeds = |range: &&Range<u64>| {
            view.shape.is_empty() || range.start > range.end || range.end > all
        };
        if let Some(Range { start, end }) = ranges.iter().find(exceeds) {
            let what = if axis == row_axis { "rows" } else { "arrays" };
            let fault = format!("{what} {start}..{end} exceed the {all} {what}");
            return Err(Error::mismatch(fault).in_tensor(&view.name));
        }
        // The rows of one step along the axis.
        let inner = view.shape.get(axis + 1..=row_axis);
        let each = inner.map_or(Some(1), shape::elements).unwrap_or(0);
        let mut pieces = Vec::new();
        for (array, range) in (0..arrays).flat_map(|array| ranges.iter().map(move |r| (array, r))) {
            let first = array * all;
            let spans = view.spans((first + range.start) * each..(first + range.end) * each);
            pieces.extend(spans.map(|(source, span)| RowRun::of(source, span.into())));
            if pieces.len() > PIECES {
                break;
            }
        }
        view.pieces = pieces;
        view.check_pieces()?;
        if let Some(count) = view.shape.get_mut(axis) {
            *count = ranges.iter().map(|range| range.end - range.start).sum();
        }
        Ok(view.tidy())
    }

    /// Selects columns of each row.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the range exceeds the columns or does not start and end at block boundaries.
    pub fn slice_columns(mut self, columns: Range<u64>) -> Result<Self> {
        let unit = self.column_unit()?;
        let whole = |column: u64| column.is_multiple_of(unit) || column == self.width();
        let (start, end) = (columns.start, columns.end);
        if self.shape.len() < 2 || start > end || end > self.width() || !whole(start) || !whole(end)
        {
            let fault = format!(
                "columns {start}..{end} of {}, which can be split only at multiples of {unit}",
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

    /// The number of columns in the smallest unit into which a row can be split: a block or a
    /// group.
    pub(super) fn column_unit(&self) -> Result<u64> {
        let mut unit = 1;
        for source in &self.sources {
            let row = source.tensor.get().dtype()?.descriptor();
            let blocks = u64::from(row.block_len);
            let group = u64::from(source.tensor.get().group_size().unwrap_or(1));
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
        let Some(range) = equal_part(all, (rank, of)) else {
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
