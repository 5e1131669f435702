//! How a stored tensor differs from the canonical one: exact changes of order and value.
//!
//! Canonical tensors have the values of Hugging Face checkpoints, in matrices of one row an output.
//! What holds several of them at once is taken apart by rows, so that the same names are served
//! whether a model's file keeps q, k and v apart or together.

use std::fmt;

use super::ModelConfig;
use super::linear::Linear;
use crate::error::{Error, Result};

/// How a stored tensor differs from a canonical one. The canonical tensor comes of the stored one
/// when its [axes](Self::axes) are put right, then its [rows](Self::rows) and
/// [columns](Self::columns) chosen, then its [values](Self::values) changed back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Transform {
    /// The order of its axes.
    pub axes: Axes,
    /// Which of its rows are those of the canonical tensor.
    pub rows: Rows,
    /// Which of its columns are, told in the same words.
    pub columns: Rows,
    /// What was done to its values.
    pub values: Change,
}

/// How the axes of a stored tensor differ from the canonical ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Axes {
    /// They are the same.
    Same,
    /// The last two are swapped.
    Transposed,
    /// The last two are swapped if its elements are plain; packed ones lie in the canonical order.
    TransposedIfPlain,
    /// The canonical tensor has an axis of length 1 before the last, which is not stored: a
    /// convolution of single channels.
    Squeezed,
    /// The stored tensor has a last axis of length 1 more.
    Trailing,
    /// They are the same, and the last is that of the rows: a vector for each expert.
    Vectors,
}

/// Which rows of a stored tensor, in which order, are those of a canonical one. Rows are counted
/// in the last two axes, in each of the outer arrays (experts) alike; of a vector, an element is
/// a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Rows {
    /// All of them, as they are.
    All,
    /// Those of each query head were reordered, from halves to pairs, so that rotary embeddings
    /// apply to neighbours: llama.cpp's converter for `llama` and its kin.
    PairsQ,
    /// The same, for key heads.
    PairsK,
    /// q, k and v lie one after another; the number says which.
    Qkv(u8),
    /// The same, and the rows of each head of q and k were reordered as well.
    PairsQkv(u8),
    /// q, k and v lie in groups, one for each key head: its query heads, the key head, the value
    /// head. The number says which.
    GroupedQkv(u8),
    /// The first half, or the second.
    Half(u8),
    /// The even rows, or the odd ones.
    Alternate(u8),
    /// The first half of the rows of each query head, or the second: queries, and the gates of
    /// what comes of them.
    HalfHeads(u8),
    /// Of attention in a latent space: of each head, the rows that unfold keys, or those that
    /// unfold values. They make a matrix for each head.
    Unfolding(u8),
    /// Those of linear attention.
    Linear(Linear),
}

/// What was done to the values of a stored tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Nothing.
    None,
    /// 1 was added: norms whose factor is `1 + w`.
    PlusOne,
    /// x became -e^x: logarithms of decay rates.
    NegExp,
}

/// Stored as it is.
pub(super) const SAME: Transform =
    Transform { axes: Axes::Same, rows: Rows::All, columns: Rows::All, values: Change::None };
pub(super) const PERMUTE_Q: Transform = rows(Rows::PairsQ);
pub(super) const PERMUTE_K: Transform = rows(Rows::PairsK);

pub(super) const PLUS_ONE: Transform = Transform { values: Change::PlusOne, ..SAME };

/// Stored with other rows.
pub(super) const fn rows(rows: Rows) -> Transform {
    Transform { rows, ..SAME }
}

/// Stored with other rows, as columns.
pub(super) const fn transposed(rows: Rows) -> Transform {
    Transform { axes: Axes::Transposed, rows, ..SAME }
}

impl Transform {
    /// Whether the stored tensor is the canonical one, byte for byte.
    pub fn is_same(self) -> bool {
        self == SAME
    }

    /// Whether the transform leaves out or reorders rows in a way that the config's numbers say.
    pub(crate) fn needs_config(self) -> bool {
        let alone = |rows| matches!(rows, Rows::All | Rows::Half(_) | Rows::Alternate(_));
        !alone(self.rows) || !alone(self.columns)
    }

    /// Whether rows of heads were reordered from halves to pairs.
    pub(super) fn is_paired(self) -> bool {
        matches!(self.rows, Rows::PairsQ | Rows::PairsK | Rows::PairsQkv(0 | 1))
    }

