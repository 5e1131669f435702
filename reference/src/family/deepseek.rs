//! DeepSeek 2 and 3 and Kimi K2: latent attention, experts in groups.

use weighbridge::arch::RopeScalingKind;

use super::Family;
use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::plan::{MixerPlan, Plan, Scoring};
use crate::rope::yarn_magnitude;

pub(super) static FAMILIES: &[Family] = &[Family { name: "deepseek2", adjust }];

/// Epsilon of the norms in the narrower space, whatever the config says of the others.
const LATENT_EPS: f32 = 1e-6;

fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    if facts.model.has("layers.0.attention.indexer.k.weight") {
        let fault = "attention to positions that an indexer chooses (DeepSeek 3.2)";
        return Err(Error::Unsupported(fault.to_owned()));
    }
    let scaling = &facts.config.rope_scaling;
    if scaling.kind.as_ref().is_some_and(|kind| kind.value == RopeScalingKind::Yarn) {
        let factor = scaling.factor.as_ref().map_or(1.0, |factor| factor.value);
        // llama.cpp's converter keeps a tenth of it.
        let kept = scaling.log_multiplier.as_ref().map(|tenth| 10.0 * tenth.value);
        let all = scaling.mscale_all_dim.as_ref().map(|all| all.value).or(kept);
        let magnitude = all.filter(|all| *all > 0.0).map_or(1.0, |all| yarn_magnitude(factor, all));
        plan.attentions().for_each(|attention| attention.scale *= magnitude * magnitude);
    }
    for layer in &mut plan.layers {
        if let MixerPlan::Latent(_, latent) = &mut layer.mixer {
            latent.eps = LATENT_EPS;
        }
    }
    // Version 3 corrects the scores by which experts are chosen, and has sigmoids.
    let corrected = facts.model.resolution()?.mapped.iter();
    let corrected = corrected.map(|mapping| mapping.canonical.as_str());
    let third = corrected.into_iter().any(|name| name.ends_with("router.correction_bias"));
    let normalized = &facts.config.experts.expert_weights_norm;
    let normalized = normalized.as_ref().is_some_and(|norm| norm.value);
    for routing in plan.routings() {
        routing.scoring = if third { Scoring::Sigmoid } else { Scoring::Softmax };
        // The class of version 2 takes no notice of the config's flag.
        routing.normalized = third && normalized;
    }
    Ok(())
}
