//! A model's forward pass as data: [`Plan::of`] derives it from the config, and the model's family adds
//! what no config says.
//!
//! What the presence of a tensor says is not said here again: biases, norms of q and k, norms behind
//! attention and network, sinks, gates, experts and shared experts are there if their tensors are.

use weighbridge::arch::NormKind;

use crate::math::{Activation, Function};
use crate::rope::{Rope, Sinusoids};

/// A model's forward pass.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Width of the residual stream.
    pub dim: usize,
    /// Width of the embeddings of tokens: another one where a matrix projects them.
    pub embedding_dim: usize,
    /// Factor of the embedding.
    pub embedding_scale: f32,
    /// For models with learned positions, the row of the first one; with computed ones, its number.
    pub first_position: usize,
    /// A token whose position is the one before the first, and which later positions do not count.
    pub padding: Option<u32>,
    /// Whether the embedding is normed before positions are added.
    pub normed_first: bool,
    /// Whether the embedding is projected before anything is added.
    pub projected_first: bool,
    /// A token without an embedding: those of the others are scaled by the share of texts that they have.
    pub masked: Option<u32>,
    /// Tensors whose first rows are added to each embedding, if the model has them.
    pub first_rows: Vec<String>,
    /// Tensors whose first rows follow each embedding before it is projected.
    pub joined_embeddings: Vec<String>,
    /// Positions beyond which the class computes something else.
    pub longest: Option<usize>,
    /// Positions that are added to the embedding as sines and cosines.
    pub sinusoids: Option<Sinusoids>,
    /// The norms.
    pub norm: NormPlan,
    /// Norms in layers that are computed otherwise, with the names of their places.
    pub other_norms: Vec<(String, NormPlan)>,
    /// Whether the embedding is normed, without factors.
    pub norms_embedding: bool,
    /// The order of attention, network and norms.
    pub arrangement: Arrangement,
    /// The update of the residual stream by attention and network.
    pub residual: Residual,
    /// Whether each layer has one part alone, a mixer or a network.
    pub has_single_parts: bool,
    /// Each layer, from the first.
    pub layers: Vec<LayerPlan>,
    /// The number of times that an encoder runs each layer.
    pub runs: usize,
    /// The kinds of rotary embeddings that layers choose from.
    pub ropes: Vec<Rope>,
    /// Factor of the output.
    pub logit_scale: f32,
    /// Bound that tanh puts on the output.
    pub logit_softcap: Option<f32>,
    /// Embeddings that each layer has of its own: their width.
    pub per_layer_dim: Option<usize>,
    /// For alternating updates, which of the streams the layers compute.
    pub active_stream: Option<usize>,
    /// The activation of the head for masked words, where it is not that of the layers.
    pub head_activation: Option<Activation>,
    /// Whether an encoder gives the scores of tokens.
    pub scores_tokens: bool,
    /// The encoder of sound beside the decoder.
    pub encoder: Option<EncoderPlan>,
    /// The encoder of text beside the decoder.
    pub text_encoder: Option<TextEncoderPlan>,
}

/// The computation of norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormPlan {
    /// The kind.
    pub kind: NormKind,
    /// Added to the mean square.
    pub eps: f32,
    /// Added to the factors: 1 where a family stores the difference from 1.
    pub added: f32,
    /// Whether norms have no factors.
    pub bare: bool,
    /// The runs of values that have separate factors.
    pub runs: usize,
}

impl NormPlan {
    /// A norm with factors, which are the same for each run.
    pub fn new(kind: NormKind, eps: f32) -> Self {
        Self { kind, eps, added: 0.0, bare: false, runs: 1 }
    }

    /// The same norm, with separate factors for each of several runs.
    pub fn in_runs(self, runs: usize) -> Self {
        Self { runs, ..self }
    }
}

/// The update of the residual stream by attention and network.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Residual {
    /// The branch is multiplied by a factor before it is added.
    Scaled(f32),
    /// The stream is kept as the mean of what was added so far, times the square root of its number: with
    /// the sum of number `n`, it is multiplied by `sqrt((n - 1) / n)`, and what is added by `sqrt(1 / n)`.
    /// The embedding is the first.
    ByDepth,
}

