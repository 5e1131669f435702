//! Feed-forward networks: dense ones, and experts that a router chooses.

use crate::error::{Error, Result};
use crate::math::{Activation, Function, Xielu, sigmoid, softmax};
use crate::plan::{NetworkPlan, NormPlan, Routing, Scoring};
use crate::rows::{Rows, number};
use crate::weight::{Loader, Norm, Weight};

/// Up and down, with or without a gate.
#[derive(Debug)]
pub(crate) struct Dense {
    gate: Option<Weight>,
    up: Weight,
    /// The norm of the input of the last matrix.
    sub_norm: Option<Norm>,
    down: Weight,
    activation: Activation,
    sparsity: Option<f32>,
    /// Factors of the gate and of the output.
    scales: (f32, f32),
}

impl Dense {
    /// The network whose tensors' names start with `name`, or nothing where the model has none there.
    pub(crate) fn load_if(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: &NetworkPlan,
        norm: NormPlan,
    ) -> Result<Option<Self>> {
        let Some(up) = loader.weight_if(&format!("{name}.up"), dim)? else { return Ok(None) };
        let gate = loader.weight_if(&format!("{name}.gate"), dim)?;
        let down = loader.weight(&format!("{name}.down"), up.outputs())?;
        let NetworkPlan { mut activation, sparsity, gate_scale, output_scale, .. } = *plan;
        if activation == Activation::Xielu(Xielu::default()) {
            let number = |what: &str| {
                let found = loader.vector(&format!("{name}.activation.{what}"), 1)?;
                Ok::<_, Error>(found.first().copied().unwrap_or_default())
            };
            let [alpha_n, alpha_p] = [number("alpha_n")?, number("alpha_p")?];
            let stored = Xielu::stored(alpha_n, alpha_p, number("beta")?, number("eps")?);
            activation = Activation::Xielu(stored);
        }
        let sub_norm = loader.norm_if(&format!("{name}.sub_norm"), up.outputs(), norm)?;
        let scales = (gate_scale, output_scale);
        Ok(Some(Self { gate, up, sub_norm, down, activation, sparsity, scales }))
    }

    pub(crate) fn of(&self, x: &Rows) -> Result<Rows> {
        let mut inner = self.up.of(x)?;
        match &self.gate {
            Some(gate) => {
                let mut gate = gate.of(x)?;
                self.sparsity.iter().for_each(|deviations| thin(&mut gate, *deviations));
                scale(&mut gate, self.scales.0);
                inner.gate(&gate, self.activation);
            }
            None => inner.apply(self.activation),
        }
        self.sub_norm.iter().for_each(|norm| norm.apply(&mut inner));
        let mut out = self.down.of(&inner)?;
        scale(&mut out, self.scales.1);
        Ok(out)
    }
}

fn scale(x: &mut Rows, factor: f32) {
    if factor != 1.0 {
        x.scale(factor);
    }
}

/// Keeps of each row what lies that many deviations above its mean, less that bound (Gemma 3n).
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "sums are f64")]
fn thin(x: &mut Rows, deviations: f32) {
    for row in x.rows_mut() {
        let count = row.len() as f64;
        let mean = row.iter().copied().map(f64::from).sum::<f64>() / count;
        let square = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
        let bound = (mean + square.sqrt() * f64::from(deviations)) as f32;
        row.iter_mut().for_each(|x| *x = (*x - bound).max(0.0));
    }
}

/// A router and its experts.
#[derive(Debug)]
pub(crate) struct Experts {
    router: Weight,
    /// Added to scores when experts are chosen, and not to their weights.
    correction: Option<Rows>,
    /// Factors of the experts' outputs.
    output_scale: Option<Rows>,
    /// Matrices before and behind the experts, where these compute in a narrower space (Nemotron 3).
    latent: Option<(Weight, Weight)>,
    gate: Option<Weight>,
    up: Weight,
    down: Weight,
    /// Added to what the experts give together.
    bias: Option<Rows>,
    shared: Option<Dense>,
    /// The gate of the shared expert.
    shared_router: Option<Weight>,
    /// The matrix that gives the shares of the experts and of the shared expert (Klear).
    shares: Option<Weight>,
    activation: Activation,
    routing: Routing,
}

