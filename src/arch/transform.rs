//! Transforms: exact changes of order and value between stored and canonical tensors.
//!
//! Canonical tensors have the values of Hugging Face checkpoints, with matrices as `[outputs,
//! inputs]`. Fused tensors are split by rows, so that the same names are served whether a file
//! stores q, k and v separately or together.

use std::fmt;

use super::ModelConfig;
use super::linear::Linear;
use super::runs::{Half, Projection, RowLoops, RowSelection};
use crate::error::{Error, Result};

/// The change from a canonical tensor to a stored one. To derive the canonical tensor, restore the
/// [axes](Self::axes), then select [rows](Self::rows) and [columns](Self::columns), then undo the
/// change of [values](Self::values).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Transform {
    /// The order of the axes.
    pub axes: Axes,
    /// The rows that form the canonical tensor.
    pub rows: RowOrder,
    /// The columns that form the canonical tensor, in the same terms.
    pub columns: RowOrder,
    /// The change of the values.
    pub values: Change,
}

/// The change of a stored tensor's axes from the canonical ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Axes {
    /// No difference.
    Same,
    /// The last two axes are swapped.
    Transposed,
    /// The last two axes are swapped if elements are plain; packed ones are in canonical order.
    TransposedIfPlain,
    /// The last two axes are swapped, unless the last one is as long as the model is wide, as it is in
    /// the canonical tensor.
    WidthLast,
    /// The same for the last but one.
    WidthFirst,
    /// The canonical tensor has an axis of length 1 before the last one, which is not stored: a
    /// depthwise convolution.
    Squeezed,
    /// The stored tensor has an additional last axis of length 1.
    Trailing,
    /// The canonical tensor is a vector, stored as a matrix with a row for each group of the state space.
    Folded,
    /// No difference, and the last axis counts as rows: a vector for each expert.
    Vectors,
    /// The matrices of all experts lie one below another in one stored matrix.
    Joined,
    /// The same, with the last two axes of each expert swapped.
    JoinedTransposed,
}

/// The rows of a stored tensor, in order, that form a canonical one. Rows are counted within the
/// last two axes, and alike in each outer array (expert). In a vector, each element is a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RowOrder {
    /// All rows, in stored order.
    All,
    /// The rows of each query head are reordered from halves to pairs, so that rotary embeddings
    /// apply to neighboring rows: llama.cpp's converter for `llama` and related families.
    PairsQ,
    /// The same for key heads.
    PairsK,
    /// One of q, k and v, which follow one another.
    Qkv(Projection),
    /// The same, with the rows of each head of q and k reordered as well.
    PairsQkv(Projection),
    /// One of q, k and v in groups, one for each key head: its query heads, the key head, the value
    /// head.
    GroupedQkv(Projection),
    /// One of q, k and v in four parts, each of which has a quarter of the rows of q, of v and of k.
    QuarteredQvk(Projection),
    /// The first or the second half.
    Half(Half),
    /// The even rows (the first half of the pairs) or the odd ones.
    Alternate(Half),
    /// The first or the second half of the rows of each query head: queries, and the gates of the
    /// attention output.
    HalfHeads(Half),
    /// In latent attention: the rows of each head that expand keys (the first half) or values. They
    /// form one matrix per head.
    Unfolding(Half),
    /// Row orders of linear attention.
    Linear(Linear),
}

/// The change of the values of a stored tensor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// No change.
    None,
    /// 1 was added: norms that multiply by `1 + w`.
    PlusOne,
    /// x became -e^x: logarithms of decay rates.
    NegExp,
    /// x became e^x.
    Exp,
    /// x became ln(1 + e^x): scales that are stored so that none is negative.
    Softplus,
}

/// Stored in canonical form.
pub(super) const SAME: Transform = Transform {
    axes: Axes::Same,
    rows: RowOrder::All,
    columns: RowOrder::All,
    values: Change::None,
};

