//! Steps of plans: what a single block cannot say. Facts are those of the models' classes in
//! transformers.

use weighbridge::arch::{Dialect, RopeScalingKind, SourceKind};
use weighbridge::json::Json;
use weighbridge::model::Encoding;

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::math::{Activation, Xielu, normal_quantile};
use crate::plan::{
    Arrangement, BlockPlan, BranchScales, DistancePlan, LinearPlan, MixerPlan, Plan, Residual,
    Scoring, StateSpacePlan, Temperature,
};
use crate::rope::{self, Rope, Sinusoids};

/// A function that changes a plan, and its name in families' files.
pub(super) type Step = (&'static str, fn(&Facts<'_>, &mut Plan) -> Result<()>);

/// The steps that families' files name.
pub(super) const STEPS: &[Step] = &[
    ("altup", altup),
    ("apertus_activation", apertus_activation),
    ("beam_positions", beam_positions),
    ("big_bird_blocks", big_bird_blocks),
    ("bounded_routing", bounded_routing),
    ("clamped_swiglu", clamped_swiglu),
    ("cohere_experts", cohere_experts),
    ("computed_positions", computed_positions),
    ("bounded_decay", bounded_decay),
    ("branch_scales", branch_scales),
    ("chosen_blocks", chosen_blocks),
    ("corrected_routing", corrected_routing),
    ("differential", differential),
    ("distances", distances),
    ("falcon_positions", falcon_positions),
    ("first_gpt_activation", first_gpt_activation),
    ("gemma_activation", gemma_activation),
    ("halved_window", halved_window),
    ("heads_of_experts", heads_of_experts),
    ("latent_epsilon", latent_epsilon),
    ("layer_bases", layer_bases),
    ("llama4_heads", llama4_heads),
    ("mimo_attention", mimo_attention),
    ("minicpm3_scales", minicpm3_scales),
    ("minicpm_scales", minicpm_scales),
    ("mup_embedding", mup_embedding),
    ("minimax_residuals", minimax_residuals),
    ("mixer_norms", mixer_norms),
    ("negative_eigenvalues", negative_eigenvalues),
    ("no_windows", no_windows),
    ("optional_rope", optional_rope),
    ("partial_rope", partial_rope),
    ("plain_rope_of_windows", plain_rope_of_windows),
    ("refuse_blank_positions", refuse_blank_positions),
    ("refuse_indexer", refuse_indexer),
    ("rounded_embedding_scale", rounded_embedding_scale),
    ("refuse_larger_baichuan", refuse_larger_baichuan),
    ("refuse_loops", refuse_loops),
    ("refuse_two_directions", refuse_two_directions),
    ("refuse_unlisted_windows", refuse_unlisted_windows),
    ("scaled_outputs", scaled_outputs),
    ("stated_mixer_norms", stated_mixer_norms),
    ("searched_layers", searched_layers),
    ("step_minimum", step_minimum),
    ("stretched_rope", stretched_rope),
    ("temperature", temperature),
    ("untruncated_rope", untruncated_rope),
    ("yarn_magnitude", yarn_magnitude),
];

/// A GGUF file states the numbers of each layer's activation as keys; other files have tensors.
#[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
fn apertus_activation(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let negative = facts.listed("xielu.alpha_n").into_iter().zip(facts.listed("xielu.alpha_p"));
    let numbers =
        negative.zip(facts.listed("xielu.beta").into_iter().zip(facts.listed("xielu.eps")));
    for (layer, ((alpha_n, alpha_p), (beta, eps))) in plan.layers.iter_mut().zip(numbers) {
        let [alpha_n, alpha_p, beta, eps] = [alpha_n, alpha_p, beta, eps].map(|n| n as f32);
        layer.network.activation = Activation::Xielu(Xielu::stored(alpha_n, alpha_p, beta, eps));
    }
    Ok(())
}

/// Beyond so many positions, attention is to blocks, some of which are drawn by chance.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
fn big_bird_blocks(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.word(&["attention_type"]).is_none_or(|kind| kind == "block_sparse") {
        let random = facts.real(&["num_random_blocks"]).unwrap_or(3.0) as usize;
        let block = facts.real(&["block_size"]).unwrap_or(64.0) as usize;
        plan.longest = Some(random.saturating_mul(2).saturating_add(5).saturating_mul(block));
    }
    Ok(())
}

