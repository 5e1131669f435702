//! Phi 3 and 4, and Phi 3.5 with experts.

use serde_json::{Map, Value as Json};

use super::decoder::{
    BLOCK_SPARSE, DECODER, GATE_UP, MIXTURE, NORM_BIASES, PREFIXES, REQUIRED, json, keys,
};
use crate::arch::config::{Defaults, Reported};
use crate::arch::rule::{NameRule, both, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, NormKind, RopeLayout, RopeScalingKind};
use crate::error::Result;

use Constant::Count;

/// Phi 3: q, k and v fused, and gate and up fused.
pub(super) static PHI3: Architecture = Architecture {
    name: "phi3",
    summary: "Phi 3 and 4, dense",
    gguf: &["phi3"],
    hf: &["phi3"],
    rope: RopeLayout::HalfSplit,
    rules: &[QKV, GATE_UP, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

/// Phi 3.5 MoE: layer norms, and biases everywhere but in the experts.
pub(super) static PHIMOE: Architecture = Architecture {
    name: "phimoe",
    summary: "Phi 3.5 MoE, Phi mini MoE",
    gguf: &["phimoe"],
    hf: &["phimoe"],
    rope: RopeLayout::HalfSplit,
    rules: &[HEAD_BIAS, NORM_BIASES, BLOCK_SPARSE, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: PHIMOES,
    ..Architecture::EMPTY
};

static HEAD_BIAS: &[NameRule] = &[rule("output.bias", "output.bias", "lm_head.bias", SAME)];

#[rustfmt::skip]
static QKV: &[NameRule] = &[
    both("layers.{n}.attention.q.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(RowOrder::Qkv(0))),
    both("layers.{n}.attention.k.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(RowOrder::Qkv(1))),
    both("layers.{n}.attention.v.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.self_attn.qkv_proj.weight", rows(RowOrder::Qkv(2))),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "phi3",
        hf: &["phi3"],
        keys: &[KEYS],
        classes: &[
            Class { model_type: "phi3", class: "Phi3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("sliding_window", "sliding_window"), C::By(json::rotary_part), C::By(json::longrope)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static PHIMOES: &[Variant] = &[
    Variant {
        gguf: "phimoe",
        hf: &["phimoe"],
        keys: &[KEYS, &[K::Row("n_experts"), K::Row("n_experts_used")]],
        classes: &[
            Class { model_type: "phimoe", class: "PhimoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::Field("n_experts", "num_local_experts"), C::Needed("n_experts_used", "num_experts_per_tok"),
                    C::Field("sliding_window", "sliding_window"), C::By(json::longrope), C::By(magnitudes), C::By(head_bias)]], ..Class::EMPTY },
        ],
        mlx_config: Some(trained_length),
        defaults: Defaults { norms: Some(NormKind::Layer), ..Defaults::activation("silu") },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
const KEYS: &[K] = &[
    K::Row("max_seq_len"), K::By(longrope), K::Row("dim"), K::Row("ffn_dim"), K::By(keys::block_count),
    K::Row("n_heads"), K::Derived("n_kv_heads"), K::Row("rms_eps"), K::Rotated(1.0), K::Row("rope_theta"), K::FileType,
    K::Or("sliding_window", Count(0)), K::By(keys::uneven_heads),
];

/// The class requires magnitudes of long and short contexts. GGUF has one for both.
fn magnitudes(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let factor = model.config.rope_scaling.attention_factor.as_ref().map(|factor| factor.value);
    if let (Some(factor), Some(Json::Object(rope))) = (factor, out.get_mut("rope_scaling")) {
        for key in ["short_mscale", "long_mscale"] {
            rope.insert(key.to_owned(), factor.reported());
        }
    }
    Ok(())
}

fn head_bias(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("lm_head_bias".to_owned(), model.has("output.bias").into());
    Ok(())
}

/// mlx-lm reads the length of the original training beside the numbers of rotary embeddings.
fn trained_length(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(trained) = &model.config.rope_scaling.original_max_seq_len {
        out.insert("original_max_position_embeddings".to_owned(), trained.value.into());
    }
    Ok(())
}

/// Phi 3's long context: the numbers that the divisors, which are tensors, require.
fn longrope(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let scaling = &model.config.rope_scaling;
    let (Some(longest), trained) = (&model.config.max_seq_len, &scaling.original_max_seq_len)
    else {
        return Err(model.missing_in_config("max_position_embeddings"));
    };
    let trained = trained.as_ref().map_or(longest.value, |trained| trained.value);
    keys.count("rope.scaling.original_context_length", trained);
    if scaling.long_factors.is_none() {
        return Ok(());
    }
    let (scale, trained) = (f64::from(longest.value) / f64::from(trained), f64::from(trained));
    let factor = match scaling.kind.as_ref().map(|kind| &kind.value) {
        _ if scale <= 1.0 => 1.0,
        Some(RopeScalingKind::LongRope) => (1.0 + scale.ln() / trained.ln()).sqrt(),
        Some(RopeScalingKind::Yarn) => 0.1 * scale.ln() + 1.0,
        _ => return Err(model.missing_in_config("a scaling method for long_factor")),
    };
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    keys.real("rope.scaling.attn_factor", factor as f32);
    Ok(())
}
