//! What llama.cpp's loader accepts and requires of each architecture: tensors, shapes and keys. One
//! row serves the architectures that it treats alike.

mod sizes;

use crate::arch::graph::{Graph, Row, Rule, Size, may, must};
use sizes::*;

const RMS: &str = "attention.layer_norm_rms_epsilon";
const EPS: &str = "attention.layer_norm_epsilon";

const WHOLE_HEADS: &[Rule] = &[key_is_value, whole_head];
const EQUAL_HEADS: &[Rule] = &[key_is_value];

// Groups of tensors.
const BODY: &[Row] =
    &[must("token_embd.weight", [embd, vocab]), must("output_norm.weight", [embd])];
const OUTPUT: &[Row] = &[must("output.weight", [embd, vocab])];
/// The embedding serves as output matrix unless there is one.
const TIED: &[Row] = &[may("output.weight", [embd, vocab])];
const OUTPUT_BIAS: &[Row] = &[may("output.bias", [vocab])];
const NORMS: &[Row] =
    &[must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.ffn_norm.weight", [embd])];
const BIASED_NORMS: &[Row] = &[
    must("output_norm.bias", [embd]),
    must("blk.{n}.attn_norm.bias", [embd]),
    must("blk.{n}.ffn_norm.bias", [embd]),
];
const POST_NORMS: &[Row] = &[
    must("blk.{n}.post_attention_norm.weight", [embd]),
    must("blk.{n}.post_ffw_norm.weight", [embd]),
];

const QKV: &str = "blk.{n}.attn_qkv.weight";
/// Queries, keys, values and gates of linear attention, fused.
const SSM_IN: &str = "blk.{n}.ssm_in.weight";
const QKV_BIAS: &str = "blk.{n}.attn_qkv.bias";
/// Queries, keys and values, fused or not, with or without biases, by their widths; and the output
/// matrix, by the width of what it takes.
const fn attention(all: Size, q: Size, k: Size, v: Size, output: Size) -> [Row; 9] {
    [
        may(QKV, [embd, all]),
        may(QKV_BIAS, [all]).with(QKV),
        must("blk.{n}.attn_q.weight", [embd, q]).unless(QKV),
        must("blk.{n}.attn_k.weight", [embd, k]).unless(QKV),
        must("blk.{n}.attn_v.weight", [embd, v]).unless(QKV),
        may("blk.{n}.attn_q.bias", [q]).unless(QKV_BIAS),
        may("blk.{n}.attn_k.bias", [k]).unless(QKV_BIAS),
        may("blk.{n}.attn_v.bias", [v]).unless(QKV_BIAS),
        must("blk.{n}.attn_output.weight", [output, embd]),
    ]
}
const ATTENTION: &[Row] = &attention(q_k_v, q, k, v, q);
/// Keys as wide as values.
const ATTENTION_VALUES: &[Row] = &attention(q_v_v, q, v, v, q);
/// Heads whose width follows from that of the residual stream.
const SQUARE_ATTENTION: &[Row] = &attention(embd_v_v, embd, v, v, embd);
/// All heads together are as wide as the residual stream.
const EXAONE_ATTENTION: &[Row] = &attention(q_k_v, q, k, v, embd);
const ATTENTION_OUTPUT_BIAS: &[Row] = &[may("blk.{n}.attn_output.bias", [embd])];
const QK_NORM: &[Row] =
    &[must("blk.{n}.attn_q_norm.weight", [head]), must("blk.{n}.attn_k_norm.weight", [head])];

const GATED: &[Row] = &[
    must("blk.{n}.ffn_gate.weight", [embd, ff]),
    must("blk.{n}.ffn_up.weight", [embd, ff]),
    must("blk.{n}.ffn_down.weight", [ff, embd]),
];
const UNGATED: &[Row] =
    &[must("blk.{n}.ffn_up.weight", [embd, ff]), must("blk.{n}.ffn_down.weight", [ff, embd])];
const UNGATED_BIASES: &[Row] =
    &[must("blk.{n}.ffn_up.bias", [ff]), must("blk.{n}.ffn_down.bias", [embd])];
const FREQS: &[Row] = &[may("rope_freqs.weight", [pairs])];
const LONG_FREQS: &[Row] =
    &[may("rope_factors_long.weight", [pairs]), may("rope_factors_short.weight", [pairs])];

/// The networks of Llama and of those that share its loader: dense with biases, or experts.
const LLAMA_NETWORK: &[Row] = &[
    must("blk.{n}.ffn_gate.weight", [embd, ff]).when(dense),
    must("blk.{n}.ffn_up.weight", [embd, ff]).when(dense),
    must("blk.{n}.ffn_down.weight", [ff, embd]).when(dense),
    may("blk.{n}.ffn_gate.bias", [ff]).when(dense),
    may("blk.{n}.ffn_up.bias", [ff]).when(dense),
    may("blk.{n}.ffn_down.bias", [embd]).when(dense),
    must("blk.{n}.ffn_gate_inp.weight", [embd, experts]).when(mixture),
    may("blk.{n}.ffn_gate_exps.weight", [embd, ff, experts]).when(mixture),
    must("blk.{n}.ffn_up_exps.weight", [embd, ff, experts]).when(mixture),
    must("blk.{n}.ffn_down_exps.weight", [ff, embd, experts]).when(mixture),
    must("blk.{n}.ffn_gate_shexp.weight", [embd, stated_shared_ff]).when(shares),
    must("blk.{n}.ffn_up_shexp.weight", [embd, stated_shared_ff]).when(shares),
    must("blk.{n}.ffn_down_shexp.weight", [stated_shared_ff, embd]).when(shares),
];
const LLAMA_FREQS: &[Row] = &[
    may("rope_freqs.weight", [pairs]).when(not_long),
    may("rope_factors_long.weight", [pairs]).when(long),
    may("rope_factors_short.weight", [pairs]).when(long),
];
const LLAMA: &[&[Row]] =
    &[BODY, TIED, NORMS, ATTENTION, ATTENTION_OUTPUT_BIAS, LLAMA_FREQS, LLAMA_NETWORK];

const EXPERTS: &[Row] = &[
    must("blk.{n}.ffn_gate_inp.weight", [embd, experts]),
    must("blk.{n}.ffn_gate_exps.weight", [embd, expert_ff, experts]),
    must("blk.{n}.ffn_up_exps.weight", [embd, expert_ff, experts]),
    must("blk.{n}.ffn_down_exps.weight", [expert_ff, embd, experts]),
];
const ROUTER: &str = "blk.{n}.ffn_gate_inp.weight";
const FUSED: &str = "blk.{n}.ffn_gate_up_exps.weight";
/// Experts whose gate and up matrices may be fused.
const FUSED_EXPERTS: &[Row] = &[
    must("blk.{n}.ffn_gate_inp.weight", [embd, experts]),
    may(FUSED, [embd, fused_expert_ff, experts]),
    must("blk.{n}.ffn_gate_exps.weight", [embd, expert_ff, experts]).unless(FUSED),
    must("blk.{n}.ffn_up_exps.weight", [embd, expert_ff, experts]).unless(FUSED),
    must("blk.{n}.ffn_down_exps.weight", [expert_ff, embd, experts]),
];
/// Experts as wide as the dense network would be.
const DENSE_WIDE_EXPERTS: &[Row] = &[
    must(ROUTER, [embd, experts]),
    must("blk.{n}.ffn_gate_exps.weight", [embd, ff, experts]),
    must("blk.{n}.ffn_up_exps.weight", [embd, ff, experts]),
    must("blk.{n}.ffn_down_exps.weight", [ff, embd, experts]),
];
/// A shared expert with a router of its own.
const SHARED_EXPERT: &[Row] = &[
    must("blk.{n}.ffn_gate_inp_shexp.weight", [embd]),
    must("blk.{n}.ffn_gate_shexp.weight", [embd, shared_ff]),
    must("blk.{n}.ffn_up_shexp.weight", [embd, shared_ff]),
    must("blk.{n}.ffn_down_shexp.weight", [shared_ff, embd]),
];
/// Dense layers first, then layers with experts and shared experts.
const LEADING: &[Row] = &[
    must("blk.{n}.ffn_gate.weight", [embd, ff]).when(leading),
    must("blk.{n}.ffn_up.weight", [embd, ff]).when(leading),
    must("blk.{n}.ffn_down.weight", [ff, embd]).when(leading),
    must("blk.{n}.ffn_gate_inp.weight", [embd, experts]).when(later),
    must("blk.{n}.ffn_down_exps.weight", [stated_expert_ff, embd, experts]).when(later),
];
const SPLIT_EXPERTS: &[Row] = &[
    must("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts]).when(later),
    must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]).when(later),
];
const MAYBE_FUSED_EXPERTS: &[Row] = &[
    may(FUSED, [embd, expert_ff2, experts]).when(later),
    must("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts])
        .when(later)
        .unless(FUSED),
    must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]).when(later).unless(FUSED),
];
const SHARED_EXPERTS: &[Row] = &[
    must("blk.{n}.ffn_gate_shexp.weight", [embd, shared_experts_ff]).when(later),
    must("blk.{n}.ffn_up_shexp.weight", [embd, shared_experts_ff]).when(later),
    must("blk.{n}.ffn_down_shexp.weight", [shared_experts_ff, embd]).when(later),
];
const MAYBE_SHARED_EXPERTS: &[Row] = &[
    must("blk.{n}.ffn_gate_shexp.weight", [embd, shared_experts_ff]).when(later_shared),
    must("blk.{n}.ffn_up_shexp.weight", [embd, shared_experts_ff]).when(later_shared),
    must("blk.{n}.ffn_down_shexp.weight", [shared_experts_ff, embd]).when(later_shared),
];
const BALANCE: &str = "blk.{n}.exp_probs_b.bias";

