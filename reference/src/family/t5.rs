//! T5 and its relatives: an encoder and a decoder of text, and such encoders alone.

use super::Family;
use crate::error::{Error, Result};
use crate::facts::{Facts, size};
use crate::math::Activation;
use crate::plan::{DistancePlan, LayerPlan, MixerPlan, Plan, TextEncoderPlan};

pub(super) static FAMILIES: &[Family] =
    &[Family { name: "t5", adjust: pair }, Family { name: "t5encoder", adjust: encoder }];

/// What both have: scores that are not scaled, and a bias for distances.
fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
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
        (attention.scale, attention.distances) = (1.0, Some(distances));
    }
    if facts.config.activation.is_none() {
        let gated = facts.model.has("layers.0.ffn.gate.weight");
        plan.set_activation(if gated { Activation::GeluTanh } else { Activation::Relu });
    }
    Ok(())
}

fn encoder(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    adjust(facts, plan)?;
    plan.attentions().for_each(|attention| attention.causal = false);
    Ok(())
}

fn pair(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    adjust(facts, plan)?;
    if scales_outputs(facts) {
        #[expect(clippy::cast_precision_loss, reason = "a width")]
        let scale = (plan.dim as f32).sqrt().recip();
        plan.logit_scale = scale;
    }
    let first = plan.layers.first();
    let first = first.ok_or_else(|| Error::Unsupported("a decoder without layers".to_owned()))?;
    let MixerPlan::Attention(mut attention) = first.mixer.clone() else {
        return Err(Error::Unsupported("a decoder without attention".to_owned()));
    };
    attention.causal = false;
    let layer = LayerPlan { mixer: MixerPlan::Attention(attention), network: first.network };
    let count = facts.config.encoder.enc_n_layers.as_ref();
    let count = count.ok_or_else(|| Error::Mismatch("an encoder without layers".to_owned()))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a token")]
    let start = facts.real(&["decoder_start_token_id"]).unwrap_or(0.0) as u32;
    plan.text_encoder = Some(TextEncoderPlan { layers: vec![layer; size(count.value)], start });
    Ok(())
}

/// The first version, whose networks have no gate, scales what its one matrix of inputs and outputs is
/// multiplied with. So do later models with one matrix, other than mT5.
fn scales_outputs(facts: &Facts<'_>) -> bool {
    let one_matrix = facts.config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
    let first_version = !facts.model.has("layers.0.ffn.gate.weight");
    let stated = facts.flag(&["scale_decoder_outputs"]);
    stated.unwrap_or(facts.named() != "mt5" && (first_version || one_matrix))
}
