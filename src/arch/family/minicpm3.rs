//! MiniCPM 3: DeepSeek's latent attention with rotary embeddings in halves, and the scales of MiniCPM.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, PREFIXES, json, keys};
use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::rule::{NameRule, both, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::{Count, Real};

/// The architecture's row.
pub(super) static MINICPM3: Architecture = Architecture {
    name: "minicpm3",
    summary: "MiniCPM 3",
    gguf: &["minicpm3"],
    hf: &["minicpm3"],
    rope: RopeLayout::HalfSplit,
    rules: &[LATENT, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    ..Architecture::EMPTY
};

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q_a.weight",
    "layers.{n}.attention.q_a_norm.weight",
    "layers.{n}.attention.q_b.weight",
    "layers.{n}.attention.kv_a.weight",
    "layers.{n}.attention.kv_a_norm.weight",
    "layers.{n}.attention.k_b.weight",
    "layers.{n}.attention.v_b.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
];

/// All containers stack the matrices of a head that expand keys and values.
#[rustfmt::skip]
static LATENT: &[NameRule] = &[
    rule("layers.{n}.attention.q_a.weight",       "blk.{n}.attn_q_a.weight",       "model.layers.{n}.self_attn.q_a_proj.weight",           SAME),
    rule("layers.{n}.attention.q_a_norm.weight",  "blk.{n}.attn_q_a_norm.weight",  "model.layers.{n}.self_attn.q_a_layernorm.weight",      SAME),
    rule("layers.{n}.attention.q_b.weight",       "blk.{n}.attn_q_b.weight",       "model.layers.{n}.self_attn.q_b_proj.weight",           SAME),
    rule("layers.{n}.attention.kv_a.weight",      "blk.{n}.attn_kv_a_mqa.weight",  "model.layers.{n}.self_attn.kv_a_proj_with_mqa.weight", SAME),
    rule("layers.{n}.attention.kv_a_norm.weight", "blk.{n}.attn_kv_a_norm.weight", "model.layers.{n}.self_attn.kv_a_layernorm.weight",     SAME),
    both("layers.{n}.attention.k_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(RowOrder::Unfolding(0))),
    both("layers.{n}.attention.v_b.weight", "blk.{n}.attn_kv_b.weight", "model.layers.{n}.self_attn.kv_b_proj.weight", rows(RowOrder::Unfolding(1))),
];

const DEFAULTS: Defaults = Defaults {
    of_gguf: GgufDefaults {
        activation: Some("silu"),
        usual_value_width: true,
        ..GgufDefaults::NONE
    },
    ..Defaults::NONE
};

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "minicpm3",
        hf: &["minicpm3"],
        keys: &[&[K::FileType, K::Row("max_seq_len"), K::Row("dim"), K::By(keys::block_count), K::Row("ffn_dim"), K::Row("n_heads"), K::Row("n_kv_heads"),
            K::Row("rms_eps"), K::Derived("vocab_size"), K::Row("q_lora_rank"), K::Row("kv_lora_rank"), K::By(widths), K::Row("rope_dimension_count")]],
        classes: &[
            // The scales are constants of llama.cpp (src/models/minicpm3.cpp), which GGUF has no keys for.
            Class { model_type: "minicpm3", class: "MiniCPM3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::SILU, &[C::Field("q_lora_rank", "q_lora_rank"), C::Field("kv_lora_rank", "kv_lora_rank"),
                    C::Field("rope_dimension_count", "qk_rope_head_dim"), C::Field("value_head_dim", "v_head_dim"), C::By(unrotated), C::By(json::longrope),
                    C::Fixed("scale_emb", Count(12)), C::Fixed("scale_depth", Real(1.4)), C::Fixed("dim_model_base", Count(256))]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
];

/// The converter omits the width of values, which in the published model equals that of a usual head.
fn widths(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    keys.count("attention.key_length", config.head_dim.value);
    let values = config.attention.value_head_dim.as_ref().map(|width| width.value);
    let usual = config.dim.value.checked_div(config.n_heads.value);
    if let Some(width) = values.filter(|width| Some(*width) != usual) {
        keys.count("attention.value_length", width);
    }
    Ok(())
}

/// The part of a head that is not rotated.
fn unrotated(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let rotated = config.rope.dimension_count.as_ref().map(|rotated| rotated.value);
    let plain = rotated.and_then(|rotated| config.head_dim.value.checked_sub(rotated));
    let plain = plain.ok_or_else(|| model.missing_in_model("rope.dimension_count"))?;
    out.insert("qk_nope_head_dim".to_owned(), plain.into());
    Ok(())
}