/// Multi-head latent attention.
const LATENT: &[Row] = &[
    must("blk.{n}.attn_q_a.weight", [embd, q_rank]).when(ranked),
    must("blk.{n}.attn_q_a_norm.weight", [q_rank]).when(ranked),
    must("blk.{n}.attn_q_b.weight", [q_rank, latent_q]).when(ranked),
    must("blk.{n}.attn_q.weight", [embd, latent_q]).when(unranked),
    must("blk.{n}.attn_kv_a_mqa.weight", [embd, kv_rank_rotated]),
    must("blk.{n}.attn_kv_a_norm.weight", [kv_rank]),
    must("blk.{n}.attn_k_b.weight", [unrotated, kv_rank, heads]).when(absorbed),
    must("blk.{n}.attn_v_b.weight", [kv_rank, latent_v, heads]).when(absorbed),
    must("blk.{n}.attn_kv_b.weight", [kv_rank, latent_kv]).when(expanded),
    must("blk.{n}.attn_output.weight", [latent_out, embd]),
];

/// Layers with gated attention, and layers with linear attention between them.
const HYBRID: &[Row] = &[
    must("blk.{n}.attn_norm.weight", [embd]),
    must("blk.{n}.post_attention_norm.weight", [embd]),
    may(QKV, [embd, gated_q_k_v]).when(attends),
    may(QKV_BIAS, [gated_q_k_v]).when(attends).with(QKV),
    must("blk.{n}.attn_q.weight", [embd, gated_q]).when(attends).unless(QKV),
    must("blk.{n}.attn_k.weight", [embd, k]).when(attends).unless(QKV),
    must("blk.{n}.attn_v.weight", [embd, v]).when(attends).unless(QKV),
    may("blk.{n}.attn_q.bias", [gated_q]).when(attends).unless(QKV_BIAS),
    may("blk.{n}.attn_k.bias", [k]).when(attends).unless(QKV_BIAS),
    may("blk.{n}.attn_v.bias", [v]).when(attends).unless(QKV_BIAS),
    must("blk.{n}.attn_output.weight", [q, embd]).when(attends),
    must("blk.{n}.attn_q_norm.weight", [head]).when(attends),
    must("blk.{n}.attn_k_norm.weight", [head]).when(attends),
    must(QKV, [embd, keys_values]).when(recurrent).unless(SSM_IN),
    must("blk.{n}.attn_gate.weight", [embd, values]).when(recurrent).unless(SSM_IN),
    must("blk.{n}.ssm_conv1d.weight", [conv, keys_values]).when(recurrent),
    must("blk.{n}.ssm_dt.bias", [v_heads]).when(recurrent),
    must("blk.{n}.ssm_a", [v_heads]).when(recurrent),
    must("blk.{n}.ssm_norm.weight", [state]).when(recurrent),
    must("blk.{n}.ssm_out.weight", [values, embd]).when(recurrent),
];
const FUSED_LINEAR: &[Row] = &[
    may(SSM_IN, [embd, keys_values_gates]).when(recurrent),
    must("blk.{n}.ssm_ba.weight", [embd, v_heads2]).when(recurrent),
];
const SPLIT_LINEAR: &[Row] = &[
    must("blk.{n}.ssm_beta.weight", [embd, v_heads]).when(recurrent),
    must("blk.{n}.ssm_alpha.weight", [embd, v_heads]).when(recurrent),
];
/// Attention in layers with key heads.
const KEYED_ATTENTION: &[Row] = &[
    may(QKV, [embd, embd_kv_kv]).when(has_keys),
    may(QKV_BIAS, [embd_kv_kv]).when(has_keys).with(QKV),
    must("blk.{n}.attn_q.weight", [embd, embd]).when(has_keys).unless(QKV),
    must("blk.{n}.attn_k.weight", [embd, kv_of_layer]).when(has_keys).unless(QKV),
    must("blk.{n}.attn_v.weight", [embd, kv_of_layer]).when(has_keys).unless(QKV),
    may("blk.{n}.attn_q.bias", [embd]).when(has_keys).unless(QKV_BIAS),
    may("blk.{n}.attn_k.bias", [kv_of_layer]).when(has_keys).unless(QKV_BIAS),
    may("blk.{n}.attn_v.bias", [kv_of_layer]).when(has_keys).unless(QKV_BIAS),
    must("blk.{n}.attn_output.weight", [embd, embd]).when(has_keys),
];
/// Layers with a short convolution where they have no key heads.
const SHORT_CONVOLUTIONS: &[Row] = &[
    must("token_embd.weight", [embd, vocab]),
    must("token_embd_norm.weight", [embd]),
    must("blk.{n}.attn_q_norm.weight", [head]).when(has_keys),
    must("blk.{n}.attn_k_norm.weight", [head]).when(has_keys),
    must("blk.{n}.shortconv.conv.weight", [short_kernel, embd]).when(keyless),
    must("blk.{n}.shortconv.in_proj.weight", [embd, embd3]).when(keyless),
    must("blk.{n}.shortconv.out_proj.weight", [embd, embd]).when(keyless),
];
const HYBRID_KEYS: &[&str] = &[
    RMS,
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
];
const SECTIONED_HYBRID_KEYS: &[&str] = &[
    RMS,
    "rope.dimension_sections",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
];

