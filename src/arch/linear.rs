//! Row orders of linear attention in Qwen3-Next and Qwen3.5, whose layers are Gated DeltaNets.
//!
//! A key head is paired with a query head and serves several value heads. Hugging Face stores the
//! value heads of a key head together. llama.cpp's converter stores those of Qwen3.5 in tiles: the
//! first value head of every key head, then the second of every key head, so that ggml can repeat
//! keys by broadcasting (`_LinearAttentionVReorderBase` in conversion/qwen.py).

use std::fmt;

use super::ModelConfig;
use super::runs::{Half, Projection, RowLoops, RowSelection};
use crate::error::{Error, Result};

/// The rows of a stored tensor, in order, that form a tensor of linear attention.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Linear {
    /// One of q, k and v, which follow one another.
    Qkv(Projection),
    /// The v part, whose value heads are in tiles.
    TiledV,
    /// One of q, k and v, in groups with the gates of v, one for each key head.
    Grouped(Projection),
    /// The gates of v in these groups.
    GroupedGates,
    /// The write rates (b, the first half) or the decay rates (a), in groups.
    GroupedRates(Half),
    /// One of q, k and v, which the gates of v and both rates follow.
    Joined(Projection),
    /// The gates of v behind q, k and v.
    JoinedGates,
    /// The write rates (b, the first half) or the decay rates (a) behind these gates.
    JoinedRates(Half),
    /// All value heads, in tiles.
    Tiled,
    /// Channels of q, k and v; those of v are in tiles.
    TiledConvolution,
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Qkv(which) => write!(f, "{} of linear qkv", which.name()),
            Self::TiledV => f.write_str("v of linear qkv, untile heads"),
            Self::Grouped(which) => write!(f, "{} of linear qkvz by groups", which.name()),
            Self::GroupedGates => f.write_str("z of linear qkvz by groups"),
            Self::GroupedRates(which) => {
                write!(f, "{} of linear rates by groups", which.word("b", "a"))
            }
            Self::Joined(which) => write!(f, "{} of linear qkvzba", which.name()),
            Self::JoinedGates => f.write_str("z of linear qkvzba"),
            Self::JoinedRates(which) => write!(f, "{} of linear qkvzba", which.word("b", "a")),
            Self::Tiled => f.write_str("untile heads"),
            Self::TiledConvolution => f.write_str("untile heads of v"),
        }
    }
}

impl Linear {
    pub(super) fn choose(self, rows: u64, config: &ModelConfig) -> Result<RowSelection> {
        let ssm = &config.ssm;
        let (Some(keys), Some(values), Some(key_width), Some(inner)) =
            (&ssm.group_count, &ssm.time_step_rank, &ssm.state_size, &ssm.inner_size)
        else {
            return Err(Error::mismatch("the config has no numbers of linear attention"));
        };
        let [keys, values, key_width, inner] =
            [keys, values, key_width, inner].map(|field| u64::from(field.value));
        let misfit = || {
            Error::mismatch(format!(
                "{rows} rows, but the config says {keys} key heads of {key_width} and {values} \
                 value heads of {inner} together"
            ))
        };
        let even = |all: u64, parts: u64| all.checked_div(parts).filter(|each| each * parts == all);
        let each = even(values, keys).ok_or_else(misfit)?;
        let qk = keys * key_width;
        let run = |run: RowLoops| RowSelection { rows: vec![run.len()], runs: vec![run] };
        // Value head v of key head k is head k of tile v.
        let tiles = |start: u64, width: u64| RowLoops {
            start,
            loops: [(keys, width), (each, keys * width), (width, 1)],
        };
        let all = 2 * qk + inner;
        match self {
            Self::Qkv(_) | Self::TiledV | Self::TiledConvolution if rows != all => Err(misfit()),
            Self::Qkv(Projection::Q) => Ok(run(RowLoops::of(0, qk))),
            Self::Qkv(Projection::K) => Ok(run(RowLoops::of(qk, qk))),
            Self::Qkv(Projection::V) => Ok(run(RowLoops::of(2 * qk, inner))),
            Self::TiledV => Ok(run(tiles(2 * qk, even(inner, values).ok_or_else(misfit)?))),
            Self::TiledConvolution => {
                let width = even(inner, values).ok_or_else(misfit)?;
                Ok(RowSelection {
                    runs: vec![RowLoops::of(0, 2 * qk), tiles(2 * qk, width)],
                    rows: vec![all],
                })
            }
            Self::Tiled => Ok(run(tiles(0, even(rows, values).ok_or_else(misfit)?))),
            Self::Joined(_) | Self::JoinedGates | Self::JoinedRates(_) => {
                if all + inner + 2 * values != rows {
                    return Err(misfit());
                }
                let (start, count) = match self {
                    Self::Joined(Projection::Q) => (0, qk),
                    Self::Joined(Projection::K) => (qk, qk),
                    Self::Joined(Projection::V) => (2 * qk, inner),
                    Self::JoinedRates(which) => (all + inner + which as u64 * values, values),
                    _ => (all, inner),
                };
                Ok(run(RowLoops::of(start, count)))
            }
            Self::Grouped(_) | Self::GroupedGates => {
                let of_values = even(inner, keys).ok_or_else(misfit)?;
                let group = 2 * (key_width + of_values);
                if group * keys != rows {
                    return Err(misfit());
                }
                let (skip, count) = match self {
                    Self::Grouped(Projection::Q) => (0, key_width),
                    Self::Grouped(Projection::K) => (key_width, key_width),
                    Self::Grouped(Projection::V) => (2 * key_width, of_values),
                    _ => (2 * key_width + of_values, of_values),
                };
                Ok(run(RowLoops::repeated(skip, count, keys, group)))
            }
            Self::GroupedRates(which) => {
                if rows != 2 * values {
                    return Err(misfit());
                }
                Ok(run(RowLoops::repeated(which as u64 * each, each, keys, 2 * each)))
            }
        }
    }
}