/// A window that counts the positions on both sides is half as long for a decoder.
fn halved_window(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let window = facts.config.attention.sliding_window.as_ref();
    if window.is_some_and(|window| window.source.ends_with("local_attention")) {
        for attention in plan.attentions() {
            attention.window = attention.window.map(|window| window / 2);
        }
    }
    Ok(())
}

/// Layers have the parts that an object for each of them states (Nemotron's search).
fn searched_layers(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let blocks = facts.list("block_configs");
    let wrong = |fault: String| Error::Mismatch(format!("block_configs {fault}"));
    // Files of other programs state none.
    if !blocks.is_empty() && blocks.len() != plan.layers.len() {
        let fault = format!("has {} values for {} layers", blocks.len(), plan.layers.len());
        return Err(wrong(fault));
    }
    for (place, layer) in plan.layers.iter_mut().enumerate() {
        let has = |part: &str, tensor: &str| {
            let name = format!("layers.{place}.{tensor}.weight");
            let Some(block) = blocks.get(place) else { return Ok(facts.model.has(&name)) };
            let is_none = block.get(part).and_then(|part| part.get("no_op"));
            let stated = is_none.and_then(Json::as_bool) != Some(true);
            match stated == facts.model.has(&name) {
                true => Ok(stated),
                false => {
                    let word = if stated { "has" } else { "has no" };
                    Err(wrong(format!("states that layer {place} {word} {part}: {name}")))
                }
            }
        };
        let parts = [has("attention", "attention.output")?, has("ffn", "ffn.down")?];
        layer.is_empty = parts == [false; 2];
    }
    Ok(())
}

/// Refuses stored sines and cosines of rotary embeddings that are not those that are computed.
fn computed_positions(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    let name = "encoder.embed_positions.weight";
    let auxiliary = &facts.model.resolution()?.auxiliary;
    let Some(found) = auxiliary.iter().find(|found| found.stored.ends_with(name)) else {
        return Ok(());
    };
    let stored = facts.stored(&found.stored)?;
    let width = size(facts.config.head_dim.value);
    let computed = Sinusoids::Open.rows(0, stored.len() / width.max(1), width);
    let mut pairs = stored.iter().zip(computed.values());
    if stored.len() != computed.values().len() || pairs.any(|(a, b)| (a - b).abs() > 1e-3) {
        let fault = format!("{} with values that are not sines and cosines", found.stored);
        return Err(Error::Unsupported(fault));
    }
    Ok(())
}

/// Refuses computed positions of which one is left blank, since it has the number of the padding.
fn refuse_blank_positions(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let first = plan.first_position as f32;
    if facts.real(&["pad_token_id"]).is_some_and(|padding| padding >= first) {
        return Err(Error::Unsupported("a position with the number of the padding".to_owned()));
    }
    Ok(())
}

/// Refuses attention to positions that an indexer chooses.
fn refuse_indexer(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    let mut names = facts.model.resolution()?.mapped.iter().map(|mapping| &mapping.canonical);
    if names.any(|name| name.contains(".attention.indexer.")) {
        let fault = "attention to positions that an indexer chooses (DeepSeek 3.2)";
        return Err(Error::Unsupported(fault.to_owned()));
    }
    Ok(())
}

/// YaRN's magnitude multiplies the scores of latent attention.
fn yarn_magnitude(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let scaling = &facts.config.rope_scaling;
    if scaling.kind.as_ref().is_some_and(|kind| kind.value == RopeScalingKind::Yarn) {
        let factor = scaling.factor.as_ref().map_or(1.0, |factor| factor.value);
        // llama.cpp's converter keeps a tenth of it.
        let kept = scaling.log_multiplier.as_ref().map(|tenth| 10.0 * tenth.value);
        let all = scaling.mscale_all_dim.as_ref().map(|all| all.value).or(kept);
        let all = all.filter(|all| *all > 0.0);
        let magnitude = all.map_or(1.0, |all| rope::yarn_magnitude(factor, all));
        plan.attentions().for_each(|attention| attention.scale *= magnitude * magnitude);
    }
    Ok(())
}

