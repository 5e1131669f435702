//! A layer: attention and a network, with norms before and behind them.

use crate::attention::{Attention, Pass};
use crate::cache::LayerCache;
use crate::convolution::ShortConvolution;
use crate::decaying::Decaying;
use crate::error::{Error, Result};
use crate::gated_lru::GatedLru;
use crate::linear::Linear;
use crate::math::Activation;
use crate::matrix_lstm::MatrixLstm;
use crate::network::{Dense, Experts};
use crate::plan::{
    Arrangement, AttentionPlan, BranchScales, LayerPlan, MixerPlan, NormPlan, Plan, Residual,
    StateSpacePlan,
};
use crate::rope::{Rope, Turns};
use crate::rows::Rows;
use crate::state_space::StateSpace;
use crate::streams::{Laurel, Streams};
use crate::weight::{Loader, Norm, Weight};
use crate::wkv::{ChannelMix, TimeMix};

/// The names of the parts of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) stack: &'static str,
    pub(crate) attention_norm: &'static str,
    pub(crate) attention: &'static str,
    pub(crate) post_attention_norm: &'static str,
    pub(crate) post_ffn_norm: &'static str,
}

impl Names {
    /// The name of a part of a layer.
    fn at(&self, place: usize, what: &str) -> String {
        format!("{}.{place}.{what}", self.stack)
    }
}

/// Those of decoders.
pub(crate) const DECODER: Names = Names {
    stack: "layers",
    attention_norm: "attention_norm",
    attention: "attention",
    post_attention_norm: "post_attention_norm",
    post_ffn_norm: "post_ffn_norm",
};

/// Those of layers that norm sums.
pub(crate) const NORMED_SUM: Names = Names {
    post_attention_norm: "attention_output_norm",
    post_ffn_norm: "layer_output_norm",
    ..DECODER
};

/// The same, where each norm has the name of what it belongs to.
pub(crate) const OWN_NORMS: Names =
    Names { post_attention_norm: "attention_norm", post_ffn_norm: "ffn_norm", ..DECODER };

/// Those of the encoder beside a decoder.
pub(crate) const ENCODER: Names =
    Names { stack: "enc.layers", attention_norm: "attn_norm", attention: "attn", ..DECODER };

/// The same, of layers that norm sums.
pub(crate) const ENCODER_SUM: Names =
    Names { post_attention_norm: "attn_norm", post_ffn_norm: "ffn_norm", ..ENCODER };

/// A layer with its weights.
#[derive(Debug)]
pub(crate) struct Layer {
    place: usize,
    arrangement: Arrangement,
    residual: Residual,
    residuals: [(f32, f32); 2],
    /// Factors of the residual stream's channels where attention and the network are added to it.
    channels: [Option<Rows>; 2],
    /// The norm of the residual stream itself.
    input_norm: Option<Norm>,
    attention_norm: Option<Norm>,
    mixer: Mixer,
    post_attention_norm: Option<Norm>,
    /// The norm of the sum of attention's output and the layer's input (Jina's model for code).
    sum_norm: Option<Norm>,
    cross: Option<(Norm, Attention)>,
    network_norm: Option<Norm>,
    dense: Option<Dense>,
    channel_mix: Option<ChannelMix>,
    experts: Option<Experts>,
    beside: Option<Beside>,
    post_network_norm: Option<Norm>,
    per_layer: Option<LayerEmbedding>,
    output_scale: Option<f32>,
    /// Factors of what attention and the network add.
    gains: [Option<f32>; 2],
    /// Whether it changes nothing: it has no part, or attends to an encoder's output alone, and without an image, Llama's
    /// class leaves such layers out.
    is_left_out: bool,
    /// The factor of the embedding, which the layer adds again (Talkie).
    embedding_gain: Option<f32>,
    streams: Option<(Streams, Laurel)>,
}

#[derive(Debug)]
enum Mixer {
    Attention(Box<Attention>),
    Linear(Box<Linear>),
    ShortConvolution(Box<ShortConvolution>),
    StateSpace(Box<StateSpace>),
    Both(Box<Attention>, Box<StateSpace>, BranchScales),
    Decaying(Box<Decaying>),
    GatedLru(Box<GatedLru>),
    MatrixLstm(Box<MatrixLstm>),
    TimeMix(Box<TimeMix>),
    None,
}

