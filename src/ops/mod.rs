//! What programs do with whole models, as functions that give reports.

mod convert;
mod dialect;
mod diff;
mod experts;
mod gguf;
mod quantize;
mod rewrite;
mod verify;

pub use convert::{ConvertOptions, Quantization, convert, create};
pub use dialect::{Named, tensors_in};
pub use diff::{Diff, Outcome, Pair, Pairs, TensorDiff, ValueDiff, Worst};
pub use quantize::quantize;
pub use rewrite::{Edited, edit_metadata, merge, split};
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