pub(crate) const PLUS_ONE: Transform = Transform { values: Change::PlusOne, ..SAME };
pub(crate) const SOFTPLUS: Transform = Transform { values: Change::Softplus, ..SAME };
pub(crate) const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };

impl Axes {
    /// For axes that depend on the tensor: what they are for one of this shape.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the shape is not that of a matrix; those of `plain`.
    pub(crate) fn resolved(
        self,
        shape: &[u64],
        plain: impl FnOnce() -> Result<bool>,
        config: Option<&ModelConfig>,
    ) -> Result<Self> {
        let in_place = match (self, shape) {
            (Self::TransposedIfPlain, _) => !plain()?,
            // Where both are as long, nothing is swapped, as in transformers.
            (Self::WidthLast, [.., _, wide]) | (Self::WidthFirst, [.., wide, _]) => {
                config.is_some_and(|config| u64::from(config.dim.value) == *wide)
            }
            (Self::WidthLast | Self::WidthFirst, _) => {
                return Err(Error::mismatch("a matrix is required"));
            }
            (axes, _) => return Ok(axes),
        };
        Ok(if in_place { Self::Same } else { Self::Transposed })
    }
}

impl Transform {
    /// Whether the stored tensor equals the canonical one, byte for byte.
    pub fn is_same(self) -> bool {
        self == SAME
    }

    /// Whether the transform selects or reorders rows by numbers of the config.
    pub(crate) fn needs_config(self) -> bool {
        let alone =
            |rows| matches!(rows, RowOrder::All | RowOrder::Half(_) | RowOrder::Alternate(_));
        let by_numbers = matches!(
            self.axes,
            Axes::WidthLast
                | Axes::WidthFirst
                | Axes::Folded
                | Axes::Joined
                | Axes::JoinedTransposed
        );
        by_numbers || !alone(self.rows) || !alone(self.columns)
    }

    /// Whether rows of heads were reordered from halves to pairs.
    pub(super) fn is_paired(self) -> bool {
        matches!(
            self.rows,
            RowOrder::PairsQ | RowOrder::PairsK | RowOrder::PairsQkv(Projection::Q | Projection::K)
        )
    }

    /// The transform without reordering and changes of values; only the selection of rows remains.
    pub(crate) fn as_stored(self) -> Self {
        let rows = match self.rows {
            RowOrder::PairsQ | RowOrder::PairsK => RowOrder::All,
            RowOrder::PairsQkv(part) => RowOrder::Qkv(part),
            RowOrder::Linear(Linear::Tiled | Linear::TiledConvolution) => RowOrder::All,
            RowOrder::Linear(Linear::TiledV) => RowOrder::Linear(Linear::Qkv(Projection::V)),
            rows => rows,
        };
        match rows {
            RowOrder::All => SAME,
            // Rows can be selected only if the row axis is in place.
            _ => Self { axes: self.axes, rows, ..SAME },
        }
    }
}

impl fmt::Display for RowOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::All => f.write_str("none"),
            Self::PairsQ | Self::PairsK => f.write_str("permute_qk"),
            Self::Qkv(which) => write!(f, "{} of qkv", which.name()),
            Self::PairsQkv(which) => write!(f, "{} of qkv, permute_qk", which.name()),
            Self::GroupedQkv(which) => write!(f, "{} of qkv by groups", which.name()),
            Self::QuarteredQvk(which) => write!(f, "{} of qvk by quarters", which.name()),
            Self::Half(which) => write!(f, "{} half", which.word("first", "second")),
            Self::Alternate(which) => write!(f, "{} rows", which.word("even", "odd")),
            Self::HalfHeads(which) => {
                write!(f, "{} half of each head", which.word("first", "second"))
            }
            Self::Unfolding(which) => write!(f, "{} of each head", which.word("k", "v")),
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
            Axes::WidthLast | Axes::WidthFirst => Some("transposed in published files".to_owned()),
            Axes::Squeezed => Some("an axis of 1 left out".to_owned()),
            Axes::Trailing => Some("an axis of 1 added".to_owned()),
            Axes::Folded => Some("a row for each group".to_owned()),
            Axes::Joined => Some("experts in one matrix".to_owned()),
            Axes::JoinedTransposed => Some("experts in one matrix, transposed".to_owned()),
        };
        let columns = (self.columns != RowOrder::All).then(|| format!("columns {}", self.columns));
        let rows = (self.rows != RowOrder::All).then(|| self.rows.to_string());
        let values = match self.values {
            Change::None => None,
            Change::PlusOne => Some("plus_one".to_owned()),
            Change::NegExp => Some("neg_exp".to_owned()),
            Change::Exp => Some("exp".to_owned()),
            Change::Softplus => Some("softplus".to_owned()),
        };
        let steps: Vec<String> = [axes, rows, columns, values].into_iter().flatten().collect();
        if steps.is_empty() { f.write_str("none") } else { f.write_str(&steps.join(", ")) }
    }
}

