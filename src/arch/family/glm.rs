//! GLM 4.

use super::decoder::{
    DECODER, GATE_UP, MIXTURE, NEXTN, PREFIXES, QK_NORM, REQUIRED, SHARED_EXPERTS, json, keys,
};
use crate::arch::config::Defaults;
use crate::arch::habits::{MlxChoice, MlxModules, MlxPath, TokenizerHabits};
use crate::arch::rule::{NameRule, rule};
use crate::arch::transform::SAME;
use crate::arch::variant::{Class, ConfigRule as C, Constant, KeyRule as K, Variant};
use crate::arch::{Architecture, RopeLayout};

use Constant::Count;

/// GLM 4: norms before and after attention and feed-forward network.
pub(super) static GLM4: Architecture = Architecture {
    name: "glm4",
    summary: "GLM 4 of April 2025, dense",
    gguf: &["glm4"],
    hf: &["glm4"],
    rope: RopeLayout::Interleaved,
    rules: &[POST_NORMS, GATE_UP, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: GLM4S,
    ..Architecture::EMPTY
};

/// GLM 4.5 and later: experts, and layers that predict further tokens.
pub(super) static GLM4MOE: Architecture = Architecture {
    name: "glm4moe",
    summary: "GLM 4.5 to 4.7",
    gguf: &["glm4moe"],
    hf: &["glm4_moe"],
    rope: RopeLayout::HalfSplit,
    rules: &[FFN_NORM, QK_NORM, NEXTN, SHARED_EXPERTS, MIXTURE, DECODER],
    prefixes: PREFIXES,
    required: REQUIRED,
    variants: GLM4MOES,
    mlx_uncast: &["e_score_correction_bias"],
    mlx_modules: &[MlxModules {
        models: &["glm4_moe"],
        path: MlxPath::EndsWith("mlp.gate"),
        choice: MlxChoice::Bare,
    }],
    ..Architecture::EMPTY
};

#[rustfmt::skip]
static POST_NORMS: &[NameRule] = &[
    rule("layers.{n}.post_attention_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_self_attn_layernorm.weight", SAME),
    rule("layers.{n}.post_ffn_norm.weight",       "blk.{n}.post_ffw_norm.weight",       "model.layers.{n}.post_mlp_layernorm.weight",       SAME),
];

/// GGUF names the norm before the experts as if it followed attention.
#[rustfmt::skip]
static FFN_NORM: &[NameRule] = &[
    rule("layers.{n}.ffn_norm.weight", "blk.{n}.post_attention_norm.weight", "model.layers.{n}.post_attention_layernorm.weight", SAME),
];

#[rustfmt::skip]
static GLM4S: &[Variant] = &[
    Variant {
        gguf: "glm4",
        hf: &["glm4"],
        keys: &[keys::BASE, keys::HEADS, &[K::Rotated(0.5)]],
        classes: &[
            Class { model_type: "glm4", class: "Glm4ForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(json::rotary_part), C::By(json::biased)]], ..Class::EMPTY },
        ],
        defaults: Defaults::activation("silu"),
        tokenizer: TokenizerHabits {
            special: &[
                ("bos_token_id", "<|endoftext|>"), ("eos_token_id", "<|endoftext|>"),
                ("unknown_token_id", "<|endoftext|>"), ("eot_token_id", "<|user|>"),
            ],
            pre: &["glm4", "chatglm-bpe"],
            ..TokenizerHabits::NONE
        },
        ..Variant::EMPTY
    },
];

#[rustfmt::skip]
static GLM4MOES: &[Variant] = &[
    Variant {
        gguf: "glm4moe",
        hf: &["glm4_moe"],
        keys: &[keys::BASE, keys::HEADS, &[K::Rotated(0.5), K::Row("n_experts"), K::Row("expert_ffn_dim"),
            K::Row("n_shared_experts"), K::Row("n_leading_dense_layers"),
            K::Fixed("expert_gating_func", Count(2)), K::Row("expert_weights_scale"),
            K::Row("expert_weights_norm"), K::By(keys::no_next_layers)]],
        classes: &[
            Class { model_type: "glm4_moe", class: "Glm4MoeForCausalLM",
                rules: &[json::BODY, json::DENSE, json::GROUPED, json::RMS, json::HEADS, json::SILU, &[C::By(json::rotary_part), C::By(json::biased), C::Field("n_experts", "n_routed_experts"), C::Needed("n_experts_used", "num_experts_per_tok"),
                    C::Field("expert_ffn_dim", "moe_intermediate_size"), C::Field("n_shared_experts", "n_shared_experts"), C::Field("n_leading_dense_layers", "first_k_dense_replace"),
                    C::Field("n_expert_groups", "n_group"), C::Field("n_expert_groups_used", "topk_group"), C::Field("expert_weights_scale", "routed_scaling_factor"),
                    C::Field("expert_weights_norm", "norm_topk_prob"), C::Field("n_next_token_layers", "num_nextn_predict_layers")]], ..Class::EMPTY },
        ],
        tokenizer: TokenizerHabits {
            special: &[
                ("bos_token_id", "[gMASK]"), ("unknown_token_id", "<|endoftext|>"),
                ("eot_token_id", "<|user|>"), ("eom_token_id", "<|observation|>"),
            ],
            pre: &["glm4"],
            ..TokenizerHabits::NONE
        },
        ..Variant::EMPTY
    },
];
