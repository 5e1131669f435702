//! Forms: what each family's config looks like in `config.json`, by the names of transformers.

use super::bert::{
    has_classifier, is_roberta, is_xlm_roberta, no_pooler, plus_pad, segments, two_layers,
};
use super::gguf::Constant;
use super::hf::{
    Line, altup, biased, clipped, deepseek_yarn, embedding_biases, falcon_flags, gated_by_sigmoid,
    gemma4_attention, gemma4_rope, gemma4_widths, has_experts, has_shared_experts, has_temperature,
    has_windows, latent_widths, layer_types, layers, linear_layers, longrope, minicpm_scales,
    mistral_yarn, narrow_window, no_dense_layers, no_window, own_embeddings, plain_bias,
    plain_width, rope, rope_parameters, rope_sections, rotary_part, scalar, sections, uneven_heads,
    untruncated, whisper_numbers, widths,
};

use Constant::{Count, Flag, Real, Word};
use Line::{By, Field, Fixed, Needed, Stated};

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
    pub(super) when: fn(&super::gguf::Known<'_>) -> bool,
    /// What it has, a later line winning over one before it.
    pub(super) lines: &'static [&'static [Line]],
}

const ALWAYS: fn(&super::gguf::Known<'_>) -> bool = |_| true;

#[rustfmt::skip]
const BODY: &[Line] = &[
    Field("dim", "hidden_size"), By(layers), Field("n_heads", "num_attention_heads"),
    Field("max_seq_len", "max_position_embeddings"),
    Field("vocab_size", "vocab_size"), Field("tie_embeddings", "tie_word_embeddings"),
];
const DENSE: &[Line] = &[Field("ffn_dim", "intermediate_size")];
const KEYS: &[Line] = &[Field("n_kv_heads", "num_key_value_heads")];
const GROUPED: &[Line] = &[Field("n_kv_heads", "num_key_value_heads"), By(rope)];
const RMS: &[Line] = &[Field("norm_eps", "rms_norm_eps")];
const HEADS: &[Line] = &[Field("head_dim", "head_dim")];
/// Of classes that take a width of heads which does not follow, and of which no model has one.
const UNEVEN: &[Line] = &[By(uneven_heads)];
const SILU: &[Line] = &[Fixed("hidden_act", Word("silu"))];

/// What most families have.
#[rustfmt::skip]
const EXPERTS: &[Line] = &[
    Field("n_experts", "num_experts"), Needed("n_experts_used", "num_experts_per_tok"),
    Needed("expert_ffn_dim", "moe_intermediate_size"), Fixed("decoder_sparse_step", Count(1)),
];
const SHARED: &[Line] = &[Field("shared_expert_ffn_dim", "shared_expert_intermediate_size")];

#[rustfmt::skip]
const GRANITE: &[Line] = &[
    Field("attention_scale", "attention_multiplier"), Field("embedding_scale", "embedding_multiplier"),
    Field("residual_scale", "residual_multiplier"), Field("logit_scale", "logits_scaling"), By(biased),
];

#[rustfmt::skip]
const LINEAR: &[Line] = &[
    Needed("ssm_conv_kernel", "linear_conv_kernel_dim"), Needed("ssm_state_size", "linear_key_head_dim"),
    Needed("ssm_group_count", "linear_num_key_heads"), Needed("ssm_time_step_rank", "linear_num_value_heads"), By(linear_layers),
];

const DEEPSEEK: &[Line] = &[
    By(latent_widths),
    By(deepseek_yarn),
    Field("n_next_token_layers", "num_nextn_predict_layers"),
];

/// Gemma 3n and 4.
#[rustfmt::skip]
const PER_LAYER: &[Line] = &[
    By(own_embeddings), Field("sliding_window", "sliding_window"), By(layer_types),
    Field("final_logit_softcap", "final_logit_softcapping"),
];

const GEMMA: &[Line] = &[Fixed("hidden_activation", Word("gelu_pytorch_tanh"))];

#[rustfmt::skip]
const BERT: &[Line] = &[
    Field("norm_eps", "layer_norm_eps"), Fixed("hidden_act", Word("gelu")), Fixed("tie_word_embeddings", Flag(true)),
    Fixed("position_embedding_type", Word("absolute")), By(segments),
];

/// Every form.
#[rustfmt::skip]
pub(super) static FORMS: &[Form] = &[
    Form { gguf: "llama", model_type: "mixtral", class: "MixtralForCausalLM", when: has_experts,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[Field("n_experts", "num_local_experts"), Needed("n_experts_used", "num_experts_per_tok")]] },
    Form { gguf: "llama", model_type: "llama", class: "LlamaForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(biased)]] },
    // Transformers' class looks both ways where it is told so; the name is that of the model's own code.
    Form { gguf: "llama-embed", model_type: "llama", class: "LlamaBidirectionalModel", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(biased), Fixed("is_causal", Flag(false))]] },
    // Ministral 3 scales by the logarithm of the position, other models of Mistral do not.
    Form { gguf: "mistral3", model_type: "ministral3", class: "Ministral3ForCausalLM", when: has_temperature,
        lines: &[BODY, DENSE, KEYS, RMS, HEADS, SILU, &[By(rope_parameters), By(mistral_yarn)]] },
    Form { gguf: "mistral3", model_type: "mistral", class: "MistralForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(mistral_yarn), By(no_window)]] },
    Form { gguf: "minicpm", model_type: "minicpm", class: "MiniCPMForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, &[By(longrope), By(minicpm_scales)]] },
    Form { gguf: "nanbeige", model_type: "nanbeige", class: "NanbeigeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(biased), Stated("num_loops", "num_loops"), Stated("skip_loop_final_norm", "skip_loop_final_norm")]] },
    Form { gguf: "xverse", model_type: "xverse", class: "XverseForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU] },
    Form { gguf: "baichuan", model_type: "baichuan", class: "BaichuanForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, RMS, SILU, &[Field("max_seq_len", "model_max_length")]] },
    Form { gguf: "internlm2", model_type: "internlm2", class: "InternLM2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, &[By(plain_bias)]] },
    Form { gguf: "smollm3", model_type: "smollm3", class: "SmolLM3ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, &[By(biased), Fixed("no_rope_layer_interval", Count(4))]] },
    Form { gguf: "arcee", model_type: "arcee", class: "ArceeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, &[Fixed("hidden_act", Word("relu2")), By(biased)]] },
    Form { gguf: "olmo", model_type: "olmo", class: "OlmoForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, SILU, &[By(clipped)]] },
    Form { gguf: "deepseek", model_type: "deepseek", class: "DeepseekForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, &[Needed("n_experts", "n_routed_experts"), Needed("n_experts_used", "num_experts_per_tok"),
            Needed("expert_ffn_dim", "moe_intermediate_size"), Field("n_shared_experts", "n_shared_experts"), Needed("n_leading_dense_layers", "first_k_dense_replace"),
            Fixed("moe_layer_freq", Count(1)), Fixed("norm_topk_prob", Flag(false)), Fixed("scoring_func", Word("softmax")), Fixed("attention_bias", Flag(false))]] },
    Form { gguf: "granite", model_type: "granite", class: "GraniteForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, GRANITE] },
    Form { gguf: "granitemoe", model_type: "granitemoe", class: "GraniteMoeForCausalLM", when: |known| !has_shared_experts(known),
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, GRANITE, &[Field("n_experts", "num_local_experts"), Needed("n_experts_used", "num_experts_per_tok")]] },
    Form { gguf: "granitemoe", model_type: "granitemoeshared", class: "GraniteMoeSharedForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, GRANITE, &[Field("n_experts", "num_local_experts"), Needed("n_experts_used", "num_experts_per_tok"),
            Field("shared_expert_ffn_dim", "shared_intermediate_size")]] },
    Form { gguf: "qwen2", model_type: "qwen2", class: "Qwen2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU] },
    Form { gguf: "qwen2vl", model_type: "qwen2_vl_text", class: "Qwen2VLTextModel", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, &[By(sections)]] },
    Form { gguf: "qwen2moe", model_type: "qwen2_moe", class: "Qwen2MoeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, EXPERTS, SHARED, &[Fixed("norm_topk_prob", Flag(false))]] },
    Form { gguf: "qwen3", model_type: "qwen3", class: "Qwen3ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(biased)]] },
    Form { gguf: "qwen3moe", model_type: "qwen3_moe", class: "Qwen3MoeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, EXPERTS, &[Fixed("norm_topk_prob", Flag(true)), By(biased)]] },
    Form { gguf: "qwen3vl", model_type: "qwen3_vl_text", class: "Qwen3VLTextModel", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(sections), By(biased)]] },
    Form { gguf: "qwen3next", model_type: "qwen3_next", class: "Qwen3NextForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, EXPERTS, SHARED, LINEAR, &[By(rotary_part), By(biased), Fixed("norm_topk_prob", Flag(true)), By(no_dense_layers)]] },
    Form { gguf: "qwen35", model_type: "qwen3_5_text", class: "Qwen3_5ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, KEYS, RMS, HEADS, SILU, LINEAR, &[By(rope_sections), By(biased), Fixed("attn_output_gate", Flag(true))]] },
    Form { gguf: "qwen35moe", model_type: "qwen3_5_moe_text", class: "Qwen3_5MoeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, KEYS, RMS, HEADS, SILU, EXPERTS, SHARED, LINEAR, &[By(rope_sections), By(biased), Fixed("attn_output_gate", Flag(true))]] },
    Form { gguf: "gemma", model_type: "gemma", class: "GemmaForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, GEMMA] },
    Form { gguf: "gemma2", model_type: "gemma2", class: "Gemma2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("attn_logit_softcap", "attn_logit_softcapping"),
            Field("final_logit_softcap", "final_logit_softcapping"), By(scalar)]] },
    Form { gguf: "gemma3", model_type: "gemma3_text", class: "Gemma3ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("rope_local_theta", "rope_local_base_freq"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), By(scalar)]] },
    Form { gguf: "gemma-embedding", model_type: "gemma3_text", class: "Gemma3TextModel", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, GEMMA, &[Field("sliding_window", "sliding_window"), Field("rope_local_theta", "rope_local_base_freq"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), By(scalar), Fixed("use_bidirectional_attention", Flag(true))]] },
    Form { gguf: "gemma3n", model_type: "gemma3n_text", class: "Gemma3nForCausalLM", when: ALWAYS,
        lines: &[BODY, GROUPED, RMS, HEADS, GEMMA, PER_LAYER, &[By(widths), By(altup), Stated("altup.active_idx", "altup_active_idx"),
            Stated("altup.num_inputs", "altup_num_inputs"), Field("rope_local_theta", "rope_local_base_freq"),
            // In no GGUF file, and the same in all models of the family.
            Fixed("altup_coef_clip", Real(120.0))]] },
    Form { gguf: "gemma4", model_type: "gemma4_text", class: "Gemma4ForCausalLM", when: ALWAYS,
        lines: &[BODY, RMS, GEMMA, PER_LAYER, &[By(gemma4_widths), By(gemma4_attention), By(gemma4_rope)]] },
    Form { gguf: "phi3", model_type: "phi3", class: "Phi3ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, &[Field("sliding_window", "sliding_window"), By(rotary_part), By(longrope)]] },
    Form { gguf: "gpt-oss", model_type: "gpt_oss", class: "GptOssForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[Field("sliding_window", "sliding_window"), Field("n_experts", "num_local_experts"),
            Needed("n_experts_used", "num_experts_per_tok"), Field("expert_ffn_dim", "intermediate_size"), By(layer_types), By(untruncated), Fixed("attention_bias", Flag(true))]] },
    Form { gguf: "deepseek2", model_type: "deepseek_v3", class: "DeepseekV3ForCausalLM", when: gated_by_sigmoid,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, DEEPSEEK, &[Fixed("scoring_func", Word("sigmoid")), Fixed("topk_method", Word("noaux_tc"))]] },
    Form { gguf: "deepseek2", model_type: "deepseek_v2", class: "DeepseekV2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, DEEPSEEK, &[Fixed("scoring_func", Word("softmax"))]] },
    Form { gguf: "deepseek32", model_type: "deepseek_v32", class: "DeepseekV32ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, SILU, DEEPSEEK, &[Fixed("scoring_func", Word("sigmoid")), Fixed("topk_method", Word("noaux_tc")),
            Stated("attention.indexer.head_count", "index_n_heads"), Stated("attention.indexer.key_length", "index_head_dim"), Stated("attention.indexer.top_k", "index_topk")]] },
    Form { gguf: "glm4", model_type: "glm4", class: "Glm4ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(rotary_part), By(biased)]] },
    Form { gguf: "glm4moe", model_type: "glm4_moe", class: "Glm4MoeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, RMS, HEADS, SILU, &[By(rotary_part), By(biased), Field("n_experts", "n_routed_experts"), Needed("n_experts_used", "num_experts_per_tok"),
            Field("expert_ffn_dim", "moe_intermediate_size"), Field("n_shared_experts", "n_shared_experts"), Field("n_leading_dense_layers", "first_k_dense_replace"),
            Field("n_expert_groups", "n_group"), Field("n_expert_groups_used", "topk_group"), Field("expert_weights_scale", "routed_scaling_factor"),
            Field("expert_weights_norm", "norm_topk_prob"), Field("n_next_token_layers", "num_nextn_predict_layers")]] },
    Form { gguf: "olmo2", model_type: "olmo3", class: "Olmo3ForCausalLM", when: has_windows,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, &[Field("sliding_window", "sliding_window"), By(layer_types)]] },
    Form { gguf: "olmo2", model_type: "olmo2", class: "Olmo2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU] },
    Form { gguf: "olmoe", model_type: "olmoe", class: "OlmoeForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, RMS, SILU, &[Field("n_experts", "num_experts"), Needed("n_experts_used", "num_experts_per_tok"), Fixed("norm_topk_prob", Flag(false))]] },
    Form { gguf: "command-r", model_type: "cohere", class: "CohereForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, SILU, &[Field("norm_eps", "layer_norm_eps"), Field("logit_scale", "logit_scale"), By(embedding_biases)]] },
    Form { gguf: "cohere2", model_type: "cohere2", class: "Cohere2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, GROUPED, SILU, HEADS, &[Field("norm_eps", "layer_norm_eps"), Field("logit_scale", "logit_scale"), Field("sliding_window", "sliding_window"),
            Field("sliding_window_pattern", "sliding_window_pattern"), By(layer_types), Fixed("rotary_pct", Real(1.0))]] },
    Form { gguf: "starcoder2", model_type: "starcoder2", class: "Starcoder2ForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, UNEVEN, GROUPED, &[Field("norm_eps", "norm_epsilon"), Fixed("hidden_act", Word("gelu_pytorch_tanh")), Fixed("use_bias", Flag(true)), By(narrow_window)]] },
    Form { gguf: "falcon", model_type: "falcon", class: "FalconForCausalLM", when: ALWAYS,
        lines: &[BODY, DENSE, &[Field("norm_eps", "layer_norm_epsilon"), Field("ffn_dim", "ffn_hidden_size"), By(falcon_flags), By(rope)]] },
    Form { gguf: "gpt2", model_type: "gpt2", class: "GPT2LMHeadModel", when: ALWAYS,
        lines: &[&[Field("dim", "n_embd"), Field("n_layers", "n_layer"), Field("n_heads", "n_head"), Field("max_seq_len", "n_ctx"), Field("max_seq_len", "n_positions"),
            By(plain_width), Field("vocab_size", "vocab_size"), Field("norm_eps", "layer_norm_epsilon"), Fixed("activation_function", Word("gelu_new")),
            Field("tie_embeddings", "tie_word_embeddings")]] },
    Form { gguf: "bert", model_type: "bert", class: "BertModel", when: |known| !is_roberta(known) && !is_xlm_roberta(known) && !has_classifier(known),
        lines: &[BODY, DENSE, BERT] },
    Form { gguf: "bert", model_type: "roberta", class: "RobertaModel", when: |known| is_roberta(known) && !has_classifier(known),
        lines: &[BODY, DENSE, BERT, &[By(plus_pad)]] },
    Form { gguf: "bert", model_type: "roberta", class: "RobertaForSequenceClassification", when: is_roberta,
        lines: &[BODY, DENSE, BERT, &[By(plus_pad), By(two_layers)]] },
    Form { gguf: "bert", model_type: "xlm-roberta", class: "XLMRobertaModel", when: |known| is_xlm_roberta(known) && !has_classifier(known),
        lines: &[BODY, DENSE, BERT, &[By(plus_pad)]] },
    Form { gguf: "bert", model_type: "xlm-roberta", class: "XLMRobertaForSequenceClassification", when: is_xlm_roberta,
        lines: &[BODY, DENSE, BERT, &[By(plus_pad), By(two_layers)]] },
    Form { gguf: "bert", model_type: "bert", class: "BertForSequenceClassification", when: ALWAYS,
        lines: &[&[By(no_pooler)]] },
    Form { gguf: "whisper", model_type: "whisper", class: "WhisperForConditionalGeneration", when: ALWAYS,
        lines: &[&[By(whisper_numbers), Field("vocab_size", "vocab_size"), Fixed("activation_function", Word("gelu")), Fixed("is_encoder_decoder", Flag(true)),
            Field("tie_embeddings", "tie_word_embeddings")]] },
];

/// Values of `model_type` that mlx-lm has within another's config alone, and that other.
pub(super) const WITHIN: &[(&str, &str)] = &[
    ("qwen2_vl_text", "qwen2_vl"),
    ("qwen3_vl_text", "qwen3_vl"),
    ("qwen3_5_text", "qwen3_5"),
    ("qwen3_5_moe_text", "qwen3_5_moe"),
    ("gemma3n_text", "gemma3n"),
];
