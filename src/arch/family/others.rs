//! Facts about families that have no canonical names: numbers that their files omit, and choices of
//! quantizing programs.

use super::gemma;
use crate::arch::config::{Defaults, GgufDefaults};
use crate::arch::habits::{LlamaQuantize, MlxChoice, MlxModules, MlxPath};
use crate::arch::variant::Variant;

use MlxChoice::{Bare, EightBits, Kept};
use MlxPath::{Contains, EndsWith, Is};

const FOUR_TIMES: Defaults = Defaults {
    of_gguf: GgufDefaults { ffn_four_times: true, ..GgufDefaults::NONE },
    ..Defaults::NONE
};

const fn seventy(layers: u64) -> LlamaQuantize {
    LlamaQuantize { seventy_layers: Some(layers), ..LlamaQuantize::NONE }
}

const fn windows(period: u32) -> Defaults {
    Defaults { window_period: Some(period), ..Defaults::NONE }
}

/// Variants by their names in GGUF, and in `config.json` if those are the same.
#[rustfmt::skip]
pub(super) static VARIANTS: &[Variant] = &[
    Variant { gguf: "plamo3", defaults: windows(8), ..Variant::EMPTY },
    Variant { gguf: "gpt_bigcode", defaults: FOUR_TIMES, ..Variant::EMPTY },
    Variant { gguf: "gptj", defaults: FOUR_TIMES, ..Variant::EMPTY },
    Variant { gguf: "bloom", defaults: FOUR_TIMES, ..Variant::EMPTY },
    Variant { gguf: "deci", llama_quantize: seventy(80), ..Variant::EMPTY },
    Variant { gguf: "jais2", llama_quantize: seventy(68), ..Variant::EMPTY },
    Variant { gguf: "bailingmoe3", llama_quantize: LlamaQuantize { experts_by_name: true, ..LlamaQuantize::NONE }, ..Variant::EMPTY },
    Variant { gguf: "glm5-next", llama_quantize: GLM5_NEXT, ..Variant::EMPTY },
];

/// Families known only by the start of their names.
pub(super) const STARTS: &[(&str, Defaults)] = &[("gemma", gemma::DEFAULTS)];

const GLM5_NEXT: LlamaQuantize = LlamaQuantize {
    kept: &[
        "hc_",
        "indexer.attn_q_b",
        "indexer.attn_k",
        "indexer.proj",
        "indexer_compressor_gate",
        "indexer_compressor_ape",
        "ssm_f_a.weight",
        "ssm_f_b.weight",
        "ssm_g_a.weight",
        "ssm_g_b.weight",
        "ssm_beta.weight",
        "attn_kv_a_mqa.weight",
        "attn_k_b.weight",
        "attn_v_b.weight",
    ],
    eight_bits: &["attn_q_a", "attn_q_b", "nextn.eh_proj"],
    ..LlamaQuantize::NONE
};

const fn row(models: &'static [&'static str], path: MlxPath, choice: MlxChoice) -> MlxModules {
    MlxModules { models, path, choice }
}

#[rustfmt::skip]
pub(super) static MLX_MODULES: &[MlxModules] = &[
    row(&["bailing_moe_v3", "dots1", "exaone_moe", "glm4_moe_lite", "glm_moe_dsa", "joyai_llm_flash", "kimi_k25", "kimi_vl",
          "mimo_v2_flash", "solar_open"],                        EndsWith("mlp.gate"),                    Bare),
    row(&["deepseek_v41", "deepseek_v41_text"],                  EndsWith(".gate"),                       Bare),
    row(&["nemotron_h"],                                         EndsWith("mixer.gate"),                  Bare),
    row(&["Klear", "kimi_k3", "kimi_linear", "mellum"], EndsWith("mlp.gate"),             EightBits),
    row(&["kimi_k3"],                                            EndsWith("res_proj"),                    Kept),
    row(&["afmoe"],                                              Contains("router.gate"),                 EightBits),
    row(&["bailing_hybrid", "bailing_moe", "bailing_moe_linear"], EndsWith("mlp.gate.gate_proj"),         EightBits),
    row(&["bailing_hybrid", "bailing_moe_v3"],                   EndsWith("attention.embed_q"),           Kept),
    row(&["bailing_hybrid", "bailing_moe_v3"],                   EndsWith("attention.unembed_out"),       Kept),
    row(&["bailing_moe_v3"],                                     Is("model.word_embeddings"),             Kept),
    row(&["bailing_moe_v3"],                                     Is("lm_head"),                           Kept),
    row(&["bailing_moe_v3"],                                     EndsWith("attention.q_a_proj"),          Kept),
    row(&["bailing_moe_v3"],                                     EndsWith("attention.q_b_proj"),          Kept),
    row(&["bailing_moe_v3"],                                     EndsWith("attention.kv_a_proj_with_mqa"), Kept),
    row(&["bailing_moe_v3"],                                     EndsWith("attention.b_proj"),            Kept),
    row(&["gemma4_unified"],                                     EndsWith("router.proj"),                 EightBits),
    row(&["laguna"],                                             EndsWith("mlp.gate.proj"),               EightBits),
    row(&["longcat_flash", "longcat_flash_ngram"],               EndsWith("classifier"),                  EightBits),
    row(&["minimax", "minimax_m2", "minimax_m3_vl"],             EndsWith("block_sparse_moe.gate"),       EightBits),
    // Upstream gives no group size here; MLX then uses 64.
    row(&["rwkv7"],                                              Contains("lora.2"),                      EightBits),
    row(&["rwkv7"],                                              Contains("embeddings"),                  EightBits),
    row(&["spark2_5"],                                           EndsWith("self_attn.g_proj"),            Kept),
    row(&["step3p5"],                                            Contains("mlp.gate.gate"),               EightBits),
];
