//! Canonical tensors: the facts about each. A file of families has a row for each tensor that only its families have;
//! `decoder.family` has the rows of those that several files use.

use super::ModelConfig;
use super::rule;
use super::size::Size;

/// The facts about one canonical tensor. A bias has no row: its facts follow from those of its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TensorRow {
    /// The canonical name; `{n}` stands for the layer number.
    pub(super) name: &'static str,
    pub(super) part: Part,
    pub(super) role: Role,
    pub(super) need: Need,
    /// The shapes that it may have, outermost axis first. Axes of length 1 do not count.
    pub(super) shapes: &'static [&'static [Size]],
    /// Its shape in a state space with heads (Mamba 2), if that differs.
    pub(super) with_heads: &'static [Size],
}

/// The purpose of a tensor, as far as programs treat tensors differently because of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// A matrix, or a vector for each of many tokens.
    Matrix,
    /// A vector for each of few positions or segments.
    Table,
    Norm,
    Router,
    /// A depthwise convolution.
    Convolution,
    /// A value for each channel, head or expert, or for a whole layer; a bias.
    Vector,
}

/// Whether a model requires a tensor for which its family has a name, unless the family says that it
/// is [optional](super::Architecture::optional).
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    No,
    Yes,
    /// Required, unless the layer has the other tensor.
    InsteadOf(&'static str),
    /// Required of a layer that has another tensor of the same module, such as `linear_attention`; outside of layers, of a
    /// model that has the bias.
    WithModule,
}

/// The part of a model that a tensor belongs to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    /// Before the layers.
    Input,
    Layers,
    /// After the layers.
    Output,
}

// The rows of the built-in files: `SHARED`, and `OF_FILES` with the name of each file.
include!(concat!(env!("OUT_DIR"), "/canonical.rs"));

/// The rows that a built-in file has.
pub(super) fn rows_of_file(name: &str) -> &'static [TensorRow] {
    match name {
        "decoder" => SHARED,
        _ => OF_FILES.iter().find(|(file, _)| *file == name).map_or(&[], |(_, rows)| *rows),
    }
}

/// All rows, as a family with these rows of its own sees them. Its own take precedence.
pub(super) fn rows(own: &'static [TensorRow]) -> impl Iterator<Item = &'static TensorRow> {
    own.iter().chain(SHARED).chain(OF_FILES.iter().flat_map(|(_, rows)| *rows))
}

/// Whether a model requires a tensor if its family has a name for it.
pub(super) fn is_required(canonical: &str, own: &'static [TensorRow]) -> bool {
    let row = rows(own).find(|row| row.name == canonical);
    row.is_some_and(|row| !matches!(row.need, Need::No))
}

/// Whether layers have a norm at the place with this name, such as `ffn_norm`.
pub(super) fn is_norm_of_layers(place: &str, own: &'static [TensorRow]) -> bool {
    let tensor = CanonicalTensor::of(&format!("layers.{{n}}.{place}.weight"), own);
    tensor.is_some_and(|tensor| tensor.row.role == Role::Norm) && !place.contains('.')
}

/// A canonical tensor: the facts of its row, or of its weight's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanonicalTensor {
    pub(super) row: &'static TensorRow,
    is_bias: bool,
    pub(crate) layer: Option<u32>,
}

impl CanonicalTensor {
    /// The tensor with this canonical name, for a family with these rows of its own. Every name in the tables of a
    /// built-in family has one.
    pub(crate) fn of(canonical: &str, own: &'static [TensorRow]) -> Option<Self> {
        let rule::Pattern { layers: name, layer, .. } = rule::pattern(canonical);
        let module = name.strip_suffix(".bias");
        let mut of_weight = None;
        for row in rows(own) {
            if row.name == name {
                return Some(Self { row, is_bias: false, layer });
            }
            if of_weight.is_none() && module.is_some() {
                of_weight = Some(row).filter(|row| row.name.strip_suffix(".weight") == module);
            }
        }
        Some(Self { row: of_weight?, is_bias: true, layer })
    }

    /// The part of the model that it belongs to.
    pub(crate) fn part(&self) -> Part {
        self.row.part
    }

    /// Whether a program that computes with the tensor needs its values as `F32`, and they are few.
    pub(super) fn is_small(&self) -> bool {
        self.is_bias || self.row.role != Role::Matrix
    }

    /// Whether the first axis counts experts that have their own values. That of a router counts
    /// its outputs.
    pub(crate) fn has_experts(&self) -> bool {
        let experts = self.row.shapes.first().and_then(|axes| axes.first());
        self.row.role != Role::Router && experts == Some(&Size::Experts)
    }

    /// The most axes that it has in a checkpoint. A router of one output may be a matrix of one row.
    pub(crate) fn most_axes(&self) -> usize {
        let most = self.shapes(None).map(<[Size]>::len).max().unwrap_or(usize::MAX);
        most.saturating_add(usize::from(self.row.role == Role::Router))
    }

    /// The meaning of the first axis.
    pub(crate) fn rows(&self) -> Option<Size> {
        self.shapes(None).next()?.first().copied()
    }

    /// The shapes that it may have, outermost axis first.
    pub(crate) fn shapes(
        &self,
        config: Option<&ModelConfig>,
    ) -> impl Iterator<Item = &'static [Size]> {
        let has_heads = config.is_some_and(|config| config.ssm.group_count.is_some());
        let (row, with_heads) = (self.row, &self.row.with_heads);
        let shapes = match has_heads && !with_heads.is_empty() {
            true => std::slice::from_ref(with_heads),
            false => row.shapes,
        };
        // A norm has a bias for each weight; a matrix has one for each row.
        let axes = match (self.is_bias && row.role != Role::Norm, self.has_experts()) {
            (false, _) => usize::MAX,
            (true, false) => 1,
            (true, true) => 2,
        };
        shapes.iter().map(move |shape| shape.get(..axes).unwrap_or(shape))
    }
}
