//! Exceptions of single families: their tokenizers in GGUF, and the choices of quantizing programs.

/// Exceptions of a variant for one program, as its file states them: their names and values.
/// `families/README.md` says what each one means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exceptions(pub(crate) &'static [(&'static str, &'static [&'static str])]);

impl Exceptions {
    /// Those of its tokenizer in GGUF, as llama.cpp's converter writes it.
    pub(crate) const OF_TOKENIZER: &[&str] =
        &["no_space_prefix", "special", "pre", "merges", "counts_token_types", "strips_after"];

    /// Those of llama-quantize for one `general.architecture` (src/llama-quant.cpp of llama.cpp, as of
    /// ggml 0.25.3).
    pub(crate) const OF_LLAMA_QUANTIZE: &[&str] = &[
        "eight_bit_output",
        "seventy_layers",
        "seventy_if_grouped",
        "kept",
        "eight_bits",
        "experts_by_name",
    ];

    /// Whether there is one with this name.
    pub(crate) fn has(self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// The values of an exception; none if it does not apply.
    pub(crate) fn values(self, name: &str) -> &'static [&'static str] {
        self.all(name).next().unwrap_or_default()
    }

    /// The values of each line with this name.
    pub(crate) fn all(self, name: &str) -> impl Iterator<Item = &'static [&'static str]> {
        self.0.iter().filter(move |(other, _)| *other == name).map(|(_, values)| *values)
    }
}

/// mlx-lm's choices for some modules of some models: `quant_predicate` and the classes of
/// mlx_lm/models/*.py, of the version in `engines/mlx-lm`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MlxModules {
    /// Values of `model_type`.
    pub(crate) models: &'static [&'static str],
    /// The modules.
    pub(crate) path: MlxPath,
    /// The choice for these modules.
    pub(crate) choice: MlxChoice,
}

/// A pattern of the paths of modules, for [`MlxModules`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum MlxPath {
    EndsWith(&'static str),
    Contains(&'static str),
    Is(&'static str),
}

impl MlxPath {
    /// Whether a module's path matches.
    pub(crate) fn matches(self, path: &str) -> bool {
        match self {
            Self::EndsWith(end) => path.ends_with(end),
            Self::Contains(piece) => path.contains(piece),
            Self::Is(whole) => path == whole,
        }
    }
}

/// mlx-lm's choice for a module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MlxChoice {
    /// Quantized like all others.
    Usual,
    /// Not quantized.
    Kept,
    /// 8 bits in groups of 64, affine.
    EightBits,
    /// A bare `weight` that is not a linear layer, which no option quantizes.
    Bare,
}
