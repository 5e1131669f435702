//! Granite 3 and 4: Llama with scales, dense or with experts, and in Granite 4 with Mamba 2 in most
//! layers. In GGUF, the rows of q and k are reordered into pairs.

use serde_json::{Map, Value as Json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, REQUIRED, SHARED_EXPERT, json, keys};
use super::llama::PERMUTED;
use super::mamba;
use crate::arch::config::{Defaults, Reported};
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::rule::{NameRule, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{Axes, Change, RowOrder, SAME, Transform, rows};
use crate::arch::variant::{Class, ConfigRule as C, KeyRule as K, Variant};
use crate::arch::{Architecture, ConditionalName, LayerKind, RopeLayout};
use crate::error::Result;

/// Granite without state spaces.
pub(super) static GRANITE: Architecture = Architecture {
    name: "granite",
    summary: "Granite 3 and 4 without state spaces, dense and with experts",
    gguf: &["granite", "granitemoe"],
    hf: &["granite", "granitemoe", "granitemoeshared"],
    rope: RopeLayout::HalfSplit,
    rules: &[PERMUTED, PARALLEL_EXPERTS, SHARED_EXPERT, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: GRANITES,
    mlx_modules: MODULES,
    ..Architecture::EMPTY
};

/// Granite 4. Its smallest models have attention in all layers; llama.cpp calls those `granite`.
pub(super) static HYBRID: Architecture = Architecture {
    name: "granite_hybrid",
    summary: "Granite 4 with state spaces",
    gguf: &["granitehybrid"],
    hf: &["granitemoehybrid"],
    rope: RopeLayout::HalfSplit,
    rules: &[STATES, PERMUTED, PARALLEL_EXPERTS, SHARED_EXPERT, MIXTURE, DECODER],
    mlx: MLX,
    prefixes: PREFIXES,
    required: HYBRID_REQUIRED,
    conditional_names: &[ConditionalName {
        beside: "layers.{n}.ffn.router.weight",
        present: false,
        usual: "layers.{n}.ffn.shared_expert.",
        name: "layers.{n}.ffn.",
    }],
    conditional_rules: SHARED_NETWORK,
    variants: HYBRIDS,
    mlx_modules: &[eight_bits(&["granitemoehybrid"], MlxPath::EndsWith("router.layer"))],
    cuts: mamba::HEADS,
    ..Architecture::EMPTY
};

/// Layers have attention or Mamba 2, and a network or experts.
static HYBRID_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight | layers.{n}.ssm.in.weight",
    "layers.{n}.attention.k.weight | layers.{n}.ssm.conv.weight",
    "layers.{n}.attention.v.weight | layers.{n}.ssm.a_log",
    "layers.{n}.attention.output.weight | layers.{n}.ssm.output.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight | layers.{n}.ffn.experts.gate.weight | layers.{n}.ffn.shared_expert.gate.weight",
    "layers.{n}.ffn.up.weight | layers.{n}.ffn.experts.up.weight | layers.{n}.ffn.shared_expert.up.weight",
    "layers.{n}.ffn.down.weight | layers.{n}.ffn.experts.down.weight | layers.{n}.ffn.shared_expert.down.weight",
];

/// Experts in Hugging Face's files, and in mlx-lm's.
#[rustfmt::skip]
static PARALLEL_EXPERTS: &[NameRule] = &[
    hf("layers.{n}.ffn.router.weight",             "model.layers.{n}.block_sparse_moe.router.layer.weight",         SAME),
    hf("layers.{n}.ffn.experts.gate.weight",       "model.layers.{n}.block_sparse_moe.input_linear.weight",         rows(RowOrder::Half(0))),
    hf("layers.{n}.ffn.experts.up.weight",         "model.layers.{n}.block_sparse_moe.input_linear.weight",         rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight",       "model.layers.{n}.block_sparse_moe.output_linear.weight",        SAME),
    hf("layers.{n}.ffn.shared_expert.gate.weight", "model.layers.{n}.shared_mlp.input_linear.weight",               rows(RowOrder::Half(0))),
    hf("layers.{n}.ffn.shared_expert.up.weight",   "model.layers.{n}.shared_mlp.input_linear.weight",               rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.shared_expert.down.weight", "model.layers.{n}.shared_mlp.output_linear.weight",              SAME),
    hf("layers.{n}.ffn.experts.gate.weight",       "model.layers.{n}.block_sparse_moe.switch_mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",         "model.layers.{n}.block_sparse_moe.switch_mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight",       "model.layers.{n}.block_sparse_moe.switch_mlp.down_proj.weight", SAME),
];

/// The network of layers without experts has the names of the shared expert.
#[rustfmt::skip]
static SHARED_NETWORK: &[NameRule] = &[
    hf("layers.{n}.ffn.gate.weight", "model.layers.{n}.shared_mlp.input_linear.weight",  rows(RowOrder::Half(0))),
    hf("layers.{n}.ffn.up.weight",   "model.layers.{n}.shared_mlp.input_linear.weight",  rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.down.weight", "model.layers.{n}.shared_mlp.output_linear.weight", SAME),
];

const SQUEEZED: Transform = Transform { axes: Axes::Squeezed, ..SAME };
const TRAILING: Transform = Transform { axes: Axes::Trailing, ..SAME };

#[rustfmt::skip]
static STATES: &[NameRule] = &[
    rule("layers.{n}.ssm.in.weight",     "blk.{n}.ssm_in.weight",     "model.layers.{n}.mamba.in_proj.weight",  SAME),
    rule("layers.{n}.ssm.in.bias",       "blk.{n}.ssm_in.bias",       "model.layers.{n}.mamba.in_proj.bias",    SAME),
    rule("layers.{n}.ssm.conv.weight",   "blk.{n}.ssm_conv1d.weight", "model.layers.{n}.mamba.conv1d.weight",   SQUEEZED),
    rule("layers.{n}.ssm.conv.bias",     "blk.{n}.ssm_conv1d.bias",   "model.layers.{n}.mamba.conv1d.bias",     SAME),
    rule("layers.{n}.ssm.dt.bias",       "blk.{n}.ssm_dt.bias",       "model.layers.{n}.mamba.dt_bias",         SAME),
    rule("layers.{n}.ssm.a_log",         "blk.{n}.ssm_a",             "model.layers.{n}.mamba.A_log",           Transform { values: Change::NegExp, ..TRAILING }),
    rule("layers.{n}.ssm.d",             "blk.{n}.ssm_d",             "model.layers.{n}.mamba.D",               TRAILING),
    rule("layers.{n}.ssm.norm.weight",   "blk.{n}.ssm_norm.weight",   "model.layers.{n}.mamba.norm.weight",     Transform { axes: Axes::Folded, ..SAME }),
    rule("layers.{n}.ssm.output.weight", "blk.{n}.ssm_out.weight",    "model.layers.{n}.mamba.out_proj.weight", SAME),
    rule("layers.{n}.ssm.output.bias",   "blk.{n}.ssm_out.bias",      "model.layers.{n}.mamba.out_proj.bias",   SAME),
];

/// mlx-lm stores channels last, and names the network of layers without experts as other families.
#[rustfmt::skip]
static MLX: &[NameRule] = &[
    hf("layers.{n}.ssm.conv.weight", "model.layers.{n}.mamba.conv1d.weight",  Transform { axes: Axes::Transposed, ..SAME }),
    hf("layers.{n}.ffn.gate.weight", "model.layers.{n}.mlp.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.up.weight",   "model.layers.{n}.mlp.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.down.weight", "model.layers.{n}.mlp.down_proj.weight", SAME),
];

/// Blocks of these modules are so small that 8-bit scales would round to 0.
static MODULES: &[MlxModules] = &[
    eight_bits(&["granite", "granitemoe"], MlxPath::EndsWith("self_attn.o_proj")),
    eight_bits(&["granite", "granitemoe"], MlxPath::EndsWith("mlp.down_proj")),
    eight_bits(&["granite", "granitemoe"], MlxPath::Is("lm_head")),
    eight_bits(&["granitemoe"], MlxPath::EndsWith("block_sparse_moe.router.layer")),
];

const fn eight_bits(models: &'static [&'static str], path: MlxPath) -> MlxModules {
    MlxModules { models, path, choice: MlxChoice::EightBits }
}

#[rustfmt::skip]
static GRANITES: &[Variant] = &[
    Variant {
        gguf: "granite",
        hf: &["granite"],
        keys: &[keys::BASE, keys::FILE_TYPE, KEYS],
        classes: &[
            Class { model_type: "granite", class: "GraniteForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, CONFIG], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TokenizerHabits { pre: &["refact"], ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
    Variant {
        gguf: "granitemoe",
        hf: &["granitemoe", "granitemoeshared"],
        keys: &[keys::BASE, keys::FILE_TYPE, KEYS, &[K::By(shared_width)]],
        classes: &[
            Class { model_type: "granitemoe", class: "GraniteMoeForCausalLM", when: Some(|model| !has_shared_experts(model)),
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, CONFIG, &[C::Field("n_experts", "num_local_experts"), C::Needed("n_experts_used", "num_experts_per_tok")]], ..Class::EMPTY },
            Class { model_type: "granitemoeshared", class: "GraniteMoeSharedForCausalLM",
                rules: &[json::BODY, json::DENSE, json::UNEVEN, json::GROUPED, json::RMS, json::SILU, CONFIG, &[C::Field("n_experts", "num_local_experts"), C::Needed("n_experts_used", "num_experts_per_tok"),
                    C::Field("shared_expert_ffn_dim", "shared_intermediate_size")]], ..Class::EMPTY },
        ],
        tokenizer: TokenizerHabits { pre: &["refact"], ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static HYBRIDS: &[Variant] = &[
    Variant {
        gguf: "granitehybrid",
        hf: &["granitemoehybrid"],
        keys: HYBRID_KEYS,
        classes: &[
            Class { model_type: "granitemoehybrid", class: "GraniteMoeHybridForCausalLM",
                rules: &[json::BODY, json::UNEVEN, json::RMS, json::SILU, CONFIG,
                    &[C::Field("n_experts", "num_local_experts"), C::Needed("ssm_conv_kernel", "mamba_d_conv"), C::Needed("ssm_state_size", "mamba_d_state"),
                    C::Needed("ssm_group_count", "mamba_n_groups"), C::By(json::rope), C::By(widths), C::By(mixers)]], ..Class::EMPTY },
        ],
        mlx_config: Some(in_mlx),
        defaults: HYBRID_DEFAULTS,
        tokenizer: TokenizerHabits { pre: &["refact"], ..TokenizerHabits::NONE },
        ..Variant::EMPTY
    },
    Variant {
        gguf: "granite",
        hf: &["granitemoehybrid"],
        when: Some(|config| attends_everywhere(config) && !routes(config)),
        keys: HYBRID_KEYS,
        defaults: HYBRID_DEFAULTS,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "granitemoe",
        hf: &["granitemoehybrid"],
        when: Some(|config| attends_everywhere(config) && routes(config)),
        keys: HYBRID_KEYS,
        defaults: HYBRID_DEFAULTS,
        ..Variant::EMPTY
    },
];

const HYBRID_DEFAULTS: Defaults = Defaults {
    without_attention: Some("mamba"),
    optional_rope: true,
    ..Defaults::activation("silu")
};

#[rustfmt::skip]
const HYBRID_KEYS: &[&[K]] = &[
    keys::BASE, keys::FILE_TYPE, &[K::By(context), K::By(key_heads)], KEYS, &[K::By(shared_width)],
    &[K::Row("ssm_conv_kernel"), K::Row("ssm_state_size"), K::Row("ssm_group_count"), K::Derived("ssm_inner_size"), K::Derived("ssm_time_step_rank"), K::By(rotates)],
];

#[rustfmt::skip]
const KEYS: &[K] = &[
    K::Derived("vocab_size"), K::Rotated(1.0), K::Row("attention_scale"), K::Row("embedding_scale"),
    K::Row("residual_scale"), K::Row("logit_scale"), K::By(keys::uneven_heads),
];

#[rustfmt::skip]
const CONFIG: &[C] = &[
    C::Field("attention_scale", "attention_multiplier"), C::Field("embedding_scale", "embedding_multiplier"),
    C::Field("residual_scale", "residual_multiplier"), C::Field("logit_scale", "logits_scaling"), C::By(json::biased),
];

fn shared_width(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if let Some(width) = model.count("shared_intermediate_size")?.filter(|&width| width > 0) {
        keys.count("expert_shared_feed_forward_length", width);
    }
    Ok(())
}

fn has_shared_experts(model: &SourceModel<'_>) -> bool {
    model.config.experts.shared_expert_ffn_dim.is_some()
}

fn listed(config: &Json, key: &str, is: impl Fn(&Json) -> bool) -> bool {
    config.get(key).and_then(Json::as_array).is_some_and(|all| all.iter().all(is))
}

/// Whether all layers of such a `config.json` have attention.
fn attends_everywhere(config: &Json) -> bool {
    listed(config, "layer_types", |kind| {
        kind.as_str().is_some_and(|kind| LayerKind::named(kind) == LayerKind::Full)
    })
}

/// Whether such a `config.json` states experts.
fn routes(config: &Json) -> bool {
    config.get("num_experts_per_tok").and_then(Json::as_u64).is_some_and(|used| used > 0)
}

fn has_states(model: &SourceModel<'_>) -> bool {
    model.has_in_layers("ssm.in.weight")
}

/// The converter states a length for models whose layers have states.
fn context(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    if has_states(model) {
        keys.count("context_length", 1 << 20);
    }
    Ok(())
}

/// Key heads of each layer: layers with Mamba have none.
fn key_heads(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let heads = model.config.n_kv_heads.value;
    let attends = |layer: u32| model.has(&format!("layers.{layer}.attention.q.weight"));
    let each = (0..model.own_layers()).map(|layer| if attends(layer) { heads } else { 0 });
    keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    Ok(())
}

/// llama.cpp takes this key for whether there are rotary embeddings.
fn rotates(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    keys.set("rope.scaling.finetuned", &has_rope(model).into());
    Ok(())
}

fn has_rope(model: &SourceModel<'_>) -> bool {
    let layers = model.config.rope.layers.as_ref();
    layers.is_none_or(|layers| layers.value.contains(&true))
}

/// The widths of networks and experts. Without experts, the network is the shared one.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let Some(width) = config.ffn_dim.as_ref().map(|width| width.value) else {
        return Err(model.missing_in_model("feed_forward_length"));
    };
    let shared = config.experts.shared_expert_ffn_dim.as_ref().map(|width| width.value);
    let shared = shared.filter(|_| config.n_experts.value > 0);
    let used = config.experts.n_experts_used.as_ref().map_or(0, |used| used.value);
    out.insert("intermediate_size".to_owned(), width.into());
    out.insert("shared_intermediate_size".to_owned(), shared.unwrap_or(width).into());
    out.insert("num_experts_per_tok".to_owned(), used.into());
    Ok(())
}

/// The kind of each layer, the heads of those with states, and rotary embeddings.
fn mixers(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let kinds = model.kinds().ok_or_else(|| model.missing_in_model("attention.head_count_kv"))?;
    let word = |kind: &&LayerKind| if **kind == LayerKind::Full { "attention" } else { "mamba" };
    out.insert("layer_types".to_owned(), kinds.iter().map(word).collect());
    out.insert("num_key_value_heads".to_owned(), model.config.n_kv_heads.value.into());
    let ssm = &model.config.ssm;
    let heads = ssm.time_step_rank.as_ref().map(|heads| heads.value);
    let inner = ssm.inner_size.as_ref().map(|inner| inner.value);
    let width = inner.zip(heads).and_then(|(inner, heads)| inner.checked_div(heads));
    let expand = inner.and_then(|inner| inner.checked_div(model.config.dim.value));
    let (Some(heads), Some(width), Some(expand)) = (heads, width, expand) else {
        return Err(model.missing_in_model("ssm.inner_size"));
    };
    out.insert("mamba_n_heads".to_owned(), heads.into());
    out.insert("mamba_d_head".to_owned(), width.into());
    out.insert("mamba_expand".to_owned(), expand.into());
    out.insert("mamba_conv_bias".to_owned(), model.has_in_layers("ssm.conv.bias").into());
    out.insert("mamba_proj_bias".to_owned(), model.has_in_layers("ssm.in.bias").into());
    let position = if has_rope(model) { "rope" } else { "nope" };
    out.insert("position_embedding_type".to_owned(), position.into());
    Ok(())
}

/// mlx-lm knows the older names of kinds of layers, and bounds of time steps as finite numbers.
fn in_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    mixers(model, out)?;
    mamba::finite_limits(out);
    Ok(())
}
