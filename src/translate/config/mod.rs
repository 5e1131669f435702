//! The config in the words of another container.

mod bert;
mod families;
mod forms;
pub(super) mod gguf;
pub(super) mod hf;

pub(crate) use bert::rows_before_positions;