/// The norms in the narrower space have an epsilon of their own, whatever the config says of the others.
fn latent_epsilon(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    for layer in &mut plan.layers {
        if let MixerPlan::Latent(_, latent) = &mut layer.mixer {
            latent.eps = 1e-6;
        }
    }
    Ok(())
}

/// DeepSeek 3 corrects the scores by which experts are chosen, and has sigmoids.
fn corrected_routing(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let mut names = facts.model.resolution()?.mapped.iter().map(|mapping| &mapping.canonical);
    let third = names.any(|name| name.ends_with("router.correction_bias"));
    let normalized = &facts.config.experts.expert_weights_norm;
    let normalized = normalized.as_ref().is_some_and(|norm| norm.value);
    for routing in plan.routings() {
        if !facts.states_gating_in_gguf() {
            routing.scoring = if third { Scoring::Sigmoid } else { Scoring::Softmax };
        }
        // The class of version 2 takes no notice of the config's flag.
        routing.normalized = third && normalized;
    }
    Ok(())
}

/// Attention and network are added together, but in models with ALiBi.
fn falcon_positions(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    // The GGUF files with ALiBi are those of models whose parts follow each other.
    let slopes = facts.real(&["attention.max_alibi_bias"]).is_some_and(|most| most > 0.0);
    let alibi = facts.flag(&["alibi"]).unwrap_or(slopes);
    let newer = facts.flag(&["new_decoder_architecture"]).unwrap_or(false);
    if newer || facts.flag(&["parallel_attn"]).unwrap_or(!slopes) {
        plan.arrangement = Arrangement::Parallel;
    }
    if alibi {
        for attention in plan.attentions() {
            // It is added before scores are scaled.
            (attention.rope, attention.alibi) = (None, Some(attention.scale));
        }
    }
    Ok(())
}

/// The first GPT has its own names for activations: "gelu" has tanh in place of the error function.
fn first_gpt_activation(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let activation = match facts.word(&["afn"]).unwrap_or("gelu") {
        "gelu" => Activation::GeluTanh,
        "relu" => Activation::Relu,
        "silu" | "swish" => Activation::Silu,
        other => return Err(Error::Unsupported(format!("the activation \"{other}\""))),
    };
    plan.set_activation(activation);
    Ok(())
}

/// The activation of the first Gemma. Its class takes the "gelu" of its releases as that with tanh.
fn gemma_activation(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    match facts.config.activation.as_ref().map(|activation| activation.value.as_str()) {
        None | Some("gelu") => plan.set_activation(Activation::GeluTanh),
        Some(_) => {}
    }
    Ok(())
}

/// Several residual streams, and gates of which only the largest stay.
fn altup(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let active = facts.real(&["altup.active_idx", "altup_active_idx"]).unwrap_or(0.0) as usize;
    plan.active_stream = Some(active);
    // The part of gates that is cut, or the deviations above the mean where that is.
    let parts = facts.reals(&["activation_sparsity_pattern"]);
    let deviations = facts.reals(&["activation_sparsity_scale"]);
    let cut = |part: f64| if part > 0.0 { normal_quantile(part) } else { f64::NEG_INFINITY };
    let deviations = deviations.or(parts.map(|parts| parts.into_iter().map(cut).collect()));
    for (layer, deviations) in plan.layers.iter_mut().zip(deviations.unwrap_or_default()) {
        #[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
        let narrow = deviations as f32;
        layer.network.sparsity = Some(narrow).filter(|deviations| deviations.is_finite());
    }
    Ok(())
}

/// The bounds of gates are in the config, or those of the published models.
fn clamped_swiglu(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let alpha = facts.real(&["swiglu_alpha"]).unwrap_or(1.702);
    let limit = facts.real(&["swiglu_limit"]).unwrap_or(7.0);
    plan.set_activation(Activation::ClampedSwiglu { alpha, limit });
    Ok(())
}

