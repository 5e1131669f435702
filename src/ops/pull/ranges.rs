//! Sets of ranges of a file.

use std::ops::Range;

/// Ranges that are sorted and do not touch each other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// The number of bytes in the ranges.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Adds a range, which may overlap those that are there.
    pub(super) fn add(&mut self, mut new: Range<u64>) {
        if new.start >= new.end {
            return;
        }
        let first = self.0.partition_point(|range| range.end < new.start);
        let last = self.0.partition_point(|range| range.start <= new.end);
        for range in self.0.get(first..last).unwrap_or_default() {
            new = new.start.min(range.start)..new.end.max(range.end);
        }
        self.0.splice(first..last, [new]);
    }

    /// The missing ranges of a file of `size` bytes, in pieces of at most `piece`.
    pub(super) fn missing(&self, size: u64, piece: u64) -> impl Iterator<Item = Range<u64>> {
        let starts = std::iter::once(0).chain(self.0.iter().map(|range| range.end));
        let ends = self.0.iter().map(|range| range.start).chain([size]);
        starts.zip(ends).flat_map(move |(from, to)| {
            let mut at = from;
            std::iter::from_fn(move || {
                let range = at..at.saturating_add(piece).min(to);
                at = range.end;
                (range.start < range.end).then_some(range)
            })
        })
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the ranges are short")]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_a_set_of_bytes() {
        // Compared with a list of all bytes.
        let mut random = 7_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 50]);
            for _ in 0..below(12) {
                let from = below(50);
                let to = from + below(51 - from);
                ranges.add(from..to);
                bytes[from as usize..to as usize].fill(true);
            }
            let listed = |ranges: &[Range<u64>]| {
                let mut found = [false; 50];
                ranges.iter().for_each(|r| found[r.start as usize..r.end as usize].fill(true));
                found
            };
            assert_eq!(listed(&ranges.0), bytes);
            assert!(ranges.0.iter().all(|range| range.start < range.end));
            assert_eq!(ranges.len(), bytes.iter().filter(|there| **there).count() as u64);
            assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            let missing: Vec<Range<u64>> = ranges.missing(50, 7).collect();
            assert_eq!(listed(&missing), bytes.map(|there| !there));
            assert!(missing.iter().all(|range| range.end - range.start <= 7));
            assert!(missing.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
}
