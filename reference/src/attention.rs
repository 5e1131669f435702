//! Attention: queries, keys and values of heads, or unfolded from a narrower space.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use weighbridge::arch::NormKind;
use weighbridge::quant::{InputPanels, ProductRow, StridedRows, add_product, multiply_rows};

use crate::blocks::{BlockIndexer, Chosen};
use crate::cache::LayerCache;
use crate::device::Engine;
use crate::disentangled::{Disentangled, Query};
use crate::dynamic_mask::DynamicMask;
use crate::error::{Error, Result};
use crate::head_experts::HeadExperts;
use crate::math::{Function, dot, softmax};
use crate::plan::{AttentionPlan, DistancePlan, GateFunction, LatentPlan, NormPlan};
use crate::rope::{Rope, Turns};
use crate::rows::{Rows, number};
use crate::weight::{Loader, Norm, Weight};

/// Queries of neighbours that are multiplied with keys together.
const NEAR: usize = 16;

/// Scores that a GPU holds at a time, if those of one position are not more.
const SCORES: usize = 1 << 24;

/// One run of a model over new positions.
#[derive(Debug)]
pub(crate) struct Pass<'p> {
    /// Positions before the new ones.
    pub(crate) start: usize,
    /// The kinds of rotary embeddings, each with its turns for the new positions.
    pub(crate) ropes: &'p [(Rope, Turns)],
}

/// The inputs of the heads of attention.
struct Seen<'s> {
    q: &'s Rows,
    /// The position of the first query.
    start: usize,
    cache: &'s LayerCache,
    mask: Option<(&'s DynamicMask, Rows)>,
    chosen: Option<&'s Chosen>,
}

/// Attention with its weights.
#[derive(Debug)]
pub(crate) struct Attention {
    plan: AttentionPlan,
    projection: Projection,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    v_norm: Option<Norm>,
    sinks: Option<Rows>,
    /// By how much the scores of each head fall with the distance.
    slopes: Option<Rows>,
    /// For each range of distances, the bias of each head's scores.
    distances: Option<(DistancePlan, Vec<f32>)>,
    disentangled: Option<Disentangled>,
    gate: Option<Gate>,
    /// The norm of the mixed values.
    sub_norm: Option<Norm>,
    differential: Option<Differential>,
    indexer: Option<BlockIndexer>,
    mask: Option<DynamicMask>,
    output: Output,
}

/// The projection of the mixed values to the output.
#[derive(Debug)]
enum Output {
    Matrix(Box<Weight>),
    /// The experts that gave the queries.
    Experts(Box<HeadExperts>),
}

/// Differential attention: the factor of the second half of the heads, and the norm of the difference.
#[derive(Debug)]
struct Differential {
    factor: f32,
    norm: Norm,
    scale: f32,
}

impl Differential {
    fn load(
        loader: Loader<'_>,
        name: &str,
        initial: f32,
        plan: &AttentionPlan,
        norm: NormPlan,
    ) -> Result<Self> {
        let AttentionPlan { heads, kv_heads, head_dim, value_dim, .. } = *plan;
        if heads % 2 != 0 || kv_heads % 2 != 0 {
            let fault = format!("{name} has {heads} heads and {kv_heads} for keys, not two halves");
            return Err(Error::Mismatch(fault));
        }
        let learned = |which: u8| {
            let vector = |of: &str| loader.vector(&format!("{name}.lambda_{of}{which}"), head_dim);
            Ok::<_, Error>(dot(&vector("q")?, &vector("k")?).exp())
        };
        Ok(Self {
            factor: learned(1)? - learned(2)? + initial,
            norm: Norm::bare(2 * value_dim, norm),
            scale: 1.0 - initial,
        })
    }

    /// The difference of both halves of the heads. Each head has two values: with the first half of the
    /// value heads and with the second.
    fn of(&self, halves: &Rows) -> Rows {
        let half = halves.width() / 2;
        let mut out = halves.columns(0..half);
        out.add(&halves.columns(half..2 * half), -self.factor);
        self.norm.apply(&mut out);
        out.scale(self.scale);
        out
    }
}

