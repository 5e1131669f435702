//! Facts about a family other than tensor names: rules for its config, its tokenizer and the
//! choices of quantizing programs.

use super::config::FamilyDefault;
use super::habits::Exceptions;
use super::source::{KeyWriter, SourceModel};
pub(crate) use crate::engines::Constant;
use crate::error::Result;
use crate::json::{Json, Map};

/// One value of `general.architecture` in GGUF, the values of `model_type` in `config.json` that
/// map to it, and the facts about such models.
#[derive(Debug)]
pub(crate) struct Variant {
    /// `general.architecture`; empty if GGUF has no architecture for such models.
    pub(crate) gguf: &'static str,
    /// The reason why there is none, if more is known than that.
    pub(crate) refused: Option<&'static str>,
    /// Values of `model_type` that map to it.
    pub(crate) hf: &'static [&'static str],
    /// The class in `architectures` that distinguishes it from another variant of the same
    /// `model_type`.
    pub(crate) class: Option<&'static str>,
    /// The conditions on `config.json` that distinguish it from another variant of the same
    /// `model_type`.
    pub(crate) when: &'static [ConfigCondition],
    /// Its keys in GGUF, as llama.cpp's converter writes them (`conversion/*.py`,
    /// `set_gguf_parameters`). A later rule overrides an earlier one.
    pub(crate) keys: &'static [&'static [KeyRule]],
    /// Derives the values of the tensor `rope_freqs.weight`, if the family has one.
    pub(crate) rope_freqs: Option<RopeFreqs>,
    /// Whether the converter writes `rope_freqs.weight` for Llama 3's scaling though it states no
    /// number of rotated elements.
    pub(crate) llama3_factors: bool,
    /// Its form in `config.json`: the first class whose condition holds.
    pub(crate) classes: &'static [Class],
    /// Changes a `config.json` to the form that mlx-lm's class reads, beyond what
    /// [its table](crate::engines::mlx_lm) says.
    pub(crate) mlx_config: Option<MlxConfig>,
    /// Defaults for numbers that its files leave out.
    pub(crate) defaults: &'static [FamilyDefault],
    /// Exceptions of its tokenizer.
    pub(crate) tokenizer: Exceptions,
    /// Exceptions of llama-quantize.
    pub(crate) llama_quantize: Exceptions,
}

/// Derives divisors of rotary frequencies from a model's config.
pub(crate) type RopeFreqs = fn(&SourceModel<'_>) -> Result<Vec<f32>>;

/// Changes a `config.json` for mlx-lm.
pub(crate) type MlxConfig = fn(&SourceModel<'_>, &mut Map<String, Json>) -> Result<()>;

impl Variant {
    /// Whether its conditions hold for a `config.json`.
    pub(crate) fn fits(&self, config: &Json) -> bool {
        self.when.iter().all(|condition| match condition {
            Condition::Is(is) => is(config),
            Condition::Not(is) => !is(config),
            Condition::Has(_) | Condition::Lacks(_) => false,
        })
    }

    /// A variant without any facts, to build others from.
    pub(crate) const EMPTY: Self = Self {
        gguf: "",
        hf: &[],
        refused: None,
        class: None,
        when: &[],
        keys: &[],
        rope_freqs: None,
        llama3_factors: false,
        classes: &[],
        mlx_config: None,
        defaults: &[],
        tokenizer: Exceptions(&[]),
        llama_quantize: Exceptions(&[]),
    };
}

/// A rule for one GGUF key of a variant, or for several.
#[derive(Debug)]
pub(crate) enum KeyRule {
    /// A row of the config's table, if the model's files have it.
    Row(&'static str),
    /// A row under another name than its first.
    As(&'static str, &'static str),
    /// A row, or this value if the files lack it.
    Or(&'static str, Constant),
    /// A row as the files state it, or else as [`ModelConfig`](crate::ModelConfig) derives it.
    Derived(&'static str),
    /// The same value for every model, under this key.
    Fixed(&'static str, Constant),
    /// The number of rotated elements of a head; this fraction of them if the files do not state
    /// it.
    Rotated(f32),
    /// The place of `general.file_type` among the keys. The value is set when the dtypes are known.
    FileType,
    /// No key: a value of `config.json` that must be one of these, since GGUF cannot express others.
    Only(&'static str, &'static [&'static str]),
    /// A number of this type under this key, which `config.json` states at this path.
    Stated(KeyType, &'static str, &'static str),
    /// Keys derived from several numbers, or from one that the table has no row for.
    By(fn(&SourceModel<'_>, &mut KeyWriter<'_>) -> Result<()>),
}

/// The type of a value in GGUF.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyType {
    Count,
    Real,
    Flag,
}

/// A condition that a family's file names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<F> {
    /// The function returns true.
    Is(F),
    /// The function returns false.
    Not(F),
    /// The model has a tensor with this canonical name.
    Has(&'static str),
    /// The model has no tensor with this canonical name.
    Lacks(&'static str),
}

/// A condition on a `config.json`.
pub(crate) type ConfigCondition = Condition<fn(&Json) -> bool>;

/// A condition on a model.
pub(crate) type ModelCondition = Condition<fn(&SourceModel<'_>) -> bool>;

/// A class of transformers that a variant maps to in `config.json`.
#[derive(Debug)]
pub(crate) struct Class {
    /// `model_type`.
    pub(crate) model_type: &'static str,
    /// `architectures`.
    pub(crate) class: &'static str,
    /// The conditions, which must all hold.
    pub(crate) when: &'static [ModelCondition],
    /// The `model_type` of mlx-lm's outer config, which holds this one under `text_config`.
    pub(crate) within: Option<&'static str>,
    /// Its keys. A later rule overrides an earlier one.
    pub(crate) rules: &'static [&'static [ConfigRule]],
}

impl Class {
    /// Whether its conditions hold for a model.
    pub(crate) fn fits(&self, model: &SourceModel<'_>) -> bool {
        self.when.iter().all(|condition| match condition {
            Condition::Is(is) => is(model),
            Condition::Not(is) => !is(model),
            Condition::Has(canonical) => model.has(canonical),
            Condition::Lacks(canonical) => !model.has(canonical),
        })
    }

    /// A class without keys and conditions.
    pub(crate) const EMPTY: Self =
        Self { model_type: "", class: "", when: &[], within: None, rules: &[] };
}

/// A rule for one key of a class in `config.json`, or for several.
#[derive(Debug)]
pub(crate) enum ConfigRule {
    /// A field of the config under this key.
    Field(&'static str, &'static str),
    /// Like `Field`, but required: an error if the model lacks it, since the class's default is
    /// wrong.
    Needed(&'static str, &'static str),
    /// A GGUF key that is in no field, without the architecture's prefix, the key here, and the value
    /// without it: an error if there is none.
    Stated(&'static str, &'static str, Option<Constant>),
    /// The same value for every model.
    Fixed(&'static str, Constant),
    /// Keys derived from several fields, or from tensors.
    By(fn(&SourceModel<'_>, &mut Map<String, Json>) -> Result<()>),
}
