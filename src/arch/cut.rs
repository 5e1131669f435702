//! Cuts: how the tensors of a model are divided among ranks, by canonical name.
//!
//! Engines that run a model on several devices divide its matrices in pairs, as Megatron-LM does: the
//! first by outputs, the second by inputs, so that only the result of the second must be summed over
//! the ranks (Shoeybi et al. 2019, section 3). Attention is divided by whole heads.

use super::rule::{self, Pattern};
use super::{Architecture, LayerKind, ModelConfig};
use crate::error::{Error, Result};

/// How the tensors of a module are divided among the ranks of tensor parallelism.
#[derive(Debug)]
pub(crate) struct CutRule {
    /// The canonical name without `.weight` and `.bias`.
    module: &'static str,
    /// Whether the first axis counts experts, which expert parallelism divides.
    experts: bool,
    cut: Cut,
}

/// The axis along which a tensor is divided, and its unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cut {
    /// Every rank has the whole tensor.
    Whole,
    /// By outputs: the first axis, or the first one of an expert. The bias has as many elements and
    /// is divided alike.
    Outputs(Unit),
    /// By inputs: the last axis. Every rank has the whole bias: it is added once, after the sum.
    Inputs(Unit),
    /// By heads if the tensor has a value for each element of each head; otherwise as `Whole`.
    PerHead(Unit),
    /// By outputs, in sections that are divided one by one.
    Sections(&'static [Unit]),
    /// By outputs, in this number of equal sections.
    Equal(u64),
}

/// What is not divided further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// Elements: blocks, where a dtype has them.
    Element,
    /// Tokens. The last ranks may have fewer.
    Token,
    /// Query heads.
    Query,
    /// Key and value heads. Several ranks have the same one if there are fewer than ranks.
    Key,
    /// Groups of a state space, or key heads of linear attention. As `Key`.
    Group,
    /// Channels of a state space, or of the values of linear attention, by heads.
    Channel,
    /// Heads of a state space, or value heads of linear attention.
    State,
}

impl Unit {
    /// The name in messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Element => "elements",
            Self::Token => "tokens",
            Self::Query => "query heads",
            Self::Key => "key heads",
            Self::Group => "groups",
            Self::Channel | Self::State => "heads of the state",
        }
    }

    /// Whether several ranks have the same unit if there are fewer units than ranks.
    pub(crate) const fn is_shared(self) -> bool {
        matches!(self, Self::Key | Self::Group)
    }
}

const fn row(module: &'static str, cut: Cut) -> CutRule {
    CutRule { module, experts: false, cut }
}

const fn experts(module: &'static str, cut: Cut) -> CutRule {
    CutRule { module, experts: true, cut }
}

/// A module for which a family has a rule of its own.
pub(super) const fn own(module: &'static str, cut: Cut) -> CutRule {
    row(module, cut)
}

