//! Numbers of GGUF files as llama.cpp's loader derives them: lengths of axes, conditions, and rules
//! that the loader checks.

use serde_json::{Map, Value as Json};

use crate::arch::graph::Numbers;

type N<'a> = Numbers<'a>;

// Lengths of axes.
pub(super) fn embd(n: &N<'_>, _: u32) -> u64 {
    n.count("embedding_length")
}
pub(super) fn vocab(n: &N<'_>, _: u32) -> u64 {
    n.vocab()
}
pub(super) fn context(n: &N<'_>, _: u32) -> u64 {
    n.count("context_length")
}
pub(super) fn types(n: &N<'_>, _: u32) -> u64 {
    n.token_types()
}
pub(super) fn head(n: &N<'_>, _: u32) -> u64 {
    n.head("attention.key_length")
}
pub(super) fn heads(n: &N<'_>, _: u32) -> u64 {
    n.heads(0)
}
/// Ranges of distances that have a bias of their own.
pub(super) fn buckets(n: &N<'_>, _: u32) -> u64 {
    n.count("attention.relative_buckets_count")
}
pub(super) fn kv_heads(n: &N<'_>, _: u32) -> u64 {
    n.kv_heads(0)
}
/// All query heads, by the stated width.
pub(super) fn q(n: &N<'_>, layer: u32) -> u64 {
    head(n, layer).saturating_mul(n.heads(0))
}
pub(super) fn k(n: &N<'_>, layer: u32) -> u64 {
    head(n, layer).saturating_mul(n.kv_heads(0))
}
pub(super) fn v(n: &N<'_>, _: u32) -> u64 {
    n.head("attention.value_length").saturating_mul(n.kv_heads(0))
}
pub(super) fn q_k_v(n: &N<'_>, layer: u32) -> u64 {
    q(n, layer).saturating_add(k(n, layer)).saturating_add(v(n, layer))
}
pub(super) fn q_v_v(n: &N<'_>, layer: u32) -> u64 {
    q(n, layer).saturating_add(v(n, layer).saturating_mul(2))
}
/// Queries as wide as the residual stream.
pub(super) fn embd_v_v(n: &N<'_>, layer: u32) -> u64 {
    embd(n, layer).saturating_add(v(n, layer).saturating_mul(2))
}
/// Queries and their gates.
pub(super) fn gated_q(n: &N<'_>, layer: u32) -> u64 {
    q(n, layer).saturating_mul(2)
}
pub(super) fn embd3(n: &N<'_>, layer: u32) -> u64 {
    embd(n, layer).saturating_mul(3)
}
pub(super) fn gated_q_k_v(n: &N<'_>, layer: u32) -> u64 {
    gated_q(n, layer).saturating_add(k(n, layer)).saturating_add(v(n, layer))
}
pub(super) fn rotated_q(n: &N<'_>, _: u32) -> u64 {
    n.rotated().saturating_mul(n.heads(0))
}
pub(super) fn rotated_kv(n: &N<'_>, _: u32) -> u64 {
    n.rotated().saturating_mul(n.kv_heads(0))
}
pub(super) fn rotated_qkv(n: &N<'_>, layer: u32) -> u64 {
    rotated_q(n, layer).saturating_add(rotated_kv(n, layer).saturating_mul(2))
}
pub(super) fn pairs(n: &N<'_>, _: u32) -> u64 {
    n.rotated() / 2
}
pub(super) fn ff(n: &N<'_>, _: u32) -> u64 {
    n.each("feed_forward_length", 0).unwrap_or(0)
}
pub(super) fn ff_of_layer(n: &N<'_>, layer: u32) -> u64 {
    n.each("feed_forward_length", layer).unwrap_or(0)
}
pub(super) fn ff2(n: &N<'_>, layer: u32) -> u64 {
    ff(n, layer).saturating_mul(2)
}
pub(super) fn experts(n: &N<'_>, _: u32) -> u64 {
    n.count("expert_count")
}
pub(super) fn stated_expert_ff(n: &N<'_>, _: u32) -> u64 {
    n.each("expert_feed_forward_length", 0).unwrap_or(0)
}
/// The width of an expert, or what the dense width leaves for each chosen expert.
pub(super) fn expert_ff(n: &N<'_>, layer: u32) -> u64 {
    let used = n.each("expert_used_count", 0).unwrap_or(0);
    match stated_expert_ff(n, layer) {
        0 => ff(n, layer).checked_div(used).unwrap_or(0),
        width => width,
    }
}
pub(super) fn expert_ff2(n: &N<'_>, layer: u32) -> u64 {
    stated_expert_ff(n, layer).saturating_mul(2)
}
pub(super) fn shared_ff(n: &N<'_>, layer: u32) -> u64 {
    match n.count("expert_shared_feed_forward_length") {
        0 => ff(n, layer),
        width => width,
    }
}
pub(super) fn stated_shared_ff(n: &N<'_>, _: u32) -> u64 {
    n.count("expert_shared_feed_forward_length")
}
/// Shared experts as wide as the others.
pub(super) fn shared_experts_ff(n: &N<'_>, layer: u32) -> u64 {
    stated_expert_ff(n, layer).saturating_mul(n.count("expert_shared_count"))
}
pub(super) fn q_rank(n: &N<'_>, _: u32) -> u64 {
    n.count("attention.q_lora_rank")
}
pub(super) fn kv_rank(n: &N<'_>, _: u32) -> u64 {
    n.count("attention.kv_lora_rank")
}
pub(super) fn kv_rank_rotated(n: &N<'_>, layer: u32) -> u64 {
    kv_rank(n, layer).saturating_add(n.rotated())
}
pub(super) fn latent_k(n: &N<'_>, _: u32) -> u64 {
    match n.count("attention.key_length_mla") {
        0 => n.head("attention.key_length"),
        width => width,
    }
}
pub(super) fn latent_v(n: &N<'_>, _: u32) -> u64 {
    match n.count("attention.value_length_mla") {
        0 => n.head("attention.value_length"),
        width => width,
    }
}
pub(super) fn latent_q(n: &N<'_>, layer: u32) -> u64 {
    latent_k(n, layer).saturating_mul(n.heads(0))
}
pub(super) fn unrotated(n: &N<'_>, layer: u32) -> u64 {
    latent_k(n, layer).saturating_sub(n.rotated())
}
pub(super) fn latent_out(n: &N<'_>, layer: u32) -> u64 {
    latent_v(n, layer).saturating_mul(n.heads(0))
}
pub(super) fn latent_kv(n: &N<'_>, layer: u32) -> u64 {
    unrotated(n, layer).saturating_add(latent_v(n, layer)).saturating_mul(n.heads(0))
}
pub(super) fn index_head(n: &N<'_>, _: u32) -> u64 {
    n.count("attention.indexer.key_length")
}
pub(super) fn index_heads(n: &N<'_>, _: u32) -> u64 {
    n.count("attention.indexer.head_count")
}
pub(super) fn index_q(n: &N<'_>, layer: u32) -> u64 {
    index_head(n, layer).saturating_mul(index_heads(n, layer))
}
// Linear attention.
pub(super) fn conv(n: &N<'_>, _: u32) -> u64 {
    n.count("ssm.conv_kernel")
}
pub(super) fn state(n: &N<'_>, _: u32) -> u64 {
    n.count("ssm.state_size")
}
pub(super) fn v_heads(n: &N<'_>, _: u32) -> u64 {
    n.count("ssm.time_step_rank")
}
pub(super) fn v_heads2(n: &N<'_>, layer: u32) -> u64 {
    v_heads(n, layer).saturating_mul(2)
}
pub(super) fn values(n: &N<'_>, layer: u32) -> u64 {
    state(n, layer).saturating_mul(v_heads(n, layer))
}
pub(super) fn keys_values(n: &N<'_>, layer: u32) -> u64 {
    let keys = state(n, layer).saturating_mul(n.count("ssm.group_count"));
    keys.saturating_mul(2).saturating_add(values(n, layer))
}
pub(super) fn keys_values_gates(n: &N<'_>, layer: u32) -> u64 {
    keys_values(n, layer).saturating_add(values(n, layer))
}
pub(super) fn inner(n: &N<'_>, _: u32) -> u64 {
    n.count("ssm.inner_size")
}
pub(super) fn inner2(n: &N<'_>, layer: u32) -> u64 {
    inner(n, layer).saturating_mul(2)
}
pub(super) fn groups(n: &N<'_>, _: u32) -> u64 {
    n.count("ssm.group_count")
}
pub(super) fn inner_of_group(n: &N<'_>, layer: u32) -> u64 {
    inner(n, layer).checked_div(groups(n, layer)).unwrap_or(0)
}
/// What Mamba 2 convolves: values, and an input and an output matrix for each group.
pub(super) fn inner_states(n: &N<'_>, layer: u32) -> u64 {
    let states = groups(n, layer).saturating_mul(state(n, layer));
    inner(n, layer).saturating_add(states.saturating_mul(2))
}
pub(super) fn inner_states_heads(n: &N<'_>, layer: u32) -> u64 {
    let gates = inner(n, layer).saturating_add(v_heads(n, layer));
    inner_states(n, layer).saturating_add(gates)
}
pub(super) fn one_value(_: &N<'_>, _: u32) -> u64 {
    1
}
/// What time steps, input and output matrices of Mamba are computed from.
pub(super) fn rank_states(n: &N<'_>, layer: u32) -> u64 {
    v_heads(n, layer).saturating_add(state(n, layer).saturating_mul(2))
}
pub(super) fn short_kernel(n: &N<'_>, _: u32) -> u64 {
    n.count("shortconv.l_cache")
}
pub(super) fn kv_of_layer(n: &N<'_>, layer: u32) -> u64 {
    head(n, layer).saturating_mul(n.kv_heads(layer))
}
pub(super) fn embd_kv_kv(n: &N<'_>, layer: u32) -> u64 {
    embd(n, layer).saturating_add(kv_of_layer(n, layer).saturating_mul(2))
}
// Gemma 3n and 4. The numbers of Gemma 3n are constants of llama.cpp.
pub(super) fn altup(_: &N<'_>, _: u32) -> u64 {
    4
}
pub(super) fn altup_others(_: &N<'_>, _: u32) -> u64 {
    3
}
pub(super) fn altup_squared(_: &N<'_>, _: u32) -> u64 {
    16
}
pub(super) fn laurel(_: &N<'_>, _: u32) -> u64 {
    64
}
pub(super) fn altup_width(_: &N<'_>, _: u32) -> u64 {
    256
}
pub(super) fn altup_all(n: &N<'_>, layer: u32) -> u64 {
    altup_width(n, layer).saturating_mul(n.count("block_count"))
}
pub(super) fn per_layer(n: &N<'_>, _: u32) -> u64 {
    n.count("embedding_length_per_layer_input")
}
pub(super) fn per_layer_all(n: &N<'_>, layer: u32) -> u64 {
    per_layer(n, layer).saturating_mul(n.count("block_count"))
}
pub(super) fn slides(n: &N<'_>, layer: u32) -> bool {
    n.flag("attention.sliding_window_pattern", layer).unwrap_or(false)
}
pub(super) fn own_head(n: &N<'_>, layer: u32) -> u64 {
    match slides(n, layer) {
        true => n.count("attention.key_length_swa"),
        false => n.head("attention.key_length"),
    }
}
pub(super) fn own_q(n: &N<'_>, layer: u32) -> u64 {
    own_head(n, layer).saturating_mul(n.heads(layer))
}
pub(super) fn own_kv(n: &N<'_>, layer: u32) -> u64 {
    own_head(n, layer).saturating_mul(n.kv_heads(layer))
}
pub(super) fn full_pairs(n: &N<'_>, _: u32) -> u64 {
    n.head("attention.key_length") / 2
}