impl Experts {
    /// The experts of the layer whose network's names start with `name`, or nothing where it has none.
    pub(crate) fn load_if(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: &NetworkPlan,
        norm: NormPlan,
    ) -> Result<Option<Self>> {
        let at = |what: &str| format!("{name}.{what}");
        if !loader.has(&at("experts.up.weight")) {
            return Ok(None);
        }
        let outer = dim;
        let into = loader.weight_if(&at("experts.latent_down"), outer)?;
        let dim = into.as_ref().map_or(outer, Weight::outputs);
        let latent = into
            .map(|into| Ok::<_, Error>((into, loader.sized(&at("experts.latent_up"), outer, dim)?)))
            .transpose()?;
        let up = loader.weight(&at("experts.up"), dim)?;
        let router = loader.weight(&at("router"), outer)?;
        let count = router.outputs();
        let routing = plan.routing;
        let gate = match loader.has(&at("experts.gate.weight")) {
            true => Some(loader.sized(&at("experts.gate"), up.outputs(), dim)?),
            false => None,
        };
        let down = loader.weight(&at("experts.down"), up.outputs())?;
        if gate.iter().chain([&up, &down]).any(|weight| weight.arrays() != count)
            || !(1..=count).contains(&routing.used)
        {
            let fault = format!("{name} has {count} experts, {} for each token", routing.used);
            return Err(Error::Mismatch(fault));
        }
        if let Some((groups, used)) = routing.groups {
            if groups == 0 || count % groups != 0 || used > groups {
                let fault = format!("{name} has {count} experts in {groups} groups");
                return Err(Error::Mismatch(fault));
            }
            // All others have the same score, so that chance would decide.
            let eligible = (count / groups).saturating_mul(used);
            if eligible < routing.used {
                let used = routing.used;
                let fault =
                    format!("{used} experts for each token of {eligible} in the chosen groups");
                return Err(Error::Unsupported(fault));
            }
        }
        Ok(Some(Self {
            correction: loader.vector_if(&at("router.correction_bias"), count)?.map(one_row),
            output_scale: loader.vector_if(&at("experts.output_scale"), count)?.map(one_row),
            shared: Dense::load_if(loader, &at("shared_expert"), outer, plan, norm)?,
            shared_router: loader.weight_if(&at("shared_expert.router"), outer)?,
            shares: loader
                .has(&at("shares.weight"))
                .then(|| loader.sized(&at("shares"), 2, outer))
                .transpose()?,
            bias: loader.vector_if(&at("experts.bias"), outer)?.map(one_row),
            activation: plan.activation,
            router,
            latent,
            gate,
            up,
            down,
            routing,
        }))
    }

    /// Whether the router sees the residual stream before attention.
    pub(crate) fn sees_stream(&self) -> bool {
        self.routing.of_stream
    }

    /// Computes the output of the experts for each row of `x`. `seen` is the input of the router.
    pub(crate) fn of(&self, x: &Rows, seen: &Rows) -> Result<Rows> {
        let mut scores = self.router.of(seen)?;
        self.routing.softcap.iter().for_each(|cap| scores.apply(Function::Cap(*cap)));
        let given = x;
        let narrow = self.latent.as_ref().map(|(into, _)| into.of(x)).transpose()?;
        let x = narrow.as_ref().unwrap_or(x);
        if let Some(out) = self.on_device(x, &scores) {
            return self.finish(given, out);
        }
        let choices = scores.rows_mut().map(|row| self.choose(row)).collect::<Vec<_>>();
        let mut out = Rows::zeros(x.len(), self.down.outputs());
        for expert in 0..self.up.arrays() {
            // The rows that chose it, and with which weight.
            let rows = choices.iter().enumerate().filter_map(|(row, choice)| {
                let (_, weight) = choice.iter().find(|(chosen, _)| *chosen == expert)?;
                Some((row, *weight))
            });
            let mut rows: Vec<(usize, f32)> = rows.collect();
            if rows.is_empty() {
                continue;
            }
            let own = rows.iter().flat_map(|(row, _)| x.row(*row).unwrap_or_default());
            let mut own = Rows::new(own.copied().collect(), x.width());
            if self.routing.weighs_inputs {
                for (own, (_, weight)) in own.rows_mut().zip(&mut rows) {
                    own.iter_mut().for_each(|x| *x *= *weight);
                    *weight = 1.0;
                }
            }
            let mut inner = self.up.of_array(expert, &own)?;
            match &self.gate {
                Some(gate) => inner.gate(&gate.of_array(expert, &own)?, self.activation),
                None => inner.apply(self.activation),
            }
            let given = self.down.of_array(expert, &inner)?;
            let mut places = rows.iter().zip(given.rows()).peekable();
            for (row, out) in out.rows_mut().enumerate() {
                if let Some(((_, weight), given)) = places.next_if(|((place, _), _)| *place == row)
                {
                    out.iter_mut().zip(given).for_each(|(out, given)| *out += weight * given);
                }
            }
        }
        self.finish(given, out)
    }

