//! Mamba 1 and 2: state spaces in all layers, and neither attention nor a feed-forward network.

use serde_json::{Map, Value as Json, json};

use super::decoder::{json, keys};
use crate::arch::config::Defaults;
use crate::arch::cut::{Cut, CutRule, Unit, own};
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, Change, SAME, Transform};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, NormKind};
use crate::error::Result;

use Constant::{Count, Flag};

/// Mamba 1.
pub(super) static MAMBA: Architecture = Architecture {
    name: "mamba",
    summary: "Mamba 1",
    gguf: &["mamba"],
    hf: &["mamba"],
    rules: &[FIRST, BLOCK],
    mlx: CHANNELS_LAST,
    required: REQUIRED,
    variants: MAMBAS,
    ..Architecture::EMPTY
};

/// Mamba 2: heads, and groups of them.
pub(super) static MAMBA2: Architecture = Architecture {
    name: "mamba2",
    summary: "Mamba 2, Mamba Codestral",
    gguf: &["mamba2"],
    hf: &["mamba2"],
    rules: &[SECOND, BLOCK],
    mlx: CHANNELS_LAST,
    prefixes: &[("model.", "")],
    required: REQUIRED,
    variants: MAMBA2S,
    cuts: HEADS,
    ..Architecture::EMPTY
};

/// Gates and channels by heads, the states' inputs and outputs by groups, and a time step for each head.
#[rustfmt::skip]
pub(super) static HEADS: &[CutRule] = &[
    own("layers.{n}.ssm.in",     Cut::Sections(&[Unit::Channel, Unit::Channel, Unit::Group, Unit::Group, Unit::State])),
    own("layers.{n}.ssm.conv",   Cut::Sections(&[Unit::Channel, Unit::Group, Unit::Group])),
    own("layers.{n}.ssm.dt",     Cut::Outputs(Unit::State)),
    own("layers.{n}.ssm.a_log",  Cut::Outputs(Unit::State)),
    own("layers.{n}.ssm.d",      Cut::Outputs(Unit::State)),
    own("layers.{n}.ssm.norm",   Cut::Outputs(Unit::State)),
    own("layers.{n}.ssm.output", Cut::Inputs(Unit::State)),
];

static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.ssm.in.weight",
    "layers.{n}.ssm.conv.weight",
    "layers.{n}.ssm.dt.bias",
    "layers.{n}.ssm.a_log",
    "layers.{n}.ssm.d",
    "layers.{n}.ssm.output.weight",
];

const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };
const NEG_EXP: Transform = Transform { values: Change::NegExp, ..SAME };
const TRAILING: Transform = Transform { axes: Axes::Trailing, ..SAME };

#[rustfmt::skip]
static BLOCK: &[NameRule] = &[
    rule("token_embedding.weight",           "token_embd.weight",        "backbone.embeddings.weight",                SAME),
    rule("output_norm.weight",               "output_norm.weight",       "backbone.norm_f.weight",                    SAME),
    rule("output.weight",                    "output.weight",            "lm_head.weight",                            SAME),
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "backbone.layers.{n}.norm.weight",           SAME),
    rule("layers.{n}.ssm.in.weight",         "blk.{n}.ssm_in.weight",    "backbone.layers.{n}.mixer.in_proj.weight",  SAME),
    rule("layers.{n}.ssm.in.bias",           "blk.{n}.ssm_in.bias",      "backbone.layers.{n}.mixer.in_proj.bias",    SAME),
    rule("layers.{n}.ssm.conv.weight",       "blk.{n}.ssm_conv1d.weight", "backbone.layers.{n}.mixer.conv1d.weight",  SQUEEZED),
    rule("layers.{n}.ssm.conv.bias",         "blk.{n}.ssm_conv1d.bias",  "backbone.layers.{n}.mixer.conv1d.bias",     SAME),
    rule("layers.{n}.ssm.output.weight",     "blk.{n}.ssm_out.weight",   "backbone.layers.{n}.mixer.out_proj.weight", SAME),
    rule("layers.{n}.ssm.output.bias",       "blk.{n}.ssm_out.bias",     "backbone.layers.{n}.mixer.out_proj.bias",   SAME),
];

#[rustfmt::skip]
static FIRST: &[NameRule] = &[
    rule("layers.{n}.ssm.x.weight",  "blk.{n}.ssm_x.weight",  "backbone.layers.{n}.mixer.x_proj.weight",  SAME),
    rule("layers.{n}.ssm.dt.weight", "blk.{n}.ssm_dt.weight", "backbone.layers.{n}.mixer.dt_proj.weight", SAME),
    rule("layers.{n}.ssm.dt.bias",   "blk.{n}.ssm_dt.bias",   "backbone.layers.{n}.mixer.dt_proj.bias",   SAME),
    rule("layers.{n}.ssm.a_log",     "blk.{n}.ssm_a",         "backbone.layers.{n}.mixer.A_log",          NEG_EXP),
    rule("layers.{n}.ssm.d",         "blk.{n}.ssm_d",         "backbone.layers.{n}.mixer.D",              SAME),
];