/// The order of attention, network and norms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Arrangement {
    /// Attention, then the network; a norm before each, or behind each, or both.
    Sequential,
    /// Attention and network of the same input, added together.
    Parallel,
    /// As `Sequential`, with norms of the sum instead of what is added (BERT).
    NormedSum,
    /// As `Sequential`, but the residual stream itself is normed before each part (MiniMax).
    NormedStream,
}

/// A layer.
#[derive(Clone, Debug)]
pub struct LayerPlan {
    /// Whether the layer has neither a mixer nor a network, and changes nothing.
    pub is_empty: bool,
    /// The method by which it mixes positions.
    pub mixer: MixerPlan,
    /// The network that it applies to each position.
    pub network: NetworkPlan,
    /// For [`Arrangement::NormedStream`], the factors of the stream and of what is added, for attention
    /// and for the network.
    pub residuals: [(f32, f32); 2],
}

/// A method by which a layer mixes positions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MixerPlan {
    /// Queries, keys and values of heads.
    Attention(AttentionPlan),
    /// The same, unfolded from a narrower space.
    Latent(AttentionPlan, LatentPlan),
    /// Linear attention by the gated delta rule.
    Linear(LinearPlan),
    /// A gated convolution over that many positions.
    ShortConvolution(usize),
    /// A state for each channel.
    StateSpace(StateSpacePlan),
    /// Attention and a state space of the same input, added together.
    Both(AttentionPlan, StateSpacePlan, BranchScales),
    /// Sums of products of keys and values that decay at fixed rates.
    Decaying(DecayingPlan),
    /// A recurrence of single channels.
    GatedLru(GatedLruPlan),
    /// Matrices with exponential gates.
    MatrixLstm(MatrixLstmPlan),
    /// Means of values, weighted by keys that decay (RWKV 4).
    TimeMix,
    /// Nothing: the layer consists of its network.
    None,
}

/// Factors of attention and of the state space next to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BranchScales {
    /// Factor of what attention is given.
    pub attention_input: f32,
    /// Factor of what attention gives.
    pub attention_output: f32,
    /// Factor of what the state space gives.
    pub state_output: f32,
}

/// A recurrence of single channels whose rates depend on the input (De et al., "Griffin", 2024).
#[derive(Clone, Copy, Debug)]
pub struct GatedLruPlan {
    /// Channels.
    pub channels: usize,
    /// Blocks of channels, whose gates are computed from them.
    pub blocks: usize,
    /// Positions that its convolution sees.
    pub kernel: usize,
    /// The activation of the gate that the output is multiplied by.
    pub activation: Activation,
}

/// Matrices that exponential gates write and forget (Beck et al., "xLSTM", 2024).
#[derive(Clone, Copy, Debug)]
pub struct MatrixLstmPlan {
    /// Heads.
    pub heads: usize,
    /// Width of a head of queries and keys.
    pub key_dim: usize,
    /// Width of a head of values.
    pub value_dim: usize,
    /// Bound that tanh puts on the gates.
    pub gate_cap: f32,
}

/// Attention to blocks of keys that an indexer chooses.
#[derive(Clone, Copy, Debug)]
pub struct BlockPlan {
    /// Heads of the indexer, each for a group of query heads.
    pub heads: usize,
    /// Their width.
    pub head_dim: usize,
    /// Positions of a block.
    pub size: usize,
    /// Blocks that are attended to.
    pub chosen: usize,
    /// The number of these that are the last ones, whatever their scores.
    pub local: usize,
}

/// Linear attention whose states decay at a fixed rate for each head (Qin et al., "Lightning
/// Attention-2", 2024).
#[derive(Clone, Copy, Debug)]
pub struct DecayingPlan {
    /// Heads.
    pub heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Factor of the rates, which fall from head to head by 2^(-8 / heads).
    pub slope: f32,
    /// The activation of queries, keys and values.
    pub activation: Activation,
    /// Epsilon of the norm of the output.
    pub eps: f32,
}