    /// Joins the outputs of the experts, in the width of the stream, and adds what does not depend on the choice.
    fn finish(&self, x: &Rows, out: Rows) -> Result<Rows> {
        let mut out = match &self.latent {
            Some((_, back)) => back.of(&out)?,
            None => out,
        };
        self.add_shared(x, &mut out)?;
        Ok(out)
    }

    /// Adds what does not depend on the choice: a bias, and what the shared expert gives.
    fn add_shared(&self, x: &Rows, out: &mut Rows) -> Result<()> {
        self.bias.iter().for_each(|bias| out.add_row(bias, 0));
        let Some(shared) = &self.shared else { return Ok(()) };
        let mut given = shared.of(x)?;
        if let Some(router) = &self.shared_router {
            let mut gates = router.of(x)?;
            gates.apply(Function::Sigmoid);
            given.scale_rows(&gates);
        }
        if let Some(shares) = &self.shares {
            let mut shares = shares.of(x)?;
            shares.rows_mut().for_each(|row| softmax(row, None));
            out.scale_rows(&shares.columns(0..1));
            given.scale_rows(&shares.columns(1..2));
        }
        out.add(&given, self.routing.shared_scale);
        Ok(())
    }

    /// Computes the output of the experts on a GPU, which makes the choice itself. `None` if no step makes the choice,
    /// or the GPU lacks the matrices.
    fn on_device(&self, x: &Rows, scores: &Rows) -> Option<Rows> {
        let engine = scores.engine()?;
        let Routing { used, scoring, normalized, scale, groups, weighs_inputs, .. } = self.routing;
        let scoring = match scoring {
            Scoring::Softmax => 0,
            Scoring::SoftmaxOfChosen => 1,
            Scoring::Sigmoid => 2,
            Scoring::SoftmaxOfNear | Scoring::SigmoidOfChosen => return None,
        };
        if weighs_inputs || groups.is_some_and(|(groups, kept)| kept < groups) {
            return None;
        }
        let [rows, experts, places] = [scores.len(), scores.width(), used].map(number);
        let empty = Rows::default();
        let correction = self.correction.as_ref();
        let mut chosen = Rows::unfilled(&engine, scores.len(), used);
        let numbers = [rows, experts, places, scoring, u32::from(correction.is_some())];
        let inputs = [scores, correction.unwrap_or(&empty)];
        chosen.step(&engine, "choose", &inputs, &numbers);
        let mut weights = Rows::unfilled(&engine, scores.len(), used);
        let own = self.output_scale.as_ref();
        let (normalized, has_own) = (u32::from(normalized), u32::from(own.is_some()));
        let numbers = [rows, experts, places, scoring, normalized, scale.to_bits(), has_own];
        let inputs = [scores, &chosen, own.unwrap_or(&empty)];
        weights.step(&engine, "weigh", &inputs, &numbers);
        let mut inner = self.up.of_experts(x, &chosen, used)?;
        match &self.gate {
            Some(gate) => inner.gate(&gate.of_experts(x, &chosen, used)?, self.activation),
            None => inner.apply(self.activation),
        }
        let given = self.down.of_experts(&inner, &chosen, 1)?;
        let mut out = Rows::unfilled(&engine, x.len(), given.width());
        let numbers = [out.count(), number(given.width()), places];
        out.step(&engine, "combine", &[&given, &weights], &numbers);
        Some(out)
    }

