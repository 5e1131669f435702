//! Gemma. Up to Gemma 3, norms multiply by `1 + w`. GGUF stores the sum, mlx-lm stores `w`.

use serde_json::{Map, Value as Json, json};

use super::decoder::{DECODER, MIXTURE, PREFIXES, QK_NORM, REQUIRED, json, keys};
use crate::arch::config::{Defaults, GgufDefaults, Reported};
use crate::arch::habits::{MergesHabits, MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::rule::{NameRule, both, gguf, hf, rule};
use crate::arch::source::{KeyWriter, SourceModel};
use crate::arch::transform::{PLUS_ONE, RowOrder, SAME, rows};
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, Dialect, LayerKind, Rename, RopeLayout};
use crate::error::Result;

use Constant::{Count, Flag, Real, Word};

/// Gemma 1.
pub(super) static GEMMA: Architecture = Architecture {
    name: "gemma",
    summary: "Gemma 1",
    gguf: &["gemma"],
    hf: &["gemma"],
    rope: RopeLayout::HalfSplit,
    rules: &[NORMS, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: GEMMAS,
    ..Architecture::EMPTY
};

/// Gemma 2: norms before and after attention and feed-forward network.
pub(super) static GEMMA2: Architecture = Architecture {
    name: "gemma2",
    summary: "Gemma 2",
    gguf: &["gemma2"],
    hf: &["gemma2"],
    rope: RopeLayout::HalfSplit,
    rules: &[SANDWICH, DECODER],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
    variants: GEMMA2S,
    exceeds_f16: true,
    ..Architecture::EMPTY
};

/// Gemma 3: norms on q and k.
pub(super) static GEMMA3: Architecture = Architecture {
    name: "gemma3",
    summary: "Gemma 3, with and without images, and EmbeddingGemma",
    gguf: &["gemma3", "gemma-embedding"],
    hf: &["gemma3", "gemma3_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[HEAD_NORMS, SANDWICH, DENSE, DECODER],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
    variants: GEMMA3S,
    exceeds_f16: true,
    ..Architecture::EMPTY
};

/// Gemma 3n: per-layer embeddings, alternating updates.
pub(super) static GEMMA3N: Architecture = Architecture {
    name: "gemma3n",
    summary: "Gemma 3n",
    gguf: &["gemma3n"],
    hf: &["gemma3n", "gemma3n_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[PLAIN_SANDWICH, QK_NORM, PER_LAYER, ALTUP, DECODER],
    prefixes: PREFIXES,
    required: SANDWICH_REQUIRED,
    renames: &[Rename {
        dialect: Dialect::Mlx,
        prefix: "model.",
        replacement: "model.language_model.",
        ..Rename::EMPTY
    }],
    variants: GEMMA3NS,
    exceeds_f16: true,
    mlx_keeps_tower_names: true,
    ..Architecture::EMPTY
};

/// Gemma 4: experts beside the dense network.
pub(super) static GEMMA4: Architecture = Architecture {
    name: "gemma4",
    summary: "Gemma 4",
    gguf: &["gemma4"],
    hf: &["gemma4", "gemma4_text"],
    rope: RopeLayout::HalfSplit,
    rules: &[GEMMA4_ROWS, PLAIN_SANDWICH, QK_NORM, PER_LAYER, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: SHARED_KV_REQUIRED,
    variants: GEMMA4S,
    exceeds_f16: true,
    mlx_modules: &[MlxModules {
        models: &["gemma4", "gemma4_text"],
        path: MlxPath::EndsWith("router.proj"),
        choice: MlxChoice::EightBits,
    }],
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static NORMS: &[NameRule] = &[
    rule("output_norm.weight",               "output_norm.weight",       "model.norm.weight",                                PLUS_ONE),
    rule("layers.{n}.attention_norm.weight", "blk.{n}.attn_norm.weight", "model.layers.{n}.input_layernorm.weight",          PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",       "blk.{n}.ffn_norm.weight",  "model.layers.{n}.post_attention_layernorm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static SANDWICH: &[NameRule] = &[
    rule("output_norm.weight",                    "output_norm.weight",                 "model.norm.weight",                                  PLUS_ONE),
    rule("layers.{n}.attention_norm.weight",      "blk.{n}.attn_norm.weight",           "model.layers.{n}.input_layernorm.weight",            PLUS_ONE),
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   PLUS_ONE),
    rule("layers.{n}.ffn_norm.weight",            "blk.{n}.ffn_norm.weight",            "model.layers.{n}.pre_feedforward_layernorm.weight",  PLUS_ONE),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", PLUS_ONE),
];

#[rustfmt::skip]
static HEAD_NORMS: &[NameRule] = &[
    rule("layers.{n}.attention.q_norm.weight", "blk.{n}.attn_q_norm.weight", "model.layers.{n}.self_attn.q_norm.weight", PLUS_ONE),
    rule("layers.{n}.attention.k_norm.weight", "blk.{n}.attn_k_norm.weight", "model.layers.{n}.self_attn.k_norm.weight", PLUS_ONE),
];

/// The dense layers after EmbeddingGemma's pooling, which Hugging Face stores in folders of their
/// own.
#[rustfmt::skip]
static DENSE: &[NameRule] = &[
    gguf("dense_2.weight", "dense_2.weight", SAME),
    gguf("dense_3.weight", "dense_3.weight", SAME),
];

/// The same norms, stored without the added 1.
#[rustfmt::skip]
static PLAIN_SANDWICH: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight",   SAME),
    rule("layers.{n}.ffn_norm.weight",            "blk.{n}.ffn_norm.weight",            "model.layers.{n}.pre_feedforward_layernorm.weight",  SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_feedforward_layernorm.weight", SAME),
];

/// Per-layer embeddings.
#[rustfmt::skip]
static PER_LAYER: &[NameRule] = &[
    rule("per_layer_embedding.weight",             "per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight",               SAME),
    rule("per_layer_model_projection.weight",      "per_layer_model_proj.weight", "model.per_layer_model_projection.weight",           SAME),
    rule("per_layer_projection_norm.weight",       "per_layer_proj_norm.weight",  "model.per_layer_projection_norm.weight",            SAME),
    rule("layers.{n}.per_layer_gate.weight",       "blk.{n}.inp_gate.weight",     "model.layers.{n}.per_layer_input_gate.weight",      SAME),
    rule("layers.{n}.per_layer_projection.weight", "blk.{n}.proj.weight",         "model.layers.{n}.per_layer_projection.weight",      SAME),
    rule("layers.{n}.per_layer_norm.weight",       "blk.{n}.post_norm.weight",    "model.layers.{n}.post_per_layer_input_norm.weight", SAME),
];

#[rustfmt::skip]
static ALTUP: &[NameRule] = &[
    rule("altup.projections.weight",            "altup_proj.weight",                  "model.altup_projections.{e}.weight",              SAME),
    rule("altup.unembed_projections.weight",    "altup_unembd_proj.weight",           "model.altup_unembed_projections.{e}.weight",      SAME),
    rule("layers.{n}.altup.correction.weight",  "blk.{n}.altup_correct_coef.weight",  "model.layers.{n}.altup.correction_coefs.weight",  SAME),
    rule("layers.{n}.altup.output_scale",       "blk.{n}.altup_correct_scale.weight", "model.layers.{n}.altup.correct_output_scale",     SAME),
    rule("layers.{n}.altup.prediction.weight",  "blk.{n}.altup_predict_coef.weight",  "model.layers.{n}.altup.prediction_coefs.weight",  SAME),
    rule("layers.{n}.altup.router.weight",      "blk.{n}.altup_router.weight",        "model.layers.{n}.altup.modality_router.weight",   SAME),
    rule("layers.{n}.altup.router_norm.weight", "blk.{n}.altup_router_norm.weight",   "model.layers.{n}.altup.router_norm.weight",       SAME),
    rule("layers.{n}.laurel.left.weight",       "blk.{n}.laurel_l.weight",            "model.layers.{n}.laurel.linear_left.weight",      SAME),
    rule("layers.{n}.laurel.right.weight",      "blk.{n}.laurel_r.weight",            "model.layers.{n}.laurel.linear_right.weight",     SAME),
    rule("layers.{n}.laurel.norm.weight",       "blk.{n}.laurel_post_norm.weight",    "model.layers.{n}.laurel.post_laurel_norm.weight", SAME),
];

#[rustfmt::skip]
static GEMMA4_ROWS: &[NameRule] = &[
    rule("layers.{n}.post_ffn_norm_1.weight",   "blk.{n}.post_ffw_norm_1.weight",    "model.layers.{n}.post_feedforward_layernorm_1.weight", SAME),
    rule("layers.{n}.ffn_norm_2.weight",        "blk.{n}.pre_ffw_norm_2.weight",     "model.layers.{n}.pre_feedforward_layernorm_2.weight",  SAME),
    rule("layers.{n}.post_ffn_norm_2.weight",   "blk.{n}.post_ffw_norm_2.weight",    "model.layers.{n}.post_feedforward_layernorm_2.weight", SAME),
    rule("layers.{n}.output_scale",             "blk.{n}.layer_output_scale.weight", "model.layers.{n}.layer_scalar",                        SAME),
    rule("layers.{n}.ffn.router.weight",        "blk.{n}.ffn_gate_inp.weight",       "model.layers.{n}.router.proj.weight",                  SAME),
    rule("layers.{n}.ffn.router.scale",         "blk.{n}.ffn_gate_inp.scale",        "model.layers.{n}.router.scale",                        SAME),
    rule("layers.{n}.ffn.experts.output_scale", "blk.{n}.ffn_down_exps.scale",       "model.layers.{n}.router.per_expert_scale",             SAME),
    both("layers.{n}.ffn.experts.gate.weight", "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.experts.gate_up_proj", rows(RowOrder::Half(0))),
    both("layers.{n}.ffn.experts.up.weight",   "blk.{n}.ffn_gate_up_exps.weight", "model.layers.{n}.experts.gate_up_proj", rows(RowOrder::Half(1))),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.experts.down_proj",                   SAME),
    hf("layers.{n}.ffn.experts.gate.weight", "model.layers.{n}.experts.switch_glu.gate_proj.weight", SAME),
    hf("layers.{n}.ffn.experts.up.weight",   "model.layers.{n}.experts.switch_glu.up_proj.weight",   SAME),
    hf("layers.{n}.ffn.experts.down.weight", "model.layers.{n}.experts.switch_glu.down_proj.weight", SAME),
];

static SANDWICH_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.k.weight",
    "layers.{n}.attention.v.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.post_attention_norm.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.post_ffn_norm.weight",
];

/// Layers may reuse the keys and values of an earlier layer, or use keys as values.
static SHARED_KV_REQUIRED: &[&str] = &[
    "token_embedding.weight",
    "output_norm.weight",
    "layers.{n}.attention_norm.weight",
    "layers.{n}.attention.q.weight",
    "layers.{n}.attention.output.weight",
    "layers.{n}.post_attention_norm.weight",
    "layers.{n}.ffn_norm.weight",
    "layers.{n}.ffn.gate.weight",
    "layers.{n}.ffn.up.weight",
    "layers.{n}.ffn.down.weight",
    "layers.{n}.post_ffn_norm.weight",
];

/// Defaults that all Gemma models share.
pub(super) const DEFAULTS: Defaults =
    Defaults { scaled_embedding: true, ..Defaults::activation("gelu_pytorch_tanh") };

const GEMMA3_DEFAULTS: Defaults =
    Defaults { window_period: Some(6), local_rope_theta: Some(10_000.0), ..DEFAULTS };

const TOKENIZER: TokenizerHabits =
    TokenizerHabits { no_space_prefix: true, ..TokenizerHabits::NONE };

const GEMMA4_TOKENIZER: TokenizerHabits = TokenizerHabits {
    merges: Some(MergesHabits {
        model: "gemma4",
        shown: &[
            "<|channel>",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|tool_response>",
            "<tool_response|>",
            "<|\"|>",
        ],
    }),
    ..TokenizerHabits::NONE
};

#[rustfmt::skip]
static GEMMAS: &[Variant] = &[
    Variant {
        gguf: "gemma",
        hf: &["gemma"],
        keys: &[GEMMA_KEYS],
        classes: &[
            Class { model_type: "gemma", class: "GemmaForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, GELU], ..Class::EMPTY },
        ],
        defaults: DEFAULTS,
        tokenizer: TokenizerHabits { special: &[("eot_token_id", "<end_of_turn>")], ..TOKENIZER },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static GEMMA2S: &[Variant] = &[
    Variant {
        gguf: "gemma2",
        hf: &["gemma2"],
        keys: &[GEMMA_KEYS, &[K::Row("attn_logit_softcap"), K::Row("final_logit_softcap"), K::Row("sliding_window")]],
        classes: &[
            Class { model_type: "gemma2", class: "Gemma2ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, GELU, &[C::Field("sliding_window", "sliding_window"), C::Field("attn_logit_softcap", "attn_logit_softcapping"),
                    C::Field("final_logit_softcap", "final_logit_softcapping"), C::By(scalar)]], ..Class::EMPTY },
        ],
        defaults: Defaults {
            window_period: Some(2),
            of_gguf: GgufDefaults { scaled_by_dim_layers: Some(46), ..DEFAULTS.of_gguf },
            ..DEFAULTS
        },
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static GEMMA3S: &[Variant] = &[
    Variant {
        gguf: "gemma3",
        hf: &["gemma3", "gemma3_text"],
        keys: &[keys::BASE, keys::HEADS, GEMMA3_KEYS],
        classes: &[
            Class { model_type: "gemma3_text", class: "Gemma3ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, GELU, &[C::Field("sliding_window", "sliding_window"), C::Field("rope_local_theta", "rope_local_base_freq"),
                    C::Field("sliding_window_pattern", "sliding_window_pattern"), C::By(json::layer_types), C::By(scalar)]], ..Class::EMPTY },
        ],
        mlx_config: Some(outer_vocabulary),
        defaults: Defaults {
            of_gguf: GgufDefaults { scaled_by_dim_layers: Some(62), ..DEFAULTS.of_gguf },
            ..GEMMA3_DEFAULTS
        },
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
    Variant {
        gguf: "gemma-embedding",
        hf: &["gemma3_text"],
        class: Some("Gemma3TextModel"),
        keys: &[keys::BASE, keys::HEADS, GEMMA3_KEYS, &[K::By(keys::pooling)]],
        classes: &[
            Class { model_type: "gemma3_text", class: "Gemma3TextModel",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, GELU, &[C::Field("sliding_window", "sliding_window"), C::Field("rope_local_theta", "rope_local_base_freq"),
                    C::Field("sliding_window_pattern", "sliding_window_pattern"), C::By(json::layer_types), C::By(scalar), C::Fixed("use_bidirectional_attention", Flag(true))]], ..Class::EMPTY },
        ],
        defaults: Defaults { of_gguf: GgufDefaults::NONE, ..GEMMA3_DEFAULTS },
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static GEMMA3NS: &[Variant] = &[
    Variant {
        gguf: "gemma3n",
        hf: &["gemma3n", "gemma3n_text"],
        keys: &[keys::BASE, keys::HEADS, GEMMA3_KEYS, &[K::By(altup_keys)]],
        classes: &[
            Class { model_type: "gemma3n_text", class: "Gemma3nForCausalLM", within: Some("gemma3n"),
                rules: &[json::BODY, json::GROUPED, json::RMS, json::HEADS, GELU, PER_LAYER_CONFIG, &[C::By(widths), C::By(altup_config), C::Stated("altup.active_idx", "altup_active_idx"),
                    C::Stated("altup.num_inputs", "altup_num_inputs"), C::Field("rope_local_theta", "rope_local_base_freq"),
                    // No GGUF file states it; it is the same in all models of the family.
                    C::Fixed("altup_coef_clip", Real(120.0))]], ..Class::EMPTY },
        ],
        defaults: Defaults {
            window_period: Some(5),
            local_rope_theta: Some(10_000.0),
            // transformers' default (`Gemma3nTextConfig`).
            shared_kv_layers: 15,
            ..DEFAULTS
        },
        tokenizer: TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static GEMMA4S: &[Variant] = &[
    Variant {
        gguf: "gemma4",
        hf: &["gemma4", "gemma4_text"],
        keys: &[keys::BASE, keys::HEADS, GEMMA3_KEYS, &[K::By(gemma4_layers)]],
        classes: &[
            Class { model_type: "gemma4_text", class: "Gemma4ForCausalLM",
                rules: &[json::BODY, json::RMS, GELU, PER_LAYER_CONFIG, &[C::By(gemma4_widths), C::By(gemma4_attention), C::By(gemma4_rope)]], ..Class::EMPTY },
        ],
        rope_freqs: Some(gemma4_rope_freqs),
        mlx_config: Some(gemma4_mlx),
        defaults: Defaults { local_rope_theta: Some(10_000.0), ..DEFAULTS },
        tokenizer: GEMMA4_TOKENIZER,
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
/// Keys of converter classes that inherit none.
const GEMMA_KEYS: &[K] = &[
    K::Row("max_seq_len"), K::Row("dim"), K::By(keys::block_count), K::Row("ffn_dim"), K::Row("n_heads"),
    K::Derived("n_kv_heads"), K::Row("rms_eps"), K::By(keys::all_widths_of_heads), K::FileType,
];

#[rustfmt::skip]
const GEMMA3_KEYS: &[K] = &[
    K::Or("max_seq_len", Count(131_072)), K::Or("rms_eps", Real(1e-6)), K::By(keys::all_widths_of_heads),
    K::Or("rope_theta", Real(1e6)), K::Row("final_logit_softcap"),
    K::Row("sliding_window"), K::Derived("n_kv_heads"),
];

#[rustfmt::skip]
/// Per-layer embeddings of Gemma 3n and 4.
const PER_LAYER_CONFIG: &[C] = &[
    C::By(own_embeddings), C::Field("sliding_window", "sliding_window"), C::By(json::layer_types),
    C::Field("final_logit_softcap", "final_logit_softcapping"),
];

#[rustfmt::skip]
const GELU: &[C] = &[C::Fixed("hidden_activation", Word("gelu_pytorch_tanh"))];

/// Gemma 3n: several residual streams, and sparse activations that keep the largest values only.
fn altup_keys(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let rows = [
        ("altup_active_idx", "altup.active_idx"),
        ("altup_num_inputs", "altup.num_inputs"),
        ("hidden_size_per_layer_input", "embedding_length_per_layer_input"),
        ("num_kv_shared_layers", "attention.shared_kv_layers"),
    ];
    for (path, key) in rows {
        keys.count(key, model.count(path)?.ok_or_else(|| model.missing_in_config(path))?);
    }
    let sparse = model.reals("activation_sparsity_pattern")?;
    keys.reals("activation_sparsity_scale", sparse.into_iter().map(deviations));
    let sliding = model.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| model.missing_in_config("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    Ok(())
}

/// The fraction of a normal distribution that lies below `x` standard deviations above the mean.
fn below(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::from(u8::from(x > 0.0));
    }
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    // The series of the distribution: x + x^3/3 + x^5/(3*5) + ..., times the density.
    let (mut term, mut sum) = (x, x);
    for odd in (3..400).step_by(2) {
        term *= x * x / f64::from(odd);
        sum += term;
    }
    0.5 + density * sum
}

/// The number of standard deviations above the mean below which this fraction of a normal
/// distribution lies.
fn deviations(part: f64) -> f32 {
    if part <= 0.0 {
        return f32::NEG_INFINITY;
    }
    if part >= 1.0 {
        return f32::INFINITY;
    }
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if below(middle) < part { low = middle } else { high = middle }
    }
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let found = high as f32;
    found
}

/// A number of Gemma 4's layers without a sliding window: under a key of its own, or in newer
/// configs under that of the first such layer.
fn of_full_layers(model: &SourceModel<'_>, own: &str, name: &str) -> Result<Option<u32>> {
    if let Some(number) = model.count(own)? {
        return Ok(Some(number));
    }
    let sliding = model.layers_of(&LayerKind::Sliding)?.unwrap_or_default();
    let Some(first) = sliding.iter().position(|sliding| !sliding) else { return Ok(None) };
    let padded = model.count(&format!("per_layer_config.{first:02}.{name}"))?;
    let stated = padded.or(model.count(&format!("per_layer_config.{first}.{name}"))?);
    match (stated, name) {
        (None, "head_dim") if model.config_value("per_layer_config").is_some() => model.count(name),
        // The class's default if a config states neither key.
        (None, "head_dim") => Ok(Some(512)),
        (stated, _) => Ok(stated),
    }
}

/// Gemma 4's layers with a sliding window have heads of another width and number.
fn gemma4_layers(model: &SourceModel<'_>, keys: &mut KeyWriter<'_>) -> Result<()> {
    let config = &model.config;
    let shared = model.count("num_kv_shared_layers")?;
    let shared = shared.ok_or_else(|| model.missing_in_config("num_kv_shared_layers"))?;
    keys.count("attention.shared_kv_layers", shared);
    let per_layer = model.count("hidden_size_per_layer_input")?.unwrap_or(0);
    keys.count("embedding_length_per_layer_input", per_layer);
    let sliding = model.layers_of(&LayerKind::Sliding)?;
    let sliding = sliding.ok_or_else(|| model.missing_in_config("layer_types"))?;
    keys.flags("attention.sliding_window_pattern", &sliding);
    let full = of_full_layers(model, "global_head_dim", "head_dim")?;
    let full = full.ok_or_else(|| model.missing_in_config("global_head_dim"))?;
    let narrow = model.count("head_dim")?.ok_or_else(|| model.missing_in_config("head_dim"))?;
    for (ending, width) in [("", full), ("_swa", narrow)] {
        keys.count(&format!("attention.key_length{ending}"), width);
        keys.count(&format!("attention.value_length{ending}"), width);
    }
    // llama.cpp takes 30 for a missing key; 0 stands for none.
    if model.derived("final_logit_softcap").is_none() {
        keys.real("final_logit_softcapping", 0.0);
    }
    let experts = model.count("expert_intermediate_size")?;
    if let Some(width) = experts.or(model.count("moe_intermediate_size")?) {
        keys.count("expert_feed_forward_length", width);
    }
    let layers = config.n_layers.value;
    let width = config.ffn_dim.as_ref().map_or(0, |width| width.value);
    if model.config_value("use_double_wide_mlp").and_then(Json::as_bool) == Some(true) {
        let own = layers.saturating_sub(shared);
        let each = (0..layers).map(|n| if n < own { width } else { width.saturating_mul(2) });
        keys.set("feed_forward_length", &each.collect::<Vec<u32>>().reported());
    }
    let of_full = of_full_layers(model, "num_global_key_value_heads", "num_key_value_heads")?;
    let heads = (of_full, model.count("num_key_value_heads")?);
    if let (Some(of_full), Some(of_sliding)) = heads {
        let each = sliding.iter().map(|&sliding| if sliding { of_sliding } else { of_full });
        keys.set("attention.head_count_kv", &each.collect::<Vec<u32>>().reported());
    }
    keys.count("rope.dimension_count", full);
    let part = model.real("rope_parameters.partial_rotary_factor")?.unwrap_or(1.0);
    // The fraction is at most 1, so the product fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(narrow) * f64::from(part)) as u32;
    keys.count("rope.dimension_count_swa", rotated.min(narrow));
    Ok(())
}

/// Gemma 4's divisors, for the head width of layers without a sliding window.
fn gemma4_rope_freqs(model: &SourceModel<'_>) -> Result<Vec<f32>> {
    let full = of_full_layers(model, "global_head_dim", "head_dim")?;
    let full = full.ok_or_else(|| model.missing_in_config("global_head_dim"))?;
    Ok(unrotated_factors(model, full))
}

/// Gemma 4 rotates the first fraction of a head's pairs. The other pairs get a divisor so large
/// that they are not rotated.
fn unrotated_factors(model: &SourceModel<'_>, width: u32) -> Vec<f32> {
    let pairs = width / 2;
    let part = model.config.rope.partial_factor.as_ref().map_or(1.0, |part| part.value);
    // The fraction is at most 1, so the product fits.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let rotated = (f64::from(width) * f64::from(part) / 2.0) as u32;
    (0..pairs).map(|pair| if pair < rotated { 1.0 } else { 1e30 }).collect()
}

/// The number whose square root divides attention scores. GGUF omits it, since it depends on the
/// model's size only.
fn scalar(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let stated = model.derived("query_pre_attn_scalar");
    let usual = model.config.head_dim.value.into();
    out.insert("query_pre_attn_scalar".to_owned(), stated.unwrap_or(usual));
    Ok(())
}

/// Width of the feed-forward network: one for all layers, or one for each layer.
fn widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let each = model.config.ffn_dim_per_layer.as_ref().map(|each| each.value.reported());
    let width = each.or_else(|| model.derived("ffn_dim"));
    let width = width.ok_or_else(|| model.missing_in_model("intermediate_size"))?;
    out.insert("intermediate_size".to_owned(), width);
    Ok(())
}

/// Per-layer embeddings and shared key/value layers.
fn own_embeddings(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let count = |field: &str| model.derived(field).unwrap_or_else(|| 0.into());
    out.insert("hidden_size_per_layer_input".to_owned(), count("per_layer_dim"));
    out.insert("num_kv_shared_layers".to_owned(), count("n_kv_shared_layers"));
    let rows = model.shape("per_layer_embedding.weight").and_then(|shape| shape.first().copied());
    let rows = rows.map(Json::from).or_else(|| model.derived("vocab_size"));
    out.extend(rows.map(|rows| ("vocab_size_per_layer_input".to_owned(), rows)));
    Ok(())
}

/// Gemma 3n: numbers that no key states are derived from its tensors. The fractions of activations
/// that are dropped are stored as quantiles of a normal distribution.
fn altup_config(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let rank = model.shape("layers.0.laurel.left.weight").and_then(|shape| shape.first().copied());
    let rank = rank.ok_or_else(|| model.missing_in_model("layers.0.laurel.left.weight"))?;
    out.insert("laurel_rank".to_owned(), rank.into());
    let scaled = model.has("layers.0.altup.output_scale");
    out.insert("altup_correct_scale".to_owned(), scaled.into());
    let key = format!("{}.activation_sparsity_scale", model.config.architecture.value);
    let places = model.metadata().array(&key).and_then(|places| places.floats());
    let places = places.ok_or_else(|| model.missing_in_model("activation_sparsity_scale"))?;
    #[expect(clippy::cast_possible_truncation, reason = "as many digits as an f32 has")]
    let parts = places.map(|place| (below(place) as f32).reported());
    out.insert("activation_sparsity_pattern".to_owned(), parts.collect());
    Ok(())
}

/// Gemma 4's feed-forward networks, which are twice as wide in layers that share keys and values,
/// and its experts.
fn gemma4_widths(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let shared = config.attention.n_kv_shared_layers.as_ref().map_or(0, |shared| shared.value);
    let own = usize::try_from(model.own_layers().saturating_sub(shared)).unwrap_or(usize::MAX);
    let each = config.ffn_dim_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let first = each.first().copied().or(config.ffn_dim.as_ref().map(|width| width.value));
    let first = first.ok_or_else(|| model.missing_in_model("intermediate_size"))?;
    let (narrow, wide) = each.split_at(own.min(each.len()));
    let twice = !wide.is_empty() && wide.iter().all(|width| *width == first.saturating_mul(2));
    let plain = wide.iter().all(|width| *width == first);
    if !(twice || plain) || narrow.iter().any(|width| *width != first) {
        return Err(model.inexpressible("a width of the feed-forward network for each layer"));
    }
    out.insert("intermediate_size".to_owned(), first.into());
    out.insert("use_double_wide_mlp".to_owned(), twice.into());
    let experts = config.n_experts.value > 0;
    out.insert("enable_moe_block".to_owned(), experts.into());
    if experts {
        for (field, key) in [
            ("n_experts", "num_experts"),
            ("n_experts_used", "top_k_experts"),
            ("expert_ffn_dim", "moe_intermediate_size"),
        ] {
            let value = model.derived(field).ok_or_else(|| model.missing_in_model(key))?;
            out.insert(key.to_owned(), value);
        }
    }
    Ok(())
}

/// mlx-lm takes the size of the vocabulary from the outer config of a model with images.
fn outer_vocabulary(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    if out.contains_key("text_config") && !out.contains_key("vocab_size") {
        out.extend(model.derived("vocab_size").map(|size| ("vocab_size".to_owned(), size)));
    }
    Ok(())
}

/// mlx-lm reads Gemma 4's heads in layers without a sliding window under keys of their own.
fn gemma4_mlx(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    outer_vocabulary(model, out)?;
    let width = of_full_layers(model, "global_head_dim", "head_dim")?;
    let heads = of_full_layers(model, "num_global_key_value_heads", "num_key_value_heads")?;
    let text = match out.get_mut("text_config") {
        Some(Json::Object(text)) => text,
        _ => out,
    };
    let found = [("global_head_dim", width), ("num_global_key_value_heads", heads)];
    for (key, value) in found.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        text.entry(key).or_insert_with(|| value.into());
    }
    Ok(())
}

/// Gemma 4's heads; layers with a sliding window have others.
fn gemma4_attention(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let config = &model.config;
    let (wide, narrow) = (config.head_dim.value, &config.attention.local_head_dim);
    let narrow = narrow.as_ref().map_or(wide, |narrow| narrow.value);
    out.insert("head_dim".to_owned(), narrow.into());
    out.insert("global_head_dim".to_owned(), wide.into());
    let kinds = model.kinds().unwrap_or_default();
    let each = config.attention.n_kv_heads_per_layer.as_ref().map_or(&[][..], |each| &each.value);
    let of = |full: bool| {
        let of = kinds.iter().zip(each).filter(|(kind, _)| (***kind == LayerKind::Full) == full);
        let mut heads = of.map(|(_, heads)| *heads);
        let first = heads.next();
        match heads.all(|heads| Some(heads) == first) {
            true => Ok(first),
            false => Err(model.inexpressible("a number of key heads for each layer")),
        }
    };
    let heads = of(false)?.unwrap_or(config.n_kv_heads.value);
    out.insert("num_key_value_heads".to_owned(), heads.into());
    if let Some(heads) = of(true)? {
        out.insert("num_global_key_value_heads".to_owned(), heads.into());
    }
    // Layers without a sliding window may use keys as values.
    let full = (0u32..).zip(&kinds).find(|(_, kind)| ***kind == LayerKind::Full);
    let has =
        |layer: u32, name: &str| model.has(&format!("layers.{layer}.attention.{name}.weight"));
    let same = full.is_some_and(|(layer, _)| has(layer, "k") && !has(layer, "v"));
    out.insert("attention_k_eq_v".to_owned(), same.into());
    Ok(())
}

/// Gemma 4's rotary embeddings. In layers without a sliding window, the divisors tell the rotated
/// fraction.
fn gemma4_rope(model: &SourceModel<'_>, out: &mut Map<String, Json>) -> Result<()> {
    let divisors = model.values("rope_freqs.weight")?;
    let rotated = divisors.iter().take_while(|divisor| **divisor == 1.0).count();
    if divisors.iter().skip(rotated).any(|divisor| *divisor < 1e29) {
        return Err(model.inexpressible("rope_freqs.weight with divisors other than Gemma 4's"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "engines use it as f32")]
    let part = (rotated as f64 / divisors.len().max(1) as f64) as f32;
    let local = model.derived("rope_local_theta");
    let local = local.ok_or_else(|| model.missing_in_model("rope.freq_base_swa"))?;
    let full = json!({
        "rope_type": "proportional",
        "rope_theta": model.config.rope_theta.value.reported(),
        "partial_rotary_factor": part.reported(),
    });
    let sliding = json!({"rope_type": "default", "rope_theta": local});
    let both = json!({"full_attention": full, "sliding_attention": sliding});
    out.insert("rope_parameters".to_owned(), both);
    Ok(())
}