impl RowOrder {
    /// The rows of `arrays` arrays of `rows` rows each. `config` is required if rows are selected
    /// by heads.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the numbers do not fit the rows.
    pub(crate) fn choose(
        self,
        arrays: u64,
        rows: u64,
        config: Option<&ModelConfig>,
    ) -> Result<RowSelection> {
        let all = arrays
            .checked_mul(rows)
            .ok_or_else(|| Error::mismatch("the number of rows overflows 64 bits"))?;
        let halves = |part: Half, what: &str| {
            if rows.is_multiple_of(2) {
                return Ok((rows / 2, part as u64));
            }
            Err(Error::mismatch(format!("{rows} rows, but {what} need an even number")))
        };
        match self {
            Self::All => {
                return Ok(RowSelection { runs: vec![RowLoops::of(0, all)], rows: vec![rows] });
            }
            Self::Half(part) => {
                let (count, part) = halves(part, "halves")?;
                let run = RowLoops::repeated(part * count, count, arrays, rows);
                return Ok(RowSelection { runs: vec![run], rows: vec![count] });
            }
            Self::Alternate(part) => {
                let (count, part) = halves(part, "even and odd ones")?;
                let run = RowLoops { start: part, loops: [(1, 0), (arrays, rows), (count, 2)] };
                return Ok(RowSelection { runs: vec![run], rows: vec![count] });
            }
            _ => {}
        }
        if arrays != 1 {
            return Err(Error::mismatch(format!("{arrays} matrices where one was expected")));
        }
        let config = config.ok_or_else(|| {
            Error::mismatch("the order of its rows depends on the model's config, which is missing")
        })?;
        let heads = HeadRows::new(rows, config);
        let heads = match self {
            Self::Qkv(_) | Self::PairsQkv(_) | Self::GroupedQkv(_) => heads.of_layer(),
            _ => heads,
        };
        match self {
            Self::PairsQ | Self::PairsK => {
                let count = heads.own_count(self == Self::PairsK);
                heads.pairs(0, rows, count).map(|runs| selection(runs, rows))
            }
            Self::Qkv(part) => heads.qkv(part, false),
            Self::PairsQkv(part) => heads.qkv(part, true),
            Self::GroupedQkv(part) => heads.grouped_qkv(part),
            Self::QuarteredQvk(part) => heads.quartered_qvk(part),
            Self::HalfHeads(part) => {
                let half = heads.half_of(rows, heads.heads)?;
                let start = part as u64 * half;
                let run = RowLoops::repeated(start, half, heads.heads, 2 * half);
                Ok(selection(vec![run], heads.heads * half))
            }
            Self::Unfolding(part) => heads.unfolding(part),
            Self::Linear(linear) => linear.choose(rows, config),
            Self::All | Self::Half(_) | Self::Alternate(_) => Err(Error::mismatch("no rows")),
        }
    }
}

