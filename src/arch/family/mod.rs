//! The model families. Each has a `static Architecture` in a file of this folder, which close
//! relatives share, and an entry in [`ARCHITECTURES`].
//!
//! An `Architecture` holds the tensor names in every dialect and the transforms between dialects,
//! the config keys in GGUF and in `config.json`, and the family's exceptions in tokenizers and in
//! quantizing programs. [`decoder`] holds what decoders share. [`others`] holds facts about families
//! that have no canonical names.

mod apertus;
mod bert;
mod class_defaults;
mod cohere;
mod decoder;
mod deepseek;
mod ernie;
mod exaone;
mod exaone4;
mod falcon;
mod gemma;
mod glm;
mod gpt2;
mod gpt_oss;
mod granite;
mod graphs;
mod hunyuan;
mod jamba;
mod jina_bert;
mod lfm2;
mod llama;
mod llama4;
mod mamba;
mod minicpm3;
mod modernbert;
mod nemotron;
mod nomic_bert;
mod olmo;
mod others;
mod phi;
mod phi2;
mod qwen;
mod qwen3_next;
mod rankers;
mod seed_oss;
mod stablelm;
mod starcoder2;
mod t5;
mod towers;
mod whisper;

use super::Architecture;
use super::config::{Defaults, GgufDefaults};
use super::graph::Graph;
use super::habits::{LlamaQuantize, MlxModules};
use super::source::SourceModel;
use super::tower::{Tower, TowerConfig};
use super::variant::{Class, Variant};
pub(crate) use class_defaults::ClassDefaults;
use class_defaults::{
    CLASS_DEFAULTS, MLX_LM_CLASSES, MLX_LM_TIED, MLX_LM_UNBIASED, MLX_LM_UNTIED, TIED_BY_DEFAULT,
};
pub(crate) use rankers::{RANKERS, Ranker};

/// All supported architectures. A model of another architecture opens under its stored names.
pub static ARCHITECTURES: &[&Architecture] = &[
    &llama::LLAMA,
    &llama::ARCEE,
    &llama::BAICHUAN,
    &llama::DEEPSEEK,
    &granite::GRANITE,
    &granite::HYBRID,
    &llama::INTERNLM2,
    &llama::OLMO,
    &llama4::LLAMA4,
    &qwen::QWEN2,
    &qwen::QWEN2MOE,
    &qwen::QWEN3,
    &qwen::QWEN3MOE,
    &qwen::QWEN3VLMOE,
    &qwen3_next::QWEN3_NEXT,
    &qwen3_next::QWEN3_5,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &gemma::GEMMA3N,
    &gemma::GEMMA4,
    &phi2::PHI2,
    &phi::PHI3,
    &phi::PHIMOE,
    &gpt_oss::GPT_OSS,
    &deepseek::DEEPSEEK2,
    &minicpm3::MINICPM3,
    &glm::GLM4,
    &glm::GLM4MOE,
    &olmo::OLMO2,
    &olmo::OLMOE,
    &cohere::COMMAND_R,
    &apertus::APERTUS,
    &ernie::ERNIE4_5,
    &exaone::EXAONE,
    &exaone4::EXAONE4,
    &hunyuan::HUNYUAN_DENSE,
    &hunyuan::HUNYUAN_MOE,
    &jamba::JAMBA,
    &lfm2::LFM2,
    &mamba::MAMBA,
    &mamba::MAMBA2,
    &nemotron::NEMOTRON,
    &seed_oss::SEED_OSS,
    &stablelm::STABLELM,
    &starcoder2::STARCODER2,
    &falcon::FALCON,
    &gpt2::GPT2,
    &bert::BERT,
    &jina_bert::JINA_BERT_V2,
    &modernbert::MODERNBERT,
    &nomic_bert::NOMIC_BERT,
    &nomic_bert::NOMIC_BERT_MOE,
    &t5::T5,
    &t5::T5_ENCODER,
    &whisper::WHISPER,
];

/// All variants of all architectures.
pub(crate) fn variants() -> impl Iterator<Item = &'static Variant> {
    ARCHITECTURES.iter().flat_map(|row| row.variants)
}

