//! Families: which numbers each writes where, in GGUF as llama.cpp's converter does.
//!
//! The rows are those of the converter's classes (`conversion/*.py`, `set_gguf_parameters`), a
//! family for each `general.architecture`. What several classes write stands in tables of its own.

use super::bert::{labels, minus_pad};
use super::gguf::{
    Constant, Rule, all_widths_of_heads, altup, block_count, clipped, deepstack, dense_layers,
    gating, gemma4_layers, indexer, latent, longrope, loops, minicpm_scales, olmo_windows, pooling,
    recurrent, rope_scaling, sections, shared_width, temperature, true_context, uneven_heads,
    widths_of_heads,
};

use Constant::{Count, Flag, Real, Word};
use Rule::{As, By, Fixed, Or, Rotated, Row, Settled};

/// What one value of `general.architecture` stands for.
#[derive(Debug)]
pub(super) struct Family {
    /// `general.architecture`.
    pub(super) gguf: &'static str,
    /// Values of `model_type` that become it.
    pub(super) hf: &'static [&'static str],
    /// The class in `architectures` that tells it from another family of the same `model_type`.
    pub(super) class: Option<&'static str>,
    /// What it has in GGUF, a later rule winning over one before it.
    pub(super) rules: &'static [&'static [Rule]],
}

/// What most classes have from the one that they build on, in two halves: some have no `head_dim`.
#[rustfmt::skip]
const BASE: &[Rule] = &[
    By(block_count), Row("max_seq_len"), Row("dim"), Row("ffn_dim"), Row("n_heads"),
    Row("n_kv_heads"), By(rope_scaling), By(sections), Row("rope_theta"), Row("rope_local_theta"),
    Row("rms_eps"), Row("layer_eps"), Row("n_experts"), Row("n_experts_used"),
    Row("n_expert_groups"), Row("n_expert_groups_used"), By(gating),
];
const HEADS: &[Rule] = &[By(widths_of_heads)];

/// What classes write that take nothing from another.
#[rustfmt::skip]
const GEMMA: &[Rule] = &[
    Row("max_seq_len"), Row("dim"), By(block_count), Row("ffn_dim"), Row("n_heads"),
    Settled("n_kv_heads"), Row("rms_eps"), By(all_widths_of_heads),
];

const LLAMA: &[Rule] = &[Settled("vocab_size"), Rotated(1.0)];

const MIXTURE: &[Rule] = &[Row("expert_ffn_dim"), Row("shared_expert_ffn_dim")];

#[rustfmt::skip]
const GRANITE: &[Rule] = &[
    Settled("vocab_size"), Rotated(1.0), Row("attention_scale"), Row("embedding_scale"),
    Row("residual_scale"), Row("logit_scale"), By(uneven_heads),
];

#[rustfmt::skip]
const GEMMA3: &[Rule] = &[
    Or("max_seq_len", Count(131_072)), Or("rms_eps", Real(1e-6)), By(all_widths_of_heads),
    Or("rope_theta", Real(1e6)), Row("final_logit_softcap"),
    Row("sliding_window"), Settled("n_kv_heads"),
];

#[rustfmt::skip]
const LINEAR: &[Rule] = &[
    Row("ssm_conv_kernel"), Row("ssm_state_size"), Row("ssm_group_count"),
    Row("ssm_time_step_rank"), Settled("ssm_inner_size"), By(recurrent),
    Or("full_interval", Count(4)), Rotated(0.25),
];

#[rustfmt::skip]
const DEEPSEEK2: &[Rule] = &[
    Or("rms_eps", Real(1e-6)), By(dense_layers), Settled("vocab_size"), Row("q_lora_rank"),
    By(latent), Settled("expert_ffn_dim"), Row("n_experts"), Or("n_shared_experts", Count(0)),
    Row("expert_weights_scale"), Row("rope_dimension_count"),
];

const BERT: &[Rule] = &[Fixed("attention.causal", Flag(false)), By(pooling), By(labels)];