// Conditions.
pub(super) fn has_keys(n: &N<'_>, layer: u32) -> bool {
    n.kv_heads(layer) > 0
}
pub(super) fn keyless(n: &N<'_>, layer: u32) -> bool {
    !has_keys(n, layer)
}
/// llama.cpp takes the first layer's tensor for layers without one, and aborts if that is missing.
pub(super) fn is_first(_: &N<'_>, layer: u32) -> bool {
    layer == 0
}
pub(super) fn is_later(_: &N<'_>, layer: u32) -> bool {
    layer > 0
}
pub(super) fn dense(n: &N<'_>, _: u32) -> bool {
    n.count("expert_count") == 0
}
pub(super) fn mixture(n: &N<'_>, layer: u32) -> bool {
    !dense(n, layer)
}
pub(super) fn first(_: &N<'_>, layer: u32) -> bool {
    layer == 0
}
pub(super) fn not_first(n: &N<'_>, layer: u32) -> bool {
    !first(n, layer)
}
pub(super) fn leading(n: &N<'_>, layer: u32) -> bool {
    u64::from(layer) < n.count("leading_dense_block_count")
}
pub(super) fn later(n: &N<'_>, layer: u32) -> bool {
    !leading(n, layer)
}
/// Layers with experts, the last one of each period.
pub(super) fn stepped(n: &N<'_>, layer: u32) -> bool {
    let next = u64::from(layer).saturating_add(1);
    next.checked_rem(n.count("interleave_moe_layer_step")) == Some(0)
}
/// The dense layers between them.
pub(super) fn between(n: &N<'_>, layer: u32) -> bool {
    !stepped(n, layer)
}
pub(super) fn later_shared(n: &N<'_>, layer: u32) -> bool {
    later(n, layer) && n.count("expert_shared_count") > 0
}
pub(super) fn later_with_shared(n: &N<'_>, layer: u32) -> bool {
    later(n, layer) && stated_shared_ff(n, layer) > 0
}
pub(super) fn shares(n: &N<'_>, layer: u32) -> bool {
    mixture(n, layer) && stated_shared_ff(n, layer) > 0
}
pub(super) fn long(n: &N<'_>, _: u32) -> bool {
    n.text("rope.scaling.type") == Some("longrope")
}
pub(super) fn not_long(n: &N<'_>, layer: u32) -> bool {
    !long(n, layer)
}
pub(super) fn ranked(n: &N<'_>, layer: u32) -> bool {
    !light(n) && q_rank(n, layer) > 0
}
pub(super) fn unranked(n: &N<'_>, layer: u32) -> bool {
    !ranked(n, layer)
}
pub(super) fn absorbed(n: &N<'_>, _: u32) -> bool {
    n.has("attention.key_length_mla") && n.has("attention.value_length_mla")
}
pub(super) fn expanded(n: &N<'_>, layer: u32) -> bool {
    !absorbed(n, layer)
}
pub(super) fn many_layers(n: &N<'_>, _: u32) -> bool {
    n.count("block_count") >= 64
}
pub(super) fn recurrent(n: &N<'_>, layer: u32) -> bool {
    n.flag("attention.recurrent_layers", layer).unwrap_or_else(|| {
        let stated = n.count("full_attention_interval");
        let interval = if stated == 0 { 4 } else { stated };
        u64::from(layer).saturating_add(1).checked_rem(interval) != Some(0)
    })
}
pub(super) fn attends(n: &N<'_>, layer: u32) -> bool {
    !recurrent(n, layer)
}
pub(super) fn has_per_layer(n: &N<'_>, layer: u32) -> bool {
    per_layer(n, layer) > 0
}
pub(super) fn keeps_kv(n: &N<'_>, layer: u32) -> bool {
    let own = n.count("block_count").saturating_sub(n.count("attention.shared_kv_layers"));
    u64::from(layer) < own
}
pub(super) fn shares_kv(n: &N<'_>, layer: u32) -> bool {
    !keeps_kv(n, layer)
}