/// A gate on the output of attention: a factor for each value, or for each head.
#[derive(Debug)]
struct Gate {
    weight: Weight,
    /// Added to the gates of each head.
    head_bias: Option<Vec<f32>>,
    function: Function,
    value_dim: usize,
}

/// The source of queries, keys and values.
#[derive(Debug)]
enum Projection {
    /// A matrix each. A layer that uses another's keys has none; one without values has keys for
    /// values.
    Heads(Box<Heads>),
    /// Through a narrower space.
    Latent(Box<Latent>),
}

#[derive(Debug)]
struct Heads {
    /// Experts give the queries instead.
    q: Option<Weight>,
    k: Option<Weight>,
    v: Option<Weight>,
}

#[derive(Debug)]
struct Latent {
    plan: LatentPlan,
    q_a: Option<(Weight, Norm)>,
    q_b: Weight,
    kv_a: Weight,
    kv_norm: Norm,
    k_b: Weight,
    v_b: Weight,
}

impl Attention {
    /// The attention whose tensors' names start with `name`, of a stream of that width.
    pub(crate) fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: &AttentionPlan,
        latent: Option<&LatentPlan>,
        norm: NormPlan,
    ) -> Result<Self> {
        let AttentionPlan { heads, kv_heads, head_dim, value_dim, .. } = *plan;
        if [heads, kv_heads, head_dim, value_dim].contains(&0) || heads % kv_heads != 0 {
            let fault = format!("{name} has {heads} heads of {head_dim}, {kv_heads} for keys");
            return Err(Error::Mismatch(fault));
        }
        let at = |what: &str| format!("{name}.{what}");
        let experts = HeadExperts::load_if(loader, name, dim, plan)?;
        let projection = match latent {
            Some(latent) => {
                Projection::Latent(Box::new(Latent::load(loader, name, dim, plan, latent)?))
            }
            None => {
                let own = plan.keys_of.is_none();
                let k =
                    own.then(|| loader.sized(&at("k"), kv_heads * head_dim, dim)).transpose()?;
                let v = if own { loader.weight_if(&at("v"), dim)? } else { None };
                if let Some(v) = v.as_ref().filter(|v| v.outputs() != kv_heads * value_dim) {
                    let fault = format!("{name}.v has {} outputs", v.outputs());
                    return Err(Error::Mismatch(fault));
                }
                let q = experts.is_none();
                let q = q.then(|| loader.sized(&at("q"), heads * head_dim, dim)).transpose()?;
                Projection::Heads(Box::new(Heads { q, k, v }))
            }
        };
        let qk_norm = |what: &str, heads: usize| {
            let Some(count) = loader.len_if(&at(&format!("{what}.weight")))? else {
                let gains = loader.vector_if(&at(&what.replace("norm", "gain")), heads)?;
                let bare = plan.bare_norms.then(|| Norm::bare(head_dim, norm));
                return Ok(bare.map(|bare| bare.times(&gains.unwrap_or_default())));
            };
            let (runs, width) = match (count == head_dim, plan.norms_of_heads) {
                (true, _) => (1, head_dim),
                (false, true) => (heads, head_dim),
                (false, false) => (1, heads * head_dim),
            };
            loader.norm_if(&at(what), width, norm.in_runs(runs))
        };
        let sinks = loader.vector_if(&at("sinks"), heads)?;
        let output = match experts {
            Some(experts) => Output::Experts(Box::new(experts)),
            None => Output::Matrix(Box::new(loader.weight(&at("output"), heads * value_dim)?)),
        };
        let differential = plan.differential;
        let differential = differential
            .map(|initial| Differential::load(loader, name, initial, plan, norm))
            .transpose()?;
        Ok(Self {
            projection,
            q_norm: qk_norm("q_norm", heads)?,
            k_norm: if plan.keys_of.is_none() { qk_norm("k_norm", kv_heads)? } else { None },
            v_norm: plan.value_norm.then(|| Norm::bare(value_dim, norm)),
            sinks: sinks.map(|sinks| Rows::new(sinks, heads)),
            slopes: plan.alibi.map(|factor| {
                Rows::new((0..heads).map(|head| factor * slope(head, heads)).collect(), heads)
            }),
            distances: None,
            disentangled: Disentangled::load_if(loader, name, dim, plan, norm)?,
            gate: Gate::load_if(loader, &at("gate"), dim, plan)?,
            sub_norm: loader.norm_if(&at("sub_norm"), heads * value_dim, norm)?,
            differential,
            indexer: plan
                .blocks
                .map(|own| BlockIndexer::load(loader, &at("indexer"), dim, own, (heads, norm)))
                .transpose()?,
            mask: DynamicMask::load_if(loader, name, plan)?,
            plan: plan.clone(),
            output,
        })
    }

    /// The same attention, with the biases of distances that the model has for all layers, or `owner`,
    /// the attention of this layer or of the first.
    pub(crate) fn with_distances(mut self, loader: Loader<'_>, owner: &str) -> Result<Self> {
        if let Some(plan) = self.plan.distances {
            let (of_all, own) = ("relative_bias.weight", format!("{owner}.relative_bias.weight"));
            let name = if loader.has(of_all) { of_all } else { &own };
            self.distances = Some((plan, loader.vector(name, plan.buckets * self.plan.heads)?));
        }
        Ok(self)
    }

    /// The layer whose cache has the keys and values of this one.
    pub(crate) fn cache_of(&self, layer: usize) -> usize {
        self.plan.keys_of.unwrap_or(layer)
    }

    /// Computes what attention adds for each row of `x`. Its keys and values go into `cache`, that of the layer
    /// [`cache_of`](Self::cache_of).
    pub(crate) fn of(&self, x: &Rows, pass: &Pass<'_>, cache: &mut LayerCache) -> Result<Rows> {
        let q = match &self.projection {
            Projection::Heads(own) => {
                let mut q = self.queries(own, x)?;
                if let Some(k) = &own.k {
                    let mut keys = k.of(x)?;
                    let mut values = match &own.v {
                        Some(v) => v.of(x)?,
                        None => keys.clone(),
                    };
                    bound(&mut values, self.plan.clip.or(self.plan.normed_clip));
                    self.finish(&mut keys, self.k_norm.as_ref(), pass);
                    self.v_norm.iter().for_each(|norm| norm.apply(&mut values));
                    let on_host = [
                        self.distances.is_some(),
                        self.disentangled.is_some(),
                        self.differential.is_some(),
                        self.indexer.is_some(),
                        self.mask.is_some(),
                        matches!(self.output, Output::Experts(_)),
                    ];
                    match on_host.contains(&true) {
                        false => cache.add(&keys, &values),
                        // No step of a GPU computes with them.
                        true => cache.add(&keys.on_host(), &values.on_host()),
                    }
                }
                self.finish(&mut q, self.q_norm.as_ref(), pass);
                q
            }
            Projection::Latent(latent) => latent.of(x, &self.plan, pass, cache)?,
        };
        let indexer = self.indexer.as_ref();
        let chosen = indexer
            .map(|indexer| {
                let rope = self.plan.rope.and_then(|rope| pass.ropes.get(rope));
                indexer.choose(x, pass.start, rope, &mut cache.index)
            })
            .transpose()?;
        self.mix(q, x, pass, cache, chosen.as_ref())
    }

    /// Attends to keys and values that were computed before, of another sequence.
    pub(crate) fn across(&self, x: &Rows, cache: &LayerCache) -> Result<Rows> {
        let Projection::Heads(own) = &self.projection else {
            return Err(Error::Unsupported("latent attention across sequences".to_owned()));
        };
        self.mix(self.queries(own, x)?, x, &Pass { start: 0, ropes: &[] }, cache, None)
    }

    /// Keys and values of another sequence, for [`across`](Self::across).
    pub(crate) fn remember(&self, x: &Rows) -> Result<LayerCache> {
        let mut cache = LayerCache::default();
        if let Projection::Heads(own) = &self.projection
            && let Heads { k: Some(k), v: Some(v), .. } = own.as_ref()
        {
            cache.add(&k.of(x)?, &v.of(x)?);
        }
        Ok(cache)
    }

    fn queries(&self, own: &Heads, x: &Rows) -> Result<Rows> {
        match (&self.output, &own.q) {
            (Output::Experts(experts), _) => experts.queries(x),
            (Output::Matrix(_), Some(q)) => q.of(x),
            (Output::Matrix(_), None) => {
                Err(Error::Unsupported("attention without queries".to_owned()))
            }
        }
    }

    /// Bounds, norms and turns queries or keys.
    fn finish(&self, x: &mut Rows, norm: Option<&Norm>, pass: &Pass<'_>) {
        let (before, behind) = if self.plan.normed_last { (None, norm) } else { (norm, None) };
        bound(x, self.plan.clip);
        before.iter().for_each(|norm| norm.apply(x));
        bound(x, self.plan.normed_clip);
        if let Some((rope, turns)) = self.plan.rope.and_then(|rope| pass.ropes.get(rope)) {
            rope.apply(turns, x, self.plan.head_dim, 0);
        }
        behind.iter().for_each(|norm| norm.apply(x));
    }

    /// The values of the positions that each query attends to, by the gate and the output matrix.
    fn mix(
        &self,
        mut q: Rows,
        x: &Rows,
        pass: &Pass<'_>,
        cache: &LayerCache,
        chosen: Option<&Chosen>,
    ) -> Result<Rows> {
        if let Some(temperature) = self.plan.temperature {
            let positions = pass.start..pass.start + q.len();
            let growth = positions.map(|position| temperature.at(position));
            q.scale_rows(&Rows::new(growth.collect(), 1));
        }
        let mut mixed = match (&self.differential, cache.keys.engine()) {
            (Some(differential), _) => differential.of(&self.attend(&q, pass, cache, chosen)?),
            (None, Some(engine)) => self.attend_on(&engine, &q, pass, cache),
            (None, None) => self.attend(&q, pass, cache, chosen)?,
        };
        if self.plan.value_scale != 1.0 {
            mixed.scale(self.plan.value_scale);
        }
        if let Some(gate) = &self.gate {
            gate.apply(&mut mixed, x)?;
        }
        self.sub_norm.iter().for_each(|norm| norm.apply(&mut mixed));
        match &self.output {
            Output::Matrix(output) => output.of(&mixed),
            Output::Experts(experts) => experts.output(&mixed, x),
        }
    }

    /// The values of the positions that each query attends to.
    fn attend(
        &self,
        q: &Rows,
        pass: &Pass<'_>,
        cache: &LayerCache,
        chosen: Option<&Chosen>,
    ) -> Result<Rows> {
        let heads = self.plan.heads;
        let mask = self.mask.as_ref();
        let mask = mask.map(|mask| Ok::<_, Error>((mask, mask.numbers(&cache.values)?)));
        let seen = Seen { q, start: pass.start, cache, mask: mask.transpose()?, chosen };
        let width = self.halves() * self.plan.value_dim;
        let mut mixed = Rows::zeros(q.len(), heads * width);
        let parts = (0..q.len().div_ceil(NEAR) * heads).into_par_iter().map(|part| {
            let first = part / heads * NEAR;
            self.attend_near(&seen, first..q.len().min(first + NEAR), part % heads)
        });
        let parts: Vec<Vec<f32>> = parts.collect();
        for (near, parts) in
            mixed.values_mut().chunks_mut(NEAR * heads * width).zip(parts.chunks(heads))
        {
            for (head, part) in parts.iter().enumerate() {
                let rows = near.chunks_exact_mut(heads * width).zip(part.chunks_exact(width));
                let rows = rows
                    .filter_map(|(out, row)| Some((out.chunks_exact_mut(width).nth(head)?, row)));
                rows.for_each(|(out, row)| out.copy_from_slice(row));
            }
        }
        Ok(mixed)
    }

    /// A head of differential attention reads a value head of each half.
    fn halves(&self) -> usize {
        if self.differential.is_some() { 2 } else { 1 }
    }

    /// As [`attend`](Self::attend), for one head and some queries that see about the same keys.
    fn attend_near(&self, seen: &Seen<'_>, rows: Range<usize>, head: usize) -> Vec<f32> {
        let AttentionPlan { heads, kv_heads, head_dim, value_dim, .. } = self.plan;
        let kv = head / (heads / kv_heads);
        let (keys, values) = (&seen.cache.keys, &seen.cache.values);
        let each = rows.clone().map(|row| self.keys_of(seen.start + row, keys.len()));
        let first = each.clone().map(|keys| keys.start).min().unwrap_or_default();
        let end = each.clone().map(|keys| keys.end).max().unwrap_or_default();
        let (count, halves) = (end - first, self.halves());
        let mut out = vec![0.0; rows.len() * halves * value_dim];
        if count == 0 {
            return out;
        }
        let queries = of_head(seen.q, rows.clone(), head_dim, (heads, head));
        let keys = of_head(keys, first..end, head_dim, (kv_heads, kv));
        let mut scores = vec![0.0; rows.len() * count];
        match rows.len() {
            1 => multiply_rows(keys, queries.values, &mut scores),
            _ => InputPanels::new(queries, head_dim).multiply(keys, &mut scores),
        }
        let scores = scores.chunks_exact_mut(count);
        let each = rows.zip(each).zip(scores).zip(out.chunks_exact_mut(halves * value_dim));
        for (((row, own), scores), out) in each {
            let own_scores = scores.get_mut(own.start - first..own.end - first);
            let scores = own_scores.unwrap_or_default();
            self.weigh(seen, (row, head), own.start, scores);
            for (half, out) in out.chunks_exact_mut(value_dim).enumerate() {
                let of_half = kv_heads / halves;
                let kv = if halves == 1 { kv } else { half * of_half + kv % of_half };
                let values = of_head(values, own.clone(), value_dim, (kv_heads, kv));
                let (right, stride) = (values.values, values.stride);
                add_product(ProductRow { left: scores, right, stride, scale: 1.0 }, out);
            }
        }
        out
    }

    /// The keys that the query of a position sees, of those that are there.
    fn keys_of(&self, position: usize, all: usize) -> Range<usize> {
        let (first, end) = match (self.plan.window, self.plan.causal) {
            (None, true) => (0, position + 1),
            (None, false) => (0, all),
            (Some(chunk), _) if self.plan.chunked => {
                (position - position % chunk.max(1), position + 1)
            }
            (Some(window), true) => ((position + 1).saturating_sub(window), position + 1),
            // Half of the window to either side.
            (Some(window), false) => {
                (position.saturating_sub(window / 2), position + window / 2 + 1)
            }
        };
        let end = end.min(all);
        first.min(end)..end
    }

    /// Turns the products of a query and the keys from `first` on into the weights of their values.
    #[expect(clippy::cast_precision_loss, reason = "positions are computed in f32")]
    fn weigh(
        &self,
        seen: &Seen<'_>,
        (row, head): (usize, usize),
        first: usize,
        scores: &mut [f32],
    ) {
        let AttentionPlan { heads, kv_heads, head_dim, .. } = self.plan;
        let (position, kv) = (seen.start + row, head / (heads / kv_heads));
        scores.iter_mut().for_each(|score| *score *= self.plan.scale);
        let slopes = self.slopes.as_ref().and_then(|slopes| slopes.values().get(head));
        if let Some(fall) = slopes {
            let places = (first..).zip(scores.iter_mut());
            places.for_each(|(place, score)| *score -= fall * position.abs_diff(place) as f32);
        }
        let keys = seen.cache.keys.values().chunks_exact(head_dim).skip(kv).step_by(kv_heads);
        let values = seen.q.values().chunks_exact(head_dim).nth(row * heads + head);
        let query = Query { head, position, values: values.unwrap_or_default() };
        self.add_distances(query, first, keys.skip(first), scores);
        if let Some((mask, numbers)) = &seen.mask {
            mask.apply(numbers, kv, first, scores);
        }
        if let Some(chosen) = seen.chosen {
            let places = (first..).zip(scores.iter_mut());
            let left_out = places.filter(|(at, _)| !chosen.has(row, (head, heads), *at));
            left_out.for_each(|(_, score)| *score = f32::NEG_INFINITY);
        }
        if let Some(cap) = self.plan.softcap {
            scores.iter_mut().for_each(|score| *score = (*score / cap).tanh() * cap);
        }
        let sink = self.sinks.as_ref().and_then(|sinks| sinks.values().get(head)).copied();
        softmax(scores, sink);
    }

    /// Adds to the scores of a query what was learned of the distances of keys, from the place `first` on.
    fn add_distances<'k>(
        &self,
        query: Query<'_>,
        first: usize,
        keys: impl Iterator<Item = &'k [f32]>,
        scores: &mut [f32],
    ) {
        if let Some((plan, biases)) = &self.distances {
            for (place, score) in (first..).zip(scores.iter_mut()) {
                let bucket = plan.bucket(query.position, place, self.plan.causal);
                let bias = biases.get(bucket * self.plan.heads + query.head);
                *score += bias.copied().unwrap_or_default();
            }
        }
        if let Some(own) = &self.disentangled {
            own.add(query, first, keys, self.plan.scale, scores);
        }
    }

    /// As [`attend`](Self::attend), on the GPU that has the cache.
    fn attend_on(
        &self,
        engine: &Arc<Engine>,
        q: &Rows,
        pass: &Pass<'_>,
        cache: &LayerCache,
    ) -> Rows {
        let AttentionPlan { heads, kv_heads, head_dim, value_dim, .. } = self.plan;
        let all = cache.keys.len();
        let mut mixed = Rows::unfilled(engine, q.len(), heads * value_dim);
        let empty = Rows::default();
        let at_once = (SCORES / (heads * all).max(1)).max(1);
        for first in (0..q.len()).step_by(at_once) {
            let runs = heads * at_once.min(q.len() - first);
            let mut scores = Rows::unfilled(engine, runs, all);
            let sizes = [runs * all, heads, kv_heads, all, head_dim, first, pass.start].map(number);
            let masks = [
                self.plan.scale.to_bits(),
                u32::from(self.plan.causal),
                number(self.plan.window.unwrap_or(0)),
                u32::from(self.plan.chunked),
                self.plan.softcap.unwrap_or(0.0).to_bits(),
                u32::from(self.slopes.is_some()),
            ];
            let slopes = self.slopes.as_ref().unwrap_or(&empty);
            let numbers = [&sizes[..], &masks].concat();
            scores.step(engine, "scores", &[q, &cache.keys, slopes], &numbers);
            let numbers = [runs, all, heads, usize::from(self.sinks.is_some())].map(number);
            let sinks = self.sinks.as_ref().unwrap_or(&empty);
            scores.step_by(engine, "softmax", &[sinks], &numbers, runs);
            let numbers = [runs * value_dim, heads, kv_heads, all, value_dim, first].map(number);
            mixed.step(engine, "mix", &[&scores, &cache.values], &numbers);
        }
        mixed
    }
}