/// The borders of YaRN's ramp are not rounded. GGUF has no key for it; a config that the file keeps says it otherwise.
fn untruncated_rope(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let kind = facts.config.rope_scaling.kind.as_ref();
    let is_kept = kind.is_some_and(|kind| kind.source.kind() == SourceKind::Kept);
    if facts.model.resolution()?.dialect == Dialect::Gguf && !is_kept {
        let base = &facts.config.rope_theta;
        let of_windows = facts.config.rope.local_theta.as_ref().unwrap_or(base);
        for (rope, base) in plan.ropes.iter_mut().zip([base, of_windows]) {
            *rope = Rope::untruncated(facts, base.value)?;
        }
    }
    Ok(())
}

/// The base of rotary embeddings is stretched once and for all.
fn stretched_rope(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if let Some(base) = facts.config.stretched_rope_theta() {
        plan.ropes.fill(Rope::plain(facts, base, facts.rotated()));
    }
    Ok(())
}

/// Refuses layers that are run several times.
fn refuse_loops(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    if facts.real(&["num_loops"]).is_some_and(|loops| loops > 1.0) {
        return Err(Error::Unsupported("layers that are run several times".to_owned()));
    }
    Ok(())
}

/// Queries of Ministral 3 grow with the logarithm of the position.
fn temperature(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let names = ["attention.temperature_scale", "llama_4_scaling_beta", "llama_4_scaling.beta"];
    let growth = facts.real(&names);
    let trained = facts.config.rope_scaling.original_max_seq_len.as_ref();
    if let (Some(growth), Some(trained)) = (growth, trained) {
        let step = size(trained.value);
        let temperature = Some(Temperature::Logarithm { factor: growth, step, first: 0 });
        plan.attentions().for_each(|attention| attention.temperature = temperature);
    }
    Ok(())
}

/// Removes the rotary embeddings of the last layer of each period, unless the config says which layers
/// have none.
pub(super) fn except_every(facts: &Facts<'_>, plan: &mut Plan, period: usize) -> Result<()> {
    let rope = &facts.config.rope;
    if rope.layers.is_none() && rope.skip_interval.is_none() {
        let last = plan.attentions().skip(period.saturating_sub(1)).step_by(period.max(1));
        last.for_each(|attention| attention.rope = None);
    }
    Ok(())
}

/// Configs of MiniCPM say what the scales follow from; GGUF has the scales.
#[expect(clippy::cast_precision_loss, reason = "widths")]
fn minicpm_scales(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if let Some(depth) = facts.real(&["scale_depth"]) {
        plan.residual = Residual::Scaled(depth / (plan.layers.len() as f32).sqrt());
    }
    if let Some(base) = facts.real(&["dim_model_base"]) {
        plan.logit_scale = base / plan.dim as f32;
    }
    Ok(())
}

/// The 7B models of version 1 are Llama's; the larger ones have ALiBi, and those of version 2 norm the
/// rows of the output matrix.
fn refuse_larger_baichuan(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let second = facts.config.vocab_size.as_ref().is_some_and(|size| size.value == 125_696);
    if plan.layers.len() == 40 || second {
        return Err(Error::Unsupported("Baichuan 13B and Baichuan 2".to_owned()));
    }
    Ok(())
}

/// The experts of the larger Llama 4, which has no norms of queries and keys.
const MAVERICK: u32 = 128;

/// Norms of queries and keys, and queries that grow with the position, by layer.
fn llama4_heads(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let stated = facts.flag(&["use_qk_norm"]);
    let norms = stated.unwrap_or(facts.config.n_experts.value != MAVERICK);
    let grows = facts.flag(&["attn_temperature_tuning"]).unwrap_or(true);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positions")]
    let step = facts.real(&["floor_scale"]).map_or(8192, |step| step as usize);
    let factor = facts.real(&["attn_scale"]).unwrap_or(0.1);
    for attention in plan.attentions() {
        match attention.rope {
            Some(_) => (attention.bare_norms, attention.normed_last) = (norms, true),
            None if grows => {
                attention.temperature = Some(Temperature::Logarithm { factor, step, first: 1 });
            }
            None => {}
        }
    }
    Ok(())
}

