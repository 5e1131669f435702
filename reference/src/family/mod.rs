//! Plans of families: the blocks that the `[decoder]` section of a family's file names, in order. They
//! say what the config and the tensors do not.

mod steps;

use weighbridge::arch::{NormKind, PlanLine};

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, Plan, Scoring};

/// A kind of line, and how it changes a plan.
struct Block {
    name: &'static str,
    /// Returns `None` if the values have no meaning.
    apply: fn(&Facts<'_>, &mut Plan, &[&str]) -> Option<Result<()>>,
}

/// The blocks. `families/README.md` lists them with their values.
static BLOCKS: &[Block] = &[
    Block { name: "norm", apply: norm },
    Block { name: "activation", apply: activation },
    Block { name: "arrangement", apply: arrangement },
    Block { name: "attention", apply: attention },
    Block { name: "rope", apply: rope },
    Block { name: "routing", apply: routing },
    Block { name: "logits", apply: logits },
    Block { name: "step", apply: step },
];

/// Changes a plan as the family of its model says.
pub(crate) fn adjust(facts: &Facts<'_>, plan: &mut Plan) -> Result<()> {
    let name = facts.architecture.name;
    let lines = facts.architecture.decoder;
    let lines = lines.ok_or_else(|| {
        Error::Unsupported(format!("the architecture \"{name}\" cannot be run yet"))
    })?;
    for PlanLine { block, values, .. } in lines {
        let found = BLOCKS.iter().find(|row| row.name == *block);
        let applied = found.and_then(|row| (row.apply)(facts, plan, values));
        applied.ok_or_else(|| {
            let line = format!("{block} {}", values.join(" "));
            Error::Unsupported(format!("the plan of \"{name}\" has an unknown line: {line}"))
        })??;
    }
    Ok(())
}

fn norm(_: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    match values {
        ["layer"] => plan.norm.kind = NormKind::Layer,
        ["added", added] => plan.norm.added = added.parse().ok()?,
        ["bare", eps] => (plan.norm.bare, plan.norm.eps) = (true, eps.parse().ok()?),
        _ => return None,
    }
    Some(Ok(()))
}

fn activation(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let (name, stated) = match values {
        [name] => (name, false),
        [name, "unless_stated"] => (name, facts.config.activation.is_some()),
        _ => return None,
    };
    let activation = Activation::named(name)?;
    if !stated {
        plan.set_activation(activation);
    }
    Some(Ok(()))
}

fn arrangement(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    plan.arrangement = match values {
        ["parallel"] => Arrangement::Parallel,
        ["normed_sum"] => Arrangement::NormedSum,
        ["parallel", "unless", tensor] if !facts.model.has(tensor) => Arrangement::Parallel,
        ["parallel", "unless", _] => plan.arrangement,
        _ => return None,
    };
    Some(Ok(()))
}

fn attention(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let clip = facts.real(&["attention.clamp_kqv", "clip_qkv"]);
    for attention in plan.attentions() {
        match values {
            ["bidirectional"] => attention.causal = false,
            ["unscaled"] => attention.scale = 1.0,
            ["value_norm"] => attention.value_norm = true,
            ["norms_of_heads"] => attention.norms_of_heads = true,
            ["normed_last"] => attention.normed_last = true,
            ["clipped"] => attention.clip = clip,
            ["alibi", factor] => attention.alibi = Some(factor.parse().ok()?),
            _ => return None,
        }
    }
    Some(Ok(()))
}

fn rope(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    match values {
        // In models with windows, the layers without one have no rotary embeddings.
        ["of_windows"] if facts.config.attention.sliding_window.is_some() => {
            let full = plan.attentions().filter(|attention| attention.window.is_none());
            full.for_each(|attention| attention.rope = None);
            Some(Ok(()))
        }
        ["of_windows"] => Some(Ok(())),
        ["except_every", period] => Some(steps::except_every(facts, plan, period.parse().ok()?)),
        _ => None,
    }
}

fn routing(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let stated = facts.config.experts.expert_weights_norm.as_ref();
    let normalized = stated.is_some_and(|norm| norm.value);
    for routing in plan.routings() {
        match values {
            ["sigmoid"] => routing.scoring = Scoring::Sigmoid,
            ["softmax_of_chosen"] => routing.scoring = Scoring::SoftmaxOfChosen,
            ["softmax_of_near"] => routing.scoring = Scoring::SoftmaxOfNear,
            ["unnormalized"] => routing.normalized = false,
            ["normalized_if_stated"] => routing.normalized = normalized,
            ["weighs_inputs"] => routing.weighs_inputs = true,
            _ => return None,
        }
    }
    Some(Ok(()))
}

fn logits(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let scale = facts.config.scales.logit_scale.as_ref().map_or(1.0, |scale| scale.value);
    plan.logit_scale = match values {
        ["multiplied"] => scale,
        ["divided"] => scale.recip(),
        _ => return None,
    };
    Some(Ok(()))
}

fn step(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let [name] = values else { return None };
    Some(steps::find(name)?(facts, plan))
}

#[cfg(test)]
mod tests {
    use weighbridge::arch::{PlanLine, architectures};

    use super::{BLOCKS, steps};

    #[test]
    fn every_architecture_has_a_plan_of_known_blocks() {
        for row in architectures() {
            let lines = row.decoder.unwrap_or_else(|| panic!("{}", row.name));
            for PlanLine { block, values, .. } in lines {
                assert!(BLOCKS.iter().any(|row| row.name == *block), "{}: {block}", row.name);
                let step = values.first().filter(|_| *block == "step");
                assert!(step.is_none_or(|step| steps::find(step).is_some()), "{step:?}");
            }
        }
    }
}
