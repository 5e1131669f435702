//! Exceptions of single families: their tokenizers in GGUF, and the choices of quantizing programs.

/// Exceptions of a variant's tokenizer in GGUF, as llama.cpp's converter writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenizerHabits {
    /// `tokenizer.ggml.add_space_prefix` is false, whatever the files state.
    pub(crate) no_space_prefix: bool,
    /// Special tokens that the files do not name: the key after `tokenizer.ggml.`, and the token.
    pub(crate) special: &'static [(&'static str, &'static str)],
    /// llama.cpp's pre-tokenizer names of this variant, used if several names stand for the same
    /// steps.
    pub(crate) pre: &'static [&'static str],
    /// llama.cpp's pre-tokenizer name, used if there is no `tokenizer.json`.
    pub(crate) default_pre: Option<&'static str>,
    /// How a BPE tokenizer with byte tokens is stored; `None` if it is stored as SentencePiece's.
    pub(crate) merges: Option<MergesHabits>,
    /// Whether `tokenizer.ggml.token_type_count` is written.
    pub(crate) counts_token_types: bool,
}

impl TokenizerHabits {
    /// No exceptions.
    pub(crate) const NONE: Self = Self {
        no_space_prefix: false,
        special: &[],
        pre: &[],
        default_pre: None,
        merges: None,
        counts_token_types: false,
    };
}

/// A BPE tokenizer with byte tokens that has a `tokenizer.ggml.model` of its own in llama.cpp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergesHabits {
    /// `tokenizer.ggml.model`.
    pub(crate) model: &'static str,
    /// Control tokens that stay visible in the text, so that a chat parser can read them.
    pub(crate) shown: &'static [&'static str],
}

/// Exceptions of llama-quantize for one `general.architecture` (src/llama-quant.cpp of llama.cpp,
/// as of ggml 0.25.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LlamaQuantize {
    /// Falcon's rules apply: `Q8_0` for the output, and other dtypes for the second matrix of the
    /// feed-forward network and for the output of attention.
    pub(crate) falcon: bool,
    /// The number of layers of the model that llama.cpp calls "70B" (`LLM_TYPE_70B` in
    /// src/models/*.cpp), whose attention values get more bits.
    pub(crate) seventy_layers: Option<u64>,
    /// That rule applies only with fewer key heads than query heads, and unless there are 8
    /// experts.
    pub(crate) seventy_if_grouped: bool,
    /// Substrings of the names of tensors that are not quantized.
    pub(crate) kept: &'static [&'static str],
    /// Substrings of the names of tensors that get `Q8_0` in every file type.
    pub(crate) eight_bits: &'static [&'static str],
    /// In `MXFP4_MOE`, experts are recognized by name, since latent attention stacks matrices too.
    pub(crate) experts_by_name: bool,
}

impl LlamaQuantize {
    /// No exceptions.
    pub(crate) const NONE: Self = Self {
        falcon: false,
        seventy_layers: None,
        seventy_if_grouped: false,
        kept: &[],
        eight_bits: &[],
        experts_by_name: false,
    };
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

/// How [`MlxModules`] matches the paths of modules.
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
