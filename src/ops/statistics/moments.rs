//! Counts, range, mean and deviation of values.

use crate::quant::{LANES, sums};

/// The least or the largest value of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Extreme {
    /// The value.
    pub value: f64,
    /// Its indices, outermost first.
    pub at: Vec<u64>,
}

/// The moments of some consecutive values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    /// The position of the next value in the tensor.
    next: u64,
    pub(super) elements: u64,
    pub(super) nan: u64,
    pub(super) infinite: u64,
    pub(super) zeros: u64,
    finite: u64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    squares: f64,
    min: Option<(f32, u64)>,
    max: Option<(f32, u64)>,
}

/// The number of values in a block, which stay in the processor's cache.
const BLOCK: usize = 1024;

impl Moments {
    /// Nothing yet; the first value will be the one at this position.
    pub(super) fn starting_at(position: u64) -> Self {
        Self { next: position, ..Self::default() }
    }

    /// Adds the next values.
    pub(super) fn add(&mut self, values: &[f32]) {
        for block in values.chunks(BLOCK) {
            let (lanes, rest) = block.as_chunks();
            if !self.add_finite(lanes) {
                self.add_any(lanes.as_flattened());
            }
            self.add_any(rest);
        }
    }

    /// Adds values that are all finite. Otherwise, or if there are none, does nothing and returns `false`.
    fn add_finite(&mut self, values: &[[f32; LANES]]) -> bool {
        let Some(found) = sums(values) else { return false };
        let flat = values.as_flattened();
        let place = |wanted: f32| flat.iter().position(|value| *value == wanted).unwrap_or(0);
        if self.min.is_none_or(|(min, _)| found.least < min) {
            self.min = Some((found.least, self.next + place(found.least) as u64));
        }
        if self.max.is_none_or(|(max, _)| found.most > max) {
            self.max = Some((found.most, self.next + place(found.most) as u64));
        }
        let count = flat.len() as u64;
        self.zeros += found.zeros;
        self.elements += count;
        self.next += count;
        self.join(count, found.mean, found.squares);
        true
    }

    /// Adds any values, one by one.
    fn add_any(&mut self, values: &[f32]) {
        for (&value, at) in values.iter().zip(self.next..) {
            if value.is_nan() {
                self.nan += 1;
            } else if value.is_infinite() {
                self.infinite += 1;
            } else {
                self.zeros += u64::from(value == 0.0);
                if self.min.is_none_or(|(min, _)| value < min) {
                    self.min = Some((value, at));
                }
                if self.max.is_none_or(|(max, _)| value > max) {
                    self.max = Some((value, at));
                }
                self.join(1, value.into(), 0.0);
            }
        }
        self.elements += values.len() as u64;
        self.next += values.len() as u64;
    }

    /// Joins the mean and the squared distances of more finite values.
    fn join(&mut self, count: u64, mean: f64, squares: f64) {
        if count == 0 {
            return;
        }
        let (own, more) = (self.finite as f64, count as f64);
        let distance = mean - self.mean;
        self.finite += count;
        let all = self.finite as f64;
        self.mean += distance * (more / all);
        self.squares += squares + distance * distance * (own * more / all);
    }

    /// Adds values that come after these.
    pub(super) fn merge(&mut self, other: &Self) {
        self.next = other.next;
        self.elements += other.elements;
        self.nan += other.nan;
        self.infinite += other.infinite;
        self.zeros += other.zeros;
        self.join(other.finite, other.mean, other.squares);
        let extremes = |own: Option<(f32, u64)>,
                        other: Option<(f32, u64)>,
                        beats: fn(f32, f32) -> bool| {
            match (own, other) {
                (Some(own), Some(other)) if beats(other.0, own.0) => Some(other),
                (own, other) => own.or(other),
            }
        };
        self.min = extremes(self.min, other.min, |new, old| new < old);
        self.max = extremes(self.max, other.max, |new, old| new > old);
    }

    pub(super) fn min(&self, shape: &[u64]) -> Option<Extreme> {
        extreme(self.min, shape)
    }

    pub(super) fn max(&self, shape: &[u64]) -> Option<Extreme> {
        extreme(self.max, shape)
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.finite > 0).then_some(self.mean)
    }

    pub(super) fn deviation(&self) -> Option<f64> {
        (self.finite > 0).then(|| (self.squares / self.finite as f64).sqrt())
    }

    pub(super) fn rms(&self) -> Option<f64> {
        (self.finite > 0)
            .then(|| (self.squares / self.finite as f64 + self.mean * self.mean).sqrt())
    }
}

fn extreme(found: Option<(f32, u64)>, shape: &[u64]) -> Option<Extreme> {
    let (value, position) = found?;
    Some(Extreme { value: value.into(), at: crate::shape::indices(position, shape) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f32]) -> Moments {
        let mut found = Moments::default();
        found.add(values);
        found
    }

    #[test]
    fn blocks_and_pieces_find_what_plain_sums_do() {
        let values: Vec<f32> = (0..10_000u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0 + 100.0)
            .collect();
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / values.len() as f64;
        let squares = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>();
        let deviation = (squares / values.len() as f64).sqrt();
        let min = values.iter().copied().fold(f32::INFINITY, f32::min);
        let position = values.iter().position(|v| *v == min).unwrap() as u64;
        for cut in [0, 1, 1000, 1024, 5000, 9999] {
            let (first, rest) = values.split_at(cut);
            let mut found = of(first);
            let mut second = Moments::starting_at(cut as u64);
            rest.chunks(777).for_each(|some| second.add(some));
            found.merge(&second);
            assert_eq!((found.elements, found.finite), (10_000, 10_000));
            assert!((found.mean().unwrap() - mean).abs() < 1e-9);
            assert!((found.deviation().unwrap() - deviation).abs() < 1e-9);
            let expected = Extreme { value: min.into(), at: vec![position / 100, position % 100] };
            assert_eq!(found.min(&[100, 100]), Some(expected));
        }
        // A constant has no deviation, however large it is.
        assert_eq!(of(&[1e30; 3000]).deviation(), Some(0.0));
    }

    #[test]
    fn odd_values_are_counted_apart() {
        let mut values = vec![1.0f32; 3000];
        values[5] = f32::NAN;
        values[1500] = f32::INFINITY;
        values[1501] = f32::NEG_INFINITY;
        values[2999] = -0.0;
        let found = of(&values);
        assert_eq!((found.elements, found.nan, found.infinite, found.zeros), (3000, 1, 2, 1));
        assert_eq!(found.min(&[3000]), Some(Extreme { value: 0.0, at: vec![2999] }));
        assert_eq!(found.max(&[3000]), Some(Extreme { value: 1.0, at: vec![0] }));
        let none = of(&[f32::NAN; 4]);
        assert_eq!((none.mean(), none.rms(), none.min(&[4])), (None, None, None));
    }
}