/// The parts that experts next to a dense network have in addition: norms, and the input of the
/// router (Gemma 4).
#[derive(Debug)]
struct Beside {
    dense_norm: Norm,
    experts_norm: Norm,
    post_experts_norm: Norm,
    router_norm: Norm,
    router_scale: Vec<f32>,
}

/// The embedding that each layer has (Gemma 3n and 4).
#[derive(Debug)]
struct LayerEmbedding {
    gate: Weight,
    projection: Weight,
    norm: Norm,
    activation: Activation,
}

/// The inputs of layers other than the residual stream.
#[derive(Debug)]
pub(crate) struct Context<'c> {
    pub(crate) pass: &'c Pass<'c>,
    pub(crate) caches: &'c mut [LayerCache],
    /// Keys and values of the encoder, for each layer.
    pub(crate) encoded: &'c [LayerCache],
    /// The layers' own embeddings, one after another in each row.
    pub(crate) per_layer: Option<&'c Rows>,
    /// The input of the first layer, if layers add it again.
    pub(crate) embedding: Option<&'c Rows>,
}

impl Context<'_> {
    fn cache(&mut self, layer: usize) -> Result<&mut LayerCache> {
        let missing = || Error::Mismatch(format!("no cache for layer {layer}"));
        self.caches.get_mut(layer).ok_or_else(missing)
    }
}

impl Mixer {
    fn load(
        loader: Loader<'_>,
        names: Names,
        place: usize,
        plan: &MixerPlan,
        dim: usize,
        norm: NormPlan,
    ) -> Result<Self> {
        let attention = |own, latent| {
            Attention::load(loader, &names.at(place, names.attention), dim, own, latent, norm)
        };
        let state_space = |own: &StateSpacePlan| {
            StateSpace::load(loader, &names.at(place, "ssm"), dim, *own, norm.eps)
        };
        Ok(match plan {
            MixerPlan::Attention(own) => {
                let owner = match own.distances {
                    Some(distances) if !distances.of_layers => 0,
                    _ => place,
                };
                let owner = names.at(owner, names.attention);
                let loaded = attention(own, None)?.with_distances(loader, &owner)?;
                Self::Attention(Box::new(loaded))
            }
            MixerPlan::Latent(own, latent) => {
                Self::Attention(Box::new(attention(own, Some(latent))?))
            }
            MixerPlan::Linear(own) => {
                let name = names.at(place, "linear_attention");
                let attention = names.at(place, names.attention);
                Self::Linear(Box::new(Linear::load(loader, &name, &attention, dim, *own)?))
            }
            MixerPlan::StateSpace(own) => Self::StateSpace(Box::new(state_space(own)?)),
            MixerPlan::Both(own, states, scales) => {
                Self::Both(Box::new(attention(own, None)?), Box::new(state_space(states)?), *scales)
            }
            MixerPlan::Decaying(own) => {
                let name = names.at(place, "linear_attention");
                Self::Decaying(Box::new(Decaying::load(loader, &name, dim, *own)?))
            }
            MixerPlan::GatedLru(own) => {
                let name = names.at(place, "recurrence");
                Self::GatedLru(Box::new(GatedLru::load(loader, &name, dim, *own)?))
            }
            MixerPlan::MatrixLstm(own) => {
                let name = names.at(place, "matrix_lstm");
                let loaded = MatrixLstm::load(loader, &name, dim, *own, norm.eps)?;
                Self::MatrixLstm(Box::new(loaded))
            }
            MixerPlan::TimeMix => {
                let name = names.at(place, "time_mix");
                Self::TimeMix(Box::new(TimeMix::load(loader, &name, dim)?))
            }
            MixerPlan::None => Self::None,
            MixerPlan::ShortConvolution(kernel) => {
                let name = names.at(place, "short_conv");
                let loaded = ShortConvolution::load(loader, &name, dim, *kernel)?;
                Self::ShortConvolution(Box::new(loaded))
            }
        })
    }
}