    /// The same with the file's own order and values: only what chooses among rows stays.
    pub(crate) fn as_stored(self) -> Self {
        let rows = match self.rows {
            Rows::PairsQ | Rows::PairsK => Rows::All,
            Rows::PairsQkv(part) => Rows::Qkv(part),
            Rows::Linear(Linear::Tiled | Linear::TiledConvolution) => Rows::All,
            Rows::Linear(Linear::TiledV) => Rows::Linear(Linear::Qkv(2)),
            rows => rows,
        };
        match rows {
            Rows::All => SAME,
            // Rows can be chosen only where rows are rows.
            _ => Self { axes: self.axes, rows, ..SAME },
        }
    }
}

/// One of the words that a number stands for.
pub(super) fn word(number: u8, words: &[&'static str]) -> &'static str {
    words.get(usize::from(number)).copied().unwrap_or("?")
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |which| word(which, &["q", "k", "v"]);
        match *self {
            Self::All => f.write_str("none"),
            Self::PairsQ | Self::PairsK => f.write_str("permute_qk"),
            Self::Qkv(which) => write!(f, "{} of qkv", part(which)),
            Self::PairsQkv(which) => write!(f, "{} of qkv, permute_qk", part(which)),
            Self::GroupedQkv(which) => write!(f, "{} of qkv by groups", part(which)),
            Self::Half(which) => write!(f, "{} half", word(which, &["first", "second"])),
            Self::Alternate(which) => write!(f, "{} rows", word(which, &["even", "odd"])),
            Self::HalfHeads(which) => {
                write!(f, "{} half of each head", word(which, &["first", "second"]))
            }
            Self::Unfolding(which) => write!(f, "{} of each head", word(which, &["k", "v"])),
            Self::Linear(linear) => linear.fmt(f),
        }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = match self.axes {
            Axes::Same | Axes::Vectors => None,
            Axes::Transposed => Some("transposed".to_owned()),
            Axes::TransposedIfPlain => Some("transposed if plain".to_owned()),
            Axes::Squeezed => Some("an axis of 1 left out".to_owned()),
            Axes::Trailing => Some("an axis of 1 added".to_owned()),
        };
        let columns = (self.columns != Rows::All).then(|| format!("columns {}", self.columns));
        let rows = (self.rows != Rows::All).then(|| self.rows.to_string());
        let values = match self.values {
            Change::None => None,
            Change::PlusOne => Some("plus_one".to_owned()),
            Change::NegExp => Some("neg_exp".to_owned()),
        };
        let steps: Vec<String> = [axes, rows, columns, values].into_iter().flatten().collect();
        if steps.is_empty() { f.write_str("none") } else { f.write_str(&steps.join(", ")) }
    }
}

/// Rows of one stored tensor, in loops: the outermost first, each with its count and the rows
/// from one turn to the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) loops: [(u64, u64); 3],
}

/// Evenly spaced rows of one stored tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) step: u64,
    pub(crate) count: u64,
}

impl Span {
    /// Rows one after another that make it up.
    pub(crate) fn unbroken(self) -> impl Iterator<Item = Self> {
        let (times, count) = if self.step == 1 { (1, self.count) } else { (self.count, 1) };
        let Self { start, step, .. } = self;
        (0..times).map(move |turn| Self { start: start + turn * step, step: 1, count })
    }
}

impl Run {
    /// `count` rows from `start`, one after another.
    pub(crate) const fn of(start: u64, count: u64) -> Self {
        Self { start, loops: [(1, 0), (1, 0), (count, 1)] }
    }

