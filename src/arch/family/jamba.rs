//! Jamba: Mamba in most layers and attention without positions in the others, a dense network in some
//! layers and experts in the others.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, json, keys};
use crate::arch::config::{Defaults, Reported};
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath};
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, Change, SAME, Transform};
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
use crate::arch::{Architecture, LayerKind, RopeLayout};
use crate::error::Result;

/// The architecture's row.
pub(super) static JAMBA: Architecture = Architecture {
    name: "jamba",
    summary: "Jamba",
    gguf: &["jamba"],
    hf: &["jamba"],
    rope: RopeLayout::None,
    rules: &[LAYERS, NETWORK, MIXTURE, DECODER],
    mlx: &[hf("layers.{n}.ssm.conv.weight", "model.layers.{n}.mamba.conv1d.weight", CHANNELS_LAST)],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: VARIANTS,
    mlx_modules: &[MlxModules {
        models: &["jamba"],
        path: MlxPath::EndsWith("router"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

/// Layers have attention or Mamba, and a network or experts.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight | layers.{n}.ssm.in.weight",
    "layers.{n}.attention.k.weight | layers.{n}.ssm.conv.weight",
    "layers.{n}.attention.v.weight | layers.{n}.ssm.x.weight",
    "layers.{n}.attention.output.weight | layers.{n}.ssm.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight | layers.{n}.ffn.experts.gate.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight",
];

const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };
const CHANNELS_LAST: Transform = Transform { axes: Axes::Transposed, ..SAME };
const NEG_EXP: Transform = Transform { values: Change::NegExp, ..SAME };

#[rustfmt::skip]
static LAYERS: &[NameRule] = &[
    rule("output_norm.weight",           "output_norm.weight",        "model.final_layernorm.weight",                 SAME),
    rule("layers.{n}.ffn_norm.weight",   "blk.{n}.ffn_norm.weight",   "model.layers.{n}.pre_ff_layernorm.weight",     SAME),
    rule("layers.{n}.ssm.in.weight",     "blk.{n}.ssm_in.weight",     "model.layers.{n}.mamba.in_proj.weight",        SAME),
    rule("layers.{n}.ssm.in.bias",       "blk.{n}.ssm_in.bias",       "model.layers.{n}.mamba.in_proj.bias",          SAME),
    rule("layers.{n}.ssm.conv.weight",   "blk.{n}.ssm_conv1d.weight", "model.layers.{n}.mamba.conv1d.weight",         SQUEEZED),
    rule("layers.{n}.ssm.conv.bias",     "blk.{n}.ssm_conv1d.bias",   "model.layers.{n}.mamba.conv1d.bias",           SAME),
    rule("layers.{n}.ssm.x.weight",      "blk.{n}.ssm_x.weight",      "model.layers.{n}.mamba.x_proj.weight",         SAME),
    rule("layers.{n}.ssm.dt.weight",     "blk.{n}.ssm_dt.weight",     "model.layers.{n}.mamba.dt_proj.weight",        SAME),
    rule("layers.{n}.ssm.dt.bias",       "blk.{n}.ssm_dt.bias",       "model.layers.{n}.mamba.dt_proj.bias",          SAME),
    rule("layers.{n}.ssm.dt_norm.weight", "blk.{n}.ssm_dt_norm.weight", "model.layers.{n}.mamba.dt_layernorm.weight", SAME),
    rule("layers.{n}.ssm.b_norm.weight", "blk.{n}.ssm_b_norm.weight", "model.layers.{n}.mamba.b_layernorm.weight",    SAME),
    rule("layers.{n}.ssm.c_norm.weight", "blk.{n}.ssm_c_norm.weight", "model.layers.{n}.mamba.c_layernorm.weight",    SAME),
    rule("layers.{n}.ssm.a_log",         "blk.{n}.ssm_a",             "model.layers.{n}.mamba.A_log",                 NEG_EXP),
    rule("layers.{n}.ssm.d",             "blk.{n}.ssm_d",             "model.layers.{n}.mamba.D",                     SAME),
    rule("layers.{n}.ssm.output.weight", "blk.{n}.ssm_out.weight",    "model.layers.{n}.mamba.out_proj.weight",       SAME),
    rule("layers.{n}.ssm.output.bias",   "blk.{n}.ssm_out.bias",      "model.layers.{n}.mamba.out_proj.bias",         SAME),
];

#[rustfmt::skip]
static NETWORK: &[NameRule] = &[
    hf("layers.{n}.ffn.gate.weight",         "model.layers.{n}.feed_forward.gate_proj.weight",             SAME),
    hf("layers.{n}.ffn.up.weight",           "model.layers.{n}.feed_forward.up_proj.weight",               SAME),
    hf("layers.{n}.ffn.down.weight",         "model.layers.{n}.feed_forward.down_proj.weight",             SAME),
    hf("layers.{n}.ffn.router.weight",       "model.layers.{n}.feed_forward.router.weight",                SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.feed_forward.experts.{e}.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.feed_forward.experts.{e}.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.feed_forward.experts.{e}.down_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.feed_forward.switch_mlp.gate_proj.weight",  SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.feed_forward.switch_mlp.up_proj.weight",    SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.feed_forward.switch_mlp.down_proj.weight",  SAME),
];

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "jamba",
        hf: &["jamba"],
        keys: &[&[K::By(keys::block_count), K::Row("max_seq_len"), K::Row("dim"), K::Row("ffn_dim"), K::Row("n_heads"), K::By(key_heads),
            K::Row("ssm_conv_kernel"), K::Derived("ssm_inner_size"), K::Row("ssm_state_size"), K::Derived("ssm_time_step_rank"), K::Row("rms_eps"), K::Row("n_experts"), K::Row("n_experts_used"), K::FileType]],
        classes: &[
            Class { model_type: "jamba", class: "JambaForCausalLM",
                rules: &[json::BODY, json::DENSE, json::RMS, json::SILU, &[C::Field("n_experts", "num_experts"), C::Needed("n_experts_used", "num_experts_per_tok"), C::Needed("ssm_conv_kernel", "mamba_d_conv"),
                    C::Needed("ssm_state_size", "mamba_d_state"), C::Needed("ssm_time_step_rank", "mamba_dt_rank"), C::By(mixers), C::By(experts)]], ..Class::EMPTY },
        ],
        defaults: Defaults { without_attention: Some("mamba"), ..Defaults::activation("silu") },
        ..Variant::EMPTY
    },
];

/// Key heads of each layer: layers with Mamba have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kinds = model.kinds().ok_or_else(|| model.missing_in_config("attn_layer_period"))?;
    let heads = model.config.n_kv_heads.value;
    let each = kinds.iter().map(|kind| if **kind == LayerKind::Full { heads } else { 0 });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// The layers with attention, the expansion of the others, and biases.
fn mixers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds = model.kinds().unwrap_or_default();
    let attends: Vec<bool> = kinds.iter().map(|kind| **kind == LayerKind::Full).collect();
    put_period(model, out, "attn_layer", &attends)?;
    let config = &model.config;
    let inner = config.ssm.inner_size.as_ref().map(|inner| inner.value);
    let expand = inner.and_then(|inner| inner.checked_div(config.dim.value));
    let expand = expand.ok_or_else(|| model.missing_in_model("ssm.inner_size"))?;
    out.insert("num_key_value_heads".to_owned(), config.n_kv_heads.value.into());
    out.insert("mamba_expand".to_owned(), expand.into());
    out.insert("mamba_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    out.insert("mamba_proj_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    Ok(())
}

/// The layers with experts.
fn experts(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let routed = |layer: u32| model.has(&format!("layers.{layer}.ffn.router.weight"));
    let routed: Vec<bool> = (0..model.own_layers()).map(routed).collect();
    if routed.contains(&true) {
        return put_period(model, out, "expert_layer", &routed);
    }
    // No layer has a number that is a multiple of the period more than the offset.
    let layers = model.own_layers();
    out.insert("expert_layer_period".to_owned(), layers.saturating_add(1).into());
    out.insert("expert_layer_offset".to_owned(), layers.into());
    Ok(())
}

/// States layers as a period and the number of the first one.
fn put_period(
    model: &SourceModel<'_>,
    out: &mut Map<String, Json>,
    name: &str,
    layers: &[bool],
) -> Result<()> {
    let mut places = (0u32..).zip(layers).filter(|(_, is)| **is).map(|(layer, _)| layer);
    let first = places.next().unwrap_or(0);
    let usual = model.own_layers().max(first.saturating_add(1));
    let period = places.next().map_or(usual, |second| second.saturating_sub(first));
    let is = |layer: u32| layer.checked_rem(period) == Some(first);
    if first >= period || !(0u32..).zip(layers).all(|(layer, found)| is(layer) == *found) {
        return Err(model.inexpressible("layers whose kinds do not repeat"));
    }
    out.insert(format!("{name}_period"), period.into());
    out.insert(format!("{name}_offset"), first.into());
    Ok(())
}
