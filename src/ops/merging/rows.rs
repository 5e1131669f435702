//! The rows of tensors that have one for each token, in the order of another vocabulary.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::Tensor;
use crate::ops::random::{draw, seed_of};

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
#[derive(Clone, Debug)]
pub(super) struct TokenRows {
    pub(super) rows: Arc<Vec<Row>>,
    /// The number of rows.
    pub(super) count: u64,
    /// The number of the model.
    pub(super) model: usize,
    /// The tensor in each model that has it.
    pub(super) tensors: Vec<Option<Tensor>>,
}

impl TokenRows {
    fn read(&self, model: usize, row: u64, len: u64) -> Result<Vec<f32>> {
        let tensor = self.tensors.get(model).and_then(Option::as_ref).ok_or_else(|| {
            let fault =
                format!("model {} lacks the tensor that a token's row comes from", model + 1);
            Error::mismatch(fault)
        })?;
        let rows = row..row.saturating_add(len);
        tensor.clone().slice_axis(0, std::iter::once(rows))?.to_vec::<f32>()
    }

    /// The values.
    pub(super) fn values(&self, tensor: &Tensor) -> Result<Vec<f32>> {
        let width = tensor.shape().iter().skip(1).product::<u64>().max(1);
        let too_large = || Error::mismatch("the tensor is too large").in_tensor(tensor.name());
        let len = self.count.checked_mul(width).and_then(|len| usize::try_from(len).ok());
        let mut out = crate::bytes::try_vec::<f32>(len.ok_or_else(too_large)?)?;
        let width = usize::try_from(width).map_err(|_| too_large())?;
        let (mut next, mut unset) = (0, Vec::new());
        while let Some(row) = self.rows.get(next) {
            let mut run = 1;
            match row {
                Row::Of { model, row } => {
                    let follows = |place: usize, after: u64| {
                        matches!(self.rows.get(place), Some(Row::Of { model: m, row: r })
                            if m == model && *r == row.saturating_add(after))
                    };
                    while follows(next.saturating_add(run), run as u64) {
                        run = run.saturating_add(1);
                    }
                    out.extend(self.read(*model, *row, run as u64)?);
                }
                Row::MeanOf(all) => {
                    let mut sum = vec![0.0; width];
                    for (model, row) in all {
                        let values = self.read(*model, *row, 1)?;
                        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
                    }
                    #[expect(clippy::cast_precision_loss, reason = "a number of models")]
                    let count = all.len().max(1) as f32;
                    out.extend(sum.into_iter().map(|sum| sum / count));
                }
                Row::Zero => out.resize(out.len().saturating_add(width), 0.0),
                Row::Mean | Row::Random(_) => {
                    out.resize(out.len().saturating_add(width), 0.0);
                    unset.push(next);
                }
            }
            next = next.saturating_add(run);
        }
        self.fill(tensor.name(), &mut out, width, &unset);
        Ok(out)
    }

    /// Computes the rows that depend on others, and adds those that round the number up.
    fn fill(&self, name: &str, out: &mut Vec<f32>, width: usize, unset: &[usize]) {
        if !unset.is_empty() {
            let mut seen = HashSet::new();
            let own = |row: &Row| match row {
                // Other tokens may have the same row.
                Row::Of { model, row } => *model == self.model && seen.insert(*row),
                _ => false,
            };
            let rows = self.rows.iter().zip(out.chunks(width));
            let rows = rows.scan(own, |own, (row, values)| Some((own(row), values)));
            let rows = rows.filter(|(is_own, _)| *is_own);
            let columns = Columns::of(rows.map(|(_, values)| values), width);
            for &place in unset {
                let start = place.saturating_mul(width);
                let row = out.get_mut(start..start.saturating_add(width)).unwrap_or_default();
                match self.rows.get(place) {
                    Some(Row::Random(seed)) => columns.draw(seed_of(name, *seed), row),
                    _ => row.copy_from_slice(&columns.means()),
                }
            }
        }
        let rest = self.count.saturating_sub(self.rows.len() as u64);
        if rest > 0 {
            let mean = Columns::of(out.chunks(width), width).means();
            (0..rest).for_each(|_| out.extend_from_slice(&mean));
        }
    }
}

/// The sums of columns.
struct Columns {
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Columns {
    fn of<'v>(rows: impl Iterator<Item = &'v [f32]>, width: usize) -> Self {
        let mut all = Self { count: 0.0, sums: vec![0.0; width], squares: vec![0.0; width] };
        for row in rows {
            all.count += 1.0;
            for ((sum, square), value) in all.sums.iter_mut().zip(&mut all.squares).zip(row) {
                *sum += f64::from(*value);
                *square += f64::from(*value) * f64::from(*value);
            }
        }
        all.count = all.count.max(1.0);
        all
    }

    #[expect(clippy::cast_possible_truncation, reason = "values are f32")]
    fn means(&self) -> Vec<f32> {
        self.sums.iter().map(|sum| (sum / self.count) as f32).collect()
    }

    /// Fills a row with numbers from the normal distribution of each column.
    #[expect(clippy::cast_possible_truncation, reason = "values are f32")]
    fn draw(&self, mut seed: u64, out: &mut [f32]) {
        for ((sum, square), value) in self.sums.iter().zip(&self.squares).zip(out) {
            let mean = sum / self.count;
            let deviation = (square / self.count - mean * mean).max(0.0).sqrt();
            // The transform of Box and Muller; a logarithm of 0 is avoided.
            let (length, angle) = (1.0 - draw(&mut seed), draw(&mut seed) * std::f64::consts::TAU);
            *value = (mean + deviation * (-2.0 * length.ln()).sqrt() * angle.cos()) as f32;
        }
    }
}
