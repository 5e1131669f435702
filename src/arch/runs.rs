//! Row selections as nested loops: which rows of a stored tensor form a canonical one.

/// A projection of attention that is stored together with others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Projection {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
}

/// One of two parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Half {
    /// The first part.
    First,
    /// The second part.
    Second,
}

impl Projection {
    /// The name, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q => "q",
            Self::K => "k",
            Self::V => "v",
        }
    }
}

impl Half {
    /// The word for this part.
    pub(super) const fn word(self, first: &'static str, second: &'static str) -> &'static str {
        match self {
            Self::First => first,
            Self::Second => second,
        }
    }
}

/// Rows of one stored tensor, as nested loops. Each loop, the outermost first, has a count and the
/// distance in rows between two iterations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RowLoops {
    pub(crate) start: u64,
    pub(crate) loops: [(u64, u64); 3],
}

/// Evenly spaced rows of one stored tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RowSpan {
    pub(crate) start: u64,
    pub(crate) step: u64,
    pub(crate) count: u64,
}

impl RowSpan {
    /// The consecutive row ranges that make up the span.
    pub(crate) fn unbroken(self) -> impl Iterator<Item = Self> {
        self.at_most_apart(1)
    }

    /// The span itself if its rows are at most so far apart, else its rows one by one.
    pub(crate) fn at_most_apart(self, most: u64) -> impl Iterator<Item = Self> {
        let Self { start, step, count } = self;
        let (times, each) =
            if step <= most { (1, self) } else { (count, Self { count: 1, step: 1, ..self }) };
        (0..times).map(move |turn| Self { start: start + turn * step, ..each })
    }
}

impl RowLoops {
    /// `count` consecutive rows from `start`.
    pub(crate) const fn of(start: u64, count: u64) -> Self {
        Self { start, loops: [(1, 0), (1, 0), (count, 1)] }
    }

    /// `count` consecutive rows from `start`, repeated every `stride` rows.
    pub(crate) const fn repeated(start: u64, count: u64, times: u64, stride: u64) -> Self {
        Self { start, loops: [(1, 0), (times, stride), (count, 1)] }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.loops.iter().fold(1, |rows: u64, (count, _)| rows.saturating_mul(*count))
    }

    /// Whether these are all `rows` rows, in order.
    pub(crate) fn is_whole(&self, rows: u64) -> bool {
        self.start == 0 && self.len() == rows && self.spans(0..rows).count() <= 1
    }

    /// The inverse selection: if this one has row m at index n, the inverse has row n at index m.
    /// `None` unless this one selects every row up to its length exactly once.
    pub(crate) fn inverse(&self) -> Option<Self> {
        let [(a, far), (b, near), (c, step)] = self.loops;
        // Each loop with its distance in rows and its distance in indices.
        let mut turns = [(a, far, b.checked_mul(c)?), (b, near, c), (c, step, 1)];
        // Sorted by rows: the loop with the largest distance is the outermost.
        turns.sort_by_key(|(count, stride, _)| (*count != 1, std::cmp::Reverse(*stride)));
        let mut reach = 1u64;
        for (count, stride, _) in turns.iter().rev().filter(|(count, ..)| *count != 1) {
            // A loop must continue where the loops within it end.
            reach = count.checked_mul(reach).filter(|_| *stride == reach)?;
        }
        let loops = turns.map(|(count, _, place)| (count, place));
        (self.start == 0).then_some(Self { start: 0, loops })
    }

    /// Some of the selected rows, by index, in few spans.
    pub(crate) fn spans(
        &self,
        within: std::ops::Range<u64>,
    ) -> impl Iterator<Item = RowSpan> + use<> {
        let Self { start, mut loops } = *self;
        // The middle loop is merged with the inner one if it continues where that one ends.
        let joins = |outer: (u64, u64), inner: (u64, u64)| {
            (outer.0 == 1 || outer.1 == inner.0 * inner.1).then_some((outer.0 * inner.0, inner.1))
        };
        if let Some(joined) = joins(loops[1], loops[2]) {
            loops = [(1, 0), loops[0], joined];
        }
        let [(_, far), (turns, near), (count, step)] = loops;
        let end = within.end.min(self.len());
        let mut row = within.start;
        std::iter::from_fn(move || {
            if row >= end {
                return None;
            }
            let (turn, at) = (row / count, row % count);
            let taken = (count - at).min(end - row);
            row += taken;
            let start = start + turn / turns * far + turn % turns * near + at * step;
            Some(RowSpan { start, step, count: taken })
        })
    }
}

/// The rows of a canonical tensor within the stored one, in order, and the dimensions that replace
/// the stored row dimension.
#[derive(Debug)]
pub(crate) struct RowSelection {
    pub(crate) runs: Vec<RowLoops>,
    pub(crate) rows: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(run: RowLoops, within: std::ops::Range<u64>) -> Vec<u64> {
        run.spans(within).flat_map(|s| (0..s.count).map(move |i| s.start + i * s.step)).collect()
    }

    #[test]
    fn runs_give_their_rows_in_order_whole_or_in_part() {
        let every = |run: RowLoops| {
            let [(a, far), (b, near), (c, step)] = run.loops;
            let mut rows = Vec::new();
            for (i, j, k) in
                (0..a).flat_map(|i| (0..b).flat_map(move |j| (0..c).map(move |k| (i, j, k))))
            {
                rows.push(run.start + i * far + j * near + k * step);
            }
            rows
        };
        for run in [
            RowLoops::of(3, 7),
            RowLoops::repeated(1, 3, 4, 5),
            RowLoops::repeated(0, 3, 4, 3),
            RowLoops { start: 0, loops: [(3, 8), (2, 1), (4, 2)] },
            RowLoops { start: 2, loops: [(1, 0), (3, 10), (5, 2)] },
            RowLoops { start: 2, loops: [(2, 12), (3, 4), (4, 1)] },
        ] {
            let expected = every(run);
            assert_eq!(run.len(), expected.len() as u64);
            for start in 0..=expected.len() {
                for end in start..=expected.len() {
                    let found = rows(run, start as u64..end as u64);
                    assert_eq!(found, expected[start..end], "{run:?} {start}..{end}");
                }
            }
        }
        for run in [
            RowLoops::of(0, 7),
            RowLoops::repeated(0, 3, 4, 3),
            RowLoops { start: 0, loops: [(3, 8), (2, 1), (4, 2)] },
            RowLoops { start: 0, loops: [(2, 1), (3, 8), (4, 2)] },
            RowLoops { start: 0, loops: [(1, 9), (5, 1), (2, 5)] },
        ] {
            let (there, back) = (every(run), every(run.inverse().unwrap()));
            let again = |m: &u64| back[usize::try_from(*m).unwrap()];
            assert!((0..).zip(&there).all(|(n, m)| again(m) == n), "{run:?}");
        }
        for run in [
            RowLoops::of(1, 7),
            RowLoops::repeated(0, 3, 4, 5),
            RowLoops::repeated(0, 3, 4, 2),
            RowLoops { start: 0, loops: [(u64::MAX, 1), (u64::MAX, 1), (u64::MAX, 1)] },
        ] {
            assert_eq!(run.inverse(), None, "{run:?}");
        }
        assert!(RowLoops::repeated(0, 3, 4, 3).is_whole(12));
        assert!(!RowLoops::repeated(0, 3, 4, 4).is_whole(12));
        assert!(!RowLoops { start: 0, loops: [(3, 8), (2, 1), (4, 2)] }.is_whole(24));
    }
}