impl Beside {
    fn load(
        loader: Loader<'_>,
        at: impl Fn(&str) -> String,
        dim: usize,
        norm: NormPlan,
    ) -> Result<Self> {
        Ok(Self {
            dense_norm: loader.norm(&at("post_ffn_norm_1"), dim, norm)?,
            experts_norm: loader.norm(&at("ffn_norm_2"), dim, norm)?,
            post_experts_norm: loader.norm(&at("post_ffn_norm_2"), dim, norm)?,
            router_norm: Norm::bare(dim, norm),
            router_scale: loader.vector(&at("ffn.router.scale"), dim)?,
        })
    }
}

impl LayerEmbedding {
    fn load_if(
        loader: Loader<'_>,
        at: impl Fn(&str) -> String,
        dim: usize,
        plan: &Plan,
        activation: Activation,
    ) -> Result<Option<Self>> {
        let width = plan.per_layer_dim.filter(|_| loader.has(&at("per_layer_gate.weight")));
        let Some(width) = width else { return Ok(None) };
        Ok(Some(Self {
            gate: loader.sized(&at("per_layer_gate"), width, dim)?,
            projection: loader.sized(&at("per_layer_projection"), dim, width)?,
            norm: loader.norm(&at("per_layer_norm"), dim, plan.norm)?,
            activation,
        }))
    }
}

/// The only value of a tensor, if the model has it.
fn single(loader: Loader<'_>, name: &str) -> Result<Option<f32>> {
    let found = loader.has(name).then(|| loader.vector(name, 1)).transpose()?;
    Ok(found.and_then(|mut found| found.pop()))
}

/// Loads the attention to the output of an encoder, if the layer has it.
fn load_cross(
    loader: Loader<'_>,
    at: impl Fn(&str) -> String,
    mixer: &MixerPlan,
    dim: usize,
    norm: NormPlan,
) -> Result<Option<(Norm, Attention)>> {
    let MixerPlan::Attention(own) = mixer else { return Ok(None) };
    if !loader.has(&at("cross_attn.q.weight")) {
        return Ok(None);
    }
    let plan = AttentionPlan { causal: false, rope: None, distances: None, ..own.clone() };
    let before = loader.norm(&at("cross_attn_norm"), dim, norm)?;
    let attention = Attention::load(loader, &at("cross_attn"), dim, &plan, None, norm)?;
    Ok(Some((before, attention)))
}

/// Factors of the residual stream's channels, for what attention and the network are added to.
fn channel_factors(
    loader: Loader<'_>,
    at: impl Fn(&str) -> String,
    dim: usize,
) -> Result<[Option<Rows>; 2]> {
    let factors = |what: &str| {
        let factors = loader.vector_if(&at(what), dim)?;
        Ok::<_, Error>(factors.map(|factors| Rows::new(factors, dim)))
    };
    Ok([factors("attention_residual")?, factors("ffn_residual")?])
}