/// A value for each head, which GGUF stores with a further axis, and a norm of each group.
#[rustfmt::skip]
static SECOND: &[NameRule] = &[
    rule("layers.{n}.ssm.dt.bias",     "blk.{n}.ssm_dt.bias",     "backbone.layers.{n}.mixer.dt_bias",     SAME),
    rule("layers.{n}.ssm.a_log",       "blk.{n}.ssm_a",           "backbone.layers.{n}.mixer.A_log",       Transform { axes: Axes::Trailing, ..NEG_EXP }),
    rule("layers.{n}.ssm.d",           "blk.{n}.ssm_d",           "backbone.layers.{n}.mixer.D",           TRAILING),
    rule("layers.{n}.ssm.norm.weight", "blk.{n}.ssm_norm.weight", "backbone.layers.{n}.mixer.norm.weight", Transform { axes: Axes::Folded, ..SAME }),
];

static CHANNELS_LAST: &[NameRule] = &[hf(
    "layers.{n}.ssm.conv.weight",
    "backbone.layers.{n}.mixer.conv1d.weight",
    Transform { axes: Axes::Transposed, ..SAME },
)];

const DEFAULTS: Defaults =
    Defaults { norms: Some(NormKind::Rms), attention_free: true, ..Defaults::activation("silu") };

#[rustfmt::skip]
static MAMBAS: &[Variant] = &[
    Variant {
        gguf: "mamba",
        hf: &["mamba"],
        keys: &[KEYS, &[K::Derived("ssm_time_step_rank"), K::Fixed("ssm.dt_b_c_rms", Flag(false)), K::FileType]],
        classes: &[
            Class { model_type: "mamba", class: "MambaForCausalLM",
                rules: &[json::BODY, json::SILU, CONFIG, &[C::Needed("ssm_time_step_rank", "time_step_rank")]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static MAMBA2S: &[Variant] = &[
    Variant {
        gguf: "mamba2",
        hf: &["mamba2"],
        keys: &[KEYS, &[K::Derived("ssm_time_step_rank"), K::Row("ssm_group_count"), K::FileType]],
        classes: &[
            Class { model_type: "mamba2", class: "Mamba2ForCausalLM",
                rules: &[json::BODY, json::SILU, CONFIG, &[C::Needed("ssm_group_count", "n_groups"), C::By(heads)]], ..Class::EMPTY },
        ],
        mlx_config: Some(limits),
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
];

/// The converter states a length for programs that use the model's, and zeros for what llama.cpp's
/// loader asks of every model.
#[rustfmt::skip]
const KEYS: &[K] = &[
    K::Fixed("context_length", Count(1 << 20)), K::Row("dim"), K::Fixed("feed_forward_length", Count(0)), K::Fixed("attention.head_count", Count(0)), K::By(keys::block_count),
    K::Row("ssm_conv_kernel"), K::Derived("ssm_inner_size"), K::Row("ssm_state_size"), K::By(epsilon),
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::Field("norm_eps", "layer_norm_epsilon"), C::Needed("ssm_conv_kernel", "conv_kernel"), C::Needed("ssm_state_size", "state_size"), C::By(widths),
];

fn epsilon(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.real(
        "attention.layer_norm_rms_epsilon",
        model.config.norm_eps.as_ref().map_or(1e-5, |eps| eps.value),
    );
    Ok(())
}

/// The inner width and biases, and what a model without attention does not state.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let inner = model.config.ssm.inner_size.as_ref().map(|inner| inner.value);
    let expand = inner.and_then(|inner| inner.checked_div(model.config.dim.value));
    let (Some(inner), Some(expand)) = (inner, expand) else {
        return Err(model.missing_in_model("ssm.inner_size"));
    };
    for key in ["num_attention_heads", "max_position_embeddings"] {
        out.remove(key);
    }
    out.insert("intermediate_size".to_owned(), inner.into());
    out.insert("expand".to_owned(), expand.into());
    out.insert("use_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    out.insert("use_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    Ok(())
}

/// The heads of Mamba 2. GGUF keeps their number as the rank of time steps.
fn heads(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let ssm = &model.config.ssm;
    let heads = ssm.time_step_rank.as_ref().map(|heads| heads.value);
    let width = ssm.inner_size.as_ref().zip(heads);
    let width = width.and_then(|(inner, heads)| inner.value.checked_div(heads));
    let (Some(heads), Some(width)) = (heads, width) else {
        return Err(model.missing_in_model("ssm.time_step_rank"));
    };
    out.insert("num_heads".to_owned(), heads.into());
    out.insert("head_dim".to_owned(), width.into());
    Ok(())
}

/// mlx-lm requires bounds of time steps, and the inner width. Transformers' defaults are 0 and infinity,
/// which JSON cannot express.
fn limits(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    finite_limits(out);
    widths(model, out)
}

pub(super) fn finite_limits(out: &mut Map<String, Json>) {
    let key = "time_step_limit";
    let stated = out.get(key).and_then(Json::as_array);
    if !stated.is_some_and(|bounds| bounds.iter().all(Json::is_number)) {
        out.insert(key.to_owned(), json!([0.0, 3.0e38]));
    }
}
