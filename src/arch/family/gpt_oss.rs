//! gpt-oss: attention sinks, biases everywhere, and experts in MXFP4.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, PREFIXES, REQUIRED, json, keys};
use crate::arch::config::Defaults;
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath};
use crate::arch::rule::{NameRule, gguf, hf, rule};
use crate::arch::source::SourceModel;
use crate::arch::transform::{Axes, RowOrder, SAME, Transform, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};
use crate::error::Result;

use Constant::Flag;

/// The architecture's row.
pub(super) static GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    summary: "gpt-oss",
    gguf: &["gpt-oss"],
    hf: &["gpt_oss"],
    rope: RopeLayout::HalfSplit,
    rules: &[EXPERTS, DECODER],
    mlx: MLX,
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    exceeds_f16: true,
    mlx_modules: &[MlxModules {
        models: &["gpt_oss"],
        path: MlxPath::EndsWith("router"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

const INPUTS: Transform = Transform { axes: Axes::TransposedIfPlain, ..SAME };
const INPUTS_EVEN: Transform = Transform { rows: RowOrder::Alternate(0), ..INPUTS };
const INPUTS_ODD: Transform = Transform { rows: RowOrder::Alternate(1), ..INPUTS };

/// The transform of a vector for each expert.
const fn elements(rows: RowOrder) -> Transform {
    Transform { axes: Axes::Vectors, rows, ..SAME }
}

#[rustfmt::skip]
static EXPERTS: &[NameRule] = &[
    rule("layers.{n}.ffn_norm.weight",         "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight", SAME),
    rule("layers.{n}.attention.sinks",         "blk.{n}.attn_sinks.weight",          "model.layers.{n}.self_attn.sinks",                 SAME),
    rule("layers.{n}.ffn.router.weight",       "blk.{n}.ffn_gate_inp.weight",        "model.layers.{n}.mlp.router.weight",               SAME),
    rule("layers.{n}.ffn.router.bias",         "blk.{n}.ffn_gate_inp.bias",          "model.layers.{n}.mlp.router.bias",                 SAME),
    // Hugging Face's files interleave the rows of gate and up; unquantized experts are `[inputs,
    // outputs]`.
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.mlp.experts.gate_up_proj",      INPUTS_EVEN),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.mlp.experts.gate_up_proj",      INPUTS_ODD),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.experts.down_proj",         INPUTS),
    hf("layers.{n}.ffn.experts.gate.bias",   "model.layers.{n}.mlp.experts.gate_up_proj_bias", elements(RowOrder::Alternate(0))),
    hf("layers.{n}.ffn.experts.up.bias",     "model.layers.{n}.mlp.experts.gate_up_proj_bias", elements(RowOrder::Alternate(1))),
    hf("layers.{n}.ffn.experts.down.bias",   "model.layers.{n}.mlp.experts.down_proj_bias",    SAME),
    // GGUF, and some directories, store gate and up separately.
    rule("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_exps.weight",       "model.layers.{n}.mlp.experts.gate_proj.weight",    SAME),
    rule("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_up_exps.weight",         "model.layers.{n}.mlp.experts.up_proj.weight",      SAME),
    rule("layers.{n}.ffn.experts.down.weight", "blk.{n}.ffn_down_exps.weight",       "model.layers.{n}.mlp.experts.down_proj.weight",    SAME),
    rule("layers.{n}.ffn.experts.gate.bias",   "blk.{n}.ffn_gate_exps.bias",         "model.layers.{n}.mlp.experts.gate_proj.bias",      SAME),
    rule("layers.{n}.ffn.experts.up.bias",     "blk.{n}.ffn_up_exps.bias",           "model.layers.{n}.mlp.experts.up_proj.bias",        SAME),
    rule("layers.{n}.ffn.experts.down.bias",   "blk.{n}.ffn_down_exps.bias",         "model.layers.{n}.mlp.experts.down_proj.bias",      SAME),
    // llama.cpp's converter on request (--fuse-gate-up-exps).
    gguf("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_up_exps.weight",                rows(RowOrder::Half(0))),
    gguf("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_gate_up_exps.weight",                rows(RowOrder::Half(1))),
    gguf("layers.{n}.ffn.experts.gate.bias",   "blk.{n}.ffn_gate_up_exps.bias",                  elements(RowOrder::Half(0))),
    gguf("layers.{n}.ffn.experts.up.bias",     "blk.{n}.ffn_gate_up_exps.bias",                  elements(RowOrder::Half(1))),
];

/// mlx-lm stores gate and up separately, as `[outputs, inputs]`.
#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("layers.{n}.ffn.experts.gate.weight",        "model.layers.{n}.mlp.experts.gate_proj.weight",         SAME),
    hf("layers.{n}.ffn.experts.up.weight",          "model.layers.{n}.mlp.experts.up_proj.weight",           SAME),
    hf("layers.{n}.ffn.experts.down.weight",        "model.layers.{n}.mlp.experts.down_proj.weight",         SAME),
    hf("layers.{n}.ffn.experts.gate.bias",          "model.layers.{n}.mlp.experts.gate_proj.bias",           SAME),
    hf("layers.{n}.ffn.experts.up.bias",            "model.layers.{n}.mlp.experts.up_proj.bias",             SAME),
    hf("layers.{n}.ffn.experts.down.bias",          "model.layers.{n}.mlp.experts.down_proj.bias",           SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "gpt-oss",
        hf: &["gpt_oss"],
        keys: &[keys::BASE, keys::HEADS, &[K::Row("sliding_window"), K::Derived("expert_ffn_dim")]],
        classes: &[
            Class { model_type: "gpt_oss", class: "GptOssForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::Field("sliding_window", "sliding_window"), C::Field("n_experts", "num_local_experts"),
                    C::Needed("n_experts_used", "num_experts_per_tok"), C::Field("expert_ffn_dim", "intermediate_size"), C::By(json::layer_types), C::By(untruncated), C::Fixed("attention_bias", Flag(true))]], ..Class::EMPTY },
        ],
        defaults: Defaults { window_period: Some(2), ..Defaults::activation("silu") },
        ..Variant::EMPTY
    },
];

/// gpt-oss does not round the bounds of YaRN's ramp. No GGUF file states it; it is the same in all
/// models of the family.
fn untruncated(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if let Some(Json::Object(rope)) = out.get_mut("rope_scaling") {
        rope.insert("truncate".to_owned(), false.into());
    }
    Ok(())
}
