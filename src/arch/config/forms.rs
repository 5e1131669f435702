//! Forms: what each family's config looks like in `config.json`, by the names of transformers.

use super::to_gguf::Constant;
use super::to_hf::{
    Line, biased, deepseek_yarn, embedding_biases, falcon_flags, gated_by_sigmoid, has_experts,
    has_shared_experts, has_windows, is_embedding, is_roberta, latent_widths, layer_types, layers,
    longrope, narrow_window, plain_width, rope, rotary_part, scalar, segments, whisper_numbers,
};

use Constant::{Count, Flag, Real, Word};
use Line::{By, Field, Fixed};

/// What a value of `general.architecture` becomes.
#[derive(Debug)]
pub(super) struct Form {
    /// `general.architecture`.
    pub(super) gguf: &'static str,
    /// `model_type`.
    pub(super) model_type: &'static str,
    /// `architectures`.
    pub(super) class: &'static str,
    /// Where an architecture has several forms, the first that this holds for is taken.
    pub(super) when: fn(&super::to_gguf::Known<'_>) -> bool,
    /// What it has, a later line winning over one before it.
    pub(super) lines: &'static [&'static [Line]],
}

const ALWAYS: fn(&super::to_gguf::Known<'_>) -> bool = |_| true;

#[rustfmt::skip]
const SIZES: &[Line] = &[
    Field("dim", "hidden_size"), By(layers), Field("n_heads", "num_attention_heads"),
    Field("ffn_dim", "intermediate_size"), Field("max_seq_len", "max_position_embeddings"),
    Field("vocab_size", "vocab_size"), Field("tie_embeddings", "tie_word_embeddings"),
];
const GROUPED: &[Line] = &[Field("n_kv_heads", "num_key_value_heads"), By(rope)];
const RMS: &[Line] = &[Field("norm_eps", "rms_norm_eps")];
const HEADS: &[Line] = &[Field("head_dim", "head_dim")];
const SILU: &[Line] = &[Fixed("hidden_act", Word("silu"))];

/// What most families have.
#[rustfmt::skip]
const EXPERTS: &[Line] = &[
    Field("n_experts", "num_experts"), Field("n_experts_used", "num_experts_per_tok"),
    Field("expert_ffn_dim", "moe_intermediate_size"), Fixed("decoder_sparse_step", Count(1)),
];

#[rustfmt::skip]
const GRANITE: &[Line] = &[
    Field("attention_scale", "attention_multiplier"), Field("embedding_scale", "embedding_multiplier"),
    Field("residual_scale", "residual_multiplier"), Field("logit_scale", "logits_scaling"), By(biased),
];

const GEMMA: &[Line] = &[Fixed("hidden_activation", Word("gelu_pytorch_tanh"))];

/// Every form.
#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form { gguf: "llama", model_type: "mixtral", class: "MixtralForCausalLM", when: has_experts,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[Field("n_experts", "num_local_experts"), Field("n_experts_used", "num_experts_per_tok")]] },
    Form { gguf: "llama", model_type: "llama", class: "LlamaForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[By(biased)]] },
    Form { gguf: "smollm3", model_type: "smollm3", class: "SmolLM3ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, &[By(biased), Fixed("no_rope_layer_interval", Count(4))]] },
    Form { gguf: "arcee", model_type: "arcee", class: "ArceeForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, &[Fixed("hidden_act", Word("relu2")), By(biased)]] },
    Form { gguf: "olmo", model_type: "olmo", class: "OlmoForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, SILU] },
    Form { gguf: "granite", model_type: "granite", class: "GraniteForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, GRANITE] },
    Form { gguf: "granitemoe", model_type: "granitemoe", class: "GraniteMoeForCausalLM", when: |known| !has_shared_experts(known),
        lines: &[SIZES, GROUPED, RMS, SILU, GRANITE, &[Field("n_experts", "num_local_experts"), Field("n_experts_used", "num_experts_per_tok")]] },
    Form { gguf: "granitemoe", model_type: "granitemoeshared", class: "GraniteMoeSharedForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, GRANITE, &[Field("n_experts", "num_local_experts"), Field("n_experts_used", "num_experts_per_tok"),
            Field("shared_expert_ffn_dim", "shared_intermediate_size")]] },
    Form { gguf: "qwen2", model_type: "qwen2", class: "Qwen2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU] },
    Form { gguf: "qwen2moe", model_type: "qwen2_moe", class: "Qwen2MoeForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, EXPERTS, &[Field("shared_expert_ffn_dim", "shared_expert_intermediate_size"), Fixed("norm_topk_prob", Flag(false))]] },
    Form { gguf: "qwen3", model_type: "qwen3", class: "Qwen3ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[By(biased)]] },
    Form { gguf: "qwen3moe", model_type: "qwen3_moe", class: "Qwen3MoeForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, EXPERTS, &[Fixed("norm_topk_prob", Flag(true)), By(biased)]] },
    Form { gguf: "gemma", model_type: "gemma", class: "GemmaForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, GEMMA] },
    Form { gguf: "gemma2", model_type: "gemma2", class: "Gemma2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("attn_logit_softcap", "attn_logit_softcapping"),
            Field("final_logit_softcap", "final_logit_softcapping"), By(scalar)]] },
    Form { gguf: "gemma3", model_type: "gemma3_text", class: "Gemma3ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("rope_local_theta", "rope_local_base_freq"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), By(scalar)]] },
    Form { gguf: "gemma-embedding", model_type: "gemma3_text", class: "Gemma3TextModel", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("rope_local_theta", "rope_local_base_freq"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), By(scalar), Fixed("use_bidirectional_attention", Flag(true))]] },
    Form { gguf: "phi3", model_type: "phi3", class: "Phi3ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, &[Field("sliding_window", "sliding_window"), By(rotary_part), By(longrope)]] },
    Form { gguf: "gpt-oss", model_type: "gpt_oss", class: "GptOssForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[Field("sliding_window", "sliding_window"), Field("n_experts", "num_local_experts"),
            Field("n_experts_used", "num_experts_per_tok"), Field("expert_ffn_dim", "intermediate_size"), By(layer_types), Fixed("attention_bias", Flag(true))]] },
    Form { gguf: "deepseek2", model_type: "deepseek_v3", class: "DeepseekV3ForCausalLM", when: gated_by_sigmoid,
        lines: &[SIZES, GROUPED, RMS, SILU, &[By(latent_widths), By(deepseek_yarn), Fixed("scoring_func", Word("sigmoid")), Fixed("topk_method", Word("noaux_tc"))]] },
    Form { gguf: "deepseek2", model_type: "deepseek_v2", class: "DeepseekV2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, &[By(latent_widths), By(deepseek_yarn), Fixed("scoring_func", Word("softmax"))]] },
    Form { gguf: "glm4", model_type: "glm4", class: "Glm4ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[By(rotary_part), By(biased)]] },
    Form { gguf: "glm4moe", model_type: "glm4_moe", class: "Glm4MoeForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, HEADS, SILU, &[By(rotary_part), By(biased), Field("n_experts", "n_routed_experts"), Field("n_experts_used", "num_experts_per_tok"),
            Field("expert_ffn_dim", "moe_intermediate_size"), Field("n_shared_experts", "n_shared_experts"), Field("n_leading_dense_layers", "first_k_dense_replace"),
            Field("n_expert_groups", "n_group"), Field("n_expert_groups_used", "topk_group"), Field("expert_weights_scale", "routed_scaling_factor"),
            Field("expert_weights_norm", "norm_topk_prob"), Field("n_next_token_layers", "num_nextn_predict_layers")]] },
    Form { gguf: "olmo2", model_type: "olmo3", class: "Olmo3ForCausalLM", when: has_windows,
        lines: &[SIZES, GROUPED, RMS, SILU, &[Field("sliding_window", "sliding_window"), By(layer_types)]] },
    Form { gguf: "olmo2", model_type: "olmo2", class: "Olmo2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU] },
    Form { gguf: "olmoe", model_type: "olmoe", class: "OlmoeForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, RMS, SILU, &[Field("n_experts", "num_experts"), Field("n_experts_used", "num_experts_per_tok"), Fixed("norm_topk_prob", Flag(false))]] },
    Form { gguf: "command-r", model_type: "cohere", class: "CohereForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, SILU, &[Field("norm_eps", "layer_norm_eps"), Field("logit_scale", "logit_scale"), By(embedding_biases)]] },
    Form { gguf: "cohere2", model_type: "cohere2", class: "Cohere2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, SILU, HEADS, &[Field("norm_eps", "layer_norm_eps"), Field("logit_scale", "logit_scale"), Field("sliding_window", "sliding_window"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), Fixed("rotary_pct", Real(1.0))]] },
    Form { gguf: "starcoder2", model_type: "starcoder2", class: "Starcoder2ForCausalLM", when: ALWAYS,
        lines: &[SIZES, GROUPED, &[Field("norm_eps", "norm_epsilon"), Fixed("hidden_act", Word("gelu_pytorch_tanh")), Fixed("use_bias", Flag(true)), By(narrow_window)]] },
    Form { gguf: "falcon", model_type: "falcon", class: "FalconForCausalLM", when: ALWAYS,
        lines: &[SIZES, &[Field("norm_eps", "layer_norm_epsilon"), Field("ffn_dim", "ffn_hidden_size"), By(falcon_flags), By(rope)]] },
    Form { gguf: "gpt2", model_type: "gpt2", class: "GPT2LMHeadModel", when: ALWAYS,
        lines: &[&[Field("dim", "n_embd"), Field("n_layers", "n_layer"), Field("n_heads", "n_head"), Field("max_seq_len", "n_ctx"), Field("max_seq_len", "n_positions"),
            By(plain_width), Field("vocab_size", "vocab_size"), Field("norm_eps", "layer_norm_epsilon"), Fixed("activation_function", Word("gelu_new")),
            Field("tie_embeddings", "tie_word_embeddings")]] },
    Form { gguf: "bert", model_type: "bert", class: "BertModel", when: |known| !is_roberta(known) && is_embedding(known),
        lines: &[SIZES, &[Field("norm_eps", "layer_norm_eps"), Fixed("hidden_act", Word("gelu")), Fixed("tie_word_embeddings", Flag(true)), Fixed("position_embedding_type", Word("absolute")), By(segments)]] },
    Form { gguf: "whisper", model_type: "whisper", class: "WhisperForConditionalGeneration", when: ALWAYS,
        lines: &[&[By(whisper_numbers), Field("vocab_size", "vocab_size"), Fixed("activation_function", Word("gelu")), Fixed("is_encoder_decoder", Flag(true)),
            Field("tie_embeddings", "tie_word_embeddings")]] },
];