impl Layer {
    pub(crate) fn load(
        loader: Loader<'_>,
        names: Names,
        place: usize,
        layer: &LayerPlan,
        plan: &Plan,
        dim: usize,
    ) -> Result<Self> {
        let at = |what: &str| names.at(place, what);
        let norm = plan.norm;
        let behind = |what: &str| loader.norm_if(&at(what), dim, plan.norm_at(what));
        let before = |what: &str| {
            let loaded = behind(what)?;
            Ok::<_, Error>(loaded.or_else(|| norm.bare.then(|| Norm::bare(dim, norm))))
        };
        let mixer = Mixer::load(loader, names, place, &layer.mixer, dim, norm)?;
        let is_none = matches!(mixer, Mixer::None);
        let network = &layer.network;
        let channel_mix = ChannelMix::load_if(loader, &at("ffn"), dim)?;
        let dense = Dense::load_if(loader, &at("ffn"), dim, network, norm)?;
        let experts = Experts::load_if(loader, &at("ffn"), dim, network, norm)?;
        // In some families, a layer has one part alone: a mixer or a network.
        let needs_network =
            !plan.has_single_parts && !matches!(mixer, Mixer::StateSpace(_)) || is_none;
        if needs_network && !layer.is_empty && dense.is_none() && experts.is_none() {
            return Err(Error::Unsupported(format!("{} without a network", at(""))));
        }
        let post_attention_norm = behind(names.post_attention_norm)?;
        let post_network_norm = behind(names.post_ffn_norm)?;
        let lacks_norm = post_attention_norm.is_none() || post_network_norm.is_none();
        if plan.arrangement == Arrangement::NormedSum && lacks_norm {
            return Err(Error::Unsupported(format!("{} without norms of sums", at(""))));
        }
        let beside = match dense.is_some() && experts.is_some() {
            true => Some(Beside::load(loader, at, dim, norm)?),
            false => None,
        };
        let per_layer = LayerEmbedding::load_if(loader, at, dim, plan, network.activation)?;
        let streams = match plan.active_stream {
            Some(active) => Some((
                Streams::load(loader, &at("altup"), dim, active, norm)?,
                Laurel::load(loader, &at("laurel"), dim, norm)?,
            )),
            None => None,
        };
        let single = |what: &str| single(loader, &at(what));
        Ok(Self {
            place,
            arrangement: plan.arrangement,
            residual: plan.residual,
            residuals: layer.residuals,
            channels: channel_factors(loader, at, dim)?,
            input_norm: behind("input_norm")?,
            attention_norm: before(names.attention_norm)?,
            mixer,
            post_attention_norm,
            sum_norm: behind("attention_sum_norm")?,
            cross: load_cross(loader, at, &layer.mixer, dim, norm)?,
            network_norm: before("ffn_norm")?,
            dense,
            channel_mix,
            experts,
            beside,
            post_network_norm,
            per_layer,
            output_scale: single("output_scale")?,
            gains: [single("attention_gain")?, single("ffn_gain")?],
            is_left_out: layer.is_empty || is_none && loader.has(&at("cross_attn.q.weight")),
            embedding_gain: single("embedding_gain")?,
            streams,
        })
    }

    /// Keys and values of what an encoder gave, where the layer attends to that.
    pub(crate) fn remember(&self, encoded: &Rows) -> Result<LayerCache> {
        match &self.cross {
            Some((_, attention)) => attention.remember(encoded),
            None => Ok(LayerCache::default()),
        }
    }

    /// Whether it adds the embedding again.
    pub(crate) fn adds_embedding(&self) -> bool {
        self.embedding_gain.is_some()
    }

    /// Changes the residual stream.
    pub(crate) fn apply(&self, x: &mut Rows, context: &mut Context<'_>) -> Result<()> {
        if self.is_left_out {
            return Ok(());
        }
        self.input_norm.iter().for_each(|norm| norm.apply(x));
        match self.arrangement {
            Arrangement::Sequential if matches!(self.mixer, Mixer::None) => {
                // The layer has one norm, which is called that of attention in layers of any kind.
                let norm = self.network_norm.as_ref().or(self.attention_norm.as_ref());
                let seen = normed(norm, x);
                let added = self.network(x, &seen, &seen)?;
                self.join(x, &added, 1);
            }
            Arrangement::NormedStream => {
                let [mixed, computed] = self.residuals;
                *x = normed(self.attention_norm.as_ref(), x);
                let added = self.mix(x, context)?;
                x.scale(mixed.0);
                x.add(&added, mixed.1);
                *x = normed(self.network_norm.as_ref(), x);
                let added = self.network(x, x, x)?;
                x.scale(computed.0);
                x.add(&added, computed.1);
            }
            Arrangement::Sequential => {
                let seen = normed(self.attention_norm.as_ref(), x);
                let stream = self.experts.as_ref().filter(|own| own.sees_stream());
                let stream = stream.map(|_| x.clone());
                let mut added = self.mix(&seen, context)?;
                self.post_attention_norm.iter().for_each(|norm| norm.apply(&mut added));
                self.join(x, &added, 0);
                if let Some((norm, attention, encoded)) = self.across(context) {
                    x.add(&attention.across(&norm.of(x), encoded)?, 1.0);
                }
                if let Some(mix) = &self.channel_mix {
                    let seen = normed(self.network_norm.as_ref(), x);
                    self.join(x, &mix.of(&seen, context.cache(self.place)?)?, 1);
                } else if self.dense.is_some() || self.experts.is_some() {
                    let seen = normed(self.network_norm.as_ref(), x);
                    let added = self.network(x, &seen, stream.as_ref().unwrap_or(&seen))?;
                    self.join(x, &added, 1);
                }
                // State-space layers may have none.
            }
            Arrangement::Parallel => {
                let seen = normed(self.attention_norm.as_ref(), x);
                let mixed = self.mix(&seen, context)?;
                let seen = self.network_norm.as_ref().map_or(seen, |norm| norm.of(x));
                let added = self.network(x, &seen, &seen)?;
                self.join(x, &mixed, 0);
                self.join(x, &added, 1);
            }
            Arrangement::NormedSum => {
                let mut sum = self.mix(x, context)?;
                sum.add(x, 1.0);
                self.post_attention_norm.iter().for_each(|norm| norm.apply(&mut sum));
                if let Some(norm) = &self.sum_norm {
                    sum.add(x, 1.0);
                    norm.apply(&mut sum);
                }
                *x = sum;
                if let Some((norm, attention, encoded)) = self.across(context) {
                    x.add(&attention.across(x, encoded)?, 1.0);
                    norm.apply(x);
                }
                let added = self.compute(x, x, x)?;
                x.add(&added, 1.0);
                self.post_network_norm.iter().for_each(|norm| norm.apply(x));
            }
        }
        if let Some(added) = self.own_embedding(x, context)? {
            x.add(&added, 1.0);
        }
        if let (Some(gain), Some(embedding)) = (self.embedding_gain, context.embedding) {
            x.add(embedding, gain);
        }
        self.output_scale.iter().for_each(|scale| x.scale(*scale));
        Ok(())
    }