    /// The experts of one token with their weights, by what the router says of each.
    fn choose(&self, scores: &mut [f32]) -> Vec<(usize, f32)> {
        let Routing { used, scoring, normalized, scale, groups, .. } = self.routing;
        match scoring {
            Scoring::Softmax => softmax(scores, None),
            Scoring::Sigmoid => scores.iter_mut().for_each(|score| *score = sigmoid(*score)),
            Scoring::SoftmaxOfChosen | Scoring::SigmoidOfChosen => {}
            Scoring::SoftmaxOfNear => return near(scores, used),
        }
        let correction = self.correction.iter().flat_map(Rows::values).copied();
        let correction = correction.chain(std::iter::repeat(0.0));
        let mut ranked: Vec<f32> = scores.iter().zip(correction).map(|(s, c)| s + c).collect();
        if let Some((groups, kept)) = groups.filter(|(groups, kept)| kept < groups) {
            let width = ranked.len() / groups;
            let best = if scoring == Scoring::Sigmoid { 2 } else { 1 };
            let worth = ranked.chunks_exact(width).map(|group| {
                let mut group = group.to_vec();
                group.sort_by(|a, b| b.total_cmp(a));
                group.iter().take(best).sum::<f32>()
            });
            let kept = largest(&worth.collect::<Vec<_>>(), kept);
            for (group, scores) in ranked.chunks_exact_mut(width).enumerate() {
                if !kept.contains(&group) {
                    scores.fill(f32::NEG_INFINITY);
                }
            }
        }
        let chosen = largest(&ranked, used);
        let mut weights: Vec<f32> =
            chosen.iter().filter_map(|expert| scores.get(*expert).copied()).collect();
        if scoring == Scoring::SigmoidOfChosen {
            weights.iter_mut().for_each(|weight| *weight = sigmoid(*weight));
        }
        if scoring == Scoring::SoftmaxOfChosen {
            softmax(&mut weights, None);
        } else if normalized {
            let sum = weights.iter().sum::<f32>() + 1e-20;
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        let own = |expert: usize| {
            let scales = self.output_scale.as_ref().and_then(|scales| scales.values().get(expert));
            scales.copied().unwrap_or(1.0)
        };
        let weighed = chosen.into_iter().zip(weights);
        weighed.map(|(expert, weight)| (expert, weight * scale * own(expert))).collect()
    }
}

fn one_row(values: Vec<f32>) -> Rows {
    let width = values.len();
    Rows::new(values, width)
}

/// The distance from the largest score within which another has a share of the weight, as a part of the larger of both:
/// twice `router_jitter_noise` of transformers' class, which no published config changes.
const NEAR: f32 = 0.02;

/// Chooses one expert after another, each with its share among those that are near.
fn near(scores: &[f32], used: usize) -> Vec<(usize, f32)> {
    let mut left = scores.to_vec();
    let mut chosen = Vec::new();
    for _ in 0..used {
        let Some(best) = largest(&left, 1).pop() else { break };
        let most = left.get(best).copied().unwrap_or_default();
        // If all are 0, so are the differences.
        let is_far = |score: f32| (most - score) / score.abs().max(most) > NEAR;
        let shares = left.iter().filter(|score| score.is_finite() && !is_far(**score));
        let sum: f32 = shares.map(|score| (score - most).exp()).sum();
        chosen.push((best, 1.0 / sum));
        if let Some(own) = left.get_mut(best) {
            *own = f32::NEG_INFINITY;
        }
    }
    chosen
}

/// The places of the largest values, largest first.
pub(crate) fn largest(values: &[f32], count: usize) -> Vec<usize> {
    let mut places: Vec<(usize, f32)> = values.iter().copied().enumerate().collect();
    places.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    places.into_iter().take(count).map(|(place, _)| place).collect()
}