/// All classes that a value of `general.architecture` may map to in `config.json`.
pub(crate) fn classes(gguf: &str) -> impl Iterator<Item = &'static Class> {
    variants().filter(move |variant| variant.gguf == gguf).flat_map(|variant| variant.classes)
}

/// The class in `config.json` that a GGUF model maps to.
pub(crate) fn class_of(model: &SourceModel<'_>) -> Option<&'static Class> {
    let mut classes = classes(model.architecture());
    classes.find(|class| class.when.is_none_or(|fits| fits(model)))
}

/// Defaults for numbers that a model's files leave out, by the architecture's name in those files.
pub(crate) fn defaults(name: &str) -> Defaults {
    let of_class = class_defaults(name).map_or(&[][..], |class| class.transformers);
    let all = || variants().chain(others::VARIANTS);
    if let Some(variant) = all().find(|variant| variant.gguf == name) {
        return Defaults { of_class, ..variant.defaults };
    }
    if let Some(variant) = all().find(|variant| variant.hf.contains(&name)) {
        return Defaults { of_class, of_gguf: GgufDefaults::NONE, ..variant.defaults };
    }
    let kin = others::STARTS.iter().find(|(start, _)| name.starts_with(start));
    kin.map_or(Defaults::NONE, |(_, defaults)| Defaults {
        of_gguf: GgufDefaults::NONE,
        ..*defaults
    })
}

/// What llama.cpp's loader accepts and requires of a value of `general.architecture`. `None` for one
/// that the table does not have.
pub(crate) fn graph(gguf: &str) -> Option<&'static Graph> {
    graphs::GRAPHS.iter().find(|graph| graph.architectures.contains(&gguf))
}

/// The kind of a model's vision model, if its form in GGUF is known.
pub(crate) fn tower(config: &TowerConfig<'_>) -> Option<&'static Tower> {
    towers::TOWERS.iter().find(|tower| config.is(tower))
}

/// What transformers' and mlx-lm's classes of a `model_type` take for keys that are omitted.
pub(crate) fn class_defaults(model_type: &str) -> Option<&'static ClassDefaults> {
    CLASS_DEFAULTS.iter().find(|class| class.model_type == model_type)
}

/// Whether mlx-lm's class of a `model_type` has an output matrix of its own, even if the model ties it
/// to the embedding.
pub(crate) fn is_untied_in_mlx_lm(model_type: &str) -> bool {
    MLX_LM_UNTIED.contains(&model_type)
}

/// Whether mlx-lm's class of a `model_type` has no output matrix, and always uses the embedding.
pub(crate) fn is_tied_in_mlx_lm(model_type: &str) -> bool {
    MLX_LM_TIED.contains(&model_type)
}

/// Whether transformers' class of a `model_type` ties the output matrix to the embedding if `config.json`
/// does not say so. `None` if the table has no class for it.
pub(crate) fn ties_by_default(model_type: &str) -> Option<bool> {
    let known = class_defaults(model_type).is_some_and(|class| !class.transformers.is_empty());
    known.then(|| TIED_BY_DEFAULT.contains(&model_type))
}

/// Whether mlx-lm's class of a `model_type` has no biases although transformers' class has, if this flag
/// is true.
pub(crate) fn is_unbiased_in_mlx_lm(model_type: &str, flag: &str) -> bool {
    MLX_LM_UNBIASED.contains(&(model_type, flag))
}

/// Whether mlx-lm has a class for a `model_type`.
pub(crate) fn is_in_mlx_lm(model_type: &str) -> bool {
    MLX_LM_CLASSES.contains(&model_type)
}

/// Exceptions of llama-quantize for a value of `general.architecture`.
pub(crate) fn llama_quantize(gguf: &str) -> LlamaQuantize {
    let found = variants().chain(others::VARIANTS).find(|variant| variant.gguf == gguf);
    found.map_or(LlamaQuantize::NONE, |variant| variant.llama_quantize)
}

