//! Hunyuan, dense and with experts: norms of the heads of q and k, which follow the rotation.

use serde_json::{Map, Value as Json, json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
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

/// With experts, and a shared expert.
pub(super) static HUNYUAN_MOE: Architecture = Architecture {
    name: "hunyuan-moe",
    summary: "Hunyuan A13B",
    gguf: &["hunyuan-moe"],
    hf: &["hunyuan_v1_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORMS, EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: MOES,
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static NORMS: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.query_layernorm.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.key_layernorm.weight",   SAME),
];

#[rustfmt::skip]
static EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",               "model.layers.{n}.mlp.gate.wg.weight",                                                SAME),
    rule("layers.{n}.ffn.shared_expert.gate.weight", "blk.{n}.ffn_gate_shexp.weight", "model.layers.{n}.mlp.shared_mlp.gate_proj.weight", SAME),
    rule("layers.{n}.ffn.shared_expert.up.weight",   "blk.{n}.ffn_up_shexp.weight",   "model.layers.{n}.mlp.shared_mlp.up_proj.weight",   SAME),
    rule("layers.{n}.ffn.shared_expert.down.weight", "blk.{n}.ffn_down_shexp.weight", "model.layers.{n}.mlp.shared_mlp.down_proj.weight", SAME),
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

#[rustfmt::skip]
static MOES: &[Variant] = &[
    Variant {
        gguf: "hunyuan-moe",
        hf: &["hunyuan_v1_moe"],
        keys: &[keys::BASE, keys::HEADS, &[K::By(experts), K::By(stretched_base)]],
        classes: &[
            Class { model_type: "hunyuan_v1_moe", class: "HunYuanMoEV1ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::HEADS, json::GROUPED, json::RMS, json::SILU, &[C::Field("n_experts", "num_experts"), C::Needed("n_experts_used", "moe_topk"), C::By(equal_widths)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

/// Numbers of experts that configs state for each layer, and GGUF for all.
const ALIKE: [&str; 3] = ["moe_intermediate_size", "moe_topk", "num_shared_expert"];

/// Experts, all as wide as the shared one.
fn experts(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    for key in ALIKE {
        let each = model.config_value(key).and_then(Json::as_array);
        if each.is_some_and(|each| each.iter().any(|value| Some(value) != each.first())) {
            return Err(model.inexpressible_in_gguf(&format!("a {key} for each layer")));
        }
    }
    let experts = &model.config.experts;
    let width = model.config.ffn_dim.as_ref().map(|width| width.value);
    let width = width.ok_or_else(|| model.missing_in_config("intermediate_size"))?;
    keys.count("expert_shared_feed_forward_length", width);
    keys.count(
        "expert_feed_forward_length",
        experts.expert_ffn_dim.as_ref().map_or(width, |own| own.value),
    );
    keys.count(
        "expert_shared_count",
        experts.n_shared_experts.as_ref().map_or(1, |shared| shared.value),
    );
    Ok(())
}

/// Transformers' class has one width for all experts.
fn equal_widths(model: &SourceModel<'_>, _: &mut Map<String, Json>) -> Result<()> {
    let experts = &model.config.experts;
    let dense = model.config.ffn_dim.as_ref().map(|width| width.value);
    for width in [&experts.expert_ffn_dim, &experts.shared_expert_ffn_dim].into_iter().flatten() {
        if Some(width.value) != dense {
            return Err(model.inexpressible(&format!("experts of width {}", width.value)));
        }
    }
    Ok(())
}

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
