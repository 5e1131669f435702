//! Statistics of the values of tensors, in one pass over each.

mod distribution;
mod grid;
mod moments;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::model::Tensor;
use crate::ops::odd_name;
use crate::progress::{Callback, Meter, Watch};
use crate::setters::setters;
use crate::shape;
use crate::threads::Threads;

pub use distribution::Histogram;
pub use grid::{Grid, GridOptions, grid};
pub use moments::Extreme;

pub(super) use grid::grid_of_difference;

use distribution::{Buckets, Distribution};
use moments::Moments;

/// Options of [`statistics`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StatisticsOptions<'w> {
    bins: usize,
    range: Option<(f64, f64)>,
    threads: Threads,
    progress: Watch<'w>,
}

impl Default for StatisticsOptions<'_> {
    fn default() -> Self {
        Self { bins: 128, range: None, threads: Threads::default(), progress: Watch::default() }
    }
}

impl<'w> StatisticsOptions<'w> {
    /// The defaults: histograms of 128 bins, and one thread for each processor.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of bins of histograms: 1 to 4096.
    #[must_use]
    pub fn bins(mut self, bins: usize) -> Self {
        self.bins = bins.clamp(1, 4096);
        self
    }

    /// Sets the range of histograms. Without it, the range is that of the values, without the most
    /// distant values where these would leave most bins empty.
    #[must_use]
    pub fn range(mut self, low: f64, high: f64) -> Self {
        self.range = (low <= high && low.is_finite() && high.is_finite()).then_some((low, high));
        self
    }

    setters! {
        /// Sets the threads that share the tensors; for a single tensor, its rows.
        threads: impl Into<Threads>;
        /// Sets a callback that is called after every piece of a tensor. `Break` cancels.
        progress: Callback<'w>;
    }
}

/// The statistics of some tensors.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StatisticsReport {
    /// The tensors, in the order in which they were given.
    pub tensors: Vec<TensorStatistics>,
}

/// The statistics of one tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorStatistics {
    /// The name under which the tensor was requested; if a stored name is not UTF-8, its
    /// [spelling](crate::bytes::Text::spelling).
    pub name: String,
    /// The bytes of a name that is not UTF-8, in hexadecimal.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub name_hex: Option<String>,
    /// The names of the dtypes of its stored tensors.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Bits per value, including scales and other parts.
    pub bits_per_weight: Option<f64>,
    /// The statistics; absent if the values cannot be read.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub values: Option<ValueStatistics>,
    /// The reason why the values cannot be read.
    #[cfg_attr(
        feature = "serde",
        serde(
            skip_serializing_if = "Option::is_none",
            serialize_with = "crate::ops::serialize::reason",
            rename = "reason"
        )
    )]
    pub error: Option<Error>,
}

/// The statistics of some values. Counts, `min`, `max`, `mean` and `deviation` are exact, up to the
/// rounding of sums.
///
/// Quantiles, outliers and the histogram follow from counts of values that agree in their sign,
/// exponent and first 7 bits of the fraction. They are exact if no value has more than 8 significant
/// bits, as for `BF16`. Otherwise a quantile is at most 1 % away from the exact one, and a value may be
/// counted in a neighbouring bin.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ValueStatistics {
    /// The number of values.
    pub elements: u64,
    /// Values that are NaN.
    pub nan: u64,
    /// Values that are infinite.
    pub infinite: u64,
    /// Values that are 0.
    pub zeros: u64,
    /// Finite values that are more than [`OUTLIER`](Self::OUTLIER) deviations away from the mean.
    pub outliers: u64,
    /// The least finite value, the first if there are several; `None` if no value is finite. The same
    /// holds for all that follows.
    pub min: Option<Extreme>,
    /// The largest finite value.
    pub max: Option<Extreme>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Their standard deviation.
    pub deviation: Option<f64>,
    /// Their root mean square.
    pub rms: Option<f64>,
    /// Quantiles of the finite values, ascending.
    pub quantiles: Vec<Quantile>,
    /// The distribution of the finite values.
    pub histogram: Option<Histogram>,
    /// The scales, if the tensor is quantized and has any.
    pub scales: Option<ScaleStatistics>,
}