fn selection(runs: Vec<RowLoops>, rows: u64) -> RowSelection {
    RowSelection { runs, rows: vec![rows] }
}

/// The rows of a matrix whose order the heads of attention determine.
struct HeadRows<'c> {
    rows: u64,
    heads: u64,
    kv_heads: u64,
    /// Widths of all queries and of all keys.
    widths: [u64; 2],
    config: &'c ModelConfig,
}

impl<'c> HeadRows<'c> {
    fn new(rows: u64, config: &'c ModelConfig) -> Self {
        let (heads, kv_heads) = (config.n_heads.value.into(), config.n_kv_heads.value.into());
        let widths = [config.q_dim.value.into(), config.kv_dim.value.into()];
        Self { rows, heads, kv_heads, widths, config }
    }

    /// The same with the numbers of heads of the layers that have this many rows of queries, keys and values, if layers
    /// differ and all such layers have the same numbers.
    fn of_layer(self) -> Self {
        let attention = &self.config.attention;
        let (Some(heads), Some(kv_heads)) =
            (&attention.n_heads_per_layer, &attention.n_kv_heads_per_layer)
        else {
            return self;
        };
        let width = u64::from(self.config.head_dim.value);
        let fits = |(heads, kv_heads): &(u64, u64)| {
            let all = kv_heads.checked_mul(2).and_then(|both| both.checked_add(*heads));
            all.and_then(|all| all.checked_mul(width)) == Some(self.rows)
        };
        let pairs = heads.value.iter().zip(&kv_heads.value);
        let pairs = pairs.map(|(heads, kv_heads)| (u64::from(*heads), u64::from(*kv_heads)));
        let mut fitting: Vec<(u64, u64)> = pairs.filter(fits).collect();
        fitting.sort_unstable();
        fitting.dedup();
        match fitting.as_slice() {
            [(heads, kv_heads)] => {
                let widths = [*heads, *kv_heads].map(|heads| heads.saturating_mul(width));
                Self { heads: *heads, kv_heads: *kv_heads, widths, ..self }
            }
            _ => self,
        }
    }

    /// The number of heads of a matrix of queries or keys alone, by its rows if layers differ.
    fn own_count(&self, is_of_keys: bool) -> u64 {
        let attention = &self.config.attention;
        let (count, listed) = match is_of_keys {
            true => (self.kv_heads, &attention.n_kv_heads_per_layer),
            false => (self.heads, &attention.n_heads_per_layer),
        };
        let own = self.rows.checked_div(self.config.head_dim.value.into());
        own.filter(|_| listed.is_some()).unwrap_or(count)
    }

    fn misfit(&self, what: String) -> Error {
        Error::mismatch(format!("{} rows, but the config says {what}", self.rows))
    }

    /// Half of the width of a head.
    fn half_of(&self, rows: u64, heads: u64) -> Result<u64> {
        let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
        let half = width.filter(|width| width.is_multiple_of(2)).map(|width| width / 2);
        half.ok_or_else(|| self.misfit(format!("{heads} heads of even width")))
    }

    /// The rows of heads in pairs: row 2i + c of a head is row i of its half c. Rows of a head that
    /// are not rotated follow the others, and stay in place.
    fn pairs(&self, start: u64, rows: u64, heads: u64) -> Result<Vec<RowLoops>> {
        let half = self.half_of(rows, heads)?;
        let rotated = self.config.rope.dimension_count.as_ref().map(|count| count.value.into());
        let is_stated_width = u64::from(self.config.head_dim.value) == 2 * half;
        let rotated = rotated.filter(|&rotated: &u64| is_stated_width && rotated < 2 * half);
        let Some(rotated) = rotated.map(|rotated| rotated / 2).filter(|&half| half > 0) else {
            return Ok(vec![RowLoops { start, loops: [(heads, 2 * half), (2, 1), (half, 2)] }]);
        };
        let head = |head: u64| {
            let start = start + head * 2 * half;
            let pairs = RowLoops { start, loops: [(1, 0), (2, 1), (rotated, 2)] };
            [pairs, RowLoops::of(start + 2 * rotated, 2 * (half - rotated))]
        };
        Ok((0..heads).flat_map(head).collect())
    }

