//! What programs do with whole models, as functions that give reports.

mod dialect;
mod diff;
mod rewrite;

pub use diff::{Diff, Outcome, Pair, Pairs, TensorDiff, ValueDiff, Worst};
pub use rewrite::{Shards, edit_metadata, merge, split};
