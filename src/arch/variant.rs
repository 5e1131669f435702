//! What is known of a family beside the names of its tensors: the rows by which its config, its
//! tokenizer and the choices of quantizers are translated.

use serde_json::{Map, Value as Json};

use super::config::{Defaults, Reported};
use super::habits::{LlamaQuantize, TokenizerHabits};
use super::source::{KeyWriter, SourceModel};
use crate::error::Result;

/// One value of `general.architecture` in GGUF, the values of `model_type` in `config.json` that
/// become it, and what is known of such a model.
#[derive(Debug)]
pub(crate) struct Variant {
    /// `general.architecture`.
    pub(crate) gguf: &'static str,
    /// Values of `model_type` that become it.
    pub(crate) hf: &'static [&'static str],
    /// The class in `architectures` that tells it from another variant of the same `model_type`.
    pub(crate) class: Option<&'static str>,
    /// Its keys in GGUF, as llama.cpp's converter writes them (`conversion/*.py`,
    /// `set_gguf_parameters`). A later rule overrides an earlier one.
    pub(crate) keys: &'static [&'static [KeyRule]],
    /// The values of the tensor `rope_freqs.weight`, where the family makes one of its config.
    pub(crate) rope_freqs: Option<RopeFreqs>,
    /// What it becomes in `config.json`: the first class whose condition holds.
    pub(crate) classes: &'static [Class],
    /// Numbers that its files leave out.
    pub(crate) defaults: Defaults,
    /// What its tokenizer does otherwise than others.
    pub(crate) tokenizer: TokenizerHabits,
    /// What llama-quantize does otherwise.
    pub(crate) llama_quantize: LlamaQuantize,
}

/// Derives divisors of rotary frequencies from a model's config.
pub(crate) type RopeFreqs = fn(&SourceModel<'_>) -> Result<Vec<f32>>;

impl Variant {
    /// A variant of which nothing is known.
    pub(crate) const EMPTY: Self = Self {
        gguf: "",
        hf: &[],
        class: None,
        keys: &[],
        rope_freqs: None,
        classes: &[],
        defaults: Defaults::NONE,
        tokenizer: TokenizerHabits::NONE,
        llama_quantize: LlamaQuantize::NONE,
    };
}

/// One key that a variant has in GGUF.
#[derive(Debug)]
pub(crate) enum KeyRule {
    /// A row of the config's table, where the model's files have it.
    Row(&'static str),
    /// A row under another name than its first.
    As(&'static str, &'static str),
    /// A row, or this value where the files lack it.
    Or(&'static str, Constant),
    /// A row as [`ModelConfig`](crate::ModelConfig) derives it from other numbers where the files
    /// lack it.
    Settled(&'static str),
    /// The same value for every model, under this key.
    Fixed(&'static str, Constant),
    /// How many elements of a head are rotated; this part of them where the files do not say.
    Rotated(f32),
    /// Keys that follow from several numbers, or from one that the table has no row for.
    By(fn(&SourceModel<'_>, &mut KeyWriter<'_>) -> Result<()>),
}

/// A class of transformers that a variant becomes in `config.json`.
#[derive(Debug)]
pub(crate) struct Class {
    /// `model_type`.
    pub(crate) model_type: &'static str,
    /// `architectures`.
    pub(crate) class: &'static str,
    /// The condition; none where it always holds.
    pub(crate) when: Option<fn(&SourceModel<'_>) -> bool>,
    /// The `model_type` of the config that mlx-lm puts this one into, under `text_config`.
    pub(crate) within: Option<&'static str>,
    /// Its keys. A later rule overrides an earlier one.
    pub(crate) rules: &'static [&'static [ConfigRule]],
}

impl Class {
    /// A class without keys, which always fits.
    pub(crate) const EMPTY: Self =
        Self { model_type: "", class: "", when: None, within: None, rules: &[] };
}

/// One key that a class has in `config.json`.
#[derive(Debug)]
pub(crate) enum ConfigRule {
    /// A field of the config under that key.
    Field(&'static str, &'static str),
    /// As `Field`; a model that lacks it cannot be converted, since the class's default is wrong.
    Needed(&'static str, &'static str),
    /// A key of GGUF that is no field, behind the architecture's name, and the key here.
    Stated(&'static str, &'static str),
    /// The same value for every model.
    Fixed(&'static str, Constant),
    /// Keys that follow from several fields, or from the tensors.
    By(fn(&SourceModel<'_>, &mut Map<String, Json>) -> Result<()>),
}

/// A value that a rule holds itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constant {
    Count(u32),
    Real(f32),
    Flag(bool),
    Word(&'static str),
}

impl From<Constant> for Json {
    fn from(constant: Constant) -> Self {
        match constant {
            Constant::Count(count) => count.reported(),
            Constant::Real(real) => real.reported(),
            Constant::Flag(flag) => flag.into(),
            Constant::Word(word) => word.into(),
        }
    }
}
