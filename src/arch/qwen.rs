//! Qwen 2 and 3, dense and with experts.

use super::decoder::{DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED, SHARED_EXPERT};
use super::{Architecture, RopeLayout};

/// The row of the table: biases on q, k and v.
pub(super) static QWEN2: Architecture = Architecture {
    name: "qwen2",
    summary: "Qwen 1.5, 2 and 2.5, dense",
    gguf: &["qwen2", "qwen2vl"],
    hf: &["qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: a shared expert with a gate.
pub(super) static QWEN2MOE: Architecture = Architecture {
    name: "qwen2moe",
    summary: "Qwen 1.5 and 2 with experts",
    gguf: &["qwen2moe"],
    hf: &["qwen2_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[SHARED_EXPERT, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: norms on q and k.
pub(super) static QWEN3: Architecture = Architecture {
    name: "qwen3",
    summary: "Qwen 3, dense",
    gguf: &["qwen3", "qwen3vl"],
    hf: &["qwen3", "qwen3_vl", "qwen3_vl_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};

/// The row of the table: both.
pub(super) static QWEN3MOE: Architecture = Architecture {
    name: "qwen3moe",
    summary: "Qwen 3 with experts",
    gguf: &["qwen3moe"],
    hf: &["qwen3_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[QK_NORM, MIXTURE, DECODER],
    mlx: &[],
    publisher: &[],
    prefixes: PREFIXES,
    required: REQUIRED,
};