    /// `count` rows from `start`, and again from every `stride` rows later.
    pub(crate) const fn repeated(start: u64, count: u64, times: u64, stride: u64) -> Self {
        Self { start, loops: [(1, 0), (times, stride), (count, 1)] }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> u64 {
        self.loops.iter().fold(1, |rows: u64, (count, _)| rows.saturating_mul(*count))
    }

    /// Whether these are `rows` rows from the first, in order.
    pub(crate) fn is_whole(&self, rows: u64) -> bool {
        self.start == 0 && self.len() == rows && self.spans(0..rows).count() <= 1
    }

    /// The run that goes the other way: where this one has row m in place n, that one has row n in
    /// place m. `None` where this one has not every row up to its length, once.
    pub(crate) fn inverse(&self) -> Option<Self> {
        let [(a, far), (b, near), (c, step)] = self.loops;
        // Each loop with how far a turn of it goes in the rows, and in the places.
        let mut turns = [(a, far, b.checked_mul(c)?), (b, near, c), (c, step, 1)];
        // Taken in the order of the rows: the loop of the widest steps is the outermost.
        turns.sort_by_key(|(count, stride, _)| (*count != 1, std::cmp::Reverse(*stride)));
        let mut reach = 1u64;
        for (count, stride, _) in turns.iter().rev().filter(|(count, ..)| *count != 1) {
            // It goes on where all within it end.
            reach = count.checked_mul(reach).filter(|_| *stride == reach)?;
        }
        let loops = turns.map(|(count, _, place)| (count, place));
        (self.start == 0).then_some(Self { start: 0, loops })
    }

    /// Some of the rows, counted as this run orders them, in as few spans as there are.
    pub(crate) fn spans(&self, within: std::ops::Range<u64>) -> impl Iterator<Item = Span> + use<> {
        let Self { start, mut loops } = *self;
        // A loop that goes on where the one within it ends is one with it.
        let joins = |outer: (u64, u64), inner: (u64, u64)| {
            (outer.0 == 1 || outer.1 == inner.0 * inner.1).then_some((outer.0 * inner.0, inner.1))
        };
        if let Some(joined) = joins(loops[1], loops[2]) {
            loops = [(1, 0), loops[0], joined];
            if let Some(joined) = joins(loops[1], loops[2]) {
                loops = [(1, 0), (1, 0), joined];
            }
        } else if let Some(joined) = joins(loops[0], loops[1]) {
            loops = [(1, 0), joined, loops[2]];
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
            Some(Span { start, step, count: taken })
        })
    }
}

/// The rows of a canonical tensor in the stored one, in order, and the dimensions that they make
/// in place of the stored tensor's rows.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) runs: Vec<Run>,
    pub(crate) rows: Vec<u64>,
}