/// Some rows of one of so many heads.
fn of_head(
    rows: &Rows,
    part: Range<usize>,
    width: usize,
    (heads, head): (usize, usize),
) -> StridedRows<'_> {
    let at = |row: usize| (row * heads + head) * width;
    let last = at(part.end.saturating_sub(1)) + width;
    let values = rows.values().get(at(part.start)..last).unwrap_or_default();
    StridedRows { values, stride: heads * width }
}

impl Gate {
    fn load_if(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        plan: &AttentionPlan,
    ) -> Result<Option<Self>> {
        let Some(weight) = loader.weight_if(name, dim)? else { return Ok(None) };
        let AttentionPlan { heads, value_dim, .. } = *plan;
        if ![heads, heads * value_dim].contains(&weight.outputs()) {
            let fault = format!("{name} has {} outputs for {heads} heads", weight.outputs());
            return Err(Error::Mismatch(fault));
        }
        let bias = format!("{name}.head_bias");
        let has_bias = loader.has(&bias);
        Ok(Some(Self {
            weight,
            head_bias: has_bias.then(|| loader.vector(&bias, heads)).transpose()?,
            function: match plan.gate {
                GateFunction::Sigmoid => Function::Sigmoid,
                GateFunction::Softplus => Function::Softplus,
            },
            value_dim,
        }))
    }

