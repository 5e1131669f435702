//! Values of several positions.

/// A row of values for each position.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    values: Vec<f32>,
    width: usize,
}

impl Rows {
    /// Rows of zeros.
    pub(crate) fn zeros(len: usize, width: usize) -> Self {
        Self { values: vec![0.0; len.saturating_mul(width)], width: width.max(1) }
    }

    /// Rows of `width` values each. Values behind the last whole row are dropped.
    pub fn new(mut values: Vec<f32>, width: usize) -> Self {
        let width = width.max(1);
        values.truncate(values.len() / width * width);
        Self { values, width }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of values in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values, row by row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Each row.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width.max(1))
    }

    pub(crate) fn rows_mut(&mut self) -> std::slice::ChunksExactMut<'_, f32> {
        self.values.chunks_exact_mut(self.width.max(1))
    }

    /// One row, or nothing beyond the last.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        let start = row.checked_mul(self.width)?;
        self.values.get(start..start.checked_add(self.width)?)
    }

    /// Some rows.
    pub fn part(&self, rows: std::ops::Range<usize>) -> Self {
        let [start, end] = [rows.start, rows.end].map(|row| row.saturating_mul(self.width));
        let values = self.values.get(start..end.min(self.values.len())).unwrap_or_default();
        Self { values: values.to_vec(), width: self.width }
    }

    /// The last row alone.
    pub(crate) fn last(&self) -> Self {
        let start = self.values.len().saturating_sub(self.width);
        Self { values: self.values.get(start..).unwrap_or_default().to_vec(), width: self.width }
    }

    /// The first row alone.
    pub(crate) fn first(&self) -> Self {
        Self { values: self.row(0).unwrap_or_default().to_vec(), width: self.width }
    }

    /// Adds `other`, times `factor`, value by value.
    pub(crate) fn add(&mut self, other: &Self, factor: f32) {
        let pairs = self.values.iter_mut().zip(&other.values);
        pairs.for_each(|(own, other)| *own += factor * other);
    }

    /// Multiplies every value.
    pub(crate) fn scale(&mut self, factor: f32) {
        self.each(|value| value * factor);
    }

    /// Replaces every value.
    pub(crate) fn each(&mut self, change: impl Fn(f32) -> f32) {
        self.values.iter_mut().for_each(|value| *value = change(*value));
    }

    /// Combines every value with that of `other` in the same place.
    pub(crate) fn with(&mut self, other: &Self, combine: impl Fn(f32, f32) -> f32) {
        let pairs = self.values.iter_mut().zip(&other.values);
        pairs.for_each(|(own, other)| *own = combine(*own, *other));
    }

    /// The columns of several, side by side. All have the same number of rows.
    pub(crate) fn joined(parts: &[Self]) -> Self {
        let width = parts.iter().map(Self::width).sum();
        let count = parts.first().map_or(0, Self::len);
        let row = |place| parts.iter().filter_map(move |part| part.row(place)).flatten().copied();
        Self::new((0..count).flat_map(row).collect(), width)
    }

    /// Some columns of every row.
    pub(crate) fn columns(&self, columns: std::ops::Range<usize>) -> Self {
        let some = |row: &[f32]| row.get(columns.clone()).unwrap_or_default().to_vec();
        Self::new(self.rows().flat_map(some).collect(), columns.len())
    }
}