impl Rows {
    /// The rows of `arrays` arrays of `rows` rows each. `config` is needed by those rows that are
    /// told by heads.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the numbers do not fit the rows.
    pub(crate) fn choose(
        self,
        arrays: u64,
        rows: u64,
        config: Option<&ModelConfig>,
    ) -> Result<Chosen> {
        let all = arrays.checked_mul(rows).ok_or_else(|| Error::mismatch("2^64 rows"))?;
        if self == Self::All || all == 0 {
            return Ok(Chosen { runs: vec![Run::of(0, all)], rows: vec![rows] });
        }
        let halves = |part: u8, what: &str| {
            if rows.is_multiple_of(2) {
                return Ok((rows / 2, u64::from(part)));
            }
            Err(Error::mismatch(format!("{rows} rows, but {what} need an even number")))
        };
        match self {
            Self::Half(part) => {
                let (count, part) = halves(part, "halves")?;
                let run = Run::repeated(part * count, count, arrays, rows);
                return Ok(Chosen { runs: vec![run], rows: vec![count] });
            }
            Self::Alternate(part) => {
                let (count, part) = halves(part, "even and odd ones")?;
                let run = Run { start: part, loops: [(1, 0), (arrays, rows), (count, 2)] };
                return Ok(Chosen { runs: vec![run], rows: vec![count] });
            }
            _ => {}
        }
        if arrays != 1 {
            return Err(Error::mismatch(format!("{arrays} matrices where one was expected")));
        }
        let config = config.ok_or_else(|| {
            Error::mismatch("its rows lie in an order that only the model's config tells")
        })?;
        let heads = u64::from(config.n_heads.value);
        let kv_heads = u64::from(config.n_kv_heads.value);
        let misfit =
            |what: String| Error::mismatch(format!("{rows} rows, but the config says {what}"));
        // Row 2i + c of a head is row i of its half c.
        let pairs = |start: u64, rows: u64, heads: u64| {
            let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
            let half = width.filter(|width| width.is_multiple_of(2)).map(|width| width / 2);
            let half = half.ok_or_else(|| misfit(format!("{heads} heads of even width")))?;
            Ok(Run { start, loops: [(heads, 2 * half), (2, 1), (half, 2)] })
        };
        match self {
            Self::PairsQ => Ok(Chosen { runs: vec![pairs(0, rows, heads)?], rows: vec![rows] }),
            Self::PairsK => Ok(Chosen { runs: vec![pairs(0, rows, kv_heads)?], rows: vec![rows] }),
            Self::Qkv(part) | Self::PairsQkv(part) => {
                let (q, kv) = (u64::from(config.q_dim.value), u64::from(config.kv_dim.value));
                if q + 2 * kv != rows {
                    return Err(misfit(format!("{q} of q and {kv} each of k and v")));
                }
                let (start, count, heads) = match part {
                    0 => (0, q, heads),
                    1 => (q, kv, kv_heads),
                    _ => (q + kv, kv, kv_heads),
                };
                let run = match self {
                    Self::PairsQkv(0 | 1) => pairs(start, count, heads)?,
                    _ => Run::of(start, count),
                };
                Ok(Chosen { runs: vec![run], rows: vec![count] })
            }
            Self::GroupedQkv(part) => {
                let width = u64::from(config.head_dim.value);
                let queries =
                    heads.checked_div(kv_heads).filter(|_| heads.is_multiple_of(kv_heads));
                let group = queries.and_then(|queries| width.checked_mul(queries + 2));
                let fits = group.and_then(|group| group.checked_mul(kv_heads)) == Some(rows);
                let (Some(queries), Some(group), true) = (queries, group, fits) else {
                    return Err(misfit(format!(
                        "{heads} query heads and {kv_heads} each of keys and values, of {width}"
                    )));
                };
                let (skip, count) = match part {
                    0 => (0, queries * width),
                    1 => (queries * width, width),
                    _ => ((queries + 1) * width, width),
                };
                let run = Run::repeated(skip, count, kv_heads, group);
                Ok(Chosen { runs: vec![run], rows: vec![kv_heads * count] })
            }
            Self::HalfHeads(part) => {
                let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
                let half = width.filter(|width| width.is_multiple_of(2)).map(|width| width / 2);
                let half = half.ok_or_else(|| misfit(format!("{heads} heads of even width")))?;
                let run = Run::repeated(u64::from(part) * half, half, heads, 2 * half);
                Ok(Chosen { runs: vec![run], rows: vec![heads * half] })
            }
            Self::Unfolding(part) => {
                // What of a key is not rotated; the rest of it is one for all heads.
                let rotated = config.rope.dimension_count.as_ref();
                let keys =
                    rotated.and_then(|rotated| config.head_dim.value.checked_sub(rotated.value));
                let keys = keys.map(u64::from);
                let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
                let values = width.zip(keys).and_then(|(width, keys)| width.checked_sub(keys));
                let (Some(keys), Some(values)) = (keys, values) else {
                    let keys = keys.map_or("?".to_owned(), |keys| keys.to_string());
                    return Err(misfit(format!("{heads} heads of {keys} of k and more of v")));
                };
                let (skip, count) = if part == 0 { (0, keys) } else { (keys, values) };
                let run = Run::repeated(skip, count, heads, keys + values);
                Ok(Chosen { runs: vec![run], rows: vec![heads, count] })
            }
            Self::Linear(linear) => linear.choose(rows, config),
            Self::All | Self::Half(_) | Self::Alternate(_) => Err(Error::mismatch("no rows")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(run: Run, within: std::ops::Range<u64>) -> Vec<u64> {
        run.spans(within).flat_map(|s| (0..s.count).map(move |i| s.start + i * s.step)).collect()
    }

    #[test]
    fn runs_give_their_rows_in_order_whole_or_in_part() {
        let every = |run: Run| {
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
            Run::of(3, 7),
            Run::repeated(1, 3, 4, 5),
            Run::repeated(0, 3, 4, 3),
            Run { start: 0, loops: [(3, 8), (2, 1), (4, 2)] },
            Run { start: 2, loops: [(1, 0), (3, 10), (5, 2)] },
            Run { start: 2, loops: [(2, 12), (3, 4), (4, 1)] },
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
            Run::of(0, 7),
            Run::repeated(0, 3, 4, 3),
            Run { start: 0, loops: [(3, 8), (2, 1), (4, 2)] },
            Run { start: 0, loops: [(2, 1), (3, 8), (4, 2)] },
            Run { start: 0, loops: [(1, 9), (5, 1), (2, 5)] },
        ] {
            let (there, back) = (every(run), every(run.inverse().unwrap()));
            let again = |m: &u64| back[usize::try_from(*m).unwrap()];
            assert!((0..).zip(&there).all(|(n, m)| again(m) == n), "{run:?}");
        }
        for run in [
            Run::of(1, 7),
            Run::repeated(0, 3, 4, 5),
            Run::repeated(0, 3, 4, 2),
            Run { start: 0, loops: [(u64::MAX, 1), (u64::MAX, 1), (u64::MAX, 1)] },
        ] {
            assert_eq!(run.inverse(), None, "{run:?}");
        }
        assert!(Run::repeated(0, 3, 4, 3).is_whole(12));
        assert!(!Run::repeated(0, 3, 4, 4).is_whole(12));
        assert!(!Run { start: 0, loops: [(3, 8), (2, 1), (4, 2)] }.is_whole(24));
    }
}