/// mlx-lm's choices for modules of a `model_type`; the first match applies.
pub(crate) fn mlx_modules(model_type: &str) -> impl Iterator<Item = &'static MlxModules> {
    let rows = ARCHITECTURES.iter().flat_map(|row| row.mlx_modules).chain(others::MLX_MODULES);
    rows.filter(move |row| row.models.contains(&model_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::config::key;
    use crate::arch::variant::{ConfigRule, KeyRule};

    /// Fields that no row reads, since they are made of others.
    const MADE: [&str; 4] = ["norm_eps", "sliding_window_pattern", "head_dim", "n_layers"];

    #[test]
    fn every_line_is_read_again_by_its_own_row() {
        for class in variants().flat_map(|variant| variant.classes) {
            for rule in class.rules.iter().copied().flatten() {
                let (ConfigRule::Field(field, written) | ConfigRule::Needed(field, written)) = rule
                else {
                    continue;
                };
                if MADE.contains(field) {
                    continue;
                }
                let key =
                    key(field).unwrap_or_else(|| panic!("{}: no row {field}", class.model_type));
                let own = key.json.contains(written)
                    // Widths that the config shares between two fields.
                    || (*field, *written) == ("expert_ffn_dim", "intermediate_size")
                    || (*field, *written) == ("shared_expert_ffn_dim", "shared_intermediate_size");
                assert!(own, "{}: {field} is not read from {written}", class.model_type);
            }
        }
    }

    #[test]
    fn every_variant_but_whisper_has_a_graph() {
        for variant in variants() {
            let has = graph(variant.gguf).is_some();
            assert_eq!(has, variant.gguf != "whisper", "{}", variant.gguf);
        }
        let names = graphs::GRAPHS.iter().flat_map(|graph| graph.architectures);
        let mut sorted: Vec<&&str> = names.collect();
        sorted.sort();
        let len = sorted.len();
        sorted.dedup();
        assert_eq!(sorted.len(), len, "an architecture has two rows");
    }

    #[test]
    fn every_rule_names_a_row() {
        for variant in variants() {
            for rule in variant.keys.iter().copied().flatten() {
                let (KeyRule::Row(name)
                | KeyRule::As(name, _)
                | KeyRule::Or(name, _)
                | KeyRule::Derived(name)) = rule
                else {
                    continue;
                };
                let key = key(name).unwrap_or_else(|| panic!("{}: no row {name}", variant.gguf));
                assert!(!key.gguf.is_empty(), "{}: {name} has no key in GGUF", variant.gguf);
            }
        }
    }

    #[test]
    fn defaults_are_found_by_names() {
        let (gguf, hf) = (defaults("gemma3"), defaults("gemma3_text"));
        assert_eq!((gguf.window_period, hf.window_period), (Some(6), Some(6)));
        assert_eq!(gguf.of_gguf.activation, Some("gelu_pytorch_tanh"));
        assert_eq!(hf.of_gguf.activation, None, "its config.json states it");
        // Nothing but its kin is known of it.
        let other = defaults("gemma9");
        assert!(other.scaled_embedding);
        assert_eq!((other.window_period, other.of_gguf.activation), (None, None));
        assert!(defaults("gptj").of_gguf.ffn_four_times);
        assert!(!defaults("RefinedWeb").of_gguf.ffn_four_times);
        assert!(!defaults("unheard-of").scaled_embedding);
    }

    #[test]
    fn every_name_has_a_variant() {
        for row in ARCHITECTURES {
            for name in row.hf {
                let found = row.variants.iter().any(|variant| variant.hf.contains(name));
                assert!(found, "{}: {name}", row.name);
            }
            for name in row.gguf {
                let found = row.variants.iter().find(|variant| variant.gguf == *name);
                let variant = found.unwrap_or_else(|| panic!("{}: {name}", row.name));
                assert!(!variant.keys.is_empty(), "{}: {name}", row.name);
                assert!(!variant.classes.is_empty(), "{}: {name}", row.name);
            }
            for variant in row.variants {
                // Some models of one architecture in Hugging Face's files are of another in GGUF.
                let known = match variant.when {
                    None => row.gguf.contains(&variant.gguf),
                    Some(_) => ARCHITECTURES.iter().any(|row| row.gguf.contains(&variant.gguf)),
                };
                assert!(known, "{} is not of {}", variant.gguf, row.name);
                for name in variant.hf {
                    assert!(row.hf.contains(name), "{name} is not of {}", row.name);
                }
            }
        }
    }
}