/// GGUF has no keys for the scales: those of the published model are llama.cpp's own numbers.
#[expect(clippy::cast_precision_loss, reason = "widths")]
fn minicpm3_scales(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.scales.embedding_scale.is_none() {
        plan.embedding_scale = 12.0;
    }
    let depth = facts.real(&["scale_depth"]).unwrap_or(1.4);
    plan.residual = Residual::Scaled(depth / (plan.layers.len() as f32).sqrt());
    plan.logit_scale = facts.real(&["dim_model_base"]).unwrap_or(256.0) / plan.dim as f32;
    Ok(())
}

/// Layers with a window (OLMo 3) have rotary embeddings without the scaling of the others, unless they have
/// a base of their own.
fn plain_rope_of_windows(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.rope.local_theta.is_some() {
        return Ok(());
    }
    let plain = Rope::plain(facts, facts.config.rope_theta.value, facts.rotated());
    plan.ropes.iter_mut().skip(1).for_each(|rope| *rope = plain.clone());
    Ok(())
}

/// Scores have a bias for distances.
fn distances(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let attention = &facts.config.attention;
    let buckets = attention.relative_buckets.as_ref();
    let buckets =
        buckets.ok_or_else(|| Error::Mismatch("the config has no relative_buckets".to_owned()))?;
    let distances = DistancePlan {
        buckets: size(buckets.value),
        farthest: attention.relative_max_distance.as_ref().map_or(128, |far| size(far.value)),
        of_layers: facts.model.has("layers.1.attention.relative_bias.weight"),
    };
    for attention in plan.attentions() {
        attention.distances = Some(distances);
    }
    if facts.config.activation.is_none() {
        let gated = facts.model.has("layers.0.ffn.gate.weight");
        plan.set_activation(if gated { Activation::GeluTanh } else { Activation::Relu });
    }
    Ok(())
}

/// Divides the output by the square root of the width, where the class scales it.
fn scaled_outputs(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if scales_outputs(facts) {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (plan.dim as f32).sqrt().recip();
        plan.logit_scale = scale;
    }
    Ok(())
}

/// The first version, whose networks have no gate, scales what its one matrix of inputs and outputs is
/// multiplied with. So do later models with one matrix.
fn scales_outputs(facts: &Facts<'_>) -> bool {
    let one_matrix = facts.config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
    let first_version = !facts.model.has("layers.0.ffn.gate.weight");
    let stated = facts.flag(&["scale_decoder_outputs"]);
    stated.unwrap_or(first_version || one_matrix)
}

/// The linear attention of every layer that has it.
fn linears(plan: &mut Plan) -> impl Iterator<Item = &mut LinearPlan> {
    plan.layers.iter_mut().filter_map(|layer| match &mut layer.mixer {
        MixerPlan::Linear(linear) => Some(linear),
        _ => None,
    })
}

/// The state space of every layer that has one.
fn state_spaces(plan: &mut Plan) -> impl Iterator<Item = &mut StateSpacePlan> {
    plan.layers.iter_mut().filter_map(|layer| match &mut layer.mixer {
        MixerPlan::StateSpace(own) | MixerPlan::Both(_, own, _) => Some(own),
        _ => None,
    })
}

/// OLMo Hybrid writes states at up to twice the rate, unless its config says otherwise.
fn negative_eigenvalues(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let doubled = facts.flag(&["linear_allow_neg_eigval"]).unwrap_or(true);
    linears(plan).for_each(|linear| linear.rate_scale = if doubled { 2.0 } else { 1.0 });
    Ok(())
}

/// States of Ling 3 decay by at most a stated factor in each position.
fn bounded_decay(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let bound = facts.real(&["kda_lower_bound"]).unwrap_or(-5.0);
    let bound = Some(bound).filter(|_| facts.flag(&["kda_safe_gate"]).unwrap_or(true));
    linears(plan).for_each(|linear| linear.decay_bound = bound);
    Ok(())
}

