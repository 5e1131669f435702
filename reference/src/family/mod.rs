//! Plans of families: the blocks that the `[decoder]` section of a family's file names, in order. They
//! say what the config and the tensors do not.

mod encoders;
mod steps;

use weighbridge::arch::{NormKind, PlanLine};

use crate::error::{Error, Result};
use crate::facts::Facts;
use crate::math::Activation;
use crate::plan::{Arrangement, GateFunction, MixerPlan, OutputGate, Plan, Residual, Scoring};
use crate::rope::Sinusoids;

/// A kind of line, and how it changes a plan.
struct Block {
    name: &'static str,
    /// Returns `None` if the values have no meaning.
    apply: fn(&Facts<'_>, &mut Plan, &[&str]) -> Option<Result<()>>,
}

/// The blocks. `families/decoder.lines` lists them with their values.
static BLOCKS: &[Block] = &[
    Block { name: "norm", apply: norm },
    Block { name: "embedding", apply: embedding },
    Block { name: "positions", apply: positions },
    Block { name: "activation", apply: activation },
    Block { name: "arrangement", apply: arrangement },
    Block { name: "attention", apply: attention },
    Block { name: "rope", apply: rope },
    Block { name: "residual", apply: residual },
    Block { name: "routing", apply: routing },
    Block { name: "logits", apply: logits },
    Block { name: "head", apply: head },
    Block { name: "refuse", apply: refuse },
    Block { name: "linear", apply: linear },
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
        let named = values.iter().position(|value| *value == "models");
        let (values, models) = values.split_at(named.unwrap_or(values.len()));
        if named.is_some() && !models.contains(&facts.named()) {
            continue;
        }
        let found = BLOCKS.iter().find(|row| row.name == *block);
        let applied = found.and_then(|row| (row.apply)(facts, plan, values));
        applied.ok_or_else(|| {
            let line = format!("{block} {}", values.join(" "));
            Error::Unsupported(format!("the plan of \"{name}\" has an unknown line: {line}"))
        })??;
    }
    Ok(())
}

fn norm(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    match values {
        ["layer"] => plan.norm.kind = NormKind::Layer,
        ["layer", eps] => (plan.norm.kind, plan.norm.eps) = (NormKind::Layer, eps.parse().ok()?),
        ["added", added] => plan.norm.added = added.parse().ok()?,
        ["added", added, places @ ..] => {
            let added = added.parse().ok()?;
            plan.change_norms(places, |norm| norm.added = added);
        }
        ["epsilon", key, usual, places @ ..] => {
            let eps = number(facts, key, usual)?;
            plan.change_norms(places, |norm| norm.eps = eps);
        }
        ["bare"] => plan.norm.bare = true,
        ["bare", "unless", key] => plan.norm.bare = !stated(facts, key, "true")?,
        ["bare", eps] => (plan.norm.bare, plan.norm.eps) = (true, eps.parse().ok()?),
        ["embedding"] => plan.norms_embedding = true,
        _ => return None,
    }
    Some(Ok(()))
}

#[expect(clippy::cast_precision_loss, reason = "a width")]
fn embedding(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let scaled = match values {
        ["normed_first"] => {
            plan.normed_first = true;
            return Some(Ok(()));
        }
        ["first_row", tensor] => {
            plan.first_rows.push((*tensor).to_owned());
            return Some(Ok(()));
        }
        ["projected_first"] => {
            plan.projected_first = true;
            return Some(Ok(()));
        }
        ["share_of_unmasked", "if", key, usual] => {
            if stated(facts, key, usual)? {
                plan.masked = Some(facts.spelled("mask_token_id")?.parse().ok()?);
            }
            return Some(Ok(()));
        }
        ["joined", tensor, "if", key, usual] => {
            if stated(facts, key, usual)? {
                plan.joined_embeddings.push((*tensor).to_owned());
            }
            return Some(Ok(()));
        }
        ["scaled_in_encoder", "if", key, usual] => {
            let scale = if stated(facts, key, usual)? { (plan.dim as f32).sqrt() } else { 1.0 };
            plan.text_encoder.iter_mut().for_each(|encoder| encoder.embedding_scale = scale);
            return Some(Ok(()));
        }
        ["scaled"] => true,
        ["scaled", "if", key, usual] => stated(facts, key, usual)?,
        _ => return None,
    };
    if scaled {
        plan.embedding_scale = (plan.dim as f32).sqrt();
    }
    Some(Ok(()))
}

