//! Hunyuan, dense: norms of the heads of q and k, which follow the rotation.

use serde_json::json;

use super::decoder::{DECODER, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static HUNYUAN_DENSE: Architecture = Architecture {
    name: "hunyuan-dense",
    summary: "Hunyuan 0.5B to 7B",
    gguf: &["hunyuan-dense"],
    hf: &["hunyuan_v1_dense"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORMS, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static NORMS: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.query_layernorm.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.key_layernorm.weight",   SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "hunyuan-dense",
        hf: &["hunyuan_v1_dense"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(stretched_base)]],
        classes: &[
            Class { model_type: "hunyuan_v1_dense", class: "HunYuanDenseV1ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, json::RMS, json::SILU], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

/// The length of context that the converter states for a stretched base.
const LONGEST: u32 = 256 * 1024;

/// The base of rotary embeddings, stretched by `alpha`: `base * alpha^(width / (width - 2))`.
fn stretched_base(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let Some(base) = model.config.stretched_rope_theta() else { return Ok(()) };
    keys.real("rope.freq_base", base);
    keys.set("rope.scaling.type", &"none".into());
    keys.set("rope.scaling.factor", &json!(1.0));
    keys.count("rope.scaling.original_context_length", LONGEST);
    keys.count("context_length", LONGEST);
    Ok(())
}