/// DeepSeek's models that llama.cpp takes for the light ones, by the number of layers, and whose
/// rank of queries it does not read.
pub(super) fn light(n: &N<'_>) -> bool {
    let layers = n.layers();
    layers == 27 || layers == 26 || (layers == 48 && n.vocab() == 128_256)
}

// Rules.
pub(super) fn key_is_value(n: &N<'_>) -> Option<String> {
    let (key, value) = (n.head("attention.key_length"), n.head("attention.value_length"));
    (key != value).then(|| {
        format!(
            "heads of width {key} and values of width {value}, which llama.cpp requires to be equal"
        )
    })
}
pub(super) fn whole_head(n: &N<'_>) -> Option<String> {
    let (head, rotated) = (n.head("attention.value_length"), n.rotated());
    (head != rotated).then(|| {
        format!("{rotated} elements of a head of width {head} are rotated, but llama.cpp rotates whole heads of this architecture")
    })
}
pub(super) fn needs_experts(n: &N<'_>) -> Option<String> {
    (n.count("expert_count") == 0)
        .then(|| "no experts, which llama.cpp requires of this architecture".to_owned())
}
pub(super) fn needs_xielu(n: &N<'_>) -> Option<String> {
    let keys = ["xielu.alpha_n", "xielu.alpha_p", "xielu.beta", "xielu.eps"];
    let missing = keys.iter().find(|key| !n.has_whole(key));
    missing.map(|key| format!("no {key}: llama.cpp does not load the file"))
}
pub(super) fn twice_as_wide(n: &N<'_>) -> Option<String> {
    let (width, inner) = (n.count("embedding_length"), n.count("ssm.inner_size"));
    (inner != width.saturating_mul(2)).then(|| {
        format!("ssm.inner_size is {inner}, but llama.cpp requires twice embedding_length, {width}")
    })
}
pub(super) fn needs_rank(n: &N<'_>) -> Option<String> {
    (!light(n) && !n.has("attention.q_lora_rank")).then(|| {
        "no attention.q_lora_rank: llama.cpp requires it unless the model has 26 or 27 layers"
            .to_owned()
    })
}
/// Latent attention is computed as attention with one key head, the latent and the rotated part. Its
/// values are part of the keys: llama.cpp does not read `attention.value_length` here.
pub(super) fn latent_is_one_head(n: &N<'_>) -> Option<String> {
    let (heads, width, wanted) =
        (n.kv_heads(0), n.head("attention.key_length"), kv_rank_rotated(n, 0));
    (absorbed(n, 0) && (heads != 1 || width != wanted)).then(|| {
        format!("{heads} key heads of width {width}, but llama.cpp requires one of {wanted}")
    })
}
pub(super) fn narrow_heads_rotate(n: &N<'_>) -> Option<String> {
    let stated = n.count("rope.dimension_count_swa");
    let rotated = if stated == 0 { n.rotated() } else { stated };
    let width = n.count("attention.key_length_swa");
    (rotated > width).then(|| {
        format!("{rotated} elements of a head of width {width} are rotated in layers with a window")
    })
}
pub(super) fn needs_token_types(n: &N<'_>) -> Option<String> {
    (n.token_types() == 0)
        .then(|| "no tokenizer.ggml.token_type_count: llama.cpp does not load the file".to_owned())
}
pub(super) fn four_sections(n: &N<'_>) -> Option<String> {
    let found = n.elements("rope.dimension_sections").filter(|found| *found != 4)?;
    Some(format!("rope.dimension_sections has {found} numbers, but llama.cpp requires 4"))
}
pub(super) fn sections_fit(n: &N<'_>) -> Option<String> {
    let width = n.head("attention.key_length");
    let sections = (0..4).filter_map(|place| n.each("rope.dimension_sections", place));
    let sum = sections.fold(0, u64::saturating_add);
    (sum > width).then(|| {
        format!(
            "rope.dimension_sections have {sum} pairs, but llama.cpp computes with at most {width}, \
             the width of a head"
        )
    })
}
pub(super) fn key_heads_divide(n: &N<'_>) -> Option<String> {
    let (values, keys) = (v_heads(n, 0), n.count("ssm.group_count"));
    (values.checked_rem(keys) != Some(0)).then(|| {
        format!("{values} value heads, but llama.cpp requires a multiple of the key heads, {keys}")
    })
}