/// T5's encoder.
const T5_ENCODER: &[Row] = &[
    must("enc.output_norm.weight", [embd]),
    must("enc.blk.{n}.attn_norm.weight", [embd]),
    must("enc.blk.{n}.attn_rel_b.weight", [heads, buckets]).when(is_first),
    may("enc.blk.{n}.attn_rel_b.weight", [heads, buckets]).when(is_later),
    must("enc.blk.{n}.attn_q.weight", [embd, k]),
    must("enc.blk.{n}.attn_k.weight", [embd, k]),
    must("enc.blk.{n}.attn_v.weight", [embd, v]),
    must("enc.blk.{n}.attn_o.weight", [v, embd]),
    must("enc.blk.{n}.ffn_norm.weight", [embd]),
    may("enc.blk.{n}.ffn_gate.weight", [embd, ff]),
    must("enc.blk.{n}.ffn_up.weight", [embd, ff]),
    must("enc.blk.{n}.ffn_down.weight", [ff, embd]),
];

const DENSE_2_3: &[Row] =
    &[may("dense_2.weight", [embd, dense_2]), may("dense_3.weight", [dense_3, embd])];

/// The rows of the words by which a decoder ranks texts.
const RANKER: &[Row] = &[may("cls.output.weight", [embd, one_class])];