/// Published configs of OLMo Hybrid state a base of null: the models have no rotary embeddings.
fn optional_rope(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.rope_theta.source.kind() == SourceKind::Usual {
        plan.attentions().for_each(|attention| attention.rope = None);
    }
    Ok(())
}

/// The class states a window, and computes none.
fn no_windows(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    plan.attentions().for_each(|attention| attention.window = None);
    Ok(())
}

/// The residual stream and what is added to it have factors, for each kind of layer. All layers with
/// attention have a window, if there is one.
fn minimax_residuals(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let window = facts.config.attention.sliding_window.as_ref().map(|window| size(window.value));
    plan.attentions().for_each(|attention| attention.window = window);
    plan.arrangement = Arrangement::NormedStream;
    // GGUF has one factor of the stream for all parts.
    let of_all = facts.config.scales.residual_scale.as_ref().map_or(1.0, |scale| scale.value);
    plan.residual = Residual::Scaled(1.0);
    let pair = |part: &str| {
        let factor = |which: &str| facts.real(&[format!("{part}_{which}_factor").as_str()]);
        (factor("alpha").unwrap_or(of_all), factor("beta").unwrap_or(1.0))
    };
    let (full, linear, network) = (pair("full_attn"), pair("linear_attn"), pair("mlp"));
    for layer in &mut plan.layers {
        let mixed = if matches!(layer.mixer, MixerPlan::Decaying(_)) { linear } else { full };
        layer.residuals = [mixed, network];
    }
    Ok(())
}

/// The inputs and outputs of the states are normed, without factors.
fn mixer_norms(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let eps = facts.real(&["mixer_rms_eps"]).unwrap_or(1e-6);
    state_spaces(plan).for_each(|own| own.bare_norms = Some(eps));
    Ok(())
}

/// The same in GGUF, with the one epsilon that llama.cpp has for all norms.
fn stated_mixer_norms(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.flag(&["ssm.dt_b_c_rms"]) == Some(true) {
        let eps = plan.norm.eps;
        state_spaces(plan).for_each(|own| own.bare_norms = Some(eps));
    }
    Ok(())
}

/// Time steps have a lower bound only. No GGUF file states it, and llama.cpp has none.
fn step_minimum(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let usual = (facts.model.encoding() != Encoding::Gguf).then_some(1e-3);
    let least = facts.real(&["time_step_min"]).or(usual);
    let bounds = least.map(|least| (least, f32::INFINITY));
    state_spaces(plan).for_each(|own| own.step_bounds = bounds);
    Ok(())
}

/// In layers with an indexer, attention sees the blocks of keys that it chooses.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers")]
fn chosen_blocks(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let number = |[name, nested]: [&str; 2], usual: usize| {
        let stated = facts.real(&[name]).or(facts.nested("sparse_attention_config", nested));
        stated.map_or(usual, |number| number as usize)
    };
    let blocks = BlockPlan {
        heads: number(["index_n_heads", "sparse_num_index_heads"], 4),
        head_dim: number(["index_head_dim", "sparse_index_dim"], 128),
        size: number(["index_block_size", "sparse_block_size"], 128),
        chosen: number(["index_topk_blocks", "sparse_topk_blocks"], 16),
        local: number(["index_local_blocks", "sparse_local_block"], 1),
    };
    for (place, layer) in plan.layers.iter_mut().enumerate() {
        if let MixerPlan::Attention(attention) = &mut layer.mixer
            && facts.model.has(&format!("layers.{place}.attention.indexer.k.weight"))
        {
            attention.blocks = Some(blocks);
        }
    }
    Ok(())
}

/// The class takes no notice of `rotary_dim`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a head")]
#[expect(clippy::cast_precision_loss, reason = "heads are narrow")]
fn partial_rope(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let part = facts.config.rope.partial_factor.as_ref().map_or(1.0, |part| part.value);
    let rotated = (size(facts.config.head_dim.value) as f32 * part) as usize;
    plan.ropes.fill(Rope::scaled(facts, facts.config.rope_theta.value, rotated)?);
    Ok(())
}

