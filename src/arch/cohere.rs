//! Command R and its successors: attention and network side by side behind one norm.

use super::decoder::{BARE, DECODER, PREFIXES, QK_NORM};
use super::{Architecture, RopeLayout};

/// The row of the table.
pub(super) static COMMAND_R: Architecture = Architecture {
    name: "command-r",
    summary: "Command R, R+, R7B and A, Aya 23 and Expanse",
    gguf: &["command-r", "cohere2"],
    hf: &["cohere", "cohere2"],
    rope: RopeLayout::Interleaved,
    rules: &[QK_NORM, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: BARE,
};