/// Attention.
#[derive(Clone, Debug)]
pub struct AttentionPlan {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a query's and a key's head.
    pub head_dim: usize,
    /// Width of a value's head.
    pub value_dim: usize,
    /// Factor of the scores.
    pub scale: f32,
    /// Bound that tanh puts on the scores.
    pub softcap: Option<f32>,
    /// Positions that it looks back, its own included.
    pub window: Option<usize>,
    /// Whether it looks back to the last multiple of the window instead.
    pub chunked: bool,
    /// Whether a position sees those before it alone.
    pub causal: bool,
    /// The index of its entry in [`Plan::ropes`].
    pub rope: Option<usize>,
    /// Scores fall with the distance, by a slope for each head (ALiBi): a factor of the slopes.
    pub alibi: Option<f32>,
    /// Scores have a learned bias for the distance of two tokens.
    pub distances: Option<DistancePlan>,
    /// Scores have parts that depend on the distance and on the query or the key.
    pub disentangled: Option<DisentangledPlan>,
    /// Bound of queries, keys and values.
    pub clip: Option<f32>,
    /// Bounds queries and keys after their norms, and values.
    pub normed_clip: Option<f32>,
    /// Whether queries and keys are normed after they are turned.
    pub normed_last: bool,
    /// Whether queries and keys are normed without factors.
    pub bare_norms: bool,
    /// Whether norms of q and k have factors for each head.
    pub norms_of_heads: bool,
    /// Whether values are normed, without factors.
    pub value_norm: bool,
    /// Queries grow with the position.
    pub temperature: Option<Temperature>,
    /// The function of the gate of what attention gives, if the layer has one.
    pub gate: GateFunction,
    /// Factor of the values.
    pub value_scale: f32,
    /// The earlier layer whose keys and values it uses.
    pub keys_of: Option<usize>,
    /// The second half of the heads is subtracted from the first (Ye et al., "Differential Transformer",
    /// 2024): the part of its factor that is not learned.
    pub differential: Option<f32>,
    /// An indexer chooses the blocks of keys that it attends to.
    pub blocks: Option<BlockPlan>,
    /// With a mask that is computed from the values, how many keys it attends to.
    pub kept_keys: Option<usize>,
}

/// Parts of scores that depend on distances (He et al., "DeBERTa", 2021).
#[derive(Clone, Copy, Debug)]
pub struct DisentangledPlan {
    /// Distances to each side that have a row.
    pub span: usize,
    /// With ranges of distances, the distance that the last one ends at.
    pub farthest: Option<usize>,
    /// Whether the matrices of queries and keys serve for distances too.
    pub shared: bool,
    /// Whether queries are multiplied by keys of distances.
    pub of_queries: bool,
    /// Whether keys are multiplied by queries of distances.
    pub of_keys: bool,
}

/// The factor of queries at position `p`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Temperature {
    /// 1 + factor * ln(1 + floor((first + p) / step)).
    Logarithm {
        /// Factor of the logarithm.
        factor: f32,
        /// Positions with the same factor.
        step: usize,
        /// The number that the first position counts as.
        first: usize,
    },
    /// (1 + (1 + p) / length)^exponent.
    Power {
        /// The number of positions that counts as one.
        length: f32,
        /// The exponent.
        exponent: f32,
    },
}

impl Temperature {
    /// The factor of the query at a position.
    #[expect(clippy::cast_precision_loss, reason = "positions are computed in f32")]
    pub(crate) fn at(self, position: usize) -> f32 {
        match self {
            Self::Logarithm { factor, step, first } => {
                1.0 + factor * (1.0 + ((first + position) / step.max(1)) as f32).ln()
            }
            Self::Power { length, exponent } => {
                (1.0 + (position + 1) as f32 / length).powf(exponent)
            }
        }
    }
}

impl Residual {
    /// The factors of the stream and of what is added to it, for the sum with this index.
    #[expect(clippy::cast_precision_loss, reason = "a number of layers")]
    pub(crate) fn factors(self, sum: usize) -> (f32, f32) {
        match self {
            Self::Scaled(factor) => (1.0, factor),
            Self::ByDepth => {
                let number = (sum + 2) as f32;
                (((number - 1.0) / number).sqrt(), number.sqrt().recip())
            }
        }
    }
}

/// The function of attention's gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum GateFunction {
    /// The sigmoid.
    Sigmoid,
    /// ln(1 + e^x).
    Softplus,
}

