//! Counts of values in buckets, from which quantiles and histograms follow.

/// Counts of `f32` values by their upper 16 bits: the sign, the exponent and the first 7 bits of the
/// fraction. A bucket is at most 1/128 as wide as its smallest magnitude.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    counts: Vec<u64>,
    /// The lower 16 bits that any counted value has set. If there are none, each bucket has a single
    /// value, and what follows from the counts is exact.
    low_bits: u32,
}

/// The number of buckets.
const BUCKETS: usize = 1 << 16;

/// The bucket of the smallest infinity; NaN and infinities are in the buckets after it.
const INFINITE: u16 = 0x7f80;

/// The occupied buckets of finite values, ascending.
#[derive(Debug)]
pub(super) struct Buckets(Vec<Bucket>);

/// Some values that are counted together: at least `low` and at most `high`.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    low: f64,
    high: f64,
    count: u64,
}

/// A histogram with bins of equal width.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Histogram {
    /// The lower end of the first bin.
    pub low: f64,
    /// The upper end of the last bin, which includes it.
    pub high: f64,
    /// The number of finite values below the first bin.
    pub below: u64,
    /// The number of values in each bin.
    pub counts: Vec<u64>,
    /// The number of finite values above the last bin.
    pub above: u64,
}

impl Distribution {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], low_bits: 0 }
    }

    /// Counts values. NaN and infinities are counted too, but play no part in the results.
    pub(super) fn add(&mut self, values: &[f32]) {
        let Some(counts) = self.counts.first_chunk_mut::<BUCKETS>() else { return };
        for value in values {
            let [_, _, low, high] = value.to_le_bytes();
            let bucket = usize::from(u16::from_le_bytes([low, high]));
            if let Some(count) = counts.get_mut(bucket) {
                *count += 1;
            }
        }
        let bits = values.iter().fold(0, |bits, value| bits | value.to_bits());
        self.low_bits |= bits & 0xffff;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*more);
        }
        self.low_bits |= other.low_bits;
    }

    /// The counts, in a form that is short if there are few values.
    pub(super) fn buckets(&self) -> Buckets {
        let negative = (0x8000..0x8000 | INFINITE).rev();
        let occupied = negative.chain(0..INFINITE).filter_map(|bucket: u16| {
            let count = self.counts.get(usize::from(bucket)).copied().filter(|count| *count > 0)?;
            // The width of a bucket whose values differ only in the lower 16 bits that occur.
            let first = u32::from(bucket) << 16;
            let ends = [first, first | self.low_bits];
            let [near, far] = ends.map(|bits| f64::from(f32::from_bits(bits)));
            let (low, high) = match bucket {
                // What is so close to 0 is counted as 0.
                0 | 0x8000 => (0.0, 0.0),
                0x8001.. => (far, near),
                _ => (near, far),
            };
            Some(Bucket { low, high, count })
        });
        Buckets(occupied.collect())
    }
}

impl Buckets {
    /// The values below which these shares of all finite values lie, within `range`. The shares must
    /// ascend.
    pub(super) fn quantiles(&self, shares: &[f64], range: (f64, f64)) -> Vec<f64> {
        let all: u64 = self.0.iter().map(|bucket| bucket.count).sum();
        let mut buckets = self.0.iter().copied();
        let (mut before, mut bucket) = (0u64, buckets.next());
        let mut found = Vec::new();
        for share in shares {
            let rank = share * all.saturating_sub(1) as f64;
            while let Some(now) = bucket
                && before.saturating_add(now.count) as f64 <= rank
            {
                let Some(next) = buckets.next() else { break };
                before = before.saturating_add(now.count);
                bucket = Some(next);
            }
            let Some(Bucket { low, high, count }) = bucket else { break };
            let within = ((rank - before as f64 + 0.5) / count as f64).clamp(0.0, 1.0);
            found.push((low + (high - low) * within).clamp(range.0, range.1));
        }
        found
    }

