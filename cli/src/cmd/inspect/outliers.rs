//! The places of a tensor's outliers: the values farthest from its mean.

use weighbridge::model::DecodeOptions;
use weighbridge::ops::ValueStatistics;
use weighbridge::{Result, Tensor};

use crate::print::{Table, left, number, right};

/// The number of outliers that are listed.
const MOST: usize = 10;

/// The number of values that are read at a time.
const AT_ONCE: u64 = 1 << 20;

/// A value and its place among all values.
struct Outlier {
    distance: f64,
    place: u64,
    value: f32,
}

/// A table of the values farthest from the mean; `None` if there are no outliers.
pub(super) fn table(tensor: &Tensor, values: &ValueStatistics) -> Result<Option<Table>> {
    let (Some(mean), Some(deviation)) = (values.mean, values.deviation) else { return Ok(None) };
    if values.outliers == 0 {
        return Ok(None);
    }
    let far = ValueStatistics::OUTLIER * deviation;
    let mut table = Table::new(&[right("OUTLIER"), right("DEVIATIONS"), left("AT")]);
    for Outlier { distance, place, value } in farthest(tensor, mean, far)? {
        let at: Vec<String> = indices(place, tensor.shape()).iter().map(u64::to_string).collect();
        let deviations = format!("{:.1}", distance / deviation);
        table.row([number(f64::from(value)), deviations, format!("[{}]", at.join(", "))]);
    }
    Ok(Some(table))
}

/// The values that are more than `far` away from the mean, the farthest first.
fn farthest(tensor: &Tensor, mean: f64, far: f64) -> Result<Vec<Outlier>> {
    let columns = weighbridge::shape::columns(tensor.shape()).max(1);
    let rows = tensor.elements() / columns;
    let at_once = (AT_ONCE / columns).max(1);
    let (mut found, mut start) = (Vec::new(), 0);
    while start < rows {
        let end = rows.min(start + at_once);
        let mut values = vec![0.0f32; usize::try_from((end - start) * columns).unwrap_or(0)];
        tensor.dequantize_rows(start..end, &mut values, &DecodeOptions::new())?;
        let outliers = (start * columns..).zip(values).filter_map(|(place, value)| {
            let distance = (f64::from(value) - mean).abs();
            (distance.is_finite() && distance > far).then_some(Outlier { distance, place, value })
        });
        found.extend(outliers);
        found.sort_by(|a, b| b.distance.total_cmp(&a.distance));
        found.truncate(MOST);
        start = end;
    }
    Ok(found)
}

/// The indices of an element.
fn indices(mut place: u64, shape: &[u64]) -> Vec<u64> {
    let mut indices: Vec<u64> = Vec::new();
    for length in shape.iter().rev().copied() {
        indices.push(place % length.max(1));
        place /= length.max(1);
    }
    indices.reverse();
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_outermost_first() {
        assert_eq!(indices(7, &[2, 4]), [1, 3]);
        assert_eq!(indices(2, &[3]), [2]);
        assert!(indices(0, &[]).is_empty());
    }
}
