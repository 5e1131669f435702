//! The choice of differences that are merged.

use crate::ops::random::{after, draw};

/// A number that depends on all values of a tensor.
#[derive(Debug)]
pub(super) struct Settled {
    /// For `Slerp`: the factors of the base and of the other model.
    pub(super) arc: (f32, f32),
    /// For differences: what is kept of that of each input.
    pub(super) kept: Vec<Kept>,
}

/// The values of a difference that are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) keep: Keep,
    /// The factor of what is kept.
    pub(super) scale: f32,
}

/// A choice among differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keep {
    All,
    Nothing,
    /// The magnitudes, as bits, above `least`, and those equal to it up to an element.
    Largest {
        least: u32,
        equal_until: u64,
    },
    /// Those that are drawn with a probability.
    Drawn {
        density: f64,
        seed: u64,
    },
}

impl Keep {
    /// Sets the differences that are not kept to 0. `start` is the number of the first one.
    pub(super) fn apply(self, start: u64, values: &mut [f32]) {
        match self {
            Self::All => {}
            Self::Nothing => values.fill(0.0),
            Self::Largest { least, equal_until } => {
                let before = equal_until.saturating_sub(start);
                let before = usize::try_from(before).unwrap_or(usize::MAX).min(values.len());
                let (with_equal, without) = values.split_at_mut(before);
                let keep = |values: &mut [f32], least: u32| {
                    values.iter_mut().for_each(|value| {
                        *value = if magnitude(*value) < least { 0.0 } else { *value };
                    });
                };
                keep(with_equal, least);
                keep(without, least.saturating_add(1));
            }
            Self::Drawn { density, seed } => {
                let mut state = after(seed, start);
                for value in values {
                    let is_kept = draw(&mut state) < density;
                    *value = if is_kept { *value } else { 0.0 };
                }
            }
        }
    }
}

/// The magnitude as bits, which have the same order.
pub(super) fn magnitude(value: f32) -> u32 {
    value.to_bits() & 0x7fff_ffff
}