    /// Multiplies what attention gives by the function of the gates that `x` gives.
    fn apply(&self, mixed: &mut Rows, x: &Rows) -> Result<()> {
        let gates = self.weight.of(x)?;
        let gates = spread(gates, mixed.width(), self.value_dim, self.head_bias.as_deref());
        mixed.gate(&gates, self.function);
        Ok(())
    }
}

/// Gates for each value: those of heads are repeated, and each has the bias of its head.
fn spread(gates: Rows, width: usize, value_dim: usize, bias: Option<&[f32]>) -> Rows {
    let mut gates = match gates.width() < width {
        true => {
            let each = gates.values().iter().flat_map(|gate| vec![*gate; value_dim]);
            Rows::new(each.collect(), width)
        }
        false => gates,
    };
    if let Some(bias) = bias {
        for row in gates.rows_mut() {
            let heads = row.chunks_exact_mut(value_dim.max(1)).zip(bias);
            heads.for_each(|(head, bias)| head.iter_mut().for_each(|gate| *gate += bias));
        }
    }
    gates
}

impl DistancePlan {
    /// The range that a distance is in. Half of the ranges are single distances, and the others grow
    /// with the logarithm. Where positions see those behind them too, each side has half of the ranges.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "distances are computed in f32"
    )]
    fn bucket(&self, query: usize, key: usize, causal: bool) -> usize {
        let (buckets, first) = match causal {
            true => (self.buckets, 0),
            false => (self.buckets / 2, if key > query { self.buckets / 2 } else { 0 }),
        };
        let distance = query.abs_diff(key);
        let single = buckets / 2;
        if distance < single || single == 0 {
            return first + distance.min(buckets.saturating_sub(1));
        }
        let part = (distance as f32 / single as f32).ln()
            / (self.farthest as f32 / single as f32).ln()
            * (buckets - single) as f32;
        first + (single + part as usize).min(buckets - 1)
    }
}