fn positions(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    match values {
        ["after", key, usual] => {
            let number = facts.spelled(key).unwrap_or_else(|| (*usual).to_owned());
            plan.padding = Some(number.parse().ok()?);
            plan.first_position = number.parse::<usize>().ok()?.checked_add(1)?;
        }
        ["first", number] => plan.first_position = number.parse().ok()?,
        ["sinusoidal", "open"] => plan.sinusoids = Some(Sinusoids::Open),
        ["sinusoidal", "closed"] => plan.sinusoids = Some(Sinusoids::Closed),
        _ => return None,
    }
    Some(Ok(()))
}

/// A flag of the config, or what the class takes without it. `None` if that is no flag.
fn stated(facts: &Facts<'_>, key: &str, usual: &str) -> Option<bool> {
    let usual = usual.parse().ok()?;
    Some(facts.flag(&[key]).unwrap_or(usual))
}

/// A number of the config, or what the class takes without it.
fn number(facts: &Facts<'_>, key: &str, usual: &str) -> Option<f32> {
    let usual = usual.parse().ok()?;
    Some(facts.real(&[key]).unwrap_or(usual))
}

fn activation(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let name = match values {
        [name] => (*name).to_owned(),
        [_, "unless_stated"] if facts.config.activation.is_some() => return Some(Ok(())),
        [name, "unless_stated"] => (*name).to_owned(),
        [key, usual] => facts.spelled(key).unwrap_or_else(|| (*usual).to_owned()),
        _ => return None,
    };
    let fault = || Error::Unsupported(format!("the activation \"{name}\""));
    Some(Activation::named(&name).ok_or_else(fault).map(|named| plan.set_activation(named)))
}

fn arrangement(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    plan.arrangement = match values {
        ["parallel"] => Arrangement::Parallel,
        ["normed_sum"] => Arrangement::NormedSum,
        ["sequential", "if", key, usual] if stated(facts, key, usual)? => Arrangement::Sequential,
        ["sequential", "if", ..] => plan.arrangement,
        ["parallel", "if", key, usual] if stated(facts, key, usual)? => Arrangement::Parallel,
        ["parallel", "if", ..] => plan.arrangement,
        ["single_parts"] => {
            plan.has_single_parts = true;
            plan.arrangement
        }
        ["parallel", "unless", tensor] if !facts.model.has(tensor) => Arrangement::Parallel,
        ["parallel", "unless", _] => plan.arrangement,
        _ => return None,
    };
    Some(Ok(()))
}