/// The rules that families share. What is in no row is small, and every rank has it: norms, routers,
/// the projections of latent attention to its narrow vectors. Encoders have the names of decoders
/// after `enc.`.
#[rustfmt::skip]
static CUTS: &[CutRule] = &[
    row("token_embedding",                    Cut::Outputs(Unit::Token)),
    row("per_layer_embedding",                Cut::Outputs(Unit::Token)),
    row("output",                             Cut::Outputs(Unit::Token)),
    row("masked_words.output",                Cut::Outputs(Unit::Token)),
    row("layers.{n}.nextn.embedding",         Cut::Outputs(Unit::Token)),
    row("layers.{n}.nextn.output",            Cut::Outputs(Unit::Token)),
    row("layers.{n}.attention.q",             Cut::Outputs(Unit::Query)),
    row("layers.{n}.attention.gate",          Cut::Outputs(Unit::Query)),
    row("layers.{n}.attention.sinks",         Cut::Outputs(Unit::Query)),
    row("layers.{n}.attention.k",             Cut::Outputs(Unit::Key)),
    row("layers.{n}.attention.v",             Cut::Outputs(Unit::Key)),
    row("layers.{n}.attention.output",        Cut::Inputs(Unit::Query)),
    row("layers.{n}.attention.q_norm",        Cut::PerHead(Unit::Query)),
    row("layers.{n}.attention.k_norm",        Cut::PerHead(Unit::Key)),
    // Latent attention: what expands its narrow vectors.
    row("layers.{n}.attention.q_b",           Cut::Outputs(Unit::Query)),
    row("layers.{n}.attention.k_b",           Cut::Outputs(Unit::Query)),
    row("layers.{n}.attention.v_b",           Cut::Outputs(Unit::Query)),
    row("layers.{n}.cross_attn.q",            Cut::Outputs(Unit::Query)),
    row("layers.{n}.cross_attn.k",            Cut::Outputs(Unit::Key)),
    row("layers.{n}.cross_attn.v",            Cut::Outputs(Unit::Key)),
    row("layers.{n}.cross_attn.output",       Cut::Inputs(Unit::Query)),
    row("layers.{n}.attn.q",                  Cut::Outputs(Unit::Query)),
    row("layers.{n}.attn.k",                  Cut::Outputs(Unit::Key)),
    row("layers.{n}.attn.v",                  Cut::Outputs(Unit::Key)),
    row("layers.{n}.attn.output",             Cut::Inputs(Unit::Query)),
    // A bias for each range of distances and each head.
    row("layers.{n}.attention.relative_bias", Cut::Inputs(Unit::Query)),
    row("layers.{n}.cross_attn.relative_bias", Cut::Inputs(Unit::Query)),
    row("layers.{n}.attn.relative_bias",      Cut::Inputs(Unit::Query)),
    row("layers.{n}.ffn.gate",                Cut::Outputs(Unit::Element)),
    row("layers.{n}.ffn.up",                  Cut::Outputs(Unit::Element)),
    row("layers.{n}.ffn.down",                Cut::Inputs(Unit::Element)),
    row("layers.{n}.ffn.shared_expert.gate",  Cut::Outputs(Unit::Element)),
    row("layers.{n}.ffn.shared_expert.up",    Cut::Outputs(Unit::Element)),
    row("layers.{n}.ffn.shared_expert.down",  Cut::Inputs(Unit::Element)),
    experts("layers.{n}.ffn.experts.gate",    Cut::Outputs(Unit::Element)),
    experts("layers.{n}.ffn.experts.up",      Cut::Outputs(Unit::Element)),
    experts("layers.{n}.ffn.experts.down",    Cut::Inputs(Unit::Element)),
    experts("layers.{n}.ffn.experts.output_scale", Cut::Whole),
    row("layers.{n}.linear_attention.q",      Cut::Outputs(Unit::Group)),
    row("layers.{n}.linear_attention.k",      Cut::Outputs(Unit::Group)),
    row("layers.{n}.linear_attention.v",      Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.gate",   Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.conv",   Cut::Sections(&[Unit::Group, Unit::Group, Unit::Channel])),
    row("layers.{n}.linear_attention.alpha",  Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.beta",   Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.a_log",  Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.dt_bias", Cut::Outputs(Unit::State)),
    row("layers.{n}.linear_attention.output", Cut::Inputs(Unit::State)),
    // Mamba 1: the channels, and then their gates.
    row("layers.{n}.ssm.in",                  Cut::Equal(2)),
    row("layers.{n}.ssm.conv",                Cut::Outputs(Unit::Element)),
    row("layers.{n}.ssm.x",                   Cut::Inputs(Unit::Element)),
    row("layers.{n}.ssm.dt",                  Cut::Outputs(Unit::Element)),
    row("layers.{n}.ssm.a_log",               Cut::Outputs(Unit::Element)),
    row("layers.{n}.ssm.d",                   Cut::Outputs(Unit::Element)),
    row("layers.{n}.ssm.output",              Cut::Inputs(Unit::Element)),
    // Short convolutions: two gates and the channels.
    row("layers.{n}.short_conv.in",           Cut::Equal(3)),
    row("layers.{n}.short_conv",              Cut::Outputs(Unit::Element)),
    row("layers.{n}.short_conv.output",       Cut::Inputs(Unit::Element)),
];

/// How one canonical tensor is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorCut {
    /// Whether the first axis counts experts.
    pub(crate) experts: bool,
    /// How each expert, or the whole tensor, is divided.
    pub(crate) cut: Cut,
    stack: Stack,
}

/// Where a tensor is among the stages of a pipeline.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// In every stage.
    Every,
    /// In the stage with the layer at this position; the layers of an encoder come first.
    At(u64),
    /// In the stages of two layers.
    Both(u64, u64),
}