/// A value below which a share of the values lies.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Quantile {
    /// The share, from 0 to 1.
    pub share: f64,
    /// The value.
    pub value: f64,
}

/// The scales of a quantized tensor: the first number of each block, or the values of the scale part.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ScaleStatistics {
    /// The number of scales.
    pub count: u64,
    /// Scales that are 0: their blocks have no other value.
    pub zeros: u64,
    /// Scales that are NaN or infinite.
    pub not_finite: u64,
    /// The least magnitude of a finite scale.
    pub min: Option<f64>,
    /// The largest magnitude.
    pub max: Option<f64>,
    /// The mean magnitude.
    pub mean: Option<f64>,
}

/// The shares whose quantiles are reported.
const SHARES: [f64; 11] = [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999];

/// The number of values that one thread takes at a time.
const PIECE: u64 = 1 << 20;

/// Reports the statistics of tensors, in one pass over the values of each and in constant memory for each
/// thread.
///
/// A tensor whose values cannot be read has an [`error`](TensorStatistics::error) in the report. Results do
/// not depend on the number of threads.
///
/// ```
/// use weighbridge::{Model, ops};
///
/// # fn main() -> weighbridge::Result<()> {
/// let model = Model::open("assets/sample/sample-Q8_0.gguf")?;
/// let norm = model.tensor("output_norm.weight")?;
/// let report = ops::statistics(&[norm], &ops::StatisticsOptions::new())?;
/// let values = report.tensors[0].values.as_ref().expect("values that can be read");
/// assert_eq!((values.elements, values.zeros, values.nan), (256, 0, 0));
/// assert!(values.mean > Some(0.9) && values.deviation < Some(0.2));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `Io` if a file cannot be read; `Cancelled` if the progress callback cancels.
pub fn statistics(tensors: &[Tensor], options: &StatisticsOptions<'_>) -> Result<StatisticsReport> {
    let bytes = tensors.iter().map(Tensor::stored_bytes).fold(0, u64::saturating_add);
    let meter = Meter::new(bytes, options.progress);
    let within = match tensors {
        [_] => options.threads,
        _ => Threads::one(),
    };
    let work = |(): &mut (), tensor: &Tensor| TensorStatistics::of(tensor, options, within, &meter);
    let tensors = options.threads.in_order(tensors.iter(), || (), work)?;
    Ok(StatisticsReport { tensors })
}

impl TensorStatistics {
    fn of(
        tensor: &Tensor,
        options: &StatisticsOptions<'_>,
        threads: Threads,
        meter: &Meter<'_>,
    ) -> Result<Self> {
        let (values, error) = match ValueStatistics::of(tensor, options, threads, meter) {
            Ok(values) => (Some(values), None),
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Malformed) => {
                (None, Some(error))
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            name: tensor.name().to_owned(),
            name_hex: odd_name(tensor.raw_name()),
            dtype: tensor.dtype_label(),
            shape: tensor.shape().to_vec(),
            bits_per_weight: tensor.bits_per_weight(),
            values,
            error,
        })
    }
}

/// The counts of one thread. When the thread ends, they are added to the total.
struct Share<'t> {
    own: Distribution,
    total: &'t Mutex<Option<Distribution>>,
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.own);
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *total {
            Some(total) => total.merge(&own),
            none => *none = Some(own),
        }
    }
}

impl ValueStatistics {
    /// The number of deviations from the mean beyond which a value is an outlier.
    pub const OUTLIER: f64 = 6.0;

