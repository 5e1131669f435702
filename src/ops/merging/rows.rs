//! The rows of tensors that have one for each token, in the order of another vocabulary.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::ops::random::{draw, seed_of};
use crate::rounding::f32_of;

/// The source of a row.
#[derive(Debug)]
pub(super) enum Row {
    Of { model: usize, row: u64 },
    MeanOf(Vec<(usize, u64)>),
    Zero,
    Mean,
    Random(u64),
}

/// The rows of one tensor of a model, in the order of the merged vocabulary.
#[derive(Debug)]
pub(super) struct TokenRows {
    rows: Arc<Vec<Row>>,
    /// The elements of a row.
    pub(super) width: u64,
    /// The number of the model.
    model: usize,
    /// The tensor in each model that has it.
    tensors: Vec<Option<Tensor>>,
    name: String,
    /// The sums of the model's own rows, once they are computed.
    own: OnceLock<Columns>,
    /// The row that rounds the number up, likewise.
    padding: OnceLock<Vec<f32>>,
}

/// The most rows that are read at a time.
const ROWS: u64 = 1 << 10;

impl TokenRows {
    pub(super) fn new(
        rows: Arc<Vec<Row>>,
        model: usize,
        tensor: &Tensor,
        tensors: Vec<Option<Tensor>>,
    ) -> Self {
        let width = tensor.shape().iter().skip(1).product::<u64>().max(1);
        let (own, padding, name) = (OnceLock::new(), OnceLock::new(), tensor.name().to_owned());
        Self { rows, width, model, tensors, name, own, padding }
    }

    fn row(&self, place: u64) -> Option<&Row> {
        self.rows.get(usize::try_from(place).ok()?)
    }

    fn stored(&self, model: usize, row: u64, len: u64) -> Result<Vec<f32>> {
        let tensor = self.tensors.get(model).and_then(Option::as_ref).ok_or_else(|| {
            let fault =
                format!("model {} lacks the tensor that a token's row comes from", model + 1);
            Error::mismatch(fault)
        })?;
        let rows = row..row.saturating_add(len);
        tensor.clone().slice_axis(0, std::iter::once(rows))?.to_vec::<f32>()
    }

    /// Reads some rows behind the values of `out`.
    pub(super) fn read(&self, range: Range<u64>, out: &mut Vec<f32>) -> Result<()> {
        let too_large = |_| Error::mismatch("the rows are too long").in_tensor(&self.name);
        let width = usize::try_from(self.width).map_err(too_large)?;
        let mut next = range.start;
        while next < range.end {
            let mut run = 1;
            let start = out.len();
            match self.row(next) {
                Some(Row::Of { model, row }) => {
                    let follows = |after: u64| {
                        matches!(self.row(next.saturating_add(after)), Some(Row::Of { model: m, row: r })
                            if m == model && *r == row.saturating_add(after))
                    };
                    while next.saturating_add(run) < range.end && follows(run) {
                        run = run.saturating_add(1);
                    }
                    out.extend(self.stored(*model, *row, run)?);
                }
                Some(Row::MeanOf(all)) => {
                    let mut sum = vec![0.0; width];
                    for (model, row) in all {
                        let values = self.stored(*model, *row, 1)?;
                        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                    }
                    #[expect(clippy::cast_precision_loss, reason = "a number of models")]
                    let count = all.len().max(1) as f32;
                    out.extend(sum.into_iter().map(|sum| sum / count));
                }
                Some(Row::Zero) => out.resize(start.saturating_add(width), 0.0),
                Some(Row::Mean) => out.extend(self.own(width)?.means()),
                Some(Row::Random(seed)) => {
                    out.resize(start.saturating_add(width), 0.0);
                    let row = out.get_mut(start..).unwrap_or_default();
                    self.own(width)?.draw(seed_of(&self.name, *seed), row);
                }
                None => out.extend(self.padding(width)?),
            }
            next = next.saturating_add(run);
        }
        Ok(())
    }

    /// The sums of the model's own rows, from which others are computed.
    fn own(&self, width: usize) -> Result<&Columns> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let mut columns = Columns::new(width);
        // Other tokens may have the same row.
        let mut seen = HashSet::new();
        let own = self.rows.iter().filter_map(|row| match row {
            Row::Of { model, row } if *model == self.model && seen.insert(*row) => Some(*row),
            _ => None,
        });
        let mut run = 0..0u64;
        for row in own.map(Some).chain([None]) {
            if row == Some(run.end) && run.end - run.start < ROWS {
                run.end += 1;
                continue;
            }
            if !run.is_empty() {
                let values = self.stored(self.model, run.start, run.end - run.start)?;
                values.chunks(width).for_each(|row| columns.add(row));
            }
            let first = row.unwrap_or(0);
            run = first..first.saturating_add(1);
        }
        Ok(self.own.get_or_init(|| columns))
    }

    /// The mean of all rows that a token has.
    fn padding(&self, width: usize) -> Result<Vec<f32>> {
        if let Some(padding) = self.padding.get() {
            return Ok(padding.clone());
        }
        let (mut columns, mut rows) = (Columns::new(width), Vec::new());
        let (mut start, end) = (0, self.rows.len() as u64);
        while start < end {
            let next = end.min(start + ROWS);
            rows.clear();
            self.read(start..next, &mut rows)?;
            rows.chunks(width).for_each(|row| columns.add(row));
            start = next;
        }
        Ok(self.padding.get_or_init(|| columns.means()).clone())
    }
}

/// The sums of columns.
#[derive(Debug)]
struct Columns {
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Columns {
    fn new(width: usize) -> Self {
        Self { count: 0.0, sums: vec![0.0; width], squares: vec![0.0; width] }
    }

    fn add(&mut self, row: &[f32]) {
        self.count += 1.0;
        for ((sum, square), value) in self.sums.iter_mut().zip(&mut self.squares).zip(row) {
            *sum += f64::from(*value);
            *square += f64::from(*value) * f64::from(*value);
        }
    }

    fn means(&self) -> Vec<f32> {
        self.sums.iter().map(|sum| f32_of(sum / self.count.max(1.0))).collect()
    }

    /// Fills a row with numbers from the normal distribution of each column.
    fn draw(&self, mut seed: u64, out: &mut [f32]) {
        for ((sum, square), value) in self.sums.iter().zip(&self.squares).zip(out) {
            let count = self.count.max(1.0);
            let mean = sum / count;
            let deviation = (square / count - mean * mean).max(0.0).sqrt();
            // The transform of Box and Muller; a logarithm of 0 is avoided.
            let (length, angle) = (1.0 - draw(&mut seed), draw(&mut seed) * std::f64::consts::TAU);
            *value = f32_of(mean + deviation * (-2.0 * length.ln()).sqrt() * angle.cos());
        }
    }
}