/// llama.cpp tells EXAONE 4's models with windows by their number of layers.
pub(super) fn windows_of_64_layers(n: &N<'_>) -> Option<String> {
    (n.layers() != 64 && n.count("attention.sliding_window") > 0).then(|| {
        format!("attention.sliding_window has no effect: llama.cpp has windows in models of 64 layers only, and this one has {}", n.layers())
    })
}
pub(super) fn fused_expert_ff(n: &N<'_>, layer: u32) -> u64 {
    expert_ff(n, layer).saturating_mul(2)
}
pub(super) fn dense_2(n: &N<'_>, _: u32) -> u64 {
    n.count("dense_2_feat_out")
}
pub(super) fn dense_3(n: &N<'_>, _: u32) -> u64 {
    n.count("dense_3_feat_in")
}

/// Key heads of the width that follows from the residual stream.
pub(super) fn square_kv(n: &N<'_>, layer: u32) -> u64 {
    embd(n, layer).checked_div(n.heads(0)).unwrap_or(0).saturating_mul(n.kv_heads(0))
}

/// The labels of a classifier; one unless the file names them.
pub(super) fn one_class(n: &N<'_>, _: u32) -> u64 {
    n.labels()
}

pub(super) fn rms_for_layer_norms(_: &N<'_>) -> Option<String> {
    Some("norms are layer norms, but llama.cpp computes RMS norms".to_owned())
}

