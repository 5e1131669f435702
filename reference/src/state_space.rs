//! State-space layers: a convolution over few positions, then a state for each channel that each
//! position changes (Gu and Dao, "Mamba", 2023; Dao and Gu, "Transformers are SSMs", 2024).

use weighbridge::arch::NormKind;

use crate::cache::LayerCache;
use crate::convolution::Convolution;
use crate::error::{Error, Result};
use crate::math::{Activation, softplus};
use crate::plan::{NormPlan, StateSpacePlan};
use crate::rows::Rows;
use crate::weight::{Loader, Norm, Weight};

#[derive(Debug)]
pub(crate) struct StateSpace {
    plan: StateSpacePlan,
    input: Weight,
    convolution: Convolution,
    steps: Steps,
    /// For each channel or head, the logarithm of how fast states decay: one value for each element of
    /// the state, or one for all.
    a_log: Vec<f32>,
    /// Factors of what goes past the state, one for each channel or head.
    d: Vec<f32>,
    output: Weight,
}

/// The source of the time steps, and of the vectors that write and read the state.
#[derive(Debug)]
enum Steps {
    /// Mamba: from what the convolution gives. A time step for each channel.
    Projected(Box<Projected>),
    /// Mamba 2: from the layer's input. A time step for each head.
    Given { bias: Vec<f32>, norm: Box<Option<Norm>> },
}

#[derive(Debug)]
struct Projected {
    x: Weight,
    dt: Weight,
    /// The norms of the time steps before `dt`, and of the two vectors.
    norms: [Option<Norm>; 3],
}