    /// The rows of q, k or v, which follow one another.
    fn qkv(&self, part: Projection, are_paired: bool) -> Result<RowSelection> {
        let [q, kv] = self.widths;
        if q.checked_add(kv).and_then(|sum| sum.checked_add(kv)) != Some(self.rows) {
            return Err(self.misfit(format!("{q} of q and {kv} each of k and v")));
        }
        let (start, count, heads) = match part {
            Projection::Q => (0, q, self.heads),
            Projection::K => (q, kv, self.kv_heads),
            Projection::V => (q + kv, kv, self.kv_heads),
        };
        let runs = match part {
            Projection::Q | Projection::K if are_paired => self.pairs(start, count, heads)?,
            _ => vec![RowLoops::of(start, count)],
        };
        Ok(selection(runs, count))
    }

    /// The rows of q, k or v, in groups of a key head.
    fn grouped_qkv(&self, part: Projection) -> Result<RowSelection> {
        let Self { rows, heads, kv_heads, config, .. } = *self;
        let width = u64::from(config.head_dim.value);
        let queries = heads.checked_div(kv_heads).filter(|_| heads.is_multiple_of(kv_heads));
        let group = queries.and_then(|queries| width.checked_mul(queries + 2));
        let fits = group.and_then(|group| group.checked_mul(kv_heads)) == Some(rows);
        let (Some(queries), Some(group), true) = (queries, group, fits) else {
            return Err(self.misfit(format!(
                "{heads} query heads and {kv_heads} each of keys and values, of {width}"
            )));
        };
        let (skip, count) = match part {
            Projection::Q => (0, queries * width),
            Projection::K => (queries * width, width),
            Projection::V => ((queries + 1) * width, width),
        };
        let run = RowLoops::repeated(skip, count, kv_heads, group);
        Ok(selection(vec![run], kv_heads * count))
    }

    /// The rows of q, k or v, a quarter of each in each of four parts.
    fn quartered_qvk(&self, part: Projection) -> Result<RowSelection> {
        let width = u64::from(self.config.q_dim.value);
        let quarter = width / 4;
        if !width.is_multiple_of(4) || width.checked_mul(3) != Some(self.rows) {
            return Err(self.misfit(format!("four parts of {width} each of q, v and k")));
        }
        let place = match part {
            Projection::Q => 0,
            Projection::V => 1,
            Projection::K => 2,
        };
        let run = RowLoops::repeated(place * quarter, quarter, 4, 3 * quarter);
        Ok(selection(vec![run], width))
    }

    /// The rows of each head that expand keys, or those that expand values.
    fn unfolding(&self, part: Half) -> Result<RowSelection> {
        let Self { rows, heads, config, .. } = *self;
        // The part of a key that is not rotated; the rotated part is one for all heads.
        let rotated = config.rope.dimension_count.as_ref();
        let keys = rotated.and_then(|rotated| config.head_dim.value.checked_sub(rotated.value));
        let keys = keys.map(u64::from);
        let width = rows.checked_div(heads).filter(|_| rows.is_multiple_of(heads));
        let values = width.zip(keys).and_then(|(width, keys)| width.checked_sub(keys));
        let (Some(keys), Some(values)) = (keys, values) else {
            let keys = keys.map_or("?".to_owned(), |keys| keys.to_string());
            return Err(self.misfit(format!("{heads} heads of {keys} of k and more of v")));
        };
        let (skip, count) = match part {
            Half::First => (0, keys),
            Half::Second => (keys, values),
        };
        let run = RowLoops::repeated(skip, count, heads, keys + values);
        Ok(RowSelection { runs: vec![run], rows: vec![heads, count] })
    }
}
