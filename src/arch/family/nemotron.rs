//! Nemotron 3 and 4, and Minitron: layer norms that multiply by `1 + w`, and a feed-forward network
//! without a gate.

use super::decoder::{DECODER, NORM_BIASES, PREFIXES, UNGATED_REQUIRED, json, keys};
use crate::arch::RopeScalingKind;
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::PLUS_ONE;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, NormKind, RopeLayout};
use crate::error::Result;

use Constant::Word;

/// The architecture's row.
pub(super) static NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    summary: "Nemotron 3 and 4, Minitron",
    gguf: &["nemotron"],
    hf: &["nemotron"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORMS, NORM_BIASES, DECODER],
    prefixes: PREFIXES,
    required: UNGATED_REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static NORMS: &[NameRule] = &[
    rule("output_norm.weight",               "output_norm.weight",       "model.norm.weight",                                PLUS_ONE),
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "model.layers.{n}.input_layernorm.weight",          PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",       "blk.{n}.ffn_norm.weight",  "model.layers.{n}.post_attention_layernorm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "nemotron",
        hf: &["nemotron"],
        keys: &[keys::BASE, keys::HEADS, &[K::Derived("vocab_size"), K::By(keys::layer_norm_epsilon), K::Rotated(0.5), K::By(unscaled)]],
        classes: &[
            Class { model_type: "nemotron", class: "NemotronForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, &[C::Field("norm_eps", "norm_eps"), C::By(json::rotary_part), C::Fixed("hidden_act", Word("relu2"))]], ..Class::EMPTY },
        ],
        defaults: Defaults { norms: Some(NormKind::Layer), ..Defaults::activation("relu2") },
        ..Variant::EMPTY
    },
];

/// The converter states that rotary embeddings are not scaled.
fn unscaled(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kind = model.config.rope_scaling.kind.as_ref().map(|kind| &kind.value);
    if matches!(kind, None | Some(RopeScalingKind::None)) {
        keys.set("rope.scaling.type", &"none".into());
    }
    Ok(())
}
