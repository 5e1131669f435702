//! Types of config values that are not numbers.

use std::num::NonZeroU32;

use crate::json::Json;

/// The scaling of rotary embeddings to contexts longer than those of training.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RopeScalingKind {
    /// No scaling.
    None,
    /// Positions are divided by the factor.
    Linear,
    /// The base grows with the context.
    Dynamic,
    /// YaRN: low frequencies are interpolated, high ones kept, with a ramp between them.
    Yarn,
    /// LongRoPE: a divisor for each frequency, one set for short contexts and one for long ones.
    LongRope,
    /// Llama 3's method: low frequencies are divided by the factor, high ones kept.
    Llama3,
    /// The rotated part is spread over the whole head (Gemma 4).
    Proportional,
    /// A divisor for each frequency, stored as a tensor. GGUF stores Llama 3's method this way.
    Tensor,
    /// Another method, as the file names it.
    Other(String),
}

impl RopeScalingKind {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            // `mrope` states that there are sections, and nothing about scaling.
            "default" | "none" | "mrope" => Self::None,
            "linear" => Self::Linear,
            "dynamic" => Self::Dynamic,
            "yarn" => Self::Yarn,
            "longrope" | "su" => Self::LongRope,
            "llama3" => Self::Llama3,
            "proportional" => Self::Proportional,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name, as reports show it.
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Linear => "linear",
            Self::Dynamic => "dynamic",
            Self::Yarn => "yarn",
            Self::LongRope => "longrope",
            Self::Llama3 => "llama3",
            Self::Proportional => "proportional",
            Self::Tensor => "tensor",
            Self::Other(name) => name,
        }
    }
}

/// The function that makes expert weights of router scores.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Gating {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each score.
    Sigmoid,
    /// Softmax over the chosen experts.
    SoftmaxOfChosen,
    /// Square root of the softplus of each score.
    SqrtSoftplus,
    /// Another function, by the file's name or number.
    Other(String),
}

impl Gating {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            // The numbers are GGUF's `expert_gating_func`.
            "softmax" | "1" => Self::Softmax,
            "sigmoid" | "2" => Self::Sigmoid,
            "3" => Self::SoftmaxOfChosen,
            "sqrtsoftplus" | "4" => Self::SqrtSoftplus,
            other => Self::Other(other.to_owned()),
        }
    }

    /// GGUF's number for it.
    pub(crate) fn number(&self) -> Option<u32> {
        Some(match self {
            Self::Softmax => 1,
            Self::Sigmoid => 2,
            Self::SoftmaxOfChosen => 3,
            Self::SqrtSoftplus => 4,
            Self::Other(_) => return None,
        })
    }

    /// The name, as reports show it.
    pub fn name(&self) -> &str {
        match self {
            Self::Softmax => "softmax",
            Self::Sigmoid => "sigmoid",
            Self::SoftmaxOfChosen => "softmax_of_chosen",
            Self::SqrtSoftplus => "sqrt_softplus",
            Self::Other(name) => name,
        }
    }
}

/// The kind of normalization.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NormKind {
    /// RMS norm: divides by the root of the mean square.
    Rms,
    /// Layer norm: subtracts the mean first, and adds a bias.
    Layer,
}

impl NormKind {
    /// The name, as reports show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rms => "rms",
            Self::Layer => "layer",
        }
    }
}

/// The kind of a layer, by how it mixes positions.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LayerKind {
    /// Attention to all positions.
    Full,
    /// Attention to a sliding window.
    Sliding,
    /// Attention within chunks.
    Chunked,
    /// Linear attention, with a state.
    Linear,
    /// Another kind, as the file names it.
    Other(String),
}

impl LayerKind {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "full_attention" | "attention" | "global" => Self::Full,
            "sliding_attention" | "local" => Self::Sliding,
            "chunked_attention" => Self::Chunked,
            "linear_attention" => Self::Linear,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name, as reports show it.
    pub fn name(&self) -> &str {
        match self {
            Self::Full => "full_attention",
            Self::Sliding => "sliding_attention",
            Self::Chunked => "chunked_attention",
            Self::Linear => "linear_attention",
            Self::Other(name) => name,
        }
    }
}

/// The kind of each layer. A periodic pattern is stored as a pattern, so that a large number of
/// layers in a file costs no memory.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LayerLayout {
    /// All layers are of one kind.
    Same(LayerKind),
    /// The last layer of each period attends to all positions; the others are of this kind.
    Period(NonZeroU32, LayerKind),
    /// Layers from this one on are of this kind; those before it attend to all positions.
    From(u32, LayerKind),
    /// As the file lists them.
    Each(Vec<LayerKind>),
}