    /// Attention to what an encoder gave, if it gave anything.
    fn across<'c>(
        &'c self,
        context: &Context<'c>,
    ) -> Option<(&'c Norm, &'c Attention, &'c LayerCache)> {
        let (norm, attention) = self.cross.as_ref()?;
        Some((norm, attention, context.encoded.get(self.place)?))
    }

    /// Changes several residual streams, of which the layer itself computes one (AltUp, Gemma 3n).
    pub(crate) fn apply_to_streams(
        &self,
        all: &mut [Rows],
        context: &mut Context<'_>,
    ) -> Result<()> {
        let lacks = || Error::Unsupported("a layer without alternating updates".to_owned());
        let (streams, laurel) = self.streams.as_ref().ok_or_else(lacks)?;
        streams.predict(all)?;
        let active = all.get(streams.active()).cloned().ok_or_else(lacks)?;
        let seen = normed(self.attention_norm.as_ref(), &active);
        let mut x = self.mix(&seen, context)?;
        self.post_attention_norm.iter().for_each(|norm| norm.apply(&mut x));
        x.add(&active, 1.0);
        x.add(&laurel.of(&seen)?, 1.0);
        x.scale(std::f32::consts::FRAC_1_SQRT_2);
        let seen = normed(self.network_norm.as_ref(), &x);
        let added = self.network(&x, &seen, &seen)?;
        x.add(&added, 1.0);
        streams.correct(all, &x)?;
        let mut first = all.get(streams.active()).cloned().ok_or_else(lacks)?;
        streams.scale(&mut first);
        if let Some(added) = self.own_embedding(&first, context)? {
            all.iter_mut().skip(1).for_each(|stream| stream.add(&added, 1.0));
        }
        Ok(())
    }

    /// Adds what attention (part 0) or the network (part 1) gives to the residual stream.
    fn join(&self, x: &mut Rows, added: &Rows, part: usize) {
        let (kept, factor) = self.residual.factors(2 * self.place + part);
        if kept != 1.0 {
            x.scale(kept);
        }
        if let Some(factors) = self.channels.get(part).and_then(Option::as_ref) {
            for row in x.rows_mut() {
                row.iter_mut().zip(factors.values()).for_each(|(x, factor)| *x *= factor);
            }
        }
        let gain = self.gains.get(part).copied().flatten().unwrap_or(1.0);
        x.add(added, factor * gain);
    }

    fn mix(&self, x: &Rows, context: &mut Context<'_>) -> Result<Rows> {
        let pass = context.pass;
        match &self.mixer {
            Mixer::Attention(own) => own.of(x, pass, context.cache(own.cache_of(self.place))?),
            Mixer::Linear(own) => own.of(x, context.cache(self.place)?),
            Mixer::StateSpace(own) => own.of(x, context.cache(self.place)?),
            Mixer::ShortConvolution(own) => own.of(x, context.cache(self.place)?),
            Mixer::Decaying(own) => own.of(x, context.cache(self.place)?),
            Mixer::GatedLru(own) => own.of(x, pass, context.cache(self.place)?),
            Mixer::MatrixLstm(own) => own.of(x, context.cache(self.place)?),
            Mixer::TimeMix(own) => own.of(x, context.cache(self.place)?),
            Mixer::Both(attention, states, scales) => {
                let mut mixed = states.of(x, context.cache(self.place)?)?;
                mixed.scale(scales.state_output);
                let mut seen = x.clone();
                seen.scale(scales.attention_input);
                let cache = context.cache(attention.cache_of(self.place))?;
                let attended = attention.of(&seen, pass, cache)?;
                mixed.add(&attended, scales.attention_output);
                Ok(mixed)
            }
            Mixer::None => Err(Error::Unsupported("a layer that mixes no positions".to_owned())),
        }
    }

    /// Computes what the network adds, with the norm after it. `routed` is the input of the router.
    fn network(&self, x: &Rows, seen: &Rows, routed: &Rows) -> Result<Rows> {
        let mut added = self.compute(x, seen, routed)?;
        self.post_network_norm.iter().for_each(|norm| norm.apply(&mut added));
        Ok(added)
    }

    fn compute(&self, x: &Rows, seen: &Rows, routed: &Rows) -> Result<Rows> {
        match (&self.dense, &self.experts, &self.beside) {
            (Some(dense), Some(experts), Some(beside)) => {
                let mut scored = beside.router_norm.of(x);
                #[expect(clippy::cast_precision_loss, reason = "a width")]
                let factor = (x.width() as f32).sqrt().recip();
                for row in scored.rows_mut() {
                    let scaled = row.iter_mut().zip(&beside.router_scale);
                    scaled.for_each(|(x, scale)| *x *= scale * factor);
                }
                let mut given = experts.of(&beside.experts_norm.of(x), &scored)?;
                beside.post_experts_norm.apply(&mut given);
                let mut added = dense.of(seen)?;
                beside.dense_norm.apply(&mut added);
                added.add(&given, 1.0);
                Ok(added)
            }
            (_, Some(experts), _) => experts.of(seen, routed),
            (Some(dense), None, _) => dense.of(seen),
            (None, None, _) => Err(Error::Unsupported("a layer without a network".to_owned())),
        }
    }

    /// Computes what the layer's own embedding adds.
    fn own_embedding(&self, x: &Rows, context: &Context<'_>) -> Result<Option<Rows>> {
        let (Some(own), Some(all)) = (&self.per_layer, context.per_layer) else { return Ok(None) };
        let width = own.gate.outputs();
        let mut given = all.columns(self.place * width..(self.place + 1) * width);
        given.gate(&own.gate.of(x)?, own.activation);
        let mut added = own.projection.of(&given)?;
        own.norm.apply(&mut added);
        Ok(Some(added))
    }
}