/// The layers that a tensor belongs to.
#[derive(Clone, Copy, Debug)]
struct Stack {
    layer: Option<u32>,
    encoder: bool,
}

/// Tensors beside the layers: the start of their names, and whether they come before the layers.
static BESIDE: &[(&str, bool)] = &[
    ("token_embedding", true),
    ("token_type_embedding", true),
    ("position_embedding", true),
    ("per_layer_", true),
    ("altup.projections", true),
    ("conv", true),
    ("output", false),
    ("altup.unembed", false),
    ("classifier", false),
    ("pooler", false),
    ("masked_words", false),
    ("next_sentence", false),
    ("dense_", false),
];

impl Architecture {
    /// How a canonical tensor is divided.
    pub(crate) fn cut(&self, canonical: &str) -> TensorCut {
        let (encoder, name) = match canonical.strip_prefix("enc.") {
            Some(name) => (true, name),
            None => (false, canonical),
        };
        let Pattern { layers, layer, .. } = rule::pattern(name);
        let module = layers.strip_suffix(".weight").unwrap_or(&layers);
        let bias = module.strip_suffix(".bias");
        let module = bias.unwrap_or(module);
        let rule = self.cuts.iter().chain(CUTS).find(|rule| rule.module == module);
        let stack = Stack { layer, encoder };
        match rule {
            None => TensorCut { experts: false, cut: Cut::Whole, stack },
            Some(CutRule { experts, cut: Cut::Inputs(_), .. }) if bias.is_some() => {
                TensorCut { experts: *experts, cut: Cut::Whole, stack }
            }
            Some(CutRule { experts, cut, .. }) => TensorCut { experts: *experts, cut: *cut, stack },
        }
    }

    /// Where a canonical tensor is among the stages of a pipeline.
    pub(crate) fn stage(&self, canonical: &str, config: &ModelConfig) -> Stage {
        let TensorCut { stack, .. } = self.cut(canonical);
        let before = u64::from(config.encoder.enc_n_layers.as_ref().map_or(0, |n| n.value));
        let (start, count) = match stack.encoder {
            true => (0, before),
            false => (before, own_layers(config)),
        };
        let last = start.saturating_add(count).saturating_sub(1);
        // The first layer may have the bias of all layers of its stack.
        let shared = stack.layer == Some(0) && canonical.ends_with(".relative_bias.weight");
        // Encoder and decoder have one embedding.
        let of_both = self.counts_encoder_layers && canonical == "token_embedding.weight";
        if shared || of_both {
            return Stage::Every;
        }
        if let Some(layer) = stack.layer {
            // Layers after the last one predict further tokens from its output.
            return Stage::At(start.saturating_add(u64::from(layer)).min(last));
        }
        let name = canonical.strip_prefix("enc.").unwrap_or(canonical);
        // A tied embedding is the output matrix as well.
        let tied = config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
        match BESIDE.iter().find(|(begins, _)| name.starts_with(begins)) {
            Some((_, true)) if tied && name == "token_embedding.weight" => Stage::Both(start, last),
            Some((_, true)) => Stage::At(start),
            Some((_, false)) => Stage::At(last),
            None => Stage::Every,
        }
    }
}

impl ModelConfig {
    /// The config of one of `of` ranks of tensor parallelism: as many heads as the rank has.
    pub(crate) fn of_rank(&self, of: u64) -> Self {
        let mut own = self.clone();
        let of = u32::try_from(of).unwrap_or(u32::MAX);
        let each = |number: &mut u32| *number = (*number / of).max(1);
        each(&mut own.n_heads.value);
        each(&mut own.n_kv_heads.value);
        own.q_dim.value = own.n_heads.value.saturating_mul(own.head_dim.value);
        own.kv_dim.value = own.n_kv_heads.value.saturating_mul(own.head_dim.value);
        let (attention, ssm) = (&mut own.attention, &mut own.ssm);
        let numbers = [
            &mut attention.n_global_kv_heads,
            &mut ssm.group_count,
            &mut ssm.time_step_rank,
            &mut ssm.inner_size,
            &mut own.encoder.enc_n_heads,
        ];
        numbers.into_iter().flatten().for_each(|number| each(&mut number.value));
        let lists = [&mut attention.n_heads_per_layer, &mut attention.n_kv_heads_per_layer];
        lists.into_iter().flatten().flat_map(|list| &mut list.value).for_each(each);
        own
    }
}