/// The class multiplies embeddings by the root of the width as a BF16.
#[expect(clippy::cast_precision_loss, reason = "a width")]
fn rounded_embedding_scale(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let bits = (plan.dim as f32).sqrt().to_bits();
    // To the nearest, of two equally near ones to the even one.
    let rounded = bits + 0x7FFF + (bits >> 16 & 1);
    plan.embedding_scale = f32::from_bits(rounded & 0xFFFF_0000);
    Ok(())
}

/// Differential attention: the factor of the second half of the heads grows with the layer.
#[expect(clippy::cast_precision_loss, reason = "numbers of layers")]
fn differential(_: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    for (layer, attention) in plan.attentions().enumerate() {
        attention.differential = Some(0.8 - 0.6 * (-0.3 * layer as f32).exp());
    }
    Ok(())
}

/// The factors of Falcon H1, each of which is 1 unless the config states it.
#[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
fn branch_scales(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let one = |name: &str| facts.real(&[name]).unwrap_or(1.0);
    let list = |name: &str| facts.reals(&[name]).unwrap_or_default();
    let scales = BranchScales {
        attention_input: one("attention_in_multiplier"),
        attention_output: one("attention_out_multiplier"),
        state_output: one("ssm_out_multiplier"),
    };
    let (input, parts, networks) =
        (one("ssm_in_multiplier"), list("ssm_multipliers"), list("mlp_multipliers"));
    // llama.cpp gates before it norms.
    let usual = facts.model.encoding() != Encoding::Gguf;
    let gated_last = facts.flag(&["mamba_norm_before_gate"]).unwrap_or(usual);
    for layer in &mut plan.layers {
        if let MixerPlan::Both(attention, own, found) = &mut layer.mixer {
            attention.scale *= one("key_multiplier");
            *found = scales;
            (own.input_scale, own.gated_last) = (input, gated_last);
            let factors = own.part_scales.iter_mut().zip(&parts);
            factors.for_each(|(factor, stated)| *factor = *stated as f32);
        }
        if let [gate, down] = networks.as_slice() {
            let network = &mut layer.network;
            (network.gate_scale, network.output_scale) = (*gate as f32, *down as f32);
        }
    }
    plan.logit_scale = one("lm_head_multiplier");
    Ok(())
}

/// Each layer has a base of rotary embeddings of its own; a layer with the base 0 has none.
fn layer_bases(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let Some(bases) = facts.reals(&["layer_rope_theta"]) else { return Ok(()) };
    if bases.len() != plan.layers.len() {
        let fault = format!("{} bases of {} layers", bases.len(), plan.layers.len());
        return Err(Error::Mismatch(fault));
    }
    #[expect(clippy::cast_possible_truncation, reason = "models compute in f32")]
    let bases: Vec<f32> = bases.into_iter().map(|base| base as f32).collect();
    let mut kinds: Vec<f32> = bases.iter().copied().filter(|base| *base != 0.0).collect();
    kinds.sort_by(f32::total_cmp);
    kinds.dedup();
    for (attention, base) in plan.attentions().zip(&bases) {
        attention.rope = kinds.iter().position(|kind| kind == base);
    }
    let rope = |base: &f32| Rope::scaled(facts, *base, facts.rotated());
    plan.ropes = kinds.iter().map(rope).collect::<Result<_>>()?;
    Ok(())
}

/// The embedding is multiplied by the square root of its width if the config says so. GGUF does not say
/// it: llama.cpp always does it.
fn mup_embedding(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let usual = facts.model.resolution()?.dialect == Dialect::Gguf;
    if facts.flag(&["mup_enabled"]).unwrap_or(usual) {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (plan.dim as f32).sqrt();
        plan.embedding_scale = scale;
    }
    Ok(())
}

/// Refuses Gemma 4's attention in both directions, which has half of the window on each side.
fn refuse_two_directions(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    if facts.word(&["use_bidirectional_attention"]) == Some("all") {
        return Err(Error::Unsupported("attention in both directions (Gemma 4)".to_owned()));
    }
    Ok(())
}