impl LayerLayout {
    /// The kind of a layer, counted from 0. `None` beyond the layers that the file lists.
    pub fn kind(&self, layer: u32) -> Option<&LayerKind> {
        match self {
            Self::Same(kind) => Some(kind),
            Self::Period(period, _) if layer % *period == period.get() - 1 => {
                Some(&LayerKind::Full)
            }
            Self::From(first, _) if layer < *first => Some(&LayerKind::Full),
            Self::Period(_, kind) | Self::From(_, kind) => Some(kind),
            Self::Each(kinds) => kinds.get(usize::try_from(layer).ok()?),
        }
    }

    /// The shortest form of a list.
    pub(crate) fn of(kinds: Vec<LayerKind>) -> Self {
        let Some(first) = kinds.first() else { return Self::Each(kinds) };
        if kinds.iter().all(|kind| kind == first) {
            return Self::Same(first.clone());
        }
        let full = kinds.iter().position(|kind| *kind == LayerKind::Full).unwrap_or(kinds.len());
        let period = u32::try_from(full.saturating_add(1)).ok().and_then(NonZeroU32::new);
        if let Some(period) = period.filter(|period| period.get() > 1) {
            let layout = Self::Period(period, first.clone());
            if layout.agrees(&kinds) {
                return layout;
            }
        }
        Self::Each(kinds)
    }

    /// Whether the layout agrees with a list.
    pub(crate) fn agrees(&self, kinds: &[LayerKind]) -> bool {
        (0u32..).zip(kinds).all(|(layer, kind)| self.kind(layer) == Some(kind))
    }
}

/// The layers that have a sliding window, in the form that a file gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LayerPattern {
    /// The period: the last layer of each period has no window. 0: all layers have one.
    Period(u32),
    /// Whether each layer has a window.
    Each(Vec<bool>),
}

/// One number for all layers, or one for each layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PerLayer {
    Same(u32),
    Each(Vec<u32>),
}

impl PerLayer {
    pub(crate) fn largest(&self) -> u32 {
        match self {
            Self::Same(number) => *number,
            Self::Each(numbers) => numbers.iter().copied().max().unwrap_or(0),
        }
    }
}

/// Conversion of a value to JSON, for reports.
pub(crate) trait Reported {
    fn reported(&self) -> Json;
}

impl Reported for u32 {
    fn reported(&self) -> Json {
        (*self).into()
    }
}

impl Reported for bool {
    fn reported(&self) -> Json {
        (*self).into()
    }
}

impl Reported for f32 {
    /// With the digits of the `f32`, not those of its exact value in `f64`.
    fn reported(&self) -> Json {
        self.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(*self)).into()
    }
}

impl Reported for String {
    fn reported(&self) -> Json {
        self.as_str().into()
    }
}

impl<T: Reported> Reported for Vec<T> {
    fn reported(&self) -> Json {
        self.iter().map(Reported::reported).collect()
    }
}

impl Reported for RopeScalingKind {
    fn reported(&self) -> Json {
        self.name().into()
    }
}

impl Reported for Gating {
    fn reported(&self) -> Json {
        self.name().into()
    }
}

impl Reported for NormKind {
    fn reported(&self) -> Json {
        self.name().into()
    }
}

impl Reported for LayerKind {
    fn reported(&self) -> Json {
        self.name().into()
    }
}

impl Reported for LayerLayout {
    fn reported(&self) -> Json {
        match self {
            Self::Same(kind) => kind.reported(),
            Self::Period(period, kind) => {
                crate::json::json!({"period": period.get(), "last": "full_attention", "others": kind.name()})
            }
            Self::From(first, kind) => {
                crate::json::json!({"from": first, "kind": kind.name(), "before": "full_attention"})
            }
            Self::Each(kinds) => kinds.reported(),
        }
    }
}

impl Reported for LayerPattern {
    fn reported(&self) -> Json {
        match self {
            Self::Period(period) => period.reported(),
            Self::Each(windows) => windows.reported(),
        }
    }
}

impl Reported for PerLayer {
    fn reported(&self) -> Json {
        match self {
            Self::Same(number) => number.reported(),
            Self::Each(numbers) => numbers.reported(),
        }
    }
}
