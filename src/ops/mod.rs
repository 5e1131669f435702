//! What programs do with whole models, as functions that give reports.

mod convert;
mod create;
mod dialect;
mod diff;
mod experts;
mod gguf;
mod packing;
mod quantize;
mod rewrite;
mod verify;

pub use convert::{ConvertOptions, Format, convert};
pub use create::create;
pub use dialect::{Spoken, speak};
pub use diff::{Diff, Outcome, Pair, Pairs, TensorDiff, ValueDiff, Worst};
pub use quantize::quantize;
pub use rewrite::{Edited, Shards, edit_metadata, merge, split};
pub use verify::{Meaning, check_meaning};

/// What a reader should know of tensors that are left out.
fn left_out(tensors: &[(String, String)]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in tensors {
        match by_reason.iter_mut().find(|(other, _)| other == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let note = |(reason, names): (&str, Vec<&str>)| match names.as_slice() {
        [one] => format!("left out: {one}: {reason}"),
        [first, ..] => format!("left out: {first} and {} more: {reason}", names.len() - 1),
        [] => String::new(),
    };
    by_reason.into_iter().map(note).collect()
}
