//! Qwen3-Next and Qwen3.5: three layers of linear attention for each layer of gated attention.
//!
//! Norms multiply by `1 + w`; llama.cpp's converter and mlx-lm store the sum. The norm within
//! linear attention is an exception: it multiplies by `w`.

use serde_json::{Map, Value as Json, json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, SHARED_EXPERT, json, keys};
use crate::arch::config::{Defaults, Reported};
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::linear::Linear;
use crate::arch::rule::{NameRule, both, gguf, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, Change, PLUS_ONE, RowOrder, SAME, Transform, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, LayerKind, LayerLayout, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag};

/// Qwen3-Next.
pub(super) static QWEN3_NEXT: Architecture = Architecture {
    name: "qwen3_next",
    summary: "Qwen3-Next",
    gguf: &["qwen3next"],
    hf: &["qwen3_next"],
    rope: RopeLayout::HalfSplit,
    rules: &[NEXT, GATED, SHARED_EXPERT, MIXTURE, DECODER],
    mlx: MLX,
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: NEXTS,
    mlx_modules: &[
        eight_bits(&["qwen3_next"], "mlp.gate"),
        eight_bits(&["qwen3_next"], "shared_expert_gate"),
    ],
    ..Architecture::EMPTY
};

/// Qwen3.5.
pub(super) static QWEN3_5: Architecture = Architecture {
    name: "qwen3_5",
    summary: "Qwen 3.5 and 3.6, dense and with experts",
    gguf: &["qwen35", "qwen35moe"],
    hf: &["qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[TILED, EXPERTS, GATED, SHARED_EXPERT, MIXTURE, DECODER],
    mlx: MLX,
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: QWEN3_5S,
    mlx_uncast: &["A_log"],
    mlx_keeps_tower_names: true,
    mlx_modules: &[
        eight_bits(&["qwen3_5", "qwen3_5_moe"], "mlp.gate"),
        eight_bits(&["qwen3_5", "qwen3_5_moe"], "shared_expert_gate"),
    ],
    ..Architecture::EMPTY
};

/// Tensors of every layer. Attention is of one of two kinds, and so is the feed-forward network.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.ffn_norm.weight",
];

const NEG_EXP: Transform = Transform { values: Change::NegExp, ..SAME };
const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };
const HEADS: Transform = rows(RowOrder::Linear(Linear::Tiled));

/// All experts in one tensor, as in the published files of Qwen 3.5 (Qwen/Qwen3.5-35B-A3B).
#[rustfmt::skip]
static EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.mlp.experts.gate_up_proj", rows(RowOrder::Half(0))),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.mlp.experts.gate_up_proj", rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.mlp.experts.down_proj",    SAME),
];

