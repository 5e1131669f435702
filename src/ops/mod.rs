//! What programs do with whole models, as functions that give reports.

mod diff;

pub use diff::{Diff, Outcome, Pair, Pairs, TensorDiff, ValueDiff, Worst};
