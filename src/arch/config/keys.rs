//! The table of config fields: a row for each, with its name here, in GGUF and in JSON.
//!
//! GGUF's keys follow `{architecture}.`. Most rows pair the two formats as llama.cpp's converter
//! does (`conversion/base.py`, `set_gguf_parameters`). A path that starts with `rope.` is looked up
//! in every object that holds numbers of rotary embeddings. The first name found is used.

use super::check;
use super::field::{ConfigField, Field, report};
use super::read::{ConfigReader, Key};
use super::values::{
    Gating, LayerKind, LayerPattern, NormKind, PerLayer, Reported, RopeScalingKind,
};
use crate::error::Result;

/// The row with this name.
pub(crate) fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().copied().flatten().find(|key| key.name == name)
}

/// For each part of the table: generates a struct, its reader and its report.
macro_rules! parts {
    ($(
        $(#[$doc:meta])*
        $vis:vis $part:ident, $group:literal, $prefix:literal {
            $($(#[$about:meta])* $field:ident: $type:ty = $check:ident, gguf $gguf:tt, json $json:tt;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq)]
            #[non_exhaustive]
            $vis struct $part {
                $($(#[$about])* $vis $field: Option<Field<$type>>,)*
            }

            impl $part {
                const KEYS: &[Key] = &[$(Key {
                    name: concat!($prefix, stringify!($field)), gguf: &$gguf, json: &$json,
                    value: |found| Ok(check::$check(found)?.map(|value: $type| value.reported())),
                },)*];

                pub(crate) fn read(reader: &ConfigReader<'_>) -> Result<Self> {
                    let mut keys = Self::KEYS.iter();
                    Ok(Self { $($field: match keys.next() {
                        Some(key) => reader.field_or_default(key, check::$check)?,
                        None => None,
                    },)* })
                }

                #[allow(dead_code, reason = "the table's first part is reported field by field")]
                pub(crate) fn report<'a>(&'a self, out: &mut Vec<ConfigField<'a>>) {
                    $(report(out, $group, concat!($prefix, stringify!($field)), self.$field.as_ref());)*
                }
            }
        )*

        /// All rows, one slice for each part.
        pub(crate) static KEYS: &[&[Key]] = &[$($part::KEYS),*];
    };
}

#[rustfmt::skip]
parts! {
    /// Fields that [`ModelConfig`](super::ModelConfig) holds directly, as read from the files.
    pub(crate) Core, "model", "" {
        dim: u32 = size,                gguf ["embedding_length", "decoder.embedding_length"],             json ["hidden_size", "n_embd", "d_model", "dim", "emb_dim", "model_dim", "n_embed"];
        n_layers: u32 = layers,         gguf ["block_count", "decoder.block_count"],                       json ["decoder_layers", "num_hidden_layers", "n_layers", "n_layer", "num_layers", "num_decoder_layers"];
        layer_groups: u32 = layers,     gguf [],                                                           json [];
        decoder_layers: u32 = layers,   gguf ["decoder_block_count"],                                      json ["num_decoder_layers"];
        n_heads: PerLayer = heads,      gguf ["attention.head_count", "decoder.attention.head_count"],     json ["decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads"];
        n_kv_heads: PerLayer = heads,   gguf ["attention.head_count_kv", "decoder.attention.head_count_kv"], json ["num_key_value_heads", "n_kv_heads", "num_kv_heads", "attn_config.kv_n_heads"];
        key_groups: Vec<u32> = groups,  gguf [],                                                           json [];
        multi_query: bool = flag,       gguf [],                                                           json ["multi_query"];
        groups_of_heads: bool = flag,   gguf [],                                                           json [];
        latent_head_dim: u32 = size,    gguf ["attention.key_length_mla"],                                 json [];
        head_dim: u32 = size,           gguf ["attention.key_length"],                                     json ["global_head_dim", "per_layer_config.*.head_dim", "head_dim", "d_kv", "d_head", "kv_channels"];
        narrow_head_dim: u32 = size,    gguf ["attention.key_length_swa"],                                 json ["head_dim"];
        ffn_dim: PerLayer = lengths,    gguf ["feed_forward_length", "decoder.feed_forward_length"],       json ["decoder_ffn_dim", "dense_intermediate_size", "intermediate_size", "n_inner", "hidden_dim", "ffn_hidden_size", "ffn_dim", "d_ff"];
        ffn_adjusted: bool = flag,      gguf [],                                                           json [];
        ffn_multiplier: f32 = positive, gguf [],                                                           json [];
        ffn_multiple: u32 = size,       gguf [],                                                           json [];
        narrow_ffn_dim: u32 = widest,   gguf [],                                                           json ["intermediate_size"];
        vocab_size: u32 = tokens,       gguf ["vocab_size"],                                               json ["vocab_size", "n_vocab", "n_words", "num_vocab", "padded_vocab_size"];
        max_seq_len: u32 = room,        gguf ["context_length", "decoder.context_length"],                 json ["max_target_positions", "max_position_embeddings", "n_ctx", "n_positions", "max_sequence_length", "max_seq_len", "model_max_length", "seq_length"];
        rms_eps: f32 = positive,        gguf ["attention.layer_norm_rms_epsilon"],                         json ["rms_norm_eps", "norm_eps", "layernorm_epsilon"];
        layer_eps: f32 = positive,      gguf ["attention.layer_norm_epsilon"],                             json ["layer_norm_eps", "layer_norm_epsilon"];
        rope_theta: f32 = base,         gguf ["rope.freq_base"],                                           json ["rope.rope_theta", "rope_theta", "rotary_emb_base", "global_rope_theta", "attn_config.rope_theta"];
        rope_ratio: f32 = positive,     gguf [],                                                           json [];
        tie_embeddings: bool = flag,    gguf [],                                                           json ["tie_word_embeddings", "tied_embeddings"];
        n_experts: u32 = largest,       gguf ["expert_count"],                                             json ["num_local_experts", "num_experts", "n_routed_experts", "moe.num_experts", "moe_num_experts"];
        choice_of_experts: String = word, gguf [],                                                         json ["topk_method"];
        layer_types: Vec<LayerKind> = kinds, gguf [],                                                      json ["layer_types", "layers_block_type", "hybrid_override_pattern"];
        attention_layers: Vec<u32> = counts, gguf [],                                                      json [];
        attention_places: Vec<u32> = counts, gguf [],                                                      json ["linear_attn_config.full_attn_layers"];
        attention_period: u32 = size,   gguf [],                                                           json ["attn_layer_period"];
        attention_offset: u32 = count,  gguf [],                                                           json ["attn_layer_offset"];
        state_expansion: u32 = size,    gguf [],                                                           json ["mamba_expand", "expand"];
        state_heads: u32 = room,        gguf [],                                                           json ["num_heads"];
        has_rope: bool = flag,          gguf ["rope.scaling.finetuned"],                                   json [];
        positions: String = word,       gguf [],                                                           json ["position_embedding_type"];
        layer_pattern: LayerPattern = pattern, gguf ["attention.sliding_window_pattern"],                  json ["sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"];
        full_interval: u32 = size,      gguf ["full_attention_interval"],                                  json ["full_attention_interval"];
        linear_layers: Vec<bool> = flags, gguf ["attention.recurrent_layers"],                            json [];
        stated_window: u32 = count,     gguf ["attention.sliding_window"],                                 json [];
        use_window: bool = flag,        gguf [],                                                           json ["use_sliding_window"];
        window_from: u32 = count,       gguf [],                                                           json ["max_window_layers"];
        activation: String = word,      gguf ["hidden_activation"],                                        json ["hidden_act", "hidden_activation", "activation_function", "feed_forward_proj"];
        // Facts about families, which no file states: families/README.md says what they mean.
        norms: NormKind = norm,         gguf [],                                                           json [];
        without_attention: LayerKind = kind, gguf [],                                                      json [];
        attention_free: bool = flag,    gguf [],                                                           json [];
        optional_rope: bool = flag,     gguf [],                                                           json [];
        full_first: bool = flag,        gguf [],                                                           json [];
        scaled_embedding: bool = flag,  gguf [],                                                           json [];
        scaled_by_dim_layers: u32 = count, gguf [],                                                        json [];
        ffn_four_times: bool = flag,    gguf [],                                                           json [];
        ffn_half: bool = flag,          gguf [],                                                           json [];
        usual_value_width: bool = flag, gguf [],                                                           json [];
        key_heads_in_windows: u32 = count, gguf [],                                                        json [];
        n_local_heads: u32 = count,     gguf [],                                                           json [];
        n_local_kv_heads: u32 = count,  gguf [],                                                           json [];
    }

    /// Rotary position embeddings.
    pub RopeConfig, "rope", "rope_" {
        /// Base for layers with a sliding window, if it differs from `rope_theta`.
        local_theta: f32 = positive,    gguf ["rope.freq_base_swa"],         json ["rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq", "local_rope_theta", "rope_local_theta"];
        /// The fraction of a head's elements that is rotated.
        partial_factor: f32 = fraction, gguf [],                             json ["rope.partial_rotary_factor", "partial_rotary_factor", "rotary_pct", "rope_pct"];
        /// Like `partial_factor`, for layers with a sliding window.
        local_partial_factor: f32 = fraction, gguf [],                       json ["rope_parameters.sliding_attention.partial_rotary_factor"];
        /// Number of elements of a head that are rotated.
        dimension_count: u32 = room,    gguf ["rope.dimension_count"],       json ["qk_rope_head_dim", "rotary_dim"];
        /// Like `dimension_count`, for layers with a sliding window.
        local_dimension_count: u32 = room, gguf ["rope.dimension_count_swa"], json [];
        /// Pairs of elements rotated by time, height and width (Qwen-VL).
        sections: Vec<u32> = counts,    gguf ["rope.dimension_sections"],    json ["rope.mrope_section"];
        /// Period of layers without rotary embeddings: the last layer of each period has none.
        skip_interval: u32 = room,      gguf [],                             json ["no_rope_layer_interval"];
        /// The layers that have rotary embeddings, if some have none.
        layers: Vec<bool> = flags,      gguf ["attention.rope_pattern"],     json ["no_rope_layers"];
    }

    /// Scaling of rotary embeddings to contexts longer than those of training.
    pub RopeScaling, "rope", "rope_scaling_" {
        /// The scaling method.
        kind: RopeScalingKind = scaling, gguf ["rope.scaling.type"],         json ["rope.rope_type", "rope.type"];
        /// The ratio of the extended context to the original one.
        factor: f32 = positive,          gguf ["rope.scaling.factor", "rope.scale_linear"], json ["rope.factor", "yarn.factor"];
        /// Context length of the original training.
        original_max_seq_len: u32 = room, gguf ["rope.scaling.original_context_length"], json ["rope.original_max_position_embeddings", "original_max_position_embeddings", "yarn.original_max_position_embeddings"];
        /// Factor for the magnitude of attention scores.
        attention_factor: f32 = positive, gguf ["rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"], json ["rope.attention_factor"];
        /// YaRN: dimensions with more rotations than this are not interpolated.
        beta_fast: f32 = positive,       gguf ["rope.scaling.yarn_beta_fast"], json ["rope.beta_fast", "yarn.beta"];
        /// YaRN: dimensions with fewer rotations than this are fully interpolated.
        beta_slow: f32 = positive,       gguf ["rope.scaling.yarn_beta_slow"], json ["rope.beta_slow", "yarn.alpha"];
        /// Stretches the base once and for all: `base * alpha^(width / (width - 2))` (Hunyuan).
        alpha: f32 = positive,           gguf ["rope.scaling.alpha"],        json ["rope.alpha"];
        /// YaRN: weight of extrapolation.
        ext_factor: f32 = real,          gguf ["rope.scaling.yarn_ext_factor"], json ["rope.extrapolation_factor"];
        /// YaRN: factor of the logarithm in the magnitude, in GGUF's form.
        log_multiplier: f32 = real,      gguf ["rope.scaling.yarn_log_multiplier"], json [];
        /// YaRN in DeepSeek: factor of the logarithm in the magnitude.
        mscale: f32 = real,              gguf [],                            json ["rope.mscale"];
        /// YaRN in DeepSeek: like `mscale`, for all dimensions.
        mscale_all_dim: f32 = real,      gguf [],                            json ["rope.mscale_all_dim"];
        /// YaRN: whether the bounds are rounded to whole dimensions. Objects for kinds of layers are not asked: transformers ignores it there.
        truncate: bool = flag,           gguf [],                            json ["rope_parameters.truncate", "rope_scaling.truncate"];
        /// Llama 3: wavelengths longer than the trained context divided by this are fully scaled.
        low_freq_factor: f32 = positive, gguf [],                            json ["rope.low_freq_factor"];
        /// Llama 3: wavelengths shorter than the trained context divided by this are not scaled.
        high_freq_factor: f32 = positive, gguf [],                           json ["rope.high_freq_factor"];
        /// LongRoPE: divisors of the frequencies within the original context.
        short_factors: Vec<f32> = positives, gguf [],                        json ["rope.short_factor"];
        /// LongRoPE: divisors of the frequencies beyond the original context.
        long_factors: Vec<f32> = positives, gguf [],                         json ["rope.long_factor"];
    }

    /// Attention: heads that differ by layer, windows, scales.
    pub AttentionConfig, "attention", "" {
        /// Length of the sliding window in positions, including the current one.
        sliding_window: u32 = room,       gguf ["attention.sliding_window"],  json ["sliding_window", "sliding_window_size", "local_attention", "attention_window_size", "window_size"];
        /// Positions before the current one that a layer with a window attends to (MiMo V2 Flash).
        window_before: u32 = room,        gguf [],                            json [];
        /// Length of a chunk in positions, for layers that attend within chunks (Llama 4).
        chunk_size: u32 = room,           gguf ["attention.chunk_size"],      json [];
        /// Period of layers that attend to all positions; the layers between them attend to a
        /// window.
        sliding_window_pattern: u32 = room, gguf [],                          json [];
        /// Query heads of each layer, if the layers differ.
        n_heads_per_layer: Vec<u32> = counts, gguf [],                        json [];
        /// Key and value heads of each layer, if the layers differ.
        n_kv_heads_per_layer: Vec<u32> = counts, gguf [],                     json [];
        /// Key and value heads of layers that attend to all positions, if their number differs.
        n_global_kv_heads: u32 = room,    gguf [],                            json ["num_global_key_value_heads", "per_layer_config.*.num_key_value_heads"];
        /// Width of a head in layers with a sliding window, if it differs from `head_dim`.
        local_head_dim: u32 = room,       gguf [],                            json [];
        /// Width of a value head; `head_dim` if the file does not state it.
        value_head_dim: u32 = room,       gguf ["attention.value_length_mla", "attention.value_length"], json ["v_head_dim"];
        /// Like `value_head_dim`, for layers with a sliding window.
        local_value_head_dim: u32 = room, gguf ["attention.value_length_swa"], json [];
        /// Number of last layers that reuse the keys and values of earlier layers.
        n_kv_shared_layers: u32 = count,  gguf ["attention.shared_kv_layers"], json ["num_kv_shared_layers"];
        /// Factor of the attention scores, if it is not `1 / sqrt(head_dim)`.
        attention_scale: f32 = positive,  gguf ["attention.scale", "attention.output_scale"],           json ["attention_multiplier", "attn_config.softmax_scale"];
        /// The number whose square root divides the attention scores, if it is not `head_dim`.
        query_pre_attn_scalar: f32 = positive, gguf [],                       json ["query_pre_attn_scalar"];
        /// Soft cap of the attention scores, applied with tanh.
        attn_logit_softcap: f32 = cap,    gguf ["attn_logit_softcapping"],    json ["attn_logit_softcapping"];
        /// Soft cap of the output logits, applied with tanh.
        final_logit_softcap: f32 = cap,   gguf ["final_logit_softcapping"],   json ["final_logit_softcapping"];
        /// Rank of the compressed queries (DeepSeek's multi-head latent attention).
        q_lora_rank: u32 = room,          gguf ["attention.q_lora_rank"],     json ["q_lora_rank"];
        /// Rank of the compressed keys and values.
        kv_lora_rank: u32 = room,         gguf ["attention.kv_lora_rank"],    json ["kv_lora_rank"];
        /// Elements of a latent head that are not rotated; `rope_dimension_count` elements are.
        qk_nope_head_dim: u32 = room,     gguf [],                            json ["qk_nope_head_dim"];
        /// Number of learned biases of attention scores, one for each range of distances (T5).
        relative_buckets: u32 = size,     gguf ["attention.relative_buckets_count"], json ["relative_attention_num_buckets"];
        /// The distance from which on all have the same bias; 128 if the file does not state it.
        relative_max_distance: u32 = size, gguf [],                           json ["relative_attention_max_distance"];
        /// Whether a position attends to earlier positions only.
        causal: bool = flag,              gguf ["attention.causal"],          json ["is_causal"];
        /// The pooling of an embedding model's outputs: 0 none, 1 mean, 2 first, 3 last, 4 rank.
        pooling_type: u32 = count,        gguf ["pooling_type"],              json [];
    }

    /// Experts.
    pub ExpertConfig, "experts", "" {
        /// Experts that each token is routed to.
        n_experts_used: u32 = largest,    gguf ["expert_used_count"],         json ["num_experts_per_tok", "top_k_experts", "num_experts_per_token", "moe.num_experts_per_tok", "moe_k", "moe_topk", "moe_top_k"];
        /// Number of groups of experts.
        n_expert_groups: u32 = room,      gguf ["expert_group_count"],        json ["n_group", "num_expert_group"];
        /// Groups that the experts of a token are chosen from.
        n_expert_groups_used: u32 = room, gguf ["expert_group_used_count"],   json ["topk_group"];
        /// Experts that every token is routed to.
        n_shared_experts: u32 = largest,  gguf ["expert_shared_count"],       json ["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"];
        /// Inner width of an expert.
        expert_ffn_dim: u32 = widest,     gguf ["expert_feed_forward_length"], json ["moe_intermediate_size"];
        /// Width that experts compute in, if it is not that of the residual stream.
        expert_latent_dim: u32 = room,    gguf ["moe_latent_size"],           json [];
        /// Inner width of the shared experts in total.
        shared_expert_ffn_dim: u32 = room, gguf ["expert_shared_feed_forward_length"], json ["shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"];
        /// Factor applied to the expert weights.
        expert_weights_scale: f32 = positive, gguf ["expert_weights_scale"],  json ["routed_scaling_factor", "route_scale"];
        /// Whether the weights of the chosen experts are normalized to a sum of one.
        expert_weights_norm: bool = flag, gguf ["expert_weights_norm"],       json ["norm_topk_prob", "moe_renormalize"];
        /// The function that makes expert weights of router scores.
        expert_gating: Gating = gating,   gguf ["expert_gating_func"],        json ["scoring_func", "score_function"];
        /// Number of first layers that have no experts.
        n_leading_dense_layers: u32 = leading, gguf ["leading_dense_block_count"], json ["mlp_layer_types", "first_k_dense_replace", "moe_layer_start_index", "num_dense_layers"];
        /// Period of layers with experts.
        expert_layer_step: u32 = room,    gguf ["interleave_moe_layer_step", "moe_every_n_layers"], json ["interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval", "moe_every_n_layers"];
        /// Numbers of the layers that have no experts.
        dense_layers: Vec<u32> = counts,  gguf [],                            json ["mlp_only_layers"];
        /// Extra layers at the end that predict further tokens.
        n_next_token_layers: u32 = count, gguf ["nextn_predict_layers"],      json ["num_nextn_predict_layers"];
    }

    /// Factors within the model, and widths other than that of the residual stream.
    pub ScaleConfig, "scales", "" {
        /// Width of the embeddings of tokens, which are projected to that of the residual stream.
        embedding_dim: u32 = room,        gguf [],                            json ["embedding_size"];
        /// Factor applied to the embedding.
        embedding_scale: f32 = positive,  gguf ["embedding_scale"],           json ["embedding_multiplier", "scale_emb"];
        /// Factor applied to what each layer adds to the residual stream.
        residual_scale: f32 = positive,   gguf ["residual_scale"],            json ["residual_multiplier"];
        /// Factor (Cohere) or divisor (Granite) of the output logits.
        logit_scale: f32 = positive,      gguf ["logit_scale"],               json ["logit_scale", "logits_scaling"];
        /// Width of the per-layer embeddings (Gemma 3n and 4).
        per_layer_dim: u32 = room,        gguf ["embedding_length_per_layer_input"], json ["hidden_size_per_layer_input"];
        /// Rows of the embedding beyond the vocabulary, which families state (Llama 3.2 with images).
        more_embeddings: u32 = room,      gguf [],                            json [];
        /// Number of token types, or segments (BERT).
        type_vocab_size: u32 = room,      gguf [],                            json ["type_vocab_size"];
    }

    /// State-space layers and linear attention.
    pub SsmConfig, "ssm", "ssm_" {
        /// Width of the convolution.
        conv_kernel: u32 = room,          gguf ["ssm.conv_kernel", "shortconv.l_cache"], json ["linear_conv_kernel_dim", "mamba_d_conv", "d_conv", "conv_kernel", "conv_L_cache", "linear_attn_config.short_conv_kernel_size", "short_conv_kernel_size"];
        /// Inner width.
        inner_size: u32 = room,           gguf ["ssm.inner_size"],            json ["d_inner"];
        /// Width of the state, or of a key head of linear attention.
        state_size: u32 = room,           gguf ["ssm.state_size", "kda.head_dim"], json ["linear_key_head_dim", "linear_head_dim", "linear_attn_config.head_dim", "mamba_d_state", "d_state", "state_size", "ssm_state_size"];
        /// Rank of the time step; in newer models the number of heads, or of value heads.
        time_step_rank: u32 = automatic,  gguf ["ssm.time_step_rank"],        json ["linear_num_value_heads", "linear_num_heads", "linear_attn_config.num_heads", "time_step_rank", "mamba_dt_rank", "mamba_n_heads", "mamba_num_heads"];
        /// Number of groups, or of key heads.
        group_count: u32 = room,          gguf ["ssm.group_count"],           json ["linear_num_key_heads", "linear_num_heads", "linear_attn_config.num_heads", "mamba_n_groups", "n_groups"];
        /// Width of a value head of linear attention.
        value_head_dim: u32 = room,       gguf ["kda.head_dim"],              json ["linear_value_head_dim", "linear_head_dim", "linear_attn_config.head_dim"];
        /// Width of a head of a state space.
        head_dim: u32 = automatic,        gguf [],                            json ["mamba_d_head", "mamba_headdim"];
    }

    /// The encoder beside the decoder (Whisper).
    pub EncoderConfig, "encoder", "" {
        /// Number of layers.
        enc_n_layers: u32 = size,         gguf ["encoder.block_count"],       json ["encoder_layers"];
        /// Number of heads.
        enc_n_heads: u32 = size,          gguf ["encoder.attention.head_count"], json ["encoder_attention_heads"];
        /// Width of the residual stream.
        enc_dim: u32 = size,              gguf ["encoder.embedding_length"],  json [];
        /// Inner width of the feed-forward network.
        enc_ffn_dim: u32 = size,          gguf ["encoder.feed_forward_length"], json ["encoder_ffn_dim"];
        /// Number of positions, after the convolutions.
        n_audio_ctx: u32 = size,          gguf ["encoder.context_length"],    json ["max_source_positions"];
        /// Number of mel bands of the spectrogram.
        n_mels: u32 = size,               gguf ["encoder.mels_count"],        json ["num_mel_bins"];
    }
}
