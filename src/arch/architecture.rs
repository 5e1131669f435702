//! A family of models: what its file says.

use super::conditional::ConditionalName;
use super::config::OwnKeys;
use super::habits::MlxModules;
use super::rule::{FactorRule, KeyedTensor, NameRule, Rename, expand};
use super::source::SourceModel;
use super::tensor::TensorRow;
use super::variant::Variant;
use crate::error::Result;
use crate::json::Json;

/// A family of models whose tensors have the same names and meanings.
#[derive(Debug)]
#[non_exhaustive]
pub struct Architecture {
    /// The name, as `weighbridge list architectures` shows it.
    pub name: &'static str,
    /// The models it covers.
    pub summary: &'static str,
    /// Values of `general.architecture` in GGUF.
    pub gguf: &'static [&'static str],
    /// Values of `model_type` in `config.json`.
    pub hf: &'static [&'static str],
    /// Other rows for some models with the same `model_type`.
    pub(crate) instead: &'static [Instead],
    /// The order of rows that rotary embeddings expect in a Hugging Face checkpoint.
    pub rope: RopeLayout,
    /// Tables of names; the first table that has a name takes precedence.
    pub rules: &'static [&'static [NameRule]],
    /// Canonical tensors that only the families of its file have. They take precedence over all others.
    pub(crate) canonical: &'static [TensorRow],
    /// Keys of `config.json` that only its models have.
    pub(crate) own_keys: OwnKeys,
    /// Tensors that MLX stores in another form than Hugging Face under the same name.
    pub mlx: &'static [NameRule],
    /// Names in the publisher's own checkpoints, where they differ from both.
    pub publisher: &'static [NameRule],
    /// Prefixes of stored names in Hugging Face and MLX files. They are tried in order, after the name
    /// itself.
    pub prefixes: &'static [Prefix],
    /// Canonical names that it has rules for, that other families require, and that a complete model
    /// of this one may lack.
    pub optional: &'static [&'static str],
    /// Names that a class of a dialect uses instead of those in the tables.
    pub(crate) renames: &'static [Rename],
    /// Canonical names that depend on the other tensors of the model.
    pub(crate) conditional_names: &'static [ConditionalName],
    /// Stored names for writing such tensors, where [`rules`](Self::rules) has the same stored name for
    /// the usual canonical one. They take precedence over `rules`, and are not used for reading.
    pub(crate) conditional_rules: &'static [NameRule],
    /// Patterns of stored names that no model code asks for, in addition to [`auxiliary`], and what
    /// such a tensor is.
    pub(crate) auxiliary: &'static [(&'static str, &'static str)],
    /// The number of rows of the position embedding before that of the first position, which GGUF
    /// drops.
    pub(crate) rows_before_positions: Option<fn(&SourceModel<'_>) -> Result<u64>>,
    /// The values of `general.architecture`, and what is known of each.
    pub(crate) variants: &'static [Variant],
    /// Small tensors of each layer that GGUF states as keys.
    pub(crate) keyed: &'static [KeyedTensor],
    /// Tensors that GGUF and MLX have multiplied by factors of the config.
    pub(crate) factors: &'static [FactorRule],
    /// Values of `model_type` whose classes in transformers store all experts of a layer in one
    /// tensor, where others of the family store a tensor for each.
    pub(crate) joined_experts: &'static [&'static str],
    /// Values of `model_type` that mlx-lm has no class for, and a program with one whose tensors and
    /// keys are those of Hugging Face's directories.
    pub(crate) mlx_readers: &'static [(&'static str, &'static str)],
    /// mlx-lm's choices for some modules.
    pub(crate) mlx_modules: &'static [MlxModules],
    /// Whether mlx-lm's class expects the names of vision and audio models as Hugging Face's files
    /// have them, with `model.` at the start.
    pub(crate) mlx_keeps_tower_names: bool,
    /// Starts of stored names of the layer that predicts a further token, if its class does not number it with the others,
    /// and those that the tables have instead, with that number. See [`Self::numbered`].
    pub(crate) next_layer: &'static [(&'static str, &'static str)],
    /// Whether transformers' class of the model with images holds the language model with its output
    /// matrix, as `language_model.model` and `language_model.lm_head`.
    pub(crate) outer_head: bool,
    /// Substrings of the names of tensors that mlx-lm does not cast to the model's dtype
    /// (`cast_predicate` of its classes).
    pub(crate) mlx_uncast: &'static [&'static str],
    /// Whether its models are encoders, which generate no text: each token sees those behind it.
    pub(crate) encodes: bool,
    /// Whether the number of layers in the files is that of an encoder before the decoder, which has as
    /// many layers unless another key states their number.
    pub(crate) counts_encoder_layers: bool,
    /// Whether llama.cpp and mlx-lm require keys and values of layers that take those of another one.
    pub(crate) requires_shared_keys: bool,
    /// Whether the residual stream of published models exceeds the range of `F16`.
    pub(crate) exceeds_f16: bool,
    /// The decoder's steps beyond what the config and the tensors say, for programs that run models; `None` if no line
    /// says that it can be run.
    pub decoder: Option<&'static [PlanLine]>,
}