fn attention(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let clip = || facts.real(&["attention.clamp_kqv", "clip_qkv", "attn_config.clip_qkv"]);
    let unless = |key: &str| facts.flag(&[key]) == Some(false);
    for attention in plan.attentions() {
        match values {
            ["bidirectional"] => attention.causal = false,
            ["bidirectional", "if", key] => {
                attention.causal &= facts.flag(&[key]) != Some(true);
            }
            ["bidirectional", "if", key, "unless", model] => {
                let own = facts.model.document("config.json");
                let own = own.and_then(|config| config.get("model_type")?.as_str());
                attention.causal &= own == Some(model) || facts.flag(&[key]) != Some(true);
            }
            ["bidirectional", "unless", key] => {
                attention.causal = facts.flag(&[key]).unwrap_or(false);
            }
            ["scaled", key, usual] => attention.scale *= number(facts, key, usual)?,
            ["window_beside"] => attention.window = attention.window.map(|window| window + 1),
            ["unscaled"] => attention.scale = 1.0,
            ["unscaled", "unless", key] if unless(key) => attention.scale = 1.0,
            ["unscaled", "unless", _] => {}
            #[expect(clippy::cast_precision_loss, reason = "a width")]
            ["scaled_by_width"] => attention.scale = (attention.head_dim as f32).recip(),
            ["value_norm"] => attention.value_norm = true,
            ["bare_norms"] => attention.bare_norms = true,
            ["uncapped"] => attention.softcap = None,
            ["gate", "softplus"] => attention.gate = GateFunction::Softplus,
            ["norms_of_heads"] => attention.norms_of_heads = true,
            ["normed_last"] => attention.normed_last = true,
            ["clipped"] => attention.clip = clip(),
            ["clipped_normed"] => attention.normed_clip = clip(),
            ["kept_keys", key, usual] => {
                let kept = facts.spelled(key).unwrap_or_else(|| (*usual).to_owned());
                attention.kept_keys = Some(kept.parse().ok()?);
            }
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
        ["interleaved", "if", key, usual] => {
            let interleaved = stated(facts, key, usual)?;
            plan.ropes.iter_mut().for_each(|rope| rope.interleaved = interleaved);
            Some(Ok(()))
        }
        ["reversed"] => Some(steps::reversed(plan)),
        ["except_every", period] => Some(steps::except_every(facts, plan, period.parse().ok()?)),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of layers")]
fn residual(_: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    match values {
        ["by_layers", number] => {
            let number: f32 = number.parse().ok()?;
            plan.residual = Residual::Scaled((number / plan.layers.len() as f32).sqrt());
        }
        ["by_depth"] => plan.residual = Residual::ByDepth,
        _ => return None,
    }
    Some(Ok(()))
}

fn routing(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let stated = facts.config.experts.expert_weights_norm.as_ref();
    let normalized = stated.is_some_and(|norm| norm.value);
    for routing in plan.routings() {
        match values {
            ["sigmoid"] if facts.states_gating_in_gguf() => {}
            ["sigmoid"] => routing.scoring = Scoring::Sigmoid,
            ["sigmoid_of_chosen"] => routing.scoring = Scoring::SigmoidOfChosen,
            ["softmax_of_chosen"] => routing.scoring = Scoring::SoftmaxOfChosen,
            ["softmax_of_near"] if routing.used == 2 => routing.scoring = Scoring::SoftmaxOfNear,
            // The classes choose two, whatever the config states.
            ["softmax_of_near"] => {
                let fault = format!("a router that chooses two experts, not {}", routing.used);
                return Some(Err(Error::Unsupported(fault)));
            }
            ["unnormalized"] => routing.normalized = false,
            ["normalized_if_stated"] => routing.normalized = normalized,
            ["weighs_inputs"] => routing.weighs_inputs = true,
            ["of_stream"] => routing.of_stream = true,
            _ => return None,
        }
    }
    Some(Ok(()))
}

fn logits(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    if let ["gained", tensor] = values {
        return Some(facts.single(tensor).map(|gain| plan.logit_scale = gain));
    }
    let scale = facts.config.scales.logit_scale.as_ref().map_or(1.0, |scale| scale.value);
    plan.logit_scale = match values {
        ["of_encoder"] => {
            plan.scores_tokens = true;
            return Some(Ok(()));
        }
        ["multiplied", key, usual] => number(facts, key, usual)?,
        ["multiplied"] => scale,
        ["divided"] => scale.recip(),
        _ => return None,
    };
    Some(Ok(()))
}

fn head(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let name = match values {
        ["activation", name] => (*name).to_owned(),
        ["activation", key, usual] => facts.spelled(key).unwrap_or_else(|| (*usual).to_owned()),
        _ => return None,
    };
    plan.head_activation = Some(Activation::named(&name)?);
    Some(Ok(()))
}

/// Refuses a value of the config that nothing here computes, or with `not` all others.
fn refuse(facts: &Facts<'_>, _: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let (key, refused, why) = match values {
        [why] => return Some(Err(Error::Unsupported((*why).to_owned()))),
        ["with", tensor, _] if !facts.model.has(tensor) => return Some(Ok(())),
        ["with", _, why] => return Some(Err(Error::Unsupported((*why).to_owned()))),
        [key, "not", value, why] => {
            (key, facts.spelled(key).is_some_and(|stated| stated != *value), why)
        }
        [key, value, why] => (key, facts.spelled(key).is_some_and(|stated| stated == *value), why),
        _ => return None,
    };
    Some(match refused {
        true => Err(Error::Unsupported(format!("{why} ({key})"))),
        false => Ok(()),
    })
}

fn linear(_: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    for layer in &mut plan.layers {
        let MixerPlan::Linear(own) = &mut layer.mixer else { continue };
        match values {
            ["gate", "sigmoid"] => own.gate = OutputGate::Sigmoid,
            ["norm", eps] => own.eps = eps.parse().ok()?,
            _ => return None,
        }
    }
    Some(Ok(()))
}

/// A change of a plan by what a model's files say.
type Step = fn(&Facts<'_>, &mut Plan) -> Result<()>;

/// The step with this name.
fn find_step(name: &str) -> Option<Step> {
    let mut steps = steps::STEPS.iter().chain(encoders::STEPS);
    steps.find(|(other, _)| *other == name).map(|(_, step)| *step)
}

fn step(facts: &Facts<'_>, plan: &mut Plan, values: &[&str]) -> Option<Result<()>> {
    let [name] = values else { return None };
    Some(find_step(name)?(facts, plan))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use weighbridge::arch::{PlanLine, architectures};

    use super::{Activation, BLOCKS, encoders, steps};

    /// The blocks, steps and activations are those of `families/decoder.lines`, which the library checks families with.
    #[test]
    fn lines_of_decoders_are_known() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../families/decoder.lines");
        let text = std::fs::read_to_string(path).expect("a file");
        let section = |name: &str| {
            let (_, section) = text.split_once(&format!("\n[{name}]\n")).expect("a section");
            section.split("\n[").next().unwrap_or_default().trim_end()
        };
        let blocks = section("lines").lines().filter_map(|line| line.split(' ').next());
        assert_eq!(blocks.collect::<BTreeSet<_>>(), BLOCKS.iter().map(|row| row.name).collect());
        let known = steps::STEPS.iter().chain(encoders::STEPS).map(|(name, _)| *name);
        let listed = section("STEP").split_whitespace();
        assert_eq!(listed.collect::<BTreeSet<_>>(), known.collect());
        for name in section("ACTIVATION").split_whitespace() {
            assert!(Activation::named(name).is_some(), "{name}");
        }
    }

    /// A field that has another value must change the plan, or be refused.
    #[test]
    fn no_line_replaces_what_a_class_reads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/transformers/read.txt");
        let text = std::fs::read_to_string(path).expect("a file");
        let mut class = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if !line.starts_with(' ') {
                class = words.first().copied().unwrap_or(class);
                continue;
            }
            let [key, "logits", ..] = words[..] else { continue };
            let rows = architectures().into_iter().filter(|row| row.hf.contains(&class));
            for PlanLine { block, values, .. } in rows.flat_map(|row| row.decoder).flatten() {
                let fixed = match (*block, key) {
                    ("activation", "hidden_act" | "hidden_activation" | "activation_function") => {
                        values.len() == 1
                    }
                    (
                        "norm",
                        "rms_norm_eps" | "layer_norm_eps" | "layer_norm_epsilon" | "norm_eps",
                    ) => {
                        matches!(values, ["layer" | "bare", _])
                    }
                    _ => false,
                };
                assert!(!fixed, "{class}: {key} is read, but the family has {block} {values:?}");
            }
        }
    }
}
