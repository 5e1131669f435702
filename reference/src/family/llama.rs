//! Llama and the families that are like it but for their numbers.

use super::{Family, as_configured};
use weighbridge::arch::NormKind;

use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::math::Activation;
use crate::plan::{Plan, Temperature};

pub(super) static FAMILIES: &[Family] = &[
    Family { name: "llama", adjust: llama },
    Family { name: "arcee", adjust: arcee },
    Family { name: "baichuan", adjust: baichuan },
    Family { name: "internlm2", adjust: as_configured },
    Family { name: "olmo", adjust: olmo },
    Family { name: "granite", adjust: divided_logits },
    Family { name: "granite_hybrid", adjust: divided_logits },
    Family { name: "deepseek", adjust: deepseek },
];

fn llama(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.real(&["num_loops"]).is_some_and(|loops| loops > 1.0) {
        return Err(Error::Unsupported("layers that are run several times".to_owned()));
    }
    // Ministral 3: queries grow with the logarithm of the position.
    let growth = facts.real(&["attention.temperature_scale", "llama_4_scaling_beta"]);
    let trained = facts.config.rope_scaling.original_max_seq_len.as_ref();
    if let (Some(growth), Some(trained)) = (growth, trained) {
        let step = size(trained.value);
        let temperature = Some(Temperature { factor: growth, step, first: 0 });
        plan.attentions().for_each(|attention| attention.temperature = temperature);
    }
    if facts.named() == "smollm3" {
        smollm3(facts, plan);
    }
    divided_logits(facts, plan)?;
    minicpm(facts, plan);
    Ok(())
}

/// Every fourth layer has no rotary embeddings, unless the config says which.
fn smollm3(facts: &Facts<'_>, plan: &mut Plan) {
    let rope = &facts.config.rope;
    if rope.layers.is_none() && rope.skip_interval.is_none() {
        plan.attentions().skip(3).step_by(4).for_each(|attention| attention.rope = None);
    }
}

/// Configs of MiniCPM say what the scales follow from; GGUF has the scales.
#[expect(clippy::cast_precision_loss, reason = "widths")]
fn minicpm(facts: &Facts<'_>, plan: &mut Plan) {
    if let Some(depth) = facts.real(&["scale_depth"]) {
        plan.residual_scale = depth / (plan.layers.len() as f32).sqrt();
    }
    if let Some(base) = facts.real(&["dim_model_base"]) {
        plan.logit_scale = base / plan.dim as f32;
    }
}

fn divided_logits(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let scale = facts.config.scales.logit_scale.as_ref();
    plan.logit_scale = scale.map_or(1.0, |scale| scale.value.recip());
    Ok(())
}

fn arcee(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.config.activation.is_none() {
        plan.set_activation(Activation::ReluSquared);
    }
    Ok(())
}

/// The 7B models of version 1 are Llama's; the larger ones have ALiBi, and those of version 2 norm the
/// rows of the output matrix.
fn baichuan(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let second = facts.config.vocab_size.as_ref().is_some_and(|size| size.value == 125_696);
    if plan.layers.len() == 40 || second {
        return Err(Error::Unsupported("Baichuan 13B and Baichuan 2".to_owned()));
    }
    Ok(())
}

/// Norms without factors; queries, keys and values are bounded.
fn olmo(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    (plan.norm.kind, plan.norm.bare, plan.norm.eps) = (NormKind::Layer, true, 1e-5);
    let bound = facts.real(&["attention.clamp_kqv", "clip_qkv"]);
    plan.attentions().for_each(|attention| attention.clip = bound);
    Ok(())
}

fn deepseek(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let normalized = facts.config.experts.expert_weights_norm.as_ref();
    let normalized = normalized.is_some_and(|norm| norm.value);
    plan.routings().for_each(|routing| routing.normalized = normalized);
    Ok(())
}