/// A learned bias of scores for the distance of two tokens (Raffel et al., "Exploring the Limits of
/// Transfer Learning with a Unified Text-to-Text Transformer", 2020).
#[derive(Clone, Copy, Debug)]
pub struct DistancePlan {
    /// Ranges of distances, each with a bias for each head.
    pub buckets: usize,
    /// From this distance on, all are in the last range.
    pub farthest: usize,
    /// Whether each layer has its own biases. Otherwise all have those of the first.
    pub of_layers: bool,
}

/// Settings of latent attention.
#[derive(Clone, Copy, Debug)]
pub struct LatentPlan {
    /// Rank of the compressed queries, where they are compressed.
    pub q_rank: Option<usize>,
    /// Rank of the compressed keys and values.
    pub kv_rank: usize,
    /// Elements of a head that are rotated, behind the others.
    pub rotated: usize,
    /// Epsilon of the norms in the narrower space.
    pub eps: f32,
}

/// Linear attention by the gated delta rule.
#[derive(Clone, Copy, Debug)]
pub struct LinearPlan {
    /// Key heads.
    pub key_heads: usize,
    /// Value heads.
    pub value_heads: usize,
    /// Width of a key head.
    pub key_dim: usize,
    /// Width of a value head.
    pub value_dim: usize,
    /// Positions that the convolution sees.
    pub kernel: usize,
    /// Factor of the rates at which states are written: 2 where they may overshoot.
    pub rate_scale: f32,
    /// Bound of the logarithm of the decay, which then is a sigmoid between 0 and the bound.
    pub decay_bound: Option<f32>,
    /// Epsilon of the norm of the output.
    pub eps: f32,
    /// The function of the output's gate.
    pub gate: OutputGate,
}

/// The function of the gate that an output is multiplied with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OutputGate {
    /// x times its sigmoid.
    Silu,
    /// The sigmoid.
    Sigmoid,
}

impl From<OutputGate> for Function {
    fn from(gate: OutputGate) -> Self {
        match gate {
            OutputGate::Silu => Activation::Silu.into(),
            OutputGate::Sigmoid => Self::Sigmoid,
        }
    }
}

/// A state-space layer.
#[derive(Clone, Copy, Debug)]
pub struct StateSpacePlan {
    /// Its width.
    pub inner: usize,
    /// Elements of a channel's state.
    pub state: usize,
    /// Vectors that write and read the states of as many groups of channels.
    pub groups: usize,
    /// Mamba 2: heads, whose channels decay alike.
    pub heads: Option<usize>,
    /// Positions that its convolution sees.
    pub kernel: usize,
    /// The activation after the convolution.
    pub activation: Activation,
    /// Bounds of the time steps.
    pub step_bounds: Option<(f32, f32)>,
    /// Mamba without heads: epsilon of norms without factors, of what writes and reads the state.
    pub bare_norms: Option<f32>,
    /// Mamba 2: whether the output is normed before it is gated.
    pub gated_last: bool,
    /// Factor of the input.
    pub input_scale: f32,
    /// Mamba 2: factors of the gate, the channels, the vectors that write and read, and the time steps.
    pub part_scales: [f32; 5],
}

impl StateSpacePlan {
    /// The channels of its convolution.
    pub fn channels(&self) -> usize {
        match self.heads {
            None => self.inner,
            Some(_) => self.inner + 2 * self.groups * self.state,
        }
    }
}

/// The network that a layer applies to each position.
#[derive(Clone, Copy, Debug)]
pub struct NetworkPlan {
    /// Between the matrices.
    pub activation: Activation,
    /// The choice of experts for each token.
    pub routing: Routing,
    /// Deviations above the mean that gates are cut at.
    pub sparsity: Option<f32>,
    /// Factor of the gate.
    pub gate_scale: f32,
    /// Factor of the output.
    pub output_scale: f32,
}

/// The choice of experts for each token.
#[derive(Clone, Copy, Debug)]
pub struct Routing {
    /// Whether the router sees the residual stream before attention, without a norm.
    pub of_stream: bool,
    /// Experts for each token.
    pub used: usize,
    /// The function that makes scores of the router's outputs.
    pub scoring: Scoring,
    /// Whether the weights of the chosen ones are divided by their sum.
    pub normalized: bool,
    /// Factor of the weights.
    pub scale: f32,
    /// The number of groups of experts, and of groups that experts are chosen from.
    pub groups: Option<(usize, usize)>,
    /// Whether the weights multiply what experts are given, not what they give.
    pub weighs_inputs: bool,
    /// Bound that tanh puts on the router's outputs.
    pub softcap: Option<f32>,
    /// Factor of what the shared expert gives.
    pub shared_scale: f32,
}