/// Every family.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family { gguf: "llama", hf: &["llama", "mistral", "mixtral", "internlm3"], class: None,
        rules: &[BASE, HEADS, LLAMA] },
    Family { gguf: "llama-embed", hf: &["llama"], class: Some("LlamaBidirectionalModel"),
        rules: &[BASE, HEADS, LLAMA] },
    Family { gguf: "mistral3", hf: &["ministral3"], class: None,
        rules: &[BASE, HEADS, LLAMA, &[By(temperature)]] },
    Family { gguf: "smollm3", hf: &["smollm3"], class: None,
        rules: &[BASE, HEADS, LLAMA] },
    Family { gguf: "minicpm", hf: &["minicpm"], class: None,
        rules: &[BASE, HEADS, &[By(minicpm_scales)]] },
    Family { gguf: "nanbeige", hf: &["nanbeige"], class: None,
        rules: &[BASE, HEADS, LLAMA, &[By(loops)]] },
    Family { gguf: "xverse", hf: &["xverse"], class: None,
        rules: &[BASE, HEADS, &[Fixed("tensor_data_layout", Word("Meta AI original pth")), Rotated(1.0)]] },
    Family { gguf: "arcee", hf: &["arcee"], class: None,
        rules: &[BASE, HEADS, LLAMA, &[By(pooling)]] },
    Family { gguf: "baichuan", hf: &["baichuan"], class: None,
        rules: &[BASE, HEADS, &[Fixed("tensor_data_layout", Word("Meta AI original pth")), Rotated(1.0)]] },
    Family { gguf: "internlm2", hf: &["internlm2"], class: None,
        rules: &[BASE, HEADS] },
    Family { gguf: "olmo", hf: &["olmo"], class: None,
        rules: &[BASE, HEADS, &[Fixed("attention.layer_norm_epsilon", Real(1e-5)), By(clipped)]] },
    Family { gguf: "granite", hf: &["granite"], class: None,
        rules: &[BASE, GRANITE] },
    Family { gguf: "granitemoe", hf: &["granitemoe", "granitemoeshared"], class: None,
        rules: &[BASE, GRANITE, &[By(shared_width)]] },
    Family { gguf: "deepseek", hf: &["deepseek"], class: None,
        rules: &[BASE, HEADS, &[Rotated(1.0), Fixed("rope.scaling.type", Word("none")),
            Row("n_leading_dense_layers"), Settled("vocab_size"), Row("expert_ffn_dim"),
            Fixed("expert_weights_scale", Real(1.0)), Row("n_experts"), Row("n_shared_experts")]] },
    Family { gguf: "qwen2", hf: &["qwen2"], class: None,
        rules: &[BASE, HEADS, &[By(pooling)]] },
    Family { gguf: "qwen2vl", hf: &["qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"], class: None,
        rules: &[BASE, HEADS] },
    Family { gguf: "qwen2moe", hf: &["qwen2_moe"], class: None,
        rules: &[BASE, HEADS, MIXTURE] },
    Family { gguf: "qwen3", hf: &["qwen3"], class: None,
        rules: &[BASE, HEADS, &[By(pooling)]] },
    Family { gguf: "qwen3vl", hf: &["qwen3_vl", "qwen3_vl_text"], class: None,
        rules: &[BASE, HEADS, &[By(pooling), By(deepstack)]] },
    Family { gguf: "qwen3moe", hf: &["qwen3_moe"], class: None,
        rules: &[BASE, HEADS, MIXTURE] },
    Family { gguf: "qwen3next", hf: &["qwen3_next"], class: None,
        rules: &[BASE, HEADS, MIXTURE, LINEAR] },
    Family { gguf: "qwen35", hf: &["qwen3_5", "qwen3_5_text"], class: None,
        rules: &[BASE, HEADS, MIXTURE, LINEAR] },
    Family { gguf: "qwen35moe", hf: &["qwen3_5_moe", "qwen3_5_moe_text"], class: None,
        rules: &[BASE, HEADS, MIXTURE, LINEAR] },
    Family { gguf: "gemma", hf: &["gemma"], class: None,
        rules: &[GEMMA] },
    Family { gguf: "gemma2", hf: &["gemma2"], class: None,
        rules: &[GEMMA, &[Row("attn_logit_softcap"), Row("final_logit_softcap"), Row("sliding_window")]] },
    Family { gguf: "gemma3", hf: &["gemma3", "gemma3_text"], class: None,
        rules: &[BASE, GEMMA3] },
    Family { gguf: "gemma-embedding", hf: &["gemma3_text"], class: Some("Gemma3TextModel"),
        rules: &[BASE, GEMMA3, &[By(pooling)]] },
    Family { gguf: "gemma3n", hf: &["gemma3n", "gemma3n_text"], class: None,
        rules: &[BASE, GEMMA3, &[By(altup)]] },
    Family { gguf: "gemma4", hf: &["gemma4", "gemma4_text"], class: None,
        rules: &[BASE, GEMMA3, &[By(gemma4_layers)]] },
    Family { gguf: "phi3", hf: &["phi3"], class: None,
        rules: &[&[Row("max_seq_len"), By(longrope), Row("dim"), Row("ffn_dim"), By(block_count),
            Row("n_heads"), Settled("n_kv_heads"), Row("rms_eps"), Rotated(1.0), Row("rope_theta"),
            Or("sliding_window", Count(0)), By(uneven_heads)]] },
    Family { gguf: "gpt-oss", hf: &["gpt_oss"], class: None,
        rules: &[BASE, HEADS, &[Row("sliding_window"), Settled("expert_ffn_dim")]] },
    Family { gguf: "deepseek2", hf: &["deepseek_v2", "deepseek_v3", "kimi_k2"], class: None,
        rules: &[BASE, DEEPSEEK2] },
    Family { gguf: "deepseek32", hf: &["deepseek_v32"], class: None,
        rules: &[BASE, DEEPSEEK2, &[By(indexer)]] },
    Family { gguf: "glm4", hf: &["glm4"], class: None,
        rules: &[BASE, HEADS, &[Rotated(0.5)]] },
    Family { gguf: "glm4moe", hf: &["glm4_moe"], class: None,
        rules: &[BASE, HEADS, &[Rotated(0.5), Row("n_experts"), Row("expert_ffn_dim"),
            Row("n_shared_experts"), Row("n_leading_dense_layers"),
            Fixed("expert_gating_func", Count(2)), Row("expert_weights_scale"),
            Row("expert_weights_norm")]] },
    Family { gguf: "olmo2", hf: &["olmo2", "olmo3"], class: None,
        rules: &[BASE, HEADS, &[By(olmo_windows)]] },
    Family { gguf: "olmoe", hf: &["olmoe"], class: None,
        rules: &[BASE, HEADS, &[Fixed("attention.layer_norm_rms_epsilon", Real(1e-5))]] },
    Family { gguf: "command-r", hf: &["cohere"], class: None,
        rules: &[BASE, HEADS, &[By(true_context), Row("logit_scale"), Fixed("rope.scaling.type", Word("none"))]] },
    Family { gguf: "cohere2", hf: &["cohere2"], class: None,
        rules: &[BASE, HEADS, &[Row("logit_scale"), Row("sliding_window"), Settled("vocab_size"),
            Rotated(1.0), Fixed("rope.scaling.type", Word("none"))]] },
    Family { gguf: "starcoder2", hf: &["starcoder2"], class: None,
        rules: &[BASE, HEADS] },
    Family { gguf: "falcon", hf: &["falcon", "RefinedWeb", "RefinedWebModel"], class: None,
        rules: &[&[Fixed("context_length", Count(2048)), Fixed("tensor_data_layout", Word("jploski")),
            Row("dim"), Settled("ffn_dim"), By(block_count), Row("n_heads"), Settled("n_kv_heads"),
            Row("layer_eps")]] },
    Family { gguf: "gpt2", hf: &["gpt2"], class: None,
        rules: &[&[By(block_count), Row("max_seq_len"), Row("dim"), Settled("ffn_dim"),
            Row("n_heads"), Row("layer_eps")]] },
    Family { gguf: "bert", hf: &["bert"], class: None,
        rules: &[BASE, BERT] },
    Family { gguf: "bert", hf: &["roberta", "xlm-roberta", "camembert"], class: None,
        rules: &[BASE, &[By(minus_pad)], BERT] },
    // llama.cpp's converter has no Whisper; the keys are those of `docs/gguf.md` in ggml.
    Family { gguf: "whisper", hf: &["whisper"], class: None,
        rules: &[&[Row("enc_n_layers"), Settled("enc_dim"), Row("enc_n_heads"), Row("enc_ffn_dim"),
            Row("n_audio_ctx"), As("n_layers", "decoder.block_count"), As("dim", "decoder.embedding_length"),
            As("n_heads", "decoder.attention.head_count"), As("ffn_dim", "decoder.feed_forward_length"),
            As("max_seq_len", "decoder.context_length"), Row("n_mels"), Settled("vocab_size")]] },
];
