//! Seed-OSS.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    summary: "Seed-OSS",
    gguf: &["seed_oss"],
    hf: &["seed_oss"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORM, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// llama.cpp calls the norm before the network as Hugging Face does, by what is before it.
#[rustfmt::skip]
static NORM: &[NameRule] = &[
    rule("layers.{n}.ffn_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight", SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "seed_oss",
        hf: &["seed_oss"],
        keys: &[keys::BASE, keys::HEADS],
        classes: &[
            Class { model_type: "seed_oss", class: "SeedOssForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, json::RMS, json::SILU, &[C::By(output_bias)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

/// The bias of the output matrix has a flag of its own.
fn output_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let biased = model.has_in_layers("attention.output.bias");
    out.insert("attention_out_bias".to_owned(), biased.into());
    Ok(())
}
