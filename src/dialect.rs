//! Dialects: whose tensor names, shapes and orders of rows a model uses.

/// The naming convention that a model's tensors follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Dialect {
    /// llama.cpp's names, in GGUF files.
    Gguf,
    /// The names of Hugging Face's transformers.
    HuggingFace,
    /// The names of mlx-lm: those of Hugging Face, with some names and values changed.
    Mlx,
    /// The names of a publisher's own checkpoints (Mistral's `consolidated.safetensors`).
    Publisher,
}

impl Dialect {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gguf => "gguf",
            Self::HuggingFace => "hugging_face",
            Self::Mlx => "mlx",
            Self::Publisher => "publisher",
        }
    }
}
