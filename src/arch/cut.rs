//! Cuts: how the tensors of a model are divided among ranks, by canonical name.
//!
//! Engines that run a model on several devices divide its matrices in pairs, as Megatron-LM does: the
//! first by outputs, the second by inputs, so that only the result of the second must be summed over
//! the ranks (Shoeybi et al. 2019, section 3). Attention is divided by whole heads.

use super::rule;
use super::size::{Size, Unit};
use super::tensor::{CanonicalTensor, Part};
use super::{Architecture, LayerKind, ModelConfig};
use crate::error::{Error, Result};

/// The axis along which a tensor is divided, and its unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cut {
    /// Every rank has the whole tensor.
    Whole,
    /// By outputs: the first axis, or the first one of an expert.
    Outputs(Unit),
    /// By inputs: the last axis. Every rank has the whole bias: it is added once, after the sum.
    Inputs(Unit),
    /// By heads if the tensor has a value for each element of each head; otherwise as `Whole`.
    PerHead(Unit),
    /// By outputs, in sections that are divided one by one.
    Sections(&'static [Size]),
    /// By outputs, in this number of equal sections.
    Equal(u64),
}

/// The division of one canonical tensor among ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorCut {
    /// Whether the first axis counts experts.
    pub(crate) experts: bool,
    /// The division of each expert, or of the whole tensor.
    pub(crate) cut: Cut,
    stack: Stack,
}

/// The place of a tensor among the stages of a pipeline.
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

impl Stack {
    fn of(canonical: &str) -> Self {
        let layer = rule::pattern(canonical).layer;
        Self { layer, encoder: canonical.starts_with("enc.") }
    }
}

impl Cut {
    /// The cut of a tensor, or of one of its experts, with these axes.
    fn of_axes(axes: &[Size]) -> Self {
        let unit = |size: Option<&Size>| size.and_then(|size| size.unit());
        if let [Size::Sum(sections @ [first, ..]), ..] = axes
            && sections.iter().all(|size| size.unit().is_some())
        {
            return match sections.iter().all(|size| size == first) {
                true => Self::Equal(sections.len() as u64),
                false => Self::Sections(sections),
            };
        }
        let outputs = unit(axes.first()).map(Self::Outputs);
        outputs.or_else(|| unit(axes.last()).map(Self::Inputs)).unwrap_or(Self::Whole)
    }

    /// The cut of a tensor that has one of several shapes: the norm of all heads may also be that of
    /// one head, which has nothing to divide.
    fn either(self, other: Self) -> Self {
        match (self, other) {
            (Self::Whole, Self::Outputs(unit)) => Self::PerHead(unit),
            _ => self,
        }
    }
}

impl TensorCut {
    /// The cut of a canonical tensor. Every rank has the whole of a tensor whose axes have no units:
    /// norms, routers, the projections of latent attention to its narrow vectors.
    pub(crate) fn of(
        canonical: &str,
        tensor: Option<CanonicalTensor>,
        config: Option<&ModelConfig>,
    ) -> Self {
        let stack = Stack::of(canonical);
        let Some(tensor) = tensor else {
            return Self { experts: false, cut: Cut::Whole, stack };
        };
        let experts = tensor.has_experts();
        let one = |axes: &'static [Size]| axes.get(usize::from(experts)..).unwrap_or_default();
        let cuts = tensor.shapes(config).map(|axes| Cut::of_axes(one(axes)));
        Self { experts, cut: cuts.reduce(Cut::either).unwrap_or(Cut::Whole), stack }
    }
}

impl Architecture {
    /// The place of a canonical tensor among the stages of a pipeline.
    pub(crate) fn stage(&self, canonical: &str, config: &ModelConfig) -> Stage {
        let stack = Stack::of(canonical);
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
        // A tied embedding is the output matrix as well.
        let tied = config.tie_embeddings.as_ref().is_some_and(|tied| tied.value);
        match self.canonical_tensor(canonical).map(|tensor| tensor.part()) {
            Some(Part::Input) if tied && canonical == "token_embedding.weight" => {
                Stage::Both(start, last)
            }
            Some(Part::Input) => Stage::At(start),
            Some(Part::Output) => Stage::At(last),
            Some(Part::Layers) | None => Stage::Every,
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
    u64::from(config.n_layers.value.saturating_sub(config.counted_next_layers())).max(1)
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
            Unit::State => Some(
                config
                    .ssm
                    .time_step_rank
                    .as_ref()
                    .map(|n| u64::from(n.value))
                    .ok_or_else(unstated)?,
            ),
        })
    }

    /// The division of the tensor, in words for reports.
    pub(crate) fn describe(&self) -> String {
        let experts = if self.experts { Some("experts".to_owned()) } else { None };
        let cut = match self.cut {
            Cut::Whole => None,
            Cut::Outputs(unit) | Cut::PerHead(unit) => Some(format!("outputs by {}", unit.name())),
            Cut::Inputs(unit) => Some(format!("inputs by {}", unit.name())),
            Cut::Sections(sizes) => Some(format!("outputs in {} sections", sizes.len())),
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
