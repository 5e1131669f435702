//! EXAONE 3 and 3.5: Llama's network under GPT-2's names. Transformers runs them by code of the
//! model's own.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, REQUIRED, json, keys};
use crate::arch::config::{Defaults, Reported};
use crate::arch::rule::{NameRule, hf};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, NormKind, RopeLayout};
use crate::error::Result;

use Constant::Word;

/// The architecture's row.
pub(super) static EXAONE: Architecture = Architecture {
    name: "exaone",
    summary: "EXAONE 3 and 3.5",
    gguf: &["exaone"],
    hf: &["exaone"],
    rope: RopeLayout::HalfSplit,
    rules: &[NAMES, DECODER],
    prefixes: &[("", "transformer.")],
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// Names in Hugging Face's files and mlx-lm's.
#[rustfmt::skip]
static NAMES: &[NameRule] = &[
    hf("token_embedding.weight",             "transformer.wte.weight",                             SAME),
    hf("output_norm.weight",                 "transformer.ln_f.weight",                            SAME),
    hf("layers.{n}.attention_norm.weight",   "transformer.h.{n}.ln_1.weight",                      SAME),
    hf("layers.{n}.attention.q.weight",      "transformer.h.{n}.attn.attention.q_proj.weight",     SAME),
    hf("layers.{n}.attention.k.weight",      "transformer.h.{n}.attn.attention.k_proj.weight",     SAME),
    hf("layers.{n}.attention.v.weight",      "transformer.h.{n}.attn.attention.v_proj.weight",     SAME),
    hf("layers.{n}.attention.output.weight", "transformer.h.{n}.attn.attention.out_proj.weight",   SAME),
    hf("layers.{n}.ffn_norm.weight",         "transformer.h.{n}.ln_2.weight",                      SAME),
    hf("layers.{n}.ffn.gate.weight",         "transformer.h.{n}.mlp.c_fc_0.weight",                SAME),
    hf("layers.{n}.ffn.up.weight",           "transformer.h.{n}.mlp.c_fc_1.weight",                SAME),
    hf("layers.{n}.ffn.down.weight",         "transformer.h.{n}.mlp.c_proj.weight",                SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "exaone",
        hf: &["exaone"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(epsilon), K::Rotated(1.0)]],
        classes: &[
            Class { model_type: "exaone", class: "ExaoneForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, &[C::By(layers), C::Field("norm_eps", "layer_norm_epsilon"), C::Fixed("activation_function", Word("silu"))]], ..Class::EMPTY },
        ],
        defaults: Defaults { norms: Some(NormKind::Rms), ..Defaults::activation("silu") },
        ..Variant::EMPTY
    },
];

/// The converter takes the epsilon for that of layer norms, by its name. llama.cpp requires it under
/// the name of RMS norms, which these are.
fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let eps = model.config.norm_eps.as_ref().map(|eps| eps.value);
    let eps = eps.ok_or_else(|| model.missing_in_config("layer_norm_epsilon"))?;
    keys.real("attention.layer_norm_epsilon", eps);
    keys.real("attention.layer_norm_rms_epsilon", eps);
    Ok(())
}

fn layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.remove("num_hidden_layers");
    out.insert("num_layers".to_owned(), model.own_layers().reported());
    Ok(())
}
