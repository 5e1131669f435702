//! What single families do otherwise than others: their tokenizers in GGUF, and what the programs
//! that quantize choose for them.

/// What a variant's tokenizer does otherwise in GGUF, by llama.cpp's converter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenizerHabits {
    /// No space is put before a text, whatever the files say.
    pub(crate) no_space_prefix: bool,
    /// Special tokens that the files do not name: the key behind `tokenizer.ggml.`, and the token.
    pub(crate) special: &'static [(&'static str, &'static str)],
    /// llama.cpp's names for ways to split text that this variant has, where several names stand for
    /// the same steps.
    pub(crate) pre: &'static [&'static str],
    /// llama.cpp's name for how text is split, where there is no `tokenizer.json` to say it.
    pub(crate) default_pre: Option<&'static str>,
    /// How a tokenizer with merges and bytes is stored; none where it is stored as SentencePiece's.
    pub(crate) merges: Option<MergesHabits>,
    /// `tokenizer.ggml.token_type_count` is written.
    pub(crate) counts_token_types: bool,
}

impl TokenizerHabits {
    /// As most tokenizers are.
    pub(crate) const NONE: Self = Self {
        no_space_prefix: false,
        special: &[],
        pre: &[],
        default_pre: None,
        merges: None,
        counts_token_types: false,
    };
}

/// A tokenizer with merges and bytes that llama.cpp has a `tokenizer.ggml.model` of its own for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergesHabits {
    /// `tokenizer.ggml.model`.
    pub(crate) model: &'static str,
    /// Control tokens that stay visible in the text, so that a chat's parser can read them.
    pub(crate) shown: &'static [&'static str],
}

/// What llama-quantize does otherwise for one `general.architecture` (src/llama-quant.cpp of
/// llama.cpp, as of ggml 0.25.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LlamaQuantize {
    /// It has Falcon's rules: `Q8_0` for the output, and other dtypes for the second matrix of the
    /// feed-forward network and for the output of attention.
    pub(crate) falcon: bool,
    /// The model of that many layers is "70B" to llama.cpp (`LLM_TYPE_70B` in src/models/*.cpp),
    /// which gives values of attention more bits.
    pub(crate) seventy_layers: Option<u64>,
    /// Only if it has fewer heads for keys than for queries, and not 8 experts.
    pub(crate) seventy_if_grouped: bool,
    /// Pieces of the names of tensors that stay as they are.
    pub(crate) kept: &'static [&'static str],
    /// Pieces of the names of tensors that get `Q8_0` whatever the file type.
    pub(crate) eight_bits: &'static [&'static str],
    /// In `MXFP4_MOE`, experts are told by their names, since latent attention has stacks of
    /// matrices too.
    pub(crate) experts_by_name: bool,
}

impl LlamaQuantize {
    /// As for most architectures.
    pub(crate) const NONE: Self = Self {
        falcon: false,
        seventy_layers: None,
        seventy_if_grouped: false,
        kept: &[],
        eight_bits: &[],
        experts_by_name: false,
    };
}

/// What mlx-lm chooses for some modules of some models: `quant_predicate` and the classes of
/// mlx_lm/models/*.py, as of mlx-lm 0.32.2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MlxModules {
    /// Values of `model_type`.
    pub(crate) models: &'static [&'static str],
    /// Which modules.
    pub(crate) path: MlxPath,
    /// What they get.
    pub(crate) choice: MlxChoice,
}

/// How [`MlxModules`] finds modules by their paths.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MlxPath {
    EndsWith(&'static str),
    Contains(&'static str),
    Is(&'static str),
}

impl MlxPath {
    /// Whether a module's path is one of these.
    pub(crate) fn matches(self, path: &str) -> bool {
        match self {
            Self::EndsWith(end) => path.ends_with(end),
            Self::Contains(piece) => path.contains(piece),
            Self::Is(whole) => path == whole,
        }
    }
}

/// What mlx-lm does with a module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MlxChoice {
    /// It is quantized as all others are.
    Usual,
    /// It stays as it is.
    Kept,
    /// 8 bits in groups of 64, affine.
    EightBits,
    /// It is a bare `weight` and no linear layer, which no option quantizes.
    Bare,
}
