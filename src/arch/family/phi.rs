//! Phi 3 and 4.

use super::decoder::{DECODER, GATE_UP, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::rule::{NameRule, both};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout, RopeScalingKind};
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
        keys: &[&[K::Row("max_seq_len"), K::By(longrope), K::Row("dim"), K::Row("ffn_dim"), K::By(keys::block_count),
            K::Row("n_heads"), K::Derived("n_kv_heads"), K::Row("rms_eps"), K::Rotated(1.0), K::Row("rope_theta"), K::FileType,
            K::Or("sliding_window", Count(0)), K::By(keys::uneven_heads)]],
        classes: &[
            Class { model_type: "phi3", class: "Phi3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, &[C::Field("sliding_window", "sliding_window"), C::By(json::rotary_part), C::By(json::longrope)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        ..Variant::EMPTY
    },
];

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