impl Architecture {
    /// An architecture without any facts, to build others from.
    pub(crate) const EMPTY: Self = Self {
        name: "",
        summary: "",
        gguf: &[],
        hf: &[],
        instead: &[],
        rope: RopeLayout::None,
        rules: &[],
        canonical: &[],
        own_keys: OwnKeys(&[]),
        mlx: &[],
        publisher: &[],
        prefixes: &[],
        optional: &[],
        renames: &[],
        conditional_names: &[],
        conditional_rules: &[],
        auxiliary: &[],
        rows_before_positions: None,
        variants: &[],
        keyed: &[],
        factors: &[],
        joined_experts: &[],
        mlx_readers: &[],
        mlx_modules: &[],
        mlx_keeps_tower_names: false,
        next_layer: &[],
        outer_head: false,
        mlx_uncast: &[],
        encodes: false,
        counts_encoder_layers: false,
        requires_shared_keys: false,
        exceeds_f16: false,
        decoder: None,
    };
}

/// Names of the layer that predicts a further token, of number `layer`.
impl Architecture {
    /// The name of the tables for a tensor that is stored without the number. `None` for one of another layer.
    pub(super) fn numbered(&self, stored: &str, layer: u32) -> Option<String> {
        let numbered = |(own, instead): &(&str, &str)| {
            Some(expand(instead, Some(layer)) + stored.strip_prefix(own)?)
        };
        self.next_layer.iter().find_map(numbered)
    }

    /// The stored name for one of the tables.
    pub(crate) fn unnumbered(&self, name: &str, layer: u32) -> Option<String> {
        let unnumbered = |(own, instead): &(&str, &str)| {
            Some(format!("{own}{}", name.strip_prefix(&expand(instead, Some(layer)))?))
        };
        self.next_layer.iter().find_map(unnumbered)
    }
}

/// A prefix of stored names.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Prefix {
    /// The prefix in files.
    pub stored: &'static str,
    /// The prefix that the tables have instead.
    pub instead: &'static str,
    /// Whether transformers' class loads no name with this prefix, unless the model is part of another one.
    pub is_foreign: bool,
    /// The values of `model_type` whose classes load such names nevertheless.
    pub loaded_by: &'static [&'static str],
}

impl Prefix {
    /// The name that the tables have in place of a stored one. `None` if it has another prefix.
    pub(crate) fn applied(self, stored: &str) -> Option<String> {
        stored.strip_prefix(self.stored).map(|rest| format!("{}{rest}", self.instead))
    }
}

/// A line of a family's plan for decoders: the name of a block, and its values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PlanLine {
    /// The block.
    pub block: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}

/// The row of models whose `config.json` states the `model_type` of another row.
#[derive(Debug)]
pub(crate) struct Instead {
    /// The condition on `config.json`.
    pub(crate) when: fn(&Json) -> bool,
    /// The name of the other row.
    pub(crate) architecture: &'static str,
}

/// The order of the rows of q and k within a head, which determines how rotary embeddings apply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RopeLayout {
    /// Row i pairs with row i + half ("NEOX", `rotate_half`).
    HalfSplit,
    /// Row 2i pairs with row 2i + 1 ("NORM").
    Interleaved,
    /// The model has no rotary embeddings.
    None,
}

impl RopeLayout {
    /// The name, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HalfSplit => "half_split",
            Self::Interleaved => "interleaved",
            Self::None => "none",
        }
    }
}