fn normed(norm: Option<&Norm>, x: &Rows) -> Rows {
    norm.map_or_else(|| x.clone(), |norm| norm.of(x))
}

pub(crate) fn load_layers(
    loader: Loader<'_>,
    names: Names,
    plan: &Plan,
    layers: &[LayerPlan],
    dim: usize,
) -> Result<Vec<Layer>> {
    let load = |(place, layer)| Layer::load(loader, names, place, layer, plan, dim);
    layers.iter().enumerate().map(load).collect()
}

pub(crate) fn turned(ropes: &[Rope], start: usize, length: usize) -> Vec<(Rope, Turns)> {
    ropes.iter().map(|rope| (rope.clone(), rope.turns(start, length))).collect()
}

/// Runs layers that attend to each other's positions alone.
pub(crate) fn run(
    layers: &[Layer],
    ropes: &[Rope],
    mut x: Rows,
    start: usize,
    caches: &mut [LayerCache],
) -> Result<Rows> {
    let ropes = turned(ropes, start, start + x.len());
    let pass = Pass { start, ropes: &ropes };
    let mut context =
        Context { pass: &pass, caches, encoded: &[], per_layer: None, embedding: None };
    for layer in layers {
        layer.apply(&mut x, &mut context)?;
    }
    Ok(x)
}