/// The table, a row for each loader.
#[rustfmt::skip]
pub(crate) static GRAPHS: &[Graph] = &[
    Graph { architectures: &["llama", "llama-embed"], keys: &[RMS], tensors: LLAMA, rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["mistral3"], keys: &[RMS], tensors: LLAMA, rules: WHOLE_HEADS, reads_betas: true, ..Graph::EMPTY },
    Graph { architectures: &["granite", "granitemoe"], keys: &[RMS, "logit_scale"], tensors: LLAMA, rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["minicpm"], keys: &[RMS], tensors: LLAMA, ..Graph::EMPTY },
    Graph { architectures: &["nanbeige"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, FREQS, GATED], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["smollm3"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["arcee"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, FREQS, UNGATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["xverse", "baichuan", "internlm2"], keys: &[RMS], tensors: &[BODY, OUTPUT, NORMS, SQUARE_ATTENTION, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["olmo"], keys: &[EPS], tensors: &[&[must("token_embd.weight", [embd, vocab])], TIED, SQUARE_ATTENTION, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["deepseek"], keys: &[RMS, "expert_feed_forward_length", "expert_shared_count"],
        tensors: &[BODY, TIED, NORMS, SQUARE_ATTENTION, LEADING, SPLIT_EXPERTS, SHARED_EXPERTS], rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["qwen2"], keys: &[RMS], tensors: &[BODY, TIED, OUTPUT_BIAS, NORMS, SQUARE_ATTENTION, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["qwen2vl"], keys: &[RMS, "rope.dimension_sections"], tensors: &[BODY, TIED, OUTPUT_BIAS, NORMS, SQUARE_ATTENTION, GATED], rules: &[key_is_value, whole_head, four_sections, sections_fit], ..Graph::EMPTY },
    Graph { architectures: &["qwen2moe"], keys: &[RMS], tensors: &[BODY, OUTPUT, NORMS, SQUARE_ATTENTION, EXPERTS, SHARED_EXPERT], rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["qwen3"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION_VALUES, QK_NORM, GATED, RANKER], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["qwen3vl"], keys: &[RMS, "rope.dimension_sections"], tensors: &[BODY, TIED, NORMS, ATTENTION_VALUES, QK_NORM, GATED, RANKER], rules: &[key_is_value, whole_head, four_sections, sections_fit], ..Graph::EMPTY },
    Graph { architectures: &["qwen3moe"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION_VALUES, QK_NORM, EXPERTS], rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["llama4"], keys: &[RMS, "expert_feed_forward_length", "interleave_moe_layer_step"], tensors: &[BODY, TIED, NORMS, ATTENTION, FREQS, &[
        must("blk.{n}.ffn_gate.weight", [embd, ff]).when(between), must("blk.{n}.ffn_up.weight", [embd, ff]).when(between), must("blk.{n}.ffn_down.weight", [ff, embd]).when(between),
        must(ROUTER, [embd, experts]).when(stepped), must("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts]).when(stepped),
        must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]).when(stepped), must("blk.{n}.ffn_down_exps.weight", [stated_expert_ff, embd, experts]).when(stepped),
        must("blk.{n}.ffn_gate_shexp.weight", [embd, stated_expert_ff]).when(stepped), must("blk.{n}.ffn_up_shexp.weight", [embd, stated_expert_ff]).when(stepped), must("blk.{n}.ffn_down_shexp.weight", [stated_expert_ff, embd]).when(stepped)]],
        rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["lfm2"], keys: &[RMS, "shortconv.l_cache"], tensors: &[TIED, NORMS, KEYED_ATTENTION, SHORT_CONVOLUTIONS, GATED], ..Graph::EMPTY },
    Graph { architectures: &["lfm2moe"], keys: &[RMS, "shortconv.l_cache", "expert_feed_forward_length", "expert_gating_func"], tensors: &[TIED, NORMS, KEYED_ATTENTION, SHORT_CONVOLUTIONS, LEADING, SPLIT_EXPERTS, &[must(BALANCE, [experts]).when(later)]], ..Graph::EMPTY },
    Graph { architectures: &["apertus"], keys: &[RMS], tensors: &[BODY, OUTPUT, NORMS, ATTENTION_VALUES, ATTENTION_OUTPUT_BIAS, QK_NORM, LLAMA_FREQS, UNGATED, &[may("blk.{n}.attn_q_norm.bias", [head]), may("blk.{n}.attn_k_norm.bias", [head])]],
        rules: &[key_is_value, whole_head, needs_xielu], ..Graph::EMPTY },
    Graph { architectures: &["jamba"], keys: &[RMS, "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"], tensors: &[BODY, TIED, NORMS, KEYED_ATTENTION, &[
        must(SSM_IN, [embd, inner2]).when(keyless), must("blk.{n}.ssm_conv1d.weight", [conv, inner]).when(keyless), must("blk.{n}.ssm_conv1d.bias", [inner]).when(keyless),
        must("blk.{n}.ssm_x.weight", [inner, rank_states]).when(keyless), must("blk.{n}.ssm_dt.weight", [v_heads, inner]).when(keyless), must("blk.{n}.ssm_dt.bias", [inner]).when(keyless),
        must("blk.{n}.ssm_dt_norm.weight", [v_heads]).when(keyless), must("blk.{n}.ssm_b_norm.weight", [state]).when(keyless), must("blk.{n}.ssm_c_norm.weight", [state]).when(keyless),
        must("blk.{n}.ssm_a", [state, inner]).when(keyless), must("blk.{n}.ssm_d", [inner]).when(keyless), must("blk.{n}.ssm_out.weight", [inner, embd]).when(keyless),
        may(ROUTER, [embd, experts]), must("blk.{n}.ffn_gate_exps.weight", [embd, ff, experts]).with(ROUTER), must("blk.{n}.ffn_up_exps.weight", [embd, ff, experts]).with(ROUTER), must("blk.{n}.ffn_down_exps.weight", [ff, embd, experts]).with(ROUTER),
        must("blk.{n}.ffn_gate.weight", [embd, ff]).unless(ROUTER), must("blk.{n}.ffn_up.weight", [embd, ff]).unless(ROUTER), must("blk.{n}.ffn_down.weight", [ff, embd]).unless(ROUTER)]],
        rules: &[key_is_value, twice_as_wide], ..Graph::EMPTY },
    Graph { architectures: &["mamba"], keys: &[RMS, "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"], tensors: &[BODY, TIED, &[must("blk.{n}.attn_norm.weight", [embd]),
        must(SSM_IN, [embd, inner2]), must("blk.{n}.ssm_conv1d.weight", [conv, inner]), must("blk.{n}.ssm_conv1d.bias", [inner]), must("blk.{n}.ssm_x.weight", [inner, rank_states]),
        must("blk.{n}.ssm_dt.weight", [v_heads, inner]), must("blk.{n}.ssm_dt.bias", [inner]), must("blk.{n}.ssm_a", [state, inner]), must("blk.{n}.ssm_d", [inner]), must("blk.{n}.ssm_out.weight", [inner, embd])]],
        rules: &[twice_as_wide], ..Graph::EMPTY },
    Graph { architectures: &["mamba2"], keys: &[RMS, "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count"], tensors: &[BODY, TIED, &[must("blk.{n}.attn_norm.weight", [embd]),
        must(SSM_IN, [embd, inner_states_heads]), must("blk.{n}.ssm_conv1d.weight", [conv, inner_states]), must("blk.{n}.ssm_conv1d.bias", [inner_states]), must("blk.{n}.ssm_dt.bias", [v_heads]),
        must("blk.{n}.ssm_a", [one_value, v_heads]), must("blk.{n}.ssm_d", [one_value, v_heads]), must("blk.{n}.ssm_norm.weight", [inner_of_group, groups]), must("blk.{n}.ssm_out.weight", [inner, embd])]], ..Graph::EMPTY },
    Graph { architectures: &["granitehybrid"], keys: &[RMS, "ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank", "ssm.group_count"], tensors: &[BODY, TIED, NORMS, KEYED_ATTENTION, LLAMA_FREQS, LLAMA_NETWORK, &[
        may("blk.{n}.attn_output.bias", [embd]).when(has_keys), must(SSM_IN, [embd, inner_states_heads]).when(keyless), must("blk.{n}.ssm_conv1d.weight", [conv, inner_states]).when(keyless), must("blk.{n}.ssm_conv1d.bias", [inner_states]).when(keyless),
        must("blk.{n}.ssm_dt.bias", [v_heads]).when(keyless), must("blk.{n}.ssm_a", [one_value, v_heads]).when(keyless), must("blk.{n}.ssm_d", [one_value, v_heads]).when(keyless),
        must("blk.{n}.ssm_norm.weight", [inner_of_group, groups]).when(keyless), must("blk.{n}.ssm_out.weight", [inner, embd]).when(keyless)]],
        rules: &[key_is_value, twice_as_wide], ..Graph::EMPTY },
    Graph { architectures: &["exaone"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, FREQS, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["phimoe"], keys: &[RMS], tensors: &[BODY, OUTPUT, NORMS, BIASED_NORMS, SQUARE_ATTENTION, LONG_FREQS, DENSE_WIDE_EXPERTS, &[must("output.bias", [vocab]), must("blk.{n}.attn_output.bias", [embd])]],
        rules: EQUAL_HEADS, ignores: &[("attention.sliding_window", "every layer attends to all positions")], remarks: &[rms_for_layer_norms, softmax_for_sparse_mixer], ..Graph::EMPTY },
    Graph { architectures: &["hunyuan-moe"], keys: &[RMS, "expert_feed_forward_length"], tensors: &[BODY, TIED, NORMS, ATTENTION, QK_NORM, DENSE_WIDE_EXPERTS, &[
        must("blk.{n}.ffn_gate_shexp.weight", [embd, shared_ff]), must("blk.{n}.ffn_up_shexp.weight", [embd, shared_ff]), must("blk.{n}.ffn_down_shexp.weight", [shared_ff, embd])]],
        rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["qwen3vlmoe"], keys: &[RMS, "rope.dimension_sections"], tensors: &[BODY, TIED, NORMS, ATTENTION_VALUES, QK_NORM, EXPERTS], rules: &[key_is_value, whole_head, needs_experts, four_sections, sections_fit], ..Graph::EMPTY },
    Graph { architectures: &["qwen3next"], keys: HYBRID_KEYS, tensors: &[BODY, TIED, HYBRID, FUSED_LINEAR, FUSED_EXPERTS, SHARED_EXPERT], rules: &[needs_experts, key_heads_divide], nextn: true, ..Graph::EMPTY },
    Graph { architectures: &["qwen35"], keys: SECTIONED_HYBRID_KEYS, tensors: &[BODY, TIED, HYBRID, SPLIT_LINEAR, GATED], rules: &[four_sections, sections_fit, key_heads_divide], nextn: true, ..Graph::EMPTY },
    Graph { architectures: &["qwen35moe"], keys: SECTIONED_HYBRID_KEYS, tensors: &[BODY, TIED, HYBRID, SPLIT_LINEAR, FUSED_EXPERTS, SHARED_EXPERT], rules: &[four_sections, sections_fit, key_heads_divide], nextn: true, ..Graph::EMPTY },
    Graph { architectures: &["gemma"], keys: &[RMS], tensors: &[BODY, NORMS, ATTENTION, GATED], ..Graph::EMPTY },
    Graph { architectures: &["gemma2"], keys: &[RMS], tensors: &[BODY, NORMS, POST_NORMS, ATTENTION, GATED], ..Graph::EMPTY },
    Graph { architectures: &["gemma3"], keys: &[RMS], tensors: &[BODY, TIED, DENSE_2_3, NORMS, POST_NORMS, ATTENTION, QK_NORM, GATED], ..Graph::EMPTY },
    Graph { architectures: &["gemma-embedding"], keys: &[RMS, "attention.sliding_window"], tensors: &[BODY, TIED, DENSE_2_3, NORMS, POST_NORMS, ATTENTION, QK_NORM, GATED], ..Graph::EMPTY },
    Graph { architectures: &["gemma3n"], keys: &[RMS, "attention.sliding_window"], tensors: &[BODY, TIED, NORMS, POST_NORMS, ATTENTION, QK_NORM, GATED, &[
        must("altup_proj.weight", [embd, embd, altup_others]), must("altup_unembd_proj.weight", [embd, embd, altup_others]),
        must("per_layer_token_embd.weight", [altup_all, vocab]), must("per_layer_model_proj.weight", [embd, altup_all]), must("per_layer_proj_norm.weight", [altup_width]),
        must("blk.{n}.inp_gate.weight", [embd, altup_width]), must("blk.{n}.proj.weight", [altup_width, embd]), must("blk.{n}.post_norm.weight", [embd]),
        must("blk.{n}.altup_correct_coef.weight", [altup, altup]), must("blk.{n}.altup_correct_scale.weight", [embd]), must("blk.{n}.altup_predict_coef.weight", [altup, altup_squared]),
        must("blk.{n}.altup_router.weight", [embd, altup]), must("blk.{n}.altup_router_norm.weight", [embd]),
        must("blk.{n}.laurel_l.weight", [embd, laurel]), must("blk.{n}.laurel_r.weight", [laurel, embd]), must("blk.{n}.laurel_post_norm.weight", [embd]),
    ]], ..Graph::EMPTY },
    Graph { architectures: &["gemma4"], keys: &[RMS, "attention.sliding_window", "attention.sliding_window_pattern", "embedding_length_per_layer_input", "attention.key_length_swa", "attention.value_length_swa"],
        tensors: &[BODY, TIED, NORMS, POST_NORMS, &[
        must("per_layer_token_embd.weight", [per_layer_all, vocab]).when(has_per_layer), must("per_layer_model_proj.weight", [embd, per_layer_all]).when(has_per_layer),
        must("per_layer_proj_norm.weight", [per_layer]).when(has_per_layer), must("rope_freqs.weight", [full_pairs]),
        must("blk.{n}.attn_q.weight", [embd, own_q]), must("blk.{n}.attn_k.weight", [embd, own_kv]).when(keeps_kv), may("blk.{n}.attn_k.weight", [embd, own_kv]).when(shares_kv),
        may("blk.{n}.attn_v.weight", [embd, own_kv]), must("blk.{n}.attn_output.weight", [own_q, embd]),
        must("blk.{n}.attn_q_norm.weight", [own_head]), must("blk.{n}.attn_k_norm.weight", [own_head]).when(keeps_kv), may("blk.{n}.attn_k_norm.weight", [own_head]).when(shares_kv),
        may("blk.{n}.ffn_down_exps.scale", [experts]), may("blk.{n}.layer_output_scale.weight", []), must("blk.{n}.ffn_gate.weight", [embd, ff_of_layer]), must("blk.{n}.ffn_up.weight", [embd, ff_of_layer]), must("blk.{n}.ffn_down.weight", [ff_of_layer, embd]),
        may("blk.{n}.ffn_gate_inp.weight", [embd, experts]), must("blk.{n}.ffn_gate_inp.scale", [embd]).with(ROUTER), must("blk.{n}.pre_ffw_norm_2.weight", [embd]).with(ROUTER),
        must("blk.{n}.post_ffw_norm_1.weight", [embd]).with(ROUTER), must("blk.{n}.post_ffw_norm_2.weight", [embd]).with(ROUTER),
        may(FUSED, [embd, expert_ff2, experts]).with(ROUTER), must("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts]).with(ROUTER).unless(FUSED),
        must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]).with(ROUTER).unless(FUSED), must("blk.{n}.ffn_down_exps.weight", [stated_expert_ff, embd, experts]).with(ROUTER),
        must("blk.{n}.inp_gate.weight", [embd, per_layer]).when(has_per_layer), must("blk.{n}.proj.weight", [per_layer, embd]).when(has_per_layer), must("blk.{n}.post_norm.weight", [embd]).when(has_per_layer),
    ]], rules: &[key_is_value, narrow_heads_rotate], ..Graph::EMPTY },
    Graph { architectures: &["phi3"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, SQUARE_ATTENTION, LONG_FREQS, &[must("blk.{n}.ffn_up.weight", [embd, ff2]), must("blk.{n}.ffn_down.weight", [ff, embd])]],
        rules: EQUAL_HEADS, ignores: &[("attention.sliding_window", "every layer attends to all positions")], ..Graph::EMPTY },
    Graph { architectures: &["gpt-oss"], keys: &[RMS, "expert_feed_forward_length", "attention.sliding_window"], tensors: &[BODY, OUTPUT, &[
        must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.post_attention_norm.weight", [embd]),
        may(QKV, [embd, rotated_qkv]), may(QKV_BIAS, [rotated_qkv]).with(QKV),
        must("blk.{n}.attn_q.weight", [embd, rotated_q]).unless(QKV), must("blk.{n}.attn_k.weight", [embd, rotated_kv]).unless(QKV), must("blk.{n}.attn_v.weight", [embd, rotated_kv]).unless(QKV),
        may("blk.{n}.attn_q.bias", [rotated_q]).unless(QKV_BIAS), may("blk.{n}.attn_k.bias", [rotated_kv]).unless(QKV_BIAS), may("blk.{n}.attn_v.bias", [rotated_kv]).unless(QKV_BIAS),
        must("blk.{n}.attn_output.weight", [rotated_q, embd]), must("blk.{n}.attn_output.bias", [embd]), must("blk.{n}.attn_sinks.weight", [heads]),
        must("blk.{n}.ffn_gate_inp.weight", [embd, experts]), must("blk.{n}.ffn_gate_inp.bias", [experts]),
        must("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts]), must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]), must("blk.{n}.ffn_down_exps.weight", [stated_expert_ff, embd, experts]),
        must("blk.{n}.ffn_gate_exps.bias", [stated_expert_ff, experts]), must("blk.{n}.ffn_up_exps.bias", [stated_expert_ff, experts]), must("blk.{n}.ffn_down_exps.bias", [embd, experts]),
    ]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["deepseek2"], keys: &[RMS, "attention.kv_lora_rank", "expert_feed_forward_length", "expert_shared_count"],
        tensors: &[BODY, TIED, NORMS, LATENT, LEADING, MAYBE_FUSED_EXPERTS, SHARED_EXPERTS, &[may(BALANCE, [experts]).when(later)]], rules: &[needs_rank, latent_is_one_head], nextn: true, differs: &[("topk_method", "group_limited_greedy", "a group of experts is scored by its two best experts, not by its best")], ..Graph::EMPTY },
    Graph { architectures: &["minicpm3"], keys: &[RMS, "attention.q_lora_rank", "attention.kv_lora_rank"], tensors: &[BODY, TIED, NORMS, GATED, LONG_FREQS, &[
        must("blk.{n}.attn_q_a.weight", [embd, q_rank]), must("blk.{n}.attn_q_a_norm.weight", [q_rank]), must("blk.{n}.attn_q_b.weight", [q_rank, latent_q]),
        must("blk.{n}.attn_kv_a_mqa.weight", [embd, kv_rank_rotated]), must("blk.{n}.attn_kv_a_norm.weight", [kv_rank]), must("blk.{n}.attn_kv_b.weight", [kv_rank, latent_kv]),
        must("blk.{n}.attn_output.weight", [latent_out, embd])]], ..Graph::EMPTY },
    Graph { architectures: &["deepseek32"], keys: &[RMS, "attention.q_lora_rank", "attention.kv_lora_rank", "expert_feed_forward_length", "expert_shared_count", "expert_gating_func",
            "attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.top_k"],
        tensors: &[BODY, TIED, NORMS, LATENT, LEADING, SPLIT_EXPERTS, SHARED_EXPERTS, &[may(BALANCE, [experts]).when(later),
        must("blk.{n}.indexer.k_norm.weight", [index_head]), must("blk.{n}.indexer.k_norm.bias", [index_head]), must("blk.{n}.indexer.proj.weight", [embd, index_heads]),
        must("blk.{n}.indexer.attn_k.weight", [embd, index_head]), must("blk.{n}.indexer.attn_q_b.weight", [q_rank, index_q])]], nextn: true, rules: &[latent_is_one_head], ..Graph::EMPTY },
    Graph { architectures: &["glm4"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, POST_NORMS, ATTENTION, &[must("blk.{n}.ffn_up.weight", [embd, ff2]), must("blk.{n}.ffn_down.weight", [ff, embd])]], rules: &[key_is_value, four_sections], nextn: true, ..Graph::EMPTY },
    Graph { architectures: &["glm4moe"], keys: &[RMS, "expert_feed_forward_length", "expert_shared_count"], tensors: &[BODY, TIED, ATTENTION, LEADING, SPLIT_EXPERTS, MAYBE_SHARED_EXPERTS, &[
        must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.post_attention_norm.weight", [embd]), may("blk.{n}.attn_q_norm.weight", [head]), may("blk.{n}.attn_k_norm.weight", [head]),
        must(BALANCE, [experts]).when(later)]], rules: &[needs_experts, four_sections], nextn: true, ..Graph::EMPTY },
    Graph { architectures: &["olmo2"], keys: &[RMS], tensors: &[BODY, OUTPUT, POST_NORMS, SQUARE_ATTENTION, GATED, &[must("blk.{n}.attn_q_norm.weight", [embd]), must("blk.{n}.attn_k_norm.weight", [square_kv])]], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["olmoe"], keys: &[RMS], tensors: &[BODY, OUTPUT, NORMS, SQUARE_ATTENTION, &[must("blk.{n}.attn_q_norm.weight", [embd]), must("blk.{n}.attn_k_norm.weight", [embd])], DENSE_WIDE_EXPERTS],
        rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["command-r"], keys: &[EPS], tensors: &[BODY, SQUARE_ATTENTION, GATED, &[must("blk.{n}.attn_norm.weight", [embd]),
        must("blk.{n}.attn_q_norm.weight", [head, heads]).when(many_layers), must("blk.{n}.attn_k_norm.weight", [head, kv_heads]).when(many_layers)]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["cohere2"], keys: &[EPS, "logit_scale", "attention.sliding_window"], tensors: &[BODY, SQUARE_ATTENTION, GATED, &[must("blk.{n}.attn_norm.weight", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["phi2"], keys: &[EPS], tensors: &[BODY, OUTPUT, SQUARE_ATTENTION, UNGATED, UNGATED_BIASES, &[must("output.bias", [vocab]), must("output_norm.bias", [embd]), must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.attn_norm.bias", [embd]),
        must("blk.{n}.attn_output.bias", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["stablelm"], keys: &[EPS], tensors: &[BODY, OUTPUT, SQUARE_ATTENTION, GATED, &[must("output_norm.bias", [embd]), must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.attn_norm.bias", [embd]),
        may("blk.{n}.attn_q_norm.weight", [head, heads]), may("blk.{n}.attn_k_norm.weight", [head, kv_heads]), may("blk.{n}.ffn_norm.weight", [embd]), may("blk.{n}.ffn_norm.bias", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["exaone4"], keys: &[RMS], tensors: &[BODY, TIED, EXAONE_ATTENTION, POST_NORMS, QK_NORM, FREQS, GATED], rules: WHOLE_HEADS, nextn: true, remarks: &[windows_of_64_layers], ..Graph::EMPTY },
    Graph { architectures: &["hunyuan-dense"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, QK_NORM, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["nemotron"], keys: &[EPS], tensors: &[BODY, OUTPUT, NORMS, BIASED_NORMS, SQUARE_ATTENTION, ATTENTION_OUTPUT_BIAS, UNGATED, &[may("blk.{n}.ffn_up.bias", [ff]), may("blk.{n}.ffn_down.bias", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["seed_oss"], keys: &[RMS], tensors: &[BODY, TIED, ATTENTION, GATED, &[must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.post_attention_norm.weight", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["ernie4_5"], keys: &[RMS], tensors: &[BODY, TIED, NORMS, ATTENTION, ATTENTION_OUTPUT_BIAS, GATED], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["ernie4_5-moe"], keys: &[RMS, "expert_feed_forward_length", "interleave_moe_layer_step"], tensors: &[BODY, TIED, NORMS, ATTENTION, ATTENTION_OUTPUT_BIAS, LEADING, &[
        may("blk.{n}.ffn_gate_exps.weight", [embd, stated_expert_ff, experts]).when(later), must("blk.{n}.ffn_up_exps.weight", [embd, stated_expert_ff, experts]).when(later), may(BALANCE, [experts]).when(later),
        must("blk.{n}.ffn_gate_shexp.weight", [embd, stated_shared_ff]).when(later_with_shared), must("blk.{n}.ffn_up_shexp.weight", [embd, stated_shared_ff]).when(later_with_shared), must("blk.{n}.ffn_down_shexp.weight", [stated_shared_ff, embd]).when(later_with_shared)]],
        rules: &[key_is_value, whole_head, needs_experts], ..Graph::EMPTY },
    Graph { architectures: &["starcoder2"], keys: &[EPS], tensors: &[BODY, TIED, NORMS, BIASED_NORMS, SQUARE_ATTENTION, &[must("blk.{n}.attn_output.bias", [embd])], UNGATED, UNGATED_BIASES], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["falcon"], keys: &[EPS], tensors: &[BODY, TIED, UNGATED, &[must("output_norm.bias", [embd]), must("blk.{n}.attn_norm.weight", [embd]), must("blk.{n}.attn_norm.bias", [embd]),
        may("blk.{n}.attn_norm_2.weight", [embd]), may("blk.{n}.attn_norm_2.bias", [embd]), must(QKV, [embd, embd_v_v]), must("blk.{n}.attn_output.weight", [embd, embd])]], rules: WHOLE_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["gpt2"], keys: &[EPS], tensors: &[BODY, TIED, NORMS, BIASED_NORMS, UNGATED, UNGATED_BIASES, &[must("position_embd.weight", [embd, context]), must(QKV, [embd, embd_v_v]), must(QKV_BIAS, [embd_v_v]),
        must("blk.{n}.attn_output.weight", [embd, embd]), must("blk.{n}.attn_output.bias", [embd])]], rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["bert"], keys: &[EPS], tensors: &[SQUARE_ATTENTION, ATTENTION_OUTPUT_BIAS, UNGATED, &[must("token_embd.weight", [embd, vocab]), may("token_types.weight", [embd, types]), must("position_embd.weight", [embd, context]),
        may("cls.weight", [embd, embd]), may("cls.bias", [embd]), may("cls.output.weight", [embd, one_class]), may("cls.output.bias", [one_class]),
        must("token_embd_norm.weight", [embd]), must("token_embd_norm.bias", [embd]), must("blk.{n}.attn_output_norm.weight", [embd]), must("blk.{n}.attn_output_norm.bias", [embd]),
        may("blk.{n}.ffn_up.bias", [ff]), may("blk.{n}.ffn_down.bias", [embd]), must("blk.{n}.layer_output_norm.weight", [embd]), must("blk.{n}.layer_output_norm.bias", [embd])]],
        rules: &[key_is_value, needs_token_types], ..Graph::EMPTY },
    Graph { architectures: &["nomic-bert"], keys: &[EPS], tensors: &[SQUARE_ATTENTION, ATTENTION_OUTPUT_BIAS, GATED, &[must("token_embd.weight", [embd, vocab]), may("token_types.weight", [embd, types]),
        must("token_embd_norm.weight", [embd]), must("token_embd_norm.bias", [embd]), must("blk.{n}.attn_output_norm.weight", [embd]), must("blk.{n}.attn_output_norm.bias", [embd]),
        may("blk.{n}.ffn_up.bias", [ff]), may("blk.{n}.ffn_down.bias", [embd]), must("blk.{n}.layer_output_norm.weight", [embd]), must("blk.{n}.layer_output_norm.bias", [embd])]],
        rules: &[key_is_value, needs_token_types], ..Graph::EMPTY },
    Graph { architectures: &["modern-bert"], keys: &[EPS], tensors: &[BODY, &[must("token_embd_norm.weight", [embd]),
        must("blk.{n}.attn_norm.weight", [embd]).when(not_first), may("blk.{n}.attn_norm.weight", [embd]).when(first), must(QKV, [embd, embd3]), must("blk.{n}.attn_output.weight", [embd, embd]),
        must("blk.{n}.ffn_up.weight", [embd, ff2]), must("blk.{n}.ffn_down.weight", [ff, embd]), must("blk.{n}.ffn_norm.weight", [embd]),
        may("cls.output.weight", [embd, one_class]), may("cls.output.bias", [one_class]), may("cls.weight", [embd, embd]), may("cls.norm.weight", [embd])]],
        rules: EQUAL_HEADS, ..Graph::EMPTY },
    Graph { architectures: &["nomic-bert-moe"], keys: &[EPS, "moe_every_n_layers"], tensors: &[SQUARE_ATTENTION, ATTENTION_OUTPUT_BIAS, &[must("token_embd.weight", [embd, vocab]), may("token_types.weight", [embd, types]),
        must("token_embd_norm.weight", [embd]), must("token_embd_norm.bias", [embd]), must("blk.{n}.attn_output_norm.weight", [embd]), must("blk.{n}.attn_output_norm.bias", [embd]),
        must(ROUTER, [embd, experts]).when(second_of_period), must("blk.{n}.ffn_up_exps.weight", [embd, ff, experts]).when(second_of_period), must("blk.{n}.ffn_down_exps.weight", [ff, embd, experts]).when(second_of_period),
        must("blk.{n}.ffn_up.weight", [embd, ff]).when(other_of_period), may("blk.{n}.ffn_up.bias", [ff]).when(other_of_period), must("blk.{n}.ffn_down.weight", [ff, embd]).when(other_of_period), may("blk.{n}.ffn_down.bias", [embd]).when(other_of_period),
        must("blk.{n}.layer_output_norm.weight", [embd]), must("blk.{n}.layer_output_norm.bias", [embd])]],
        rules: &[key_is_value, needs_token_types], ..Graph::EMPTY },
    Graph { architectures: &["jina-bert-v2"], keys: &[EPS], tensors: &[SQUARE_ATTENTION, &[must("token_embd.weight", [embd, vocab]), must("token_types.weight", [embd, types]), must("token_embd_norm.weight", [embd]), must("token_embd_norm.bias", [embd]),
        may("blk.{n}.attn_q_norm.weight", [embd]), may("blk.{n}.attn_q_norm.bias", [embd]), may("blk.{n}.attn_k_norm.weight", [embd]), may("blk.{n}.attn_k_norm.bias", [embd]), must("blk.{n}.attn_output.bias", [embd]),
        must("blk.{n}.attn_output_norm.weight", [embd]), must("blk.{n}.attn_output_norm.bias", [embd]), may("blk.{n}.attn_norm_2.weight", [embd]), may("blk.{n}.attn_norm_2.bias", [embd]),
        must("blk.{n}.ffn_up.weight", [embd, ff2]), must("blk.{n}.ffn_down.weight", [ff, embd]), must("blk.{n}.ffn_down.bias", [embd]), must("blk.{n}.layer_output_norm.weight", [embd]), must("blk.{n}.layer_output_norm.bias", [embd])]],
        rules: &[key_is_value, needs_token_types], ..Graph::EMPTY },
    Graph { architectures: &["t5"], keys: &[RMS, "attention.relative_buckets_count"], tensors: &[&[must("token_embd.weight", [embd, vocab]), must("dec.output_norm.weight", [embd])], TIED, T5_ENCODER, &[
        must("dec.blk.{n}.attn_norm.weight", [embd]), must("dec.blk.{n}.attn_rel_b.weight", [heads, buckets]).when(is_first), may("dec.blk.{n}.attn_rel_b.weight", [heads, buckets]).when(is_later), must("dec.blk.{n}.attn_q.weight", [embd, k]), must("dec.blk.{n}.attn_k.weight", [embd, k]), must("dec.blk.{n}.attn_v.weight", [embd, v]), must("dec.blk.{n}.attn_o.weight", [v, embd]),
        must("dec.blk.{n}.cross_attn_norm.weight", [embd]), may("dec.blk.{n}.cross_attn_rel_b.weight", [heads, buckets]), must("dec.blk.{n}.cross_attn_q.weight", [embd, k]), must("dec.blk.{n}.cross_attn_k.weight", [embd, k]), must("dec.blk.{n}.cross_attn_v.weight", [embd, v]), must("dec.blk.{n}.cross_attn_o.weight", [v, embd]),
        must("dec.blk.{n}.ffn_norm.weight", [embd]), may("dec.blk.{n}.ffn_gate.weight", [embd, ff]), must("dec.blk.{n}.ffn_up.weight", [embd, ff]), must("dec.blk.{n}.ffn_down.weight", [ff, embd])]],
        rules: EQUAL_HEADS, stated_remarks: &[unscaled_logits], ..Graph::EMPTY },
    Graph { architectures: &["t5encoder"], keys: &[RMS, "attention.relative_buckets_count"], tensors: &[&[must("token_embd.weight", [embd, vocab])], TIED, T5_ENCODER], rules: EQUAL_HEADS, ..Graph::EMPTY },
];
