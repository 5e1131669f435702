//! The values, rows and columns of one tensor that stand out.

use serde::Serialize;
use weighbridge::ops::{self, StatisticsOptions, ValueStatistics};
use weighbridge::{Result, Tensor, shape};

use crate::Watch;
use crate::lines::{Line, Lines};

/// The number of rows, and of columns, that are listed.
const LISTED: usize = 10;

/// The values, rows and columns of a tensor that stand out. Rows are counted over all dimensions but the
/// last.
#[derive(Debug, Serialize)]
pub(crate) struct Standouts {
    /// The values with the largest magnitudes.
    largest: Vec<Place>,
    rows: Standing,
    columns: Standing,
    /// The first value that is NaN or infinite.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_finite: Option<Vec<u64>>,
}

#[derive(Debug, Serialize)]
struct Place {
    at: Vec<u64>,
    row: u64,
    column: u64,
    value: f64,
}

/// The rows, or the columns, that stand out.
#[derive(Debug, Serialize)]
struct Standing {
    /// Those that have outliers.
    with_outliers: u64,
    /// Those with most outliers.
    outliers: Vec<Listed>,
    /// Those whose values are all 0.
    dead: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_dead: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Listed {
    index: u64,
    outliers: u64,
    rms: f64,
}

/// The limits beyond which a value is an outlier.
pub(crate) fn usual(values: &ValueStatistics) -> (f64, f64) {
    let reach = values.deviation.unwrap_or(f64::INFINITY) * ValueStatistics::OUTLIER;
    let mean = values.mean.unwrap_or(0.0);
    (mean - reach, mean + reach)
}

impl Standouts {
    /// Reads the values twice: an outlier is known only when all have been read.
    pub(crate) fn of(tensor: &Tensor, watch: Watch<'_>) -> Result<Self> {
        tensor.check_decodable()?;
        let options = StatisticsOptions::new().bins(1).progress(watch);
        let report = ops::statistics(std::slice::from_ref(tensor), &options)?;
        let values = report.tensors.into_iter().next().and_then(|tensor| tensor.values);
        let limits = values.as_ref().map_or((f64::NEG_INFINITY, f64::INFINITY), usual);
        let lines = Lines::of(tensor, limits, 0, watch)?;
        let width = shape::columns(tensor.shape()).max(1);
        let place = |at: u64| shape::indices(at, tensor.shape());
        let largest = lines.largest.iter().map(|one| Place {
            at: place(one.at),
            row: one.at / width,
            column: one.at % width,
            value: f64::from(one.value),
        });
        Ok(Self {
            largest: largest.collect(),
            rows: Standing::of(&lines.rows),
            columns: Standing::of(&lines.columns),
            not_finite: lines.first_not_finite.map(place),
        })
    }
}

impl Standing {
    fn of(lines: &[Line]) -> Self {
        let with_outliers = lines.iter().filter(|line| line.outliers > 0).count() as u64;
        let mut listed: Vec<Listed> = (0..)
            .zip(lines)
            .filter(|(_, line)| line.outliers > 0)
            .map(|(index, line)| Listed { index, outliers: line.outliers, rms: line.rms() })
            .collect();
        listed.sort_by_key(|of| std::cmp::Reverse(of.outliers));
        listed.truncate(LISTED);
        let mut dead = (0..).zip(lines).filter(|(_, line)| line.is_dead()).map(|(index, _)| index);
        let first_dead = dead.next();
        let dead = dead.count() as u64 + u64::from(first_dead.is_some());
        Self { with_outliers, outliers: listed, dead, first_dead }
    }
}