    fn of(
        tensor: &Tensor,
        options: &StatisticsOptions<'_>,
        threads: Threads,
        meter: &Meter<'_>,
    ) -> Result<Self> {
        tensor.check_decodable()?;
        let columns = shape::columns(tensor.shape());
        let total = Mutex::new(None);
        let start = || Share { own: Distribution::new(), total: &total };
        let elements = tensor.elements();
        let work = |share: &mut Share<'_>, rows: Range<u64>| {
            let counted = &mut share.own;
            let mut moments = Moments::starting_at(rows.start.saturating_mul(columns));
            tensor.for_each_values_in(rows, |values: &[f32]| {
                counted.add(values);
                moments.add(values);
                meter.add(part(tensor.stored_bytes(), values.len() as u64, elements))
            })?;
            Ok(moments)
        };
        let ranges = row_ranges(tensor, 0..u64::MAX, PIECE);
        let pieces = threads.in_order(ranges.into_iter(), start, work)?;
        let mut moments = Moments::default();
        pieces.iter().for_each(|piece| moments.merge(piece));
        let counted = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        let counted = counted.unwrap_or_default().buckets();
        let scales = ScaleStatistics::of(tensor)?;
        Ok(Self::new(&moments, &counted, scales, tensor.shape(), options))
    }

    fn new(
        moments: &Moments,
        counted: &Buckets,
        scales: Option<ScaleStatistics>,
        shape: &[u64],
        options: &StatisticsOptions<'_>,
    ) -> Self {
        let mut found = Self {
            elements: moments.elements,
            nan: moments.nan,
            infinite: moments.infinite,
            zeros: moments.zeros,
            outliers: 0,
            min: moments.min(shape),
            max: moments.max(shape),
            mean: moments.mean(),
            deviation: moments.deviation(),
            rms: moments.rms(),
            quantiles: Vec::new(),
            histogram: None,
            scales,
        };
        let ends = found.min.as_ref().zip(found.max.as_ref());
        let Some(range) = ends.map(|(min, max)| (min.value, max.value)) else { return found };
        // The mean of equal values may be rounded to another number.
        let is_constant = range.0 == range.1;
        if let (Some(mean), Some(deviation), false) = (found.mean, found.deviation, is_constant) {
            found.outliers = counted.beyond(mean, Self::OUTLIER * deviation);
        }
        let values = counted.quantiles(&SHARES, range);
        let shown = options.range.unwrap_or_else(|| shown_range(range, &values));
        found.quantiles = SHARES
            .into_iter()
            .zip(values)
            .map(|(share, value)| Quantile { share, value })
            .collect();
        found.histogram = Some(counted.histogram(shown, options.bins, range));
        found
    }
}

/// The range of a histogram: that of the values, unless most bins would be empty. Then it is twice
/// as wide as that of 99.8 % of the values.
fn shown_range((low, high): (f64, f64), quantiles: &[f64]) -> (f64, f64) {
    let (Some(&first), Some(&last)) = (quantiles.first(), quantiles.last()) else {
        return (low, high);
    };
    let margin = (last - first) / 2.0;
    if margin <= 0.0 { (low, high) } else { (low.max(first - margin), high.min(last + margin)) }
}

/// Rows of a tensor in ranges that have about `piece` values each. A matrix whose rows are stored as
/// columns is not divided: reading some of its rows takes as long as reading all.
fn row_ranges(tensor: &Tensor, within: Range<u64>, piece: u64) -> Vec<Range<u64>> {
    let columns = shape::columns(tensor.shape()).max(1);
    let rows = tensor.elements() / columns;
    let (end, mut at) = (within.end.min(rows), within.start);
    let step = (piece / columns).max(1);
    let step = tensor.rows_at_once().map_or(step, |all| step.next_multiple_of(all.max(1)));
    let mut ranges = Vec::new();
    while at < end {
        let next = at.saturating_add(step).min(end);
        ranges.push(at..next);
        at = next;
    }
    ranges
}

/// The bytes of this many of all elements.
fn part(bytes: u64, elements: u64, all: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(elements);
    part.checked_div(all.into()).and_then(|part| u64::try_from(part).ok()).unwrap_or(0)
}

impl ScaleStatistics {
    fn of(tensor: &Tensor) -> Result<Option<Self>> {
        let (mut sum, mut finite) = (0.0, 0u64);
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        let mut found =
            Self { count: 0, zeros: 0, not_finite: 0, min: None, max: None, mean: None };
        for stored in tensor.stored_tensors() {
            stored.for_each_scale(|scale| {
                let scale = f64::from(scale).abs();
                found.count += 1;
                found.zeros += u64::from(scale == 0.0);
                if scale.is_finite() {
                    finite += 1;
                    sum += scale;
                    (least, most) = (least.min(scale), most.max(scale));
                } else {
                    found.not_finite += 1;
                }
            })?;
        }
        if finite > 0 {
            let mean = sum / finite as f64;
            (found.min, found.max, found.mean) = (Some(least), Some(most), Some(mean));
        }
        Ok((found.count > 0).then_some(found))
    }
}