/// Refuses the windows of Qwen's first experts, which alternating layers have, unless they are listed.
fn refuse_unlisted_windows(facts: &Facts<'_>, _: &mut Plan) -> Result<()> {
    if facts.flag(&["use_sliding_window"]) == Some(true) && !facts.is_stated("layer_types") {
        let fault = "windows without a list of layer_types (use_sliding_window)";
        return Err(Error::Unsupported(fault.to_owned()));
    }
    Ok(())
}

/// Rotary embeddings turn in the other direction.
pub(super) fn reversed(plan: &mut Plan) -> Result<()> {
    plan.ropes =
        std::mem::take(&mut plan.ropes).into_iter().map(Rope::reversed).collect::<Result<_>>()?;
    Ok(())
}

/// Beam's layers without a window have no rotary embeddings; their queries grow with the position.
fn beam_positions(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.rope.local_theta.is_none()
        || facts.config.rope_theta.source.is_within("full_attention")
    {
        let fault = "rotary embeddings in layers without a window, or none in those with one";
        return Err(Error::Unsupported(fault.to_owned()));
    }
    for attention in plan.attentions().filter(|attention| attention.window.is_none()) {
        attention.rope = None;
        attention.temperature = Some(Temperature::Power { length: 2048.0, exponent: 0.1 });
    }
    Ok(())
}

/// The router's outputs are bounded if the config says so.
fn bounded_routing(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let cap = facts.real(&["moe_router_logit_softcapping"]).filter(|cap| *cap > 0.0);
    plan.routings().for_each(|routing| routing.softcap = cap);
    Ok(())
}

/// Cohere's experts: scores of the chosen ones alone, and the mean with a shared expert. First layers
/// without experts may have rotary embeddings although they have no window.
fn cohere_experts(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    // GGUF states it as other families do.
    let stated = facts.config.experts.expert_gating.as_ref().map(|gating| gating.value.name());
    let normalized = facts.config.experts.expert_weights_norm.as_ref();
    let scoring = match facts.word(&["expert_selection_fn"]).or(stated).unwrap_or("softmax") {
        // The class divides the weights whatever its config says, llama.cpp if its key says so.
        "softmax"
            if normalized.is_some_and(|norm| {
                !norm.value && norm.source.ends_with("expert_weights_norm")
            }) =>
        {
            let fault =
                "weights of experts that are not divided by their sum (expert_weights_norm)";
            return Err(Error::Unsupported(fault.to_owned()));
        }
        "softmax" => Scoring::SoftmaxOfChosen,
        "sigmoid" => Scoring::Sigmoid,
        other => return Err(Error::Unsupported(format!("experts chosen by {other}"))),
    };
    let has_shared = facts.config.experts.n_shared_experts.as_ref().is_some_and(|n| n.value > 0);
    let both = match facts.word(&["shared_expert_combination_strategy"]).unwrap_or("average") {
        "average" if has_shared => 0.5,
        "average" | "sum" => 1.0,
        other => return Err(Error::Unsupported(format!("shared experts combined by {other}"))),
    };
    for routing in plan.routings() {
        routing.scoring = scoring;
        routing.scale *= both;
        routing.shared_scale = both;
    }
    if facts.real(&["prefix_dense_sliding_window_pattern"]).is_none_or(|period| period == 1.0) {
        for (layer, attention) in plan.attentions().enumerate() {
            if !facts.model.has(&format!("layers.{layer}.ffn.router.weight")) {
                attention.rope = attention.rope.or(Some(0));
            }
        }
    }
    Ok(())
}

/// Each chosen expert has a query for each key head, whatever number of heads the config states.
fn heads_of_experts(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if let Some(used) = &facts.config.experts.n_experts_used {
        plan.attentions().for_each(|own| own.heads = own.kv_heads * size(used.value));
    }
    Ok(())
}

/// MiMo V2's values are scaled. GGUF states the factor, if there is one.
fn mimo_attention(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let key = "attention_value_scale";
    let is_known = facts.is_stated(key) || facts.model.encoding() == Encoding::Gguf;
    let scale = facts.real(&[key]).unwrap_or(if is_known { 1.0 } else { 0.707 });
    plan.attentions().for_each(|attention| attention.value_scale = scale);
    Ok(())
}