/// Shared by both. In attention, each query head has as many further rows for the gate of its
/// output.
#[rustfmt::skip]
static GATED: &[NameRule] = &[
    rule("output_norm.weight",                      "output_norm.weight",                 "model.norm.weight",                                PLUS_ONE),
    rule("layers.{n}.attention_norm.weight",        "blk.{n}.attn_norm.weight",           "model.layers.{n}.input_layernorm.weight",          PLUS_ONE),
    rule("layers.{n}.attention.q_norm.weight",      "blk.{n}.attn_q_norm.weight",         "model.layers.{n}.self_attn.q_norm.weight",         PLUS_ONE),
    rule("layers.{n}.attention.k_norm.weight",      "blk.{n}.attn_k_norm.weight",         "model.layers.{n}.self_attn.k_norm.weight",         PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",              "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight", PLUS_ONE),
    both("layers.{n}.attention.q.weight",    "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight", rows(RowOrder::HalfHeads(0))),
    both("layers.{n}.attention.gate.weight", "blk.{n}.attn_q.weight", "model.layers.{n}.self_attn.q_proj.weight", rows(RowOrder::HalfHeads(1))),
    rule("layers.{n}.linear_attention.norm.weight", "blk.{n}.ssm_norm.weight",            "model.layers.{n}.linear_attn.norm.weight",         SAME),
    // The converter appends the layer that predicts a further token to the others, and adds 1 to
    // its norms.
    gguf("layers.{n}.nextn.embedding_norm.weight", "blk.{n}.nextn.enorm.weight",            PLUS_ONE),
    gguf("layers.{n}.nextn.hidden_norm.weight",    "blk.{n}.nextn.hnorm.weight",            PLUS_ONE),
    gguf("layers.{n}.nextn.projection.weight",     "blk.{n}.nextn.eh_proj.weight",          SAME),
    gguf("layers.{n}.nextn.output_norm.weight",    "blk.{n}.nextn.shared_head_norm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("output_norm.weight",                      "model.norm.weight",                                PLUS_ONE),
    hf("layers.{n}.attention_norm.weight",        "model.layers.{n}.input_layernorm.weight",          PLUS_ONE),
    hf("layers.{n}.attention.q_norm.weight",      "model.layers.{n}.self_attn.q_norm.weight",         PLUS_ONE),
    hf("layers.{n}.attention.k_norm.weight",      "model.layers.{n}.self_attn.k_norm.weight",         PLUS_ONE),
    hf("layers.{n}.ffn_norm.weight",              "model.layers.{n}.post_attention_layernorm.weight", PLUS_ONE),
    hf("layers.{n}.linear_attention.conv.weight", "model.layers.{n}.linear_attn.conv1d.weight",       Transform { axes: Axes::Transposed, ..SAME }),
];

/// Linear attention of Qwen3-Next.
#[rustfmt::skip]
static NEXT: &[NameRule] = &[
    gguf("layers.{n}.linear_attention.q.weight",    "blk.{n}.attn_qkv.weight",  rows(RowOrder::Linear(Linear::Qkv(0)))),
    gguf("layers.{n}.linear_attention.k.weight",    "blk.{n}.attn_qkv.weight",  rows(RowOrder::Linear(Linear::Qkv(1)))),
    gguf("layers.{n}.linear_attention.v.weight",    "blk.{n}.attn_qkv.weight",  rows(RowOrder::Linear(Linear::Qkv(2)))),
    gguf("layers.{n}.linear_attention.gate.weight", "blk.{n}.attn_gate.weight", SAME),
    // Files of the converter's first version store them as Hugging Face does.
    both("layers.{n}.linear_attention.q.weight",     "blk.{n}.ssm_in.weight", "model.layers.{n}.linear_attn.in_proj_qkvz.weight", rows(RowOrder::Linear(Linear::Grouped(0)))),
    both("layers.{n}.linear_attention.k.weight",     "blk.{n}.ssm_in.weight", "model.layers.{n}.linear_attn.in_proj_qkvz.weight", rows(RowOrder::Linear(Linear::Grouped(1)))),
    both("layers.{n}.linear_attention.v.weight",     "blk.{n}.ssm_in.weight", "model.layers.{n}.linear_attn.in_proj_qkvz.weight", rows(RowOrder::Linear(Linear::Grouped(2)))),
    both("layers.{n}.linear_attention.gate.weight",  "blk.{n}.ssm_in.weight", "model.layers.{n}.linear_attn.in_proj_qkvz.weight", rows(RowOrder::Linear(Linear::Grouped(3)))),
    both("layers.{n}.linear_attention.beta.weight",  "blk.{n}.ssm_ba.weight", "model.layers.{n}.linear_attn.in_proj_ba.weight",   rows(RowOrder::Linear(Linear::GroupedRates(0)))),
    both("layers.{n}.linear_attention.alpha.weight", "blk.{n}.ssm_ba.weight", "model.layers.{n}.linear_attn.in_proj_ba.weight",   rows(RowOrder::Linear(Linear::GroupedRates(1)))),
    rule("layers.{n}.linear_attention.a_log",         "blk.{n}.ssm_a",             "model.layers.{n}.linear_attn.A_log",           NEG_EXP),
    rule("layers.{n}.linear_attention.dt_bias",       "blk.{n}.ssm_dt.bias",       "model.layers.{n}.linear_attn.dt_bias",         SAME),
    // Ollama's converter.
    gguf("layers.{n}.linear_attention.dt_bias",       "blk.{n}.ssm_dt",            SAME),
    rule("layers.{n}.linear_attention.conv.weight",   "blk.{n}.ssm_conv1d.weight", "model.layers.{n}.linear_attn.conv1d.weight",   SQUEEZED),
    rule("layers.{n}.linear_attention.output.weight", "blk.{n}.ssm_out.weight",    "model.layers.{n}.linear_attn.out_proj.weight", SAME),
];

/// Linear attention of Qwen3.5, whose value heads GGUF stores in tiles.
#[rustfmt::skip]
static TILED: &[NameRule] = &[
    both("layers.{n}.linear_attention.q.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.linear_attn.in_proj_qkv.weight", rows(RowOrder::Linear(Linear::Qkv(0)))),
    both("layers.{n}.linear_attention.k.weight", "blk.{n}.attn_qkv.weight", "model.layers.{n}.linear_attn.in_proj_qkv.weight", rows(RowOrder::Linear(Linear::Qkv(1)))),
    gguf("layers.{n}.linear_attention.v.weight", "blk.{n}.attn_qkv.weight", rows(RowOrder::Linear(Linear::TiledV))),
    hf("layers.{n}.linear_attention.v.weight", "model.layers.{n}.linear_attn.in_proj_qkv.weight", rows(RowOrder::Linear(Linear::Qkv(2)))),
    rule("layers.{n}.linear_attention.gate.weight",   "blk.{n}.attn_gate.weight",  "model.layers.{n}.linear_attn.in_proj_z.weight", HEADS),
    rule("layers.{n}.linear_attention.alpha.weight",  "blk.{n}.ssm_alpha.weight",  "model.layers.{n}.linear_attn.in_proj_a.weight", HEADS),
    rule("layers.{n}.linear_attention.beta.weight",   "blk.{n}.ssm_beta.weight",   "model.layers.{n}.linear_attn.in_proj_b.weight", HEADS),
    rule("layers.{n}.linear_attention.a_log",         "blk.{n}.ssm_a",             "model.layers.{n}.linear_attn.A_log",            Transform { values: Change::NegExp,                            ..HEADS }),
    rule("layers.{n}.linear_attention.dt_bias",       "blk.{n}.ssm_dt.bias",       "model.layers.{n}.linear_attn.dt_bias",          HEADS),
    // Ollama's converter.
    gguf("layers.{n}.linear_attention.dt_bias",       "blk.{n}.ssm_dt",            HEADS),
    rule("layers.{n}.linear_attention.conv.weight",   "blk.{n}.ssm_conv1d.weight", "model.layers.{n}.linear_attn.conv1d.weight",    Transform { rows: RowOrder::Linear(Linear::TiledConvolution), ..SQUEEZED }),
    rule("layers.{n}.linear_attention.output.weight", "blk.{n}.ssm_out.weight",    "model.layers.{n}.linear_attn.out_proj.weight",  Transform { columns: HEADS.rows,                               ..SAME }),
];

/// A router, which is quantized to 8 bits.
const fn eight_bits(models: &'static [&'static str], end: &'static str) -> MlxModules {
    MlxModules { models, path: MlxPath::EndsWith(end), choice: MlxChoice::EightBits }
}

#[rustfmt::skip]
static NEXTS: &[Variant] = &[
    Variant {
        gguf: "qwen3next",
        hf: &["qwen3_next"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE, LINEAR_KEYS],
        classes: &[
            Class { model_type: "qwen3_next", class: "Qwen3NextForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, json::EXPERTS, json::SHARED, LINEAR_CONFIG, &[C::By(json::rotary_part), C::By(json::biased), C::Fixed("norm_topk_prob", Flag(true)), C::By(no_dense_layers)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TokenizerHabits { default_pre: Some("qwen2"), ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static QWEN3_5S: &[Variant] = &[
    Variant {
        gguf: "qwen35",
        hf: &["qwen3_5", "qwen3_5_text"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE, LINEAR_KEYS, SECTIONS],
        classes: &[
            Class { model_type: "qwen3_5_text", class: "Qwen3_5ForCausalLM", within: Some("qwen3_5"),
                rules: &[json::BODY, json::DENSE, json::KEY_HEADS, json::RMS, json::HEADS, json::SILU, LINEAR_CONFIG, &[C::By(rope_sections), C::By(json::biased), C::Fixed("attn_output_gate", Flag(true))]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
    Variant {
        gguf: "qwen35moe",
        hf: &["qwen3_5_moe", "qwen3_5_moe_text"],
        keys: &[keys::BASE, keys::HEADS, keys::MIXTURE, LINEAR_KEYS, SECTIONS],
        classes: &[
            Class { model_type: "qwen3_5_moe_text", class: "Qwen3_5MoeForCausalLM", within: Some("qwen3_5_moe"),
                rules: &[json::BODY, json::DENSE, json::KEY_HEADS, json::RMS, json::HEADS, json::SILU, json::EXPERTS, json::SHARED, LINEAR_CONFIG, &[C::By(rope_sections), C::By(json::biased), C::Fixed("attn_output_gate", Flag(true))]], ..Class::EMPTY },
        ],
        ..Variant::EMPTY
    },
];

/// Qwen 3.5 has default sections, for configs that state none.
const SECTIONS: &[K] = &[K::By(sections)];

#[rustfmt::skip]
const LINEAR_KEYS: &[K] = &[
    K::Row("ssm_conv_kernel"), K::Row("ssm_state_size"), K::Row("ssm_group_count"),
    K::Row("ssm_time_step_rank"), K::Derived("ssm_inner_size"), K::By(recurrent),
    K::Or("full_interval", Count(4)), K::Rotated(0.25),
];

#[rustfmt::skip]
const LINEAR_CONFIG: &[C] = &[
    C::Needed("ssm_conv_kernel", "linear_conv_kernel_dim"), C::Needed("ssm_state_size", "linear_key_head_dim"),
    C::Needed("ssm_group_count", "linear_num_key_heads"), C::Needed("ssm_time_step_rank", "linear_num_value_heads"), C::By(linear_layers),
];

fn sections(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys::sections_or(Some([11, 11, 10]), model, keys)
}

/// The linear layers, by number. The layers that predict further tokens use attention.
fn recurrent(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let stated = model.layers_of(&LayerKind::Linear)?;
    let derived = || {
        let kinds = model.kinds()?.into_iter();
        Some(kinds.map(|kind| *kind == LayerKind::Linear).collect::<Vec<bool>>())
    };
    if let Some(mut layers) = stated.or_else(derived) {
        layers.extend((0..model.next_layers()).map(|_| false));
        keys.flags("attention.recurrent_layers", &layers);
    }
    Ok(())
}

/// Like `rope_parameters`, with the rotated fraction and its sections.
fn rope_sections(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    json::rope_parameters(model, out)?;
    if let Some(Json::Object(rope)) = out.get_mut("rope_parameters") {
        json::rotary_part(model, rope)?;
        rope.extend(json::sections(model, true));
    }
    Ok(())
}

/// Linear attention: its layers, which mlx-lm states as a period, and the width of its values.
fn linear_layers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds: Vec<LayerKind> = model.kinds().into_iter().flatten().cloned().collect();
    if !kinds.contains(&LayerKind::Linear) {
        return Err(model.missing_in_model("a layer of linear attention"));
    }
    out.insert("layer_types".to_owned(), kinds.iter().map(Reported::reported).collect());
    if let LayerLayout::Period(period, LayerKind::Linear) = LayerLayout::of(kinds) {
        out.insert("full_attention_interval".to_owned(), period.get().into());
    }
    let (inner, heads) = (&model.config.ssm.inner_size, &model.config.ssm.time_step_rank);
    let each = inner.as_ref().zip(heads.as_ref());
    let each = each.and_then(|(inner, heads)| inner.value.checked_div(heads.value));
    let each = each.ok_or_else(|| model.missing_in_model("linear_value_head_dim"))?;
    out.insert("linear_value_head_dim".to_owned(), each.into());
    Ok(())
}

/// mlx-lm's class requires the list.
fn no_dense_layers(_: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("mlp_only_layers".to_owned(), json!([]));
    Ok(())
}