impl StateSpace {
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: StateSpacePlan,
        eps: f32,
    ) -> Result<Self> {
        let StateSpacePlan { inner, state, groups, heads, kernel, bare_norms, .. } = plan;
        let at = |what: &str| format!("{name}.{what}");
        let norm = NormPlan::new(NormKind::Rms, eps);
        let channels = plan.channels();
        let own = heads.unwrap_or(inner);
        let steps = match heads {
            None => {
                let x = loader.weight(&at("x"), inner)?;
                let rank = x.outputs().checked_sub(2 * state).filter(|rank| *rank > 0);
                let fault = || Error::Mismatch(format!("{name}.x is too narrow"));
                let rank = rank.ok_or_else(fault)?;
                let dt = loader.sized(&at("dt"), inner, rank)?;
                let bare = bare_norms.map(|eps| NormPlan { eps, ..norm });
                let norm_of = |what: &str, width| {
                    let stored = loader.norm_if(&at(what), width, norm)?;
                    Ok::<_, Error>(stored.or_else(|| bare.map(|bare| Norm::bare(width, bare))))
                };
                let norms = [
                    norm_of("dt_norm", rank)?,
                    norm_of("b_norm", state)?,
                    norm_of("c_norm", state)?,
                ];
                Steps::Projected(Box::new(Projected { x, dt, norms }))
            }
            Some(heads) => Steps::Given {
                bias: loader.vector(&at("dt.bias"), heads)?,
                // Its factors are as wide as the layer, but each group is normed on its own.
                norm: {
                    let groups = groups.max(1);
                    loader.norm_if(&at("norm"), inner / groups, norm.in_runs(groups))?.into()
                },
            },
        };
        let outputs = match heads {
            None => 2 * inner,
            Some(heads) => inner + channels + heads,
        };
        if inner % own != 0 || groups == 0 || own % groups != 0 {
            let fault = format!("{name} has {own} heads in {groups} groups, {inner} channels");
            return Err(Error::Mismatch(fault));
        }
        let decays = if heads.is_none() { inner * state } else { own };
        Ok(Self {
            plan,
            input: loader.sized(&at("in"), outputs, dim)?,
            convolution: Convolution::load(loader, &at("conv"), channels, kernel)?,
            steps,
            a_log: loader.vector(&at("a_log"), decays)?,
            d: loader.vector(&at("d"), own)?,
            output: loader.sized(&at("output"), dim, inner)?,
        })
    }

    pub(crate) fn of(&self, x: &Rows, cache: &mut LayerCache) -> Result<Rows> {
        let StateSpacePlan { inner, state, groups, heads, .. } = self.plan;
        let mut given = match self.plan.input_scale {
            1.0 => self.input.of(x)?,
            scale => {
                let mut scaled = x.clone();
                scaled.scale(scale);
                self.input.of(&scaled)?
            }
        };
        self.scale_parts(&mut given);
        let channels = self.plan.channels();
        let (entering, gate) = match heads {
            None => (given.columns(0..inner), given.columns(inner..2 * inner)),
            Some(_) => (given.columns(inner..inner + channels), given.columns(0..inner)),
        };
        let mut seen = self.convolution.of(&entering, cache);
        seen.apply(self.plan.activation);
        let written = groups * state;
        let (values, b, c, mut dt) = match &self.steps {
            Steps::Projected(own) => {
                let parts = own.x.of(&seen)?;
                let rank = parts.width() - 2 * state;
                let ranges = [0..rank, rank..rank + state, rank + state..rank + 2 * state];
                let mut all = ranges.map(|range| parts.columns(range));
                for (part, norm) in all.iter_mut().zip(&own.norms) {
                    norm.iter().for_each(|norm| norm.apply(part));
                }
                let [steps, b, c] = all;
                (seen, b, c, own.dt.of(&steps)?)
            }
            Steps::Given { bias, .. } => {
                let mut dt = given.columns(inner + channels..given.width());
                for row in dt.rows_mut() {
                    row.iter_mut().zip(bias).for_each(|(step, bias)| *step += bias);
                }
                let (b, c) = (inner..inner + written, inner + written..inner + 2 * written);
                (seen.columns(0..inner), seen.columns(b), seen.columns(c), dt)
            }
        };
        dt.each(softplus);
        if let Some((least, most)) = self.plan.step_bounds {
            dt.each(|step| step.max(least).min(most));
        }
        cache.state.resize(inner * state, 0.0);
        let mut out = Rows::zeros(x.len(), inner);
        let steps = values.rows().zip(dt.rows()).zip(b.rows().zip(c.rows()));
        for (out, ((values, dt), (b, c))) in out.rows_mut().zip(steps) {
            self.step(&mut cache.state, (values, dt), (b, c), out);
        }
        let norm = if let Steps::Given { norm, .. } = &self.steps { norm.as_ref() } else { &None };
        let (before, behind) = if self.plan.gated_last { (norm, &None) } else { (&None, norm) };
        before.iter().for_each(|norm| norm.apply(&mut out));
        out.gate(&gate, Activation::Silu);
        behind.iter().for_each(|norm| norm.apply(&mut out));
        self.output.of(&out)
    }

    /// Multiplies the parts of what the first matrix gives by their factors.
    fn scale_parts(&self, given: &mut Rows) {
        let StateSpacePlan { inner, state, groups, part_scales, .. } = self.plan;
        if part_scales == [1.0; 5] {
            return;
        }
        let widths = [inner, inner, groups * state, groups * state, usize::MAX];
        let factors = part_scales.iter().zip(widths);
        let factors: Vec<f32> = factors
            .flat_map(|(factor, width)| std::iter::repeat_n(*factor, width))
            .take(given.width())
            .collect();
        for row in given.rows_mut() {
            row.iter_mut().zip(&factors).for_each(|(value, factor)| *value *= factor);
        }
    }

    /// One position: each channel's state decays, takes the channel's value, and is read.
    fn step(
        &self,
        states: &mut [f32],
        (values, dt): (&[f32], &[f32]),
        (b, c): (&[f32], &[f32]),
        out: &mut [f32],
    ) {
        let StateSpacePlan { inner, state, groups, .. } = self.plan;
        // A time step is that of a channel, or of the channels of a head.
        let width = inner / dt.len().max(1);
        let group_width = (inner / groups).max(1);
        let each = states.chunks_exact_mut(state).zip(values).zip(out).enumerate();
        for (channel, ((own, value), out)) in each {
            let head = channel / width.max(1);
            let step = dt.get(head).copied().unwrap_or_default();
            let of_group = channel / group_width * state..(channel / group_width + 1) * state;
            let b = b.get(of_group.clone()).unwrap_or_default();
            let c = c.get(of_group).unwrap_or_default();
            let decays = self.a_log.len() / dt.len().max(1);
            let a_log = self.a_log.get(head * decays..(head + 1) * decays).unwrap_or_default();
            let mut sum = self.d.get(head).copied().unwrap_or_default() * value;
            for (((own, b), c), a_log) in own.iter_mut().zip(b).zip(c).zip(a_log.iter().cycle()) {
                *own = *own * (-a_log.exp() * step).exp() + step * b * value;
                sum += *own * c;
            }
            *out = sum;
        }
    }
}