fn bound(x: &mut Rows, clip: Option<f32>) {
    if let Some(bound) = clip {
        x.apply(Function::Clip(bound));
    }
}

/// The slope of a head, by the rule of ALiBi's authors: powers of 2^(-8 / heads), and where their
/// number is no power of two, every other one of the next finer powers for the rest.
#[expect(clippy::cast_precision_loss, reason = "numbers of heads")]
fn slope(head: usize, heads: usize) -> f32 {
    let power = 1 << heads.max(1).ilog2();
    let (step, count) = match head.checked_sub(power) {
        None => (8.0 / power as f32, head + 1),
        Some(rest) => (4.0 / power as f32, 2 * rest + 1),
    };
    (-step * count as f32).exp2()
}

impl Latent {
    fn load(
        loader: Loader<'_>,
        name: &str,
        dim: usize,
        attention: &AttentionPlan,
        plan: &LatentPlan,
    ) -> Result<Self> {
        let AttentionPlan { heads, head_dim, value_dim, .. } = *attention;
        let at = |what: &str| format!("{name}.{what}");
        let norm = NormPlan::new(NormKind::Rms, plan.eps);
        let (q_a, q_b) = match plan.q_rank {
            None => (None, loader.sized(&at("q"), heads * head_dim, dim)?),
            Some(rank) => {
                let q_a = (
                    loader.sized(&at("q_a"), rank, dim)?,
                    loader.norm(&at("q_a_norm"), rank, norm)?,
                );
                (Some(q_a), loader.sized(&at("q_b"), heads * head_dim, rank)?)
            }
        };
        let unfold = |what: &str, width: usize| {
            let weight = loader.sized(&at(what), width, plan.kv_rank)?;
            if weight.arrays() == heads {
                return Ok(weight);
            }
            Err(Error::Mismatch(format!("{name}.{what} has {} heads", weight.arrays())))
        };
        let plain = head_dim.checked_sub(plan.rotated);
        let plain = plain.ok_or_else(|| Error::Mismatch(format!("heads of {head_dim}")))?;
        Ok(Self {
            plan: *plan,
            q_a,
            q_b,
            kv_a: loader.sized(&at("kv_a"), plan.kv_rank + plan.rotated, dim)?,
            kv_norm: loader.norm(&at("kv_a_norm"), plan.kv_rank, norm)?,
            k_b: unfold("k_b", plain)?,
            v_b: unfold("v_b", value_dim)?,
        })
    }

