//! LFM2, dense and with experts: short convolutions in most layers, attention in the others.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, json, keys};
use crate::arch::config::{Defaults, Reported};
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath};
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, SAME, Transform};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Dialect, LayerKind, Rename, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag, Real};

/// The architecture's row.
pub(super) static LFM2: Architecture = Architecture {
    name: "lfm2",
    summary: "LFM2, dense and with experts",
    gguf: &["lfm2", "lfm2moe"],
    hf: &["lfm2", "lfm2_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[LAYERS, NETWORK, EXPERTS, MIXTURE, DECODER],
    mlx: &[hf("layers.{n}.short_conv.weight", "model.layers.{n}.conv.conv.weight", CHANNELS_LAST)],
    prefixes: PREFIXES,
    required: REQUIRED,
    renames: &[
        of_moe("model.layers.{n}.feed_forward.w1.", "model.layers.{n}.feed_forward.gate_proj."),
        of_moe("model.layers.{n}.feed_forward.w2.", "model.layers.{n}.feed_forward.down_proj."),
        of_moe("model.layers.{n}.feed_forward.w3.", "model.layers.{n}.feed_forward.up_proj."),
    ],
    variants: VARIANTS,
    mlx_uncast: &["expert_bias"],
    mlx_modules: &[MlxModules {
        models: &["lfm2_moe"],
        path: MlxPath::EndsWith("feed_forward.gate"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

/// mlx-lm's class with experts gives the dense layers names of their own.
const fn of_moe(prefix: &'static str, replacement: &'static str) -> Rename {
    Rename {
        dialect: Dialect::Mlx,
        models: &["lfm2_moe", "lfm2moe"],
        prefix,
        replacement,
        ..Rename::EMPTY
    }
}

/// Layers have attention or a convolution, and a network or experts.
static REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight | layers.{n}.short_conv.weight",
    "layers.{n}.attention.k.weight | layers.{n}.short_conv.in.weight",
    "layers.{n}.attention.output.weight | layers.{n}.short_conv.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight | layers.{n}.ffn.experts.gate.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight",
];

const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };
const CHANNELS_LAST: Transform = Transform { axes: Axes::Transposed, ..SAME };

/// llama.cpp's name of the last norm is that of a norm of the embedding.
#[rustfmt::skip]
static LAYERS: &[NameRule] = &[
    rule("output_norm.weight",                   "token_embd_norm.weight",            "model.embedding_norm.weight",                   SAME),
    rule("layers.{n}.attention_norm.weight",     "blk.{n}.attn_norm.weight",          "model.layers.{n}.operator_norm.weight",         SAME),
    rule("layers.{n}.attention.q_norm.weight",   "blk.{n}.attn_q_norm.weight",        "model.layers.{n}.self_attn.q_layernorm.weight", SAME),
    rule("layers.{n}.attention.k_norm.weight",   "blk.{n}.attn_k_norm.weight",        "model.layers.{n}.self_attn.k_layernorm.weight", SAME),
    rule("layers.{n}.attention.output.weight",   "blk.{n}.attn_output.weight",        "model.layers.{n}.self_attn.out_proj.weight",    SAME),
    rule("layers.{n}.short_conv.weight",         "blk.{n}.shortconv.conv.weight",     "model.layers.{n}.conv.conv.weight",             SQUEEZED),
    rule("layers.{n}.short_conv.bias",           "blk.{n}.shortconv.conv.bias",       "model.layers.{n}.conv.conv.bias",               SAME),
    rule("layers.{n}.short_conv.in.weight",      "blk.{n}.shortconv.in_proj.weight",  "model.layers.{n}.conv.in_proj.weight",          SAME),
    rule("layers.{n}.short_conv.in.bias",        "blk.{n}.shortconv.in_proj.bias",    "model.layers.{n}.conv.in_proj.bias",            SAME),
    rule("layers.{n}.short_conv.output.weight",  "blk.{n}.shortconv.out_proj.weight", "model.layers.{n}.conv.out_proj.weight",         SAME),
    rule("layers.{n}.short_conv.output.bias",    "blk.{n}.shortconv.out_proj.bias",   "model.layers.{n}.conv.out_proj.bias",           SAME),
    rule("layers.{n}.ffn_norm.weight",           "blk.{n}.ffn_norm.weight",           "model.layers.{n}.ffn_norm.weight",              SAME),
];

/// The dense network, under Hugging Face's names and mlx-lm's.
#[rustfmt::skip]
static NETWORK: &[NameRule] = &[
    hf("layers.{n}.ffn.gate.weight", "model.layers.{n}.feed_forward.w1.weight",        SAME),
    hf("layers.{n}.ffn.up.weight",   "model.layers.{n}.feed_forward.w3.weight",        SAME),
    hf("layers.{n}.ffn.down.weight", "model.layers.{n}.feed_forward.w2.weight",        SAME),
    hf("layers.{n}.ffn.gate.weight", "model.layers.{n}.feed_forward.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.up.weight",   "model.layers.{n}.feed_forward.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.down.weight", "model.layers.{n}.feed_forward.down_proj.weight", SAME),
];

#[rustfmt::skip]
static EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",          "model.layers.{n}.feed_forward.gate.weight",                 SAME),
    hf("layers.{n}.ffn.router.correction_bias", "model.layers.{n}.feed_forward.expert_bias",                 SAME),
    hf("layers.{n}.ffn.experts.gate.weight",    "model.layers.{n}.feed_forward.experts.{e}.w1.weight",       SAME),
    hf("layers.{n}.ffn.experts.up.weight",      "model.layers.{n}.feed_forward.experts.{e}.w3.weight",       SAME),
    hf("layers.{n}.ffn.experts.down.weight",    "model.layers.{n}.feed_forward.experts.{e}.w2.weight",       SAME),
    hf("layers.{n}.ffn.experts.gate.weight",    "model.layers.{n}.feed_forward.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",      "model.layers.{n}.feed_forward.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight",    "model.layers.{n}.feed_forward.switch_mlp.down_proj.weight", SAME),
];

const CONVOLUTION: &str = "conv";

const DEFAULTS: Defaults =
    Defaults { without_attention: Some(CONVOLUTION), ..Defaults::activation("silu") };

#[rustfmt::skip]
static VARIANTS: &[Variant] = &[
    Variant {
        gguf: "lfm2",
        hf: &["lfm2"],
        keys: &[keys::BASE, keys::HEADS, KEYS],
        classes: &[
            Class { model_type: "lfm2", class: "Lfm2ForCausalLM",
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::Fixed("block_auto_adjust_ff_dim", Flag(false)), C::By(block_width)]], ..Class::EMPTY },
        ],
        mlx_config: Some(block_width_for_mlx),
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "lfm2moe",
        hf: &["lfm2_moe"],
        keys: &[keys::BASE, keys::HEADS, KEYS, &[K::Row("expert_ffn_dim"), K::Row("n_leading_dense_layers"), K::Fixed("expert_gating_func", Count(2))]],
        classes: &[
            Class { model_type: "lfm2_moe", class: "Lfm2MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, CONFIG, &[C::Field("n_experts", "num_experts"), C::Needed("n_experts_used", "num_experts_per_tok"), C::Needed("expert_ffn_dim", "moe_intermediate_size"),
                    C::Needed("n_leading_dense_layers", "num_dense_layers"), C::Fixed("use_expert_bias", Flag(true)),
                    // llama.cpp's own rules, which no GGUF file states.
                    C::Fixed("norm_topk_prob", Flag(true)), C::Fixed("routed_scaling_factor", Real(1.0))]], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
const KEYS: &[K] = &[
    K::By(key_heads), K::Derived("vocab_size"), K::As("ssm_conv_kernel", "shortconv.l_cache"), K::Derived("ffn_dim"),
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::By(json::rope), C::Field("norm_eps", "norm_eps"), C::Needed("ssm_conv_kernel", "conv_L_cache"), C::By(convolutions),
];

/// Key heads of each layer: layers with a convolution have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let kinds = model.kinds().ok_or_else(|| model.missing_in_config("layer_types"))?;
    let heads = model.config.n_kv_heads.value;
    let each = kinds.iter().map(|kind| if kind.name() == CONVOLUTION { 0 } else { heads });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// The inverse of [`key_heads`].
fn convolutions(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let heads = model.config.n_kv_heads.value;
    let each = model.config.attention.n_kv_heads_per_layer.as_ref();
    if each.is_some_and(|each| each.value.iter().any(|own| ![0, heads].contains(own))) {
        return Err(model.inexpressible("a number of key heads for each layer"));
    }
    out.insert("num_key_value_heads".to_owned(), heads.into());
    let kinds =
        model.kinds().unwrap_or_else(|| vec![&LayerKind::Full; model.own_layers() as usize]);
    out.insert("layer_types".to_owned(), kinds.into_iter().map(Reported::reported).collect());
    out.insert("conv_bias".to_owned(), model.has_in_layers("short_conv.in.bias").into());
    Ok(())
}

/// The published configs and mlx-lm state the width a second time.
fn block_width(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    out.insert("block_dim".to_owned(), model.config.dim.value.into());
    Ok(())
}

/// Configs as transformers saves them state it once.
fn block_width_for_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if out.get("block_dim").is_none_or(Json::is_null) {
        block_width(model, out)?;
    }
    Ok(())
}