/// The function that makes scores of the router's outputs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Scoring {
    /// Softmax over all experts. A group counts as much as its best expert.
    Softmax,
    /// Softmax over the chosen ones.
    SoftmaxOfChosen,
    /// For each chosen one, softmax over those that are not much smaller and not chosen before (Liu, Gao
    /// and Chen, "Sparse Backpropagation for MoE Training", 2023).
    SoftmaxOfNear,
    /// Sigmoid of each. A group counts as much as its two best experts.
    Sigmoid,
    /// Sigmoid of the chosen ones, which are those with the largest outputs of the router.
    SigmoidOfChosen,
}

/// The encoder of sound beside a decoder.
#[derive(Clone, Debug)]
pub struct EncoderPlan {
    /// Width.
    pub dim: usize,
    /// Bands of the spectrum.
    pub bands: usize,
    /// Positions behind the convolutions.
    pub positions: usize,
    /// Each layer.
    pub layers: Vec<LayerPlan>,
}

/// The encoder of text beside a decoder.
#[derive(Clone, Debug)]
pub struct TextEncoderPlan {
    /// Factor of its embedding.
    pub embedding_scale: f32,
    /// Each layer.
    pub layers: Vec<LayerPlan>,
    /// The token that the decoder starts with.
    pub start: u32,
}

impl Plan {
    /// Whether the model encodes a text as a whole: every position sees all others.
    pub fn encodes(&self) -> bool {
        self.layers.iter().all(|layer| match &layer.mixer {
            MixerPlan::Attention(attention) | MixerPlan::Latent(attention, _) => !attention.causal,
            _ => false,
        })
    }

    /// The attention of every layer that has any.
    pub fn attentions(&mut self) -> impl Iterator<Item = &mut AttentionPlan> {
        self.layers.iter_mut().filter_map(|layer| match &mut layer.mixer {
            MixerPlan::Attention(attention)
            | MixerPlan::Latent(attention, _)
            | MixerPlan::Both(attention, ..) => Some(attention),
            _ => None,
        })
    }

    /// The norms in layers at the place with this name.
    pub fn norm_at(&self, place: &str) -> NormPlan {
        let own = self.other_norms.iter().find(|(name, _)| name == place);
        own.map_or(self.norm, |(_, own)| *own)
    }

    /// Changes the norms in layers at the places with these names.
    pub fn change_norms(&mut self, places: &[&str], change: impl Fn(&mut NormPlan)) {
        for place in places {
            let mut own = self.norm_at(place);
            change(&mut own);
            self.other_norms.retain(|(name, _)| name != place);
            self.other_norms.push(((*place).to_owned(), own));
        }
    }

    /// The routing of every layer.
    pub fn routings(&mut self) -> impl Iterator<Item = &mut Routing> {
        self.layers.iter_mut().map(|layer| &mut layer.network.routing)
    }

    /// Sets the activation of every layer.
    pub fn set_activation(&mut self, activation: Activation) {
        self.layers.iter_mut().for_each(|layer| layer.network.activation = activation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_depth_keep_the_mean_square() {
        // The squares of both factors add up to 1, and the first sum weighs both alike.
        let (kept, added) = Residual::ByDepth.factors(0);
        assert_eq!(kept, added);
        for sum in 0..9 {
            let (kept, added) = Residual::ByDepth.factors(sum);
            assert!((kept * kept + added * added - 1.0).abs() < 1e-6);
        }
        assert_eq!(Residual::Scaled(0.5).factors(3), (1.0, 0.5));
    }

    #[test]
    fn queries_grow_with_the_position() {
        let steps = Temperature::Logarithm { factor: 0.1, step: 8, first: 1 };
        assert_eq!((steps.at(0), steps.at(6)), (1.0, 1.0));
        assert!((steps.at(7) - (1.0 + 0.1 * 2.0f32.ln())).abs() < 1e-6);
        let power = Temperature::Power { length: 4.0, exponent: 0.5 };
        assert!((power.at(3) - 2.0f32.sqrt()).abs() < 1e-6);
    }
}