    /// The number of values whose distance from `center` exceeds `distance`.
    pub(super) fn beyond(&self, center: f64, distance: f64) -> u64 {
        let share = |bucket: Bucket| {
            let Bucket { low, high, count } = bucket;
            let outside = |value: f64| (value - center).abs() > distance;
            match (outside(low), outside(high)) {
                (true, true) => count as f64,
                (false, false) => 0.0,
                (below, _) => {
                    let edge = if below { center - distance } else { center + distance };
                    let within = ((edge - low) / (high - low)).clamp(0.0, 1.0);
                    count as f64 * if below { within } else { 1.0 - within }
                }
            }
        };
        rounded(self.0.iter().copied().map(share).sum())
    }

    /// A histogram of this many bins from `low` to `high`. `range` is the least and the largest finite
    /// value.
    pub(super) fn histogram(
        &self,
        (low, high): (f64, f64),
        bins: usize,
        range: (f64, f64),
    ) -> Histogram {
        let width = (high - low) / bins.max(1) as f64;
        // The share of each bin, and of what is below the first and above the last.
        let mut shares = vec![0.0f64; bins.max(1) + 2];
        let last = bins.max(1);
        let place = |value: f64| match (value - low) / width {
            _ if value < low => 0.0,
            _ if value > high => last as f64 + 1.0,
            // If all values are equal, there is a single bin without a width.
            place if !place.is_finite() => 1.0,
            place => (1.0 + place).min(last as f64 + 1.0 - 1e-9),
        };
        for bucket in &self.0 {
            let from = bucket.low.clamp(range.0, range.1);
            let to = bucket.high.clamp(range.0, range.1);
            let (first, end) = (place(from), place(to));
            let count = bucket.count as f64;
            let (first_bin, end_bin) = (index(first), index(end));
            if first_bin == end_bin || to <= from {
                if let Some(share) = shares.get_mut(first_bin) {
                    *share += count;
                }
                continue;
            }
            for bin in first_bin..=end_bin {
                let start = if bin == 0 { from } else { low + (bin as f64 - 1.0) * width };
                let stop = if bin > last { to } else { low + bin as f64 * width };
                let part = (stop.min(to) - start.max(from)) / (to - from);
                if let Some(share) = shares.get_mut(bin) {
                    *share += count * part.max(0.0);
                }
            }
        }
        // Rounding the sums keeps the total.
        let (mut sum, mut done) = (0.0, 0);
        let mut counts: Vec<u64> = shares
            .iter()
            .map(|share| {
                sum += share;
                let now = rounded(sum);
                let count = now.saturating_sub(done);
                done = done.max(now);
                count
            })
            .collect();
        let above = counts.pop().unwrap_or(0);
        let below = counts.drain(..1).next().unwrap_or(0);
        Histogram { low, high, below, counts, above }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a place in a list")]
fn index(place: f64) -> usize {
    place.max(0.0) as usize
}

#[expect(clippy::cast_possible_truncation, reason = "a count")]
fn rounded(count: f64) -> u64 {
    count.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[f32]) -> Distribution {
        let mut found = Distribution::new();
        found.add(values);
        found
    }

    fn of(values: &[f32]) -> Buckets {
        counted(values).buckets()
    }

    /// Numbers that look normally distributed, the same in every run.
    fn bell(count: usize) -> Vec<f32> {
        let mut state = 7u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u32 << 24) as f32 - 0.5
        };
        (0..count).map(|_| (0..12).map(|_| next()).sum::<f32>() * 0.02).collect()
    }

    /// A bucket that a border divides counts in proportion, at both ends.
    #[test]
    fn values_beyond_a_distance_are_counted() {
        let values: Vec<f32> = (0..1000).map(|n| 1.0 + n as f32 / 128_000.0).collect();
        let found = of(&values);
        for (center, distance, expected) in [
            (1.0, 1.0 / 256.0, 500),
            (1.0 + 1.0 / 128.0, 1.0 / 256.0, 500),
            (1.0 + 1.0 / 128.0, 1.0 / 512.0, 750),
            (1.0, 1.0, 0),
            (3.0, 1.0, 1000),
        ] {
            let found = found.beyond(center, distance);
            assert!(found.abs_diff(expected) <= 20, "{center} {distance}: {found}, not {expected}");
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let values = bell(100_000);
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let range = (f64::from(sorted[0]), f64::from(sorted[sorted.len() - 1]));
        let shares = [0.0, 0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.99, 0.999, 1.0];
        let found = of(&values).quantiles(&shares, range);
        for (share, found) in shares.into_iter().zip(&found) {
            let exact = f64::from(sorted[index(share * (sorted.len() - 1) as f64)]);
            assert!(
                (found - exact).abs() <= exact.abs() / 100.0 + 1e-5,
                "{share}: {found}, {exact}"
            );
        }
    }

    /// Values of BF16 have buckets of their own.
    #[test]
    fn values_of_8_significant_bits_are_counted_exactly() {
        let found = of(&[-2.0, -1.0, -1.0, 0.0, 0.5, 1.0, 1.0078125]);
        let quantiles = found.quantiles(&[0.0, 0.5, 0.75, 1.0], (-2.0, 1.0078125));
        assert_eq!(quantiles, [-2.0, 0.0, 0.5, 1.0078125]);
        assert_eq!(found.beyond(0.0, 1.0), 2);
        assert_eq!(found.beyond(0.0, 0.99), 5);
        let histogram = found.histogram((-2.0, 2.0), 4, (-2.0, 1.0078125));
        assert_eq!(
            (histogram.below, &*histogram.counts, histogram.above),
            (0, &[1, 2, 2, 2][..], 0)
        );
        let middle = found.histogram((-1.0, 0.5), 3, (-2.0, 1.0078125));
        assert_eq!((middle.below, &*middle.counts, middle.above), (1, &[2, 0, 2][..], 2));
    }

    #[test]
    fn a_histogram_counts_every_finite_value() {
        let mut values = bell(10_000);
        values.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN]);
        let found = of(&values);
        for bins in [1, 7, 64, 1000] {
            for range in [(-0.1, 0.1), (-0.01, 0.02), (0.0, 0.0), (5.0, 6.0)] {
                let histogram = found.histogram(range, bins, (-0.12, 0.12));
                assert_eq!(histogram.counts.len(), bins);
                let sum: u64 = histogram.counts.iter().sum();
                assert_eq!(histogram.below + sum + histogram.above, 10_000, "{bins}, {range:?}");
            }
        }
        let exact =
            |low: f32, high: f32| values.iter().filter(|v| **v >= low && **v < high).count();
        let histogram = found.histogram((-0.08, 0.08), 16, (-0.12, 0.12));
        for (bin, count) in histogram.counts.iter().enumerate() {
            let low = -0.08 + bin as f32 * 0.01;
            let expected = exact(low, low + 0.01) as f64;
            assert!(
                (*count as f64 - expected).abs() <= 8.0 + expected * 0.05,
                "{bin}: {count}, {expected}"
            );
        }
    }

    #[test]
    fn equal_and_missing_values() {
        let found = of(&[3.3; 5]);
        let value = f64::from(3.3f32);
        assert_eq!(found.quantiles(&[0.0, 0.5, 1.0], (value, value)), [value; 3]);
        let histogram = found.histogram((value, value), 8, (value, value));
        assert_eq!(histogram.counts, [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(found.beyond(value, 0.1), 0);
        let none = of(&[f32::NAN]);
        assert!(none.quantiles(&[0.5], (0.0, 0.0)).is_empty());
        assert_eq!(none.histogram((0.0, 1.0), 2, (0.0, 0.0)).counts, [0, 0]);
        let mut both = counted(&[1.0]);
        both.merge(&counted(&[2.0, 3.3]));
        assert_eq!(both.buckets().histogram((1.0, 4.0), 3, (1.0, 4.0)).counts, [1, 1, 1]);
    }
}