    /// Queries; keys and values go into the cache, unfolded.
    fn of(
        &self,
        x: &Rows,
        attention: &AttentionPlan,
        pass: &Pass<'_>,
        cache: &mut LayerCache,
    ) -> Result<Rows> {
        let AttentionPlan { heads, head_dim, value_dim, .. } = *attention;
        let LatentPlan { kv_rank, rotated, .. } = self.plan;
        let plain = head_dim - rotated;
        let mut q = match &self.q_a {
            Some((q_a, norm)) => {
                let mut narrow = q_a.of(x)?;
                norm.apply(&mut narrow);
                self.q_b.of(&narrow)?
            }
            None => self.q_b.of(x)?,
        };
        let both = self.kv_a.of(x)?;
        let mut narrow = both.columns(0..kv_rank);
        let mut shared = both.columns(kv_rank..kv_rank + rotated);
        self.kv_norm.apply(&mut narrow);
        if let Some((rope, turns)) = attention.rope.and_then(|rope| pass.ropes.get(rope)) {
            rope.apply(turns, &mut q, head_dim, plain);
            rope.apply(turns, &mut shared, rotated, 0);
        }
        let mut keys = Rows::zeros(x.len(), heads * head_dim);
        let mut values = Rows::zeros(x.len(), heads * value_dim);
        for head in 0..heads {
            let (k, v) = (self.k_b.of_array(head, &narrow)?, self.v_b.of_array(head, &narrow)?);
            for ((row, k), shared) in keys.rows_mut().zip(k.rows()).zip(shared.rows()) {
                let own = row.iter_mut().skip(head * head_dim);
                own.zip(k.iter().chain(shared)).for_each(|(out, k)| *out = *k);
            }
            for (row, v) in values.rows_mut().zip(v.rows()) {
                row.iter_mut().skip(head * value_dim).zip(v).for_each(|(out, v)| *out = *v);
            }
        }
        cache.add(&keys, &values);
        Ok(q)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_of_heads_are_spread_over_their_values() {
        let gates = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 2);
        let spread_out = spread(gates, 4, 2, Some(&[0.5, -1.0]));
        assert_eq!(spread_out.values(), [1.5, 1.5, 1.0, 1.0, 3.5, 3.5, 3.0, 3.0]);
        let whole = Rows::new(vec![1.0, 2.0, 3.0, 4.0], 4);
        assert_eq!(spread(whole, 4, 2, None).values(), [1.0, 2.0, 3.0, 4.0]);
    }
}