pub(super) fn softmax_for_sparse_mixer(_: &N<'_>) -> Option<String> {
    Some("each expert of a token has a softmax of its own, over the router's outputs near the largest, but llama.cpp computes one softmax over all".to_owned())
}

/// Transformers scales the decoder's output where input and output share a matrix. Its class of mT5
/// does not, and that of UMT5 always does.
pub(super) fn unscaled_logits(stated: &Map<String, Json>) -> Option<String> {
    let flag = |key: &str| stated.get(key).and_then(Json::as_bool);
    let tied = || flag("tie_word_embeddings").unwrap_or(true);
    let scales = match stated.get("model_type").and_then(Json::as_str)? {
        "t5" => flag("scale_decoder_outputs").unwrap_or_else(tied),
        other => other == "umt5",
    };
    scales.then(|| {
        "the logits are not divided by the square root of the width: their order is the \
            same, but samples need a temperature that is higher by that factor"
            .to_owned()
    })
}

/// The second layer of each period has experts.
pub(super) fn second_of_period(n: &N<'_>, layer: u32) -> bool {
    u64::from(layer).checked_rem(n.count("moe_every_n_layers")) == Some(1)
}
pub(super) fn other_of_period(n: &N<'_>, layer: u32) -> bool {
    !second_of_period(n, layer)
}