/// The number of layers that a pipeline is divided into, those of the encoder included.
pub(crate) fn pipeline_layers(config: &ModelConfig) -> u64 {
    let encoder = config.encoder.enc_n_layers.as_ref().map_or(0, |n| u64::from(n.value));
    encoder.saturating_add(own_layers(config))
}

/// The layers without those that predict further tokens.
fn own_layers(config: &ModelConfig) -> u64 {
    let next = config.experts.n_next_token_layers.as_ref().map_or(0, |next| next.value);
    u64::from(config.n_layers.value.saturating_sub(next)).max(1)
}

impl TensorCut {
    /// The number of units in the tensor; `None` for elements and tokens, which are counted.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the config does not state the number.
    pub(crate) fn count(&self, unit: Unit, config: &ModelConfig) -> Result<Option<u64>> {
        let attention = &config.attention;
        let unstated =
            || Error::mismatch(format!("the config states no number of {}", unit.name()));
        let layer = self.stack.layer.unwrap_or(0);
        let each = |list: Option<&Vec<u32>>, all: u32| {
            let own = list.and_then(|list| list.get(usize::try_from(layer).ok()?).copied());
            u64::from(own.unwrap_or(all))
        };
        let heads = || match (&config.encoder.enc_n_heads, self.stack.encoder) {
            (Some(heads), true) => u64::from(heads.value),
            _ => each(
                attention.n_heads_per_layer.as_ref().map(|each| &each.value),
                config.n_heads.value,
            ),
        };
        let keys = || match &attention.n_global_kv_heads {
            _ if self.stack.encoder => heads(),
            Some(keys) if config.layer_kind(layer) == Some(&LayerKind::Full) => {
                u64::from(keys.value)
            }
            _ => each(
                attention.n_kv_heads_per_layer.as_ref().map(|each| &each.value),
                config.n_kv_heads.value,
            ),
        };
        Ok(match unit {
            Unit::Element | Unit::Token => None,
            Unit::Query => Some(heads()),
            Unit::Key => Some(keys()),
            Unit::Group => Some(
                config.ssm.group_count.as_ref().map(|n| u64::from(n.value)).ok_or_else(unstated)?,
            ),
            Unit::Channel | Unit::State => Some(
                config
                    .ssm
                    .time_step_rank
                    .as_ref()
                    .map(|n| u64::from(n.value))
                    .ok_or_else(unstated)?,
            ),
        })
    }

    /// The length of a section.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the config does not state the numbers.
    pub(crate) fn section(&self, unit: Unit, config: &ModelConfig) -> Result<u64> {
        let ssm = &config.ssm;
        let length =
            match unit {
                Unit::Channel => ssm.inner_size.as_ref().map(|n| u64::from(n.value)),
                Unit::State => ssm.time_step_rank.as_ref().map(|n| u64::from(n.value)),
                Unit::Group => ssm.group_count.as_ref().zip(ssm.state_size.as_ref()).and_then(
                    |(groups, width)| u64::from(groups.value).checked_mul(u64::from(width.value)),
                ),
                _ => None,
            };
        length.ok_or_else(|| {
            Error::mismatch(format!("the config states no length of the {}", unit.name()))
        })
    }

    /// How the tensor is divided, for reports.
    pub(crate) fn describe(&self) -> String {
        let experts = if self.experts { Some("experts".to_owned()) } else { None };
        let cut = match self.cut {
            Cut::Whole => None,
            Cut::Outputs(unit) | Cut::PerHead(unit) => Some(format!("outputs by {}", unit.name())),
            Cut::Inputs(unit) => Some(format!("inputs by {}", unit.name())),
            Cut::Sections(units) => Some(format!("outputs in {} sections", units.len())),
            Cut::Equal(sections) => Some(format!("outputs in {sections} sections")),
        };
        let all: Vec<String> = experts.into_iter().chain(cut).collect();
        all.join(", ")
    }

    /// The largest width of a head, to tell the norm of a head from that of all heads.
    pub(crate) fn head_width(&self, config: &ModelConfig) -> u64 {
        let local = config.attention.local_head_dim.as_ref().map_or(0, |width| width.value);
        u64::from(config.head_dim.value.max(local))
    }
}
